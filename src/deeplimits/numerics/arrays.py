"""Arrays in and out: numpy or torch, checked before any work."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from deeplimits.errors import InputError, MemoryNeeded

_NAMES = {"float32": np.float32, "float64": np.float64}


@dataclass(frozen=True)
class Inputs:
    """Checked inputs.

    Attributes:
        x1: as given, of a floating dtype, shape (N, d).
        x2: likewise, shape (M, d), or None for x1 against itself.
        torch: whether the inputs are torch tensors.
        dtype: numpy dtype of the result.
        half: the inputs' half-precision dtype, which the result is rounded to, or None.
    """

    x1: Any
    x2: Any
    torch: bool
    dtype: np.dtype
    half: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the kernel."""
        return len(self.x1), len(self.x1 if self.x2 is None else self.x2)

    @property
    def features(self) -> int:
        """Number of features d."""
        return self.x1.shape[1]

    def numpy(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return both inputs as numpy arrays on the CPU."""
        if not self.torch:
            return self.x1, self.x2
        both = [None if x is None else x.detach().cpu().numpy() for x in (self.x1, self.x2)]
        return both[0], both[1]  # type: ignore[return-value]


def is_tensor(value: Any) -> bool:
    """Say whether `value` is a torch tensor, without importing torch."""
    return "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor)


def check(where: str, X1: Any, X2: Any = None, dtype: Any = None) -> Inputs:
    """Return checked inputs.

    Args:
        where: named in errors.
        X1: shape (N, d); numpy, torch, or anything numpy can read.
        X2: shape (M, d), or None.
        dtype: of the result; by default that of the inputs (integers: float64).

    Raises:
        InputError: NaN or infinity, mixed dtypes or kinds, a wrong rank, different feature counts, nothing in it.
    """
    first = _one(where, "X1", X1)
    second = None if X2 is None else _one(where, "X2", X2)
    tensor = is_tensor(first)
    if second is not None:
        if is_tensor(second) != tensor:
            raise InputError(where, "X1 and X2 mix numpy and torch", "convert one of them")
        if str(first.dtype) != str(second.dtype):
            why = f"X1 is {first.dtype} and X2 is {second.dtype}"
            raise InputError(where, why, "convert one of them, e.g. X2.astype(X1.dtype) or X2.to(X1.dtype)")
        if tensor and first.device != second.device:
            raise InputError(where, f"X1 is on {first.device} and X2 on {second.device}", "move one of them")
        if first.shape[1] != second.shape[1]:
            why = f"X1 has {first.shape[1]} features and X2 has {second.shape[1]}"
            raise InputError(where, why, "give both the same columns")
    half = getattr(X1, "dtype", None) if dtype is None and _is_half(X1) else None
    return Inputs(first, second, tensor, _dtype(where, dtype, first), half)


def _is_half(value: Any) -> bool:
    return str(getattr(value, "dtype", "")).removeprefix("torch.") in ("float16", "bfloat16")


def _one(where: str, name: str, value: Any) -> Any:
    if not is_tensor(value):
        if value is None or isinstance(value, str) or hasattr(value, "toarray"):
            fix = "give a numpy array or a torch tensor of shape (N, d); of a sparse matrix, X.toarray()"
            raise InputError(where, f"{name} is a {type(value).__name__}, not an array", fix)
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            entry = tuple(int(i) for i in np.argwhere(np.ma.getmaskarray(value))[0])
            raise InputError(where, f"{name} is masked at {entry}", "fill it, e.g. X.filled(0.0), or drop those rows")
        try:
            value = np.asarray(value)
        except ValueError as error:
            raise InputError(where, f"{name} is not an array ({error})", "give rows of equal length") from error
    elif value.layout is not sys.modules["torch"].strided:
        raise InputError(where, f"{name} is a sparse tensor ({value.layout})", "give a dense one: X.to_dense()")
    if value.ndim != 2:
        fix = "give one row an input: X.reshape(1, -1) for a single one, X.reshape(len(X), -1) for images"
        raise InputError(where, f"{name} has shape {tuple(value.shape)}, not (N, d)", fix)
    if 0 in value.shape:
        raise InputError(where, f"{name} is empty: shape {tuple(value.shape)}", "give at least one row and one column")
    value = _floating(where, name, value)
    finite = np.isfinite(value) if isinstance(value, np.ndarray) else value.isfinite()
    if not bool(finite.all()):
        bad = ~(finite if isinstance(finite, np.ndarray) else finite.cpu().numpy())
        row, column = (int(i) for i in np.argwhere(bad)[0])
        why = f"{name} has {float(value[row, column])} at row {row}, column {column}"
        raise InputError(where, why, "drop or impute that entry")
    return value


def _floating(where: str, name: str, value: Any) -> Any:
    if is_tensor(value):
        torch = sys.modules["torch"]
        if value.dtype in (torch.float32, torch.float64):
            return value
        if value.dtype.is_complex:
            raise InputError(where, f"{name} is complex ({value.dtype})", "give real numbers")
        return value.to(torch.float32 if _is_half(value) else torch.float64)
    if value.dtype in (np.float32, np.float64):
        return value
    if value.dtype.kind == "c":
        raise InputError(where, f"{name} is complex ({value.dtype})", "give real numbers")
    if value.dtype.kind not in "fiub":
        text = _first_text(value)
        if text is not None:
            why = f"{name} has dtype {value.dtype}: column {text[1]} holds {text[2]!r} at row {text[0]}"
            raise InputError(where, why, "give numbers only: encode or drop text columns")
    return value.astype(np.float32 if value.dtype == np.float16 else np.float64)


def _first_text(value: np.ndarray) -> tuple[int, int, Any] | None:
    """Return (row, column, entry) of the first entry that is not a number, or of the first number held as text."""
    written = None
    for column in range(value.shape[1]):
        for row, entry in enumerate(value[:, column].tolist()):
            try:
                float(entry)
            except (TypeError, ValueError):
                return row, column, entry
            if written is None and isinstance(entry, str | bytes):
                written = row, column, entry
    return written


def _dtype(where: str, dtype: Any, first: Any) -> np.dtype:
    name = str(first.dtype if dtype is None else dtype).removeprefix("torch.")
    if not isinstance(dtype, str | type(None)) and not is_tensor(first) and name not in _NAMES:
        name = np.dtype(dtype).name
    if name not in _NAMES:
        raise InputError(where, f"dtype={dtype!r} is not supported", "use float32 or float64")
    return np.dtype(_NAMES[name])


def squares(x: np.ndarray) -> np.ndarray:
    """Return |x|^2 / d of every row in float64, shape (N,).

    Example:
        >>> squares(np.ones((1, 4), dtype=np.float32))
        array([1.])
    """
    return np.einsum("nd,nd->n", x, x, dtype=np.float64) / x.shape[1]


def available_bytes() -> int:
    """Return the memory that a new array may take now."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_memory(where: str, needed: int, what: str, fix: str) -> None:
    """Refuse work whose result does not fit.

    Args:
        where: named in the error.
        needed: bytes.
        what: what needs them, in words.
        fix: ways out.

    Raises:
        MemoryNeeded: says the bytes needed and the ways out.
    """
    free = available_bytes()
    if needed > 0.9 * free:
        raise MemoryNeeded(where, f"{what} needs {needed:,} bytes, {free:,} are free", fix)
