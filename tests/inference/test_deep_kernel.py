"""Deep kernel machines beside their closed form, their limits, and definitions written out."""

import pickle
from math import inf

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import multivariate_normal

import deeplimits as dl
from deeplimits.inference.deep_kernel_machine import Objective, linear_grams
from deeplimits.limits.corrections.posterior import posterior_kernel

Regressor, Classifier = dl.learn.DeepKernelMachineRegressor, dl.learn.DeepKernelMachineClassifier
RNG = np.random.default_rng(5)
X, NEW = RNG.standard_normal((12, 3)), RNG.standard_normal((5, 3))
Y = np.stack([np.sin(2 * X[:, 0]), X[:, 1] * X[:, 2]], axis=1)
LABELS = np.array(["a", "b", "c"])[np.argsort(np.argsort(X[:, 0])) // 4]
NET = dl.Mlp("relu", bias_std=0.3)
NETS = [
    (dl.Mlp("tanh", weight_std=1.3, bias_std=0.4, readout_std=0.7, readout_bias_std=0.2), 2),
    (dl.ResNet("erf", branch_layers=2, readin_bias_std=0.3, final_activation="relu"), 2),
    (
        dl.layer.Dense(bias_std=0.5)
        >> dl.act.Relu()
        >> dl.layer.Dense(weight_std=1.4)
        >> dl.act.Sin()
        >> dl.layer.Dense(1),
        None,
    ),
]


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_linear_machine_equals_its_closed_form(depth):
    """To 1e-6 (issue): G_0 (G_0^-1 S)^(l/(L+1)), at every layer."""
    rows, y = RNG.standard_normal((5, 7)), RNG.standard_normal((5, 8))
    model = Regressor(dl.Mlp("identity"), depth, nu=8.0, noise=0.0, tol=1e-8).fit(rows, y)
    power = np.linalg.inv(rows @ rows.T / 7) @ y @ y.T / 8
    values, vectors = np.linalg.eig(power)
    for layer, (found, known) in enumerate(
        zip(model.grams_, linear_grams(rows @ rows.T / 7, y, depth), strict=True), 1
    ):
        root = (vectors * values.astype(complex) ** (layer / (depth + 1))) @ np.linalg.inv(vectors)
        np.testing.assert_allclose(known, (rows @ rows.T / 7 @ root).real, atol=1e-10)
        assert np.abs(found - known).max() <= 1e-6


@pytest.mark.parametrize(("net", "depth"), NETS, ids=["mlp", "resnet", "serial"])
def test_infinite_nu_is_the_nngp(net, depth):
    rows = np.vstack([X, X[:2]])  # two rows twice: their Gram matrices are singular
    y = np.vstack([Y, Y[:2] + 0.1])
    ours = Regressor(net, depth, nu=inf, noise=0.1).fit(rows, y)
    theirs = dl.learn.NNGPRegressor(net, depth, 0.1).fit(rows, y)
    for options in ({"return_std": True}, {"return_cov": True}):
        for found, wanted in zip(ours.predict(NEW, **options), theirs.predict(NEW, **options), strict=True):
            assert found.shape == wanted.shape
            assert np.abs(found - wanted).max() <= 1e-11
    assert ours.likelihood_ == pytest.approx(theirs.log_marginal_likelihood(), rel=1e-11)
    assert not ours.kl_.any() and ours.converged_ and ours.objective_ == ours.likelihood_


@pytest.mark.parametrize("labels", [LABELS, LABELS == "a"], ids=["three classes", "two"])
def test_infinite_nu_is_the_nngp_classifier(labels):
    ours = Classifier(NET, 2, nu=inf).fit(X, labels)
    theirs = dl.learn.NNGPClassifier(NET, 2, calibrate=False).fit(X, labels)
    assert np.abs(ours.predict_proba(NEW) - theirs.predict_proba(NEW)).max() <= 1e-9
    assert ours.likelihood_ == pytest.approx(theirs.log_marginal_likelihood(), rel=1e-9)
    assert np.array_equal(ours.predict(X), theirs.predict(X))


def test_the_distance_to_the_nngp_falls_as_one_over_nu():
    kernel, prices, gaps = dl.kernel(NET, X, depth=2, get="nngp"), (1e2, 1e3, 1e4), []
    for nu in prices:
        model = Regressor(NET, 2, nu=nu, noise=0.1, tol=1e-7).fit(X, Y)
        gaps.append(np.abs(model.posterior_.state.kernel.base.numpy() - kernel).max())
    slopes = np.diff(np.log(gaps)) / np.diff(np.log(prices))
    assert abs(slopes[-1] + 1) <= 0.01 and abs(slopes[0] + 1) <= 0.1


def test_linear_machines_move_as_bayesian_networks_of_width_nu():
    """To leading order in 1/nu, layer by layer, the universal correction of posterior feature kernels."""
    net = dl.Mlp("identity", weight_std=1.2, readout_std=0.8)
    model = Regressor(net, 2, nu=1e5, noise=0.3, tol=1e-10).fit(X[:3], Y[:3])
    found = posterior_kernel(net, X[:3], Y[:3], 2, 10**5, 0.3)
    for gram, limit, moved in zip(model.grams_, found.limit, found.kernels - found.limit, strict=True):
        assert np.abs(gram - limit - moved).max() <= 1e-3 * np.abs(moved).max()


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("points", [None, X[::2] + 0.1])
def test_gradients(classes, points):
    """Against central differences along a random direction, with their own error by Richardson's rule."""
    model = (
        Classifier(NET, 2, 3.0, points, max_iter=1, tol=1e3)
        if classes
        else Regressor(NET, 2, 3.0, 0.1, points, tol=1e3)
    )
    task = model.fit(X, LABELS if classes else Y).posterior_.task
    objective, rng = Objective(task), np.random.default_rng(0)
    at, way = 0.3 * rng.standard_normal((2, task.count()))
    slopes = [(objective(at + h * way)[0] - objective(at - h * way)[0]) / (2 * h) for h in (1e-3, 2e-3)]
    wanted = (4 * slopes[0] - slopes[1]) / 3
    assert objective(at)[1] @ way == pytest.approx(wanted, rel=1e-7, abs=1e-8)


def test_values_are_those_of_the_definition():
    model = Regressor(NET, 2, nu=(2.0, 5.0), noise=0.1).fit(X, Y)
    for gram, prior, cost, rank in zip(model.grams_, model.prior_grams_, model.kl_, model.ranks_, strict=True):
        ratio = np.linalg.pinv(prior, rcond=1e-9) @ gram
        logs = np.log(np.sort(np.linalg.eigvals(ratio).real)[-rank:]).sum()
        assert cost == pytest.approx((np.trace(ratio) - logs - rank) / 2, rel=1e-6)
    kernel = model.posterior_.state.kernel.base.numpy() + 0.1 * np.eye(12)
    likelihood = sum(multivariate_normal(cov=kernel).logpdf(y) for y in Y.T)
    assert model.likelihood_ == pytest.approx(likelihood, rel=1e-10)
    assert model.objective_ == pytest.approx(likelihood - model.kl_ @ [2.0, 5.0], rel=1e-10)
    assert model.likelihood_ > dl.learn.NNGPRegressor(NET, 2, 0.1).fit(X, Y).log_marginal_likelihood()
    mean, covariance = model.predict(X, return_cov=True)  # new rows that are training rows: the other path
    np.testing.assert_allclose(mean, (kernel - 0.1 * np.eye(12)) @ np.linalg.solve(kernel, Y), atol=1e-8)
    np.testing.assert_allclose(
        np.diagonal(covariance[..., 0]), model.predict(X, return_std=True)[1][:, 0] ** 2, atol=1e-8
    )


@pytest.mark.parametrize("classes", [False, True])
def test_inducing_points_at_every_row_change_nothing(classes):
    if classes:
        models = [Classifier(NET, 2, 5.0, points, tol=1e-7).fit(X, LABELS) for points in (None, X)]
        answers = [model.predict_proba(NEW) for model in models]
    else:
        models = [Regressor(NET, 2, 5.0, 0.1, points, tol=1e-7).fit(X, Y) for points in (None, X)]
        answers = [model.predict(NEW, return_cov=True)[1] for model in models]
    assert models[0].objective_ == pytest.approx(models[1].objective_, rel=1e-6)
    assert np.abs(answers[0] - answers[1]).max() <= 1e-4


def test_inducing_points_bound_the_evidence():
    whole = dl.learn.NNGPRegressor(NET, 2, 0.1).fit(X, Y).log_marginal_likelihood()
    bounds = [Regressor(NET, 2, inf, 0.1, X[:count]).fit(X, Y).likelihood_ for count in (3, 6, 9, 12)]
    assert np.all(np.diff(bounds) > 0) and bounds[-1] == pytest.approx(whole, rel=1e-8)
    model = Regressor(NET, 2, 20.0, 0.1, 4, seed=3).fit(X, Y)
    assert model.inducing_points_.shape == (4, 3) and [gram.shape for gram in model.grams_] == [(4, 4)] * 2
    again = Regressor(NET, 2, 20.0, 0.1, 4, seed=3).fit(X, Y)
    assert np.array_equal(model.predict(NEW), again.predict(NEW))
    assert not np.array_equal(model.predict(NEW), Regressor(NET, 2, 20.0, 0.1, 4, seed=4).fit(X, Y).predict(NEW))


def test_rows_that_a_network_cannot_tell_apart():
    """Without biases ReLU networks see x and 2 x in one direction, and nothing in a row of zeros."""
    rows = np.vstack([X[:5], 2 * X[0], np.zeros(3), X[1]])
    model = Regressor(dl.Mlp("relu"), 2, 5.0, 0.1).fit(rows, np.arange(8.0))
    assert model.ranks_ == [3, 5]
    for gram in model.grams_:
        np.testing.assert_allclose(gram[5], 2 * gram[0], atol=1e-7)
        np.testing.assert_allclose(gram[7], gram[1], atol=1e-7)
        assert not gram[6].any()
    mean, spread = model.predict([[0.0, 0.0, 0.0]], return_std=True)
    assert abs(mean[0]) <= 1e-12 and spread[0] <= 1e-12


def test_solvers_agree_and_say_when_they_stop_early():
    best = Regressor(NET, 1, 5.0, 0.1, tol=1e-6).fit(X, Y)
    with pytest.warns(dl.errors.ConvergenceWarning, match=r"adam stopped after 300 steps with a gradient of \d"):
        other = Regressor(NET, 1, 5.0, 0.1, solver="adam", max_iter=300, tol=1e-12).fit(X, Y)
    assert other.objective_ == pytest.approx(best.objective_, rel=1e-4)
    assert best.converged_ and best.residual_ <= 1e-6 and not other.converged_ and other.n_iter_ == 300
    with pytest.warns(dl.errors.ConvergenceWarning, match="lbfgs stopped after 2 steps"):
        assert not Regressor(NET, 1, 1.0, 0.1, max_iter=2, tol=1e-9).fit(X, Y).converged_


def test_arrays_of_every_kind():
    expected = Regressor(NET, 1, 50.0, 0.1).fit(X, Y[:, 0]).predict(NEW)
    frame = pd.DataFrame(X, columns=list("abc"))
    same = Regressor(NET, 1, 50.0, 0.1).fit(frame, pd.Series(Y[:, 0])).predict(pd.DataFrame(NEW, columns=list("abc")))
    np.testing.assert_allclose(same, expected, rtol=1e-10)
    column = Regressor(NET, 1, 50.0, 0.1).fit(torch.from_numpy(X), torch.from_numpy(Y[:, :1]))
    np.testing.assert_allclose(column.predict(torch.from_numpy(NEW))[:, 0], expected, rtol=1e-10)
    whole = Regressor(NET, 1, 50.0, 0.1).fit(np.arange(6).reshape(3, 2), [1, 2, 3])
    assert np.isfinite(whole.predict(np.ones((1, 2), dtype=np.float32))).all()
    single = Regressor(NET, 1, 50.0, 0.1, normalize_y=True).fit(X[:1], [2.0])
    assert single.predict(X[:1]) == pytest.approx([2.0])


def test_small_prices_and_copies():
    """A price far below one still starts; a fitted machine of an activation without a name of its own is pickled."""
    cheap = Regressor(NET, 1, 1e-4, 0.1, tol=1e-3).fit(X, Y)
    assert cheap.converged_ and cheap.kl_ > Regressor(NET, 1, 1.0, 0.1, tol=1e-3).fit(X, Y).kl_ > 0
    model = Classifier(dl.Mlp("gelu", bias_std=0.2), 1, 50.0).fit(X, LABELS)
    copied = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copied.predict_proba(NEW), model.predict_proba(NEW))


def test_normalised_targets():
    plain = Regressor(NET, 1, 5.0, 0.1).fit(X, (Y[:, 0] - Y[:, 0].mean()) / Y[:, 0].std())
    scaled = Regressor(NET, 1, 5.0, 0.1 * 49, normalize_y=True).fit(
        X, 7 * (Y[:, 0] - Y[:, 0].mean()) / Y[:, 0].std() + 3
    )
    np.testing.assert_allclose(scaled.predict(NEW), 7 * plain.predict(NEW) + 3, rtol=1e-6)
    assert scaled.likelihood_ == pytest.approx(plain.likelihood_ - 12 * np.log(7), rel=1e-6)


BAD = [
    ({"depth": inf}, "depth=inf"),
    ({"depth": 0}, "depth=0"),
    ({"depth": None}, "leaves DEPTH open"),
    ({"net": "relu"}, "not a network description"),
    ({"net": dl.Mlp("relu", weights=dl.layer.Orthogonal())}, "Gaussian features"),
    ({"net": dl.layer.Dense(1), "depth": None}, "no hidden layer"),
    ({"nu": 0.0}, "nu=0.0 is not a number > 0"),
    ({"nu": -1}, "nu=-1"),
    ({"nu": np.nan}, "nu=nan"),
    ({"nu": True}, "nu=True"),
    ({"nu": "10"}, "nu='10'"),
    ({"nu": (1.0, 2.0)}, "nu has 2 entries for 1 layers"),
    ({"solver": "newton"}, "solver='newton'"),
    ({"max_iter": 0}, "max_iter=0"),
    ({"tol": 0.0}, "tol=0.0"),
    ({"seed": -1}, "-1 is not a whole number"),
    ({"inducing_points": 0}, "inducing_points=0"),
    ({"inducing_points": 13}, "inducing_points=13 of 12 distinct rows"),
    ({"inducing_points": "many"}, "inducing_points"),
    ({"inducing_points": np.ones((2, 4))}, r"shape \(2, 4\)"),
    ({"inducing_points": np.array([[1.0, np.nan, 0.0]])}, "nan at row 0, column 1"),
]


@pytest.mark.parametrize(("changes", "text"), BAD, ids=lambda value: str(value)[:40])
@pytest.mark.parametrize("kind", [Regressor, Classifier])
def test_refusals(kind, changes, text):
    with pytest.raises(dl.DeepLimitsError, match=text):
        kind(**({"net": NET, "depth": 1} | changes)).fit(X, LABELS if kind is Classifier else Y)


@pytest.mark.parametrize(
    ("options", "rows", "y", "text"),
    [
        ({"noise": -1.0}, X, Y, "not a variance"),
        ({"noise": 0.0}, X[[0, 1, 1]], Y[:3], "rows 1 and 2 are the same"),
        ({"noise": 0.0, "inducing_points": 3}, X, Y, "noise=0 with inducing points"),
        ({}, np.where(X[2, 1] == X, np.nan, X), Y, "NaN at row 2, column 1"),
        ({}, X, np.where(Y[3, 0] == Y, inf, Y), "infinity at row 3"),
        ({}, 1e170 * X, Y, "leave the range of"),
        ({}, X, 1e200 * Y, "has no gradient in float64"),
    ],
)
def test_refusals_of_data(options, rows, y, text):
    with pytest.raises(dl.DeepLimitsError, match=text):
        Regressor(NET, 1, **options).fit(rows, y)


@pytest.mark.parametrize(("points", "text"), [(None, "of 12 x 12 in float64"), (3, "12 rows beside 3 inducing points")])
def test_memory_is_told_first(points, text, monkeypatch):
    monkeypatch.setattr("deeplimits.numerics.arrays.available_bytes", lambda: 5_000)
    with pytest.raises(dl.errors.MemoryNeeded, match=text):
        Regressor(NET, 1, 10.0, 0.1, points).fit(X, Y)


def test_labels_that_cannot_be():
    with pytest.raises(dl.DeepLimitsError, match="class 'b' has one member, row 11"):
        Classifier(NET, 1).fit(X, ["a"] * 11 + ["b"])
    with pytest.raises(ValueError, match="y should be a 1d array"):
        Classifier(NET, 1).fit(X, Y)
    with pytest.raises(dl.DeepLimitsError, match="one class"):
        Classifier(NET, 1).fit(X, ["a"] * 12)
