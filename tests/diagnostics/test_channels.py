"""Channels: planted pairs are found whatever their signs, and the gated linear unit misses them by the second order."""

import numpy as np
import pytest
import torch
from torch import nn

import deeplimits as dl
from deeplimits.diagnostics import channels

X = np.random.default_rng(0).standard_normal((200, 3))


def planted(step, signs=(1, 1), activation="odd", outputs=2):
    """Neurons 1 and 3 are w -+ step d with outputs c/2 +- v/(2 step), two more are far from them."""
    rng = np.random.default_rng(1)
    w, d = rng.standard_normal(3), rng.standard_normal(3)
    c, v = rng.standard_normal(outputs), rng.standard_normal(outputs)
    weights, out = rng.standard_normal((5, 3)), rng.standard_normal((outputs, 5))
    for unit, side, sign in zip((1, 3), (1, -1), signs, strict=True):
        weights[unit] = sign * (w + side * step * d)
        out[:, unit] = (c / 2 + side * v / (2 * step)) * (sign if activation == "odd" else 1)
    return weights, out, w, np.outer(v, d), c


@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, -1)])
@pytest.mark.parametrize(("phi", "parity"), [(torch.tanh, "odd"), (torch.cos, "even")])
def test_a_planted_pair_is_found_up_to_signs(signs, phi, parity):
    weights, out, w, slope, c = planted(1e-3, signs, parity)
    found = channels((weights, out), X, activation=phi)
    assert found.parity == parity
    assert found[0].units == (1, 3)
    turn, both = signs[0], signs[0] if parity == "odd" else 1
    np.testing.assert_allclose(found[0].direction, turn * w, rtol=1e-9)
    np.testing.assert_allclose(found[0].scale, both * c, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found[0].slope, turn * both * slope, rtol=1e-9, atol=1e-9)


def test_no_sign_is_turned_where_the_activation_has_none():
    weights, out, *_ = planted(1e-3, (1, -1))
    assert len(channels((weights, out), activation=nn.functional.softplus)) == 0
    assert channels((planted(1e-3)[0], out), activation=nn.functional.softplus).parity == "none"


def test_the_unit_in_place_of_the_pair_errs_by_the_square_of_their_distance():
    steps = [0.02, 0.01, 0.005]
    errors = []
    for step in steps:
        weights, out, *_ = planted(step)
        found = channels((weights, out), X, activation=torch.tanh)
        errors.append(found[0].error)
        assert found[0].difference == pytest.approx(np.linalg.norm(out[:, 1] - out[:, 3]))
        whole = np.sqrt(np.mean((np.tanh(X @ weights.T) @ out.T) ** 2))
        assert found[0].relative == pytest.approx(found[0].error / whole)
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.05)
    assert errors[1] / errors[2] == pytest.approx(4, rel=0.05)


def test_lengths_count_but_for_homogeneous_activations():
    w, a = np.array([[1.0, 0.5], [3.0, 1.501]]), np.array([1.0, -0.9])
    assert len(channels((w, a), activation=torch.tanh)) == 0
    found = channels((w, a), activation=torch.relu)
    assert found[0].difference == pytest.approx(np.hypot(1, 0.5) + 0.9 * np.hypot(3, 1.501))


def test_pairs_of_one_sign_are_no_channels():
    weights, out, *_ = planted(1e-3)
    out[:, 3] = out[:, 1]
    assert len(channels((weights, out), activation=torch.tanh)) == 0
    assert len(channels((np.zeros((2, 3)), np.array([1.0, -1.0])), activation=torch.tanh)) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_module_is_its_weights(dtype):
    weights, out, *_ = planted(1e-2)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).to(dtype)
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor(weights))
        model[1].bias.fill_(0.3)
        model[3].weight.copy_(torch.tensor(out))
    x = torch.tensor(X, dtype=dtype)
    found = channels(model, x)
    parts = (model[1].weight, model[3].weight, model[1].bias)
    same = channels(parts, x, activation=torch.tanh)
    named = channels(model, x, layers=("1", "3"), activation=torch.tanh)
    assert found[0].units == same[0].units == (1, 3)
    assert found[0].error == same[0].error == named[0].error
    assert found[0].direction.shape == (4,)  # the bias last
    assert len(channels(model)) == len(found)
    assert channels(model)[0].error is None


W, A = planted(1e-3)[:2]
TWO = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 1))


@pytest.mark.parametrize(
    ("network", "options", "words"),
    [
        ((W, A), {}, "weights without an activation"),
        ((W,), {"activation": torch.tanh}, "give a module, or weights"),
        ((W, A[:, :-1]), {"activation": torch.tanh}, r"output weights \(2, 4\) for 5 neurons"),
        ((W, A, np.ones(4)), {"activation": torch.tanh}, r"biases \(1, 4\) for 5"),
        ((np.where(W[1, 2] == W, np.inf, W), A), {"activation": torch.tanh}, r"input weights has inf at \(1, 2\)"),
        ((W, A), {"activation": "tanh"}, "activation='tanh'"),
        ((W, A), {"activation": lambda x: x.sum()}, "does not keep shapes"),
        ((W, A), {"activation": torch.tanh, "cosine": 1.0}, "cosine=1.0"),
        ((W, A), {"activation": torch.tanh, "cosine": True}, "cosine=True"),
        ((W, A), {"activation": torch.tanh, "cosine": float("nan")}, "cosine=nan"),
        ((W, A), {"activation": torch.tanh, "layers": ("0", "2")}, "beside weights"),
        ((W, A), {"activation": torch.tanh, "inputs": X[:, :2]}, r"inputs \(200, 2\)"),
        ((W, A), {"activation": torch.tanh, "inputs": X[0]}, r"inputs of shape \(3,\)"),
        (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1)), {}, "in a row"),
        (TWO, {"layers": ("2", "3")}, "no activation between"),
        (TWO, {"layers": ("0", "x")}, "no linear layer 'x'"),
        (TWO, {"layers": "0"}, "names of two"),
        (nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(5, 1)), {}, "4 neurons"),
        ("net", {}, "a str"),
    ],
)  # fmt: skip
def test_what_is_no_hidden_layer_is_refused(network, options, words):
    with pytest.raises(dl.errors.InputError, match=words):
        channels(network, **options)
