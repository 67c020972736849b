"""Rows, targets and networks of lazy training, checked before any work."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.architecture.compose import written_out
from deeplimits.architecture.controlled import ControlledResNet
from deeplimits.architecture.dense import Dense
from deeplimits.architecture.layer import Layer
from deeplimits.errors import DescriptionError, InputError, PrecisionError
from deeplimits.numerics.arrays import check, is_tensor

Array = NDArray[np.float64]
LARGEST = 1e150


def rows_of(where: str, name: str, X: Any) -> Array:
    """Return rows as float64, shape (N, d).

    Raises:
        InputError: not an array of finite numbers of that shape.
    """
    try:
        return np.asarray(check(where, X).numpy()[0], dtype=np.float64)
    except InputError as error:
        raise InputError(error.where, error.why.replace("X1", name), error.fix) from None


def targets_of(where: str, y: Any, rows: int) -> Array:
    """Return targets as float64, shape (N,) or (N, C).

    Raises:
        InputError: not numbers, not finite, or of another number of rows.
        PrecisionError: numbers whose squares overflow.
    """
    shapes = f"give one number a row, shape ({rows},), or one row of numbers a row, shape ({rows}, outputs)"
    if y is None:
        raise InputError(where, "y is None", shapes)
    if isinstance(y, np.ma.MaskedArray) and np.ma.is_masked(y):
        row = int(np.argwhere(np.ma.getmaskarray(y))[0][0])
        raise InputError(where, f"y is masked at row {row}", "drop that row, or fill it: y.filled(0.0)")
    try:
        given: Any = y
        values = np.asarray(given.detach().cpu().numpy() if is_tensor(y) else y)
    except (ValueError, TypeError, RuntimeError):
        raise InputError(where, f"y is a {type(y).__name__} that makes no array of numbers", shapes) from None
    if values.dtype.kind == "O":
        odd = [entry for entry in values.ravel().tolist() if not isinstance(entry, Real)]
        if odd:
            raise InputError(where, f"y holds {odd[0]!r:.40}, which is no number", "encode classes as numbers")
        values = values.astype(np.float64)
    if values.dtype.kind not in "fiub":
        why = f"y has dtype {values.dtype}; its first entry is {values.ravel()[:1].tolist()}"
        raise InputError(where, why, "give real numbers; encode classes as -1 and 1, or as one column each")
    if values.ndim not in (1, 2) or len(values) != rows or 0 in values.shape:
        raise InputError(where, f"y has shape {values.shape} and X has {rows} rows", shapes)
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        at = f"row {place[0]}" + (f", column {place[1]}" if len(place) > 1 else "")
        raise InputError(where, f"y has {values[place]} at {at}", "drop that row")
    if np.abs(values).max() > LARGEST:
        why = f"y reaches {np.abs(values).max():.3g}, and its squares leave the range of float64"
        raise PrecisionError(where, why, "divide the targets by their size: the mean is linear in them")
    return values


def trainable(where: str, net: Any, outputs: int | None = None) -> None:
    """Refuse what is no network with Gaussian outputs.

    Args:
        where: named in the error.
        net: the description.
        outputs: number of columns of the targets.

    Raises:
        DescriptionError: no description, no Dense readout, paths for inputs, hyperparameters that are tensors, or
            another number of outputs.
    """
    if not isinstance(net, Layer):
        fix = "describe it first, e.g. dl.ResNet('relu') or dl.layer.Dense() >> dl.act.Relu() >> dl.layer.Dense(1)"
        raise DescriptionError(where, f"{type(net).__name__} is not a network description", fix)
    if isinstance(net, ControlledResNet):
        why, fix = "networks driven by paths have no NTK here", "use dl.learn.NeuralSignatureRegressor"
        raise DescriptionError(where, why, fix)
    layers = written_out(net).layers  # type: ignore[attr-defined]
    if not layers or not isinstance(layers[-1], Dense):
        why = f"the network ends in {type(layers[-1]).__name__ if layers else 'nothing'}: its outputs are not Gaussian"
        raise DescriptionError(where, why, "end it in a Dense readout: net >> dl.layer.Dense(1)")
    if any(is_tensor(value) for value in net.hyperparameters().values()):
        fix = "give numbers; dl.kernel alone is differentiable"
        raise DescriptionError(where, "a hyperparameter of the network is a tensor", fix)
    count = layers[-1].features
    if outputs is not None and isinstance(count, int) and count not in (1, outputs):
        why = f"the network has {count} outputs and y has {outputs}"
        raise DescriptionError(where, why, f"give outputs={outputs}, or leave it at 1: outputs are independent")
