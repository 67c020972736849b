"""The description of networks that add a mean in every block."""

from __future__ import annotations

from math import inf, nan

import pytest

from deeplimits.errors import DescriptionError
from deeplimits.training import MeanResNet
from tests.limits.refusal import refused


def test_names_become_activations():
    assert MeanResNet("erf") == MeanResNet("erf", scale=1.0) != MeanResNet("tanh")
    assert MeanResNet(scale=inf).lazy and not MeanResNet().lazy


@pytest.mark.parametrize(
    "options",
    [
        {"scale": 0}, {"scale": -1.0}, {"scale": nan}, {"scale": True}, {"scale": "1"}, {"scale": 1e9}, {"scale": 1e-9},
        {"inner_std": -1.0}, {"outer_std": inf}, {"readout": "linear"}, {"readout_scale": 2.0},
        {"readout": "trained", "readout_scale": inf},
    ],
    ids=str,
)  # fmt: skip
def test_options_that_cannot_be(options):
    refused(lambda: MeanResNet("tanh", **options), DescriptionError, list(options)[-1])
