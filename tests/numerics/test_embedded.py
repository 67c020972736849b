"""Problems on embedded states: shapes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from deeplimits.errors import DeepLimitsError
from deeplimits.numerics.embedded import embedded
from tests.limits.refusal import refused

X = np.arange(6.0).reshape(3, 2)


def test_matrices_are_applied():
    E, W = np.arange(8.0).reshape(2, 4), np.ones((4, 2))
    found = embedded("here", X, np.ones((3, 2)), X[:1], E, W)
    np.testing.assert_array_equal(found.states, X @ E)
    np.testing.assert_array_equal(found.tests, X[:1] @ E)
    assert found.out is not None and found.several and found.targets.shape == (3, 2)


def test_the_drawn_unembedding_is_always_the_same():
    one, other = (embedded("here", x, [1, 2, 3], None, None, None) for x in (X, X + 1))
    np.testing.assert_array_equal(one.out, other.out)
    assert not one.several and one.targets.dtype == np.float64


@pytest.mark.parametrize("y", [[1.0, 2.0], 3.0, np.ones((3, 2, 2)), np.ones((3, 0)), None, "abc"], ids=str)
def test_targets_of_other_shapes_are_refused(y):
    refused(lambda: embedded("here", X, y, None, None, None), DeepLimitsError, "y")


def test_entries_are_named():
    refused(lambda: embedded("here", X, [1.0, np.nan, 2.0], None, None, None), DeepLimitsError, "y has nan at row 1")
    refused(lambda: embedded("here", X, X[:, 0], None, np.ones((3, 4)), None), DeepLimitsError, "embedding", "(2, D)")
    refused(lambda: embedded("here", X, X[:, 0], None, None, np.ones((3, 1))), DeepLimitsError, "unembedding", "(2, 1)")
    refused(lambda: embedded("here", X, ["a", "b", "c"], None, None, None), DeepLimitsError, "y has dtype")
