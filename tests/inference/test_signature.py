"""Estimators on paths: the Gaussian process written out, ragged lists in scikit-learn's own tools, bad paths."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import deeplimits as dl

Net, learn = dl.layer.ControlledResNet, dl.learn
LIGHT = {"net": Net("relu", weight_std=0.7, time=True), "depth": 9}
STEPS_ONLY = "the kernel sees the steps of a path: a row of two points is one number, and the blobs need two"
UNMET = {"NeuralSignatureClassifier": {"check_classifiers_train": STEPS_ONLY}}


@parametrize_with_checks(
    [learn.NeuralSignatureRegressor(**LIGHT), learn.NeuralSignatureClassifier(**LIGHT)],
    expected_failed_checks=lambda estimator: UNMET.get(type(estimator).__name__, {}),
)
def test_scikit_learn_check(estimator, check, request):
    if request.node.get_closest_marker("xfail"):  # costs seconds; what it says is tested below
        pytest.xfail(STEPS_ONLY)
    check(estimator)


def turns(count, seed):
    """Loops of unequal length, run through to the left or to the right, and the angle that they turn by."""
    rng = np.random.default_rng(seed)
    side = np.arange(count) % 2
    found, angles = [], []
    for sign in 2 * side - 1:
        times = np.linspace(0, 1, int(rng.integers(8, 20)))
        angle = sign * rng.uniform(2, 5)
        loop = np.column_stack([np.cos(angle * times), np.sin(angle * times)])
        found.append(loop + 0.02 * rng.standard_normal(loop.shape))
        angles.append(angle)
    return found, np.array(angles), np.where(side, "left", "right")


def test_regression_is_the_gaussian_process_written_out():
    (x, y, _), (new, truth, _) = turns(24, 0), turns(7, 1)
    net = Net("relu", weight_std=0.8, bias_std=0.5)
    model = learn.NeuralSignatureRegressor(net, noise=0.01).fit(x, y)
    mean, spread = model.predict(new, return_std=True)
    kernel = model.posterior_.prior.matrix([*x, *new], "nngp")
    solved = np.linalg.solve(kernel[:24, :24] + 0.01 * np.eye(24), np.column_stack([y, kernel[:24, 24:]]))
    np.testing.assert_allclose(mean, kernel[24:, :24] @ solved[:, 0], atol=0.01)  # kernels: 1e-4
    variance = kernel.diagonal()[24:] - np.einsum("mn,nm->m", kernel[24:, :24], solved[:, 1:])
    np.testing.assert_allclose(spread, np.sqrt(variance), atol=0.05)
    assert np.abs(mean - truth).max() < 0.5
    covariance = model.predict(new, return_cov=True)[1]
    np.testing.assert_allclose(covariance.diagonal(), spread**2, atol=1e-3 * kernel.max())
    drawn = model.sample_y(new, n_samples=400, random_state=0)
    assert drawn.shape == (7, 400)
    assert (np.abs(drawn.mean(1) - mean) < 5 * spread / 20).all()
    inner = model.posterior_.prior.matrix(x, "nngp") + 0.01 * np.eye(24)
    sign, log_determinant = np.linalg.slogdet(inner)
    evidence = -0.5 * (y @ np.linalg.solve(inner, y) + log_determinant + 24 * np.log(2 * np.pi))
    assert sign == 1
    assert model.log_marginal_likelihood() == pytest.approx(evidence, rel=1e-9)
    assert model.log_marginal_likelihood({"noise": 0.5}) != pytest.approx(evidence, rel=1e-3)


def test_classification_of_ragged_paths():
    (x, _, y), (new, _, truth) = turns(30, 0), turns(20, 1)
    model = learn.NeuralSignatureClassifier(Net("relu", bias_std=0.5)).fit(x, y)
    probabilities = model.predict_proba(new)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-12)
    assert (model.predict(new) == truth).all()
    assert model.temperature_ < 1  # all rows are right when left out: sharper than the prior says
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(new), probabilities)
    assert np.isfinite(model.log_marginal_likelihood())


def test_parameters_clones_and_searches():
    x, angles, y = turns(24, 0)
    model = learn.NeuralSignatureClassifier(Net("identity", bias_std=0.5))
    assert model.get_params()["net__weight_std"] == 1.0
    model.set_params(net__weight_std=0.5)
    copy = clone(model)
    assert copy.net.weight_std == 0.5
    assert learn.NeuralSignatureRegressor().get_params()["net__initial_std"] == 1.0
    found = GridSearchCV(copy, {"net__weight_std": [0.01, 0.5]}, cv=2).fit(x, y)
    assert found.best_params_ == {"net__weight_std": 0.5}
    assert found.predict(x[:3]).tolist() == y[:3].tolist()
    assert cross_val_score(copy, x, y, cv=3).mean() == 1.0
    assert cross_val_score(learn.NeuralSignatureRegressor(copy.net), x, angles, cv=3).min() > 0.9


def test_evidence_is_raised():
    x, angles, _ = turns(16, 0)
    start = learn.NeuralSignatureRegressor(Net("identity", weight_std=0.2, bias_std=0.5), noise=1.0).fit(x, angles)
    found = clone(start).set_params(optimize=["weight_std", "noise"]).fit(x, angles)
    assert found.noise_ < 0.2
    assert found.log_marginal_likelihood_value_ > start.log_marginal_likelihood() + 10
    assert found.log_marginal_likelihood() == pytest.approx(found.log_marginal_likelihood_value_, rel=1e-9)
    for path in ("weight_std", "noise"):  # a maximum to about one per cent
        at = found.net_.hyperparameters() | {"noise": found.noise_}
        for factor in (0.8, 1.25):
            moved = found.log_marginal_likelihood(at | {path: factor * at[path]})
            assert moved < found.log_marginal_likelihood_value_ + 0.02


def test_forms_of_paths():
    x, angles, _ = turns(10, 0)
    equal = np.stack([path[:8] for path in x])
    model = learn.NeuralSignatureRegressor()
    expected = model.fit(list(equal), angles).predict(equal)
    listed = np.empty(10, dtype=object)
    listed[:] = [path[:8].tolist() for path in equal]
    for form in (equal, [path.tolist() for path in equal], listed):
        np.testing.assert_array_equal(model.fit(form, angles).predict(form), expected)
    rows = equal[:, :, 0]
    series = model.fit(rows, angles).predict(rows)
    assert model.n_features_in_ == 8
    np.testing.assert_array_equal(model.fit(rows[:, :, None], angles).predict(rows), series)
    assert not hasattr(model, "n_features_in_")
    assert model.channels_ == 1
    np.testing.assert_allclose(model.predict(rows[:, :, None] + 3.0), series, rtol=1e-9)  # steps only


NAN = np.array([[0.0, 0.0], [np.nan, 1.0]])
LINE = np.array([[0.0, 0.0], [1.0, 1.0]])
REFUSED = {
    "another dimension": ([LINE, LINE[:, :1]], {}, r"X\[1\] has 1 channels and X\[0\] has 2"),
    "a single point": ([LINE, LINE[:1]], {}, r"X\[1\] has 1 point"),
    "nan": ([LINE, NAN], {}, r"X\[1\] has nan at point 1, channel 0"),
    "nan in a row": (NAN, {}, "X contains NaN at row 1, column 0"),
    "times that go backwards": ([LINE, LINE[::-1]], {"clock": 0}, r"the times of X\[1\], channel 0, go backwards"),
    "equal without noise": ([LINE, 1 * LINE], {"noise": 0.0}, "noise=0 and rows 0 and 1 are the same"),
    "nothing": ([], {}, "X holds no paths"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_paths(case):
    given, options, words = REFUSED[case]
    clock, noise = options.get("clock"), options.get("noise", 0.01)
    with pytest.raises(ValueError, match=words):
        learn.NeuralSignatureRegressor(Net("relu", clock=clock), noise=noise).fit(given, [0.0, 1.0][: len(given)])


def test_refusals():
    x, y = [LINE, 2 * LINE[:, ::-1], -LINE, LINE[[0, 1, 0]]], ["a", "a", "b", "b"]
    model = learn.NeuralSignatureClassifier().fit(x, y)
    with pytest.raises(dl.errors.InputError, match="X has 1 channels and the model was fitted on 2"):
        model.predict([LINE[:, :1]])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(x, y[:3])
    with pytest.raises(dl.errors.InputError, match="class 'b' has one member, row 1"):
        model.fit(x[:3], ["a", "b", "a"])
    with pytest.raises(dl.errors.DescriptionError, match="net is a ResNet, not driven by paths"):
        learn.NeuralSignatureRegressor(dl.ResNet("relu")).fit(x, [0.0, 1.0, 2.0, 3.0])
    with pytest.raises(dl.errors.DescriptionError, match="have no gradients"):
        learn.NeuralSignatureRegressor().fit(x, [0.0, 1.0, 2.0, 3.0]).log_marginal_likelihood(eval_gradient=True)
    with pytest.raises(dl.errors.PrecisionError, match=r"weight_std\^2 = 1, lengths of the paths"):
        learn.NeuralSignatureRegressor(Net("identity")).fit([1e3 * path for path in x], [0.0, 1.0, 2.0, 3.0])


def test_errors_of_the_solver_are_small_beside_the_noise():
    """A large start hides what paths add to the kernel: what is predicted must not depend on who else is asked."""
    random = np.random.default_rng(0)
    X, y = [], []
    for place in range(28):
        t, turns = np.linspace(0, 1, int(random.integers(8, 16))), (3, 6)[place % 2] + 0.3 * random.standard_normal()
        X.append(np.stack([t, np.sin(turns * t) + 0.1 * random.standard_normal(len(t))], axis=1))
        y.append(X[-1][-1, 1])
    net = dl.layer.ControlledResNet("relu", weight_std=0.7, bias_std=0.5, initial_std=10.0)
    model = dl.learn.NeuralSignatureRegressor(net, noise=1e-3).fit(X[:20], y[:20])
    together, spread = model.predict(X[20:], return_std=True)
    alone = np.concatenate([model.predict([x]) for x in X[20:]])
    assert (np.abs(together - alone) <= 0.05 * spread).all()
    assert np.linalg.eigvalsh(model.posterior_.prior.matrix(X, "nngp")).min() >= -1e-4
