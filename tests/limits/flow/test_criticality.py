"""The edge of chaos against theory's tables and equations, correlation lengths against layer recursions."""

from __future__ import annotations

from math import asin, cosh, exp, inf, isnan, log, pi, sqrt, tanh

import mpmath
import numpy as np
import pytest

import deeplimits as dl
from deeplimits.errors import AccuracyWarning, DescriptionError, NoLimit
from deeplimits.limits.flow.criticality import criticality
from deeplimits.limits.kernel import near
from deeplimits.limits.kernel.lowering import lower

BIASES = (1e-4, 0.01, 0.05, 0.1, 0.3)
TABLE = {
    "tanh": ((1.08603, 1.42421, 1.76095, 1.98607, 2.50513), (0.04571, 0.27330, 0.57005, 0.80580, 1.46117)),
    "erf": ((0.85259, 1.11428, 1.37584, 1.55212, 1.96307), (0.04460, 0.25321, 0.51718, 0.72636, 1.31182)),
}


def recursion(activation, weight_std, bias_std, depth, q=1.0, angle=1.0):
    """Pairs of equal norm after `depth` layers, in the variables 1 - c and 1 + c."""
    same = {"readout_std": weight_std, "readout_bias_std": bias_std}
    net = dl.Mlp(activation, weight_std=weight_std, bias_std=bias_std, **same)
    unit = near.from_angles(np.array([angle]))
    start = near.Pairs(q * unit.gap, q * unit.span, 0 * unit.theta, q * unit.q1, q * unit.q2)
    return near.run(lower(net, depth, 1).tape(), start)


def apart(pairs):
    return float(pairs.gap[0] / pairs.q1[0])


@pytest.mark.parametrize("name", sorted(TABLE))
def test_edges_are_those_of_theory(name):
    for bias, weight, q in zip(BIASES, *TABLE[name], strict=True):
        edge = criticality(name, sqrt(bias))
        assert edge.phase == "critical"
        assert edge.weight_std**2 == pytest.approx(weight, abs=5.1e-6)
        assert edge.variance == pytest.approx(q, abs=5.1e-6)
        assert edge.correlation_length == inf


def test_edges_with_closed_forms_to_twelve_digits():
    for bias in BIASES:
        edge = criticality("erf", sqrt(bias))
        q, weight = edge.variance, edge.weight_std**2
        assert weight == pytest.approx(pi / 4 * sqrt(1 + 4 * q), rel=1e-12)
        assert q - weight * 2 / pi * asin(2 * q / (1 + 2 * q)) == pytest.approx(bias, abs=1e-12 * q)
        assert edge.curvature == pytest.approx(weight * 16 * q**2 / pi / (1 + 4 * q) ** 1.5, rel=1e-9)
        edge = criticality("sin", sqrt(bias))
        q, weight = edge.variance, edge.weight_std**2
        assert q - tanh(q) == pytest.approx(bias, abs=1e-12 * q)
        assert weight == pytest.approx(1 + tanh(q), rel=1e-12)
        gain = exp(-2 * q) / (exp(-q) * cosh(q))
        assert edge.variance_length == pytest.approx(-1 / log(gain), rel=1e-9)


@pytest.mark.parametrize("bias_std", [0.01, 1.0, 10.0, 90.0])
def test_curvature_at_every_variance(bias_std):
    edge = criticality("erf", bias_std)
    q = edge.variance
    assert edge.curvature == pytest.approx(edge.weight_std**2 * 16 * q**2 / pi / (1 + 4 * q) ** 1.5, rel=1e-8)


def test_tanh_solves_its_equations_to_twelve_digits():
    edge = criticality("tanh", sqrt(0.05))
    with mpmath.workdps(25):
        root = mpmath.sqrt(edge.variance)

        def mean(function):
            return mpmath.quad(lambda z: function(root * z) * mpmath.npdf(z), [-12, -4, 0, 4, 12])

        square, prime = mean(lambda x: mpmath.tanh(x) ** 2), mean(lambda x: mpmath.sech(x) ** 4)
        second = mean(lambda x: 4 * mpmath.tanh(x) ** 2 * mpmath.sech(x) ** 4)
    assert edge.weight_std**2 * float(prime) == pytest.approx(1, abs=1e-12)
    assert edge.weight_std**2 * float(square) + 0.05 == pytest.approx(edge.variance, rel=1e-12)
    assert edge.curvature == pytest.approx(edge.weight_std**2 * edge.variance * float(second), rel=1e-10)
    assert edge.closing_constant == pytest.approx(6.171, abs=5e-4)


def test_homogeneous_edges_are_exact():
    relu, leaky = criticality("relu"), criticality(dl.act.LeakyRelu(0.3))
    assert relu.weight_std**2 == pytest.approx(2, rel=1e-15)
    assert (relu.closing_power, relu.closing_constant) == (2, pytest.approx(9 * pi**2 / 2, rel=1e-15))
    assert leaky.weight_std**2 == pytest.approx(2 / 1.09, rel=1e-15)
    assert isnan(relu.variance)
    assert criticality("identity").closing_constant == inf
    below = criticality("relu", 0.1, 1.0)
    assert (below.chi, below.variance, below.correlation) == (0.5, pytest.approx(0.02), 1.0)


@pytest.mark.parametrize(("name", "weight", "bias"), [("tanh", 1.3, 0.1), ("erf", 1.0, 0.1), ("gelu", 1.5, 0.04)])
def test_ordered_length_is_the_decay_of_200_layers(name, weight, bias):
    found = criticality(name, sqrt(bias), sqrt(weight))
    assert found.phase == "ordered"
    gaps = [apart(recursion(name, sqrt(weight), sqrt(bias), depth)) for depth in (150, 200)]
    assert 50 / log(gaps[0] / gaps[1]) == pytest.approx(found.correlation_length, rel=1e-3)


@pytest.mark.parametrize(("name", "weight", "bias"), [("tanh", 2.5, 0.05), ("erf", 1.7, 0.05), ("sin", 2.5, 0.05)])
def test_chaotic_length_is_the_decay_towards_200_layers(name, weight, bias):
    """The distance to c*, between depths where it is above rounding: e^-5 to e^-12 of it."""
    found = criticality(name, sqrt(bias), sqrt(weight))
    assert found.phase == "chaotic"
    depths = [min(int(5 * found.correlation_length), 100), min(int(12 * found.correlation_length), 200)]
    end = apart(recursion(name, sqrt(weight), sqrt(bias), 1000))
    assert 1 - end == pytest.approx(found.correlation, abs=1e-10)
    off = [abs(apart(recursion(name, sqrt(weight), sqrt(bias), depth)) - end) for depth in depths]
    assert (depths[1] - depths[0]) / log(off[0] / off[1]) == pytest.approx(found.correlation_length, rel=1e-2)


def test_golden_lengths():
    assert criticality("tanh", sqrt(0.1), sqrt(1.3)).correlation_length == pytest.approx(4.815, abs=5e-4)
    assert criticality("tanh", sqrt(0.05), sqrt(2.5)).correlation_length == pytest.approx(11.796, abs=5e-4)


@pytest.mark.parametrize(("name", "weight", "bias"), [("tanh", 1.3, 0.1), ("erf", 1.7, 0.05)])
def test_variance_length_is_the_decay_of_the_diagonal(name, weight, bias):
    found = criticality(name, sqrt(bias), sqrt(weight))
    off = [abs(float(recursion(name, sqrt(weight), sqrt(bias), depth).q1[0]) - found.variance) for depth in (10, 20)]
    assert 10 / log(off[0] / off[1]) == pytest.approx(found.variance_length, rel=1e-2)


@pytest.mark.parametrize(("name", "bias"), [("erf", 0.05), ("sin", 0.1), ("relu", 0.0), ("abs", 0.0)])
def test_angles_close_on_the_edge_as_said(name, bias):
    """(1 - c_l)^(-1/p) grows by constant^(-1/p) a layer, up to terms of order 1/l."""
    edge = criticality(name, sqrt(bias))
    q = 1.0 if isnan(edge.variance) else edge.variance
    start = (q - bias) / edge.weight_std**2 if bias else q / edge.weight_std**2
    gaps = [apart(recursion(name, edge.weight_std, edge.bias_std, depth, q=start)) for depth in (1000, 2000)]
    power = edge.closing_power
    rise = (gaps[1] ** (-1 / power) - gaps[0] ** (-1 / power)) / 1000
    assert rise**-power == pytest.approx(edge.closing_constant, rel=1e-2)


def test_vanishing_variances_are_said():
    edge = criticality("tanh")
    assert (edge.weight_std, edge.variance, edge.phase) == (1.0, 0.0, "critical")
    below = criticality("tanh", 0.0, 0.8)
    assert below.chi == pytest.approx(0.64)
    assert isnan(below.correlation)
    assert "depends on the inputs" in below.describe()
    assert criticality("tanh", 0.0, 1.5).correlation == 0.0


def test_constants_have_their_variance():
    zero, one = (criticality(dl.act.Polynomial((value,)), 0.1, 1.0) for value in (0.0, 1.0))
    assert (zero.variance, zero.chi) == (pytest.approx(0.01), 0.0)
    assert (one.variance, one.correlation_length) == (pytest.approx(1.01), 0.0)


def test_describe_says_the_numbers():
    text = str(criticality("tanh", sqrt(0.1), sqrt(1.3)))
    for words in ("ordered (chi = 0.812464)", "variances tend to 0.419815", "4.81502 layers"):
        assert words in text


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("tahn",), DescriptionError, "did you mean 'tanh'"),
        (("tanh", -0.1), DescriptionError, "bias_std=-0.1"),
        (("tanh", float("nan")), DescriptionError, "bias_std=nan"),
        (("tanh", 0.1, 0.0), DescriptionError, "weight_std=0"),
        (("tanh", 0.1, inf), DescriptionError, "weight_std=inf"),
        (("relu", 0.1), NoLimit, "no edge with biases"),
        (("relu", 0.0, 2.0), NoLimit, "multiplied by chi = 2 "),
        (("exp", 0.1), NoLimit, "never reached"),
        (("exp", 0.1, 1.0), NoLimit, "grow beyond"),
        (("rectified-monomial", 0.1), NoLimit, "multiplied by 1.5"),
        (("gelu", 0.1), NoLimit, "multiplied by 1.098"),
        (("softplus", 0.1), NoLimit, "no edge at this bias"),
        (("sign", 0.1), NoLimit, "jump"),
    ],
)
def test_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        criticality(*arguments)


def test_a_kink_of_the_users_own_is_told():
    leaky = dl.act.Custom(lambda x: x.clamp(-1, 1), derivative=lambda x: (x.abs() < 1).double())
    with pytest.warns(AccuracyWarning, match="Hermite series"):
        found = criticality(leaky, 0.3, 1.2)
    assert isnan(found.curvature)


@pytest.mark.parametrize(("name", "weight", "bias"), [("erf", 1.1, 0.2), ("gelu", 1.4, 0.5), ("tanh", 1.3, 0.2)])
def test_diagram_is_the_points_beside_each_other(name, weight, bias):
    weights, biases = np.linspace(0.6 * weight, 1.6 * weight, 6), np.linspace(0.1, 2 * bias, 4)
    found = criticality(name, bias, weight).diagram(weights, biases)
    for row, b in enumerate(biases):
        for column, w in enumerate(weights):
            if isnan(found.chi[row, column]):
                with pytest.raises(NoLimit):
                    criticality(name, b, w)
                continue
            point = criticality(name, b, w)
            assert found.variance[row, column] == pytest.approx(point.variance, rel=1e-8)
            assert found.chi[row, column] == pytest.approx(point.chi, rel=1e-8)
            assert found.correlation_length[row, column] == pytest.approx(point.correlation_length, rel=1e-5)
    for w, b in found.edge[:: max(1, len(found.edge) // 3)]:
        assert criticality(name, b).weight_std == pytest.approx(w, rel=1e-8)


def test_axes_of_a_diagram_are_checked():
    with pytest.raises(DescriptionError, match="weight_std is not a rising list"):
        criticality("erf", 0.1).diagram([1.0, 0.5])
    with pytest.raises(DescriptionError, match="bias_std is not a rising list"):
        criticality("erf", 0.1).diagram(None, [-1.0, 0.5])
