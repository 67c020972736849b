"""Data learned by deep linear networks: the record beside gradient descent of real layers, and what is refused."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.limits.training.linear.ask import deep_linear
from deeplimits.limits.training.linear.balanced import balanced
from deeplimits.limits.training.linear.modes import mode_strength
from tests.limits.refusal import refused

RNG = np.random.default_rng(0)
WHITE = np.linalg.qr(RNG.standard_normal((12, 4)))[0]
RAW = RNG.standard_normal((12, 4)) * [1.0, 2.0, 0.5, 1.5]
Y = RNG.standard_normal((12, 3)) / 2


def descent(X, y, weights, rate, steps):
    """Return the product and the loss after every step of gradient descent on sum (f - y)^2 / 2."""
    products, losses = [], []
    for _ in range(steps + 1):
        down = [np.eye(X.shape[1])]
        for W in weights:
            down.append(W @ down[-1])
        wrong = X @ down[-1].T - y
        products.append(down[-1])
        losses.append((wrong**2).sum() / 2)
        up, new = wrong.T @ X, list(weights)
        for j in reversed(range(len(weights))):
            new[j] = weights[j] - rate * up @ down[j].T
            up = weights[j].T @ up
        weights = new
    return np.array(products), np.array(losses)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_the_record_is_what_gradient_descent_does(layers, scale):
    """At rate 1e-3, modes up to 1.8 and X'X = scale^2 modes are 6e-3 off at most, and the loss that times them."""
    rate, steps = 1e-3 / scale**2, 4000
    times = rate * np.arange(0, steps + 1, 500)
    found = deep_linear(scale * WHITE, Y, layers=layers, time=times, initial=0.05)
    weights = balanced(found.matrix[0], layers, width=5)
    products, losses = descent(scale * WHITE, Y, weights, rate, steps)
    np.testing.assert_allclose(found.matrix, products[::500], atol=6e-3)
    np.testing.assert_allclose(found.loss, losses[::500], atol=6e-3 * scale**2 * found.targets.sum())
    new = RNG.standard_normal((2, 4))
    np.testing.assert_allclose(found.predict(new), np.einsum("pd,tcd->tpc", new, found.matrix), atol=1e-12)


def test_inputs_may_be_whitened():
    """The network then sees X (X'X)^(-1/2) sqrt(P); the record speaks of X."""
    root = np.linalg.inv(np.linalg.cholesky(RAW.T @ RAW)).T * len(RAW) ** 0.5
    turn, _, back = np.linalg.svd(RAW, full_matrices=False)
    seen = turn @ back * len(RAW) ** 0.5
    found = deep_linear(RAW, Y, layers=2, time=[0.0, 0.05, 100.0], initial=0.1, whiten=True)
    plain = deep_linear(seen, Y, layers=2, time=[0.0, 0.05, 100.0], initial=0.1)
    np.testing.assert_allclose(found.predict(RAW), plain.predict(seen), atol=1e-10)
    np.testing.assert_allclose(found.loss, plain.loss, rtol=1e-10)
    best = np.linalg.lstsq(RAW, Y, rcond=None)[0]
    np.testing.assert_allclose(found.matrix[-1], best.T, atol=1e-8)
    np.testing.assert_allclose((RAW @ root).T @ (RAW @ root), 12 * np.eye(4), atol=1e-10)


def test_modes_may_see_different_variances():
    """X'X that is diagonal where y'X is: every mode has its own speed."""
    X, y = np.diag([1.0, 2.0, 3.0]), np.diag([3.0, 4.0, 1.0])
    found = deep_linear(X, y, layers=3, time=[0.3], initial=[0.1, 0.2, 0.3])
    assert found.targets.tolist() == pytest.approx([3.0, 2.0, 1 / 3])
    assert found.speeds.tolist() == pytest.approx([1.0, 4.0, 9.0])
    weights = balanced(deep_linear(X, y, layers=3, time=[0.0], initial=[0.1, 0.2, 0.3]).matrix[0], 3)
    products, _ = descent(X, y, weights, 1e-4, 3000)
    np.testing.assert_allclose(found.matrix[0], products[-1], atol=2e-3)


def test_one_output_and_fewer_rows_than_columns():
    X = np.eye(2, 5)
    found = deep_linear(X, [1.0, 2.0], layers=2, time=[0.0, 1.0, 50.0])
    assert found.predict(X).shape == (3, 2)
    np.testing.assert_allclose(found.predict(X)[-1], [1.0, 2.0], atol=1e-9)
    assert found.loss[-1] == pytest.approx(0.0, abs=1e-12)
    assert found.targets == pytest.approx(5**0.5)
    column = deep_linear(X, [[1.0], [2.0]], layers=2, time=[0.0, 1.0, 50.0])
    np.testing.assert_array_equal(column.predict(X)[..., 0], found.predict(X))


def test_other_kinds_of_arrays():
    expected = deep_linear(np.eye(3), np.diag([3.0, 2.0, 1.0]), layers=2, time=2.0).strengths
    tensor = deep_linear(torch.eye(3), torch.diag(torch.tensor([3, 2, 1])), layers=2, time=2.0).strengths
    whole = deep_linear(np.eye(3, dtype=int), np.diag([3, 2, 1]), layers=2.0, time=2).strengths
    np.testing.assert_array_equal(tensor, expected)
    np.testing.assert_array_equal(whole, expected)
    assert expected.shape == (201, 3)


def test_when_modes_are_learned():
    found = deep_linear(np.eye(3), np.diag([3.0, 2.0, 1.0]), layers=4, time=5.0, initial=[0.01, 1.5, 2.0])
    times = found.learned(0.5)
    assert mode_strength(times[0], 3.0, 0.01, 4) == pytest.approx(1.5, rel=1e-10)
    assert times[1:].tolist() == [0.0, inf]
    assert "3 modes" in found.describe()
    assert "4 matrices" in found.describe()
    unlimited = deep_linear(np.eye(1), [1.0], layers=inf, time=30.0, initial=0.1)
    assert "N x rate x steps = 30" in unlimited.describe()
    assert unlimited.learned(0.95) == pytest.approx(14.09, abs=0.005)


@pytest.mark.parametrize("layers", [1, 2, 3, 5])
def test_the_largest_rate_is_where_gradient_descent_turns_unstable(layers):
    """Of u^(1/N) near its end: errors shrink at 0.99 of it and grow at 1.01 of it."""
    found = deep_linear(2 * WHITE, Y, layers=layers, time=1.0)
    s = found.targets[0]
    for share, grows in ((0.99, False), (1.01, True)):
        a = s ** (1 / layers) * (1 + 1e-7)
        gap = abs(a**layers - s)
        for _ in range(60):
            a = a - share * found.largest_rate * 4 * (a**layers - s) * a ** (layers - 1)
        assert (abs(a**layers - s) > gap) == grows


TALL = np.ones((3, 2))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: deep_linear(RAW, Y, layers=2, time=1.0), ("X'X turns mode", "whiten=True", "EndToEnd")),
        (lambda: deep_linear(WHITE, Y[:5], layers=2, time=1.0), ("y has shape (5, 3), and X has 12 rows",)),
        (lambda: deep_linear(WHITE, np.zeros(12), layers=2, time=1.0), ("y'X is zero",)),
        (lambda: deep_linear(WHITE, Y * np.nan, layers=2, time=1.0), ("y has nan at row 0, column 0",)),
        (lambda: deep_linear([], [], layers=2, time=1.0), ("X has shape (0,)",)),
        (lambda: deep_linear(WHITE, Y, layers=2, time=1e200), ("time=", "is not between 1e-100 and 1e+100")),
        (lambda: deep_linear(WHITE * np.inf, Y, layers=2, time=1.0), ("at row 0, column 0",)),
        (lambda: deep_linear(WHITE, ["a"] * 12, layers=2, time=1.0), ("y has dtype",)),
        (lambda: deep_linear(WHITE, [[1.0], [1.0, 2.0]], layers=2, time=1.0), ("y is not an array",)),
        (lambda: deep_linear(WHITE, 1.0, layers=2, time=1.0), ("y has shape ()",)),
        (lambda: deep_linear(WHITE, np.ones((12, 0)), layers=2, time=1.0), ("y has shape (12, 0)",)),
        (lambda: deep_linear(WHITE, Y, layers=0, time=1.0), ("layers=0",)),
        (lambda: deep_linear(WHITE, Y, layers=2, time=-1.0), ("time 0 is -1",)),
        (lambda: deep_linear(WHITE, Y, layers=2, time=[1.0, 0.5]), ("times go backwards",)),
        (lambda: deep_linear(WHITE, Y, layers=2, time=1.0, initial=-0.1), ("initial=-0.1",)),
        (lambda: deep_linear(WHITE, Y, layers=2, time=1.0, initial=[0.1, 0.1]), ("the data have 3 modes",)),
        (lambda: deep_linear(WHITE, Y, layers=2, time=1.0, whiten="yes"), ("whiten='yes'",)),
        (lambda: deep_linear(1e200 * WHITE, 1e200 * Y, layers=2, time=1.0), ("too large for float64",)),
        (lambda: deep_linear(WHITE, Y, layers=2, time=1.0).predict(TALL), ("X has 2 columns",)),
        (lambda: deep_linear(WHITE, Y, layers=2, time=1.0).learned(0), ("share=0",)),
    ],
)  # fmt: skip
def test_refused(call, words):
    refused(call, dl.errors.InputError, *words)
