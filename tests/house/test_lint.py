"""The linter and the type checker have nothing to say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(tool, *arguments):
    command = [Path(sys.executable).with_name(tool), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_ruff():
    result = run("ruff", "check", "--no-cache", "--output-format=concise")
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
def test_pyright():
    version = run("pyright", "--version")
    if version.returncode != 0 and not os.environ.get("CI"):
        pytest.skip("pyright needs node, or a package registry to take it from")
    result = run("pyright")
    assert result.returncode == 0, result.stdout + result.stderr
