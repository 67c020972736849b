"""A network's kernel as an object for scikit-learn's own Gaussian processes and support-vector machines."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from deeplimits.architecture.layer import Layer
from deeplimits.errors import DescriptionError, InputError, nearest
from deeplimits.inference.estimator import PREFIX, merged
from deeplimits.inference.evidence import tuned
from deeplimits.inference.inputs import plain
from deeplimits.inference.prior import Prior, network
from deeplimits.limits.kernel.ask import KINDS
from deeplimits.limits.kernel.gradient import derivatives


class NetworkKernel(Kernel):
    """The NNGP kernel or the NTK of a network, for `GaussianProcessRegressor(kernel=...)` and `SVC(kernel=...)`.

    theta holds the logarithms of the hyperparameters named in `optimize`, in that order; the derivatives that
    scikit-learn asks for come from automatic differentiation. It adds and multiplies with scikit-learn's kernels.

    Args:
        net: the description; `dl.ResNet("relu")` by default.
        depth: what DEPTH stands for: a whole number or infinity.
        get: "nngp" or "ntk".
        optimize: hyperparameters that scikit-learn may tune: paths such as "weight_std", or "all" (all that start above
            zero), or None.
        between: smallest and largest value of each of them.

    Valid when: widths go to infinity first; as for `dl.kernel`.

    Raises:
        DescriptionError: when it is used: a path without gradient, a kernel of another name.

    Source: lee-2018-deep; jacot-2018-ntk.

    Example:
        >>> from sklearn.svm import SVC
        >>> X, y = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]]), [0, 0, 1, 1]
        >>> SVC(kernel=NetworkKernel(depth=3, get="ntk")).fit(X, y).predict([[0.8, 0.3]]).tolist()
        [0]
        >>> NetworkKernel(depth=3, optimize=["weight_std"]).bounds.round(3).tolist()
        [[-6.908, 6.908]]
    """

    def __init__(
        self,
        net: Layer | None = None,
        depth: float | None = inf,
        get: str = "nngp",
        optimize: Any = None,
        between: tuple[float, float] = (1e-3, 1e3),
    ):
        self.net = net
        self.depth = depth
        self.get = get
        self.optimize = optimize
        self.between = between

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return the kernel, shape (N, M), and on request its derivative in theta, shape (N, N, P).

        Args:
            X: shape (N, d).
            Y: shape (M, d), or None for X.
            eval_gradient: whether to return the derivative as well; for Y=None only.

        Raises:
            InputError: a derivative asked for with Y.
        """
        prior, kind, X = self._prior(), self._kind(), self._rows(X)
        alone = Y is None or Y is X
        value = prior.matrix(X, kind) if alone else prior.cross(X, self._rows(Y), kind)
        if not eval_gradient:
            return value
        if Y is not None:
            raise InputError("NetworkKernel", "eval_gradient with a second set of rows", "leave Y out")
        at = self._tuned()
        if not at:
            return value, np.empty((*value.shape, 0))
        return value, derivatives(prior.net, X, at, self.depth, kind) * np.array(list(at.values()))

    def diag(self, X: Any) -> np.ndarray:
        """Return the diagonal, shape (N,), without the matrix.

        Args:
            X: shape (N, d).
        """
        return self._prior().variances(self._rows(X), self._kind())

    def is_stationary(self) -> bool:
        """Say that the kernel depends on more than the difference of its inputs."""
        return False

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        """What scikit-learn may tune."""
        return [Hyperparameter(PREFIX + path, "numeric", self.between) for path in self._tuned()]

    @property
    def theta(self) -> np.ndarray:
        """Logarithms of the hyperparameters that scikit-learn may tune, shape (P,)."""
        return np.log(np.array(list(self._tuned().values())))

    @theta.setter
    def theta(self, theta: np.ndarray) -> None:
        paths = tuple(self._tuned())
        if len(theta) != len(paths):
            why = f"theta has {len(theta)} entries for {len(paths)} hyperparameters"
            raise InputError("NetworkKernel", why, f"give one logarithm for each of {', '.join(paths) or 'none'}")
        self.net = network(self.net).replace(dict(zip(paths, np.exp(theta).tolist(), strict=True)))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with `deep`, the network's hyperparameters among them."""
        return merged(super().get_params(deep), self.net, deep)

    def set_params(self, **params: Any) -> NetworkKernel:
        """Set parameters; `net__<path>` sets a hyperparameter of the network."""
        inner = {name.removeprefix(PREFIX): value for name, value in params.items() if name.startswith(PREFIX)}
        super().set_params(**{name: value for name, value in params.items() if not name.startswith(PREFIX)})
        if inner:
            self.net = network(self.net).replace(inner)
        return self

    def __repr__(self) -> str:
        return f"NetworkKernel({network(self.net)!r}, depth={self.depth}, get={self.get!r}, optimize={self.optimize!r})"

    def _prior(self) -> Prior:
        return Prior(network(self.net), self.depth)

    def _kind(self) -> str:
        if self.get not in KINDS:
            raise DescriptionError("NetworkKernel", f"get={self.get!r} is not a kernel", nearest(str(self.get), KINDS))
        return self.get

    def _tuned(self) -> dict[str, float]:
        return tuned("NetworkKernel", network(self.net), self.optimize, None)

    def _rows(self, X: Any) -> np.ndarray:
        return np.asarray(plain(X), dtype=np.float64)
