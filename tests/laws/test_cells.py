"""Every (layer, limit) cell against sampled networks, within 4 standard errors.

Limits: the right edge (width infinity, depth 2 or so, `get` nngp and ntk) and the corner (depth infinity as well).
Prediction and measurement share no code but the description: one is a recursion of kernels, the other random matrices.

Size: entries of 4 x 4 symmetric matrices, the NNGP kernel <Y, Y>/n of the features before the readout (mapped through
the readout) and the NTK of the scalar network: 20 comparisons a cell, of which about 10 are independent.
Right edge: width 1024, 256 networks; corner: width 512, depth 32, 64 networks; structured weights, which need whole
matrices: width 256 (corner 96) and 64 networks. Seeds are fixed, so a right program passes always; with other seeds,
|t| > 4 has probability 8e-5 (256 networks) or 1.7e-4 (64), so that any one cell fails in about 0.1 to 0.2 %, and the
whole file in about 12 %, of seeds.

Bias: at width n/16 the bias is 16 times that at n, and the standard error only 4 times, so that a sixteenth of the
error measured there is the bias at n up to a quarter of a standard error: it is asserted to stay below one (structured
weights: width n/4 and 4 times the networks, to the same accuracy). The bias in
depth, exact from kernel(L) - kernel(inf), is asserted to stay below one standard error, and to fall as 1/L.
"""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

import deeplimits as dl
from deeplimits.architecture.dense import WeightLaw
from deeplimits.architecture.question import Question
from deeplimits.architecture.zoo import Network
from tests.laws.cells import CORNER, PSEUDO_IID, RIGHT_EDGE, WEIGHTS, Dense, X, act, kinds, perceptron

BOTH = ("nngp", "ntk")
DEEP = 32


def measured(net, width, depth, networks, seed=1, parametrization="ntk"):
    """Return {kind: (mean, standard error)} of the outputs' NNGP kernel and the NTK."""
    s = dl.sample(net, X, width, depth, networks, seed, BOTH, parametrization)
    readout = (net.parts() if isinstance(net, Network) else net).layers[-1]
    weight, bias = readout.weight_std**2, readout.bias_std**2
    return {"nngp": (weight * s.mean + bias, weight * s.standard_error), "ntk": (s.ntk_mean, s.ntk_standard_error)}


def predicted(net, depth, **options):
    k = dl.kernel(net, X, depth=depth, **options)
    return {"nngp": k.nngp, "ntk": k.ntk}


def check(found, expected, narrow=None, ratio=16):
    """Assert agreement within 4 standard errors and, given a narrower sample, a bias below one standard error."""
    for kind, (mean, error) in found.items():
        exact = 1e-6 * np.abs(expected[kind]).max()
        np.testing.assert_array_less(np.abs(mean - expected[kind]), 4 * error + exact, err_msg=kind)
        if narrow is not None:
            bias = np.abs(narrow[kind][0] - expected[kind]) / ratio
            np.testing.assert_array_less(bias, error + exact, err_msg=f"bias of {kind}")


@pytest.mark.parametrize("name", RIGHT_EDGE)
def test_right_edge(name):
    net = RIGHT_EDGE[name]
    check(measured(net, 1024, 2, 256), predicted(net, 2), measured(net, 64, 2, 256, seed=2))


@pytest.mark.parametrize("name", CORNER)
def test_corner(name):
    net = CORNER[name]
    found, limit = measured(net, 512, DEEP, 64), predicted(net, inf)
    check(found, limit, measured(net, 32, DEEP, 64, seed=2))
    one, two = predicted(net, DEEP), predicted(net, 2 * DEEP)
    for kind, (_, error) in found.items():
        bias = np.abs(one[kind] - limit[kind])
        np.testing.assert_array_less(bias, error, err_msg=f"depth bias of {kind}")
        assert bias.max() / np.abs(two[kind] - limit[kind]).max() == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize(
    ("law", "phi"), [*((law, "erf") for law in PSEUDO_IID), ("orthogonal", "relu"), ("low rank", "relu")]
)
def test_weights_at_the_right_edge(law, phi):
    net = perceptron(dl.Mlp(phi).activation, 1.1, WEIGHTS[law])
    check(measured(net, 256, 2, 64), predicted(net, 2), measured(net, 64, 2, 256, seed=2), ratio=4)


@pytest.mark.parametrize("law", PSEUDO_IID)
def test_weights_at_the_corner(law):
    net = dl.ResNet("relu", 0.5, 0.1, weights=WEIGHTS[law])
    found, limit, finite = measured(net, 96, 6, 64), predicted(net, inf), predicted(net, 6)
    check(found, limit)
    for kind, (_, error) in found.items():
        np.testing.assert_array_less(np.abs(finite[kind] - limit[kind]), error)


@pytest.mark.parametrize(
    "net", [RIGHT_EDGE["activation: erf"], RIGHT_EDGE["resnet: two-layer branches"]], ids=["mlp", "resnet"]
)
def test_standard_parametrization(net):
    expected = predicted(net, 2, parametrization="standard", widths=1024)
    check(measured(net, 1024, 2, 256, parametrization="standard"), expected)


@pytest.mark.parametrize("parametrization", ["ntk", "standard"])
@pytest.mark.parametrize("name", ["activation: gelu", "resnet: biases", "composition: norm before the branch"])
def test_built_modules(name, parametrization):
    """The empirical NTK of modules built one by one, width 256, 64 networks."""
    net, options = RIGHT_EDGE[name], {"parametrization": parametrization}
    modules = [dl.build(net, 256, 2, seed, features_in=X.shape[1], **options) for seed in range(64)]
    ntks = np.stack([dl.empirical_ntk(module.double(), X) for module in modules])
    widths = {"widths": 256} if parametrization == "standard" else {}
    expected = dl.kernel(net, X, depth=2, get="ntk", **options, **widths)
    np.testing.assert_array_less(np.abs(ntks.mean(0) - expected), 4 * ntks.std(0, ddof=1) / np.sqrt(len(ntks)))


def test_outputs_are_gaussian_processes():
    """Outputs of built networks at one input: mean 0 and variance K, 2000 networks; exact in the readout's law."""
    net = dl.Mlp("relu", bias_std=0.3)
    s = dl.sample(net, X, 256, 3, 2000, seed=3)
    outputs = np.random.default_rng(0).standard_normal(2000) * np.sqrt(s.gram[:, 0, 0])
    expected = dl.kernel(net, X, depth=3, get="nngp")[0, 0]
    assert abs(outputs.mean()) <= 4 * np.sqrt(expected / 2000)
    assert abs((outputs**2).mean() - expected) <= 4 * (outputs**2).std() / np.sqrt(2000)


def test_every_kernel_rule_has_a_law():
    """A new layer with a kernel rule fails here until it stands in a cell of both limits.

    Networks whose inputs are paths stand in tests/limits/controlled; activations that the width shapes, where the
    right edge is 1/sqrt(width) away, in tests/finite/test_shaped.py.
    """
    rules = set(Question.every["kernel"].rules) - {dl.layer.ControlledResNet, dl.act.ShapedRelu}
    edge = set().union(*(kinds(net) for net in RIGHT_EDGE.values()))
    corner = set().union(*(kinds(net) for net in CORNER.values()))
    assert rules - edge == set()
    assert rules - corner == set()


def test_every_law_of_weights_is_sampled():
    assert {type(law) for law in WEIGHTS.values()} == set(WeightLaw.__subclasses__())


def test_a_wrong_kernel_is_found():
    """The test can fail: a bias of 0.3 in place of 0.35 is more than 4 standard errors off."""
    right, wrong = perceptron(act.Erf()), dl.Mlp("erf", 1.1, 0.35, readout_std=0.9, readout_bias_std=0.2)
    with pytest.raises(AssertionError):
        check(measured(right, 1024, 2, 256), predicted(wrong, 2))


def test_a_dense_readout_is_what_the_cells_assume():
    nets = [*RIGHT_EDGE.values(), *CORNER.values()]
    assert all(isinstance((net.parts() if isinstance(net, Network) else net).layers[-1], Dense) for net in nets)
