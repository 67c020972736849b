"""The classifier that an infinitely wide, then infinitely deep fully-connected network is."""

from __future__ import annotations

from math import inf
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from deeplimits.architecture.size import whole
from deeplimits.errors import DescriptionError
from deeplimits.inference import inputs
from deeplimits.limits.depth.dual_map import SINGULAR, check_ridge, dual_map, reason
from deeplimits.limits.depth.optimal import MOST, optimal_activation
from deeplimits.limits.depth.singular import singular_kernel
from deeplimits.limits.depth.sphere import cosines, merge, unit_rows
from deeplimits.limits.depth.votes import votes

ENTRIES = 131_072
NAME = "InfiniteDepthClassifier"


class InfiniteDepthClassifier(ClassifierMixin, BaseEstimator):
    """Regression with the NTK of a fully-connected network on -1 and 1, its sign taken as depth goes to infinity.

    f(x) = sign lim_L NTK_L(x, X) NTK_L(X, X)^-1 y. With A = E phi, A' = E phi' and B' = E phi'^2 of the activation
    divided by sqrt(E phi^2), z standard normal, the limit is

    - A = 0, A' != 0: a singular kernel, sign sum_i y_i psi(c_i), psi ~ |x - x_i|^-alpha, alpha = -4 log|A'| / log B';
    - A = A' = 0: the 1-nearest neighbour;
    - A != 0: the majority vote (where B' < 1 only with a ridge).

    Rows are divided by their norms; a row of zeros is refused. No biases; weight_std is 1 / sqrt(E phi^2), so that
    every layer keeps the norm. Negative cosines are handled: psi is negative there for an odd activation, and such an
    input votes for the other classes, as the NTK has it. Everything is computed in logarithms.
    Equal rows count once, with their mean target; a row equal to a training row takes its label; equally near
    neighbours vote together; a vote of zero goes to the first class.
    Several classes: one against the rest, the largest sum wins.

    Args:
        activation: a name or an object of `dl.act`; None for `optimal_activation(d)` with d the number of features less
            one (at least 1, at most 128). Data that fill a sphere of smaller dimension d do better with theirs.
        depth: infinity; or a number of layers, where A = 0: sign sum_i y_i NTK_L(x, x_i), which the solve equals once
            the diagonal of the NTK outgrows the rest (from 20 layers on at 400 inputs). It tends to the limit as
            1 / (L (1 - c)) falls: slowly, for close inputs.
        ridge: added to the diagonal of the NTK and kept while depth grows. It matters where A != 0 and B' < 1 only.

    Attributes:
        case_: "singular kernel", "1-nearest neighbour" or "majority vote".
        reason_: why, with A, A', B' and alpha.
        alpha_: exponent of the singular kernel, NaN in the other cases.
        dual_: the map of cosines of one layer.
        classes_: labels, sorted.
        rows_: distinct unit rows, shape (N, n_features).
        targets_: mean target of each against the rest, shape (N, 1) for two classes, else (N, n_classes).

    Valid when: width goes to infinity first, then depth; every layer is trained, by gradient flow on squares.

    Raises:
        NoLimit: infinite variance, a jump, a linear activation, or A != 0 and B' < 1 without a ridge.
        InputError: a row of zeros, a single class.

    Source: radhakrishnan-2022-wide-deep-optimal.

    Example:
        >>> X = [[1.0, 0.1], [1.0, 0.2], [0.1, 1.0], [0.3, 1.0]]
        >>> model = InfiniteDepthClassifier().fit(X, ["flat", "flat", "steep", "steep"])
        >>> model.case_, round(model.alpha_, 6), model.predict([[2.0, 0.3], [0.0, 5.0]]).tolist()
        ('singular kernel', 1.0, ['flat', 'steep'])
    """

    def __init__(self, activation: Any = None, depth: float = inf, ridge: float = 0.0):
        self.activation = activation
        self.depth = depth
        self.ridge = ridge

    def fit(self, X: Any, y: Any) -> InfiniteDepthClassifier:
        """Normalise the rows, merge equal ones, and decide the case from the activation.

        Args:
            X: shape (N, n_features).
            y: labels of any type, shape (N,).

        Raises:
            InputError: a row of zeros, entries that are not finite, a single class.
            NoLimit: the activation has no such classifier.
        """
        ridge, depth = self._ridge(), whole(NAME, "depth", self.depth, infinite=True)
        X, self.classes_, codes = inputs.classification(self, X, y, members=1)
        rows = unit_rows(f"{NAME}.fit(X)", X)
        features = rows.shape[1]
        given = optimal_activation(min(max(features - 1, 1), MOST)) if self.activation is None else self.activation
        self.dual_ = dual_map(given)
        check_ridge(self.dual_, ridge)
        if depth != inf and self.dual_.mean:
            fix = "use depth=inf, or dl.learn.NTKClassifier at a finite depth"
            raise DescriptionError(
                NAME, f"depth={depth} with E phi = {self.dual_.mean:.4g} != 0 is not a kernel sum", fix
            )
        self.case_, self.reason_, self.alpha_ = self.dual_.case, reason(self.dual_, ridge), self.dual_.alpha
        if self.case_ == SINGULAR and depth == inf:
            singular_kernel(self.dual_)
        targets = 2.0 * np.eye(len(self.classes_))[codes] - 1
        self.rows_, self.targets_ = merge(rows, targets[:, 1:] if targets.shape[1] == 2 else targets, self.dual_.parity)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the weighted means of the targets, in [-1, 1].

        Where all cosines are nonnegative, (1 + value) / 2 is the share of the class in the votes.

        Returns:
            Shape (M,) for two classes, positive for the second; else (M, n_classes).
        """
        check_is_fitted(self)
        rows = unit_rows(f"{NAME}.predict(X)", inputs.rows(self, X))
        size = max(1, ENTRIES // len(self.rows_))
        blocks = [
            votes(self.dual_, cosines(rows[start : start + size], self.rows_), self.depth) @ self.targets_
            for start in range(0, len(rows), size)
        ]
        values = np.concatenate(blocks)
        return values[:, 0] if len(self.classes_) == 2 else values

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of each row, shape (M,)."""
        values = self.decision_function(X)
        return self.classes_[(values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)]

    def _ridge(self) -> float:
        if isinstance(self.ridge, bool) or not isinstance(self.ridge, Real) or not 0 <= self.ridge < inf:
            raise DescriptionError(NAME, f"ridge={self.ridge!r} is not a number >= 0", "give e.g. ridge=1e-3")
        return float(self.ridge)
