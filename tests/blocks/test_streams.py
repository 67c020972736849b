"""Hyper-connections, the delta rule and the block that takes from both: their invariants."""

import pytest
import torch
from torch import nn

from deeplimits.blocks import DeepDelta, HyperConnections, ManifoldGeometric, delta, doubly_stochastic
from deeplimits.errors import AccuracyWarning, InputError

WIDTH = 16


def test_doubly_stochastic_maps_have_norm_one_and_so_have_their_products():
    product = torch.eye(4, dtype=torch.float64)
    for _ in range(64):
        matrix = doubly_stochastic(torch.randn(4, 4, dtype=torch.float64), tolerance=0.01)
        assert torch.linalg.matrix_norm(matrix, 2) == pytest.approx(1.0, abs=1e-2)
        product = matrix @ product
    torch.testing.assert_close(product.sum(-1), torch.ones(4, dtype=torch.float64))
    torch.testing.assert_close(product.sum(-2), torch.ones(4, dtype=torch.float64), atol=1e-2, rtol=0)
    assert (product - 0.25).abs().max() < 1e-2  # streams become equal


def test_one_stream_is_an_identity():
    assert doubly_stochastic(torch.randn(5, 1, 1)).tolist() == [[[1.0]]] * 5


def test_what_did_not_converge_says_so():
    with pytest.warns(AccuracyWarning, match="column sums are within .* of 1 after 1 iterations"):
        doubly_stochastic(6 * torch.randn(8, 8), iterations=1)


@pytest.mark.parametrize(
    ("logits", "iterations", "words"),
    [
        (torch.zeros(2, 3), 20, r"\(2, 3\)"),
        (torch.full((2, 2), torch.nan), 20, "NaN"),
        (torch.zeros(2, 2), 0, "iterations=0"),
    ],
)
def test_sinkhorn_refuses(logits, iterations, words):
    with pytest.raises(InputError, match=words):
        doubly_stochastic(logits, iterations)


def test_skips_keep_the_mean_of_the_streams():
    """Without its branch a block keeps the mean; starting near the identity it keeps the streams too."""
    block = HyperConnections(nn.Linear(WIDTH, WIDTH), WIDTH, streams=4).double()
    nn.init.zeros_(block.branch.weight), nn.init.zeros_(block.branch.bias)
    X = torch.randn(3, 4, WIDTH, dtype=torch.float64)
    torch.testing.assert_close(HyperConnections.merge(block(X)), HyperConnections.merge(X), atol=5e-3, rtol=0)
    torch.testing.assert_close(block(X), X, atol=5e-3, rtol=0)


def test_update_is_that_of_the_formula():
    block = HyperConnections(nn.Linear(WIDTH, WIDTH), WIDTH, streams=3, gate=1.0, diagonal=1.0)
    X = torch.randn(2, 3, WIDTH)
    pre, post, mixing = block.maps(X, tolerance=0.1)
    assert bool((pre > 0).all()) and bool((post > 0).all()) and bool((post < 2).all())
    for one, H_pre, H_post, H_res, after in zip(X, pre, post, mixing, block(X), strict=True):
        branch = block.branch(H_pre[None] @ one)
        torch.testing.assert_close(after, H_res @ one + H_post[:, None] @ branch, atol=1e-5, rtol=1e-5)


def test_streams_of_another_number_are_refused():
    block = HyperConnections(nn.Identity(), WIDTH, streams=4)
    with pytest.raises(InputError, match=r"shape \(2, 16\)"):
        block(torch.randn(2, WIDTH))
    with pytest.raises(InputError, match="streams=0"):
        HyperConnections(nn.Identity(), WIDTH, streams=0)


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 2.0])
def test_delta_rule(beta):
    X, v = torch.randn(7, 3, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    k = nn.functional.normalize(torch.randn(7, dtype=torch.float64), dim=0)
    after = delta(X, k, v, beta)
    torch.testing.assert_close(k @ after, (1 - beta) * k @ X + beta * v, atol=1e-14, rtol=0)
    operator = delta(torch.eye(7, dtype=torch.float64), k, torch.zeros(7, dtype=torch.float64), beta)
    eigenvalues = torch.linalg.eigvalsh(operator)
    expected = torch.tensor([1 - beta, *[1.0] * 6], dtype=torch.float64)
    torch.testing.assert_close(eigenvalues, expected.sort().values, atol=1e-14, rtol=0)
    assert torch.linalg.det(operator) == pytest.approx(1 - beta, abs=1e-14)


@pytest.mark.parametrize(("values", "shape"), [(1, (5, WIDTH)), (1, (5, WIDTH, 1)), (4, (5, WIDTH, 4))])
def test_block_keeps_the_delta_rule(values, shape):
    block = DeepDelta(nn.Linear(WIDTH, WIDTH), WIDTH, values, beta=0.7).double()
    X = torch.randn(shape, dtype=torch.float64)
    state = X.reshape(5, WIDTH, values)
    k, v, beta = block.parts(state)
    torch.testing.assert_close(k.norm(dim=-1), torch.ones(5, dtype=torch.float64))
    torch.testing.assert_close(beta, torch.full((5,), 0.7, dtype=torch.float64), atol=1e-6, rtol=0)
    after = block(X)
    assert after.shape == X.shape
    read = torch.einsum("bd,bdv->bv", k, after.reshape(5, WIDTH, values))
    before = torch.einsum("bd,bdv->bv", k, state)
    torch.testing.assert_close(read, (1 - beta)[:, None] * before + beta[:, None] * v, atol=1e-12, rtol=0)


def test_delta_blocks_refuse():
    with pytest.raises(InputError, match="beta=2"):
        DeepDelta(nn.Identity(), WIDTH, beta=2)
    with pytest.raises(InputError, match=r"shape \(5, 16\)"):
        DeepDelta(nn.Identity(), WIDTH, values=4)(torch.randn(5, WIDTH))


def test_mgt_erases_along_its_update():
    block = ManifoldGeometric(nn.Linear(WIDTH, WIDTH), WIDTH, alpha=0.8).double()
    x = torch.randn(5, WIDTH, dtype=torch.float64)
    v, beta = block.parts(x)
    u, size = nn.functional.normalize(v, dim=-1), v.norm(dim=-1, keepdim=True)
    read = lambda state: (u * state).sum(-1, keepdim=True)
    torch.testing.assert_close(read(block(x)), (1 - 0.8 * beta) * read(x) + beta * size, atol=1e-12, rtol=0)


def test_mgt_read_literally_is_a_moving_average():
    block = ManifoldGeometric(nn.Linear(WIDTH, WIDTH), WIDTH, projection="state")
    x = torch.randn(5, WIDTH)
    v, beta = block.parts(x)
    torch.testing.assert_close(block(x), (1 - beta) * x + beta * v)


def test_mgt_without_gate_and_erasing_is_a_residual_block():
    block = ManifoldGeometric(nn.Linear(WIDTH, WIDTH), WIDTH, gated=False, alpha=0.0, beta=0.5)
    nn.init.zeros_(block.size.weight)
    x = torch.randn(5, WIDTH)
    torch.testing.assert_close(block(x), x + 0.5 * block.branch(x))


@pytest.mark.parametrize(("options", "words"), [({"projection": "x"}, "projection='x'"), ({"beta": 1.0}, "beta=1.0")])
def test_mgt_refuses(options, words):
    with pytest.raises(InputError, match=words):
        ManifoldGeometric(nn.Identity(), WIDTH, **options)
