"""Kernels that are singular: which rows a network cannot tell apart, and why."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from deeplimits.errors import InputError

Array = NDArray[np.float64]
ROUNDING = 1e-15
NAMED = 3
WAYS = "drop or merge those rows, give the network biases (bias_std=0.1), stop at a finite time, or give a ridge > 0"


def refuse_coincident(where: str, kernel: Array, rows: Array) -> None:
    """Refuse rows at which all networks give the same output up to a factor.

    Rows i and j with kernel_ij^2 = kernel_ii kernel_jj to P * 1e-15, or a row whose kernel vanishes.

    Args:
        where: named in the error.
        kernel: on the training rows, shape (P, P).
        rows: the inputs, shape (P, d).

    Raises:
        InputError: there are such rows; they are named, with what they have in common.

    Source: definition (equality in the inequality of Cauchy and Schwarz).

    Example:
        >>> refuse_coincident("fit", np.eye(2), np.eye(2))
        >>> refuse_coincident("fit", np.ones((2, 2)), np.ones((2, 3)))
        Traceback (most recent call last):
        ...
        deeplimits.errors.InputError: fit: the kernel is singular: rows 0 and 1 are the same. Fix: drop or merge ...
    """
    sizes = np.sqrt(np.maximum(kernel.diagonal(), 0.0))
    silent = np.flatnonzero(sizes**2 <= len(rows) * ROUNDING * sizes.max() ** 2)
    if silent.size:
        named = ", ".join(str(row) for row in silent[:NAMED]) + (", among others" if silent.size > NAMED else "")
        if not sizes.any():
            why = "the kernel vanishes at every row, as where all rows, weight_std or readout_std are 0"
            raise InputError(where, why, "give rows and weights that are not 0")
        zero = "holds zeros only" if not rows[silent[0]].any() else "is small beside others"
        why = f"the kernel is singular: its diagonal vanishes at row {named}, which {zero}"
        raise InputError(where, why, f"bring rows to one size, {WAYS}")
    found: list[str] = []
    for one in range(len(rows) - 1):
        cosines = kernel[one, one + 1 :] / (sizes[one] * sizes[one + 1 :])
        for two in np.flatnonzero(np.abs(cosines) >= 1 - len(rows) * ROUNDING) + one + 1:
            found.append(_alike(one, int(two), rows))
            if len(found) > NAMED:
                break
        if len(found) > NAMED:
            break
    if found:
        also = ", among others" if len(found) > NAMED else ""
        raise InputError(where, f"the kernel is singular: {'; '.join(found[:NAMED])}{also}", WAYS)


def _alike(one: int, two: int, rows: Array) -> str:
    """Return in words what two rows have in common."""
    first, second = rows[one], rows[two]
    if np.array_equal(first, second):
        return f"rows {one} and {two} are the same"
    place = int(np.argmax(np.abs(first)))
    factor = float(second[place] / first[place]) if first[place] else 0.0
    if factor and np.allclose(second, factor * first, rtol=1e-9, atol=1e-9 * float(np.abs(second).max())):
        kind = (
            "nearly the same" if abs(factor - 1) < 1e-6 else f"proportional, row {two} being {factor:.4g} x row {one}"
        )
        return f"rows {one} and {two} are {kind}"
    distance = float(np.linalg.norm(second - first) / np.linalg.norm(first))
    if distance < 1e-6:
        return f"rows {one} and {two} are nearly the same (relative distance {distance:.1g})"
    return f"networks give the same at rows {one} and {two}, up to a factor"


def refuse_singular(where: str, values: Array, slowest: Array, time: float) -> NoReturn:
    """Refuse a kernel whose smallest eigenvalue is below rounding, naming the rows that its mode stands on.

    Args:
        where: named in the error.
        values: eigenvalues, shape (P,), rising.
        slowest: mode of the smallest, shape (P,).
        time: asked for.

    Raises:
        InputError: always.

    Source: definition.
    """
    margin = len(values) * ROUNDING * values[-1]
    rank = int((values > margin).sum())
    most = np.argsort(-np.abs(slowest), kind="stable")[:NAMED]
    named = ", ".join(str(row) for row in sorted(most.tolist()))
    why = (
        f"the kernel of these {len(values)} rows is singular in float64 at time {time:g}: eigenvalues from "
        f"{values[0]:.2g} to {values[-1]:.3g}, {rank} above rounding; the slowest mode stands mostly on rows {named}"
    )
    fix = f"{WAYS}; a linear or polynomial activation spans few functions, whatever the rows"
    raise InputError(where, why, fix)
