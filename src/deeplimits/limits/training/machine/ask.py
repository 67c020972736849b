"""The front of kernel machines: any Gram matrix and targets in, the machine without bias out."""

from __future__ import annotations

import warnings
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np

from deeplimits.architecture.size import whole
from deeplimits.errors import ConvergenceWarning, InputError, PrecisionError
from deeplimits.limits.training.lazy.inputs import rows_of, targets_of
from deeplimits.limits.training.machine.loss import CLASSES, loss_of
from deeplimits.limits.training.machine.solve import Solution, solve

WHERE = "kernel_machine"
SYMMETRY = 1e-8  # of the largest diagonal entry


def kernel_machine(
    kernel: Any,
    y: Any,
    loss: str = "hinge",
    C: float = 1.0,
    epsilon: float = 0.1,
    tol: float = 1e-8,
    max_iter: int = 5000,
) -> Solution:
    """Return the function of least |f|^2/2 + C sum l(f(x_i), y_i), |f| the norm of the kernel's space: no bias.

    f(x) = sum_i b_i K(x, x_i). With K the NTK and C = 1/decay it is where wide networks end that minimise
    sum l + (decay/2) |weights - weights at the start|^2, their outputs at the start taken off.

    "hinge" is max(0, 1 - y f), "squared_hinge" its square, "logistic" log(1 + exp(-y f)); "epsilon_insensitive" is
    max(0, |y - f| - epsilon), "huber" (y - f)^2/2 up to |y - f| = epsilon and epsilon |y - f| - epsilon^2/2 beyond,
    "squared" (y - f)^2/2, which makes kernel ridge regression of ridge 1/C.

    Args:
        kernel: K of the rows, shape (P, P), positive semidefinite.
        y: shape (P,); -1 and 1 for the first three losses.
        loss: its name.
        C: price of the loss.
        epsilon: of "epsilon_insensitive" and "huber", in units of y; without effect on the others.
        tol: of the gap between primal and dual, over the objective.
        max_iter: most sweeps over the rows. A machine that is not there yet is a ConvergenceWarning and is marked.

    Valid when: the kernel may be singular; f is then unique all the same, the weights are not.

    Raises:
        InputError: a kernel or targets that cannot be; numbers that are not above zero.
        DescriptionError: an unknown loss.

    Source: chen-2021-nn-svm; hsieh-2008-dual-coordinate.

    Example:
        >>> found = kernel_machine([[1.0, 0.0], [0.0, 4.0]], [1, -1], C=10.0)
        >>> found.weights.round(6).tolist(), found.outputs.round(6).tolist(), found.converged
        ([1.0, -0.25], [1.0, -1.0], True)
    """
    matrix = _matrix(kernel)
    targets = targets_of(WHERE, y, len(matrix))
    if targets.ndim == 2:
        raise InputError(WHERE, f"y has shape {targets.shape}", "give one column at a time, y[:, 0]")
    if loss in CLASSES and (odd := np.flatnonzero(np.abs(targets) != 1)).size:
        why = f"y is {targets[odd[0]]:g} at row {odd[0]}, and {loss!r} knows -1 and 1"
        raise InputError(WHERE, why, "encode two classes as -1 and 1; for more, dl.learn.NTKSVC")
    chosen = loss_of(WHERE, loss, epsilon)
    price, tolerance = positive(WHERE, "C", C), positive(WHERE, "tol", tol)
    found = solve(matrix, targets, chosen, price, tolerance, whole(WHERE, "max_iter", max_iter))
    return told(WHERE, found, tolerance, stacklevel=3)


def told(where: str, found: Solution, tol: float, stacklevel: int = 4) -> Solution:
    """Return a solution, with a warning where it is not there yet.

    Raises:
        PrecisionError: an objective beyond float64.
    """
    if not isfinite(found.objective + found.gap):
        fix = "scale targets and inputs to about 1, or lower C"
        raise PrecisionError(where, "the objective leaves the range of float64", fix)
    if not found.converged:
        text = (
            f"{where}: after {found.sweeps} sweeps the gap of primal and dual is {found.share:.1e} of the "
            f"objective, tol={tol:g}; what was found is kept (converged is False). Raise max_iter or tol, or lower C"
        )
        warnings.warn(text, ConvergenceWarning, stacklevel=stacklevel)
    return found


def positive(where: str, name: str, value: Any) -> float:
    """Return a number above zero as a float.

    Raises:
        InputError: anything else.
    """
    real = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    if not real or not isfinite(value) or not float(value) > 0:
        raise InputError(where, f"{name}={value!r} is not a number > 0", f"give e.g. {name}=1.0")
    return float(value)


def _matrix(kernel: Any) -> np.ndarray:
    try:
        matrix = rows_of(WHERE, "kernel", kernel)
    except InputError as error:
        raise InputError(error.where, error.why, "give the kernel of the rows, shape (P, P)") from None
    if matrix.shape[0] != matrix.shape[1]:
        fix = "give the kernel of the rows, shape (P, P)"
        raise InputError(WHERE, f"kernel has shape {matrix.shape}", fix)
    diagonal = np.diagonal(matrix)
    if (negative := np.flatnonzero(diagonal < 0)).size:
        why = f"kernel is {diagonal[negative[0]]:g} at row {negative[0]} of its diagonal"
        raise InputError(WHERE, why, "give a positive semidefinite matrix")
    size = max(float(diagonal.max()), np.finfo(float).tiny)
    uneven = np.abs(matrix - matrix.T)
    if uneven.max() > SYMMETRY * size:
        row, column = (int(i) for i in np.unravel_index(uneven.argmax(), matrix.shape))
        why = f"kernel is {matrix[row, column]:g} at ({row}, {column}) and {matrix[column, row]:g} at ({column}, {row})"
        raise InputError(WHERE, why, "give a symmetric matrix")
    least = float(np.linalg.eigvalsh(matrix)[0])
    if least < -SYMMETRY * size * len(matrix):
        fix = "give a positive semidefinite matrix"
        raise InputError(WHERE, f"kernel has the eigenvalue {least:.3g}", fix)
    return matrix
