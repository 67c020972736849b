"""Keel: the skip's gradient, the movement of the signal, and what cannot be asked for."""

import math

import pytest
import torch
from torch import nn

from deeplimits.blocks import Keel, movement, skip_gradient
from deeplimits.errors import InputError


class Draw(nn.Module):
    """A branch whose outputs are drawn: iid, of variance 1, and without a gradient."""

    def forward(self, x):
        return torch.randn_like(x)


def passed(layers, alpha, width=256, inputs=64):
    """Return the gradient's norm at the first layer over that at the last, and the mean square movement."""
    x = nn.functional.layer_norm(torch.randn(inputs, width), (width,)).requires_grad_()
    last = Keel.stack([Draw() for _ in range(layers)], width, alpha)(x)
    probe = torch.randn_like(x)
    (gradient,) = torch.autograd.grad((last * probe).sum(), x)
    return float(gradient.norm() / probe.norm()), float((last - x).detach().square().mean())


@pytest.mark.parametrize(("layers", "alpha"), [(64, "L"), (256, "L"), (64, "sqrtL"), (256, "sqrtL")])
def test_skip_carries_the_gradient(layers, alpha):
    measured, _ = passed(layers, alpha)
    assert measured == pytest.approx(skip_gradient(layers, alpha), rel=0.05)  # the 5 %


def test_skip_of_post_norm_loses_half_the_square_a_layer():
    measured, _ = passed(64, 1.0)
    assert math.log2(measured) / 64 == pytest.approx(math.log2(skip_gradient(64, 1.0)) / 64, rel=0.05)
    assert skip_gradient(64, 1.0) == pytest.approx(2.0**-32)


@pytest.mark.parametrize("layers", [32, 128])
def test_movement_is_one_over_the_depth(layers):
    _, moved = passed(layers, "L")
    assert moved == pytest.approx(movement(layers), rel=0.05)
    assert movement(layers) == pytest.approx(1 / layers, rel=1 / layers)


def test_limits_in_depth():
    assert skip_gradient(10**6) == pytest.approx(1.0, abs=1e-6)
    assert skip_gradient(10**6, "sqrtL") == pytest.approx(math.exp(-0.5), abs=1e-6)
    assert skip_gradient(10**6, "sqrtL", branch_variance=2.0) == pytest.approx(math.exp(-1.0), abs=1e-5)


def test_large_alpha_is_a_step_of_an_ode():
    """LN(L x + F) = x + (1/L) P F; features keep mean 0 and variance 1: P removes the mean and the part along x."""
    width, layers = 64, 10_000
    block = Keel(nn.Linear(width, width), width, layers).double()
    x = nn.functional.layer_norm(torch.randn(5, width, dtype=torch.float64), (width,), eps=0.0)
    update = block.branch(block.before(x))
    update = update - update.mean(-1, keepdim=True)
    update = update - x * (x * update).mean(-1, keepdim=True)
    torch.testing.assert_close(layers * (block(x) - x), update, atol=2e-3, rtol=1e-2)


def test_full_gradient_of_post_norm_does_not_vanish():
    """With ReLU perceptrons as branches gradients also pass through them: Post-LN's law is the skip's alone."""
    width, layers = 64, 64

    def branch():
        read, write = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        nn.init.normal_(read.weight, std=width**-0.5), nn.init.normal_(write.weight, std=(2 / width) ** 0.5)
        return nn.Sequential(read, nn.ReLU(), write)

    x = torch.randn(8, width, requires_grad=True)
    last = Keel.stack([branch() for _ in range(layers)], width, 1.0)(x)
    probe = torch.randn_like(last)
    (gradient,) = torch.autograd.grad((last * probe).sum(), x)
    assert skip_gradient(layers, 1.0) < 1e-9
    assert 0.5 < gradient.norm() / probe.norm() < 3


@pytest.mark.parametrize("alpha", ["l", 0.0, -1.0, math.inf, math.nan])
def test_alpha_that_is_none(alpha):
    with pytest.raises(InputError, match="alpha="):
        Keel(nn.Identity(), 4, 2, alpha)


@pytest.mark.parametrize("layers", [0, 2.5])
def test_layers_that_are_none(layers):
    with pytest.raises(InputError, match="layers="):
        skip_gradient(layers)
