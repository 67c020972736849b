"""The pi-limit beside networks of growing width whose gradients are projected, and beside muP, which it is not."""

import numpy as np
import pytest
import torch

from deeplimits.errors import DeepLimitsError, MemoryNeeded, NoLimit
from deeplimits.limits.training.one_hidden.ask import one_hidden
from deeplimits.limits.training.one_hidden.projected import projected
from tests.limits.training.one_hidden.reference import LOSSES

RNG = np.random.default_rng(5)
X, Y = RNG.standard_normal((5, 3)), RNG.standard_normal((5, 1))
ACTIVATIONS = {"relu": torch.relu, "erf": torch.erf, "tanh": torch.tanh}


def network(found, width, seed, activation, rate, steps, decay=0.0, rows=None, loss="square", y=Y):
    """Outputs (T, P, C) of a perceptron of n neurons a layer that starts as the record did, by projected gradients.

    Weights of hidden layers are n^-1 w_out A^T phi(w_in B^T)^T; a gradient of preactivations is projected on the
    span of the w of its layer before it moves weights; the readout starts at zero and moves by plain gradient descent.
    """
    rng = np.random.default_rng(seed)
    phi, x, y = ACTIVATIONS[activation], torch.tensor(X / X.shape[1] ** 0.5), torch.tensor(y)
    bases = [torch.tensor(rng.standard_normal((width, found.first.shape[1]))) for _ in range(found.hidden_layers)]
    weights = [bases[0] @ torch.tensor(found.first).T]
    for (A, B), into, out in zip(found.initial, bases, bases[1:], strict=False):
        weights.append(out @ torch.tensor(A).T @ phi(into @ torch.tensor(B).T).T / width)
    readout, outputs = torch.zeros((width, y.shape[1]), dtype=torch.float64), []
    for step in range(steps + 1):
        hidden, a = [], x
        for w in weights:
            hidden.append((a @ w.T).requires_grad_())
            a = phi(hidden[-1])
        f = a @ readout / width
        outputs.append(f.detach().numpy())
        if step == steps:
            return np.stack(outputs)
        batch = slice(None) if rows is None else torch.tensor(rows[step])
        f.retain_grad()
        LOSSES[loss](f[batch], y[batch]).backward(inputs=[f, *hidden])
        with torch.no_grad():
            readout = (1 - rate * decay) * readout - rate * a.T @ f.grad
            before = [x, *(phi(h) for h in hidden[:-1])]
            for layer, (h, basis, went) in enumerate(zip(hidden, bases, before, strict=True)):
                onto = basis @ torch.linalg.solve(basis.T @ basis, basis.T @ h.grad.T)
                move = onto @ went * (width if layer == 0 else 1)
                weights[layer] = (1 - rate * decay) * weights[layer] - rate * move


@pytest.mark.parametrize(
    ("options", "network_options"),
    [
        ({"activation": "relu"}, {}),
        ({"activation": "erf", "hidden_layers": 2, "rank": 4, "weight_decay": 0.2}, {"decay": 0.2}),
        ({"activation": "tanh", "loss": "logistic"}, {"loss": "logistic", "y": np.sign(Y)}),
    ],
)
def test_projected_networks_tend_to_the_limit(options, network_options):
    y = network_options.get("y", Y)
    found = projected(X, y, 0.5, 10, **options)
    errors = []
    for width, networks in ((128, 12), (512, 12)):
        runs = [network(found, width, s, options["activation"], 0.5, 10, **network_options) for s in range(networks)]
        errors.append(np.sqrt(np.mean((np.stack(runs) - found.outputs) ** 2)))
    assert 1.2 < errors[0] / errors[1] < 4.0  # a root: 2; standard error about 0.2 of it
    assert errors[1] < 0.2 * np.sqrt(np.mean(found.outputs**2))
    assert found.loss[-1] < found.loss[0]


def test_it_is_not_mup():
    limit = projected(X, Y, 0.6, 40)
    mup = one_hidden(X, Y, 0.6, 40, activation="relu", readout="zero")
    apart = np.sqrt(np.mean((limit.outputs - mup.outputs) ** 2))
    assert apart > 20 * np.sqrt(np.mean(mup.outputs_error**2)) and apart > 0.03
    np.testing.assert_allclose(limit.outputs[1], mup.outputs[1], atol=6 * mup.outputs_error[1].max())


def test_a_linear_network_of_identity_kernels_is_solved_by_hand():
    found = projected([[2.0**0.5, 0.0]], [1.0], 0.5, 3, activation="identity")
    f, a, g = [], 0.0, 1.0  # f = a g on one direction: da = -rate chi g, dg = -rate chi a
    for _ in range(4):
        f.append(a * g)
        a, g = a - 0.5 * (a * g - 1) * g, g - 0.5 * (a * g - 1) * a
    np.testing.assert_allclose(found.outputs[:, 0], f, atol=1e-12)


def test_batches_take_the_rows_they_say():
    found = projected(X, Y, 0.5, 6, batch=2)
    assert found.rows.tolist() == [0, 2, 4, 6, 8, 10, 12]
    limit = projected(X, Y, 0.5, 6).rows
    assert limit.tolist() == [0, 5, 10, 15, 20, 25, 30]


def test_features_move_and_test_inputs_follow():
    found = projected(X, Y, 0.5, 30, X_test=np.concatenate([X[:1], 0 * X[:1]]), kept=3)
    np.testing.assert_allclose(found.test_outputs[:, 0], found.outputs[:, 0], atol=1e-12)
    assert not found.test_outputs[:, 1].any()
    assert found.movement[0] == 0 and found.movement[-1] > 0.05 and found.kept.tolist() == [0, 15, 30]


def test_the_memory_is_stated_and_too_much_refused():
    found = projected(X, Y, 0.5, 4)
    assert "20 rows a layer" in found.describe() and "evaluations of the kernel" in found.describe()
    with pytest.raises(MemoryNeeded, match="5000000000 rows in each of 2 layers"):
        projected(X, Y, 0.5, 10**9, hidden_layers=2)


def test_divergence_keeps_what_was_computed():
    with pytest.raises(NoLimit, match="diverges at step") as told:
        projected(20 * X, 100 * Y, 0.5, 50, batch=1)
    assert np.isfinite(told.value.record.loss).all() and len(told.value.record.loss) >= 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": Y[:3]}, r"y has shape \(3, 1\)"),
        ({"rate": 50.0}, "rate=50 is past stability"),
        ({"hidden_layers": 0}, "hidden_layers=0"),
        ({"rank": -1}, "rank=-1"),
        ({"weight_decay": -0.1}, "weight_decay=-0.1"),
        ({"weight_decay": 20.0}, "0 <= weight_decay < 1 / rate = 10"),
        ({"weight_decay": np.nan}, "weight_decay=nan"),
        ({"batch": 9}, "batch=9 exceeds"),
        ({"activation": "foo"}, "no activation named 'foo'"),
        ({"loss": "softmax"}, "at least two columns"),
    ],
)
def test_bad_input_is_refused(changes, message):
    with pytest.raises(DeepLimitsError, match=message):
        projected(**({"X": X, "y": Y, "rate": 0.1, "steps": 3} | changes))
