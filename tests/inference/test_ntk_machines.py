"""NTKSVC and NTKSVR: machines of the kernel, one against the rest, certified; what cannot be is told."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import make_blobs

import deeplimits as dl
from deeplimits.errors import ConvergenceWarning, DescriptionError, InputError
from tests.inference.problems import DEPTH, NET, NEW, OUTPUTS, X, Y

SVC, SVR = dl.learn.NTKSVC, dl.learn.NTKSVR
WORDS = np.where(Y > 0, "up", "down")
ONE = dl.Mlp("relu", weight_std=1.2, readout_std=0.9)


@pytest.mark.parametrize("kind", ["ntk", "nngp"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_two_classes_are_one_machine(kind, loss):
    model = SVC(NET, DEPTH, kind, loss, C=3.0, tol=1e-12).fit(X, WORDS)
    signs = np.where(WORDS == "up", 1.0, -1.0)
    machine = dl.training.kernel_machine(dl.kernel(NET, X, depth=DEPTH, get=kind), signs, loss, 3.0, tol=1e-12)
    expected = machine.predict(dl.kernel(NET, NEW, X, depth=DEPTH, get=kind))
    assert model.decision_function(NEW) == pytest.approx(expected, abs=1e-5)
    assert model.predict(NEW).tolist() == np.where(expected > 0, "up", "down").tolist()
    assert model.classes_.tolist() == ["down", "up"] and model.converged_ and model.gap_ <= 1e-12


def test_regression_is_a_machine_for_each_output():
    for loss in ("epsilon_insensitive", "huber"):
        model = SVR(NET, DEPTH, loss=loss, epsilon=0.3, C=2.0, tol=1e-12).fit(X, OUTPUTS)
        kernel = dl.kernel(NET, X, depth=DEPTH, get="ntk")
        for column in (0, 1):
            machine = dl.training.kernel_machine(kernel, OUTPUTS[:, column], loss, 2.0, 0.3, 1e-12)
            assert model.predict(X)[:, column] == pytest.approx(machine.outputs, abs=1e-5)
    assert len(model.bound()) == 2 and model.predict(NEW).shape == (15, 2)
    wide = SVR(NET, DEPTH, loss="huber", epsilon=1e6, C=50.0, tol=1e-13).fit(X, Y)
    ridge = dl.learn.NTKRegressor(NET, DEPTH, noise=0.02).fit(X, Y)
    assert wide.predict(NEW) == pytest.approx(ridge.predict(NEW), abs=1e-6)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_within_a_radius_no_class_changes(norm):
    """Every corner of the cube, three classes."""
    rows, labels = make_blobs(30, 3, centers=3, random_state=0)
    model = SVC(ONE, 1, C=1.0).fit(rows / 5, labels)
    new = rows[:10] / 5 + 0.3
    radius, corners = model.certify(new, norm), np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).T
    assert radius.shape == (10,) and np.all(radius > 0) and np.all(model.certify(new, "l2") <= model.certify(new))
    for x, reach, label in zip(new, radius, model.predict(new), strict=True):
        assert np.all(model.predict(x + reach * corners) == label)


def test_bound_terms():
    model = SVC(ONE, 1).fit(X, WORDS)
    found, kernel = model.bound(0.1), dl.kernel(ONE, X, depth=1, get="ntk")
    margins = np.where(WORDS == "up", 1, -1) * model.decision_function(X)
    assert found.loss == pytest.approx(np.clip(1 - margins, 0, 1).mean())
    assert found.norm**2 == pytest.approx(model.weights_[:, 0] @ kernel @ model.weights_[:, 0])
    assert found.trace == pytest.approx(np.trace(kernel)) and found.delta == 0.1 and found.rows == 40


def test_arrays_of_every_kind():
    expected = SVC(NET, DEPTH).fit(X, WORDS).decision_function(NEW)
    frame = SVC(NET, DEPTH).fit(pd.DataFrame(X, columns=list("abcd")), pd.Series(WORDS))
    assert frame.decision_function(pd.DataFrame(NEW, columns=list("abcd"))) == pytest.approx(expected, abs=1e-12)
    tensor = SVC(NET, DEPTH).fit(torch.from_numpy(X), torch.from_numpy((WORDS == "up").astype(int)))
    assert tensor.decision_function(torch.from_numpy(NEW)) == pytest.approx(expected, abs=1e-12)
    column = SVR(NET, DEPTH).fit(X, Y[:, None])
    assert column.predict(NEW) == pytest.approx(SVR(NET, DEPTH).fit(X, Y).predict(NEW)[:, None], abs=1e-12)
    assert not SVR(NET, DEPTH, epsilon=100.0).fit(X, Y).predict(NEW).any()


def test_a_machine_that_is_not_there_yet_is_marked():
    with pytest.warns(ConvergenceWarning, match=r"NTKSVC\.fit: after 1 sweeps the gap"):
        model = SVC(NET, DEPTH, C=100.0, max_iter=1).fit(X, WORDS)
    assert not model.converged_ and model.gap_ > 1e-8 and model.n_iter_ == 1


BAD = [
    ({"kernel": "rbf"}, "kernel='rbf'"),
    ({"loss": "log"}, "loss='log'"),
    ({"C": 0.0}, r"C=0\.0"),
    ({"C": "1"}, "C='1'"),
    ({"tol": -1.0}, r"tol=-1\.0"),
    ({"max_iter": 0}, "max_iter"),
    ({"net": "relu"}, "not a network description"),
    ({"net": dl.act.Relu(), "depth": None}, "ends in"),
]


@pytest.mark.parametrize(("options", "text"), BAD, ids=lambda value: str(value)[:30])
@pytest.mark.parametrize("kind", [SVC, SVR])
def test_settings_that_cannot_be(kind, options, text):
    with pytest.raises((DescriptionError, InputError), match=text):
        kind(**({"net": NET, "depth": DEPTH} | options)).fit(X, WORDS if kind is SVC else Y)


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        (["a"] * 39 + ["b"], "class 'b' has one member, row 39"),
        (["a"] * 40, "one class"),
        (Y, "first label"),
    ],
)
def test_labels_that_cannot_be(labels, text):
    with pytest.raises(InputError, match=text):
        SVC(NET, DEPTH).fit(X, labels)


def test_other_refusals():
    with pytest.raises(InputError, match=r"epsilon=-1\.0"):
        SVR(NET, DEPTH, epsilon=-1.0).fit(X, Y)
    with pytest.raises(InputError, match="NaN at row 0"):
        SVC(NET, DEPTH).fit(np.full_like(X, np.nan), WORDS)
    model = SVC(NET, DEPTH).fit(X, WORDS)
    with pytest.raises(DescriptionError, match="one hidden ReLU layer without biases"):
        model.certify(NEW)
    with pytest.raises(DescriptionError, match="norm='inf'"):
        model.certify(NEW, "inf")
    with pytest.raises(InputError, match="delta=1"):
        model.bound(1)
