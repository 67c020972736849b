"""How a refusal is checked."""

from __future__ import annotations

import numpy as np
import pytest

import deeplimits as dl

X = np.random.default_rng(0).standard_normal((4, 6))
NET = dl.ResNet("relu")


def refused(call, kind, *words):
    """Assert that `call` raises that kind of error, with where, why and fix, and with the words in its text."""
    with pytest.raises(kind) as caught:
        call()
    error = caught.value
    assert isinstance(error, dl.DeepLimitsError)
    assert error.where and error.why and error.fix
    for word in words:
        assert word in str(error)
    return error


def kernel(X1, X2=None, net=NET, depth=3, **options):
    return lambda: dl.kernel(net, X1, X2, depth=depth, **options)
