"""The evidence: its gradient against central differences, its maximum against scikit-learn's."""

from math import inf

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel

import deeplimits as dl
from deeplimits.inference.evidence import maximise
from tests.inference.problems import NET, OUTPUTS, X, Y, differences

NNGP, NTK, Kernel = dl.learn.NNGPRegressor, dl.learn.NTKRegressor, dl.learn.NetworkKernel
HALF = X[:20]
CASES = {
    "erf, biases": (NET, 5),
    "erf, biases, depth infinity": (NET, inf),
    "relu, one function of the angle": (dl.ResNet("relu", weight_std=1.2), 16),
    "relu, two-layer branches": (dl.ResNet("relu", branch_layers=2, inner_std=1.1, inner_bias_std=0.2), 4),
    "tanh": (dl.Mlp("tanh", 1.2, 0.2), 3),
}


# Slow: at depth infinity each of the twenty evidences of a test writes the flow anew.
SLOW = [pytest.param(case, marks=[pytest.mark.slow] if "infinity" in case else []) for case in CASES]


@pytest.mark.parametrize("case", SLOW)
@pytest.mark.parametrize("kind", [NNGP, NTK], ids=["nngp", "ntk"])
def test_gradient(case, kind):
    """1e-6 of the gradient's size, as the error of the differences is below 1e-8 there."""
    options = {"posterior": "gp"} if kind is NTK else {}
    model = kind(*CASES[case], noise=0.2, normalize_y=True, **options).fit(HALF, OUTPUTS[:20])
    value, gradient = model.log_marginal_likelihood(eval_gradient=True)
    assert value == pytest.approx(model.log_marginal_likelihood(), abs=1e-9)
    at = {path: v for path, v in (model.net_.hyperparameters() | {"noise": 0.2}).items() if v > 0}
    size = max(abs(slope) for slope in gradient.values())
    for path, expected in differences(lambda hyper: model.log_marginal_likelihood(hyper), at):
        assert abs(gradient[path] - expected) <= 1e-6 * size, path


def test_maximum_is_that_of_scikit_learn():
    """Both end where the gradient vanishes to about 1e-5, so that the values agree to its square."""
    net, y = dl.ResNet("relu"), Y + 0.3 * np.random.default_rng(5).standard_normal(40)
    ours = NNGP(net, 16, 0.1, optimize=["weight_std", "readin_std", "noise"]).fit(X, y)
    kernel = Kernel(net, 16, optimize=["weight_std", "readin_std"]) + WhiteKernel(0.1)
    theirs = GaussianProcessRegressor(kernel, alpha=0.0).fit(X, y)
    assert ours.log_marginal_likelihood_value_ == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-4)
    assert ours.log_marginal_likelihood_value_ > NNGP(net, 16, 0.1).fit(X, y).log_marginal_likelihood() + 1
    assert ours.log_marginal_likelihood() == pytest.approx(ours.log_marginal_likelihood_value_, abs=1e-9)
    _, gradient = ours.log_marginal_likelihood({"weight_std": ours.net_.weight_std}, eval_gradient=True)
    assert abs(gradient["weight_std"] * ours.net_.weight_std) <= 1e-3 * abs(ours.log_marginal_likelihood_value_)


def test_everything_leaves_what_is_idle_and_zero():
    y = Y + 0.3 * np.random.default_rng(5).standard_normal(40)
    model = NTK(dl.ResNet("relu"), 3, 0.1, posterior="gp", optimize="all").fit(X, y)
    before, after = dl.ResNet("relu").hyperparameters(), model.net_.hyperparameters()
    assert {path for path in before if before[path] != after[path]} == {
        *("weight_std", "readin_std", "readout_std", "scale")
    }
    assert model.noise_ != 0.1


def test_an_end_that_is_not_a_maximum_is_told():
    with pytest.warns(dl.errors.AccuracyWarning, match=r"still rises where a reached 100"):
        found = maximise("fit", lambda at: (np.log(at["a"]), {"a": 1 / at["a"]}), {"a": 1.0}, False)
    assert found.values["a"] == pytest.approx(100)


def test_a_step_too_far_is_taken_back():
    def objective(at):
        if at["a"] > 3:
            raise dl.errors.PrecisionError("kernel", "too large", "smaller")
        return -((at["a"] - 2.5) ** 2) * 1e3, {"a": -2e3 * (at["a"] - 2.5)}

    assert maximise("fit", objective, {"a": 1.0}, False).values["a"] == pytest.approx(2.5, abs=1e-4)


REFUSED = {
    "activation": r"optimize='activation': Erf\(.*\) is not a number that the kernel has a gradient in",
    "weight_sdt": r"no hyperparameter with a gradient. Fix: did you mean 'weight_std'",
    "depth": r"optimize='depth' is no hyperparameter with a gradient",
    3: "optimize=3 is no hyperparameter with a gradient",
    "readout_bias_std": "0 has no logarithm",
    "inner_std": "does not depend on it, its gradient is zero",
}


@pytest.mark.parametrize("path", REFUSED)
def test_refused_hyperparameters(path):
    with pytest.raises(dl.errors.DescriptionError, match=REFUSED[path]):
        NNGP(NET, 3, optimize=path).fit(X, Y)


def test_the_law_of_trained_networks_has_no_evidence():
    with pytest.raises(dl.errors.DescriptionError, match="no evidence to maximise"):
        NTK(NET, 3, optimize="all").fit(X, Y)
    with pytest.raises(dl.errors.DescriptionError, match="no likelihood and no evidence"):
        NTK(NET, 3).fit(X, Y).log_marginal_likelihood()
    with pytest.raises(dl.errors.InputError, match="did you mean 'scale'"):
        NNGP(NET, 3).fit(X, Y).log_marginal_likelihood({"scal": 1.0})
