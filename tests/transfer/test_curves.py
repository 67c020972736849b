"""Learning-rate curves: minima, intervals, drifts and verdicts."""

from __future__ import annotations

from math import inf, sqrt

import numpy as np
import pytest

from deeplimits.transfer.evidence.curves import summarise
from deeplimits.transfer.evidence.optimum import minimum

GRID = np.arange(-8.0, 0.0)
SIZES = [{"width": 32}, {"width": 64}, {"width": 128}]


def bowls(centres, seeds=4, noise=0.05):
    rng = np.random.default_rng(0)
    centre = np.array(centres)[:, None, None] + noise * rng.standard_normal((len(centres), 1, seeds))
    return np.exp(0.3 * (GRID[None, :, None] - centre) ** 2)


@pytest.mark.parametrize(
    ("centres", "noise", "verdict"),
    [((-4, -4.1, -4.1), 0.05, "transfers"), ((-3, -4.5, -6), 0.05, "drifts"), ((-4, -4.4, -4.75), 0.5, "undecided")],
)
def test_verdicts(centres, noise, verdict):
    found = summarise("mup", SIZES, GRID.tolist(), bowls(centres, noise=noise))
    assert found.verdict == verdict
    assert found.drift == pytest.approx(centres[-1] - centres[0], abs=4 * noise / sqrt(2))
    assert found.drift_low <= found.drift <= found.drift_high
    assert found.loss_ratio == pytest.approx(1, rel=noise)
    assert verdict in str(found)


def test_minima_are_parabolas():
    x = np.arange(-6.0, 0)
    best, loss, edge = minimum(x, 2 * np.exp(0.7 * (x + 2.3) ** 2)[:, None])
    assert (best, loss, edge) == (pytest.approx(-2.3), pytest.approx(2), False)


def test_edges_and_divergence_are_said():
    losses = bowls((-4, -4, -9))
    found = summarise("mup", SIZES, GRID.tolist(), losses)
    assert found.verdict == "undecided"
    assert found.curves[-1].at_edge
    assert "widen it" in found.reason
    losses = bowls((-4, -4, -4))
    losses[:, -2:] = inf
    assert summarise("mup", SIZES, GRID.tolist(), losses).verdict == "transfers"


def test_optima_at_the_edge_of_the_grid_are_not_known_to_stay():
    """A place beyond the grid is nowhere: two of them do not tell a drift, one of them bounds it on one side."""
    both = summarise("mup", SIZES, GRID.tolist(), bowls((2, 2, 2)))
    assert both.verdict == "undecided" and both.moved == "" and (both.drift_low, both.drift_high) == (-inf, inf)
    assert both.reason.startswith("how far the best learning rate moves is not known, as at width 32 the smallest loss")
    assert "with larger learning rates" in both.reason and "+0.00" not in str(both)
    assert both.curves[0].interval == "[-2.00, beyond the grid]"
    first = summarise("sp", SIZES, GRID.tolist(), bowls((2, -4, -6)))
    assert first.verdict == "undecided" and first.drift_low == -inf
    assert first.drift_high == pytest.approx(-6 - (-1 - 1), abs=0.2)  # the first lies at most a spacing below the edge
    assert "octaves or further (99 % interval [beyond the grid, " in first.reason


@pytest.mark.parametrize(("spacing", "verdict"), [(1.0, "undecided"), (0.25, "transfers")])
def test_an_optimum_beside_divergence_is_known_to_a_spacing_of_the_grid(spacing, verdict):
    """Losses fall up to where training breaks: the best rate lies anywhere around the last one that trains."""
    grid = -2 - spacing * np.arange(12.0)[::-1]
    losses = np.exp(-0.3 * grid)[None, :, None] * np.array([1.0, 0.9, 0.8])[:, None, None] + np.zeros((3, 12, 2))
    losses[:, 8:] = inf
    found = summarise("mup", SIZES, grid.tolist(), losses)
    assert found.verdict == verdict
    assert (found.drift_low, found.drift_high) == pytest.approx((-2 * spacing, 2 * spacing))
    curve = found.curves[0]
    assert (curve.low, curve.high) == pytest.approx((grid[7] - spacing, grid[7] + spacing))
    assert "beside a learning rate that diverges" in str(found)
    if verdict == "undecided":
        assert f"give finer learning rates around 2^{grid[7]:+.2f}" in found.reason


def test_a_loss_deep_against_shallow_has_an_interval():
    losses = bowls((-4, -4.1, -4.1)) * np.array([1.0, 0.8, 0.5])[:, None, None]
    found = summarise("mup", SIZES, GRID.tolist(), losses)
    assert found.loss_ratio == pytest.approx(0.5, rel=0.05)
    assert found.ratio_low < found.loss_ratio < found.ratio_high < 1
    assert "loss at the optimum x 0.5" in found.reason
    worse = summarise("mup", SIZES, GRID.tolist(), losses[::-1])
    assert worse.reason.endswith("the largest model is worse than the base")


def test_losses_of_any_sign():
    x = GRID.tolist()
    losses = bowls((-4, -4, -4)) - 5
    found = summarise("mup", SIZES, x, losses)
    assert found.verdict == "transfers"
    assert found.curves[0].best_log2_lr == pytest.approx(-4, abs=0.1)
    nothing = summarise("mup", SIZES, x, np.full_like(losses, inf))
    assert "every run diverged" in nothing.reason


def test_sizes_that_do_not_train_have_no_best_rate():
    losses = bowls((-4, -4, -4))
    losses[1] = inf
    losses[2, :, 0] = inf
    found = summarise("mup", SIZES, GRID.tolist(), losses)
    assert found.verdict == "undecided" and [curve.trained for curve in found.curves] == [True, False, False]
    assert np.isnan([found.curves[1].best_log2_lr, found.curves[2].low, found.drift, found.span]).all()
    lines = str(found).splitlines()
    assert lines[2:] == [
        "  width 64: every run diverged: none of 32 trained",
        "  width 128: at every learning rate a run diverged, 8 of 32",
    ]
    assert "best" in lines[1] and "inf" not in str(found) and "nan" not in str(found)


def test_intervals_end_with_the_grid():
    """Few seeds of flat curves: Student's widening reaches far beyond where anything was tried."""
    noise = 0.5 * np.random.default_rng(0).standard_normal((2, 8, 2))
    found = summarise("mup", SIZES[:2], GRID.tolist(), np.exp(0.01 * (GRID[None, :, None] + 4) ** 2 + noise))
    ends = [(curve.low, curve.high) for curve in found.curves]
    assert all(-8 <= low <= high <= -1 for low, high in ends) and any(low == -8 or high == -1 for low, high in ends)
    assert "beyond the grid" in str(found).split("\n", 1)[1] and found.verdict == "undecided"
