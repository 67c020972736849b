"""Expectations of products of an activation and its derivative, beside quadrature and finite differences."""

import numpy as np
import pytest

from deeplimits.architecture import activation as act
from deeplimits.limits.kernel.activation import family
from deeplimits.numerics.gaussian.products import Pairs, products

Q1, Q2, K = 1.3, 0.7, 0.45
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(120)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
LINES = ["relu", act.LeakyRelu(0.2), "abs", act.RectifiedMonomial(2)]


def at(name, q1=Q1, q2=Q2, k=K):
    pairs = Pairs(np.array([q1, q2]), np.array([0]), np.array([1]), np.array([k]))
    return products(family(act.activation(name)), pairs)


def quadrature(name, f, g):
    """120 x 120 nodes: the two-dimensional oracle, for smooth functions."""
    phi = family(act.activation(name))
    u = Q1**0.5 * NODES[:, None]
    v = K / Q1**0.5 * NODES[:, None] + (Q2 - K**2 / Q1) ** 0.5 * NODES[None]
    values = phi.function(u) ** f[0] * phi.derivative(u) ** f[1] * phi.function(v) ** g[0] * phi.derivative(v) ** g[1]
    return float(WEIGHTS @ values @ WEIGHTS)


def half_line_quadrature(name, f, g):
    """Polar coordinates: the radius by its Gamma function, the angle by the trapezoidal rule."""
    phi = family(act.activation(name))
    angles = (np.arange(400_000) + 0.5) * 2 * np.pi / 400_000
    x, y = np.cos(angles), np.sin(angles)
    u, v = Q1**0.5 * x, K / Q1**0.5 * x + (Q2 - K**2 / Q1) ** 0.5 * y
    values = phi.function(u) ** f[0] * phi.derivative(u) ** f[1] * phi.function(v) ** g[0] * phi.derivative(v) ** g[1]
    degree = phi.power * (f[0] + g[0]) + (phi.power - 1) * (f[1] + g[1])
    radial = 2 ** (degree / 2) * np.prod(np.arange(degree / 2, 0.1, -1)) * (1 if degree % 2 == 0 else np.pi**0.5)
    return float(values.mean() * radial)


CASES = [((1, 0), (1, 0)), ((2, 0), (2, 0)), ((3, 0), (1, 0)), ((1, 1), (1, 1)), ((2, 1), (0, 1)), ((0, 2), (2, 0))]


@pytest.mark.parametrize("name", ["tanh", "erf", "gelu", "identity", act.Polynomial((0.1, 1.0, 0.3))])
@pytest.mark.parametrize(("f", "g"), CASES)
def test_smooth_functions_beside_two_dimensional_quadrature(name, f, g):
    expected = quadrature(name, f, g)
    assert at(name).of(f, g)[0] == pytest.approx(expected, rel=2e-8, abs=1e-10)


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize(("f", "g"), [case for case in CASES if sum(case[0] + case[1]) % 2 == 0])
def test_half_lines_beside_an_integral_over_the_angle(name, f, g):
    degree = sum(case * power for case, power in zip(f + g, (1, 0, 1, 0), strict=True))
    if degree % 2:
        pytest.skip("odd degree: the radial factor of this oracle is for even ones")
    assert at(name).of(f, g)[0] == pytest.approx(half_line_quadrature(name, f, g), rel=3e-5)


@pytest.mark.parametrize("name", ["tanh", "gelu", *LINES])
@pytest.mark.parametrize("f", [(1, 0), (0, 1)])
def test_shifts_are_derivatives_in_the_covariances(name, f):
    step, point = 1e-4, np.array([Q1, Q2, K])
    factors = ((0.5, 2, 0), (0.5, 0, 2), (1.0, 1, 1))
    for place, (factor, a, b) in enumerate(factors):
        for orders in ((0, 0), (a, b)):  # of the value and of a first derivative
            up, down = (at(name, *(point + sign * step * np.eye(3)[place])).of(f, f, *orders)[0] for sign in (1, -1))
            shifted = factor * at(name).of(f, f, orders[0] + a, orders[1] + b)[0]
            assert shifted == pytest.approx((up - down) / (2 * step), rel=2e-5, abs=2e-6)


def test_the_series_say_when_they_are_short():
    assert at("tanh").error() < 1e-10
    assert at(act.Custom(lambda x: x.sign() * x.abs() ** 0.5), 1.0, 1.0, 0.999).error() > 1e-4


def test_half_lines_of_steps_have_no_derivative():
    assert at("sign").of((0, 1), (0, 1))[0] == 0.0
    assert at("sign").of((1, 0), (1, 0))[0] == pytest.approx(2 / np.pi * np.arcsin(K / (Q1 * Q2) ** 0.5))
