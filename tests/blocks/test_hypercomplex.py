"""Hypercomplex layers: Kronecker products, the Hamilton product, parameters, and the start's variance."""

import pytest
import torch

from deeplimits.blocks import Hypercomplex
from deeplimits.errors import InputError


def hamilton(q, x):
    """The product of two quaternions, written out."""
    a, b, c, d = q
    e, f, g, h = x
    return [
        a * e - b * f - c * g - d * h,
        a * f + b * e + c * h - d * g,
        a * g - b * h + c * e + d * f,
        a * h + b * g - c * f + d * e,
    ]


def test_quaternions_are_the_hamilton_product():
    layer = Hypercomplex(4, 4, quaternion=True, bias=False).double()
    x = torch.randn(4, dtype=torch.float64)
    expected = torch.stack(hamilton(layer.blocks.flatten(), x))
    torch.testing.assert_close(layer(x), expected, atol=1e-14, rtol=0)
    assert [name for name, _ in layer.named_parameters()] == ["blocks"]


def test_matrix_is_the_sum_of_kronecker_products():
    layer = Hypercomplex(6, 9, parts=3).double()
    expected = sum(torch.kron(a, s) for a, s in zip(layer.rules, layer.blocks, strict=True))
    torch.testing.assert_close(layer.matrix(), expected)
    x = torch.randn(5, 6, dtype=torch.float64)
    torch.testing.assert_close(layer(x), x @ expected.T + layer.bias)


@pytest.mark.parametrize(("size", "parts", "count"), [(512, 4, 65_600), (512, 1, 262_145), (64, 8, 1_024)])
def test_parameters(size, parts, count):
    layer = Hypercomplex(size, size, parts, bias=False)
    assert sum(p.numel() for p in layer.parameters()) == count == parts**3 + size * size // parts


@pytest.mark.parametrize("quaternion", [False, True])
def test_start_keeps_the_variance(quaternion):
    """Mean of |W x|^2 / |x|^2 over 200 layers: 1 within 5 standard errors."""
    x = torch.randn(64)
    ratios = torch.stack([
        Hypercomplex(64, 64, quaternion=quaternion, bias=False)(x).detach().square().mean() / x.square().mean()
        for _ in range(200)
    ])  # fmt: skip
    assert abs(float(ratios.mean()) - 1) < 5 * float(ratios.std()) / 200**0.5


@pytest.mark.parametrize(
    ("sizes", "options", "words"),
    [
        ((6, 8), {"parts": 4}, "6 inputs and 8 outputs"),
        ((8, 8), {"parts": 0}, "parts=0"),
        ((8, 8), {"parts": 2, "quaternion": True}, "quaternions with parts=2"),
    ],
)
def test_refused(sizes, options, words):
    with pytest.raises(InputError, match=words):
        Hypercomplex(*sizes, **options)
