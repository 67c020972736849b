"""Best learning rates of linear perceptrons: the limit, the exact polynomial of one step, several steps."""

from __future__ import annotations

from math import inf, isnan, sqrt

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.limits.training.linear import one_step, several_steps
from deeplimits.limits.training.linear.best_rate import best_rate, best_rate_law, best_rates
from deeplimits.limits.training.linear.gaussian_matrix import Revealed, Whole
from tests.limits.refusal import refused

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((7, 4)), RNG.standard_normal((7, 2))
WEIGHTS = several_steps.drawn(20, 4, 3, 2, 0.1, np.random.default_rng(1))


def descent(weights, rate, steps):
    """Return the loss after plain gradient descent by autograd."""
    first, readout = torch.from_numpy(weights[0]), torch.from_numpy(weights[2])
    hidden = [torch.from_numpy(W).clone().requires_grad_() for W in weights[1]]

    def loss():
        h = first @ torch.from_numpy(X).T / 2
        for W in hidden:
            h = W @ h
        return (readout @ h - torch.from_numpy(Y).T).square().sum() / (2 * len(X))

    for _ in range(steps):
        for W, slope in zip(hidden, torch.autograd.grad(loss(), hidden), strict=True):
            W.data -= rate * slope
    return loss().item()


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_losses_are_those_of_gradient_descent(steps):
    rates = np.array([0.1, 1.0, 3.0])
    found = several_steps.losses(X / 2, Y, WEIGHTS, rates, steps)
    np.testing.assert_allclose(found, [descent(WEIGHTS, rate, steps) for rate in rates], rtol=1e-9)
    assert several_steps.losses(X / 2, Y, WEIGHTS, np.array([1e60]), 9).tolist() == [inf]


def test_the_polynomial_of_one_step_is_exact():
    """The same weights, drawn in the order of the polynomial's: no rate near or far does better."""
    random = np.random.default_rng(2)
    matrices = [random.standard_normal((1, 8, 8))[0] / sqrt(8) for _ in range(3)]
    start, readout = random.standard_normal((1, 8, 4))[0], 0.3 * random.standard_normal((1, 8, 2))[0]
    first = start @ np.linalg.svd(X / 2, full_matrices=False)[2]
    loss = lambda rates: several_steps.losses(X / 2, Y, (first, matrices, readout.T), rates, 1)
    (best,) = one_step.one_step_rates(X / 2, Y, 8, 3, 0.3, 1, 0.5, np.random.default_rng(2))
    assert loss(best * np.geomspace(1e-3, 1e3, 2000)).min() >= loss(np.array([best]))[0] * (1 - 1e-12)
    assert several_steps.search(loss, 0.05) == pytest.approx(best, rel=1e-3)


def test_matrices_seen_in_part_have_the_law_of_whole_ones():
    """Entries and their products over 4000 matrices, vectors chosen by what came before; five standard errors."""
    W, n = Revealed(4000, 6, np.random.default_rng(3)), 6
    first = W.times(np.ones((4000, n, 1)))
    second = W.transposed_times(first)
    third = W.times(np.concatenate([second, np.eye(n)[None, :, :1].repeat(4000, 0)], axis=-1))
    entries = W.times(np.eye(n)[None].repeat(4000, 0))
    np.testing.assert_allclose(entries @ np.ones((n, 1)), first, atol=1e-9)
    np.testing.assert_allclose(entries.mT @ first, second, atol=1e-9)
    np.testing.assert_allclose(entries @ second, third[..., :1], atol=1e-9)
    flat = entries.reshape(4000, -1)
    assert np.abs(flat.mean(0)).max() < 5 / sqrt(4000 * n)
    assert np.abs(n * flat.T @ flat / 4000 - np.eye(n * n)).max() < 5 * sqrt(2 / 4000)


def test_both_ways_of_drawing_give_the_same_rates(monkeypatch):
    """Medians over 600 networks of width 100, within five standard errors of their difference."""
    found = []
    for seed in range(2):
        rates = one_step.one_step_rates(X / 2, Y, 100, 2, 0.01, 600, 1.0, np.random.default_rng(seed))
        low, middle, high = np.quantile(rates, [0.5 - 0.5 / sqrt(600), 0.5, 0.5 + 0.5 / sqrt(600)])
        found.append((middle, (high - low) / 2))
        monkeypatch.setattr(one_step, "Revealed", Whole)
    (a, error_a), (b, error_b) = found
    assert abs(a - b) < 5 * np.hypot(error_a, error_b)


def test_rates_approach_the_limit_as_one_over_the_root_of_the_width():
    """The exponent's standard error is 0.025: four of them lie within 0.1 of -1/2, bias apart."""
    found = best_rates(X, Y, widths=(64, 256, 1024), networks=(1000, 700, 350), seed=1)
    assert found.exponent().value == pytest.approx(-0.5, abs=0.1)
    middle, error = found.median
    assert abs(middle[-1] - found.limit) < 5 * error[-1] + found.limit * (found.distance[0][-1] / found.limit) ** 2
    assert found.limit == best_rate(X, Y)
    assert "n^-0." in found.describe()


def test_the_standard_parametrization_has_no_limit_and_the_tangent_one_a_random_one():
    standard = best_rates(X, Y, widths=(64, 512), rule="sp", networks=200)
    assert standard.limit == 0
    assert standard.exponent("median").value == pytest.approx(-1.0, abs=0.1)
    tangent = best_rates(X, Y, widths=(64, 512), rule="ntp", networks=200)
    assert isnan(tangent.limit)
    np.testing.assert_allclose(tangent.rates[0], 64 * standard.rates[0])
    law = best_rate_law(X, Y, samples=4000, seed=3)
    middle, error = tangent.median
    assert abs(middle[1] - np.median(law)) < 5 * error[1]
    spread = np.median(np.abs(law - np.median(law)))
    assert tangent.distance[0][1] == pytest.approx(spread, rel=0.4)


def test_several_steps():
    """One step by search is the polynomial's; the rate of three steps is found again when the unit is another."""
    weights = several_steps.drawn(40, 4, 3, 2, 1 / 40, np.random.default_rng(5))
    loss = lambda rates: several_steps.losses(X / 2, Y, weights, rates, 3)
    near, far = several_steps.search(loss, 1.0), several_steps.search(loss, 1e-3)
    assert near == pytest.approx(far, rel=2e-3)
    found = best_rates(X, Y, widths=(32, 64), steps=3, networks=4)
    assert all((rates > 0).all() for rates in found.rates)
    assert isnan(found.limit)
    assert isnan(several_steps.search(lambda rates: rates, 1.0))


def test_the_limit_counts_outputs_units_and_matrices():
    rate = best_rate(X, Y)
    K, best = X @ X.T / 4, lambda y: (np.sum(y * (K @ y)), np.sum((K @ y) ** 2))
    top, bottom = np.add(best(Y[:, 0]), best(Y[:, 1]))
    assert rate == pytest.approx(7 / 3 * top / bottom)
    assert best_rate(X, 10 * Y) == pytest.approx(rate)
    assert best_rate(10 * X, Y) == pytest.approx(rate / 100)
    assert best_rate(X, Y, hidden=6) == pytest.approx(rate / 2)
    assert best_rate(torch.from_numpy(X).float(), torch.from_numpy(Y)) == pytest.approx(rate, rel=1e-6)
    assert best_rate(np.concatenate([X, X]), np.concatenate([Y, Y])) == pytest.approx(rate)


def test_units_of_inputs_and_of_targets_together():
    """Outputs in other units are the same network; so are inputs, whose outputs scale with them."""
    plain = best_rates(X, Y, widths=(40,), networks=8).rates[0]
    np.testing.assert_allclose(best_rates(1e4 * X, 1e4 * Y, widths=(40,), networks=8).rates[0], 1e-8 * plain, rtol=1e-6)
    searched = [best_rates(c * X, c * Y, widths=(10,), networks=2, steps=2).rates[0] * c**2 for c in (1.0, 1e4)]
    np.testing.assert_allclose(*searched, rtol=2e-3)


def test_rows_may_repeat_and_be_zero():
    doubled = np.concatenate([X, X, 0 * X[:1]]), np.concatenate([Y, Y, Y[:1]])
    found = best_rates(*doubled, widths=(2000,), networks=20, seed=2)
    assert found.median[0][0] == pytest.approx(best_rate(*doubled), rel=0.1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: best_rate(X, Y[:3]), "y has shape (3, 2), and X has 7 rows"),
        (lambda: best_rate(X, Y, hidden=0), "hidden=0"),
        (lambda: best_rate(X, 0 * Y), "y reaches 0"),
        (lambda: best_rate([[1.0, 0.0], [0.0, 0.0]], [0.0, 1.0]), "X'y is zero"),
        (lambda: best_rate(1e200 * X, Y), "X reaches"),
        (lambda: best_rate(X, [True] * 6 + ["a"]), "y"),
        (lambda: best_rate_law(X, Y, samples=0), "samples=0"),
        (lambda: best_rates(X, Y, widths=[]), "widths=[] is not a list"),
        (lambda: best_rates(X, Y, widths=64), "widths=64 is not a list"),
        (lambda: best_rates(X, Y, widths=[64, 0]), "width=0"),
        (lambda: best_rates(X, Y, widths=[64, 64]), "widths=[64, 64]"),
        (lambda: best_rates(X, Y, widths=[64, 128], networks=(3,)), "networks=[3]"),
        (lambda: best_rates(X, Y, widths=[64], rule="mu"), "did you mean 'mup'"),
        (lambda: best_rates(X, Y, widths=[64], rule=3), "there is no rule 3"),
        (lambda: best_rates(X, Y, widths=[64], steps=0.5), "steps=0.5"),
        (lambda: best_rates(X, Y, widths=[64], hidden=21), "hidden=21: the roots"),
        (lambda: best_rates(X, Y, widths=[64], seed=-1), "-1 is not a whole number"),
        (lambda: best_rates(X, Y, widths=[64], networks=3).exponent("mean"), "of='mean'"),
    ],
)
def test_refused(call, words):
    refused(call, dl.errors.InputError, words)


def test_too_wide_for_memory():
    refused(
        lambda: best_rates(X, Y, widths=[10**8], steps=2, networks=1), dl.errors.MemoryNeeded, "bytes", "smaller widths"
    )
