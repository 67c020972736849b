"""One plan, and a fresh target with it applied, for every framework."""

import pytest
import torch

import deeplimits as dl
from tests.transfer.models import Mlp

SIZES = {"base": {"width": 32, "depth": 4}, "target": {"width": 64, "depth": 8}}


@pytest.fixture(scope="module")
def plan():
    return dl.transfer(Mlp, **SIZES)


@pytest.fixture
def model(plan):
    torch.manual_seed(0)
    model = Mlp(**SIZES["target"])
    plan.apply(model, initial=True)
    return model
