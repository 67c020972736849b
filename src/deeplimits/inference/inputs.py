"""Rows and targets as scikit-learn gives them: numpy, pandas or torch in, float64 out, refused in words."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from deeplimits.errors import InputError
from deeplimits.numerics.arrays import is_tensor


def rows(estimator: Any, X: Any) -> np.ndarray:
    """Return new rows as float64, shape (M, d).

    Raises:
        InputError: an entry that is not finite; its row and column are named.
    """
    checked: Any = validate_data(estimator, plain(X), dtype=np.float64, reset=False, ensure_all_finite=False)
    finite(estimator, X, checked)
    return checked


def regression(estimator: Any, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return training rows (N, d) and targets (N,) or (N, outputs), both float64.

    Raises:
        InputError: an entry that is not finite.
        ValueError: what scikit-learn refuses: lengths that differ, sparse or complex arrays.
    """
    targets = plain(y)
    finite_targets(estimator, targets)
    options: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": False, "multi_output": True, "y_numeric": True}
    found: Any = validate_data(estimator, plain(X), targets, **options)
    checked, y = found
    finite(estimator, X, checked)
    return checked, np.asarray(y, dtype=np.float64)


def classification(estimator: Any, X: Any, y: Any, members: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return training rows (N, d), the sorted classes (C,) and the place of each row's class, (N,).

    Raises:
        InputError: targets that are not labels, fewer than two classes, a class of less than `members` rows (1 or 2).
    """
    where = where_fit(estimator)
    found: Any = validate_data(estimator, plain(X), plain(y), dtype=np.float64, ensure_all_finite=False)
    checked, y = found
    finite(estimator, X, checked)
    return checked, *classes_of(where, y, members)


def classes_of(where: str, y: Any, members: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes (C,) and the place of each row's class, (N,); refuses as `classification`."""
    y = column_or_1d(y)
    try:
        check_classification_targets(y)
        classes, first, place, count = np.unique(y, return_index=True, return_inverse=True, return_counts=True)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in y.tolist()})
        fix = "give labels of one kind, whole numbers or strings, and none that is missing"
        raise InputError(where, f"the labels are of several kinds: {', '.join(kinds)}", fix) from None
    except ValueError as error:
        fix = "give one label a row: whole numbers or strings; for continuous targets use a regressor"
        raise InputError(where, f"{str(error).rstrip('.')}; the first label is {_shown(y[0])}", fix) from None
    if len(classes) < 2:
        many = f"y holds one class, {_shown(classes[0])}, on {len(y)} rows"
        why = many if len(y) > 1 else "y holds 1 sample of 1 class"
        raise InputError(where, why, "give rows of at least two classes")
    for name, row in zip(classes[count < members], first[count < members], strict=True):
        why = f"class {_shown(name)} has one member, row {row}: nothing says how far that class reaches"
        raise InputError(where, why, "give it a second row, or drop it")
    return classes, place


def plain(value: Any) -> Any:
    """Return a torch tensor as numpy, anything else as it is."""
    return value.detach().cpu().numpy() if is_tensor(value) else value


def _shown(label: Any) -> str:
    return repr(label.item() if isinstance(label, np.generic) else label)


def where_fit(estimator: Any) -> str:
    """Return what errors of a fit name first."""
    return f"{type(estimator).__name__}.fit"


def finite(estimator: Any, given: Any, values: np.ndarray) -> None:
    """Refuse an entry of `values`, read from `given`, that is not finite."""
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    row, column = (int(i) for i in np.argwhere(bad)[0])
    names = getattr(given, "columns", None)
    name = f"column {column}" if names is None else f"column {names[column]!r}"
    what = "NaN" if np.isnan(values[row, column]) else "infinity"
    raise InputError(type(estimator).__name__, f"X contains {what} at row {row}, {name}", "drop or impute that entry")


def finite_targets(estimator: Any, y: Any) -> None:
    """Refuse a target that is not finite."""
    if y is None:
        return
    values = np.asarray(y)
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return
    place = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
    what = "NaN" if np.isnan(values[place]) else "infinity"
    raise InputError(where_fit(estimator), f"y contains {what} at row {place[0]}", "drop that row")
