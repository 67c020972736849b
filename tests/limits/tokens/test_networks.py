"""The attention of built networks is that of the theory of tokens: two programs, one matrix."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.finite.build.mixing import MATRICES
from deeplimits.limits.tokens.hardmax import Hardmax
from deeplimits.limits.tokens.infinite import base_operator, infinite_attention
from deeplimits.limits.tokens.sinkhorn import balance

Q, K = np.random.default_rng(0).standard_normal((2, 12, 4))


def matrix(kind, q, k, **options):
    found = MATRICES[kind](dl.layer.Attention(kind, **options), torch.from_numpy(q), torch.from_numpy(k), 4)
    return found.numpy()


def test_sinkhorn():
    found = matrix("sinkhorn", Q, K, iterations=2000, tolerance=1e-12)
    np.testing.assert_allclose(found, balance(Q @ K.T / 2).matrix, atol=1e-10)


def test_hardmax():
    rule = Hardmax(None, step=0.5, ties=1e-12)
    np.testing.assert_allclose(matrix("hardmax", Q, Q, step=1 / 3) @ Q, rule.move(Q), atol=1e-14)


def test_infinite_attention():
    expected = infinite_attention(base_operator(Q, K), 0.9)
    np.testing.assert_allclose(matrix("relu-infinite", Q, K, discount=0.9, terms=None), expected, atol=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_softmax(temperature):
    x = Q / np.linalg.norm(Q, axis=1, keepdims=True)
    found = matrix("softmax", x, x, temperature=temperature) @ x
    start, end = dl.tokens("softmax", x, (0.0, 1e-7), beta=0.5 / temperature, accuracy=1e-11).trajectory
    pull = found - np.sum(found * x, axis=1, keepdims=True) * x
    np.testing.assert_allclose((end - start) / 1e-7, pull, atol=1e-5)
