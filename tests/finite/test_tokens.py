"""Networks on the tokens of one sequence: what a Transformer is, and how sequences are sampled."""

import importlib
from math import sqrt

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional

import deeplimits as dl
from deeplimits.errors import InputError
from deeplimits.finite import build
from deeplimits.layer import Attention, Dense, Orthogonal, Repeat, ShapedTransformer, Transformer

FRONT = importlib.import_module("deeplimits.finite.sample")
WIDTH = 16
X = torch.randn(2, 5, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
TOKENS = np.random.default_rng(0).standard_normal((3, 5))


@pytest.mark.parametrize("net", [Transformer("relu", heads=4, causal=True), Transformer(norm="post", causal=True),
                                 ShapedTransformer(heads=2, causal=True)], ids=["pre", "post", "shaped"])  # fmt: skip
def test_a_causal_network_never_looks_ahead(net):
    module = build(net, WIDTH, 3, 0, features_in=WIDTH, dtype=torch.float64)
    changed = X.clone()
    changed[:, 3:] += 1.0
    before, after = module(X), module(changed)
    assert torch.allclose(after[:, :3], before[:, :3], rtol=0, atol=1e-12)
    assert not torch.allclose(after[:, 3:], before[:, 3:], rtol=0, atol=1e-3)


@pytest.mark.parametrize("norm", ["pre", "post", "none"])
def test_a_transformer_is_what_it_says(norm):
    module = build(
        Transformer("tanh", norm=norm, heads=2, bias_std=0.1), 8, 2, 0, features_in=WIDTH, dtype=torch.float64
    )

    def normal(x, place):
        return functional.layer_norm(x, x.shape[-1:], eps=0.0) if norm == place else x

    x = module.readin(X)
    for block in module.blocks:
        first, second = block.residual.branch, block.residual_2.branch
        x = normal(x + first.dense(first.attention(normal(x, "pre"))) / sqrt(2), "post")
        x = normal(x + second.dense_2(torch.tanh(second.dense(normal(x, "pre")))) / sqrt(2), "post")
    assert second.dense.weight.shape == (32, 8)
    assert torch.allclose(module(X), module.readout(normal(x, "pre")), rtol=0, atol=1e-12)


NETWORKS = {
    "softmax": Transformer("relu", heads=2, causal=True, norm="none"),
    "shaped": ShapedTransformer(branch_scale=0.6, c_plus=1.0),
    "hardmax": Dense() >> Repeat(Attention("hardmax", heads=2, step=0.5)),
    "relu-infinite": Dense() >> Repeat(Attention("relu-infinite", key_features=3)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_conditioned_sequences_have_the_law_of_built_ones(name):
    """24 tests of Kolmogorov and Smirnov at 4e-6 each: a right program fails with a chance of 1e-4."""
    net = NETWORKS[name]
    found = dl.sample(net, TOKENS, 12, 2, 1500, 5).gram
    task = FRONT.prepare(net, TOKENS, 12, 2, 300, 6, "nngp", "ntk")
    built = FRONT.collect(task, FRONT.whole_networks(task), None).gram
    for a, b in zip(*np.tril_indices(3), strict=True):
        assert stats.ks_2samp(found[:, a, b], built[:, a, b]).pvalue > 4e-6


def test_more_tokens_than_neurons_are_sampled_too():
    tokens = np.random.default_rng(1).standard_normal((9, 5))
    found = dl.sample(ShapedTransformer(), tokens, 4, 2, 400, 0)
    task = FRONT.prepare(ShapedTransformer(), tokens, 4, 2, 100, 1, "nngp", "ntk")
    built = FRONT.collect(task, FRONT.whole_networks(task), None)
    for a, b in ((0, 0), (3, 1), (8, 8)):
        assert stats.ks_2samp(found.gram[:, a, b], built.gram[:, a, b]).pvalue > 1e-5


def test_a_shaped_block_keeps_the_covariance_in_the_mean():
    """E V = V + n^-1 b after one layer of attention, of which b is of order one: far inside the error here."""
    net = Repeat(dl.layer.WeightedSkip(Attention("shaped")))
    found = dl.sample(net, TOKENS, 5, 1, 10, 0)
    assert found.gram.shape == (10, 3, 3)
    wide = dl.sample(Dense() >> net, TOKENS, 400, 1, 400, 0)
    assert (np.abs(wide.mean - TOKENS @ TOKENS.T / 5) < 4 * wide.standard_error + 10 / 400).all()


def test_a_prefix_of_the_networks_is_the_same_and_tokens_given_twice_count_twice():
    net = ShapedTransformer(heads=2)
    many = dl.sample(net, TOKENS, 8, 2, 30, 0)
    np.testing.assert_allclose(dl.sample(net, TOKENS, 8, 2, 10, 0).gram, many.gram[:10], rtol=1e-10)
    twice = np.vstack([TOKENS, TOKENS[:1]])
    found = dl.sample(Attention() >> Dense(), twice, 8, 1, 500, 0)
    np.testing.assert_allclose(found.gram[:, 0], found.gram[:, 3], rtol=1e-10, atol=1e-12)
    once = dl.sample(Attention() >> Dense(), TOKENS, 8, 1, 500, 0)
    assert stats.ks_2samp(found.gram[:, 1, 1], once.gram[:, 1, 1]).pvalue < 1e-3


def test_other_weights_are_built_whole():
    net = Attention(weights=Orthogonal()) >> Dense(1)
    found = dl.sample(net, TOKENS, 8, 1, 3, 4)
    seed = int(FRONT.generator(4, "network", 1).integers(2**63))
    module = build(net, 8, 1, seed, features_in=5, dtype=torch.float64)
    features = module[0](torch.from_numpy(TOKENS))
    np.testing.assert_allclose(found.gram[1], (features @ features.mT / 8).detach().numpy(), rtol=1e-10)


@pytest.mark.parametrize("net", [Transformer("tanh", heads=2), ShapedTransformer()], ids=["softmax", "shaped"])
def test_the_tangent_kernel_of_tokens_is_that_of_one_sequence(net):
    found = dl.sample(net, TOKENS, 8, 2, 2, 3, ("nngp", "ntk"))
    seed = int(FRONT.generator(3, "network", 0).integers(2**63))
    module = build(net, 8, 2, seed, features_in=5, dtype=torch.float64)
    rows = []
    for output in module(torch.from_numpy(TOKENS))[:, 0]:
        parts = torch.autograd.grad(output, list(module.parameters()), retain_graph=True)
        rows.append(torch.cat([part.flatten() for part in parts]))
    jacobian = torch.stack(rows)
    np.testing.assert_allclose(found.ntk[0], (jacobian @ jacobian.mT).numpy(), rtol=1e-9)


def test_the_tangent_kernel_of_single_tokens_is_refused_in_words():
    module = build(Transformer(heads=2), 8, 1, 0, features_in=5, dtype=torch.float64)
    with pytest.raises(InputError, match=r"changes with the other inputs.*X\[None\]"):
        dl.empirical_ntk(module, TOKENS)
    assert dl.empirical_ntk(module, TOKENS[None], outputs="full").shape == (1, 1, 3, 3)
