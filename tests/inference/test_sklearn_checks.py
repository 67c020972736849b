"""scikit-learn's own conformance checks; nothing is skipped or expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import deeplimits as dl

learn = dl.learn
ESTIMATORS = [
    learn.NNGPRegressor(depth=3),
    learn.NTKRegressor(depth=3),
    learn.NTKRegressor(depth=3, posterior="gp", normalize_y=True),
    learn.GradientFlowRegressor(depth=3),
    learn.DeepKernelMachineRegressor(depth=1, nu=1e5, noise=1.0, tol=1e-2),
    learn.NTKSVR(depth=3),
    learn.NTKSVC(depth=3),
    learn.NNGPClassifier(depth=3),
    learn.NTKClassifier(depth=3),
    learn.DeepKernelMachineClassifier(depth=1, nu=1e4, inducing_points=5, tol=1e-2),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator, check):
    check(estimator)


def test_defaults_need_no_arguments():
    names = ("NNGPRegressor", "NTKRegressor", "NNGPClassifier", "NTKClassifier")
    for name in names:
        assert getattr(learn, name)().get_params(deep=False)["depth"] == pytest.approx(float("inf"))
