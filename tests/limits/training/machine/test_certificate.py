"""Certified radii beside the same formulas written out for one pair, and beside an attack by projected gradients."""

from math import acos, pi, sqrt

import numpy as np
import pytest
from scipy.optimize import brentq

import deeplimits as dl
from deeplimits.claims.chen_2021_nn_svm import attacked
from deeplimits.errors import DescriptionError
from deeplimits.limits.training.machine.certificate import radii, strength

RNG = np.random.default_rng(1)
X, NEW = RNG.standard_normal((12, 4)), RNG.standard_normal((20, 4))
Y = np.sign(X[:, 0] + 0.3 * X[:, 1])
NET = dl.Mlp("relu", weight_std=1.3, readout_std=0.7)
WEIGHTS = dl.training.kernel_machine(dl.kernel(NET, X, depth=1, get="ntk"), Y, C=3.0).weights


def least(x, delta, weights, sign, norm):
    """The lower end of sign f over the ball, in the words of theory: NTK, He scaling, row by row."""
    total, size, d = 0.0, np.linalg.norm(x), len(x)
    short, long = max(size - sqrt(d) * delta, 0.0), size + sqrt(d) * delta
    for row, weight in zip(X, weights, strict=True):
        length = np.linalg.norm(row)
        reach = delta * np.abs(row).sum() if norm == "l1" else sqrt(d) * delta * length
        low, high = x @ row - reach, x @ row + reach
        u_min = -1.0 if low < 0 and short == 0 else max(-1.0, low / (length * (long if low >= 0 else short)))
        u_max = 1.0 if high >= 0 and short == 0 else min(1.0, high / (length * (short if high >= 0 else long)))
        h_min, h_max = sorted(2 * u * (pi - acos(u)) + sqrt(1 - u * u) for u in (min(u_min, 1.0), max(u_max, -1.0)))
        if u_min <= -0.794 <= u_max:
            h_min = -0.42974
        c = sign * weight
        bound = h_min * (short if h_min >= 0 else long) if c > 0 else h_max * (long if h_max >= 0 else short)
        total += c * bound * length / (pi * d)
    return total


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_radii_are_those_of_the_formulas(norm):
    outputs, found = radii(NEW, X, WEIGHTS, 1 / pi, norm=norm)
    for x, f, radius in zip(NEW, outputs, found, strict=True):
        expected = brentq(lambda delta, x=x, f=f: least(x, delta, WEIGHTS, np.sign(f), norm), 0, 2 * np.linalg.norm(x))
        assert radius == pytest.approx(expected, abs=1e-4)  # theory gives the least h to five digits


@pytest.mark.parametrize("kind", ["ntk", "nngp"])
def test_outputs_are_those_of_the_kernel(kind):
    scale = strength("test", NET, 1)
    expected = dl.kernel(NET, NEW, X, depth=1, get=kind) @ WEIGHTS
    assert radii(NEW, X, WEIGHTS, scale, kind)[0] == pytest.approx(expected, abs=1e-12)
    two = dl.layer.Dense(weight_std=1.3) >> dl.act.Relu() >> dl.layer.Dense(1, 0.7)
    assert strength("test", two, None) == scale
    f, radius = radii(NEW, X, WEIGHTS, scale, kind)
    assert radii(NEW, X, 7 * WEIGHTS, 3 * scale, kind)[1] == pytest.approx(radius)
    corners = np.array(np.meshgrid(*[[-1, 1]] * 4)).reshape(4, -1).T
    for x, value, reach in zip(NEW, f, radius, strict=True):
        moved = dl.kernel(NET, x + reach * corners, X, depth=1, get=kind) @ WEIGHTS
        assert np.all(moved * np.sign(value) > 0)


def test_no_attack_succeeds_within_a_radius_and_the_1_norm_never_certifies_less():
    attack = attacked(NEW, X, WEIGHTS, (40, 8), np.random.default_rng(2))
    one, two = (radii(NEW, X, WEIGHTS, 1 / pi, norm=norm)[1] for norm in ("l1", "l2"))
    assert np.all(two <= one) and np.all(one <= attack) and np.all(two > 0)


def test_rows_of_zeros_have_no_radius_and_carry_none():
    rows, weights = np.vstack([X, np.zeros(4)]), np.append(WEIGHTS, 5.0)
    f, radius = radii(np.vstack([NEW, np.zeros(4)]), rows, weights, 1 / pi)
    assert f[-1] == radius[-1] == 0
    assert radius[:-1] == pytest.approx(radii(NEW, X, WEIGHTS, 1 / pi)[1])
    assert not radii(NEW, X, np.zeros(12), 1 / pi)[1].any()


@pytest.mark.parametrize(
    ("net", "depth", "text"),
    [
        (dl.Mlp("relu"), 2, "5 layers|Dense >> Relu >> Dense >> Relu >> Dense"),
        (dl.Mlp("relu"), np.inf, "depth=inf"),
        (dl.Mlp("relu"), None, "depth=None"),
        (dl.Mlp("tanh"), 1, "Dense >> Tanh >> Dense"),
        (dl.ResNet("relu"), 1, "Residual"),
        (dl.Mlp("relu", bias_std=0.1), 1, r"bias_std=0\.1 in the hidden layer"),
        (dl.Mlp("relu", readout_bias_std=0.1), 1, r"0\.1 in the readout"),
    ],
)
def test_other_networks_are_refused(net, depth, text):
    with pytest.raises(DescriptionError, match=text):
        strength("certify", net, depth)
