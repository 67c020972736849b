"""The claim about DeepSpeed says so where it could not be looked at."""

import subprocess
import sys

import pytest

import deeplimits as dl
from deeplimits.claims import rajbhandari_2021_zero_infinity as claim
from deeplimits.claims.claim import UNDECIDED, judge
from deeplimits.claims.zero_stages import alone, planned


def test_without_deepspeed(monkeypatch):
    monkeypatch.setattr(claim, "find_spec", lambda name: None)
    found = claim.engines(claim.Sizes(1, (3,), 2))
    (part,) = found.parts
    assert part.name == claim.HEADLINE
    assert part.measured > 0
    assert "DeepSpeed is not installed" in part.test
    assert judge(found.parts)[0] == UNDECIDED


def test_the_model_trains():
    losses = alone(planned(), 12)
    assert losses[-1] < 0.95 * losses[0]


def test_a_process_that_ends_early_is_told(monkeypatch):
    stop = subprocess.Popen
    monkeypatch.setattr(
        claim.subprocess,
        "Popen",
        lambda command, **settings: stop([sys.executable, "-c", "raise SystemExit('no engine')"], **settings),
    )
    with pytest.raises(dl.DeepLimitsError, match="did not run: no engine"):
        claim._trained(claim.Sizes(2, (0,), 1), planned())
