"""Small problems and kernels that the tests of estimators share."""

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

import deeplimits as dl

NET, DEPTH = dl.ResNet("erf", bias_std=0.3), 5
RNG = np.random.default_rng(3)
X, NEW = RNG.standard_normal((40, 4)), RNG.standard_normal((15, 4))
Y = np.sin(X.sum(1)) + 0.1 * RNG.standard_normal(40)
OUTPUTS = np.stack([Y, 3 * X[:, 0] + 2], axis=1)


class Precomputed(Kernel):
    """A kernel of dl.kernel for scikit-learn, written apart from the library's own."""

    def __init__(self, get="nngp"):
        self.get = get

    def __call__(self, A, B=None, eval_gradient=False):
        return dl.kernel(NET, A, B, depth=DEPTH, get=self.get)

    def diag(self, A):
        return np.array([dl.kernel(NET, row[None], depth=DEPTH, get=self.get)[0, 0] for row in A])

    def is_stationary(self):
        return False


def differences(likelihood, values):
    """Central differences of a function of {path: value}, with what they are good to.

    The error is h^2/6 f''' + rounding/h; between steps h and 2h it is told by Richardson's rule.
    """
    for path, value in values.items():
        slopes = []
        for h in (1e-4 * value, 2e-4 * value):
            slopes.append((likelihood({path: value + h}) - likelihood({path: value - h})) / (2 * h))
        yield path, (4 * slopes[0] - slopes[1]) / 3
