"""Small compiled functions, each on its own, called through their addresses.

A compiled function that calls another one compiles it again as a part of itself; an interpreter of many steps would
compile them all several times over. Called through its address, a function is compiled (or read from the cache) once,
and only where a tape needs it. All arguments are pointers and 64-bit integers, known by their names: `n_...` is an
integer or an address, `i_...` points to integers, `s_...` to reals of the results, any other to reals of registers.

The cache notices a change of the file that holds a function, not of what the function uses: after editing `scalar.py`
touch the files whose functions use it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from inspect import signature
from typing import Any

import numpy as np
from llvmlite import ir
from numba import cfunc, from_dtype, njit, types
from numba.extending import intrinsic

FAST: dict[str, Any] = {"fastmath": True, "error_model": "numpy", "cache": True, "_nrt": False}
part = njit(inline="always", fastmath=True, error_model="numpy")
"""A piece of a compiled function, written out into it."""


@cache
def compiled(function: Callable[..., None], real: type = np.float64, stored: type = np.float64) -> Any:
    """Return a function compiled for the dtype of the registers and that of the results."""
    pointers = {"i": types.int64, "s": from_dtype(np.dtype(stored))}
    kinds = [name[0] if name[1:2] == "_" else "" for name in signature(function).parameters]
    default = from_dtype(np.dtype(real))
    arguments = [types.int64 if kind == "n" else types.CPointer(pointers.get(kind, default)) for kind in kinds]
    return cfunc(types.void(*arguments), **FAST)(function)


def address(function: Callable[..., None], real: type = np.float64, stored: type = np.float64) -> int:
    """Return where a compiled function stands in memory."""
    return compiled(function, real, stored).address


def callable_from_python(function: Callable[..., None]) -> Callable[..., None]:
    """Return a compiled function of integers and addresses that lets other threads run meanwhile."""
    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(signature(function).parameters))(address(function))


@intrinsic
def invoke(context, where, arguments):
    """Call the function at an address with a tuple of integers and addresses."""

    def generate(target, builder, signature, values):
        integer, count = ir.IntType(64), len(signature.args[1])
        kind = ir.FunctionType(ir.VoidType(), [integer] * count)
        given = [builder.extract_value(values[1], n) for n in range(count)]
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), given)
        return target.get_dummy_value()

    return types.void(types.int64, types.UniTuple(types.int64, len(arguments))), generate


@intrinsic
def integers(context, where):
    """The integers at an address."""

    def generate(target, builder, signature, values):
        return builder.inttoptr(values[0], target.get_value_type(signature.return_type))

    return types.CPointer(types.int64)(types.int64), generate
