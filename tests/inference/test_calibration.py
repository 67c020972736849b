"""Calibration: a row left out as a refit would leave it, probabilities that are met on data, their order kept."""

from math import inf

import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import StandardScaler

import deeplimits as dl
from deeplimits.inference.calibration import temper, temperature
from deeplimits.inference.laplace import logistic_normal, mode
from tests.inference.problems import Precomputed, X, Y

NNGP, NTK = dl.learn.NNGPClassifier, dl.learn.NTKClassifier
TARGET = (Y > 0).astype(float)


@pytest.mark.parametrize("get", ["nngp", "ntk"])
def test_left_out_is_regression_on_the_other_labels(get):
    """The likelihood at the mode is a Gaussian observation of f + residual / W with variance 1 / W."""
    kernel = Precomputed(get)(X)
    found = mode("fit", kernel, TARGET)
    mean, variance = found.left_out(kernel)
    observed, noise = kernel @ found.residual + found.residual / found.root**2, found.root**-2.0
    for row in range(len(X)):
        rest = np.arange(len(X)) != row
        answer = np.linalg.solve(kernel[rest][:, rest] + np.diag(noise[rest]), kernel[rest, row])
        assert mean[row] == pytest.approx(answer @ observed[rest], abs=1e-9)
        assert variance[row] == pytest.approx(kernel[row, row] - answer @ kernel[rest, row], abs=1e-9)


@pytest.mark.parametrize("size", [1.0, 100.0])
def test_left_out_is_near_refits(size):
    kernel = size * Precomputed("nngp")(X)
    said = logistic_normal(*mode("fit", kernel, TARGET).left_out(kernel))
    refitted = []
    for row in range(len(X)):
        rest = np.arange(len(X)) != row
        without = mode("fit", kernel[rest][:, rest], TARGET[rest])
        refitted.append(logistic_normal(*without.latent(kernel[row, rest][None], kernel[[row], row]))[0])
    assert np.abs(said - refitted).mean() <= 0.02


def reliability(probabilities, place):
    """Gap between confidence and accuracy in ten equal shares of the rows, weighted by their sizes."""
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == place
    shares = np.array_split(np.argsort(confidence), 10)
    return sum(abs(right[rows].mean() - confidence[rows].mean()) * len(rows) for rows in shares) / len(place)


MODELS = {
    "nngp, three layers, large": NNGP(dl.ResNet("relu", readout_std=10.0), 3),
    "nngp, three layers": NNGP(dl.ResNet("relu"), 3),
    "ntk, infinite depth": NTK(dl.ResNet("relu"), inf),
    "ntk, 64 layers": NTK(dl.Mlp("relu"), 64),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("load", [load_digits, load_breast_cancer])
def test_probabilities_are_met_on_new_rows(load, name):
    """The share of right answers on 300 rows is known to 0.013 or so, which is four times within the bound."""
    rows, y = load(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(y))
    rows, y = rows[order], y[order]
    if load is load_digits:
        rows, new = 8 * rows / np.linalg.norm(rows, axis=1, keepdims=True), slice(300, 1300)
    else:
        rows, new = StandardScaler().fit_transform(rows), slice(300, None)
    model = MODELS[name].fit(rows[:300], y[:300])
    probabilities = model.predict_proba(rows[new])
    gap = probabilities.max(axis=1).mean() - model.score(rows[new], y[new])
    assert abs(gap) <= 0.05
    assert reliability(probabilities, y[new]) <= 0.06
    own = temper(probabilities, 1 / model.temperature_)
    losses = [-np.log(said[np.arange(len(said)), y[new]]).mean() for said in (probabilities, own)]
    assert losses[0] < losses[1]


def test_without_calibration_the_order_is_the_same():
    three = np.digitize(Y, [-0.5, 0.5])
    plain = NTK(depth=3, calibrate=False).fit(X, three)
    ours = NTK(depth=3).fit(X, three)
    assert plain.temperature_ == 1.0
    np.testing.assert_allclose(ours.predict_proba(X), temper(plain.predict_proba(X), ours.temperature_), rtol=1e-12)
    assert (plain.predict(X) == ours.predict(X)).all()


def test_temperature_of_rows_that_are_all_right_stays_above_zero():
    """N right answers of N leave 1/(N + 2) for the next to be wrong."""
    said = np.tile([0.7, 0.3], (98, 1))
    found = temper(said, temperature(said, np.zeros(98, int)))
    np.testing.assert_allclose(found[:, 1], 0.01, rtol=1e-5)


def test_temperature_of_labels_by_chance_makes_them_even():
    rng = np.random.default_rng(0)
    sure = expit(rng.normal(0, 3, 2000))
    said = np.stack([sure, 1 - sure], axis=1)
    found = temper(said, temperature(said, rng.integers(2, size=2000)))
    assert np.abs(found - 0.5).max() < 0.1
