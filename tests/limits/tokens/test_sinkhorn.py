"""Doubly stochastic attention: sums, Gaussian tokens, heat, energy, what did not converge."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import deeplimits as dl
from deeplimits.errors import ConvergenceWarning
from deeplimits.limits.tokens.gaussian import gaussian_slope, gaussian_variance
from deeplimits.limits.tokens.sinkhorn import SinkhornFlow, balance

SIGMA = 1.3


def quantiles(count):
    return SIGMA * stats.norm.ppf((np.arange(count) + 0.5) / count)


@pytest.mark.parametrize("symmetric", [True, False])
def test_rows_and_columns_sum_to_one_and_logits_move_by_rows_and_columns_only(symmetric):
    logits = 3 * np.random.default_rng(0).standard_normal((64, 64))
    logits = (logits + logits.T) / 2 if symmetric else logits
    found = balance(logits)
    assert found.residual <= 1e-12
    for axis in (0, 1):
        np.testing.assert_allclose(found.matrix.sum(axis=axis), 1.0, atol=2e-12)
    np.testing.assert_allclose(np.log(found.matrix), logits + found.rows[:, None] + found.columns, atol=1e-10)


def test_one_iteration_is_a_softmax_and_more_come_nearer():
    logits = 3 * np.random.default_rng(1).standard_normal((64, 64))
    one, five, many = (balance(logits, iterations) for iterations in (1, 5, 60))
    np.testing.assert_allclose(one.matrix, np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), rtol=1e-12)
    assert one.residual > 10 * five.residual > 100 * many.residual
    assert (one.iterations, five.iterations) == (1, 5)


def test_logits_beyond_the_exponential_stay_exact():
    x = 40.0 * np.stack(np.meshgrid(np.arange(5), np.arange(4)), axis=-1).reshape(20, 2)
    assert (x @ x.T).max() > 1e4
    found = balance(x @ x.T, iterations=5000)
    np.testing.assert_allclose(found.matrix, np.eye(20), atol=1e-10)  # tokens far apart attend to themselves


@pytest.mark.parametrize("epsilon", [0.4, 0.2, 0.1])
def test_the_slope_of_gaussian_tokens_is_exact(epsilon):
    x = quantiles(600)
    drift = SinkhornFlow(epsilon, None, None, 150).velocity(x[:, None])[:, 0]
    near = np.abs(x) < SIGMA  # the grid has no tails
    measured = np.polyfit(x[near], drift[near], 1)[0]
    assert measured == pytest.approx(gaussian_slope(SIGMA, epsilon), rel=1e-4)


def test_slopes_of_the_other_kernels_are_gaussian_integrals():
    x, weights = np.polynomial.hermite_e.hermegauss(200)
    x = SIGMA * x
    for kernel, cost in (("distance", lambda a, b: -((a - b) ** 2) / 2), ("dot", lambda a, b: a * b)):
        scores = np.exp(cost(0.5, x) / 0.4) * weights
        drift = (scores @ x / scores.sum() - 0.5) / 0.4
        assert drift == pytest.approx(0.5 * gaussian_slope(SIGMA, 0.4, kernel), rel=1e-9)


def test_limits_of_the_slopes_and_their_approach():
    assert gaussian_slope(SIGMA, 0.0) == -1 / (2 * SIGMA**2)
    assert gaussian_slope(SIGMA, 0.0, "distance") == -1 / SIGMA**2
    ratio = (gaussian_slope(SIGMA, 1e-3) - gaussian_slope(SIGMA, 0.0)) / 1e-3
    assert ratio == pytest.approx(1 / (8 * SIGMA**4), rel=1e-3)
    with pytest.raises(dl.errors.NoLimit, match="no limit as epsilon falls"):
        gaussian_slope(SIGMA, 0.0, "dot")


def test_gaussian_tokens_keep_the_variance_of_their_own_equation():
    x, times = quantiles(60), np.array([0.0, 0.4, 0.8])
    found = dl.tokens("sinkhorn", x[:, None], times, value=-1, epsilon=0.5, accuracy=1e-4)
    middle = np.abs(x) < SIGMA
    spread = np.array([np.polyfit(x[middle], one[middle, 0], 1)[0] for one in found.trajectory])
    expected = np.sqrt(gaussian_variance(SIGMA, 0.5, times)) / SIGMA
    np.testing.assert_allclose(spread, expected, rtol=2e-3)  # 60 tokens: 1/60^2 of the grid, and its missing tails
    assert gaussian_variance(SIGMA, 1e-6, 1.0)[-1] == pytest.approx(SIGMA**2 + 1.0, abs=1e-5)


def test_the_flow_descends_the_cost_of_transport():
    X = np.random.default_rng(3).standard_normal((16, 2))
    flow = SinkhornFlow(0.3, None, None, 1000)
    velocity = flow.velocity(X)
    direction = np.random.default_rng(4).standard_normal(X.shape)
    step = 1e-5
    slope = (flow.energy(X + step * direction) - flow.energy(X - step * direction)) / (2 * step)
    assert slope == pytest.approx(-np.sum(velocity * direction) / len(X), rel=1e-6)
    found = dl.tokens("sinkhorn", X, np.linspace(0, 2, 21), epsilon=0.3, accuracy=1e-4)
    assert np.diff(found.energy).max() < 0
    assert found.cluster_count[-1] < found.cluster_count[0] == 16


def test_matrices_turn_queries_and_values():
    X = np.random.default_rng(5).standard_normal((6, 2))
    A, V = np.array([[1.0, 0.4], [-0.3, 0.7]]), np.array([[0.0, 1.0], [-1.0, 0.0]])
    kernel = np.exp([[x @ A.T @ y / 0.5 for y in X] for x in X])
    for _ in range(2000):
        kernel /= kernel.sum(axis=0)
        kernel /= kernel.sum(axis=1, keepdims=True)
    expected = (kernel @ X - X) @ V.T / 0.5
    np.testing.assert_allclose(SinkhornFlow(0.5, A, V, 2000).velocity(X), expected, atol=1e-9)


@pytest.mark.parametrize(
    "matrices", [(None, None), (np.array([[1.0, 0.4], [-0.3, 0.7]]), np.array([[0.5, 1.0], [-1.0, 2.0]]))]
)
def test_the_jacobian_is_the_derivative(matrices):
    x, move = np.random.default_rng(7).standard_normal((2, 6, 2))
    flow, step = SinkhornFlow(0.5, *matrices, 5000), 1e-5
    numeric = (flow.velocity(x + step * move) - flow.velocity(x - step * move)) / (2 * step)
    np.testing.assert_allclose(np.einsum("iakb,kb->ia", flow.jacobian(x), move), numeric, rtol=1e-5, atol=1e-6)


def test_what_did_not_converge_is_told_with_its_residual_and_kept():
    X = np.random.default_rng(6).standard_normal((10, 2))
    with pytest.warns(ConvergenceWarning, match=r"after 2 iterations .* columns still sum to 1 within \d.*e.* only"):
        found = dl.tokens("sinkhorn", X, (0.0, 0.05), iterations=2, accuracy=1e-3)
    assert found.trajectory.shape == (2, 10, 2) and np.isfinite(found.trajectory).all()


def test_one_token_stays():
    assert np.ptp(dl.tokens("sinkhorn", [[1.0, 2.0]], (0.0, 1.0)).trajectory, axis=0).max() == 0.0
