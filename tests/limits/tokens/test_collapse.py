"""Rank collapse against plain layers, its rates, and its accuracy where plain layers round to zero."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from deeplimits.limits.tokens.collapse import rank_collapse

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((4, 6))
A = 0.3 * RANDOM.standard_normal((6, 6, 6))
V = RANDOM.standard_normal((6, 6, 6)) / 6**0.5


def plain(skip, branch):
    x, curve = X, []
    for key, value in [*zip(A, V, strict=True), (None, None)]:
        curve.append(np.linalg.norm(x - x.mean(axis=0)) / np.linalg.norm(x))
        if key is not None:
            scores = np.exp(0.7 * x @ key.T @ x.T)
            x = skip * x + branch * (scores / scores.sum(axis=1, keepdims=True)) @ x @ value.T
    return np.array(curve)


@pytest.mark.parametrize(("skip", "branch"), [(0.0, 1.0), (0.5**0.5, 0.5**0.5), (1.0, -0.3)])
def test_the_curve_is_that_of_plain_layers(skip, branch):
    found = rank_collapse(X, 6, beta=0.7, query_key=A, value=V, skip=skip, branch=branch)
    expected = plain(skip, branch)
    seen = expected > 1e-8
    assert seen.sum() >= 4
    np.testing.assert_allclose(found[seen], expected[seen], rtol=1e-6)


def test_without_skips_the_residual_cubes_beyond_rounding_and_with_skips_it_falls_by_a_factor():
    bare = rank_collapse(X, 6, beta=0.7, query_key=A, value=V)
    exponents = [log(bare[layer + 1]) / log(bare[layer]) for layer in (4, 5)]
    assert bare[6] < 1e-100
    np.testing.assert_allclose(exponents, 3.0, atol=0.1)  # the constant, within 10, is 0.07 of log residual
    kept = rank_collapse(X + 2, 40, beta=0.1, skip=0.8, branch=0.6)
    np.testing.assert_allclose(kept[31:] / kept[30:-1], 0.8 / 1.4, rtol=1e-6)  # the mean has both paths, the rest one


def test_large_tokens_do_not_overflow():
    far = 30 * np.eye(3)
    np.testing.assert_allclose(rank_collapse(far, 2, beta=2.0), (2 / 3) ** 0.5, rtol=1e-12)


def test_one_token_has_no_rest():
    np.testing.assert_array_equal(rank_collapse([[1.0, 2.0]], 3), np.zeros(4))
