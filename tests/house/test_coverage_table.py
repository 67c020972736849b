"""The README's coverage table is the registries, and every layer a user can write is in it."""

import subprocess
import sys
from pathlib import Path

import deeplimits as dl
from deeplimits.architecture.activation import Activation
from deeplimits.architecture.dense import WeightLaw
from deeplimits.architecture.layer import Layer

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- coverage: begin -->\n", "<!-- coverage: end -->"


def registries():
    """The table in a process of its own, where no test has registered anything."""
    tool = Path(sys.executable).with_name("deeplimits")
    return subprocess.run([tool, "coverage", "--markdown"], capture_output=True, text=True, check=True).stdout


def test_readme_table_is_the_registries():
    page = (ROOT / "README.md").read_text()
    assert page.partition(BEGIN)[2].partition(END)[0].strip() == registries().strip()


def test_every_public_layer_is_listed():
    listed = {layer for line in registries().splitlines()[2:] for layer in line.split("|")[1].strip().split(", ")}
    public = {getattr(room, name) for room in (dl.act, dl.layer) for name in room.__all__}
    layers = {kind.__name__ for kind in public if isinstance(kind, type) and issubclass(kind, Layer)}
    assert layers - {Activation.__name__, Layer.__name__, WeightLaw.__name__} - listed == set()
