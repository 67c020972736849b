"""The width's fluctuation constant, against the double integral it was reduced from and against sampled networks."""

from math import acos, cos, exp, inf, nan, pi, sin, sqrt

import numpy as np
import pytest
from scipy.integrate import dblquad

import deeplimits as dl
from deeplimits.errors import InputError
from deeplimits.limits.corrections.residual_norm import norm_fluctuation, relative_spread


def second(x):
    return 3 * sin(x) * cos(x) + (pi - x) * (1 + 2 * cos(x) ** 2)


def double_integral(time):
    def inner(s, u):
        product = s * u
        moment = product * second(acos(sqrt(min(s / u, 1.0)))) / (2 * pi)
        return 4 / product**2 * (moment - product / 4)

    return 2 * dblquad(inner, 1.0, exp(time / 2), 1.0, lambda u: u, epsabs=1e-10)[0]


@pytest.mark.parametrize("time", [0.1, 1.0, 3.0])
def test_double_integral(time):
    assert norm_fluctuation(time) == pytest.approx(2 + 4 * (1 - exp(-time / 2)) + double_integral(time), abs=1e-8)


def test_golden_numbers():
    assert norm_fluctuation(0.0) == 2.0
    assert norm_fluctuation(1.0) == pytest.approx(4.6753, abs=1e-4)
    assert relative_spread(1.0) == pytest.approx(3.565, abs=5e-4)


def test_sampled_networks():
    networks, width = 2000, 64
    gram = dl.sample(dl.ResNet("relu").body, np.ones((1, 2)), width, 32, networks, seed=11).gram[:, 0, 0]
    measured = width * gram.var(ddof=1) / gram.mean() ** 2
    predicted = norm_fluctuation(1.0)
    standard_error = predicted * sqrt(2 / networks)
    second_order = predicted * (predicted / 2 / width + 1 / 32)
    assert abs(measured - predicted) < 4.5 * standard_error + second_order


@pytest.mark.parametrize("time", [-1.0, inf, nan])
def test_bad_time(time):
    with pytest.raises(InputError, match="is not a layer time"):
        norm_fluctuation(time)
