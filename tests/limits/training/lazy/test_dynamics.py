"""Rules mode by mode: closed forms, long times, slow modes, and how long a mode lives."""

from math import exp, inf

import numpy as np
import pytest
from mpmath import mp, mpf

from deeplimits.limits.training.lazy.dynamics import Dynamics, decay_rate, iterated

VALUES = np.array([0.0, 1e-9, 1e-3, 0.4, 1.0, 1.9])


def test_flow_keeps_digits_of_slow_modes():
    for time in (0.0, 1e-8, 3.0, 1e7):
        exact = [mpf(time) if v == 0 else -mp.expm1(-mpf(v) * mpf(time)) / mpf(v) for v in VALUES]
        assert Dynamics().gain(VALUES, time) == pytest.approx([float(x) for x in exact], rel=1e-14)
        assert Dynamics().error(VALUES, time) == pytest.approx([exp(-v * time) for v in VALUES], rel=1e-13)
    assert Dynamics().gain(VALUES[1:], inf) == pytest.approx(1 / VALUES[1:])


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("steps", [0, 1, 2, 7, 300])
def test_steps_are_those_of_the_recursion(momentum, steps):
    mp.dps = 30
    decay, gain = iterated(VALUES, momentum, steps)
    for x, left, done in zip(VALUES, decay, gain, strict=True):
        before, now, moved, total = mpf(1), mpf(1), mpf(0), mpf(0)
        for _ in range(steps):
            moved = momentum * moved + now
            total += moved
            before, now = now, (1 + mpf(momentum) - mpf(x)) * now - mpf(momentum) * before
        assert left == pytest.approx(float(now), rel=1e-12, abs=1e-13)
        assert done == pytest.approx(float(total), rel=1e-12)


def test_a_million_steps_of_a_slow_mode():
    decay, gain = iterated(np.array([1e-6]), 0.0, 10**6)
    assert decay[0] == pytest.approx((1 - 1e-6) ** 10**6, rel=1e-9)
    assert gain[0] == pytest.approx((1 - decay[0]) / 1e-6, rel=1e-9)


def test_small_rates_are_the_flow():
    flow = Dynamics().gain(VALUES, 2.0)
    gaps = [np.abs(Dynamics("gd", rate=2.0 / n).gain(VALUES, n) - flow).max() for n in (100, 200)]
    assert gaps[0] / gaps[1] == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize("momentum", [0.0, 0.3, 0.81])
def test_the_decay_rate_is_the_larger_root(momentum):
    x = np.array([1e-8, 0.01, 0.5, 1.0, 1.3, 1.99, 2.0 + 1.9 * momentum])
    roots = [np.abs(np.roots([1, -(1 + momentum - one), momentum])).max() for one in x]
    assert np.exp(-decay_rate(x, momentum)) == pytest.approx(roots, rel=1e-7)
    assert decay_rate(x[:1], momentum)[0] == pytest.approx(1e-8 / (1 - momentum), rel=1e-6)


def test_lifetimes():
    assert Dynamics().lifetime(np.array([0.5, 2.0])).tolist() == [2.0, 0.5]
    assert Dynamics(ridge=0.5).lifetime(np.array([0.5])).tolist() == [1.0]
    assert Dynamics("gd", rate=1.0).lifetime(np.array([1.0, 1 - exp(-1)])) == pytest.approx([0.0, 1.0])
    best = Dynamics("momentum", rate=(2 / (1 + 3)) ** 2, momentum=0.25)
    assert best.lifetime(np.array([1.0, 4.0, 9.0])) == pytest.approx([1 / np.log(2)] * 3, rel=1e-6)
