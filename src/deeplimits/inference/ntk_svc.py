"""Classification by the kernel machine of infinitely wide networks, as a scikit-learn estimator."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from deeplimits.architecture.layer import Layer
from deeplimits.errors import DescriptionError, nearest
from deeplimits.inference.estimator import check_fit
from deeplimits.inference.kernel_machine import MATRICES, KernelMachine
from deeplimits.limits.training.machine.certificate import NORMS, radii, strength
from deeplimits.limits.training.machine.loss import CLASSES, Hinge, loss_of


class NTKSVC(ClassifierMixin, KernelMachine):
    """Classification by the machine that wide networks become when their weights decay towards their start.

    |f|^2/2 + C sum l(y f(x)) at its least, f in the space of the kernel, no bias; for more than two classes one problem
    each against the rest, and the largest output. It is where infinitely wide networks end that minimise
    sum l + (decay/2) |weights - weights at the start|^2, C = 1/decay, their outputs at the start taken off. Decay of
    the readout towards zero is another machine, that of kernel="nngp": given time it takes the hidden layers' part of
    the NTK away.

    Args:
        net: the description; `dl.ResNet("relu")` by default.
        depth: what DEPTH stands for: a whole number or infinity.
        kernel: "ntk" (every layer trained, decay to the start) or "nngp" (decay of the readout to zero).
        loss: "hinge" max(0, 1 - y f), "squared_hinge" its square, or "logistic" log(1 + exp(-y f)).
        C: price of the loss, 1/decay.
        tol: of the gap between primal and dual, over the objective.
        max_iter: most sweeps over the rows.

    Attributes:
        classes_: the labels, sorted.
        net_: the network.
        weights_: b of f(x) = sum b_i K(x, x_i), shape (N, problems).
        support_: rows that carry weight.
        solutions_: of each problem, with its objective and gap.
        converged_, gap_, n_iter_: whether each gap is below tol, the largest over its objective, most sweeps.

    Valid when: as for `dl.gradient_flow`: widths go to infinity first, small steps, training to the end.

    Raises:
        DeepLimitsError: in `fit`; see there.

    Source: chen-2021-nn-svm; hsieh-2008-dual-coordinate.

    Example:
        >>> from deeplimits.architecture.zoo import Mlp
        >>> X, y = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]]), ["a", "a", "b", "b"]
        >>> model = NTKSVC(Mlp("relu"), depth=1, C=10.0).fit(X, y)
        >>> model.predict([[0.8, 0.3], [0.2, 0.7]]).tolist(), model.certify([[0.8, 0.3]]).round(3).tolist()
        (['a', 'b'], [0.071])
    """

    def __init__(
        self,
        net: Layer | None = None,
        depth: float | None = inf,
        kernel: str = "ntk",
        loss: str = "hinge",
        C: float = 1.0,
        tol: float = 1e-8,
        max_iter: int = 5000,
    ):
        self.net = net
        self.depth = depth
        self.kernel = kernel
        self.loss = loss
        self.C = C
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any) -> NTKSVC:
        """Find the machine of rows and labels.

        Args:
            X: shape (N, d); numpy, pandas or torch.
            y: labels, shape (N,).

        Raises:
            InputError: entries that are not finite, targets that are no labels, a class with one member, a C or tol
                that is not above zero.
            DescriptionError: an unknown kernel or loss, a network without a readout.
            NoLimit: the network has no limit at this depth.
            MemoryNeeded: the kernel does not fit.
        """
        where = f"{type(self).__name__}.fit"
        settings = self._settings(where, loss_of(where, self.loss, known=CLASSES))
        rows, self.classes_, place = self._inputs.classification(self, X, y)
        check_fit(where, len(rows), MATRICES, "fit on a subset")
        problems = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        targets = np.stack([np.where(place == index, 1.0, -1.0) for index in problems], axis=1)
        self._solve(where, settings, rows, targets)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return f at new rows, shape (M,) for two classes (above 0: the second), else (M, C).

        Args:
            X: shape (M, d).
        """
        found = self._outputs(X)
        return found[:, 0] if found.shape[1] == 1 else found

    def predict(self, X: Any) -> np.ndarray:
        """Return the class at new rows, shape (M,).

        Args:
            X: shape (M, d).
        """
        found = self.decision_function(X)
        return self.classes_[(found > 0).astype(int) if found.ndim == 1 else found.argmax(axis=1)]

    def certify(self, X: Any, norm: str = "l1") -> np.ndarray:
        """Return radii within which the class cannot change: no coordinate of x moves by more, shape (M,).

        Args:
            X: shape (M, d).
            norm: by which the training rows bound how far dot products move: "l1" (Hoelder) or "l2"
                (Cauchy-Schwarz, times sqrt(d): the form of the paper's authors, never larger). The ball is that of the
                largest coordinate either way.

        Raises:
            DescriptionError: a network that is not one hidden ReLU layer without biases; an unknown norm.

        Valid when: for the infinitely wide machine as it was found, converged or not. The radius is a lower bound, the
            more cautious the more rows carry weight.

        Source: chen-2021-nn-svm; derived ("l1").
        """
        check_is_fitted(self)
        where = f"{type(self).__name__}.certify"
        if norm not in NORMS:
            raise DescriptionError(where, f"norm={norm!r}", nearest(str(norm), NORMS))
        prior, kind, rows, _ = self._fitted
        scale = strength(where, prior.net, prior.depth)
        new = self._inputs.rows(self, X)
        if len(self.solutions_) == 1:
            return radii(new, rows, self.weights_[:, 0], scale, kind, norm)[1]
        found, best = np.full(len(new), inf), self._outputs(X).argmax(axis=1)
        for one in range(len(self.classes_)):
            here = np.flatnonzero(best == one)
            for other in range(len(self.classes_)):
                if other != one and len(here):
                    weights = self.weights_[:, one] - self.weights_[:, other]
                    found[here] = np.minimum(found[here], radii(new[here], rows, weights, scale, kind, norm)[1])
        return found

    def bound(self, delta: float = 0.05) -> Any:
        """Return a bound on the share of errors on new rows, with probability 1 - delta, term by term.

        Whatever the loss of the fit, its first term is the mean of min(1, hinge).

        Args:
            delta: chance that the bound fails.

        Returns:
            A `Bound`; with more than two classes a list of them, each of one class against the rest.

        Raises:
            InputError: a delta that is no chance.

        Source: chen-2021-nn-svm.
        """
        return self._bounds(Hinge(), delta)
