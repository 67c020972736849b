"""The leading order of a posterior beside importance sampling from the prior, and beside closed forms."""

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.limits.corrections.four_point import QUADRATURE, SAMPLED, four_point
from deeplimits.limits.corrections.posterior import posterior_kernel
from deeplimits.limits.kernel.activation import family

RNG = np.random.default_rng(1)
X, Y = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 2))
NOISE = 0.3
FUNCTIONS = {"identity": lambda h: h, "tanh": np.tanh, "relu": lambda h: np.maximum(h, 0)}
GENERAL = {"weight_std": 1.4, "bias_std": 0.5, "readout_std": 0.8, "readout_bias_std": 0.3}


def sampled(net, function, widths, count=40_000):
    """What data change in the mean kernels, with standard errors: draws of the prior, weighted by the evidence."""
    rng, k, kernels = np.random.default_rng(7), np.broadcast_to(X @ X.T / X.shape[1], (count, 3, 3)), []
    for width in widths:
        root = np.linalg.cholesky(net.weight_std**2 * k + net.bias_std**2)
        features = function(root @ rng.standard_normal((count, 3, width)))
        k = features @ features.swapaxes(1, 2) / width
        kernels.append(k)
    matrix = net.readout_std**2 * k + net.readout_bias_std**2 + NOISE * np.eye(3)
    logs = -0.5 * np.einsum("ic,sic->s", Y, np.linalg.solve(matrix, np.broadcast_to(Y, (count, *Y.shape))))
    logs -= 0.5 * Y.shape[1] * np.linalg.slogdet(matrix)[1]
    weights = np.exp(logs - logs.max())
    weights = weights / weights.mean() - 1
    parts = [weights[:, None, None] * (one - one.mean(0)) for one in kernels]
    return [(part.mean(0), part.std(0) / count**0.5) for part in parts]


@pytest.mark.parametrize(
    ("name", "widths", "options"),
    [("identity", (50,), {}), ("tanh", (50,), {}), ("tanh", (50,), GENERAL), ("tanh", (40, 80), GENERAL)],
    ids=["linear", "tanh", "tanh with biases", "two layers of tanh"],
)
def test_importance_sampling_from_the_prior(name, widths, options):
    """Within 5 % of the largest entry (issue), beside four standard errors of the sampling."""
    net = dl.Mlp(name, **options)
    found = posterior_kernel(net, X, Y, len(widths), widths, NOISE)
    assert found.error.max() <= 1e-6 * np.abs(found.shift).max()
    for layer, (measured, error) in enumerate(sampled(net, FUNCTIONS[name], widths)):
        predicted = sum(found.shift[layer, m] / width for m, width in enumerate(widths))
        assert np.abs(predicted - measured).max() <= 0.05 * np.abs(predicted).max() + 4 * error.max()


def test_relu_to_the_accuracy_it_states():
    """Sampled four-point moments; the next order is of the size of the strength."""
    found = posterior_kernel(dl.Mlp("relu"), X, Y, width=100, noise=NOISE, samples=2**16)
    ((measured, error),) = sampled(dl.Mlp("relu"), FUNCTIONS["relu"], (100,), 20_000)
    predicted = found.shift[0, 0] / 100
    allowed = found.strength(100) * np.abs(predicted).max() + 4 * error.max() + 4 * found.standard_error(100).max()
    assert np.abs(predicted - measured).max() <= allowed
    assert found.methods == (SAMPLED,)
    assert 0 < found.error.max() <= 0.02 * np.abs(found.shift).max()


def test_deep_linear_closed_form():
    """(sum over m <= l of 1/n_m) (G A Y Y^T A G - C G A G), G the kernel of every layer, A = (G + noise)^-1."""
    widths = (30, 60, 120)
    found = dl.training.posterior_kernel(dl.Mlp("identity"), X, Y, 3, widths, NOISE)
    g = X @ X.T / 4
    a = np.linalg.inv(g + NOISE * np.eye(3))
    for layer in range(3):
        expected = sum(1 / n for n in widths[: layer + 1]) * g @ (a @ Y @ Y.T @ a - 2 * a) @ g
        np.testing.assert_allclose(found.at(widths)[layer] - g, expected, atol=1e-13)
    assert np.array_equal(found.at(np.inf), found.limit)


@pytest.mark.parametrize("name", ["tanh", "relu"])
def test_the_mean_before_any_data(name):
    """At one width for all layers, the correction of `dl.kernel` for the network that ends there; equal rows alike."""
    rows, net = X[[0, 1, 2, 1]], dl.Mlp(name, bias_std=0.2)
    found = posterior_kernel(net, rows, np.zeros(4), 3, 100, NOISE, samples=2**14)
    for layer in (1, 2):
        expected = dl.kernel(net, rows, depth=layer + 1, corrections=True).nngp_shift
        np.testing.assert_allclose(found.prior[layer].sum(0), expected, atol=1e-10)
    assert not found.prior[0].any() and not found.prior[1, 1].any()
    assert found.prior[2, 0].any() and found.prior[2, 1].any()
    lone = posterior_kernel(net, rows[:1], [0.0], 3, 100, NOISE, samples=2**14)
    np.testing.assert_allclose(lone.prior[:, :, 0, 0], found.prior[:, :, 0, 0], atol=1e-10)


def test_one_input_of_a_linear_network():
    """K = q chi^2_n / n: d/dlog K of the log evidence times the variance 2 q^2 / n, by hand."""
    found = posterior_kernel(dl.Mlp("identity"), [[1.0, 1.0]], [2.0], width=100, noise=1.0)
    assert found.shift[0, 0, 0, 0] == pytest.approx(2 * 0.5 * (4 / 4 - 1 / 2), rel=1e-14)


@pytest.mark.parametrize("rank", [2, 5])
def test_four_point_moments_of_a_polynomial(rank):
    """x + x^2/2 by quadrature (rank 2) and by quasi-random points (rank 5), beside Isserlis' theorem by brute force."""
    root = np.random.default_rng(rank).standard_normal((5, rank)) / 2
    weights = np.diag([1.0, -0.5, 0.2, 0.0, 0.7])
    found = four_point(family(dl.act.Polynomial((0.0, 1.0, 0.5))), root @ root.T, weights, 2**17, 0)
    nodes, shares = np.polynomial.hermite_e.hermegauss(5)  # exact for polynomials of degree 9
    points = np.stack(np.meshgrid(*[nodes] * rank, indexing="ij"), -1).reshape(-1, rank)
    mass = np.prod(np.stack(np.meshgrid(*[shares / shares.sum()] * rank, indexing="ij"), -1).reshape(-1, rank), axis=1)
    z = points @ root.T
    phi = z + z**2 / 2
    q = np.einsum("mi,ij,mj->m", phi, weights, phi)
    exact = (phi * (mass * q)[:, None]).T @ phi - ((phi * mass[:, None]).T @ phi) * (mass @ q)
    assert found.method == (QUADRATURE if rank == 2 else SAMPLED)
    assert np.abs(found.value - exact).max() <= 5 * found.error.max() + 1e-10
    assert found.error.max() <= 0.02 * np.abs(exact).max()


def test_range_of_validity():
    net = dl.Mlp("identity")
    found = posterior_kernel(net, X, 5 * Y, width=4000, noise=NOISE)
    assert found.strength(found.valid_from) <= 1 < found.strength(found.valid_from - 1)
    with pytest.warns(dl.errors.AccuracyWarning, match=f"it leads from width {found.valid_from} on"):
        found.at(10)
    assert str(found.valid_from) in found.describe()
    slope = np.log2(found.strength(4 * found.valid_from) / found.strength(16 * found.valid_from))
    assert slope == pytest.approx(1.0, abs=0.05)  # the evidence's deviation, as width^(-1/2)


def test_moments_that_points_do_not_reach_are_told():
    with pytest.warns(dl.errors.AccuracyWarning, match="four-point moments of Exp are good to"):
        posterior_kernel(dl.Mlp("exp"), 2 * X, Y, noise=NOISE, samples=2**12)
    constant = posterior_kernel(dl.Mlp("tanh", weight_std=0.0), X, Y, noise=NOISE)
    assert not constant.shift.any() and np.abs(constant.limit).max() < 1e-40


def test_arrays_of_every_kind():
    expected = posterior_kernel(dl.Mlp("erf"), X, Y[:, 0], noise=NOISE).shift
    for x, y in ((torch.from_numpy(X), torch.from_numpy(Y[:, :1])), (X.tolist(), Y[:, 0].tolist())):
        np.testing.assert_allclose(posterior_kernel(dl.Mlp("erf"), x, y, noise=NOISE).shift, expected, rtol=1e-12)
    whole = posterior_kernel(dl.Mlp("erf"), np.eye(2, dtype=int), np.array([1, 0]), noise=1)
    assert np.isfinite(whole.shift).all()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"net": dl.ResNet("relu")}, "known here for perceptrons"),
        ({"net": dl.Mlp(dl.act.ShapedRelu())}, "depends on the width"),
        ({"net": dl.Mlp("tanh"), "depth": 2, "X": np.eye(3) - np.eye(3)[0]}, "variance is 0 at row 0"),
        ({"net": dl.Mlp("tanh", weights=dl.layer.Orthogonal())}, "fluctuate otherwise"),
        ({"net": dl.Mlp("tanh", outputs=2)}, "outputs=2"),
        ({"net": "tanh"}, "known here for perceptrons"),
        ({"X": np.array([[1.0, np.nan]])}, "nan at row 0, column 1"),
        ({"X": np.zeros((0, 2))}, "empty"),
        ({"y": Y[:2]}, r"y has shape \(2, 2\) for 3 rows"),
        ({"y": np.array([1.0, np.inf, 0.0])}, "inf at row 1"),
        ({"y": ["a", "b", "c"]}, "not an array of numbers"),
        ({"X": 1e200 * X}, "leaves the range of float64 at row"),
        ({"X": 1e-200 * X}, "leaves the range of float64 at row"),
        ({"y": 1e200 * Y}, "leave the range of float64"),
        ({"noise": -0.1}, "not a variance"),
        ({"noise": True}, "not a variance"),
        ({"noise": "0"}, "not a variance"),
        ({"width": 0}, "width=0"),
        ({"width": (10, 10)}, "2 widths for 1 hidden layers"),
        ({"width": 10.5}, "width=10.5"),
        ({"depth": 1.5}, "depth=1.5"),
        ({"depth": np.inf}, "depth=inf"),
        ({"samples": 0}, "samples=0"),
        ({"seed": -1}, "-1 is not a whole number"),
        ({"X": X[[0, 1, 1]], "noise": 0}, "rows 1 and 2 are the same"),
        ({"X": np.stack([X[0], 2 * X[0], X[1]]), "noise": 0}, "rows 0 and 1"),
    ],
)
def test_refusals(changes, text):
    given = {"net": dl.Mlp("identity"), "X": X, "y": Y, "noise": NOISE} | changes
    with pytest.raises(dl.DeepLimitsError, match=text):
        posterior_kernel(**given)


def test_figure():
    from deeplimits.report.figures.posterior import moved_data, strength_data

    found = posterior_kernel(dl.Mlp("identity"), X, Y, width=64, noise=NOISE)
    moved, strength = moved_data(found), strength_data(found)
    assert len(moved.diagonal) == 3 and len(moved.pairs) == 3
    assert moved.diagonal[0] == (found.limit[0, 0, 0], found.kernels[0, 0, 0] - found.limit[0, 0, 0])
    assert strength.strength[0] == found.strength(int(strength.widths[0]))
    assert str(found.valid_from) in strength.describe() and "largest change" in moved.describe()
    assert len(dl.plot(found).axes) == 2
