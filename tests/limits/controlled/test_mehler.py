"""Activations known by Hermite series: their table, V against quadrature, the walk against the slow one."""

from math import inf

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.architecture.activation import activation
from deeplimits.limits.controlled import general, kink, solve, table
from deeplimits.limits.controlled.mehler import Mehler
from deeplimits.limits.controlled.table import Table
from deeplimits.limits.kernel.activation import family

Net = dl.layer.ControlledResNet
FUNCTIONS = {
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "softplus": lambda x: np.logaddexp(0, x),
    "silu": lambda x: x / (1 + np.exp(-x)),
}
CUSTOM = dl.act.Custom(torch.tanh, name="own tanh")


def paths(*lengths, channels=2, seed=0):
    rng = np.random.default_rng(seed)
    return [np.cumsum(rng.standard_normal((n, channels)), axis=0) / n for n in lengths]


def steps(*lengths, **given):
    return [np.diff(path, axis=0) for path in paths(*lengths, **given)]


def law(layer, start=0.64, weight=0.49, bias=0.25):
    return solve.Law(family(activation(layer)), True, start, weight, bias)


def mehler(layer, **numbers):
    found = solve._equation(law(layer, **numbers), kink.SECOND)
    assert isinstance(found, Mehler)
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_growth_against_a_sum_over_the_plane(name):
    """a V + b and a dV/dk, by the trapezoidal rule in both variables: exact to rounding for smooth functions."""
    q1, q2 = np.array([0.3, 0.3, 2.0, 5.0]), np.array([0.3, 1.7, 0.9, 5.0])
    c, z = np.array([1.0, -0.6, 0.05, 0.97]), np.linspace(-9, 9, 601)
    weights = (z[1] - z[0]) * np.exp(-(z**2) / 2) / (2 * np.pi) ** 0.5
    u, v = z[:, None], c[:, None, None] * z[:, None] + np.sqrt(1 - c**2)[:, None, None] * z
    phi, (a, b) = FUNCTIONS[name], (np.sqrt(q)[:, None, None] for q in (q1, q2))

    def mean(first, second):
        return ((first(a * u) * second(b * v)) @ weights) @ weights

    def slope(x, h=1e-3):
        return (8 * (phi(x + h) - phi(x - h)) - phi(x + 2 * h) + phi(x - 2 * h)) / (12 * h)

    given = (torch.from_numpy(part) for part in (c * np.sqrt(q1 * q2), q1, q2))
    value, prime = (part.numpy() for part in mehler(name).growth(*given))
    np.testing.assert_allclose(value, 0.49 * mean(phi, phi) + 0.25, rtol=1e-10)  # 1e-11 of Q and P is left out
    np.testing.assert_allclose(prime, 0.49 * mean(slope, slope), rtol=1e-9)


@pytest.mark.parametrize("layer", ["silu", CUSTOM], ids=["silu", "custom"])
def test_walk_against_the_general_one(layer):
    """Paths of two lengths, against others and one against itself, from zero too; general rounds stop at 1e-12."""
    for start, scheme in ((0.64, kink.EULER), (0.64, kink.SECOND), (0.0, kink.SECOND)):
        dx, dy = steps(4, 3), steps(4)
        net = law(layer, start=start)
        found = solve._with_variances(net, dx, dy, scheme)
        slow = general.Equation(net.family, net.weight, net.bias, start, scheme)
        x, y = solve._padded(dx), solve._padded(dy)
        own = [general.own(part, slow) for part in (x, y)]
        np.testing.assert_allclose(found[0], general.pairs(x, y, (own[0], own[1]), slow).numpy(), rtol=1e-10)
        for ends, expected in zip(found[1:], own, strict=True):
            np.testing.assert_allclose(ends, expected[:, -1].numpy(), rtol=1e-10)


@pytest.mark.parametrize(("name", "homogeneous"), [("tanh", True), ("silu", False)])
def test_depth_infinity_is_the_limit_of_depths(name, homogeneous, monkeypatch):
    monkeypatch.setattr(solve, "ACCURACY", 1e-7)
    net, x = Net(name, homogeneous, initial_std=0.8, weight_std=0.7, bias_std=0.5), paths(4, 3)
    deep = [dl.kernel(net, x, depth=depth, get="nngp") for depth in (240, 480)]  # multiples of all steps
    np.testing.assert_allclose(dl.kernel(net, x, depth=inf, get="nngp"), 2 * deep[1] - deep[0], rtol=1e-4)


def test_custom_is_the_named_one():
    for homogeneous in (True, False):
        found, expected = (dl.kernel(Net(layer, homogeneous), paths(5, 3), get="nngp") for layer in (CUSTOM, "tanh"))
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_alone_or_among_others():
    """A pair says the same whoever else is asked, longer paths of larger variances too."""
    net, x = Net("tanh"), [path * scale for path, scale in zip(paths(4, 3, 6), (1, 1, 3), strict=True)]
    full = dl.kernel(net, x, depth=20, get="nngp")
    np.testing.assert_allclose(dl.kernel(net, x[:2], depth=20, get="nngp"), full[:2, :2], rtol=1e-13)
    np.testing.assert_array_equal(full, full.T)


def test_table_reads_what_the_series_says():
    held = Table(family(activation("silu")), 1e-16)
    q = np.array([0.0, 1e-40, 1e-9, 0.25, 0.2500001, 1.0, 3.99, 4.0, 100.0])
    assert held.cover(q)
    roots, found = held.read(q)
    exact = held.family.coefficients(np.maximum(q, 4.0**table.LOWEST), held.order).T
    scale = np.sqrt((exact**2).sum(1, keepdims=True))
    np.testing.assert_allclose(found / scale, exact / scale, rtol=0, atol=2e-13)
    np.testing.assert_allclose(roots[:, 0], np.maximum(np.sqrt(q), 2.0**table.LOWEST), rtol=1e-15)
    assert not held.cover(np.array([1.0, inf])) and not held.cover(np.array([np.nan]))


def test_without_a_table(monkeypatch):
    """Where polynomials of the largest degree do not say the series, it is summed itself."""
    x = steps(2)
    expected = mehler("silu").grid(x, None)
    monkeypatch.setattr(table, "COUNTS", (3,))
    assert mehler("silu").grid(x, None) is None
    found = solve._with_variances(law("silu"), x, None, kink.SECOND)
    assert expected is not None
    for part, exact in zip(found, expected, strict=True):
        np.testing.assert_allclose(part, exact, rtol=1e-10)


def test_too_large():
    for name, length in (("tanh", 1e200), ("softplus", 1e60)):
        with pytest.raises(dl.errors.PrecisionError, match=r"entry \(0, 0\) is larger than float64 holds"):
            dl.kernel(Net(name), [np.array([[0.0], [length]])], get="nngp")


@pytest.mark.parametrize("layer", ["erf", "gelu", dl.act.Sin(1.0, 3.0), dl.act.GaussianBump()], ids=str)
def test_closed_forms_by_their_series(layer):
    """The walk on a series by quadrature, against the general one on the closed form."""
    x, net = steps(3, 2), law(layer)
    found = solve._with_variances(net, x, None, kink.SECOND)
    slow, padded = general.Equation(net.family, net.weight, net.bias, net.start, kink.SECOND), solve._padded(x)
    own = general.own(padded, slow)
    np.testing.assert_allclose(found[0], general.pairs(padded, padded, (own, own), slow).numpy(), rtol=1e-10)
    assert mehler(layer).grid(x, None) is not None


def test_no_series_in_place_of_a_closed_form_where_it_is_worse():
    """sin(9 u) at variance 400 turns too fast for quadrature."""
    quick, x = dl.act.Sin(1.0, 9.0), steps(2)
    assert mehler(quick, start=400.0).grid(x, None) is None
    found = solve._with_variances(law(quick, start=400.0), x, None, kink.EULER)[0]
    growth = 0.49 * (1 - np.exp(-2 * 81 * 400)) / 2 + 0.25  # E[sin^2]
    np.testing.assert_allclose(found, 400 + growth * (x[0][0] @ x[0][0]), rtol=1e-13)
