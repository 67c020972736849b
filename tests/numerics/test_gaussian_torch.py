"""The torch path: gradients against finite differences, and finite where inputs coincide."""

import numpy as np
import pytest
import torch

from deeplimits.numerics.gaussian import (
    Bump,
    Erf,
    Exponential,
    Gelu,
    Linear,
    PolynomialFamily,
    RectifiedPower,
    Series,
    Sine,
)
from deeplimits.numerics.gaussian.arccosine import arc_cosine
from tests.ids import plain

FAMILIES = [
    RectifiedPower(0, 1.0, -1.0),
    RectifiedPower(1, 1.0, 0.0),
    RectifiedPower(1, 1.0, -0.3),
    RectifiedPower(3, 0.5, 0.2),
    Erf(0.5, 0.5**0.5, 0.5),
    Gelu(),
    Sine(1.2, 0.9, 0.4),
    Exponential(0.7, 0.4),
    Bump(0.3),
    Linear(),
    PolynomialFamily((0.3, 1.0, -0.2, 0.1)),
    Series(np.tanh, lambda x: 1 - np.tanh(x) ** 2, "tanh"),
    Series(np.tanh, None, "tanh without derivative"),
]


def tensor(values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("family", FAMILIES, ids=plain)
def test_gradients_match_finite_differences(family):
    given = tensor([[0.3, 0.5], [-0.2, 0.9]]), tensor([[0.7], [1.2]]), tensor([[0.8, 1.5]])
    assert torch.autograd.gradcheck(lambda k, q, p: family.pair(k, q, p)[0], given, rtol=1e-6, atol=1e-9)
    if not (isinstance(family, RectifiedPower) and family.power == 0) and not isinstance(family, Linear):
        assert torch.autograd.gradcheck(lambda k, q, p: family.pair(k, q, p)[1], given, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES, ids=plain)
def test_slope_is_the_gradient_in_k(family):
    if isinstance(family, RectifiedPower) and family.power == 0:
        pytest.skip("the derivative of a step counts as zero")
    k, q1, q2 = tensor([[0.3, 0.5], [-0.2, 0.9]]), tensor([[0.7], [1.2]]), tensor([[0.8, 1.5]])
    value, slope = family.pair(k, q1, q2)
    (gradient,) = torch.autograd.grad(value.sum(), k)
    torch.testing.assert_close(gradient, slope, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("family", FAMILIES, ids=plain)
def test_identical_opposite_and_zero_inputs_have_finite_gradients(family):
    q = tensor([0.7, 0.7, 0.0, 0.0, 2.0])
    p = tensor([0.7, 0.7, 0.9, 0.0, 8.0])
    k = tensor([0.7, -0.7, 0.0, 0.0, 4.0])
    value, slope = family.pair(k, q, p)
    for part in (value, slope):
        assert part.shape == (5,)
        assert torch.isfinite(part).all()
        if part.requires_grad:
            for gradient in torch.autograd.grad(part.sum(), (k, q, p), retain_graph=True, allow_unused=True):
                assert gradient is None or torch.isfinite(gradient).all()


@pytest.mark.parametrize("family", FAMILIES, ids=plain)
def test_diagonal_through_pair(family):
    """Along k = q1 = q2 the total gradient is dQ/dq, at any q."""
    q = tensor([0.2, 1.0, 3.0])
    value, slope = family.pair(q, q, q)
    want, want_slope = family.diagonal(q.detach().numpy())
    np.testing.assert_allclose(value.detach().numpy(), want, rtol=1e-13)
    np.testing.assert_allclose(slope.detach().numpy(), want_slope, rtol=1e-12, atol=1e-15)
    if family.homogeneous != 0:
        (gradient,) = torch.autograd.grad(value.sum(), q)
        np.testing.assert_allclose(gradient.numpy(), family.slope(q.detach().numpy()), rtol=1e-11)


def test_a_zero_input_has_the_slope_of_an_orthogonal_one():
    q, zero = torch.tensor([1.3], dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    value, slope = RectifiedPower(1, 1.0, 0.0).pair(zero, zero, q)
    assert (value.item(), slope.item()) == (0.0, 0.25)
    tanh = Series(np.tanh, lambda x: 1 - np.tanh(x) ** 2, "tanh")
    want = tanh.sequence(np.array([1.3]), 1, 1)[0, 0]  # E[phi'(v)], and phi'(0) = 1
    assert abs(tanh.pair(zero, zero, q)[1].item() - want) <= 1e-10


@pytest.mark.parametrize("power", range(7))
def test_arc_cosine_functions(power):
    c = torch.linspace(-0.999, 0.999, 41, dtype=torch.float64)
    t = np.arccos(c.numpy())
    x, w = np.polynomial.legendre.leggauss(60)
    s = (np.pi - t)[:, None] * (x + 1) / 2
    factor = float(np.prod(np.arange(1, power + 1)))
    want = factor * (np.pi - t) / 2 * ((np.cos(s) + np.cos(t)[:, None]) ** power @ w)
    np.testing.assert_allclose(arc_cosine(c, power).numpy(), want, rtol=1e-13, atol=1e-13 * want.max())
    assert torch.autograd.gradcheck(arc_cosine, (c[5:36].requires_grad_(), power), rtol=1e-5, atol=1e-7)


def test_arc_cosine_under_vmap():
    c = torch.linspace(-0.9, 0.9, 7, dtype=torch.float64)
    slopes = torch.func.vmap(torch.func.grad(lambda x: arc_cosine(x, 1)))(c)
    torch.testing.assert_close(slopes, np.pi - torch.arccos(c))
