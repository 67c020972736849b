"""The rule of the product beside real layers, beside powers of matrices, and its refusals."""

from __future__ import annotations

from itertools import pairwise
from math import inf

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.limits.training.linear.balanced import balanced
from deeplimits.limits.training.linear.end_to_end import EndToEnd, preconditioned
from tests.limits.refusal import refused

RNG = np.random.default_rng(0)
X, GOAL, START = RNG.standard_normal((30, 5)), RNG.standard_normal((3, 5)), 0.3 * RNG.standard_normal((3, 5))
Y = X @ GOAL.T + 0.1 * RNG.standard_normal((30, 3))


def gradient(product):
    return (product @ X.T - Y.T) @ X / len(X)


def layers_trained(layers, rate, decay, steps, width=7):
    weights = balanced(START, layers, width=width, seed=1)
    for _ in range(steps):
        down = [np.eye(5)]
        for W in weights:
            down.append(W @ down[-1])
        up = gradient(down[-1])
        for j in reversed(range(layers)):
            own, up = up @ down[j].T, weights[j].T @ up
            weights[j] = (1 - rate * decay) * weights[j] - rate * own
    return np.linalg.multi_dot([*weights[::-1], np.eye(5)])


def product_trained(layers, rate, decay, steps):
    W = torch.tensor(START, requires_grad=True)
    optimizer = EndToEnd([W], lr=rate, layers=layers, weight_decay=decay)
    for _ in range(steps):
        W.grad = torch.from_numpy(gradient(W.detach().numpy()))
        optimizer.step()
    return W.detach().numpy()


@pytest.mark.parametrize(("layers", "decay"), [(2, 0.0), (3, 0.1)])
def test_balanced_layers_move_by_the_rule(layers, decay):
    """Inputs that are not white; at rate 1e-3 the product is 1e-3 of itself off, and half of it at half the rate."""
    gaps = []
    for rate in (1e-3, 5e-4) if layers == 3 else (1e-3,):
        real, rule = (train(layers, rate, decay, round(0.6 / rate)) for train in (layers_trained, product_trained))
        gaps.append(np.linalg.norm(real - rule) / np.linalg.norm(real))
    assert np.linalg.norm(real - START) > 0.5 * np.linalg.norm(START)
    assert gaps[0] <= 1e-3
    assert layers == 2 or gaps[0] / gaps[1] == pytest.approx(2.0, rel=0.1)


def test_layers_that_start_unbalanced_do_not_follow_the_rule():
    """The same product in layers of other sizes moves elsewhere: the rule is one of balanced layers."""
    real, rule = layers_trained(2, 1e-3, 0.0, 300), product_trained(2, 1e-3, 0.0, 300)
    first, second = (W * size for W, size in zip(balanced(START, 2), (3.0, 1 / 3.0), strict=True))
    for _ in range(300):
        step = gradient(second @ first)
        first, second = first - 1e-3 * second.T @ step, second - 1e-3 * step @ first.T
    assert np.linalg.norm(second @ first - real) > 20 * np.linalg.norm(real - rule)


def powers(W, G, layers):
    """The formula itself, by eigenvalues of both squares."""

    def power(square, exponent):
        values, vectors = torch.linalg.eigh(square)
        values = torch.where(values > 1e-12 * values.max(), values, 0.0)  # 1e-16 to the power 1/11 is no rounding
        return vectors * values**exponent @ vectors.T if exponent else torch.eye(len(square)).double()

    terms = [power(W @ W.T, (layers - j) / layers) @ G @ power(W.T @ W, (j - 1) / layers) for j in range(1, layers + 1)]
    return torch.stack(terms).sum(0)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (1, 6), (6, 1)])
@pytest.mark.parametrize("layers", [1, 2, 3, 6, 11])
def test_the_sum_of_powers(shape, layers):
    random = torch.Generator().manual_seed(layers)
    W, G = (torch.randn(shape, generator=random, dtype=torch.float64) for _ in range(2))
    torch.testing.assert_close(preconditioned(W, G, layers), powers(W, G, layers), rtol=1e-7, atol=1e-7)


def test_a_matrix_of_low_rank_still_leaves_its_span():
    W = torch.zeros(3, 4, dtype=torch.float64)
    W[0, 0] = 2.0
    G = torch.ones_like(W)
    found = preconditioned(W, G, 3)
    # 3 s^(4/3) inside, s^(4/3) where one side is outside, 0 where both are; in the limit s^2, 0 and 0
    s = 2.0 ** (4 / 3)
    expected, limit = torch.zeros_like(W), torch.zeros_like(W)
    expected[0], expected[:, 0], expected[0, 0], limit[0, 0] = s, s, 3 * s, 4.0
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(preconditioned(W, G, inf), limit)


def test_infinitely_many_layers_are_the_limit():
    random = torch.Generator().manual_seed(3)
    for shape in ((3, 3), (5, 1), (1, 5)):
        W, G = (torch.randn(shape, generator=random, dtype=torch.float64) for _ in range(2))
        gaps = [(preconditioned(W, G, n) / n - preconditioned(W, G, inf)).norm() for n in (1000, 2000)]
        assert gaps[1] < 0.01
        assert gaps[0] / gaps[1] == pytest.approx(2.0, rel=0.02)


def test_equal_singular_values():
    W = torch.eye(3, dtype=torch.float64) * 0.5
    G = torch.arange(9.0, dtype=torch.float64).reshape(3, 3)
    torch.testing.assert_close(preconditioned(W, G, 4), 4 * 0.5**1.5 * G)
    torch.testing.assert_close(preconditioned(W, G, inf), 0.5**2 * G)


def test_it_is_a_torch_optimizer():
    """Closures, groups, schedulers, dtypes and saved states."""
    matrix = torch.nn.Linear(4, 3, bias=False)
    other = torch.nn.Linear(4, 1, bias=False).bfloat16()
    optimizer = EndToEnd([{"params": matrix.parameters()}, {"params": other.parameters(), "layers": inf}], lr=0.05)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10, 0.5)
    rows = torch.randn(20, 4, generator=torch.Generator().manual_seed(5))

    def closure():
        optimizer.zero_grad()
        loss = (matrix(rows) - 1).square().mean() + (other(rows.bfloat16()) - 1).square().mean().float()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item()]
    for _ in range(30):
        losses.append(optimizer.step(closure).item())
        schedule.step()
    assert losses[-1] < losses[0]
    again = EndToEnd([{"params": matrix.parameters()}, {"params": other.parameters()}], lr=1.0)
    again.load_state_dict(optimizer.state_dict())
    assert [group["layers"] for group in again.param_groups] == [2, inf]
    assert again.param_groups[0]["lr"] == 0.05 / 8


W = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: EndToEnd([W], lr=0.0), "lr=0.0 is not a positive number"),
        (lambda: EndToEnd([W], lr=float("nan")), "lr=nan"),
        (lambda: EndToEnd([W], lr=True), "lr=True"),
        (lambda: EndToEnd([W], lr=0.1, layers=0), "layers=0"),
        (lambda: EndToEnd([W], lr=0.1, layers=2.5), "layers=2.5"),
        (lambda: EndToEnd([W], lr=0.1, weight_decay=-1.0), "weight_decay=-1.0"),
        (lambda: EndToEnd([torch.ones(2, 2, 2)], lr=0.1), "parameter 0 has shape (2, 2, 2)"),
        (lambda: EndToEnd(torch.nn.Linear(3, 2).parameters(), lr=0.1), "parameter 1 has shape (2,)"),
        (lambda: EndToEnd([W, torch.zeros(2, 3)], lr=0.1), "parameter 1 is zero, a saddle"),
        (lambda: EndToEnd([torch.tensor([[float("nan"), 1.0]])], lr=0.1), "parameter 0 is not finite"),
        (lambda: EndToEnd([torch.ones(2, 2, dtype=torch.complex64)], lr=0.1), "complex64"),
        (lambda: balanced([[1.0, float("nan")]], 2), "matrix has nan at row 0, column 1"),
        (lambda: balanced([1.0, 2.0], 2), "matrix has shape (2,)"),
        (lambda: balanced(np.ones((2, 3)), 2, width=1), "width=1 is narrower than the 2 singular values"),
        (lambda: balanced(np.ones((2, 3)), 0), "layers=0"),
        (lambda: balanced(np.ones((2, 3)), inf), "layers=inf"),
        (lambda: balanced(np.ones((2, 3)), 2, seed=0.5), "0.5 is not a whole number"),
    ],
)
def test_refused(call, words):
    refused(call, dl.errors.InputError, words)


def test_a_rate_past_stability_is_told():
    w = torch.ones(1, 2, requires_grad=True)
    optimizer = EndToEnd([w], lr=1.0, layers=3)
    w.grad = torch.tensor([[1.0, float("inf")]])
    refused(optimizer.step, dl.errors.PrecisionError, "gradient of parameter 0 is not finite", "lower lr")


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (1, 4), (4, 4)])
def test_balanced_layers_are_balanced(shape):
    matrix = np.random.default_rng(1).standard_normal(shape)
    weights = balanced(matrix, 4, width=6, seed=2)
    np.testing.assert_allclose(np.linalg.multi_dot(weights[::-1]), matrix, atol=1e-12)
    for below, above in pairwise(weights):
        np.testing.assert_allclose(above.T @ above, below @ below.T, atol=1e-12)
    assert [W.shape for W in weights] == [(6, shape[1]), (6, 6), (6, 6), (shape[0], 6)]
    assert np.abs(balanced(matrix, 4, width=6, seed=3)[1] - weights[1]).max() > 0.01
    np.testing.assert_allclose(balanced(matrix, 1)[0], matrix, atol=1e-12)
