"""Every verdict on depth infinity: which limit, why, at what rate, and the refusal in the same words."""

from __future__ import annotations

import re
from math import exp, inf, log, pi, sqrt

import numpy as np
import pytest

import deeplimits as dl

act, DEPTH, NoLimit = dl.act, dl.DEPTH, dl.errors.NoLimit
Dense, Repeat, Residual, LayerNorm = dl.layer.Dense, dl.layer.Repeat, dl.layer.Residual, dl.layer.LayerNorm
X = np.random.default_rng(0).standard_normal((4, 6))


def refusal(net, kind):
    """Return the error of asking for values that do not exist; its reason must be describe()'s words."""
    with pytest.raises(NoLimit) as caught:
        dl.kernel(net, X, depth=inf, get=kind)
    error, words = caught.value, str(dl.describe(net, probe=np.einsum("nd,nd->n", X, X) / 6))
    assert error.fix
    assert f"get={kind!r}" in error.where
    strip = re.compile(r"[\d.e+-]+")
    assert strip.sub("#", error.why.rstrip(".")) == strip.sub("#", words.rstrip("."))
    return error


def only(net):
    (note,) = dl.describe(net).notes
    return note


def number(pattern, text):
    return float(re.search(pattern, text)[1])


def test_flow_says_why_and_how_well():
    note = only(dl.ResNet("relu"))
    assert (note.kind, note.nngp, note.ntk) == ("flow", True, True)
    assert "ODE in layer time" in note.text
    assert "max alpha -> 0" in note.text
    assert number(r"estimated relative error (\S+)", note.text) <= 1e-9


def test_the_kernel_carries_its_description():
    k = dl.kernel(dl.ResNet("erf"), X, depth=inf)
    assert "flow at layer time 1" in k.describe()
    assert "at depth 7" in dl.kernel(dl.ResNet("erf"), X, depth=7).describe()
    assert "does not depend on DEPTH" in str(dl.describe(Dense() >> act.Relu() >> Dense(1)))


def test_discrete():
    note = only(dl.StableResNet("relu", "decreasing"))
    assert (note.kind, note.nngp, note.ntk) == ("discrete", True, True)
    assert number(r"sum alpha_l\^2 = (\d+\.\d+)", note.text) == pytest.approx(pi**2 / 6, abs=1e-5)


@pytest.mark.parametrize("scale", [DEPTH**-1.0, 2 * DEPTH**-0.75, 0.0])
def test_trivial(scale):
    note = only(dl.ResNet("relu", scale=scale))
    assert (note.kind, note.nngp, note.ntk) == ("trivial", True, True)
    assert "blocks" in note.text


@pytest.mark.parametrize("variance", [1.0, 2.0])
def test_unscaled_branches(variance):
    """NNGP and NTK grow like (1 + sw^2/2)^L."""
    net = dl.ResNet("relu", sqrt(variance), scale=1.0)
    note = only(net)
    assert (note.kind, note.nngp, note.ntk) == ("explodes", False, False)
    assert number(r"exp\((\S+) L\)", note.text) == pytest.approx(log(1 + variance / 2), abs=1e-4)
    for kind in ("nngp", "ntk"):
        assert "explodes" in str(refusal(net, kind))
    at = [float(dl.kernel(net, X, depth=depth, get="nngp")[0, 0]) for depth in (20, 21)]
    assert log(at[1] / at[0]) == pytest.approx(log(1 + variance / 2), rel=1e-12)


@pytest.mark.parametrize(("exponent", "growth"), [(-0.25, 0.5), (-0.4, 0.2)])
def test_other_exponents(exponent, growth):
    """q_L = q_0 (1 + L^(2e)/2)^L, that is exp(L^(1+2e)/2)."""
    note = only(dl.ResNet("relu", scale=DEPTH**exponent))
    assert (note.kind, note.nngp, note.ntk) == ("explodes", False, False)
    rate, power = re.search(r"exp\((\S+) L\^(\S+)\)", note.text).groups()
    assert float(rate) == pytest.approx(0.5, rel=0.02)
    assert float(power) == pytest.approx(growth)


def test_bounded_branches_grow_like_a_power():
    note = only(dl.ResNet("erf", scale=1.0))
    assert (note.kind, note.nngp, note.ntk) == ("explodes", False, False)
    assert number(r"grows like L\^([\d.]+)", note.text) == pytest.approx(1, abs=0.1)
    slow = dl.ResNet("relu", scale=lambda place, depth: place**-0.5)
    assert number(r"grows like L\^([\d.]+)", only(slow).text) == pytest.approx(0.5, abs=0.01)


def test_sequences_that_do_not_settle():
    with pytest.raises(dl.DeepLimitsError, match="max alpha is still 1"):
        dl.describe(dl.ResNet("relu", scale=lambda place, depth: 1.0 if place == depth else 0.0))


RELU_LIKE = {
    "relu": dl.Mlp("relu"),
    "abs": dl.Mlp("abs"),
    "leaky": dl.Mlp(act.LeakyRelu(0.2), sqrt(2 / 1.04)),
    "layer norm": Dense() >> Repeat(LayerNorm() >> act.Relu() >> Dense()) >> Dense(1),
}
# (bias variance, weight variance, q* of the preactivations) at the edge of chaos, to five digits
ERF = [(1e-4, 0.85259, 0.04460), (0.01, 1.11428, 0.25321), (0.05, 1.37584, 0.51718), (0.3, 1.96307, 1.31182)]
TANH = [(0.01, 1.42421, 0.27330), (0.1, 1.98607, 0.80580)]


@pytest.mark.parametrize("name", RELU_LIKE)
def test_critical_with_a_kink(name):
    """1 - c ~ L^-2 and NTK(x, x')/NTK(x, x) -> 1/4."""
    note = only(RELU_LIKE[name])
    assert (note.kind, note.nngp, note.ntk) == ("critical", True, False)
    assert "1 - c ~ L^-2" in note.text
    assert "1/4 of it off the diagonal" in note.text
    assert number(r"\(([\d.]+) at L", note.text) == pytest.approx(1 / 4, abs=0.02)
    assert "NTK/L is finite" in note.text


@pytest.mark.parametrize(
    ("name", "bias", "weight", "q"), [*(("erf", *row) for row in ERF), *(("tanh", *row) for row in TANH)]
)
def test_critical_and_smooth(name, bias, weight, q):
    """1 - c ~ L^-1 and NTK(x, x')/NTK(x, x) -> 1/3."""
    note = only(dl.Mlp(name, sqrt(weight), sqrt(bias)))
    assert (note.kind, note.nngp, note.ntk) == ("critical", True, False)
    assert number(r"chi = ([\d.]+)", note.text) == pytest.approx(1, abs=1e-4)
    assert weight * number(r"\(q = ([\d.]+)\)", note.text) + bias == pytest.approx(q, abs=2e-4)
    assert "1 - c ~ L^-1" in note.text
    assert "1/3 of it off the diagonal" in note.text


def test_critical_ratio_of_a_smooth_network_and_the_normalisation():
    note = only(dl.Mlp("erf", sqrt(1.37584), sqrt(0.05)))
    assert number(r"\(([\d.]+) at L", note.text) == pytest.approx(1 / 3, abs=0.02)
    per_layer = number(r"finite, ([\d.]+) on the diagonal", note.text)
    theta = dl.kernel(dl.Mlp("erf", sqrt(1.37584), sqrt(0.05)), X, depth=400, get="ntk")
    assert theta[0, 0] / 400 == pytest.approx(per_layer, rel=1e-2)


def test_critical_relu_values():
    """NNGP is sqrt(q q'); the NTK is refused, and NTK/L is what the words say."""
    net = dl.Mlp("relu")
    q = np.einsum("nd,nd->n", X, X) / 6
    np.testing.assert_allclose(dl.kernel(net, X, depth=inf, get="nngp"), np.sqrt(np.outer(q, q)), rtol=1e-12)
    assert "get='nngp' has a limit" in refusal(net, "ntk").fix
    theta = dl.kernel(net, X, depth=400, get="ntk") / 401 / np.sqrt(np.outer(q, q))
    assert theta[0, 0] == pytest.approx(1, abs=1e-3)
    assert theta[0, 1] == pytest.approx(1 / 4, abs=0.02)
    with pytest.raises(NoLimit):
        dl.kernel(net, X, depth=inf)


def test_linear_networks_keep_their_angles():
    net = dl.Mlp("identity")
    assert only(net).kind == "isometric"
    np.testing.assert_allclose(dl.kernel(net, X, depth=inf, get="nngp"), X @ X.T / 6, rtol=1e-13)
    refusal(net, "ntk")


def test_ordered():
    net, w, b = dl.Mlp("erf", 0.8, 0.3), 0.64, 0.09
    q, previous = 1.0, 0.0
    while abs(q - previous) > 1e-15:
        q, previous = 2 / pi * np.arcsin(2 * (w * q + b) / (1 + 2 * (w * q + b))), q
    p = w * q + b
    slope = 4 / pi / sqrt((1 + 2 * p) ** 2 - 4 * p**2)
    note = only(net)
    assert (note.kind, note.nngp, note.ntk) == ("ordered", True, True)
    assert number(r"chi = ([\d.]+)", note.text) == pytest.approx(w * slope, abs=1e-6)
    k = dl.kernel(net.body, X, depth=inf)
    np.testing.assert_allclose(k.nngp, q, rtol=1e-10)
    np.testing.assert_allclose(k.ntk, slope * p / (1 - w * slope), rtol=1e-10)
    deep = dl.kernel(net.body, X, depth=300)
    np.testing.assert_allclose(deep.ntk, k.ntk, rtol=1e-10)


@pytest.mark.parametrize("chi", [0.9, 0.99, 0.999, 0.9998])
def test_ordered_near_the_edge_of_chaos(chi):
    """Relu with biases: q = b/(1 - chi) before the activation, and the NTK is q/(1 - chi) there."""
    net, b = dl.Mlp("relu", sqrt(2 * chi), 0.1), 0.01
    note = only(net)
    assert (note.kind, note.nngp, note.ntk, note.caution) == ("ordered", True, True, "")
    k = dl.kernel(net.body, X, depth=inf)
    np.testing.assert_allclose(k.nngp, b / (1 - chi) / 2, rtol=1e-11)
    np.testing.assert_allclose(k.ntk, b / (1 - chi) ** 2 / 2, rtol=1e-11)


def test_critical_with_biases_forgets_the_inputs():
    """One fixed point for all inputs, and kernels are that constant, not sqrt(q q') of inputs still on their way."""
    net = dl.Mlp("relu", sqrt(2 * 0.99995), 0.1)
    assert only(net).kind == "critical"
    np.testing.assert_allclose(dl.kernel(net.body, X, depth=inf, get="nngp"), 0.01 / 0.00005 / 2, rtol=1e-10)


def test_just_beyond_the_edge():
    slowly = only(dl.Mlp("relu", sqrt(2 * 1.0003), 0.1))
    assert slowly.kind == "explodes"
    assert number(r"explodes like exp\((\S+) L\)", slowly.text) == pytest.approx(log(1.0003), rel=1e-3)
    near = dl.Mlp("erf", 1.1732, sqrt(0.05))
    assert only(near).kind == "chaotic"
    with pytest.warns(dl.errors.AccuracyWarning, match="this close to the edge of chaos"):
        dl.kernel(near, X, depth=inf, get="nngp")


def test_gradients_of_a_fixed_point():
    """Dq/dw and dTheta/dw of relu with biases, from the closed forms."""
    torch = pytest.importorskip("torch")
    w = torch.tensor(1.2, dtype=torch.float64, requires_grad=True)
    net = dl.Mlp("relu", w, 0.3).body
    for kind, power in (("nngp", 1), ("ntk", 2)):
        (found,) = torch.autograd.grad(dl.kernel(net, X, depth=inf, get=kind)[0, 1], w)
        exact = 0.09 / 2 * power * 1.2 / (1 - 1.2**2 / 2) ** (power + 1)
        assert float(found) == pytest.approx(exact, rel=1e-10)


def test_chaotic():
    net = dl.Mlp("erf", 2.0, 0.1)
    note = only(net)
    assert (note.kind, note.nngp, note.ntk) == ("chaotic", True, False)
    error = refusal(net, "ntk")
    assert "chaotic phase" in error.why
    assert "get='nngp' has a limit" in error.fix
    rate = number(r"exp\((\S+) L\)", note.text)
    theta = [dl.kernel(net, X, depth=depth, get="ntk")[0, 0] for depth in (60, 61)]
    assert log(theta[1] / theta[0]) == pytest.approx(rate, abs=1e-4)
    assert number(r"a factor (\S+) a layer", note.text) == pytest.approx(exp(rate), abs=1e-3)
    limit, deep = dl.kernel(net, X, depth=inf, get="nngp"), dl.kernel(net, X, depth=400, get="nngp")
    np.testing.assert_allclose(limit, deep, atol=1e-12)
    assert limit[0, 1] / limit[0, 0] == pytest.approx(number(r"c\* = ([\d.]+)", note.text), abs=1e-5)


def test_steps_are_chaotic_with_a_finite_ntk():
    net = dl.Mlp("sign")
    assert (only(net).kind, only(net).ntk) == ("chaotic", True)
    k = dl.kernel(net, X, depth=inf)
    np.testing.assert_allclose(k.nngp, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(k.ntk, np.eye(4), atol=1e-12)


@pytest.mark.parametrize(
    ("net", "kind", "words"),
    [
        (dl.Mlp("relu", 1.0), "collapses", f"collapses to zero like exp({log(1 / 2):.4g} L)"),
        (dl.Mlp("relu", 1.6), "explodes", f"explodes like exp({log(1.28):.4g} L)"),
        (dl.Mlp("relu", sqrt(2), 0.2), "explodes", "grows like L^1"),
        (dl.Mlp("erf", sqrt(pi / 4)), "collapses", "falls like L^-1"),
        (dl.Mlp(act.RectifiedMonomial(2)), "explodes", "faster than any exp(c L)"),
    ],
    ids=["subcritical", "supercritical", "critical with biases", "edge without biases", "quadratic"],
)
def test_without_any_limit(net, kind, words):
    note = only(net)
    assert (note.kind, note.nngp, note.ntk) == (kind, False, False)
    assert words in note.text
    refusal(net, "nngp")
    refusal(net, "ntk")


def test_mixed_blocks():
    both = (
        Dense()
        >> Repeat(Residual(act.Relu() >> Dense(), DEPTH**-0.5) >> Residual(act.Erf() >> Dense(), 1.0))
        >> Dense(1)
    )
    assert only(both).kind == "explodes"
    vanishing = Dense() >> Repeat(
        Residual(act.Relu() >> Dense(), DEPTH**-0.5) >> Residual(act.Erf() >> Dense(), 1 / DEPTH)
    )
    one = Dense() >> Repeat(Residual(act.Relu() >> Dense(), DEPTH**-0.5))
    found, expected = (dl.kernel(net >> Dense(1), X, depth=inf, get="nngp") for net in (vanishing, one))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    with pytest.raises(dl.DeepLimitsError, match="not a chain of Residual"):
        dl.describe(Dense() >> Repeat(Residual(act.Relu() >> Dense(), DEPTH**-0.5) >> Dense()) >> Dense(1))


def test_two_repeats_have_two_notes():
    block = Residual(act.Relu() >> Dense(), DEPTH**-0.5)
    net = Dense() >> Repeat(block) >> Dense() >> Repeat(Residual(act.Erf() >> Dense(), 1.0)) >> Dense(1)
    description = dl.describe(net)
    assert [note.kind for note in description.notes] == ["flow", "explodes"]
    assert not description.nngp


def test_standard_parametrization_at_depth_infinity():
    """Branches of width 64: every term of the NTK counts its 64 inputs, scaled by alpha^2 = 1/L as all others."""
    net = dl.ResNet("relu")
    found = dl.kernel(net, X, depth=inf, get="ntk", parametrization="standard", widths=64)
    one, two = (dl.kernel(net, X, depth=depth, get="ntk", parametrization="standard", widths=64) for depth in (64, 128))
    assert np.abs(one - found).max() / np.abs(two - found).max() == pytest.approx(2, rel=0.05)
