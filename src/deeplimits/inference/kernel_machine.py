"""What the kernel machines of infinitely wide networks have in common, as scikit-learn estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from deeplimits.architecture.size import whole
from deeplimits.errors import DescriptionError, nearest
from deeplimits.inference.estimator import NetworkEstimator
from deeplimits.inference.prior import Prior, row_blocks
from deeplimits.limits.training.lazy.inputs import trainable
from deeplimits.limits.training.machine import bound as bounds
from deeplimits.limits.training.machine.ask import positive, told
from deeplimits.limits.training.machine.loss import Loss
from deeplimits.limits.training.machine.solve import solve

KINDS = ("ntk", "nngp")
MATRICES = 3  # the kernel, its free part and the factor of that


class KernelMachine(NetworkEstimator):
    """What the two machines have in common: one Gram matrix, a dual problem for each column of targets."""

    kernel: Any
    loss: Any
    C: Any
    tol: Any
    max_iter: Any
    optimize = None

    def _settings(self, where: str, loss: Loss) -> tuple[Prior, Loss, float, float, int]:
        if self.kernel not in KINDS:
            raise DescriptionError(where, f"kernel={self.kernel!r}", nearest(str(self.kernel), KINDS))
        price, tol = positive(where, "C", self.C), positive(where, "tol", self.tol)
        prior = self._prior()
        trainable(where, prior.net)
        return prior, loss, price, tol, whole(where, "max_iter", self.max_iter)

    def _solve(self, where: str, settings: tuple, rows: np.ndarray, targets: np.ndarray) -> None:
        """Keep the machine of every column of the targets, (N, problems)."""
        prior, loss, price, tol, most = settings
        matrix = prior.matrix(rows, self.kernel)
        self.solutions_ = [solve(matrix, np.ascontiguousarray(y), loss, price, tol, most) for y in targets.T]
        self._fitted, self._targets = (prior, self.kernel, rows, np.diagonal(matrix).copy()), targets
        self.net_ = prior.net
        self.weights_ = np.stack([one.weights for one in self.solutions_], axis=1)
        self.support_ = np.flatnonzero(self.weights_.any(axis=1))
        self.n_iter_ = max(1, max(one.sweeps for one in self.solutions_))
        worst = max(self.solutions_, key=lambda one: one.share)
        self.gap_, self.converged_ = worst.share, worst.converged
        told(where, worst, tol, stacklevel=5)

    def _outputs(self, X: Any) -> np.ndarray:
        """Return the functions at new rows, (M, problems)."""
        check_is_fitted(self)
        prior, kind, rows, _ = self._fitted
        new, support = self._inputs.rows(self, X), self.support_
        if not len(support):
            return np.zeros((len(new), len(self.solutions_)))
        parts = [prior.cross(new[part], rows[support], kind) for part in row_blocks(len(new), len(support))]
        return np.concatenate([part @ self.weights_[support] for part in parts])

    def _bounds(self, loss: Loss, delta: Any) -> Any:
        check_is_fitted(self)
        where, diagonal = f"{type(self).__name__}.bound", self._fitted[3]
        found = [
            bounds.bound(where, loss.value(one.outputs, y), one.weights, one.outputs, diagonal, delta)
            for one, y in zip(self.solutions_, self._targets.T, strict=True)
        ]
        return found[0] if len(found) == 1 else found
