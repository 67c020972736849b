"""Attention at temperature zero: leaders, straight lines, contraction, ties."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import ConvexHull

import deeplimits as dl

A = np.array([[1.0, 0.3], [0.3, 0.8]])


def gaussian(count, dimension, seed=0):
    return np.random.default_rng(seed).standard_normal((count, dimension))


@pytest.mark.parametrize("seed", range(4))
def test_positive_semidefinite_leaders_are_corners_that_stay_and_all_tokens_end_there(seed):
    found = dl.tokens("hardmax", gaussian(40, 2, seed), 150, query_key=A, step=0.5)
    start, end = found.trajectory[0], found.trajectory[-1]
    assert set(found.leaders.tolist()) <= set(ConvexHull(start).vertices.tolist())
    np.testing.assert_allclose(end[found.leaders], start[found.leaders], atol=1e-11)  # ties of 1e-12 count as leaders
    assert found.cluster_count[-1] == len(found.leaders)
    gaps = np.linalg.norm(end[:, None] - start[found.leaders], axis=2).min(axis=1)
    assert gaps.max() < 1e-9
    assert np.diff(found.energy).min() >= -1e-12


def test_where_all_corners_lead_tokens_go_straight_in_their_first_cell_and_exponentially():
    corners = np.linalg.inv(np.linalg.cholesky(A).T) @ np.stack(
        [np.cos([0.1, 1.5, 2.9, 4.0, 5.2]), np.sin([0.1, 1.5, 2.9, 4.0, 5.2])]
    )
    inside = np.random.default_rng(1).dirichlet(np.ones(5), 30) @ corners.T
    X = np.concatenate([corners.T, inside])
    np.testing.assert_allclose(np.einsum("ia,ab,ib->i", X[:5], A, X[:5]), 1.0)
    found = dl.tokens("hardmax", X, 30, query_key=A, step=0.5)
    assert found.leaders.tolist() == [0, 1, 2, 3, 4]
    cell = np.argmax(inside @ A @ corners, axis=1)
    gap = found.trajectory[:, 5:] - corners.T[cell]
    np.testing.assert_allclose(gap, gap[0] / 1.5 ** np.arange(31)[:, None, None], atol=1e-12)
    apart = inside[:, None] - corners.T
    nearest = np.argmin(np.einsum("ika,ab,ikb->ik", apart, A, apart), axis=1)
    np.testing.assert_array_equal(cell, nearest)  # the cells are Voronoi's, in the norm of A


def test_negative_semidefinite_all_tokens_contract_to_one_point_by_the_step():
    found = dl.tokens("hardmax", gaussian(40, 2), 90, query_key=-A, step=0.5)
    widths = np.ptp(found.trajectory, axis=1).max(axis=1)
    assert widths[-1] < 1e-12 * widths[0]
    np.testing.assert_allclose(widths[11:41] / widths[10:40], 1 / 1.5, rtol=1e-6)
    assert found.energy[0] < found.energy[-1] < 0.0
    assert "A is negative semidefinite: all tokens contract" in found.describe()


def test_away_from_the_origin_negative_semidefinite_tokens_meet_at_the_nearest_one():
    X = np.array([[1.0], [2.0], [5.0]])
    found = dl.tokens("hardmax", X, 80, query_key=-1, step=1.0)
    np.testing.assert_allclose(found.trajectory[-1], 1.0)


def test_ties_share_and_rounding_does_not_break_them():
    X = np.array([[1.0, 1.0], [1.0, -1.0], [0.25, 0.0]])
    found = dl.tokens("hardmax", X, 1, step=1.0)
    np.testing.assert_allclose(found.trajectory[1][2], [0.625, 0.0])
    nudged = X + np.array([[0.0, 1e-15], [0.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(dl.tokens("hardmax", nudged, 1).trajectory[1][2], [0.625, 0.0], atol=1e-15)
    alone = dl.tokens("hardmax", X + np.array([[1e-3, 0], [0, 0], [0, 0]]), 1)
    np.testing.assert_allclose(alone.trajectory[1][2], [(0.25 + 1.001) / 2, 0.5])


def test_softmax_at_large_beta_takes_the_same_step():
    X = gaussian(20, 3)
    expected = dl.tokens("hardmax", X, 1, step=1.0).trajectory[1]
    scores = 1e4 * X @ X.T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    soft = (weights / weights.sum(axis=1, keepdims=True)) @ X
    np.testing.assert_allclose((X + soft) / 2, expected, atol=1e-8)


def test_one_token_and_equal_tokens_lead_themselves():
    alone = dl.tokens("hardmax", [[1.0, 2.0]], 3)
    assert alone.leaders.tolist() == [0] and np.ptp(alone.trajectory, axis=0).max() == 0.0
    twins = dl.tokens("hardmax", [[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]], 3)
    assert twins.leaders.tolist() == [0, 1, 2] and twins.cluster_count.tolist() == [2] * 4


def test_indefinite_matrices_are_told():
    found = dl.tokens("hardmax", gaussian(5, 2), 2, query_key=[[1.0, 0.0], [0.0, -1.0]])
    assert "A is indefinite" in found.describe()


def test_steps_looked_at_are_those_asked_for():
    X = gaussian(12, 2)
    every = dl.tokens("hardmax", X, 10, step=0.3)
    some = dl.tokens("hardmax", X, [0, 4, 10], step=0.3)
    np.testing.assert_array_equal(some.trajectory, every.trajectory[[0, 4, 10]])
    np.testing.assert_array_equal(some.merge_times, every.merge_times)
