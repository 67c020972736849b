"""The mode against scikit-learn's, the averaged logistic against mpmath."""

import mpmath
import numpy as np
import pytest
from scipy.special import expit
from sklearn.gaussian_process import GaussianProcessClassifier

from deeplimits.errors import PrecisionError
from deeplimits.inference.laplace import logistic_normal, mode
from tests.inference.problems import NEW, Precomputed, X, Y

TARGET = (Y > 0).astype(float)


def exact(mean, variance):
    mean, spread = mpmath.mpf(mean), mpmath.sqrt(variance)
    turns = [-mean / spread + t / spread for t in (-40, -10, -3, 0, 3, 10, 40)]
    places = sorted({-14, 14, *range(-12, 13, 3), *(float(t) for t in turns if abs(t) < 14)})

    def value(z):
        return mpmath.exp(-z * z / 2) / (1 + mpmath.exp(-(mean + spread * z)))

    return mpmath.quad(value, places) / mpmath.sqrt(2 * mpmath.pi)


@pytest.mark.parametrize("mean", [0.0, 0.3, -2.0, 7.0, -25.0])
@pytest.mark.parametrize("variance", [1e-6, 0.3, 0.999, 1.0, 9.0, 400.0, 1e5])
def test_averaged_logistic(mean, variance):
    found = logistic_normal(np.array([mean]), np.array([variance]))[0]
    assert abs(found - float(exact(mean, variance))) <= 4e-15


def test_averaged_logistic_without_variance():
    means = np.linspace(-50, 50, 11)
    np.testing.assert_allclose(logistic_normal(means, np.zeros(11)), expit(means), rtol=1e-14)


@pytest.mark.parametrize("get", ["nngp", "ntk"])
def test_mode_is_that_of_scikit_learn(get):
    theirs = GaussianProcessClassifier(Precomputed(get), optimizer=None).fit(X, TARGET).base_estimator_
    kernel = Precomputed(get)
    found = mode("fit", kernel(X), TARGET)
    mean, variance = found.latent(kernel(NEW, X), kernel.diag(NEW))
    for ours, wanted in zip((mean, variance), theirs.latent_mean_and_variance(NEW), strict=True):
        assert np.abs(ours - wanted).max() <= 1e-8
    assert found.evidence == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-8)
    f = kernel(X) @ found.residual
    assert np.abs(TARGET - expit(f) - found.residual).max() <= 1e-10


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e4])
def test_mode_of_kernels_of_every_size(size):
    """Newton's step alone diverges for large kernels; duplicates make them singular."""
    rows = np.vstack([X, X])
    kernel = size * Precomputed("ntk")(rows)
    target = np.concatenate([TARGET, TARGET])
    found = mode("fit", kernel, target)
    f = kernel @ found.residual
    assert np.abs(target - expit(f) - found.residual).max() <= 1e-6
    assert np.isfinite(found.evidence) and found.evidence < 0


def test_a_kernel_that_is_none():
    with pytest.raises(PrecisionError, match=r"smallest eigenvalue -30"):
        mode("fit", np.array([[0.0, 30.0], [30.0, 0.0]]), np.array([0.0, 1.0]))
