"""Tokens on the sphere: equal angles, waiting times, clusters, accuracy, against independent solutions."""

from __future__ import annotations

from math import e, pi

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import deeplimits as dl
from deeplimits.errors import AccuracyWarning
from deeplimits.limits.tokens import ask, clusters, flow
from deeplimits.limits.tokens.equiangular import equiangular, merge_time
from deeplimits.limits.tokens.sphere import Sphere

A = np.array([[0.8, 0.3, 0.0], [-0.2, 1.1, 0.4], [0.1, 0.0, 0.5]])
V = np.array([[1.0, -0.4, 0.2], [0.3, 0.7, 0.0], [0.0, 0.5, -0.6]])


def gaussian(count, dimension, seed=0):
    return np.random.default_rng(seed).standard_normal((count, dimension))


def pair(angle):
    return np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])


def direct(X, time, beta, normalised):
    """Solve the equation of motion as it is written, token by token, with another method."""

    def move(_, y):
        x = y.reshape(X.shape)
        out = np.empty_like(x)
        for i, token in enumerate(x):
            weights = np.exp([beta * other @ (A @ token) for other in x])
            weights /= weights.sum() if normalised else len(x)
            pull = V @ sum(weight * other for weight, other in zip(weights, x, strict=True))
            out[i] = pull - (pull @ token) * token
        return out.ravel()

    start = (X / np.linalg.norm(X, axis=1, keepdims=True)).ravel()
    return solve_ivp(move, (0, time), start, method="DOP853", rtol=1e-11, atol=1e-12).y[:, -1].reshape(X.shape)


@pytest.mark.parametrize("kind", ["softmax", "unnormalised"])
def test_with_matrices_the_motion_is_that_of_the_equation_solved_otherwise(kind):
    X = gaussian(5, 3)
    found = dl.tokens(kind, X, (0.0, 3.0), beta=1.3, query_key=A, value=V, accuracy=1e-9)
    expected = direct(X, 3.0, 1.3, kind == "softmax")
    np.testing.assert_allclose(found.trajectory[-1], expected, atol=2e-9)
    assert found.error <= 1e-9
    np.testing.assert_allclose(np.linalg.norm(found.trajectory, axis=2), 1.0, rtol=1e-14)


@pytest.mark.parametrize("normalised", [True, False])
def test_the_jacobian_is_the_derivative(normalised):
    rule = Sphere(1.7, A, V, normalised)
    x = gaussian(4, 3) / np.linalg.norm(gaussian(4, 3), axis=1, keepdims=True)
    move = np.random.default_rng(1).standard_normal(x.shape)
    move -= np.sum(move * x, axis=1, keepdims=True) * x
    step = 1e-6
    numeric = (rule.velocity(x + step * move) - rule.velocity(x - step * move)) / (2 * step)
    np.testing.assert_allclose(np.einsum("iakb,kb->ia", rule.jacobian(x), move), numeric, atol=1e-8)


@pytest.mark.parametrize("kind", ["softmax", "unnormalised"])
def test_tokens_at_equal_angles_follow_their_own_equation(kind):
    times = np.linspace(0.0, 10.0, 21)
    gap = equiangular(16, 1.5, times, normalised=kind == "softmax")
    found = dl.tokens(kind, np.eye(16), times, beta=1.5, accuracy=1e-9).trajectory
    cosines = np.einsum("tid,tjd->tij", found, found)[:, ~np.eye(16, dtype=bool)]
    assert np.abs(1 - cosines - gap[:, None]).max() < 1e-8


def test_late_cosines_approach_one_at_rate_two():
    gap = equiangular(16, 1.5, (10.0, 11.0))
    assert np.log(gap[0] / gap[1]) == pytest.approx(2.0, abs=5e-4)
    x = dl.tokens("softmax", gaussian(32, 64), (10.0, 12.0)).trajectory
    apart = np.array([np.sum((one - one.mean(axis=0)) ** 2) for one in x])
    assert np.log(apart[0] / apart[1]) / 2.0 == pytest.approx(2.0, abs=5e-3)


def test_unnormalised_weights_speed_up_by_the_exponential_at_the_end():
    gap = equiangular(8, 1.0, (4.0, 4.5), normalised=False)
    assert np.log(gap[0] / gap[1]) / 0.5 == pytest.approx(2 * e, rel=1e-4)


@pytest.mark.parametrize(("beta", "expected"), [(2.0, 4.07644), (6.0, 26.67110), (10.0, 570.08969)])
def test_two_clusters_merge_when_the_quadrature_says(beta, expected):
    assert merge_time(beta, start=1.5) == pytest.approx(expected, abs=1e-5)
    X = np.repeat(pair(1.5), 3, axis=0)  # half of the mass each
    found = dl.tokens("softmax", X, (0.0, 1.5 * expected), beta=beta)
    assert found.merge_counts.tolist() == [1]
    assert found.cluster_time() == pytest.approx(merge_time(beta, start=1.5), rel=1e-5)
    assert found.merge_error < 1e-5


def test_times_that_grow_exponentially_take_few_steps():
    assert merge_time(20.0, 1.5) == pytest.approx(2999518.5, rel=1e-6)
    path = flow.solve(
        Sphere(20.0, None, None, True).velocity, pair(1.5), 1e7, 1e-10, Sphere(20.0, None, None, True).jacobian, True
    )
    assert len(path.nodes) < 2000
    ((time, count),) = clusters.events(path.position, path.nodes.tolist(), 0.1, sphere=True)
    assert count == 1 and time == pytest.approx(merge_time(20.0, 1.5), rel=1e-6)


def test_unnormalised_clusters_merge_when_the_quadrature_says():
    found = dl.tokens("unnormalised", pair(2.0), (0.0, 20.0), beta=3.0)
    assert found.cluster_time() == pytest.approx(merge_time(3.0, 2.0, normalised=False), rel=1e-5)


def test_merge_times_add_up_and_grow_by_their_barrier():
    assert merge_time(8.0, 2.5) == pytest.approx(merge_time(8.0, 2.5, 1.0) + merge_time(8.0, 1.0), rel=1e-9)
    rise = np.log(merge_time(400.0, 1.5) / merge_time(200.0, 1.5)) / 200
    assert rise == pytest.approx(1 - np.cos(1.5) - np.log(2) / 200, abs=1e-4)  # the prefactor falls as 1/beta


@pytest.mark.parametrize("kind", ["softmax", "unnormalised"])
def test_the_energy_never_falls_and_ends_at_one(kind):
    found = dl.tokens(kind, gaussian(24, 3), 30.0, beta=2.0)
    assert np.diff(found.energy).min() > -1e-9
    assert found.energy[-1] == pytest.approx(1.0, abs=1e-6)
    assert found.residual[-1] < 1e-6 < found.residual[0]


def test_the_number_of_clusters_is_that_of_their_labels_at_all_times():
    found = dl.tokens("softmax", gaussian(30, 2, seed=3), np.linspace(0, 40, 81), beta=6.0)
    counts = [found.cluster_count[0]]
    for time in found.times[1:]:
        known = found.merge_counts[found.merge_times <= time]
        counts.append(known[-1] if len(known) else counts[0])
    np.testing.assert_array_equal(counts, found.cluster_count)
    assert found.cluster_time(2) <= found.cluster_time(1)
    assert found.cluster_time(30) == 0.0
    assert found.clusters[-1][0] == 0


def test_one_token_stays_and_tokens_that_coincide_stay_together():
    alone = dl.tokens("softmax", [[3.0, 4.0]], 5.0)
    np.testing.assert_allclose(alone.trajectory[-1], [[0.6, 0.8]], atol=1e-9)
    assert alone.cluster_count.tolist() == [1] * 201 and alone.cluster_time() == 0.0
    same = dl.tokens("softmax", [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], 3.0)
    np.testing.assert_allclose(same.trajectory[:, 0], same.trajectory[:, 1], atol=1e-12)


def test_time_zero_gives_the_tokens_back():
    found = dl.tokens("softmax", 2 * np.eye(3), 0.0)
    np.testing.assert_array_equal(found.trajectory, [np.eye(3)])
    assert found.residual[0] == pytest.approx((2 / 3) ** 0.5)


def test_what_is_not_reached_is_told_and_kept(monkeypatch):
    monkeypatch.setitem(ask.FINEST, "softmax", 1e-6)
    with pytest.warns(
        AccuracyWarning, match="of their size, and the times of their clusters to .*, not to the 1.0e-06 asked for"
    ):
        found = dl.tokens("softmax", pair(1.5), (0.0, 570.08), beta=10.0)
    assert found.error > 1e-6 and found.trajectory.shape == (2, 2, 2)


def test_a_solver_that_stops_keeps_what_it_reached(monkeypatch):
    monkeypatch.setattr(flow, "MOST", 30)
    with pytest.warns(AccuracyWarning, match=r"the solver stopped at time \d.*, before 50; what it reached is kept"):
        found = dl.tokens("softmax", gaussian(4, 3), (0.0, 0.1, 50.0), accuracy=1e-4)
    assert found.times.tolist() == [0.0, 0.1] and found.error <= 1e-4


def test_velocities_that_overflow_stop_the_solver():
    with np.errstate(all="ignore"):
        path = flow.solve(lambda x: np.exp(x**2), np.array([[1.0]]), 9.0, 1e-6, lambda x: (2 * x * np.exp(x**2))[None])
    assert 0.0 < path.end < 9.0 and np.isfinite(path.position(path.end)).all()


def test_the_record_says_what_was_done():
    found = dl.tokens("softmax", pair(pi / 2), 20.0, beta=4.0)
    words = found.describe()
    assert words.startswith("2 tokens in 2 dimensions on the sphere under softmax attention with beta = 4.")
    assert "Solved by LSODA to" in words and "2 clusters become 1 cluster" in words
    assert repr(found) == "Tokens('softmax', 2 tokens, 2 coordinates, 201 times to 20)"


def test_equal_angles_start_anywhere_they_can():
    gap = equiangular(3, 1.0, (0.0, 1.0), start=-0.4)
    assert gap[0] == pytest.approx(1.4) and gap[1] < 1.4
    assert equiangular(5, 2.0, 0.0, start=0.3) == pytest.approx([0.7])
