"""Infinite self-attention: the sum of all powers, its truncation, the walk, and the scores of linear cost."""

from __future__ import annotations

from math import pi, sqrt

import numpy as np
import pytest

from deeplimits.errors import InputError, NoLimit
from deeplimits.limits.tokens import infinite

RANDOM = np.random.default_rng(0)
A = infinite.base_operator(RANDOM.standard_normal((40, 16)), RANDOM.standard_normal((40, 16)))


def test_the_sum_over_powers_is_the_solve_within_the_bound_and_by_the_rate():
    exact, radius = infinite.infinite_attention(A, 0.95), infinite.spectral_radius(A)
    assert np.linalg.norm(A) == pytest.approx(1.0, abs=1e-5) and A.min() == 0.0
    errors = []
    for terms in (1, 5, 20, 21):
        error = np.linalg.norm(infinite.truncated_attention(A, 0.95, terms) - exact)
        assert error <= infinite.truncation_bound(0.95, terms)
        errors.append(error)
    assert errors[3] / errors[2] == pytest.approx(0.95 * radius, rel=1e-6)


def test_visits_are_the_sum_of_all_steps_of_the_walk():
    visits = infinite.expected_visits(A, 0.9)
    np.testing.assert_allclose(visits, np.eye(40) + 0.9 * A @ visits, atol=1e-12)
    with pytest.raises(InputError, match=r"its row sums to more than 1/discount. Fix: give a discount of at most 0.5"):
        infinite.expected_visits([[1.0, 1.0], [0.0, 0.0]], 0.6)


def test_a_sum_that_diverges_is_refused():
    with pytest.raises(NoLimit, match=r"give a discount below 0\.5"):
        infinite.infinite_attention(np.ones((2, 2)), 0.5)


def test_the_left_perron_vector_is_an_eigenvector():
    vector = infinite.left_perron(A)
    np.testing.assert_allclose(vector @ A, infinite.spectral_radius(A) * vector, atol=1e-12)


def test_linear_scores_are_near_the_perron_vector_only_for_queries_that_agree():
    rng = np.random.default_rng(1)
    found = {0.0: [], 1.0: []}
    for mean, values in found.items():
        for _ in range(24):
            q, k = rng.standard_normal((2, 100, 64)) + mean
            scores = infinite.linear_scores(q, k)
            vector = infinite.left_perron(infinite.base_operator(q, k))
            values.append(scores @ vector / np.linalg.norm(scores))
    error = np.std(found[0.0]) / sqrt(24)
    assert abs(np.mean(found[0.0]) - infinite.linear_cosine(100)) < 4 * error + 1 / 100 + 1 / 64
    assert np.mean(found[1.0]) > 0.999
    assert infinite.linear_cosine(10**10) == pytest.approx(1 / sqrt(pi), rel=1e-4)


def test_scores_that_cannot_be_are_refused():
    with pytest.raises(InputError, match="queries have shape"):
        infinite.linear_scores(np.ones((2, 3)), np.ones((3, 3)))
    with pytest.raises(InputError, match="opposite to the mean query"):
        infinite.linear_scores(np.ones((2, 3)), -np.ones((2, 3)))
    with pytest.raises(InputError, match="give a square one"):
        infinite.infinite_attention(np.ones((2, 3)), 0.1)
    with pytest.raises(InputError, match="matrix of chances"):
        infinite.expected_visits([[-0.1]], 0.5)
    with pytest.raises(InputError, match=r"discount=1.0 is not a positive number below 1"):
        infinite.truncation_bound(1.0, 3)
