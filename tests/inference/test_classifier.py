"""Classifiers: calibrated on data drawn from the prior, evidence and its gradient, bad labels told."""

from math import inf

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import expit
from sklearn.datasets import load_digits, load_iris
from sklearn.gaussian_process import GaussianProcessClassifier

import deeplimits as dl
from tests.inference.problems import DEPTH, NET, NEW, Precomputed, X, Y, differences

NNGP, NTK = dl.learn.NNGPClassifier, dl.learn.NTKClassifier
TWO, THREE = (Y > 0).astype(int), np.digitize(Y, [-0.5, 0.5])
KINDS = [("nngp", NNGP), ("ntk", NTK)]


@pytest.mark.parametrize(("get", "kind"), KINDS, ids=["nngp", "ntk"])
@pytest.mark.parametrize("y", [TWO, THREE], ids=["two classes", "three classes"])
def test_close_to_scikit_learn(get, kind, y):
    """scikit-learn averages the logistic with a fit of five error functions, good to 3e-4."""
    theirs = GaussianProcessClassifier(Precomputed(get), optimizer=None, multi_class="one_vs_rest").fit(X, y)
    ours = kind(NET, DEPTH, calibrate=False).fit(X, y)
    assert np.abs(ours.predict_proba(NEW) - theirs.predict_proba(NEW)).max() <= 1e-3
    np.testing.assert_allclose(ours.predict_proba(NEW).sum(axis=1), 1.0, rtol=1e-12)


def test_calibrated_under_its_own_prior():
    """Functions drawn from the prior, labels from the logistic: each probability is met by its share of labels.

    30 problems of 60 new rows; labels of a problem are dependent given the rows, so the error is taken over problems.
    """
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((100, 3))
    net = dl.ResNet("relu", readin_std=3.0)
    root = np.linalg.cholesky(dl.kernel(net, rows, depth=3, get="nngp") + 1e-9 * np.eye(100))
    gaps = []
    for _ in range(30):
        labels = (rng.uniform(size=100) < expit(root @ rng.standard_normal(100))).astype(int)
        probability = NNGP(net, 3).fit(rows[:40], labels[:40]).predict_proba(rows[40:])[:, 1]
        sure = probability > 0.7
        gaps.append([(labels[40:] - probability).mean(), (labels[40:] - probability)[sure].sum() / 60])
    gaps = np.array(gaps)
    score = gaps.mean(0) / (gaps.std(0, ddof=1) / np.sqrt(30))
    assert np.abs(score).max() < 4  # Student with 29 degrees, two of them: chance 8e-4


@pytest.mark.parametrize("kind", [NNGP, NTK])
@pytest.mark.parametrize("y", [TWO, THREE], ids=["two classes", "three classes"])
def test_gradient_of_the_evidence(kind, y):
    model = kind(NET, DEPTH).fit(X, y)
    value, gradient = model.log_marginal_likelihood(eval_gradient=True)
    assert value == pytest.approx(model.log_marginal_likelihood(), rel=1e-12)
    at = {path: v for path, v in model.net_.hyperparameters().items() if v > 0}
    size = max(abs(slope) for slope in gradient.values())
    for path, expected in differences(lambda hyper: model.log_marginal_likelihood(hyper), at):
        assert abs(gradient[path] - expected) <= 1e-6 * size, path


def test_evidence_is_maximised():
    model = NNGP(dl.ResNet("relu"), 3, optimize=["readout_std"]).fit(X, THREE)
    start = NNGP(dl.ResNet("relu"), 3).fit(X, THREE)
    assert model.log_marginal_likelihood_value_ > start.log_marginal_likelihood() + 0.01
    at = model.net_.readout_std
    around = [model.log_marginal_likelihood({"readout_std": factor * at}) for factor in (0.95, 1.05)]
    assert max(around) < model.log_marginal_likelihood_value_


@pytest.mark.parametrize("depth", [3, inf])
def test_digits(depth):
    rows, y = load_digits(return_X_y=True)
    rows = rows / 8 - 1
    net = dl.ResNet("relu", readout_std=5.0)
    for kind in (NNGP, NTK):
        model = kind(net, depth).fit(rows[:300], y[:300])
        assert model.score(rows[1000:1200], y[1000:1200]) > 0.88


def test_labels_and_arrays_of_every_kind():
    rows, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    frame = pd.DataFrame(rows, columns=["a", "b", "c", "d"])
    model = NTK(depth=3).fit(frame, pd.Series(names))
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert (model.predict(frame) == names).mean() > 0.9
    numbers = NTK(depth=3).fit(torch.from_numpy(rows), torch.from_numpy(y))
    np.testing.assert_allclose(numbers.predict_proba(torch.from_numpy(rows)), model.predict_proba(frame), atol=1e-9)


REFUSED = {
    "continuous": (np.linspace(0, 1, 40), r"Unknown label type: continuous.*first label is 0\.0.*use a regressor"),
    "several kinds": (np.array(["a", 1] * 20, dtype=object), r"several kinds: int, str"),
    "missing": (np.array(["a", None] * 20, dtype=object), r"several kinds: NoneType, str"),
    "one class": (np.zeros(40, int), r"one class, 0, on 40 rows"),
    "one member": (np.r_[np.zeros(20, int), np.ones(19, int), 2], r"class 2 has one member, row 39"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_labels(case):
    labels, words = REFUSED[case]
    with pytest.raises(dl.errors.InputError, match=words):
        NNGP(depth=3).fit(X, labels)


def test_refusals():
    with pytest.raises(dl.errors.NoLimit, match="ask at a finite depth"):
        NTK(dl.Mlp("relu"), inf).fit(X, TWO)
    with pytest.raises(dl.errors.DescriptionError, match="optimize='noise' is no hyperparameter"):
        NNGP(depth=3, optimize=["noise"]).fit(X, TWO)
    with pytest.raises(dl.errors.InputError, match="'weigth_std' is no hyperparameter"):
        NNGP(depth=3).fit(X, TWO).log_marginal_likelihood({"weigth_std": 1.0})
