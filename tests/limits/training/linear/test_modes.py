"""Modes of deep linear networks: closed forms, integrals, plain integration of the equation, and real matrices."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import deeplimits as dl
from deeplimits.limits.training.linear.balanced import balanced
from deeplimits.limits.training.linear.modes import mode_delay, mode_strength, mode_time
from tests.limits.refusal import refused

STARTS = [(2.0, 0.05), (0.7, 0.2), (2.0, 5.0), (0.0, 1.5), (1.5, 1.5), (1.0, 0.0)]


@pytest.mark.parametrize("layers", [1, 2, 3, 5, 40, inf])
def test_strengths_solve_their_equation(layers):
    """An adaptive solver with tolerance 1e-10."""
    scale, power = (1.0, 2.0) if layers == inf else (layers, 2 - 2 / layers)
    times, speed = np.array([0.0, 0.1, 0.7, 3.0, 20.0]), 0.6
    for target, initial in STARTS:
        slope = lambda _, u, s=target: scale * speed * u**power * (s - u)
        expected = solve_ivp(slope, (0, 20), [initial], "LSODA", times, rtol=1e-10, atol=1e-12).y[0]
        found = mode_strength(times, target, initial, layers, speed)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_two_matrices_have_the_known_closed_form():
    t, s, start = np.linspace(0, 4, 9), 1.7, 0.01
    growth = np.exp(2 * s * t)
    expected = s * growth / (growth - 1 + s / start)
    np.testing.assert_allclose(mode_strength(t, s, start, 2), expected, rtol=1e-12)
    np.testing.assert_allclose(mode_time(expected[1:], s, start, 2), t[1:], rtol=1e-12)


@pytest.mark.parametrize("layers", [1, 2, 3, 4, 17, 1024, inf])
@pytest.mark.parametrize(("target", "initial"), [(2.0, 1e-3), (2.0, 1e4), (0.3, 0.29)])
def test_times_and_strengths_are_inverse(layers, target, initial):
    wanted = initial + np.array([0.1, 0.5, 0.99]) * (target - initial)
    times = mode_time(wanted, target, initial, layers)
    assert (np.diff(times) > 0).all()
    np.testing.assert_allclose(mode_strength(times, target, initial, layers), wanted, rtol=1e-10)


def test_many_matrices_tend_to_infinitely_many():
    """The exponent is off by 2/N."""
    times = np.linspace(0, 20, 5)
    limit = mode_strength(times, 1.0, 0.1, inf)
    gaps = [np.abs(mode_strength(times / n, 1.0, 0.1, n) - limit).max() for n in (100, 200, 400)]
    np.testing.assert_allclose(np.divide(gaps[:-1], gaps[1:]), 2.0, rtol=0.05)
    assert gaps[-1] < 0.05


@pytest.mark.parametrize(("layers", "largest"), [(2, 3.0), (3, 2.0), (4, 2.0)])
def test_gradient_descent_of_matrices_follows_modes(layers, largest):
    """At most 6e-3 apart at rate 1e-3, and half of it at half the rate.

    The error of a step is of order rate N s^(3 - 2/N), which for N = 4 and s = 3 is 3.5 times that of N = 2.
    """
    rng = np.random.default_rng(layers)
    left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0][:, :3] for n in (4, 5))
    targets, start, end = np.linspace(largest, 1.0, 3), 0.05, 3.0
    goal = (left * targets) @ right.T

    def apart(rate):
        weights, worst = balanced(start * left @ right.T, layers, width=6, seed=1), 0.0
        expected = mode_strength(rate * np.arange(round(end / rate) + 1), targets, start, layers)
        for line in expected:
            down = [np.eye(5)]
            for W in weights:
                down.append(W @ down[-1])
            worst = max(worst, np.abs(np.diag(left.T @ down[-1] @ right) - line).max())
            up = down[-1] - goal
            for j in reversed(range(layers)):
                gradient, up = up @ down[j].T, weights[j].T @ up
                weights[j] = weights[j] - rate * gradient
        return worst

    coarse, fine = apart(1e-3), apart(5e-4)
    assert coarse <= 6e-3
    assert coarse / fine == pytest.approx(2.0, rel=0.02)


def test_delay_is_finite_at_infinite_depth():
    """(1/s)[1/u0 - 1/u + (1/s) log(u (s - u0) / (u0 (s - u)))] = 14.09 for s = 1, u0 = 0.1, u = 0.95."""
    np.testing.assert_allclose(mode_delay([2, 32, 1024]), [5.14, 13.03, 14.05], atol=0.01)
    limit = 1 / 0.1 - 1 / 0.95 + np.log(0.95 * 0.9 / (0.1 * 0.05))
    assert mode_delay(inf) == pytest.approx(limit, rel=1e-12)
    assert mode_delay(inf, initial=0.9, share=0.99) == pytest.approx(2.50, abs=0.005)
    assert mode_delay(inf, initial=1e-3, share=0.99) == pytest.approx(1010, abs=0.5)


def test_strengths_never_reached():
    found = mode_time([0.05, 0.1, 1.0, 2.0], target=1.0, initial=0.1, layers=3)
    assert found.tolist() == [inf, 0.0, inf, inf]
    assert mode_time(0.5, target=1.0, initial=0.0, layers=2) == inf
    assert mode_time(0.5, target=1.0, initial=0.0, layers=1) == pytest.approx(np.log(2))


def test_shapes_and_long_waits():
    assert mode_strength(1.0, 1.0, 0.1, 3).shape == ()
    assert mode_strength([0.0, 1.0], [1.0, 2.0, 3.0], 0.1, 3).shape == (2, 3)
    # 1e-60 to the power -1/3 is the time, in units of 1/3, that the start lasts
    late = mode_time(0.5, 1.0, 1e-60, 3)
    assert late == pytest.approx(1e20, rel=1e-6)
    assert mode_strength(1e90, [1.0, 2.0], 0.1, 5).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("layers", [1, 2, 3, 1000, inf])
def test_numbers_of_very_different_sizes(layers):
    """At time 0 the start, at the end the target, whatever the ratio of the two; no warning on the way."""
    target, initial = np.array([1e90, 1e-90, 1.0]), np.array([1e-9, 1e90, 1e-30])
    found = mode_strength([0.0, 1e99], target, initial, layers)
    assert found[0].tolist() == initial.tolist()
    assert found[1, 0] == pytest.approx(1e90)
    assert 1e-90 <= found[1, 1] <= 1e-40
    below = mode_time(2e-9, 1e90, 1e-9, layers)
    assert mode_strength(below, 1e90, 1e-9, layers) == pytest.approx(2e-9)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mode_strength(1.0, -1.0, 0.1, 2), "target=-1 is not a finite number >= 0"),
        (lambda: mode_strength([0.0, np.nan], 1.0, 0.1, 2), "time[1]=nan"),
        (lambda: mode_strength(1.0, 1.0, [0.1, -2.0], 2), "initial[1]=-2"),
        (lambda: mode_strength(1.0, 1.0, 0.1, 0), "layers=0 is not a whole number >= 1 or infinity"),
        (lambda: mode_strength(1.0, 1.0, 0.1, 2.5), "layers=2.5"),
        (lambda: mode_strength(1.0, 1.0, True, 2), "initial=True is not made of numbers"),
        (lambda: mode_strength(1.0, "s", 0.1, 2), "target='s' is not made of numbers"),
        (lambda: mode_strength(1.0, 1e200, 0.1, 2), "target=1e+200 is not between"),
        (lambda: mode_strength(1.0, [1.0, 2.0], [0.1, 0.1, 0.1], 2), "shapes (2,), (3,), () do not fit"),
        (lambda: mode_time(inf, 1.0, 0.1, 2), "strength=inf"),
        (lambda: mode_delay(2, share=1.0), "share=1.0 is not a number between 0 and 1"),
        (lambda: mode_delay([2, True]), "layers=True"),
        (lambda: mode_delay([]), "layers is empty"),
        (lambda: mode_delay(2, target=-1.0), "target=-1"),
        (lambda: mode_delay(2, target="a"), "target='a'"),
        (lambda: mode_delay(2, initial=0.96), "initial=0.96 is not below share=0.95"),
    ],
)
def test_refused(call, words):
    refused(call, dl.errors.InputError, words)
