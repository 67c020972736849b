"""Every test of a claim: what it confirms, what it refutes, what it leaves open, and how often it errs."""

import numpy as np
import pytest
from scipy import stats

from deeplimits.claims import agreement
from deeplimits.claims.agreement import CONFIDENCE, LEVEL
from deeplimits.numerics.fit import slope
from deeplimits.plane.record import Estimate


def fitted(value, error):
    """A slope with this value and standard error."""
    x = np.array([1.0, 2.0, 4.0, 8.0])
    one = slope(x, x**value, np.full(4, 0.01) * x**value, CONFIDENCE)
    scale = error / one.standard_error
    return slope(x, x**value, np.full(4, 0.01) * x**value * scale, CONFIDENCE)


@pytest.mark.parametrize(
    ("measured", "error", "bias", "verdict"),
    [
        (1.0, 0.01, 0.0, "confirmed"),
        (1.04, 0.01, 0.0, "confirmed"),
        (1.06, 0.01, 0.0, "not confirmed"),
        (1.06, 0.01, 0.02, "confirmed"),
        (1.0, 0.1, 0.0, "undecided"),
        (1.3, 0.1, 0.0, "undecided"),
        (1.6, 0.1, 0.0, "not confirmed"),
        (float("nan"), 0.01, 0.0, "undecided"),
    ],
)
def test_near(measured, error, bias, verdict):
    part = agreement.near("x", 1.0, Estimate(measured, error), 0.2, bias=bias, because="a reason")
    assert part.verdict == verdict
    assert "4.89 standard errors" in part.test
    assert ("a reason" in part.test) == bool(bias)
    assert part.high - 1.0 == pytest.approx(1.0 - part.low) == pytest.approx(4.8916 * error + bias, rel=1e-4)


def test_few_networks_take_student():
    assert agreement.near("x", 1.0, Estimate(1.06, 0.01), 0.2, networks=10).verdict == "confirmed"
    assert agreement.quantile(10) == pytest.approx(stats.t.isf(LEVEL / 2, 9))


def test_only_the_paper_itself_is_refuted():
    assert agreement.near("x", 1.0, Estimate(2.0, 0.01), 0.2, paper=False).verdict == "undecided"
    assert agreement.inside("x", -1.0, fitted(0.0, 0.01), -1.3, -0.7, paper=False).verdict == "undecided"
    assert agreement.equal("x", 1.0, 2.0, 0.1, "why", paper=False).verdict == "undecided"


@pytest.mark.parametrize(
    ("value", "error", "verdict"),
    [(-1.0, 0.02, "confirmed"), (-1.0, 0.1, "undecided"), (-0.75, 0.02, "undecided"), (-0.4, 0.02, "not confirmed")],
)
def test_inside(value, error, verdict):
    part = agreement.inside("slope", -1.0, fitted(value, error), -1.3, -0.7)
    assert (part.verdict, part.measured) == (verdict, pytest.approx(value))
    assert part.standard_error == pytest.approx(error, rel=1e-6)


def test_inside_wants_the_right_confidence():
    x = [1.0, 2.0, 4.0]
    with pytest.raises(AssertionError):
        agreement.inside("slope", 1.0, slope(x, x, [0.01] * 3), 0.5, 1.5)


@pytest.mark.parametrize(
    ("value", "error", "verdict"),
    [(1.0, 0.05, "confirmed"), (1.0, 0.2, "undecided"), (1.9, 0.05, "undecided"), (3.0, 0.05, "not confirmed")],
)
def test_between(value, error, verdict):
    assert agreement.between("norm", 1.0, Estimate(value, error), 0.5, 2.0).verdict == verdict


@pytest.mark.parametrize(
    ("value", "error", "verdict"),
    [(2.0, 0.1, "confirmed"), (1.3, 0.1, "undecided"), (0.4, 0.1, "not confirmed"), (1.01, 0.0, "confirmed")],
)
def test_above(value, error, verdict):
    part = agreement.above("x", 1.0, Estimate(value, error))
    assert part.verdict == verdict
    assert (part.low, part.high) == (1.0, None)


@pytest.mark.parametrize(
    ("hits", "trials", "verdict"),
    [(1500, 1500, "confirmed"), (500, 500, "undecided"), (1480, 1500, "undecided"), (1400, 1500, "not confirmed")],
)
def test_proportion(hits, trials, verdict):
    part = agreement.proportion("agreement", hits, trials, 0.99)
    assert part.verdict == verdict
    assert part.measured == hits / trials
    assert part.standard_error is None


def test_proportion_is_exact():
    low = LEVEL ** (1 / 1500)
    assert f"{low:.4f}" in agreement.proportion("agreement", 1500, 1500, 0.99).test


def test_gaussian():
    values = np.random.default_rng(0).standard_normal((100, 20))
    assert agreement.gaussian("marginal", 2 * values, 4.0).verdict == "confirmed"
    assert agreement.gaussian("marginal", 2 * values, 1.0).verdict == "not confirmed"
    assert agreement.gaussian("marginal", np.exp(values), 1.0).verdict == "not confirmed"


def test_spread_is_the_standard_deviation_with_its_error():
    values = 3 * np.random.default_rng(1).standard_normal(4000)
    found = agreement.spread(values, 2.0)
    assert found.value == pytest.approx(2 * values.std(ddof=1))
    assert found.error == pytest.approx(6 / np.sqrt(2 * 4000), rel=0.1)


def test_right_programs_hardly_ever_fail():
    """At the level 1e-6, 20,000 right measurements give 0.02 failures on average: two or more have chance 2e-4."""
    generator = np.random.default_rng(2)
    failures = 0
    for values in generator.standard_normal((20_000, 5)):
        measured = agreement.average(values)
        failures += abs(measured.value) > agreement.quantile(5) * measured.error
    assert failures <= 1


def test_two_samples_of_one_law():
    rng = np.random.default_rng(0)
    one, other = rng.standard_normal(2000), rng.standard_normal(4000)
    assert agreement.same_law("law", one, other).verdict == "confirmed"
    assert agreement.same_law("law", one, other + 1.0).verdict == "not confirmed"
    assert agreement.same_law("law", one, other + 1.0, paper=False).verdict == "undecided"
    assert agreement.same_law("law", one[:100], other).verdict == "undecided"  # the bound is wider than the resolution
