"""The infinitely deep classifier against the NTK solved at the depths where theory says they agree."""

from __future__ import annotations

from math import factorial

import numpy as np
import pytest
import torch
from sklearn.utils.estimator_checks import parametrize_with_checks

import deeplimits as dl
from deeplimits.errors import DeepLimitsError, InputError, NoLimit, PrecisionError

Classifier = dl.learn.InfiniteDepthClassifier
ZERO_ROW = "one of its integer rows is zero: it has no direction on the sphere and is refused"


def sphere(rng, count, features=3, positive=True):
    x = rng.standard_normal((count, features))
    x = np.abs(x) if positive else x
    return x / np.linalg.norm(x, axis=1)[:, None]


def activation(squares):
    """phi with Hermite coefficients sqrt(squares)."""
    scaled = [(a / factorial(k)) ** 0.5 for k, a in enumerate(squares)]
    return dl.act.Polynomial(tuple(np.polynomial.hermite_e.herme2poly(scaled)))


def ntk(squares, c, depth):
    """Theta_0 = c, Theta_{l+1} = f(c_l) + Theta_l f'(c_l), entry by entry."""
    f = np.polynomial.Polynomial(squares)
    slope, theta = f.deriv(), c
    for _ in range(depth):
        theta, c = f(c) + theta * slope(c), f(c)
    return theta


def solved(squares, depth, train, new, y, ridge=0.0):
    """Signs of the NTK regression, rows of K(x, X) rescaled before the solve."""
    gram = ntk(squares, train @ train.T, depth)
    np.fill_diagonal(gram, ntk(squares, np.ones(1), depth)[0])
    cross = ntk(squares, np.clip(new @ train.T, -1, 1), depth)
    cross /= np.abs(cross).max(axis=1, keepdims=True)
    return np.sign(cross @ np.linalg.solve(gram + ridge * np.eye(len(gram)), y))


@parametrize_with_checks(
    [Classifier(), Classifier("relu"), Classifier(dl.act.Hermite(2))],
    expected_failed_checks=lambda _: {"check_estimators_dtypes": ZERO_ROW},
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.parametrize("positive", [True, False], ids=["positive orthant", "full sphere"])
def test_depth_20_is_the_solve_of_the_ntk(positive):
    rng = np.random.default_rng(0)
    train, new = (sphere(rng, n, positive=positive) for n in (400, 1500))
    y = rng.choice([-1.0, 1.0], 400)
    found = Classifier(dl.learn.optimal_activation(2), depth=20).fit(train, y).predict(new)
    squares = [0, 0.5, 0, 0.5]
    assert (found == solved(squares, 20, train, new, y)).all()
    net = dl.Mlp(dl.learn.optimal_activation(2), weight_std=1.0)
    gram = dl.kernel(net, train * 3**0.5, depth=20, get="ntk")
    cross = dl.kernel(net, new * 3**0.5, train * 3**0.5, depth=20, get="ntk")
    cross /= np.abs(cross).max(axis=1, keepdims=True)
    assert (found == np.sign(cross @ np.linalg.solve(gram, y))).all()


def test_the_ntk_tends_to_the_infinitely_deep_classifier():
    """The kernel sum differs from its limit by 1/(L (1 - c)): few inputs, far apart, and many layers."""
    rng = np.random.default_rng(1)
    train, new = sphere(rng, 12), sphere(rng, 200)
    new = new[(new @ train.T).max(axis=1) < 0.99]
    y = rng.choice([-1.0, 1.0], 12)
    phi = dl.learn.optimal_activation(2)
    limit = Classifier(phi).fit(train, y).decision_function(new)
    wrong = [np.abs(Classifier(phi, depth=n).fit(train, y).decision_function(new) - limit) for n in (200, 400, 800)]
    assert wrong[2].max() < 0.05
    ratio = wrong[0].mean() / wrong[1].mean(), wrong[1].mean() / wrong[2].mean()
    assert 1.7 < ratio[0] < 2.05
    assert 1.85 < ratio[1] < 2.05


def test_majority():
    rng = np.random.default_rng(2)
    train, new = sphere(rng, 401), sphere(rng, 300)
    y = rng.choice([-1.0, 1.0], 401, p=[0.45, 0.55])
    squares = [0.3, 0.3, 0.2, 0.0, 0.0, 0.2]
    assert np.polynomial.Polynomial(squares).deriv()(1.0) == pytest.approx(1.7)
    model = Classifier(activation(squares)).fit(train, y)
    assert model.case_ == "majority vote"
    for depth in (40, 60):
        assert (model.predict(new) == solved(squares, depth, train, new, y)).all()
    assert (model.predict(train) == y).all()


def test_majority_below_one_needs_a_ridge():
    rng = np.random.default_rng(3)
    train, new = sphere(rng, 101), sphere(rng, 300)
    y = rng.choice([-1.0, 1.0], 101, p=[0.3, 0.7])
    squares = [0.4, 0.6]
    with pytest.raises(NoLimit, match=r"B' = 0\.6 < 1"):
        Classifier(activation(squares)).fit(train, y)
    model = Classifier(activation(squares), ridge=1e-3).fit(train, y)
    for depth in (40, 60):
        assert (model.predict(new) == solved(squares, depth, train, new, y, ridge=1e-3)).all()


def test_nearest_neighbour():
    rng = np.random.default_rng(4)
    train, new = sphere(rng, 400), sphere(rng, 500)
    y = rng.choice([-1.0, 1.0], 400)
    model = Classifier(dl.act.Hermite(2)).fit(train, y)
    nearest = y[(new @ train.T).argmax(axis=1)]
    assert model.case_ == "1-nearest neighbour"
    assert (model.predict(new) == nearest).all()
    eight, twelve, deep = (
        (Classifier(dl.act.Hermite(2), depth=depth).fit(train, y).predict(new) == nearest).mean()
        for depth in (8, 12, 22)
    )
    assert eight < twelve < deep
    assert twelve >= 0.95
    assert deep >= 0.998
    assert (solved([0, 0, 1.0], 12, train, new, y) == nearest).mean() >= 0.95


@pytest.mark.parametrize("squares", [[0, 0, 0.5, 0.5], [0, 0, 0.2, 0.8], [0, 0, 0, 1.0], [0, 0, 0, 0.4, 0.6]])
def test_nearest_neighbour_on_the_full_sphere(squares):
    rng = np.random.default_rng(5)
    train, new = sphere(rng, 20, positive=False), sphere(rng, 1000, positive=False)
    y = rng.choice([-1.0, 1.0], 20)
    phi = activation(squares)
    limit, deep = (Classifier(phi, depth=depth).fit(train, y).predict(new) for depth in (np.inf, 22))
    assert (limit == deep).mean() >= 0.999


def test_equal_rows_count_once_and_ties_vote_together():
    X = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
    model = Classifier(dl.act.Hermite(2)).fit(X, ["a", "a", "b", "b"])
    assert len(model.rows_) == 2
    assert model.targets_[:, 0].tolist() == pytest.approx([-1 / 3, 1.0])
    assert model.decision_function([[1.0, 1.0]])[0] == pytest.approx(1 / 3)
    assert model.predict([[5.0, 1.0], [1.0, 5.0], [7.0, 0.0]]).tolist() == ["a", "b", "a"]


def test_opposite_rows_of_odd_and_even_activations():
    X = np.array([[1.0, 0.2], [-1.0, -0.2], [0.1, 1.0]])
    odd = Classifier("erf").fit(X, [1, 0, 1])
    assert len(odd.rows_) == 2
    assert odd.predict([[2.0, 0.4], [-2.0, -0.4]]).tolist() == [1, 0]
    even = Classifier(dl.act.Hermite(2)).fit(X, [1, 0, 1])
    assert even.targets_[:, 0].tolist() == [0.0, 1.0]


def test_several_classes_of_any_type():
    rng = np.random.default_rng(6)
    centres = np.eye(3)
    y = rng.integers(0, 3, 300)
    X = np.abs(centres[y] + 0.2 * rng.standard_normal((300, 3)))
    for names in (np.array(["x", "y", "z"]), np.array([10, 20, 30]), np.array([2.0, 3.0, 5.0])):
        model = Classifier(dl.learn.optimal_activation(2)).fit(X[:200], names[y[:200]])
        assert (model.predict(X[200:]) == names[y[200:]]).mean() > 0.9
        assert model.decision_function(X[200:]).shape == (100, 3)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"activation": "rleu"}, DeepLimitsError, "did you mean 'relu'"),
        ({"activation": "sign"}, NoLimit, "a jump"),
        ({"activation": "identity"}, NoLimit, "linear"),
        ({"activation": dl.act.Exp(rate=40.0)}, NoLimit, "inf for a standard normal"),
        ({"activation": dl.act.Custom(lambda x: (x**2).exp())}, NoLimit, "infinite"),
        ({"activation": dl.act.Custom(torch.relu)}, PrecisionError, "may be zero"),
        ({"activation": "relu", "depth": 8}, DeepLimitsError, "E phi = "),
        ({"ridge": -1.0}, DeepLimitsError, "ridge=-1.0"),
        ({"depth": 0}, InputError, "depth=0"),
    ],
)
def test_refused(given, error, words):
    with pytest.raises(error, match=words):
        Classifier(**given).fit(np.eye(3), [0, 1, 1])


def test_bad_data_is_refused():
    with pytest.raises(InputError, match="row 1 is zero"):
        Classifier().fit(np.array([[1.0, 2.0], [0.0, 0.0]]), [0, 1])
    with pytest.raises(InputError, match="one class"):
        Classifier().fit(np.eye(3), ["a", "a", "a"])
    with pytest.raises(InputError, match="NaN at row 1"):
        Classifier().fit(np.array([[1.0, 2.0], [np.nan, 0.0]]), [0, 1])
