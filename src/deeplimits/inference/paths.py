"""Paths and targets as scikit-learn gives them: lists of arrays, one array of three dimensions, or rows of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_X_y, validate_data

from deeplimits.errors import InputError
from deeplimits.inference import inputs
from deeplimits.numerics.arrays import is_tensor
from deeplimits.numerics.path import check_paths

Paths = list[np.ndarray]


def rows(estimator: Any, X: Any) -> Paths:
    """Return new paths as float64, shape (points, d) each.

    Raises:
        InputError: paths that cannot be used, or of other channels than those of the fit.
    """
    if _flat(X):
        plain = inputs.plain(X)
        checked: Any = validate_data(estimator, plain, dtype=np.float64, reset=False, ensure_all_finite=False)
        paths = _series(estimator, X, checked)
    else:
        paths = _given(estimator, X)
    if paths[0].shape[1] != estimator.channels_:
        why = f"X has {paths[0].shape[1]} channels and the model was fitted on {estimator.channels_}"
        raise InputError(type(estimator).__name__, why, "give paths like those of the fit")
    return paths


def regression(estimator: Any, X: Any, y: Any) -> tuple[Paths, np.ndarray]:
    """Return training paths and targets (N,) or (N, outputs), all float64.

    Raises:
        InputError: paths that cannot be used, a target that is not finite.
        ValueError: what scikit-learn refuses: lengths that differ, sparse or complex arrays.
    """
    inputs.finite_targets(estimator, inputs.plain(y))
    paths, y = _both(estimator, X, y, multi_output=True, y_numeric=True)
    return paths, np.asarray(y, dtype=np.float64)


def classification(estimator: Any, X: Any, y: Any, members: int = 2) -> tuple[Paths, np.ndarray, np.ndarray]:
    """Return training paths, the sorted classes (C,) and the place of each path's class, (N,).

    Raises:
        InputError: paths that cannot be used, targets that are not labels, a class of less than `members` paths.
    """
    paths, y = _both(estimator, X, y)
    return paths, *inputs.classes_of(inputs.where_fit(estimator), y, members)


def _both(estimator: Any, X: Any, y: Any, **options: Any) -> tuple[Paths, Any]:
    found: Any
    if _flat(X):
        options |= {"dtype": np.float64, "ensure_all_finite": False, "ensure_min_features": 2}
        found = validate_data(estimator, inputs.plain(X), inputs.plain(y), **options)
        paths = _series(estimator, X, found[0])
    else:
        paths = _given(estimator, X)
        found = check_X_y(np.zeros((len(paths), 1)), inputs.plain(y), **options)
        for name in {"n_features_in_", "feature_names_in_"} & set(vars(estimator)):  # of an earlier fit on rows
            delattr(estimator, name)
    estimator.channels_ = paths[0].shape[1]
    return paths, found[1]


def _flat(X: Any) -> bool:
    """Say whether X is for scikit-learn to read: rows, each of which is a series of numbers."""
    if isinstance(X, list | tuple) or _listed(X):
        kinds = {_shape(one) for one in X}
        return len(kinds) == 1 and all(len(kind) < 2 for kind in kinds)
    return getattr(X, "ndim", 2) != 3


def _listed(X: Any) -> bool:
    """Say whether X is an array of arrays."""
    return getattr(X, "dtype", None) == np.dtype(object) and getattr(X, "ndim", 2) == 1


def _shape(one: Any) -> tuple[int, ...]:
    try:
        return tuple(one.shape) if is_tensor(one) else np.shape(one)
    except ValueError:  # of unequal lengths itself
        return (0, 0)


def _series(estimator: Any, X: Any, checked: np.ndarray) -> Paths:
    inputs.finite(estimator, X, checked)
    return check_paths(type(estimator).__name__, "X", checked[:, :, None], estimator._prior().net.clock)


def _given(estimator: Any, X: Any) -> Paths:
    held = list(X) if _listed(X) else X
    return check_paths(type(estimator).__name__, "X", held, estimator._prior().net.clock)
