"""One hidden layer at infinite width beside networks trained by autograd, beside mean-field theory, and refusals."""

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.errors import DeepLimitsError, InputError, MemoryNeeded, NoLimit
from deeplimits.limits.training.one_hidden import start
from deeplimits.limits.training.one_hidden.ask import one_hidden
from deeplimits.limits.training.one_hidden.descent import descend
from deeplimits.limits.training.one_hidden.task import prepare
from deeplimits.numerics.gaussian import Linear
from tests.limits.training.one_hidden.reference import train

RNG = np.random.default_rng(7)
X, Y = RNG.standard_normal((4, 3)), RNG.standard_normal((4, 2))
SIGNS, SHARES = np.sign(Y), np.eye(2)[[0, 1, 1, 0]]


@pytest.mark.parametrize(
    ("activation", "phi", "loss", "y", "momentum", "gamma", "batch"),
    [
        ("tanh", torch.tanh, "square", Y, 0.0, 1.0, None),
        ("relu", torch.relu, "logistic", SIGNS, 0.5, 2.0, None),
        ("erf", torch.erf, "softmax", SHARES, 0.9, 0.5, 3),
    ],
)
def test_networks_of_finite_width_are_those_of_autograd(activation, phi, loss, y, momentum, gamma, batch):
    options = {"loss": loss, "momentum": momentum, "gamma": gamma, "batch": batch}
    found = one_hidden(X, y, 0.2, 12, activation=activation, width=40, networks=2, seed=3, X_test=X[:1] * 2, **options)
    task = prepare("here", X, y, X[:1] * 2, loss, 0.2, 12, momentum, gamma, batch, 0, 3)
    weights = start.drawn(40, 3, 2, 2, 3)
    for k in range(2):
        expected = train(
            weights.U[k] @ task.basis.T, weights.V[k], X, y, phi, loss, 0.2, 12, momentum, gamma, task.batches
        )
        np.testing.assert_allclose(found.runs[k], expected, rtol=0, atol=1e-12)
    assert found.course.test_outputs.shape == (2, 13, 1, 2)


def test_a_linear_network_trains_as_the_root_of_its_gram():
    task = prepare("here", X, Y, None, "square", 0.3, 20, 0.9, 1.0, None, 0, 0)
    wide = start.drawn(200, 3, 2, 1, 5)
    root = np.linalg.qr(np.concatenate([wide.U[0], wide.V[0]], axis=1), mode="r")[None]
    narrow = descend(task, start.Neurons(root[..., :3], root[..., 3:], wide.weight), Linear(), lambda _: None)
    expected = train(wide.U[0] @ task.basis.T, wide.V[0], X, Y, lambda h: h, "square", 0.3, 20, 0.9)
    np.testing.assert_allclose(narrow.outputs[0], expected, rtol=0, atol=1e-12)


def test_drawn_roots_have_the_law_of_grams():
    grams = {draw: draw(9, 2, 1, 1500, 0).gram for draw in (start.drawn, start.linear_drawn)}
    for gram in grams.values():
        upper = gram[:, *np.triu_indices(3)]
        mean, variance = np.array([1, 0, 0, 1, 0, 1]), np.array([2, 1, 1, 2, 1, 2]) / 9
        assert np.all(np.abs(upper.mean(0) - mean) < 5 * np.sqrt(variance / 1500))
        np.testing.assert_allclose(upper.var(0), variance, rtol=0.25)
    assert np.linalg.matrix_rank(start.linear_drawn(2, 2, 1, 1, 0).gram[0]) == 2


@pytest.mark.parametrize("gamma", [1.0, 2.0])
def test_the_exact_limit_is_that_of_mean_field_theory(gamma):
    found = one_hidden(X, Y, 0.2, 15, gamma=gamma, kept=16, X_test=X[::-1] * 0.5)
    field = dl.mean_field(dl.Mlp("identity"), X, Y, depth=1, gamma=gamma, rate=0.2, steps=15, X_test=X[::-1] * 0.5)
    np.testing.assert_allclose(found.outputs, field.outputs, atol=1e-9)
    np.testing.assert_allclose(found.test_outputs, field.test_outputs, atol=1e-9)
    times = np.arange(16)
    np.testing.assert_allclose(found.features, field.features[0][times, times], atol=1e-9)
    np.testing.assert_allclose(found.kernel, field.kernel[times, times], atol=1e-9)
    assert not found.outputs_error.any()


def test_the_error_of_a_finite_width_falls_as_its_root():
    limit = one_hidden(X, Y, 0.2, 15, kept=0)
    errors = []
    for width in (64, 1024, 16384):
        networks = one_hidden(X, Y, 0.2, 15, width=width, networks=1000, kept=0)
        errors.append(np.sqrt(width * np.mean((networks.runs - limit.runs) ** 2)))
    assert max(errors) / min(errors) < 1.1


@pytest.mark.parametrize("sampling", ["sobol", "plain"])
def test_particles_agree_with_networks_of_large_width(sampling):
    found = one_hidden(X, Y, 0.2, 15, activation="tanh", sampling=sampling)
    networks = one_hidden(X, Y, 0.2, 15, activation="tanh", width=1000, networks=30, seed=1)
    spread = np.sqrt(found.outputs_error**2 + networks.outputs_error**2)
    assert np.abs(found.outputs[0]).max() < 1e-15
    bias = np.abs(found.outputs_bias).max() * 8192 / 1000
    assert np.all(np.abs(found.outputs - networks.outputs)[1:] < 6 * spread[1:] + bias)
    assert found.outputs_error[-1].max() < (0.003 if sampling == "sobol" else 0.02)


def test_quasi_random_particles_are_more_accurate():
    errors = [
        np.sqrt(np.mean(one_hidden(X, Y, 0.2, 15, activation="tanh", sampling=s, kept=0).outputs_error ** 2))
        for s in ("sobol", "plain")
    ]
    assert errors[0] < 0.6 * errors[1]


def test_standard_error_and_bias_cover_the_error_of_particles():
    options = {"activation": "tanh", "gamma": 3.0, "kept": 0}
    best = one_hidden(X, Y, 0.2, 20, samples=2**14, **options)
    found = [one_hidden(X, Y, 0.2, 20, samples=512, seed=seed, **options) for seed in range(10, 26)]
    gap = np.stack([one.outputs - best.outputs for one in found])
    told = np.stack([one.outputs_error**2 + one.outputs_bias**2 for one in found]) + best.outputs_error**2
    assert 0.5 < np.sqrt(np.mean(gap**2) / np.mean(told)) < 1.5


def test_training_stays_in_the_span_of_the_inputs():
    turn = np.linalg.qr(RNG.standard_normal((60, 60)))[0][:, :3] * 20**0.5
    few, many = (one_hidden(x, Y, 0.2, 15, X_test=2 * x) for x in (X, X @ turn.T))
    assert many.basis.shape == (60, 3)
    np.testing.assert_allclose(few.outputs, many.outputs, atol=1e-12)
    np.testing.assert_allclose(few.test_outputs, many.test_outputs, atol=1e-12)


def test_inputs_outside_the_span_of_training_start_and_stay_at_zero():
    found = one_hidden([[1.0, 0.0]], [1.0], 0.2, 30, X_test=[[0.0, 1.0], [1.0, 0.0]])
    assert np.abs(found.test_outputs[:, 0]).max() == 0
    np.testing.assert_allclose(found.test_outputs[:, 1], found.outputs[:, 0])


def test_degenerate_inputs_are_answered():
    twice = one_hidden([[1, 2], [1, 2], [0, 0]], [1, 1, 0], 0.1, 10)
    np.testing.assert_array_equal(twice.outputs[:, 0], twice.outputs[:, 1])
    assert not twice.outputs[:, 2].any()
    assert one_hidden(np.zeros((1, 2)), [1.0], 0.1, 3).outputs.tolist() == [[0.0]] * 4
    assert one_hidden(np.zeros((1, 2)), [1.0], 0.1, 40, activation="sigmoid", samples=64).outputs[-1, 0] > 0.5


def test_other_kinds_of_arrays_are_read():
    plain = one_hidden(X.round(), Y[:, 0], 0.1, 5).outputs
    for x, y in ((X.round().astype(int), Y[:, 0]), (torch.tensor(X.round()), torch.tensor(Y[:, 0]))):
        np.testing.assert_array_equal(one_hidden(x, y, 0.1, 5).outputs, plain)
    assert one_hidden(X, Y[:, :1], 0.1, 5).outputs.shape == (6, 4, 1)


def test_a_zero_readout_needs_only_the_neurons_of_the_inputs():
    found = one_hidden(X, Y, 0.2, 15, readout="zero", kept=0)
    networks = one_hidden(X, Y, 0.2, 15, readout="zero", width=10**8, networks=3)
    assert found.neurons.U.shape == (1, 3, 3)
    np.testing.assert_allclose(networks.runs, np.broadcast_to(found.runs, networks.runs.shape), atol=2e-3)


def test_the_largest_stable_rate_is_told_and_holds():
    x, y = np.eye(2)[:1] * 2**0.5, [1.0]  # NTK = 2: rates below 1
    with pytest.raises(InputError, match=r"rate=1\.01 .* below 1 = 2 / "):
        one_hidden(x, y, 1.01, 5)
    assert np.all(np.isfinite(one_hidden(x, y, 0.99, 5).loss))
    with pytest.raises(InputError, match=r"below 1\.5 = 2 \(1 \+ momentum\)"):
        one_hidden(x, y, 1.6, 5, momentum=0.5)
    with pytest.raises(InputError, match="below 2 = "):
        one_hidden(x, y, 2.1, 5, readout="zero")


def test_divergence_keeps_what_was_computed():
    with pytest.raises(NoLimit, match="diverges at step") as told:
        one_hidden(X * 9, Y * 50, 0.9, 100, batch=2)
    record = told.value.record
    assert np.isfinite(record.loss).all() and 1 <= len(record.loss) < 100
    assert len(record.kept) == len(record.features) and (record.kept < len(record.loss)).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": [[np.nan, 1.0]] * 4}, "X has nan at row 0"),
        ({"X": [1.0, 2.0]}, "not .N, d."),
        ({"X": X * 1e200}, r"X has an entry of size .*e\+200: squares of it"),
        ({"y": Y * 1e200}, "y .* squares"),
        ({"y": Y[:3]}, r"y has shape \(3, 2\)"),
        ({"y": Y[:, :, None]}, r"y has shape \(4, 2, 1\)"),
        ({"y": ["a"] * 4}, "y has dtype"),
        ({"rate": 0.0}, "rate=0.0"),
        ({"rate": True}, "rate=True"),
        ({"rate": np.inf}, "rate=inf"),
        ({"steps": 0}, "steps=0"),
        ({"steps": 2.5}, "steps=2.5"),
        ({"momentum": 1.0}, "momentum=1.0"),
        ({"gamma": 0}, "dl.gradient_flow"),
        ({"gamma": -1.0}, "gamma=-1.0"),
        ({"batch": 5}, "batch=5 exceeds the 4 rows"),
        ({"loss": "sqare"}, "did you mean 'square'"),
        ({"loss": "logistic"}, "reads -1 and 1"),
        ({"loss": "softmax"}, "not probabilities"),
        ({"loss": "softmax", "y": Y[:, :1]}, "at least two columns"),
        ({"activation": "rleu"}, "did you mean 'relu'"),
        ({"activation": dl.act.ShapedRelu()}, "another function at every width"),
        ({"readout": "small"}, "use one of normal, zero"),
        ({"width": 0}, "width=0"),
        ({"networks": 3}, "no effect at infinite width"),
        ({"samples": 64}, "nothing is sampled"),
        ({"samples": 64, "width": 10}, "has no effect"),
        ({"samples": 48, "activation": "tanh"}, "16 times a power of two"),
        ({"sampling": "halton", "activation": "tanh"}, "use one of sobol, plain"),
        ({"seed": -1}, "seed: -1"),
        ({"kept": -1}, "kept=-1"),
        ({"X_test": [[1.0]]}, "X has 3 columns and X_test has 1"),
    ],
)
def test_bad_input_is_refused(changes, message):
    arguments = {"X": X, "y": Y, "rate": 0.1, "steps": 3} | changes
    with pytest.raises(DeepLimitsError, match=message):
        one_hidden(**arguments)


def test_too_much_memory_is_refused_first():
    with pytest.raises(MemoryNeeded, match="4 inputs over 1000000000000 steps"):
        one_hidden(X, Y, 0.1, 10**12)
