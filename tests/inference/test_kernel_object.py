"""The kernel inside scikit-learn's own estimators."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel
from sklearn.svm import SVC

import deeplimits as dl
from tests.inference.problems import DEPTH, NET, NEW, X, Y

Kernel = dl.learn.NetworkKernel
PATHS = ["weight_std", "readin_std", "scale"]


@pytest.mark.parametrize("net", [NET, dl.ResNet("relu")], ids=["erf", "relu"])
@pytest.mark.parametrize("get", ["nngp", "ntk"])
def test_values_diagonal_and_derivatives(net, get):
    kernel, rows = Kernel(net, DEPTH, get, PATHS), np.vstack([X[:10], X[:1], -X[1:2]])
    value, slope = kernel(rows, eval_gradient=True)
    np.testing.assert_array_equal(value, dl.kernel(net, rows, depth=DEPTH, get=get))
    np.testing.assert_array_equal(kernel(rows, NEW), dl.kernel(net, rows, NEW, depth=DEPTH, get=get))
    np.testing.assert_allclose(kernel.diag(rows), value.diagonal(), rtol=1e-14)
    assert slope.shape == (12, 12, 3)
    for place, moved in enumerate(1e-4 * np.eye(3)):
        ends = [kernel.clone_with_theta(kernel.theta + sign * moved)(rows) for sign in (1, -1)]
        assert np.abs(slope[..., place] - (ends[0] - ends[1]) / 2e-4).max() <= 1e-6 * np.abs(slope).max()


def test_theta_and_parameters():
    kernel = Kernel(NET, DEPTH, optimize=PATHS, between=(0.1, 10.0))
    np.testing.assert_allclose(np.exp(kernel.theta), [1.0, 1.0, 1.0])
    np.testing.assert_allclose(np.exp(kernel.bounds), [[0.1, 10.0]] * 3)
    assert [h.name for h in kernel.hyperparameters] == ["net__weight_std", "net__readin_std", "net__scale"]
    kernel.theta = np.log([1.5, 0.5, 2.0])
    assert kernel.net.hyperparameters()["readin_std"] == pytest.approx(0.5)
    assert NET.hyperparameters()["readin_std"] == 1.0
    assert clone(kernel) == kernel and clone(kernel) is not kernel
    assert kernel.get_params()["net__weight_std"] == pytest.approx(1.5)
    assert kernel.set_params(net__bias_std=0.7).net.bias_std == 0.7
    assert Kernel(NET).n_dims == 0 and not kernel.is_stationary()
    with pytest.raises(dl.errors.InputError, match="theta has 2 entries for 3"):
        kernel.theta = np.zeros(2)
    with pytest.raises(dl.errors.DescriptionError, match="did you mean 'ntk'"):
        Kernel(NET, 3, "ntkk")(X)


def test_in_a_gaussian_process():
    """The posterior of our own estimator, and a sum with scikit-learn's kernels tuned by its optimiser."""
    fixed = GaussianProcessRegressor(Kernel(NET, DEPTH), alpha=0.1).fit(X, Y)
    ours = dl.learn.NNGPRegressor(NET, DEPTH, 0.1).fit(X, Y)
    for found, wanted in zip(ours.predict(NEW, True), fixed.predict(NEW, True), strict=True):
        assert np.abs(found - wanted).max() <= 1e-8
    y = Y + 0.3 * np.random.default_rng(5).standard_normal(40)
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * Kernel(NET, 3, optimize=["weight_std"]) + WhiteKernel(0.1)
    tuned = GaussianProcessRegressor(kernel).fit(X, y)
    assert tuned.log_marginal_likelihood_value_ > tuned.log_marginal_likelihood(kernel.theta) + 0.1


def test_in_a_support_vector_machine():
    labels = (Y > 0).astype(int)
    gram = dl.kernel(NET, X, depth=DEPTH, get="ntk")
    machine = SVC(kernel=Kernel(NET, DEPTH, "ntk")).fit(X, labels)
    expected = SVC(kernel="precomputed").fit(gram, labels)
    cross = dl.kernel(NET, NEW, X, depth=DEPTH, get="ntk")
    np.testing.assert_allclose(machine.decision_function(NEW), expected.decision_function(cross), atol=1e-6)
