"""Shaped attention with masks and heads: what one layer of the built network does to the covariance, against theory."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.finite.build.mixing import MATRICES
from deeplimits.layer import Attention, Dense, Repeat, WeightedSkip
from deeplimits.limits.proportional import rules
from deeplimits.limits.proportional.motion import proportional

TOKENS = np.random.default_rng(0).standard_normal((3, 4)) * np.array([1.0, 1.5, 0.5, 1.0])
V = torch.from_numpy(TOKENS @ TOKENS.T / 4)
assert rules.attention


@pytest.mark.parametrize("causal", [False, True])
def test_drift_of_one_layer(causal):
    """n E[A V A^T - V] over matrices of the built kind, logits and their negatives, at any number of key features."""
    n, draws = 4000, 60_000
    layer = Attention("shaped", causal=causal, temperature=0.8)
    generator, root = torch.Generator().manual_seed(0), torch.linalg.cholesky(V)
    q, k = (root @ torch.randn(draws, 3, 8, generator=generator, dtype=torch.float64) for _ in range(2))
    moved = [MATRICES["shaped"](layer, sign * q, k, n) for sign in (1.0, -1.0)]
    found = n * sum(A @ V @ A.mT - V for A in moved) / 2
    expected = proportional(layer).drift(V)
    error = found.std(0) / draws**0.5
    assert (error < 0.02 * expected.abs().max()).all()
    assert ((found.mean(0) - expected).abs() < 4.5 * error + 20 / n * expected.abs().max()).all()


@pytest.mark.parametrize("heads", [1, 2])
def test_fluctuations_of_one_masked_block(heads):
    """n Cov(V) after a read-in and one block with a skip; leaving the heads out of the law is noticed."""
    n, networks = 200, 6000
    attention = Attention("shaped", heads=heads, causal=True, temperature=0.25)
    block = WeightedSkip(attention if heads == 1 else attention >> Dense(), scale=0.8)
    found = dl.sample(Dense() >> Repeat(block, 1), TOKENS, n, 1, networks, 1)
    motion = proportional(block)
    readin = proportional(Dense())
    expected = readin.then(motion).covariance(V).numpy()
    size = np.sqrt(np.einsum("abab->ab", expected))
    off = np.abs(n * found.covariance - expected) - 30 / n * size[:, :, None, None] * size
    assert (off < 4.5 * n * found.covariance_error).all()
    other = readin.then(replace(motion, first_order=motion.first_order * (2.0 if heads == 2 else 0.5))).covariance(V)
    assert (np.abs(n * found.covariance - other.numpy()) > 4.5 * n * found.covariance_error).any()
