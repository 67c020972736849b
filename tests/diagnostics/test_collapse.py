"""Neural collapse: exact at a simplex, as defined elsewhere, blind to scale and rotation, and refused by name."""

import numpy as np
import pytest
import torch
from torch import nn

import deeplimits as dl
from deeplimits.diagnostics import neural_collapse, neural_collapse_of


def cloud(seed=0, classes=4, members=6, width=7, noise=0.5):
    rng = np.random.default_rng(seed)
    labels = np.tile(np.arange(classes), members)
    return 3 + rng.standard_normal((classes, width))[labels] + noise * rng.standard_normal((len(labels), width)), labels


def by_definition(x, y, w, b):
    classes = np.unique(y)
    means = np.stack([x[y == c].mean(0) for c in classes])
    m = means - means.mean(0)
    within = sum(np.cov(x[y == c].T, bias=True) for c in classes) / len(classes)
    between = m.T @ m / len(classes)
    cosines = np.array(
        [
            m[i] @ m[j] / np.linalg.norm(m[i]) / np.linalg.norm(m[j])
            for i, j in zip(*np.triu_indices(len(m), 1), strict=True)
        ]
    )
    sizes = np.linalg.norm(m, axis=1)
    nearest = np.linalg.norm(x[:, None] - means, axis=2).argmin(1)
    return {
        "variability": np.trace(within @ np.linalg.pinv(between, rcond=1e-10)) / len(classes),
        "trace_ratio": np.trace(within) / np.trace(between),
        "norm_spread": sizes.std() / sizes.mean(),
        "cosine_spread": cosines.std(),
        "simplex": np.abs(cosines + 1 / (len(m) - 1)).mean(),
        "duality": np.linalg.norm(w / np.linalg.norm(w) - m / np.linalg.norm(m)),
        "disagreement": np.mean((x @ w.T + b).argmax(1) != nearest),
    }


@pytest.mark.parametrize("classes", [2, 4])
def test_measures_are_their_definitions(classes):
    x, y = cloud(classes=classes)
    w, b = np.random.default_rng(1).standard_normal((classes, 7)), np.arange(classes) / 3
    found = neural_collapse(x, y, w, b)
    for name, value in by_definition(x, y, w, b).items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-9, abs=1e-12), name
    assert found.rank == classes - 1
    assert 0 < found.disagreement < 1


def test_classes_count_alike_whatever_their_sizes():
    x, y = cloud()
    twice = neural_collapse(np.vstack([x, x[y == 1]]), np.concatenate([y, y[y == 1]]))
    once = neural_collapse(x, y)
    assert twice.counts == (6, 12, 6, 6)
    assert (twice.variability, twice.trace_ratio) == pytest.approx((once.variability, once.trace_ratio), rel=1e-12)


def test_scale_and_shift_change_nothing():
    x, y = cloud()
    one = neural_collapse(x, y)
    for other in (1e200 * x, 1e-200 * x, x - 100):
        found = neural_collapse(other, y)
        assert (found.variability, found.simplex) == pytest.approx((one.variability, one.simplex), rel=1e-9)


def test_a_trained_model_of_free_features_collapses():
    """Free features and weights under cross-entropy with decay end at the simplex."""
    stream = torch.Generator().manual_seed(0)
    h = torch.randn(12, 5, generator=stream, dtype=torch.float64, requires_grad=True)
    w = torch.randn(3, 5, generator=stream, dtype=torch.float64, requires_grad=True)
    y = torch.arange(12) % 3
    optimizer = torch.optim.LBFGS(
        [h, w], max_iter=300, tolerance_grad=1e-12, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def loss():
        optimizer.zero_grad()
        value = nn.functional.cross_entropy(h @ w.T, y) + 5e-3 * (w.square().sum() + h.square().sum() / 4)
        value.backward()
        return value

    optimizer.step(loss)
    found = neural_collapse(h, y, w)
    assert max(found.variability, found.norm_spread, found.simplex, found.duality, found.disagreement) < 1e-4


def test_a_module_is_read_at_its_last_linear_layer_or_where_asked():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(7, 9), nn.Dropout(0.5), nn.ReLU(), nn.Linear(9, 4))
    x, y = cloud()
    x = torch.tensor(x, dtype=torch.float32)
    with torch.no_grad():
        h = torch.relu(model[0](x))
    expected = neural_collapse(h, y, model[3].weight, model[3].bias)
    found = neural_collapse_of(model, x, torch.tensor(y)[:, None])
    assert found.variability == pytest.approx(expected.variability, rel=1e-12)
    assert (found.duality, found.disagreement) == (expected.duality, expected.disagreement)
    assert model.training
    assert not model[3]._forward_pre_hooks
    first = neural_collapse_of(model, x, y, layer="0")
    assert first.variability == pytest.approx(neural_collapse(x, y).variability, rel=1e-12)
    assert first.duality is None


@pytest.mark.parametrize("kind", [torch.tensor, np.array, lambda values: values.tolist()])
def test_kinds_of_input(kind):
    x, y = cloud()
    assert neural_collapse(kind(x), kind(y)).variability == pytest.approx(neural_collapse(x, y).variability, rel=1e-12)
    whole = np.round(10 * x).astype(int)
    assert neural_collapse(kind(whole), kind(y)) == neural_collapse(whole.astype(float), y.astype(float))


X, Y = cloud()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((X, np.where(np.arange(24) == 5, 9, Y)), "class 9 has one member"),
        ((X, 0 * Y), r"1 class\(es\)"),
        ((X, Y[:-1]), r"labels of shape \(23,\) for 24"),
        ((X, np.eye(4)[Y]), r"labels of shape \(24, 4\).*argmax"),
        ((X, Y + 0.5), "whole numbers"),
        ((X, np.where(Y == 1, np.nan, Y)), "nan"),
        ((X, [str(label) for label in Y]), "whole numbers"),
        ((X[0], Y), r"features of shape \(7,\)"),
        ((X[:0], Y[:0]), r"shape \(0, 7\)"),
        ((np.where(X[3, 2] == X, np.nan, X), Y), r"features has nan at \(3, 2\)"),
        ((X > 0, Y), "dtype bool"),
        ((1j * X, Y), "dtype complex"),
        ((np.ones_like(X), Y), "means of all classes coincide"),
        ((np.array([[-1.0], [1.0], [0.0]] * 2), [0, 1, 2] * 2), "mean of class 2 is the mean of all"),
        ((X, Y, np.ones((3, 7))), "one row for each class"),
        ((X, Y, np.zeros((4, 7))), "weights are all 0"),
        ((X, Y + 1, np.ones((4, 7))), "number classes 0, 1"),
        ((X, Y, None, np.ones(4)), "a bias without weights"),
        ((X, Y, np.ones((4, 7)), np.ones(3)), "bias"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused(arguments, words):
    with pytest.raises(dl.errors.InputError, match=words):
        neural_collapse(*arguments)


@pytest.mark.parametrize("rcond", [0, 1, -1.0, float("nan"), "x", None, True])
def test_a_bad_rcond_is_refused(rcond):
    with pytest.raises(dl.errors.InputError, match="rcond"):
        neural_collapse(X, Y, rcond=rcond)


@pytest.mark.parametrize(
    ("model", "layer", "words"),
    [
        (nn.ReLU(), None, "is not called"),
        (nn.Linear(7, 4), "1", "no module '1'"),
        (lambda x: x, None, "no torch.nn.Module"),
        (nn.Sequential(nn.Unflatten(1, (7, 1)), nn.Linear(1, 4)), None, r"reads \(24, 7, 1\)"),
    ],
)
def test_a_model_without_features_is_refused(model, layer, words):
    with pytest.raises(dl.errors.InputError, match=words):
        neural_collapse_of(model, torch.tensor(X, dtype=torch.float32), Y, layer)


def test_a_layer_called_twice_is_refused():
    shared = nn.Linear(7, 7)
    with pytest.raises(dl.errors.InputError, match="called 2 times"):
        neural_collapse_of(nn.Sequential(shared, nn.ReLU(), shared), torch.tensor(X, dtype=torch.float32), Y)
