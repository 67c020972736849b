"""Widened models compute what the small ones do, with activations and gradients of the sizes that are foretold."""

from __future__ import annotations

import pytest
import torch

import deeplimits as dl
from deeplimits.transfer.anatomy.initial import materialised
from tests.transfer.growing import FAMILIES, trained


def sizes(model, inputs):
    """Root mean square of every module's output."""
    found = {}

    def keep(name):
        return lambda module, given, result: found.update(
            {name: float((result[0] if isinstance(result, tuple) else result).square().mean().sqrt())}
        )

    handles = [module.register_forward_hook(keep(name)) for name, module in model.named_modules()]
    with torch.no_grad():
        outputs = model(inputs)
    for handle in handles:
        handle.remove()
    return outputs, found


@pytest.mark.parametrize("split", [0.0, 0.3])
@pytest.mark.parametrize("ratio", [2, 3])
@pytest.mark.parametrize("family", FAMILIES)
def test_outputs_and_sizes_stay(family, ratio, split):
    build, inputs, options = FAMILIES[family]
    small, _, inputs = trained(build, inputs)
    large = materialised(build, {"width": 32 * ratio}, 1)
    small, large = small.double().eval(), large.double().eval()
    inputs = inputs.double() if inputs.is_floating_point() else inputs
    grown = dl.grow(small, large, split=split, inputs=inputs, **options)
    assert grown.model is large
    assert grown.error is not None and grown.error <= 1e-12
    (one, before), (other, after) = sizes(small, inputs), sizes(large, inputs)
    torch.testing.assert_close(other, one, rtol=1e-11, atol=1e-12)
    tied = family == "tied transformer"  # its last gain carries 1/copies
    for name, value in before.items():
        assert after[name] * (ratio if tied and name == "norm" else 1) == pytest.approx(value, rel=1e-9), name


@pytest.mark.parametrize("family", FAMILIES)
def test_averages_of_gradients_fit_the_wide_gradients(family):
    """At the wide model's start, a gradient is that of the small model's, copied and divided as `carry` divides."""
    build, inputs, options = FAMILIES[family]
    small, _, inputs = trained(build, inputs)
    small, large = small.double(), materialised(build, {"width": 64}, 1).double()
    inputs = inputs.double() if inputs.is_floating_point() else inputs
    grown = dl.grow(small, large, inputs=inputs, **options)
    for model in (small, large):
        model.zero_grad()
        model(inputs).square().mean().backward()
    own = dict(small.named_parameters())
    for name, parameter in large.named_parameters():
        widening = grown.widenings[name]
        expected = widening.copies(own[name].grad) * widening.gradient
        torch.testing.assert_close(
            parameter.grad, expected, rtol=1e-8, atol=1e-12, msg=lambda m, name=name: f"{name}: {m}"
        )
