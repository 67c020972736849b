"""Learning rates: the edge of stability, momentum's factor, and the best heavy ball."""

import numpy as np
import pytest

import deeplimits as dl
from deeplimits.errors import DescriptionError, InputError
from tests.limits.refusal import refused
from tests.limits.training.lazy.problems import DEPTH, NET, X, Y, kernels

TOP = {train: float(np.linalg.eigvalsh(kernels(train)[1][:9, :9])[-1]) for train in ("all", "readout")}


def test_the_largest_rate():
    for train, top in TOP.items():
        assert dl.training.max_learning_rate(NET, X, DEPTH, train=train) == pytest.approx(2 / top, rel=1e-12)
    slow = dl.training.max_learning_rate(NET, X, DEPTH, momentum=0.9, ridge=1.0)
    assert slow == pytest.approx(2 * 1.9 / (TOP["all"] + 1), rel=1e-12)


@pytest.mark.parametrize("momentum", [None, 0.6])
def test_below_it_training_ends_and_at_it_is_refused(momentum):
    most = dl.training.max_learning_rate(NET, X, DEPTH, momentum or 0.0)
    options = {"rule": "gd" if momentum is None else "momentum", "momentum": momentum}
    flow = dl.gradient_flow(NET, X, Y, depth=DEPTH, time=200_000, rate=0.999 * most, **options)
    assert flow.loss < 1e-6
    for rate in (1.0001 * most, 3 * most):
        where = refused(
            lambda rate=rate: dl.gradient_flow(NET, X, Y, depth=DEPTH, time=5, rate=rate, **options),
            InputError, "diverges", f"{most:.6g}, the largest stable one",
        )  # fmt: skip
        assert where.where == "gradient_flow"


def test_the_heavy_ball_is_the_fastest():
    ball = dl.training.heavy_ball(NET, X, DEPTH)
    values = np.linalg.eigvalsh(kernels()[1][:9, :9])
    assert ball.factor == pytest.approx((1 - (r := (values[0] / values[-1]) ** 0.5)) / (1 + r), rel=1e-9)

    def slowest(rate, momentum):
        flow = dl.gradient_flow(NET, X, Y, depth=DEPTH, time=1, rule="momentum", rate=rate, momentum=momentum)
        return flow.convergence_times.max()

    best = slowest(ball.rate, ball.momentum)
    assert best == pytest.approx(-1 / np.log(ball.factor), rel=1e-3)
    for rate, momentum in ((1.02, 1.0), (0.98, 1.0), (1.0, 1.02), (1.0, 0.98)):
        assert slowest(ball.rate * rate, ball.momentum * momentum) > best


def test_one_row_is_learnt_in_one_step():
    ball = dl.training.heavy_ball(NET, X[:1], DEPTH)
    assert ball.momentum == 0.0
    assert dl.gradient_flow(NET, X[:1], [3.0], depth=DEPTH, time=1, rule="gd", rate=ball.rate).mean == pytest.approx(
        [3.0]
    )


@pytest.mark.parametrize("ask", [dl.training.max_learning_rate, dl.training.heavy_ball])
def test_refused(ask):
    net, zeros = dl.Mlp("relu"), np.zeros((2, 3))
    refused(lambda: ask(net, zeros, 1), InputError, "vanishes")
    refused(lambda: ask(net, X, 1, train="none"), DescriptionError, "train='none'")
    refused(lambda: ask(net, X, 1, ridge=-1.0), InputError, "ridge=-1.0")
    refused(lambda: ask(net, X.tolist()[0], 1), InputError, "X has shape (4,)")
    refused(lambda: ask(net.body, X, 1), DescriptionError, "not Gaussian")
    refused(lambda: dl.training.max_learning_rate(net, X, 1, momentum=1.0), InputError, "momentum=1.0")
