"""The front door: names are added on purpose, at most thirty verbs and results beside the rooms, and each opens."""

import subprocess
import sys

import pytest

import deeplimits as dl

DESCRIPTIONS = {"Mlp", "ResNet", "StableResNet", "ShapedMlp", "DEPTH", "WIDTH"}
NAMES = {
    *("kernel", "Kernel", "describe", "criticality", "Criticality"),
    *("build", "sample", "empirical_ntk"),
    *("increment", "diffusion", "Diffusion", "proportional", "Proportional"),
    *("tokens", "Tokens"),
    *("gradient_flow", "mean_field"),
    *("compare", "Comparison", "plot", "html"),
    *("coordinate_check", "lr_transfer", "grow"),
    "DeepLimitsError",
}
ROOMS = {"act", "layer", "learn", "errors", "testing", "training", "transfer", "blocks", "diagnostics"}


def test_names_are_these():
    assert set(dl.__all__) == NAMES | DESCRIPTIONS | ROOMS
    assert len(NAMES) <= 30


@pytest.mark.parametrize("name", sorted(NAMES | DESCRIPTIONS | ROOMS))
def test_name_opens_and_is_documented(name):
    found = getattr(dl, name)
    assert name in dir(dl)
    assert found.__doc__


@pytest.mark.parametrize(
    "room", [dl.act, dl.layer, dl.learn, dl.training, dl.blocks, dl.diagnostics], ids=lambda room: room.__name__
)
def test_rooms_list_what_they_hold(room):
    assert [name for name in room.__all__ if not hasattr(room, name)] == []


def test_an_unknown_name_is_told():
    with pytest.raises(AttributeError, match="has no attribute 'kernal'"):
        _ = dl.kernal


def test_versions_agree():
    from importlib.metadata import version

    assert dl.__version__ == version("deeplimits")


def test_the_front_door_is_light():
    code = "import sys, deeplimits; print({'torch', 'numpy', 'numba', 'matplotlib', 'sklearn'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
