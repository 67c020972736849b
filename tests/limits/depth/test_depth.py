"""The taxonomy of activations, the singular kernel and the optimal activations, with the numbers of theory."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.errors import InputError
from deeplimits.limits.depth.dual_map import Cosines, dual_map
from deeplimits.limits.depth.recursion import log_ntk
from deeplimits.limits.depth.singular import singular_kernel

GOLDEN = {1: (1.0, 0.717), 2: (2.0, 1.207), 3: (3.0, 2.70), 5: (5.0, 12.9)}


def at(c):
    c = np.atleast_1d(np.asarray(c, dtype=float))
    return Cosines(c, 1 - c, 1 + c)


@pytest.mark.parametrize("dimension", [1, 2, 3, 5, 10, 100])
def test_optimal_activation_has_the_exponent_asked_for(dimension):
    dual = dual_map(dl.learn.optimal_activation(dimension))
    assert dual.scale == pytest.approx(1, abs=1e-14)
    assert dual.alpha == pytest.approx(dimension, rel=1e-13)
    assert dual.growth == pytest.approx(4.0 if dimension == 1 else 2.0, rel=1e-13)


@pytest.mark.parametrize("dimension", [0, -1, 1.5, 129, "2", True])
def test_dimensions_refused(dimension):
    with pytest.raises(InputError, match="dimension"):
        dl.learn.optimal_activation(dimension)


@pytest.mark.parametrize("dimension", sorted(GOLDEN))
def test_singular_kernel_near_coincident_inputs(dimension):
    psi = singular_kernel(dual_map(dl.learn.optimal_activation(dimension)))
    distance = 10.0 ** np.arange(-8, -2)
    gap = distance**2 / 2
    _, value = psi(Cosines(1 - gap, gap, 2 - gap))
    slopes = np.diff(value) / np.diff(np.log(distance))
    alpha, front = GOLDEN[dimension]
    assert slopes == pytest.approx(-alpha, abs=2e-3)
    assert np.exp(value + alpha * np.log(distance)) == pytest.approx(front, rel=1e-2)


@pytest.mark.parametrize("phi", [dl.learn.optimal_activation(2), dl.learn.optimal_activation(5), dl.act.Erf()])
def test_singular_kernel_solves_its_equation(phi):
    dual = dual_map(phi)
    psi = singular_kernel(dual)
    cosines = at([1e-6, 0.01, 0.3, 0.7, 0.95, -0.2, -0.6, -0.97])
    here, there = psi(cosines), psi(dual.step(cosines)[0])
    assert (here[0] == there[0]).all()
    assert there[1] - log(dual.multiplier) == pytest.approx(here[1], abs=1e-7)
    assert psi(at(1e-9))[1][0] == pytest.approx(log(1e-9), abs=1e-6)


def test_a_series_and_a_closed_form_have_the_same_kernel():
    closed, series = (singular_kernel(dual_map(phi)) for phi in (dl.act.Erf(), dl.act.Custom(torch.erf)))
    cosines = Cosines.logistic(np.linspace(-20, 60, 200))
    assert series(cosines)[1] == pytest.approx(closed(cosines)[1], abs=1e-9)


def test_singular_kernel_is_the_limit_of_the_ntk():
    dual = dual_map(dl.learn.optimal_activation(2))
    assert np.exp(singular_kernel(dual)(at(0.3))[1][0]) == pytest.approx(0.3389, abs=5e-5)
    for depth, wanted in {10: 0.3496, 20: 0.3445, 40: 0.3418, 80: 0.3404}.items():
        value = log_ntk(dual, at(0.3), depth)[1][0] - log(depth + 1) + depth * log(2)
        assert np.exp(value) == pytest.approx(wanted, abs=5e-5)


def test_logarithms_hold_where_numbers_underflow():
    dual = dual_map(dl.act.Hermite(2))
    for depth in (5, 12, 40):
        sign, value = log_ntk(dual, at([0.5, -0.5]), depth)
        assert sign.tolist() == [1, 1]
        assert value == pytest.approx(log(2 ** (depth + 1) - 1) + 2**depth * log(0.5), rel=1e-13)


@pytest.mark.parametrize(
    ("phi", "case", "growth"),
    [
        ("relu", "majority vote", 1.0),
        ("gelu", "majority vote", None),
        (dl.act.Exp(), "majority vote", 1.0),
        ("erf", "singular kernel", None),
        (dl.act.Sin(phase=np.pi), "singular kernel", 1.3130352854993315),
        (dl.act.Hermite(3), "1-nearest neighbour", 3.0),
        (dl.act.Erf(shift=0.1), "majority vote", None),
    ],
)
def test_cases(phi, case, growth):
    dual = dual_map(phi)
    assert dual.case == case
    assert growth is None or dual.growth == pytest.approx(growth, rel=1e-12)


def test_critical_majority_is_a_third_or_a_quarter_of_the_diagonal():
    """At B' = 1 the NTK off the diagonal tends to 1/3 of it (smooth), 1/4 (a kink): the classes still vote as one."""
    relu = dl.kernel(dl.Mlp("relu"), np.eye(2) * sqrt(2), depth=3000, get="ntk")
    assert relu[0, 1] / relu[0, 0] == pytest.approx(1 / 4, abs=5e-3)
    assert dual_map("relu").growth == pytest.approx(1, abs=1e-12)
    c = theta = 0.3
    for _ in range(20_000):
        theta, c = np.exp(c - 1) * (1 + theta), np.exp(c - 1)
    assert theta / 20_001 == pytest.approx(1 / 3, abs=1e-3)
    assert dual_map("exp").growth == pytest.approx(1, abs=1e-12)
