"""Attention as modules: what its matrices are, who sees whom, and that it is torch's own where they coincide."""

import copy
import warnings

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import deeplimits as dl
from deeplimits.architecture.attention import KINDS
from deeplimits.errors import DeepLimitsError
from deeplimits.finite import build
from deeplimits.finite.build.attention import Attention as Module
from deeplimits.layer import (
    DEPTH,
    Attention,
    BlockDiagonal,
    Dense,
    LayerNorm,
    Orthogonal,
    Parallel,
    Repeat,
    Residual,
    RMSNorm,
    Transformer,
)

WIDTH, TOKENS = 16, 5
CASES = [(kind, heads, causal) for kind in KINDS for heads in (1, 4) for causal in (False, True)
         if not (kind == "sinkhorn" and causal)]  # fmt: skip
ROWS_SUM_TO_ONE = [case for case in CASES if case[0] != "relu-infinite"]
X = torch.randn(2, TOKENS, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def made(layer, width=WIDTH, features_in=WIDTH, seed=0) -> Module:
    return build(layer, width, 1, seed, features_in=features_in, dtype=torch.float64)  # type: ignore[return-value]


def of(case, **options):
    kind, heads, causal = case
    return Attention(kind, heads=heads, causal=causal, **options)


def per_head(y, heads):
    return y.unflatten(-1, (heads, -1)).transpose(-3, -2)


@pytest.mark.parametrize("case", ROWS_SUM_TO_ONE, ids=str)
def test_rows_sum_to_one_and_the_future_is_hidden(case):
    matrix = made(of(case)).matrix(X)
    assert matrix.shape == (2, case[1], TOKENS, TOKENS)
    assert torch.allclose(matrix.sum(-1), torch.ones(()).double(), rtol=0, atol=1e-14)
    assert bool((matrix.triu(1) == 0).all()) == case[2]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_output_is_the_matrix_times_the_values(case):
    module = made(of(case))
    values = per_head(module.values(X), case[1])
    expected = (module.matrix(X) @ values).transpose(-3, -2).flatten(-2)
    assert torch.allclose(module(X), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", [case for case in CASES if case[2]], ids=str)
def test_hidden_tokens_get_no_gradient(case):
    module = made(of(case))
    for token in range(TOKENS):
        x = X.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(module(x)[:, token].square().sum(), x)
        assert (gradient[:, token + 1 :] == 0).all()
        if case[0] in ("softmax", "shaped"):
            assert (gradient[:, : token + 1] != 0).all()


@pytest.mark.parametrize("case", [case for case in CASES if not case[2]], ids=str)
def test_tokens_in_another_order_give_outputs_in_that_order(case):
    module, order = made(of(case)), torch.tensor([3, 0, 4, 2, 1])
    assert torch.allclose(module(X[:, order]), module(X)[:, order], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_single_token_sees_itself(case):
    module, x = made(of(case)), X[:, :1]
    matrix = module.matrix(x)
    if case[0] == "relu-infinite":
        assert ((matrix - 19.0).abs() < 1e-12).logical_or(matrix == 0).all()  # 0.95 / (1 - 0.95), or nothing positive
    else:
        assert torch.equal(matrix, torch.ones_like(matrix))
        assert torch.allclose(module(x), module.values(x), rtol=1e-14)


@pytest.mark.parametrize("causal", [False, True])
def test_softmax_is_torchs_multi_head_attention(causal):
    heads = 4
    net = Attention(heads=heads, causal=causal) >> Dense()
    module = build(net, WIDTH, 1, 3, "standard", features_in=WIDTH, dtype=torch.float64)
    theirs = torch.nn.MultiheadAttention(WIDTH, heads, bias=False, batch_first=True, dtype=torch.float64)
    own = module.attention
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([own.queries.weight, own.keys.weight, own.values.weight]))
        theirs.out_proj.weight.copy_(module.readout.weight)
    mask = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1) if causal else None
    expected, weights = theirs(X, X, X, attn_mask=mask, average_attn_weights=False)
    assert torch.allclose(module(X), expected, rtol=0, atol=1e-12)
    assert torch.allclose(own.matrix(X), weights, rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_are_right_and_reach_every_parameter(case):
    module = build(of(case), 8, 1, 1, features_in=4, dtype=torch.float64)
    x = X[0, :3, :4].clone().requires_grad_()
    if case[0] != "hardmax":
        assert torch.autograd.gradcheck(module, (x,), atol=1e-7)
    module(x).square().sum().backward()
    touched = {name for name, p in module.named_parameters() if p.grad is not None and p.grad.abs().max() > 0}
    assert touched == {"values.weight"} | (set() if case[0] == "hardmax" else {"queries.weight", "keys.weight"})


def test_second_derivatives_come_by_torchs_plain_routine():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    module = made(Attention("softmax"))
    x = X[:, :2].clone().requires_grad_()
    with sdpa_kernel(SDPBackend.MATH):
        assert torch.autograd.gradgradcheck(
            lambda y: module(torch.cat([y, X[:, 2:]], 1))[..., :2], (x[..., :],), nondet_tol=1e-9
        )


@pytest.mark.parametrize("kind", KINDS)
def test_attention_stands_anywhere_in_the_algebra(kind):
    block = Residual(LayerNorm() >> Attention(kind, heads=2, features=12) >> Dense(), DEPTH**-0.5)
    net = (
        Dense(bias_std=0.1)
        >> Repeat(block)
        >> Parallel(Attention(kind, weights=Orthogonal()), Dense(weights=BlockDiagonal(0.25)))
        >> RMSNorm()
        >> Attention(kind, weights=BlockDiagonal(0.5), key_features=3)
        >> Dense(2)
    )
    lazy = build(net, 8, 2, 5, dtype=torch.float64)
    eager = build(net, 8, 2, 5, "standard", features_in=WIDTH, dtype=torch.float64)
    expected = eager(X)
    assert expected.shape == (2, TOKENS, 2)
    copied = copy.deepcopy(lazy)
    assert torch.allclose(lazy(X), expected, rtol=0, atol=1e-11)
    assert torch.allclose(copied(X), expected, rtol=0, atol=1e-11)
    assert torch.allclose(torch.stack([lazy(x) for x in X]), expected, rtol=0, atol=1e-11)
    assert torch.allclose(build(net, 8, 2, 5)(X.float()).double(), expected, rtol=0, atol=2e-3)
    fresh = build(net, 8, 2, 6, dtype=torch.float64)
    fresh.load_state_dict(lazy.state_dict())
    assert torch.equal(fresh(X), lazy(X))
    other = build(net, 8, 2, 6, dtype=torch.float64)
    assert not torch.allclose(other(X), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_torch_compiles_and_maps_it(kind):
    module = build(Attention(kind, heads=2), 8, 1, 0, features_in=WIDTH, dtype=torch.float64)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)  # of torch's softmax attention
        whole = torch.compile(module, backend="eager", fullgraph=kind != "sinkhorn")
        assert torch.allclose(whole(X), module(X), rtol=0, atol=1e-12)
        torch.compiler.reset()
        mapped = torch.func.vmap(module)(X)
        assert torch.allclose(mapped, module(X), rtol=0, atol=1e-12)


class Largest(TorchDispatchMode):
    """Watches how many entries the largest result has."""

    entries = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        for part in found if isinstance(found, tuple) else (found,):
            if isinstance(part, torch.Tensor):
                self.entries = max(self.entries, part.numel())
        return found


@pytest.mark.parametrize("kind", ["softmax", "shaped"])
@pytest.mark.parametrize("causal", [False, True])
def test_long_sequences_need_no_square_of_their_length(kind, causal):
    tokens = 2000
    module = build(Attention(kind, heads=2, causal=causal), 8, 1, 0, features_in=8)
    x = torch.randn(tokens, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
    with Largest() as watch:
        module(x).square().sum().backward()
    assert watch.entries <= 16 * tokens
    assert x.grad is not None and x.grad.isfinite().all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: build(Transformer(heads=3), 8, 1, 0), "blocks.0.residual.branch.attention: heads=3 do not divide 8"),
        (lambda: made(Attention())(X[0, 0]), r"shape \(16,\), not \(..., tokens, features\)"),
        (lambda: build(Residual(Attention(features=4)), 8, 1, 0, features_in=8), "cannot be added"),
        (lambda: dl.kernel(Transformer(), X[0].numpy(), depth=2), r"no rule for the kernel.*dl\.sample\(net, X"),
        (lambda: dl.diffusion(Transformer(), X[0].numpy(), width=8, samples=2, seed=0), r"dl\.sample"),
    ],
)
def test_what_cannot_be_is_refused(make, words):
    with pytest.raises(DeepLimitsError, match=words):
        make()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_everything_is_made_where_the_tokens_are(case):
    module = build(of(case), 8, 1, 0, features_in=WIDTH).to("meta")
    found = module(X.to(device="meta", dtype=torch.float32))
    assert found.shape == (2, TOKENS, 8)
    assert (found.device.type, found.dtype) == ("meta", torch.float32)


@pytest.mark.parametrize("kind", ["softmax", "shaped", "sinkhorn", "relu-infinite", "hardmax"])
def test_no_tokens_are_refused(kind):
    module = dl.build(dl.layer.Attention(kind), width=8, depth=1, seed=0, features_in=8)
    with pytest.raises(DeepLimitsError, match=r"the input has shape \(0, 8\).*one or more tokens"):
        module(torch.zeros(0, 8))
