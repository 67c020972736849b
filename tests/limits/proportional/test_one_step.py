"""One layer of finite width, sampled exactly in law, beside its drift and covariance."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.layer import WIDTH, Attention, Dense, Repeat, Residual, WeightedSkip
from deeplimits.limits.proportional import question
from deeplimits.limits.proportional.attention import attention_drift, visible
from deeplimits.limits.proportional.perceptron import angle_drift

X = np.array([[1.0, 0.3, -0.2, 0.4], [0.1, -0.9, 0.5, 0.2], [-0.6, 0.4, 1.1, 0.3]])
V = torch.from_numpy(X @ X.T / 2)
ROOT = torch.linalg.cholesky(V)


def normals(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def attention_matrices(g, width, causal=False):
    """A = I + softmax - even, logits of covariance V_ad V_bw / width."""
    z = ROOT @ g @ ROOT.T / sqrt(width)
    even = visible(3, causal)
    soft = torch.softmax(z.masked_fill(even == 0, -torch.inf), -1)
    return torch.eye(3, dtype=torch.float64) + soft - even


@pytest.mark.parametrize(("causal", "pairs"), [(False, 500_000), (True, 100_000)])
def test_drift_of_attention(causal, pairs):
    width, total = 1600, torch.zeros(3, 3, dtype=torch.float64)
    g = normals(0, pairs, 3, 3)
    for sign in (1, -1):
        A = attention_matrices(sign * g, width, causal)
        total += (A @ V @ A.mT - V).mean(0) / 2
    expected = attention_drift(V, visible(3, causal))
    assert float((width * total - expected).abs().max() / expected.abs().max()) < 0.006


def wishart(seed, samples, freedom):
    """B B^T of B (3 x freedom) standard normals, by Bartlett's decomposition."""
    lower = normals(seed, samples, 3, 3).tril(-1)
    rng = np.random.default_rng(seed)
    chi = np.sqrt(rng.chisquare(freedom - np.arange(3), size=(samples, 3)))
    lower = lower + torch.diag_embed(torch.from_numpy(chi))
    return lower @ lower.mT


def one_step(branch_root, width, skip, scale):
    """skip^2 V + scale^2 branch + skip scale (cross + cross^T) for one fresh matrix of weights after the branch."""
    samples = len(branch_root)
    seen = normals(5, samples, 3, 3)
    square = (seen @ seen.mT + wishart(6, samples, width - 3)) / width
    cross = ROOT @ seen.mT @ branch_root.mT / sqrt(width)
    return skip**2 * V + scale**2 * branch_root @ square @ branch_root.mT + skip * scale * (cross + cross.mT)


def relative_error(found, width, expected):
    flat = found.reshape(len(found), -1)
    flat = flat - flat.mean(0)
    measured = width * (flat.T @ flat / len(flat))
    return float((measured - expected.reshape(9, 9)).norm() / expected.norm())


@pytest.mark.parametrize("causal", [False, True])
def test_covariance_of_attention(causal):
    width, gamma = 1600, 0.6
    A = attention_matrices(normals(1, 300_000, 3, 3), width, causal)
    found = one_step(A @ ROOT, width, sqrt(1 - gamma**2), gamma)
    expected = question(WeightedSkip(Attention("shaped", causal=causal), scale=gamma)).covariance(V)
    assert relative_error(found, width, expected) < 0.01


def test_covariance_of_a_perceptron():
    width, gamma, shape = 400, 0.5, dl.act.ShapedRelu(1.0, -2.0)
    generator = torch.Generator().manual_seed(2)
    z = ROOT.float() @ torch.randn(12_000, 3, width, generator=generator)
    hidden = torch.where(z > 0, shape.at(width).positive * z, shape.at(width).negative * z)
    roots = torch.linalg.cholesky((hidden @ hidden.mT / width).double()).repeat(25, 1, 1)
    found = one_step(roots, width, sqrt(1 - gamma**2), gamma)
    expected = question(WeightedSkip(Dense() >> shape >> Dense(), scale=gamma)).covariance(V)
    np.testing.assert_allclose(expected[0, 0, 0, 0], 2 * gamma**2 * 2 * V[0, 0] ** 2)
    assert relative_error(found, width, expected) < 0.01


def test_drift_of_the_shaped_activation_is_that_of_its_kernel():
    shape, width = dl.act.ShapedRelu(0.5, -1.5), 10**8
    kernel = dl.kernel(Dense() >> shape.at(width), X * sqrt(2), depth=1, get="nngp")
    drift = 2.0**2 * angle_drift(V).numpy()
    np.testing.assert_allclose(width * (kernel - V.numpy()), drift, atol=2e-4 * np.abs(drift).max())
    near = torch.tensor([[1.0, np.cos(2e-4)], [np.cos(2e-4), 1.0]], dtype=torch.float64)
    np.testing.assert_allclose(angle_drift(near)[0, 1], (2e-4) ** 3 / 3 / (2 * np.pi), rtol=1e-4)


def test_blocks_add_up():
    gamma = 0.6
    both = question(
        dl.layer.ShapedTransformer(gamma, temperature=2.0, c_plus=1.0, c_minus=-1.0).parts().layers[1].block
    )
    assert both.gain == pytest.approx(1.0)
    assert both.dense == pytest.approx(gamma**2 * (2 - gamma**2) + 2 * gamma**2)
    assert both.attention == pytest.approx(gamma**2 / 4) and both.first_order == pytest.approx(gamma**4 / 4)
    assert both.angle == pytest.approx(4 * gamma**2)
    wide = WeightedSkip(Dense(4 * WIDTH) >> dl.act.ShapedRelu() >> Dense(), scale=gamma)
    assert question(wide).dense == pytest.approx(gamma**2 * (2 * (1 - gamma**2) + gamma**2 * (1 + 1 / 4)))
    heads = question(WeightedSkip(Attention("shaped", heads=2) >> Dense(), scale=gamma))
    assert heads.first_order == pytest.approx(gamma**4 / 2) and heads.attention == pytest.approx(gamma**2)
    scaled = question(Dense(weight_std=2.0) >> Attention("shaped", query_std=3.0, temperature=2.0))
    assert scaled.gain == 4.0 and scaled.attention == pytest.approx(4.0**2 * (3 / 2) ** 2)
    assert question(Residual(Dense(), 0.5)) == question(WeightedSkip(Dense(), 1.0, 0.5))
    assert question(Repeat(Dense(), 3)).dense == 3.0


def test_a_step_is_the_drift_and_the_noise():
    motion = question(dl.layer.ShapedTransformer(0.8).parts().layers[1].block)
    length, samples = 1e-3, 100_000
    moved, repaired = motion.step(V.expand(samples, 3, 3), length, normals(3, samples, 2, 3, 3))
    assert relative_error(moved, 1 / length, motion.covariance(V)) < 0.02
    error = (moved.std(0) / sqrt(samples)).numpy()
    assert (np.abs(moved.mean(0) - V - length * motion.drift(V)).numpy() < 4 * error + 2 * length**2).all()
    assert not repaired.any()
