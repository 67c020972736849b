"""The law of networks in training: beside a linear model, beside posteriors, in every shape, and beside networks."""

from math import inf

import numpy as np
import pytest

import deeplimits as dl
from deeplimits.finite.train import Descent, train
from deeplimits.limits.training.lazy import ask
from tests.limits.training.lazy.problems import DEPTH, NET, NEW, X, Y, kernels, law, propagator

RATE = 0.3
RULES = [
    {"time": 0.7},
    {"time": 40.0, "ridge": 0.05},
    {"rule": "gd", "time": 7, "rate": RATE},
    {"rule": "gd", "time": 33, "rate": RATE, "ridge": 0.2},
    {"rule": "momentum", "time": 23, "rate": RATE, "momentum": 0.7},
    {"rule": "momentum", "time": 50, "rate": RATE / 3, "momentum": 0.95, "ridge": 0.1},
]


@pytest.mark.parametrize("trained", ["all", "readout"])
@pytest.mark.parametrize("options", RULES, ids=str)
def test_a_linear_model_trained_in_its_weights(options, trained):
    nngp, moving = kernels(trained)
    assert 2 / np.linalg.eigvalsh(moving[:9, :9])[-1] > RATE
    mean, covariance = law(nngp, propagator(moving, **options), Y)
    flow = dl.gradient_flow(NET, X, Y, NEW, DEPTH, train=trained, covariance="full", **options)
    assert flow.mean == pytest.approx(mean[9:], abs=1e-11)
    assert flow.covariance == pytest.approx(covariance[9:, 9:], abs=1e-11)
    diagonal = dl.gradient_flow(NET, X, Y, NEW, DEPTH, train=trained, **options)
    assert diagonal.covariance is None and diagonal.std**2 == pytest.approx(np.diag(covariance)[9:], abs=1e-11)
    own = dl.gradient_flow(NET, X, Y, depth=DEPTH, train=trained, covariance="full", **options)
    assert own.mean == pytest.approx(mean[:9], abs=1e-11) and own.train_mean == pytest.approx(own.mean, abs=1e-11)
    assert own.covariance == pytest.approx(covariance[:9, :9], abs=1e-11)
    expected = 0.5 * np.sum((mean[:9] - Y) ** 2) + np.trace(covariance[:9, :9])  # two outputs
    assert flow.loss == pytest.approx(expected, rel=1e-10)
    assert own.losses_at(options["time"])[0] == pytest.approx(0.5 * np.sum((mean[:9] - Y) ** 2), rel=1e-9)


def test_the_start_and_the_end():
    nngp, ntk = kernels()
    flow = dl.gradient_flow(NET, X, Y[:, 0], NEW, DEPTH, time=[0, 1e12, inf], covariance="full")
    assert flow.mean[0].tolist() == [0.0] * 5 and flow.covariance[0] == pytest.approx(nngp[9:, 9:], abs=1e-13)
    answer = ntk[9:, :9] @ np.linalg.inv(ntk[:9, :9])
    assert flow.mean[2] == pytest.approx(answer @ Y[:, 0], abs=1e-11) and flow.mean[1].tolist() == flow.mean[2].tolist()
    assert flow.train_mean[2] == pytest.approx(Y[:, 0], abs=1e-12)
    assert flow.loss[2] == pytest.approx(0.0, abs=1e-20)
    posterior = nngp[9:, 9:] - nngp[9:, :9] @ np.linalg.solve(nngp[:9, :9], nngp[:9, 9:])
    bayes = dl.gradient_flow(NET, X, Y[:, 0], NEW, DEPTH, train="readout", covariance="full")
    assert bayes.covariance == pytest.approx(posterior, abs=1e-12)


def test_shapes_follow_times_and_targets():
    times = [0.5, 2.0]
    for y, column in ((Y[:, 0], ()), (Y[:, :1], (1,)), (Y, (2,))):
        for time, ahead in (
            (2.0, ()),
            (np.float32(2.0), ()),
            (times, (2,)),
            (np.array(times), (2,)),
            ((2.0,), (1,)),
            (range(1, 3), (2,)),
        ):
            flow = dl.gradient_flow(NET, X, y, NEW, DEPTH, time=time, covariance="full")
            assert flow.mean.shape == (*ahead, 5, *column) and flow.train_mean.shape == (*ahead, 9, *column)
            assert flow.variance.shape == flow.std.shape == (*ahead, 5) and flow.covariance.shape == (*ahead, 5, 5)
            assert flow.loss.shape == flow.time.shape == ahead
    late, early = (dl.gradient_flow(NET, X, Y, NEW, DEPTH, time=time).mean for time in (2.0, times))
    assert early[1].tolist() == late.tolist()


def test_outputs_are_independent_and_points_do_not_matter_to_each_other(monkeypatch):
    both = dl.gradient_flow(NET, X, Y, NEW, DEPTH, time=[0.5, inf])
    for column in range(2):
        alone = dl.gradient_flow(NET, X, Y[:, column], NEW, DEPTH, time=[0.5, inf])
        assert both.mean[..., column] == pytest.approx(alone.mean, abs=1e-13)
        assert both.variance.tolist() == alone.variance.tolist()
    monkeypatch.setattr(ask, "BLOCK_BYTES", 8 * 9 * 4 * 2)  # two points at a time
    parts = dl.gradient_flow(NET, X, Y, NEW, DEPTH, time=[0.5, inf])
    assert parts.mean == pytest.approx(both.mean, abs=1e-13)
    assert parts.variance == pytest.approx(both.variance, abs=1e-13)


def test_inputs_of_other_kinds():
    torch = pytest.importorskip("torch")
    expected = dl.gradient_flow(NET, X.astype(np.float32).astype(float), Y, NEW, DEPTH, time=3.0).mean
    found = dl.gradient_flow(NET, torch.tensor(X, dtype=torch.float32), torch.tensor(Y), NEW, DEPTH, time=3.0)
    assert found.mean == pytest.approx(expected, abs=1e-13) and found.mean.dtype == np.float64
    whole = dl.gradient_flow(NET, (10 * X).astype(int), [1, 0, 1, 0, 1, 0, 1, 0, 1], depth=DEPTH)
    assert whole.mean == pytest.approx([1, 0, 1, 0, 1, 0, 1, 0, 1], abs=1e-10)
    one = dl.gradient_flow(NET, X[:1], [2.0], X[:1], depth=DEPTH)
    assert one.mean == pytest.approx([2.0]) and one.variance == pytest.approx([0.0], abs=1e-14)


def test_depth_infinity_is_the_limit_of_depths():
    net = dl.ResNet("relu")
    flows = [dl.gradient_flow(net, X, Y[:, 0], NEW, depth, time=2.0) for depth in (64, 128, inf)]
    near, nearer = (np.abs(flow.mean - flows[2].mean).max() for flow in flows[:2])
    assert 0 < nearer < 0.6 * near
    assert "infinite depth" in flows[2].describe()


def test_equal_rows_are_fine_as_long_as_training_ends():
    """Two rows with targets that contradict each other move as one row with their mean and twice the rate."""
    twice = dl.gradient_flow(NET, X[[0, 0]], [1.0, 3.0], NEW, DEPTH, time=1.5, covariance="full")
    once = dl.gradient_flow(NET, X[:1], [2.0], NEW, DEPTH, time=3.0, covariance="full")
    assert twice.mean == pytest.approx(once.mean, abs=1e-12)
    assert twice.covariance == pytest.approx(once.covariance, abs=1e-12)
    assert twice.loss == pytest.approx(1.0 + 2 * once.loss, abs=1e-12)


def test_networks():
    """Theory's set-up at a small width: the spread of 100 networks beside the same number drawn from the limit.

    ReLU, one hidden layer, width 1024, 16 rows, 20 points, rate 1/largest eigenvalue, steps 5 and 30. Means to
    4.5 standard errors of the worst of 40, average spread to 4 standard deviations.
    """
    rng = np.random.default_rng(2)
    X, new, count, times = rng.standard_normal((16, 10)), rng.standard_normal((20, 10)), 100, (5, 30)
    y, net = np.sin(X.sum(1)), dl.Mlp("relu")
    rate = 0.5 * dl.training.max_learning_rate(net, X, depth=1)
    flow = dl.gradient_flow(net, X, y, new, 1, list(times), "gd", rate=rate, covariance="full")
    outputs = train(net, X, y[:, None], new, 1024, 1, count, 3, Descent(rate, 30), times).outputs[:, :, 16:, 0]
    for place in range(2):
        found, std = outputs[:, place], flow.std[place]
        assert np.abs(found.mean(0) - flow.mean[place]).max() < 4.5 * std.max() / count**0.5
        drawn = np.linalg.cholesky(flow.covariance[place]) @ rng.standard_normal((300, 20, count))
        ratios = (drawn.std(2, ddof=1) / std).mean(1)
        assert abs((found.std(0, ddof=1) / std).mean() - ratios.mean()) < 4 * ratios.std()
