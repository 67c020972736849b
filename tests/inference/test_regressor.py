"""Posteriors against scikit-learn's own Gaussian process, and the law of trained networks against its closed form."""

from math import inf

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import deeplimits as dl
from deeplimits.inference import prior
from tests.inference.problems import DEPTH, NET, NEW, OUTPUTS, Precomputed, X, Y

NNGP, NTK = dl.learn.NNGPRegressor, dl.learn.NTKRegressor
ALL = [NNGP(depth=3), NTK(depth=3), NTK(depth=3, posterior="gp")]
PROCESSES = [("nngp", NNGP(NET, DEPTH, 0.1)), ("ntk", NTK(NET, DEPTH, 0.1, posterior="gp"))]


def name(value):
    return value if isinstance(value, str) else type(value).__name__ + getattr(value, "posterior", "")


@pytest.mark.parametrize(("get", "ours"), PROCESSES, ids=name)
@pytest.mark.parametrize("y", [Y, OUTPUTS], ids=["one output", "two outputs"])
def test_equals_scikit_learn(get, ours, y):
    theirs = GaussianProcessRegressor(Precomputed(get), alpha=0.1, optimizer=None).fit(X, y)
    ours.fit(X, y)
    mean, spread = ours.predict(NEW, return_std=True)
    expected, expected_spread = theirs.predict(NEW, return_std=True)
    covariance, expected_covariance = (model.predict(NEW, return_cov=True)[1] for model in (ours, theirs))
    for found, wanted in ((mean, expected), (spread, expected_spread), (covariance, expected_covariance)):
        assert found.shape == wanted.shape
        assert np.abs(found - wanted).max() <= 1e-8
    assert ours.log_marginal_likelihood() == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-10)


@pytest.mark.parametrize(("get", "ours"), PROCESSES, ids=name)
def test_normalised_targets_equal_scikit_learn(get, ours):
    """One output: the same scale as scikit-learn's, whose noise is relative and ours is not."""
    y = 50 + 20 * Y
    theirs = GaussianProcessRegressor(Precomputed(get), alpha=2.0 / y.var(), optimizer=None, normalize_y=True).fit(X, y)
    ours = type(ours)(**{**ours.get_params(deep=False), "noise": 2.0, "normalize_y": True}).fit(X, y)
    for found, wanted in zip(ours.predict(NEW, return_std=True), theirs.predict(NEW, return_std=True), strict=True):
        assert np.abs(found - wanted).max() <= 1e-8 * np.abs(y).max()
    change_of_scale = len(y) * np.log(y.std())
    assert ours.log_marginal_likelihood() == pytest.approx(theirs.log_marginal_likelihood_value_ - change_of_scale)


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("depth", [DEPTH, inf])
def test_law_of_trained_networks(noise, depth):
    """The closed form, by an eigendecomposition of the NTK."""
    mean, covariance = NTK(NET, depth, noise).fit(X, Y).predict(NEW, return_cov=True)
    spread = NTK(NET, depth, noise).fit(X, Y).predict(NEW, return_std=True)[1]
    both, n = dl.kernel(NET, np.vstack([X, NEW]), depth=depth), len(X)
    k, theta = both.nngp, both.ntk
    values, vectors = np.linalg.eigh(theta[:n, :n])
    a = (theta[n:, :n] @ vectors / (values + noise)) @ vectors.T
    expected = k[n:, n:] + a @ k[:n, :n] @ a.T - a @ k[:n, n:] - k[n:, :n] @ a.T
    assert np.abs(mean - a @ Y).max() <= 1e-10
    assert np.abs(covariance - expected).max() <= 1e-10
    assert np.abs(spread - np.sqrt(np.diag(expected))).max() <= 1e-10


def test_law_of_trained_networks_interpolates():
    model = NTK(NET, DEPTH, 0.0).fit(X, Y)
    mean, spread = model.predict(X, return_std=True)
    assert np.abs(mean - Y).max() <= 1e-9
    assert spread.max() <= 1e-6
    assert model.predict(NEW, return_std=True)[1].min() > 1e-2


@pytest.mark.parametrize("model", ALL, ids=name)
def test_samples_have_the_posterior_law(model):
    model.fit(X, OUTPUTS)
    mean, covariance = model.predict(NEW, return_cov=True)
    drawn = model.sample_y(NEW, 4000, random_state=1)
    assert drawn.shape == (15, 2, 4000)
    error = np.sqrt(covariance[..., 0].diagonal() / 4000)[:, None]
    assert np.abs((drawn.mean(-1) - mean) / error).max() < 4.5  # 30 numbers: chance 2e-4 for a right program
    assert np.array_equal(drawn, model.sample_y(NEW, 4000, random_state=1))
    assert model.fit(X, Y).sample_y(NEW).shape == (15, 1)


@pytest.mark.parametrize("model", ALL, ids=name)
@pytest.mark.parametrize("normalize_y", [False, True])
@pytest.mark.parametrize(
    ("rows", "y"),
    [
        (X, np.full(40, 3.0)),
        (X, np.zeros((40, 2))),
        (X[:1], np.array([2.0])),
        (np.vstack([X, X]), np.concatenate([Y, Y])),
        (X, Y[:, None]),
        (X, np.repeat(Y[:, None], 5, axis=1)),
        (np.zeros((3, 2)), np.array([1.0, 2.0, 3.0])),
    ],
    ids=["constant", "two constants", "one row", "duplicates", "a column", "five outputs", "zero rows"],
)
def test_special_targets(model, normalize_y, rows, y):
    model = type(model)(**{**model.get_params(deep=False), "normalize_y": normalize_y}).fit(rows, y)
    mean, spread = model.predict(rows, return_std=True)
    assert mean.shape == spread.shape == y.shape
    assert np.isfinite(mean).all() and np.isfinite(spread).all() and (spread >= 0).all()
    assert model.predict(rows, return_cov=True)[1].shape == (len(rows), *y.shape)
    if normalize_y and len(rows) == 40 and np.ptp(y) == 0:
        assert np.abs(mean - y).max() <= 1e-12


def test_noise_is_on_the_scale_of_the_targets():
    """Targets a thousand times as large with a noise a million times as large: the same fit, if they are normalised."""
    small = NTK(NET, DEPTH, 0.01, normalize_y=True).fit(X, Y)
    large = NTK(NET, DEPTH, 1e4, normalize_y=True).fit(X, 1000 * Y)
    np.testing.assert_allclose(large.predict(NEW), 1000 * small.predict(NEW), rtol=1e-9)


def test_arrays_of_every_kind():
    expected = NTK(NET, DEPTH).fit(X, Y).predict(NEW)
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = NTK(NET, DEPTH).fit(frame, pd.Series(Y))
    assert list(model.feature_names_in_) == list("abcd")
    np.testing.assert_allclose(model.predict(pd.DataFrame(NEW, columns=list("abcd"))), expected, rtol=1e-11)
    tensors = NTK(NET, DEPTH).fit(torch.from_numpy(X).requires_grad_(), torch.from_numpy(Y))
    np.testing.assert_allclose(tensors.predict(torch.from_numpy(NEW)), expected, rtol=1e-11)
    single = NTK(NET, DEPTH).fit(X.astype(np.float32), Y)
    assert np.abs(single.predict(NEW.astype(np.float32)) - expected).max() <= 1e-4


def test_grid_search_in_a_pipeline_reaches_the_network():
    rows, y = load_diabetes(return_X_y=True)
    model = make_pipeline(StandardScaler(), NTK(depth=3, noise=3000.0, normalize_y=True))
    grid = {"ntkregressor__net__weight_std": [0.5, 2.0], "ntkregressor__depth": [3, 8]}
    search = GridSearchCV(model, grid, cv=3).fit(rows[:300], y[:300])
    best = search.best_estimator_[-1]
    assert best.net_.weight_std == search.best_params_["ntkregressor__net__weight_std"]
    assert search.score(rows[300:], y[300:]) > 0.35  # linear regression reaches about 0.5


def test_parameters_of_the_network():
    model = NNGP(dl.layer.Dense(weight_std=1.5) >> dl.act.Relu() >> dl.layer.Dense(1), depth=None)
    assert model.get_params()["net__0.weight_std"] == 1.5
    model.set_params(**{"net__0.weight_std": 0.5, "noise": 0.2})
    assert model.net.hyperparameters()["0.weight_std"] == 0.5
    assert model.fit(X, Y).predict(NEW).shape == (15,)
    assert NNGP().get_params()["net__scale"] == 1.0
    with pytest.raises(dl.DeepLimitsError, match="weight_std"):
        model.set_params(**{"net__0.weight_sd": 1.0})


def test_blocks_of_rows_make_the_whole(monkeypatch):
    for model in ALL:
        model.fit(X, Y)
        whole = model.predict(NEW, return_std=True)
        monkeypatch.setattr(prior, "BLOCK_BYTES", 8 * 40 * 3 * 4)
        parts = model.predict(NEW, return_std=True)
        monkeypatch.undo()
        for found, wanted in zip(parts, whole, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_refusals():
    doubled = np.vstack([X[:5], X[2:3], X[0:1]])
    with pytest.raises(dl.errors.InputError, match=r"rows 2 and 5, 0 and 6 are the same"):
        NNGP(NET, DEPTH, 0.0).fit(doubled, np.arange(7.0))
    with pytest.raises(dl.errors.InputError, match=r"noise=-1\.0 is not a variance"):
        NNGP(NET, DEPTH, -1.0).fit(X, Y)
    with pytest.raises(dl.errors.PrecisionError, match=r"smallest eigenvalue is .* raise noise to"):
        NNGP(dl.Mlp("identity"), 3, 0.0).fit(X, Y)
    with pytest.raises(dl.errors.NoLimit, match="there is no NTK at infinite depth"):
        NTK(dl.Mlp("relu"), inf).fit(X, Y)
    with pytest.raises(dl.errors.NoLimit, match="mean square of an activation is infinite"):
        NNGP(dl.Mlp(dl.act.Custom(lambda x: torch.exp(x * x))), 2).fit(X, Y)
    with pytest.raises(dl.errors.DescriptionError, match=r"'ensemble' .* or 'gp'"):
        NTK(posterior="ensembl").fit(X, Y)
    with pytest.raises(dl.errors.DescriptionError, match="not a network description"):
        NTK("resnet").fit(X, Y)
    with pytest.raises(dl.errors.InputError, match="return_std and return_cov"):
        NNGP(NET, DEPTH).fit(X, Y).predict(NEW, return_std=True, return_cov=True)
    spoilt = pd.DataFrame(X, columns=list("abcd"))
    spoilt.loc[7, "c"] = np.nan
    with pytest.raises(dl.errors.InputError, match="NaN at row 7, column 'c'"):
        NNGP(NET, DEPTH).fit(spoilt, Y)
    with pytest.raises(dl.errors.InputError, match="y contains infinity at row 2"):
        NNGP(NET, DEPTH).fit(X[:3], [0.0, 1.0, inf])


def test_memory_is_stated_before_the_work(monkeypatch):
    monkeypatch.setattr("deeplimits.numerics.arrays.available_bytes", lambda: 20_000)
    with pytest.raises(dl.errors.MemoryNeeded, match="2 matrices of 40 x 40 in float64 needs 25,600 bytes"):
        NTK(NET, DEPTH).fit(X, Y)
