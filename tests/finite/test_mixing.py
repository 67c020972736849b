"""What each kind of attention is: the formulas of theory, on matrices."""

from math import sqrt

import numpy as np
import pytest
import torch
from torch.nn import functional

from deeplimits.errors import ConvergenceWarning, InputError
from deeplimits.finite import build
from deeplimits.finite.build.attention import Attention as Module
from deeplimits.finite.build.mixing import MATRICES, rectified
from deeplimits.layer import Attention

WIDTH, TOKENS = 16, 5
X = torch.randn(2, TOKENS, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def made(layer, width=WIDTH, features_in=WIDTH) -> Module:
    return build(layer, width, 1, 0, features_in=features_in, dtype=torch.float64)  # type: ignore[return-value]


def test_temperature_scales_the_logits():
    module = made(Attention(temperature=0.3, heads=2))
    dense = (module.queries, module.keys, module.values)
    q, k, v = (part(X).unflatten(-1, (2, -1)).transpose(-3, -2) for part in dense)
    expected = functional.scaled_dot_product_attention(q, k, v, scale=1 / (0.3 * sqrt(8)))
    assert torch.allclose(module(X), expected.transpose(-3, -2).flatten(-2), rtol=0, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_shaped_is_the_identity_and_a_centred_softmax(causal):
    shaped = made(Attention("shaped", causal=causal, temperature=0.7)).matrix(X)
    soft = made(Attention("softmax", causal=causal, temperature=0.7 * sqrt(WIDTH))).matrix(X)
    seen = torch.ones(TOKENS, TOKENS).tril() if causal else torch.ones(TOKENS, TOKENS)
    expected = torch.eye(TOKENS) + soft - seen.double() / seen.sum(-1, keepdim=True)
    assert torch.allclose(shaped, expected, rtol=0, atol=1e-14)


def test_shaped_is_off_the_identity_by_the_law_of_theory():
    """n tau_0^2 E (A - I)_ad^2 = V^aa (V^dd - 2 V^d. + V^..) / m^2 as n grows, at any number of key features."""
    n, tau, draws = 400, 0.8, 1500
    x = torch.randn(3, n, generator=torch.Generator().manual_seed(2), dtype=torch.float64) + torch.tensor(
        [[0.0], [1], [2]]
    )
    layer = Attention("shaped", temperature=tau, value_std=None, key_features=4)
    generator = torch.Generator().manual_seed(3)
    shape = (draws, 4, n)
    q, k = (x @ torch.randn(shape, generator=generator, dtype=torch.float64).mT / sqrt(n) for _ in range(2))
    found = (n * tau**2 * (MATRICES["shaped"](layer, q, k, n) - torch.eye(3).double()) ** 2).numpy()
    V = (x @ x.T / n).numpy()
    expected = np.diag(V)[:, None] * (np.diag(V) - 2 * V.mean(1) + V.mean())[None] / 9
    error = found.std(0) / sqrt(draws)
    assert (np.abs(found.mean(0) - expected) < 4 * error + expected / sqrt(n)).all()


def test_sinkhorn_is_doubly_stochastic_and_blind_to_marginals():
    layer = Attention("sinkhorn", tolerance=1e-12, iterations=2000)
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 3, 8, 4, generator=generator, dtype=torch.float64)
    found = MATRICES["sinkhorn"](layer, q, k, 4)
    assert torch.allclose(found.sum(-1), torch.ones(()).double(), rtol=0, atol=1e-14)
    assert torch.allclose(found.sum(-2), torch.ones(()).double(), rtol=0, atol=1e-12)
    shift = torch.randn(8, 4, generator=generator, dtype=torch.float64)
    moved = MATRICES["sinkhorn"](layer, q, k + shift[:1], 4)  # adds <q_i, shift> to row i
    assert torch.allclose(moved, found, rtol=0, atol=1e-11)


def test_sinkhorn_survives_logits_that_overflow():
    q = 40 * torch.eye(4, dtype=torch.float64)
    found = MATRICES["sinkhorn"](Attention("sinkhorn"), q, q, 4)
    assert torch.allclose(found, torch.eye(4).double(), rtol=0, atol=1e-12)


def test_sinkhorn_that_did_not_converge_tells_its_residual_and_keeps_what_it_has():
    q, k = 3 * torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    plain = (q @ k.mT / 2).softmax(-1)
    for _ in range(2):
        plain = plain / plain.sum(-2, keepdim=True)
        plain = plain / plain.sum(-1, keepdim=True)
    residual = float((plain.sum(-2) - 1).abs().max())
    with pytest.warns(ConvergenceWarning, match=f"after 2 rounds column sums are off by {residual:.2g}"):
        found = MATRICES["sinkhorn"](Attention("sinkhorn", iterations=2), q, k, 4)
    assert torch.allclose(found, plain, rtol=1e-12, atol=1e-15)


def test_every_matrix_of_a_batch_stops_by_itself():
    layer = Attention("sinkhorn", tolerance=1e-3)
    q, k = torch.randn(2, 6, 8, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    together = MATRICES["sinkhorn"](layer, q, k, 4)
    assert torch.allclose(together[2], MATRICES["sinkhorn"](layer, q[2], k[2], 4), rtol=0, atol=1e-15)


@pytest.mark.parametrize("causal", [False, True])
def test_the_infinite_series_is_the_solution_and_its_error_falls_by_the_spectral_radius(causal):
    q, k = torch.randn(2, 12, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    discount = 0.9
    exact = MATRICES["relu-infinite"](Attention("relu-infinite", discount=discount, causal=causal), q, k, 3)
    step = rectified(Attention("relu-infinite", causal=causal), q, k)
    assert torch.allclose(exact, torch.linalg.inv(torch.eye(12).double() - discount * step) - torch.eye(12), atol=1e-12)
    errors = []
    for terms in range(1, 41):
        layer = Attention("relu-infinite", discount=discount, causal=causal, terms=terms)
        errors.append(float(torch.linalg.matrix_norm(MATRICES["relu-infinite"](layer, q, k, 3) - exact)))
        assert causal or errors[-1] <= discount ** (terms + 1) / (1 - discount)
    radius = float(torch.linalg.eigvals(step).abs().max())
    assert radius < 1 + 1e-12
    late = 20  # rounding of the exact solution stays far below the error of that many terms
    assert errors[late] / errors[late - 1] == pytest.approx(discount * radius, rel=1e-2 if not causal else 0.2)


def test_a_discount_up_to_the_spectral_radius_is_solved_and_beyond_refused():
    q, k = torch.randn(2, 12, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    step = rectified(Attention("relu-infinite"), q, k)
    radius = float(torch.linalg.eigvals(step).abs().max())
    layer = Attention("relu-infinite", discount=0.99 / radius)
    found = MATRICES["relu-infinite"](layer, q, k, 3)
    assert layer.discount > 1
    assert (found >= 0).all()
    for discount in (1.01 / radius, 5 / radius):
        with pytest.raises(InputError, match="not below 1 / spectral radius"):
            MATRICES["relu-infinite"](Attention("relu-infinite", discount=discount), q, k, 3)
    assert MATRICES["relu-infinite"](Attention("relu-infinite", discount=2 / radius, terms=3), q, k, 3).isfinite().all()


def test_hardmax_is_softmax_at_temperature_zero():
    for causal in (False, True):
        hard = made(Attention("hardmax", causal=causal)).matrix(X)
        soft = made(Attention("softmax", causal=causal, temperature=1e-6)).matrix(X)
        assert torch.allclose(hard, soft, rtol=0, atol=1e-12)


def test_hardmax_without_matrices_is_the_frank_wolfe_step_and_ties_share():
    a = 0.5
    x = torch.tensor([[2.0, 0], [0, 2], [-2, 0], [0, -2], [0.5, 0.5], [0.2, -0.1]], dtype=torch.float64)
    module = made(
        Attention("hardmax", query_std=None, key_std=None, value_std=None, step=a / (1 + a), tolerance=1e-12), 2, 2
    )
    assert list(module.parameters()) == []
    leaders = [[0], [1], [2], [3], [0, 1], [0]]
    expected = torch.stack([x[i] + a / (1 + a) * (x[c] - x[i]).mean(0) for i, c in enumerate(leaders)])
    assert torch.allclose(module(x), expected, rtol=0, atol=1e-15)
    end = torch.cat([x[:4], torch.tensor([[1.0, 1.0], [2.0, 0.0]]).double()])  # vertices stay, the others go straight
    distance = x - end
    for _ in range(20):
        x = module(x)
    assert torch.allclose(x - end, distance * (1 / (1 + a)) ** 20, rtol=1e-9, atol=1e-13)
