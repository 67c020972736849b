"""Laws over networks: every comparison is of means within 4 standard errors, at fixed seeds checked to pass once."""

import importlib
import math

import numpy as np
import pytest
import torch
from scipy import special, stats

import deeplimits as dl
from deeplimits import act
from deeplimits.errors import DeepLimitsError
from deeplimits.finite import Sample, build, chunks, sample
from deeplimits.layer import Dense, LayerNorm, LowRank, Orthogonal, Parallel, Repeat, Residual, RMSNorm, Serial
from deeplimits.numerics.moments import variance
from tests.finite.oracle import scores, whole

FRONT = importlib.import_module("deeplimits.finite.sample")
BOTH = ("nngp", "ntk")
X = np.random.default_rng(0).standard_normal((3, 5))

NETWORKS = {
    "plain": dl.Mlp("tanh", weight_std=1.3, bias_std=0.3),
    "residual": dl.ResNet("relu", bias_std=0.3, readout_bias_std=0.2),
    "two-layer branches": dl.ResNet("tanh", branch_layers=2, inner_bias_std=0.2, final_activation="erf"),
    "normalised": Dense(bias_std=0.2)
    >> Repeat(Residual(LayerNorm() >> Dense() >> act.Gelu() >> Dense(), 0.7))
    >> RMSNorm()
    >> Dense(1, 1.5, 0.3),
    "parallel": Dense()
    >> Repeat(Parallel(act.Relu() >> Dense(), act.Tanh() >> Dense(bias_std=0.3), Serial()))
    >> act.Sin()
    >> Dense(1),
    "changing widths": Dense(7)
    >> act.Relu()
    >> Dense(0.5 * dl.WIDTH)
    >> act.Relu()
    >> Dense(9)
    >> act.Abs()
    >> Dense(1),
    "no derivative": dl.Mlp("sign"),
}


def agree(one, other):
    """Means, and variances of the logs of the diagonal, of two independent sets of matrices."""
    assert np.abs(scores(one, other)).max() <= 4
    first, second = (variance(np.log(np.diagonal(m, axis1=1, axis2=2) + 1e-300)) for m in (one, other))
    error = np.hypot(first[1], second[1])
    assert (np.abs(first[0] - second[0]) <= 4 * error + 1e-12).all()


@pytest.mark.parametrize("width", [8, 2])
@pytest.mark.parametrize("name", NETWORKS)
def test_conditioning_is_exact_in_law(name, width):
    if width == 2 and name == "changing widths":
        width = 4
    found = sample(NETWORKS[name], X, width, 3, 2000, 2, BOTH)
    gram, ntk = whole(NETWORKS[name], X, width, 3, 2000, 3)
    agree(found.gram, gram)
    agree(found.ntk, ntk)


def test_conditioning_and_whole_networks_agree_in_the_standard_parametrization():
    net = dl.ResNet("relu", bias_std=0.3)
    found = sample(net, X, 8, 2, 1000, 0, BOTH, "standard")
    task = FRONT.prepare(net, X, 8, 2, 150, 1, BOTH, "standard")
    other = FRONT.collect(task, FRONT.whole_networks(task), None)
    agree(found.gram, other.gram)
    agree(found.ntk, other.ntk)


def test_standard_and_ntk_differ_by_the_fan_in():
    net = Dense(6, 1.5) >> act.Relu() >> Dense(1, 2.0, 0.5)
    ntk, standard = (sample(net, X, 6, 1, 5, 0, BOTH, p) for p in ("ntk", "standard"))
    gram = ntk.gram  # of the 6 features that enter the readout
    assert np.array_equal(gram, standard.gram)
    backward = (ntk.ntk - 4 * gram - 0.25) / 1.5**2 * 5
    assert np.allclose(standard.ntk - 6 * gram - 1, backward, rtol=1e-10, atol=1e-12)


def test_residual_network_on_the_diagonal():
    """Golden: E q = (1 + 1/(2L))^L, c_1 = .3012 - .27/n at c_0 = .2, sqrt(n) std q = 3.565 (width CLT)."""
    n = depth = 64
    inputs = np.array([[1.0, 0.0], [0.2, math.sqrt(0.96)]]) * math.sqrt(2)
    found = sample(dl.ResNet("relu"), inputs, n, depth, 2000, 0)
    q, expected = found.gram[:, 0, 0], (1 + 0.5 / depth) ** depth
    assert abs(found.mean[0, 0] - expected) <= 4 * found.standard_error[0, 0] + 0.13 / n * expected
    c = found.gram[:, 0, 1] / np.sqrt(q * found.gram[:, 1, 1])
    assert abs(c.mean() - (0.301227 - 0.27 / n)) <= 4 * c.std() / math.sqrt(2000) + 0.03 / n + 0.04 / depth
    spread = stats.bootstrap((q,), np.std, n_resamples=400, rng=np.random.default_rng(0)).standard_error
    assert abs(q.std() - 3.565 / math.sqrt(n)) <= 4 * spread
    assert abs(found.log_variance[0] - 4.6753 / n) <= 4 * found.log_variance_error[0] + 3 / n**2


def test_residual_network_off_the_diagonal():
    found = sample(dl.ResNet("relu"), np.ones((1, 3)), 512, 32, 400, 1)
    spread = 512**0.5 * found.gram.std(ddof=1)
    assert abs(spread - 3.5) <= 4 * 3.5 / math.sqrt(2 * 400) + 0.1


def test_tangent_kernel_of_a_residual_network_has_the_exact_mean_to_leading_order():
    depth, n = 16, 256
    found = sample(dl.ResNet("relu"), np.ones((1, 4)), n, depth, 300, 0, BOTH)
    expected = (1 + 0.5 / depth) ** depth * (2 + 0.5 / (1 + 0.5 / depth))
    assert abs(found.ntk_mean[0, 0] - expected) <= 4 * found.ntk_standard_error[0, 0] + 2 / n


def test_he_perceptron_has_the_exact_chi_square_law():
    """Golden at n = L = 128: mean of log q is -2.533, its variance 5.15 (sums of log((2/n) chi^2_B), B binomial)."""
    n = depth = 128
    active = np.arange(1, n + 1)
    weight = stats.binom.pmf(active, n, 0.5)
    mean = special.digamma(active / 2) + math.log(4 / n)
    step = weight @ mean
    variance = weight @ (special.polygamma(1, active / 2) + mean**2) - step**2
    assert depth * step == pytest.approx(-2.533, abs=5e-4) and depth * variance == pytest.approx(5.15, abs=5e-3)
    found = sample(dl.Mlp("relu"), np.ones((1, 9)), n, depth, 1000, 0)
    logs = np.log(found.gram[:, 0, 0])
    assert abs(logs.mean() - depth * step) <= 4 * logs.std() / math.sqrt(1000)
    assert abs(found.log_variance[0] - depth * variance) <= 4 * found.log_variance_error[0]


def test_a_run_is_the_beginning_of_a_longer_one_whatever_the_chunks(monkeypatch):
    net = dl.ResNet("tanh", bias_std=0.2)
    long = sample(net, X, 16, 4, 20, 7, BOTH)
    monkeypatch.setattr(chunks, "CHUNK_ENTRIES", 100)
    done = []
    short = sample(net, X, 16, 4, 7, 7, BOTH, progress=lambda count, total: done.append((count, total)))
    assert len(done) > 1 and done[-1] == (7, 7)
    assert np.allclose(short.gram, long.gram[:7], rtol=1e-10) and np.allclose(short.ntk, long.ntk[:7], rtol=1e-10)
    assert not np.allclose(sample(net, X, 16, 4, 7, 8).gram, short.gram, rtol=1e-3)
    forward = sample(net, X, 16, 4, 7, 7)
    assert np.allclose(forward.gram, short.gram, rtol=1e-10) and forward.ntk is None


def test_identical_opposite_zero_and_near_inputs():
    x = X[0]
    inputs = np.stack([x, x, -x, 0 * x, -0.0 * x, x + 1e-9 * X[1], 2 * x])
    found = sample(dl.Mlp("relu"), inputs, 12, 5, 50, 0, BOTH)
    for held in (found.gram, found.ntk):
        assert np.isfinite(held).all()
        assert np.array_equal(held[:, 0], held[:, 1]) and np.array_equal(held[:, :, 0], held[:, :, 1])
    assert not found.gram[:, 3:5].any()
    assert np.allclose(found.gram[:, 6, 6], 4 * found.gram[:, 0, 0], rtol=1e-10)  # without biases ReLU is homogeneous
    assert np.allclose(found.gram[:, 5, 5], found.gram[:, 0, 0], rtol=1e-6)
    assert np.isnan(found.log_variance[3]) and np.isfinite(found.log_variance[:3]).all()


def test_more_inputs_than_features():
    many = np.random.default_rng(1).standard_normal((20, 30))
    found = sample(dl.Mlp("tanh"), many, 6, 3, 1000, 0, BOTH)
    gram, ntk = whole(dl.Mlp("tanh"), many, 6, 3, 1000, 1)
    assert np.abs(scores(found.gram, gram)).max() <= 4.5  # 400 comparisons
    assert np.abs(scores(found.ntk, ntk)).max() <= 4.5
    assert np.linalg.matrix_rank(found.gram[0]) == 6


def test_other_weights_come_from_whole_networks():
    d = 12
    inputs = np.random.default_rng(2).standard_normal((3, d))
    isometry = Repeat(Dense(weight_std=1.5, weights=Orthogonal())) >> Dense(1)
    found = sample(isometry, inputs, d, 2, 3, 0, BOTH)
    assert np.allclose(found.gram, 1.5**4 * inputs @ inputs.T / d, rtol=1e-12)
    assert found.ntk.shape == (3, 3, 3)
    low = dl.Mlp("tanh", weights=LowRank(0.5))
    first = sample(low, inputs, d, 2, 4, 0)
    seed = int(importlib.import_module("deeplimits.numerics.seeds").generator(0, "network", 1).integers(2**63))
    module = build(low, d, 2, seed, dtype=torch.float64)
    features = module[:-1](torch.from_numpy(inputs)).detach().numpy()
    assert np.allclose(first.gram[1], features @ features.T / d, rtol=1e-12)


def test_networks_without_readout_and_without_body():
    net = dl.Mlp("relu")
    assert np.array_equal(sample(net.body, X, 8, 2, 3, 0).gram, sample(net, X, 8, 2, 3, 0).gram)
    linear = sample(Dense(1, 2.0, 0.5), X, 8, 1, 2, 0, BOTH)
    assert np.allclose(linear.gram, X @ X.T / 5) and np.allclose(linear.ntk, 4 * X @ X.T / 5 + 0.25)
    with pytest.raises(DeepLimitsError, match="readout"):
        sample(net.body, X, 8, 2, 3, 0, "ntk")


def test_statistics_are_those_of_the_matrices():
    found = sample(dl.ResNet("relu"), X, 8, 2, 40, 0, BOTH)
    flat = found.gram.reshape(40, -1)
    assert np.allclose(found.mean, found.gram.mean(0)) and found.networks == 40
    assert np.allclose(found.standard_error, stats.sem(found.gram, axis=0))
    assert np.allclose(found.covariance.reshape(9, 9), np.cov(flat.T))
    logs = np.log(np.diagonal(found.gram, axis1=1, axis2=2))
    assert np.allclose(found.log_variance, logs.var(0, ddof=1))
    assert np.allclose(found.ntk_standard_error, stats.sem(found.ntk, axis=0))


def test_errors_of_the_statistics_cover():
    draw = np.random.default_rng(5)
    scored_log, scored_covariance = [], []
    for _ in range(300):
        gram = np.exp(0.3 * draw.standard_normal((100, 1, 1)))
        record = Sample(1, 1, 0, "ntk", gram)
        scored_log.append((record.log_variance[0] - 0.09) / record.log_variance_error[0])
        exact = math.exp(0.09) * (math.exp(0.09) - 1)
        scored_covariance.append((record.covariance.item() - exact) / record.covariance_error.item())
    assert 0.8 <= np.std(scored_log) <= 1.25
    assert 0.8 <= np.std(scored_covariance) <= 1.5  # skewed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"X": np.where(np.arange(15).reshape(3, 5) == 7, np.nan, 1.0)}, "row 1, column 2"),
        ({"X": X * np.inf}, "inf"),
        ({"X": X[0]}, "shape (5,)"),
        ({"X": X[:0]}, "empty"),
        ({"X": [["a", "b"]]}, "column 0"),
        ({"width": 0}, "width=0"),
        ({"depth": 1.5}, "depth=1.5"),
        ({"networks": 1}, "networks=1"),
        ({"networks": 10**12}, "bytes"),
        ({"seed": -3}, "-3"),
        ({"get": "kernel"}, "kernel"),
        ({"get": ()}, "()"),
        ({"parametrization": "mup"}, "mup"),
        ({"net": 3}, "3"),
        ({"net": dl.ResNet("relu", scale=1e200)}, "overflow"),
    ],
)
def test_bad_requests_say_where_why_and_how_to_mend(change, words):
    given = {"net": dl.ResNet("relu"), "X": X, "width": 8, "depth": 3, "networks": 2, "seed": 0} | change
    with pytest.raises(DeepLimitsError) as caught:
        sample(**given)
    assert words in str(caught.value) and "Fix:" in str(caught.value)
