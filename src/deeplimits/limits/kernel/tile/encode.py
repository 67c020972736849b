"""A tape written as the arrays that the interpreter reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import cos, pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from deeplimits.limits.kernel.tape import Add, Affine, Collapse, Copy, Dual, Normalise, Tape
from deeplimits.limits.kernel.tile import blocks, memory
from deeplimits.limits.kernel.tile import interpreter as op
from deeplimits.limits.kernel.tile.compiled import address
from deeplimits.limits.kernel.tile.tables import LEVELS, Table, build

if TYPE_CHECKING:
    from deeplimits.limits.kernel.tile.series import Tables as Series

SERIES, LINEAR, LARGEST = 6, 7, 7
RECTIFIED = (blocks.rectified_0, blocks.rectified_1, blocks.rectified_2, blocks.rectified_3)
BEFORE: Any = dict.fromkeys((*RECTIFIED, blocks.gelu), blocks.turn) | {blocks.erf: blocks.lean}

Diagonals = Mapping[int, np.ndarray]
Block = Callable[..., None]


def supports(tape: Tape) -> bool:
    """Return whether the engine has a compiled formula for every step."""
    families = [step.family for step in tape.steps if isinstance(step, Dual)]
    compiled = all(
        family.code <= LARGEST and (family.code != 0 or family.power < len(RECTIFIED)) for family in families
    )
    return compiled and not any(isinstance(step, Collapse) for step in tape.steps)


def has_series(tape: Tape) -> bool:
    """Return whether a step is a Hermite series."""
    return any(isinstance(step, Dual) and step.family.code == SERIES for step in tape.steps)


def encode(tape: Tape, before1: Diagonals, before2: Diagonals | None, dtype: type) -> tuple[op.Program, Series | None]:
    """Return the arrays of a tape, and its tables of coefficients where it has series steps.

    Args:
        tape: the steps.
        before1: {step: q} of the rows, for the steps of `Tape.needs`.
        before2: the same of the columns; None: the same inputs.
        dtype: of the registers.
    """
    series = _series(tape, [before for before in (before1, before2) if before is not None])
    ops, numbers, users, count = [], [], [], 0
    for index, step in enumerate(tape.steps):
        if isinstance(step, Dual) and step.family.code == LINEAR:
            continue
        block, values = _step(step)
        before = None if block is None else BEFORE.get(block)
        table = list(series).index(step.family) if isinstance(step, Dual) and step.family in series else -1
        register, other = (step.target, step.source) if isinstance(step, Copy | Add) else (step.register, step.register)
        calls = (address(function, dtype) if function else 0 for function in (block, before))
        ops.append((*calls, register, other, count, table))
        numbers.append((values + [0.0] * 6)[:6])
        if isinstance(step, Dual | Normalise):
            users.append((index, step))
            count += len(_columns(step, before1[index][:1], series))
    steps = np.array(ops, dtype=np.int64).reshape(-1, 6)
    rows, columns = (_storage(users, count, side, series, dtype) for side in (before1, before2))
    program = op.Program(steps, memory.rows(numbers, 6, 0, dtype), rows, rows if before2 is None else columns)
    return program, _pack(series, steps)


def _storage(users: list, count: int, before: Diagonals | None, series: Mapping[Any, Table], dtype: type) -> np.ndarray:
    """Return the columns of one side, with two rows to spare: every block is given the addresses of three columns."""
    length = len(before[users[0][0]]) if users and before is not None else 0
    storage, at = memory.aligned((count + 2, memory.whole(length)), dtype), 0
    if before is not None:
        for index, step in users:
            for column in _columns(step, before[index], series):
                storage[at, :length] = column
                at += 1
    return storage


def _series(tape: Tape, sides: list[Diagonals]) -> dict[Any, Table]:
    variances: dict[Any, list[np.ndarray]] = {}
    for index, step in enumerate(tape.steps):
        if isinstance(step, Dual) and step.family.code == SERIES:
            variances.setdefault(step.family, []).extend(step.family.nonzero(before[index]) for before in sides)
    return {family: build(family, arrays) for family, arrays in variances.items()}


def _pack(tables: dict[Any, Table], ops: np.ndarray) -> Series | None:
    if not tables:
        return None
    from deeplimits.limits.kernel.tile.series import Tables

    sizes = [table.values.size for table in tables.values()]
    starts = np.cumsum([0, *sizes[:-1]])
    layout = [(s, t.even, t.odd, t.stencil, len(t.values)) for s, t in zip(starts, tables.values(), strict=True)]
    cuts = np.unique(np.concatenate([[0, len(ops)], np.flatnonzero(ops[:, 5] >= 0)]))
    values = np.concatenate([table.values.ravel() for table in tables.values()])
    orders = np.stack([table.orders for table in tables.values()])
    return Tables(values, np.array(layout, dtype=np.int64), LEVELS, orders, cuts)


def _step(step: Any) -> tuple[Block | None, list[float]]:
    match step:
        case Affine(_, weight, bias, gain, shift):
            return blocks.affine, [float(weight), float(bias), float(gain), float(shift)]
        case Copy():
            return blocks.copy, []
        case Add(_, _, factor):
            return blocks.add, [float(factor)]
        case Normalise():
            return blocks.normalise, []
        case Dual(_, family):
            return _dual(family)
    raise TypeError(f"the tile engine has no step {step!r}")


def _dual(family: Any) -> tuple[Block | None, list[float]]:
    match family.code:
        case 0:
            return RECTIFIED[family.power], _arc_cosine(family)
        case 1:
            return blocks.erf, [family.amplitude**2 * 2 / pi, family.shift**2]
        case 2:
            half, turned, rate = family.amplitude**2 / 2, cos(2 * family.phase), family.frequency**2
            return blocks.sine, [rate, half, half * turned, rate * half, rate * half * turned]
        case 3:
            return blocks.growth, [family.rate**2, family.amplitude**2]
        case 4:
            return blocks.bump, [2 * family.rate]
        case 5:
            return blocks.gelu, [1 / (2 * pi), 0.25]
        case _:
            return None, []


def _arc_cosine(family: Any) -> list[float]:
    same, cross = (family.plus**2 + family.minus**2) / (2 * pi), family.plus * family.minus / pi
    sign = 1 if family.power % 2 else -1
    value = [same + sign * cross, -(same + sign * cross), same * pi]
    if family.power % 2 == 0:
        value[1] = cross - same
    slope = [same + cross, -(same + cross), same * pi] if family.power == 3 else [same - cross, cross - same, same * pi]
    return value + slope


def _columns(step: Dual | Normalise, q: np.ndarray, series: Mapping[Any, Table]) -> list[np.ndarray]:
    if isinstance(step, Normalise):
        return [_inverse(np.sqrt(q + step.epsilon))]
    family = step.family
    match family.code:
        case 0:
            root = np.sqrt(q)
            powers = ([], [root], [q, 2 * root], [q * root, 3 * q])
            return [_inverse(root), *powers[family.power]]
        case 1:
            return [sqrt(2) * family.frequency / np.sqrt(1 + 2 * family.frequency**2 * q)]
        case 2:
            return [family.frequency**2 * q / 2]
        case 3:
            return [family.rate**2 * q / 2]
        case 4:
            return [1 / np.sqrt(1 + 2 * family.rate * q)]
        case 5:
            return [1 / np.sqrt(1 + q), q, np.sqrt(1 + q)]
        case 6:
            q = family.nonzero(q)
            return [1 / np.sqrt(q), series[family].position(q)]
    return []


def _inverse(x: np.ndarray) -> np.ndarray:
    return np.divide(1.0, x, out=np.zeros_like(x), where=x > 0)
