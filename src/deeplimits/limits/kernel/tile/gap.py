"""Kinks whose inputs come together: the tape on gap = sqrt(q q') - k, which keeps the angle however small it gets.

Slower than the tiles, which carry k, and run where those would lose the angle (`paths`): biases bring all inputs
together, and the slope of a kink at angle t is uncertain by rounding / t where k is known to rounding only.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit

from deeplimits.architecture.layer import as_float
from deeplimits.limits.kernel.tape import Add, Affine, Copy, Dual, Normalise, Tape
from deeplimits.numerics.arrays import squares
from deeplimits.numerics.gaussian.rectified import RectifiedPower

ROWS, COLUMNS = 128, 512
AFFINE, KINK, NORMALISE, COPY, ADD = range(5)
LINEAR = 7


def supports(tape: Tape) -> bool:
    """Return whether every step has a formula here."""
    return all(
        step.family.code == LINEAR or (isinstance(step.family, RectifiedPower) and step.family.power < 2)
        if isinstance(step, Dual)
        else isinstance(step, Affine | Normalise | Copy | Add)
        for step in tape.steps
    )


def evaluate(tape: Tape, x1: np.ndarray, x2: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return (k, theta), each (N, M), float64.

    Pairs whose inputs are already nearly parallel or opposite are only as good as their Gram matrix.

    Args:
        tape: the steps.
        x1: inputs, shape (N, d).
        x2: further inputs, shape (M, d); None: x1 against itself.
    """
    ops, numbers, left = _encode(tape, squares(x1))
    right = left if x2 is None else _encode(tape, squares(x2))[2]
    other = x1 if x2 is None else x2
    k, theta = np.empty((len(x1), len(other))), np.empty((len(x1), len(other)))

    def block(start: int) -> None:
        stop = min(start + ROWS, len(x1))
        width = stop if x2 is None else len(other)
        with np.errstate(over="ignore", invalid="ignore"):  # threads do not inherit it; what overflows is refused later
            gram = x1[start:stop] @ other[:width].T / x1.shape[1]
        rows = slice(start, stop)
        _run(ops, numbers, left[:, rows], right[:, :width], tape.registers, gram, k[rows, :width], theta[rows, :width])
        if x2 is None:
            for result in (k, theta):
                result[:start, rows] = result[rows, :start].T
                square = result[rows, rows]
                square[:] = np.tril(square) + np.tril(square, -1).T

    with ThreadPoolExecutor() as pool:
        list(pool.map(block, range(0, len(x1), ROWS)))
    return k, theta


def _encode(tape: Tape, q0: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the steps as numbers, and what each input contributes: three columns a step, and those of the ends."""
    registers = [q0] * tape.registers
    ops, numbers, columns = [], [], [np.sqrt(q0), q0, q0]
    zero = np.zeros_like(q0)
    for step in tape.steps:
        match step:
            case Affine(r, weight, bias, up, shift):
                old, constants = registers[r], [as_float(value) for value in (weight, bias, up, shift)]
                registers[r] = constants[0] * old + constants[1]
                ops.append((AFFINE, r, r))
                columns += [np.sqrt(old), np.sqrt(registers[r]), zero]
            case Dual(r, family):
                if family.code == LINEAR:
                    continue
                squared, twice = family.plus**2 + family.minus**2, 2 * family.plus * family.minus
                constants = [squared, twice, float(family.power)]
                old = np.maximum(registers[r], 0)
                registers[r] = family.diagonal(old)[0]
                ops.append((KINK, r, r))
                columns += [np.sqrt(old), _inverse(np.sqrt(old)), zero]
            case Normalise(r, epsilon):
                root, constants = np.sqrt(registers[r] + epsilon), []
                registers[r] = registers[r] * _inverse(root) ** 2
                ops.append((NORMALISE, r, r))
                columns += [_inverse(root), zero, zero]
            case Copy(target, source):
                registers[target], constants = registers[source], []
                ops.append((COPY, target, source))
                columns += [zero, zero, zero]
            case Add(target, source, factor):
                factor = as_float(factor)
                own, added, constants = registers[target], registers[source], [factor]
                registers[target] = own + factor * added
                ops.append((ADD, target, source))
                columns += [np.sqrt(own), np.sqrt(added), np.sqrt(registers[target])]
        numbers.append([*constants, 0.0, 0.0, 0.0, 0.0][:4])
    columns.append(np.sqrt(registers[0]))
    return np.array(ops, dtype=np.int64), np.array(numbers), np.stack(columns)


def _inverse(x: np.ndarray) -> np.ndarray:
    return np.divide(1.0, x, out=np.zeros_like(x), where=x > 0)


@njit(nogil=True, cache=True, error_model="numpy")
def _run(ops, numbers, left, right, registers, gram, k_out, theta_out):
    gap, theta = np.empty((registers, COLUMNS)), np.empty((registers, COLUMNS))
    for i in range(gram.shape[0]):
        for start in range(0, gram.shape[1], COLUMNS):
            size = min(COLUMNS, gram.shape[1] - start)
            for n in range(size):
                gap[0, n] = max(left[0, i] * right[0, start + n] - gram[i, start + n], 0.0)
                theta[0, n] = 0.0
            for step in range(len(ops)):
                kind, r, o = ops[step]
                a, b = left[3 * step + 3 : 3 * step + 6, i], right[3 * step + 3 : 3 * step + 6, start : start + size]
                if kind == AFFINE:
                    _affine(gap[r], theta[r], a, b, numbers[step])
                elif kind == KINK:
                    _kink(gap[r], theta[r], a, b, numbers[step])
                elif kind == ADD:
                    _add(gap[r], theta[r], gap[o], theta[o], a, b, numbers[step][0])
                elif kind == NORMALISE:
                    gap[r, :size] *= a[0] * b[0]
                    theta[r, :size] *= a[0] * b[0]
                else:
                    gap[r], theta[r] = gap[o], theta[o]
            for n in range(size):
                k_out[i, start + n] = left[-1, i] * right[-1, start + n] - gap[0, n]
                theta_out[i, start + n] = theta[0, n]


@njit(cache=True, error_model="numpy", inline="always")
def _affine(gap, theta, a, b, numbers):
    weight, bias, gain, shift = numbers
    for n in range(b.shape[1]):
        s, new = a[0] * b[0, n], a[1] * b[1, n]
        theta[n] = weight * theta[n] + gain * (s - gap[n]) + shift
        gap[n] *= weight
        if bias > 0:
            gap[n] += weight * bias * (a[0] - b[0, n]) ** 2 / (new + weight * s + bias)


@njit(cache=True, error_model="numpy", inline="always")
def _kink(gap, theta, a, b, numbers):
    """K and its slope at angle t, x = sin(t/2)^2: lost = 1 - J(t)/J(0) and back = J(pi - t)/J(0) as in `pieces`."""
    squared, twice, power = numbers[0], numbers[1], numbers[2]
    for n in range(b.shape[1]):
        s = a[0] * b[0, n]
        x = min(max(gap[n] * (a[1] * b[1, n]) / 2, 0.0), 1.0) if s > 0 else 0.5
        t = 2 * np.arcsin(np.sqrt(x))
        if power == 0:
            gap[n], theta[n] = (squared - twice) * t / (2 * np.pi), 0.0
        else:
            back = (2 * np.sqrt(x * (1 - x)) - t * (1 - 2 * x)) / np.pi
            theta[n] *= (squared * (1 - t / np.pi) - twice * t / np.pi) / 2
            gap[n] = s / 2 * (squared * (2 * x - back) - twice * back)


@njit(cache=True, error_model="numpy", inline="always")
def _add(gap, theta, other_gap, other_theta, a, b, factor):
    for n in range(b.shape[1]):
        total = a[2] * b[2, n] + a[0] * b[0, n] + factor * a[1] * b[1, n]
        apart = factor * (a[0] * b[1, n] - a[1] * b[0, n]) ** 2 / total if total > 0 else 0.0
        gap[n] += factor * other_gap[n] + apart
        theta[n] += factor * other_theta[n]
