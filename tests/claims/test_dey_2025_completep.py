"""The digits experiment at reduced size: bars for the drift of best learning rates, set beforehand from other seeds."""

import numpy as np
import pytest

from deeplimits.claims import dey_2025_completep as claim
from deeplimits.claims.claim import CONFIRMED, UNDECIDED


@pytest.mark.slow
def test_the_best_learning_rate_drifts_without_a_rule_and_stays_with_it():
    """Width 32 to 128: SP falls by one octave or more, muP stays within 0.75. Eighty trainings side by side."""
    found = claim.width(claim.REDUCED)
    assert [part.verdict for part in found.parts] == [CONFIRMED, CONFIRMED]
    assert found.parts[0].measured >= 1.0
    assert found.parts[1].measured <= 0.75
    assert [len(panel.curves) for panel in found.panels] == [2, 2]


def test_bars_are_at_least_those_of_the_issue():
    full = claim.FULL
    assert full.width.sizes == ((32, 2), (64, 2), (128, 2), (256, 2))
    assert (full.width.drifts["sp"], full.width.span) == (2.0, 0.75)
    assert (full.depth.drifts["sp"], full.depth.span, full.depth.ratio) == (1.25, 0.75, (3.0, 1.25))
    assert (full.joint.drifts, full.joint.span) == ({"sp": 2.5, "mup": 0.8}, 0.75)
    assert [full.joint.sizes[0], full.joint.sizes[-1]] == [(32, 4), (128, 32)]


def test_a_bar_that_is_missed_is_undecided():
    assert claim._bar("span", 0.8, 0.1, 0.0, 0.75).verdict == UNDECIDED
    assert claim._bar("drift", 2.1, 0.1, 2.0, None).verdict == CONFIRMED


def test_numbers_too_small_cost_nothing_inside_and_are_kept_outside():
    import torch

    tiny = torch.full((1,), 1e-320, dtype=torch.float64)
    with claim._without_denormals():
        assert not bool(2 * tiny)
    assert bool(2 * tiny)


def test_standard_errors_are_those_of_the_jackknife():
    from deeplimits.transfer.evidence.curves import summarise

    grid = [-6.0, -5.0, -4.0, -3.0]
    shift = np.array([0.0, 0.3, -0.3])
    losses = np.exp(0.5 * (np.array(grid)[None, :, None] + 4.5 + shift) ** 2)
    one = summarise("mup", [{"width": 32}, {"width": 64}], grid, np.concatenate([losses, np.exp(0 * losses) * losses]))
    assert claim._error(one, claim._drift) == pytest.approx(0.0, abs=1e-9)
    assert claim._error(one, lambda best: best[0][0]) == pytest.approx(shift.std(ddof=1) / 3**0.5, rel=1e-6)
