"""Small compiled functions, each on its own, called through their addresses.

A compiled function that calls another one compiles it again as a part of itself; an interpreter of many steps would
compile them all several times over. Called through its address, a step is compiled (or read from the cache) once,
and only where a tape has it. All arguments are pointers and 64-bit integers.

The cache notices a change of the file that holds a function, not of what the function uses: after editing `scalar.py`
touch `blocks.py` and `mehler.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import signature
from typing import Any

import numpy as np
from llvmlite import ir
from numba import cfunc, from_dtype, types
from numba.extending import intrinsic

FAST = {"fastmath": True, "error_model": "numpy", "cache": True, "_nrt": False}
STRIP = {**FAST, "nogil": True}
PART = {**STRIP, "inline": "always"}


@cache
def compiled(function: Callable[..., None], real: type) -> Any:
    """Return a block function compiled for a dtype; arguments whose names start with `n_` are integers."""
    integer, pointer = types.int64, types.CPointer(from_dtype(np.dtype(real)))
    arguments = [integer if name.startswith("n_") else pointer for name in signature(function).parameters]
    return cfunc(types.void(*arguments), **FAST)(function)


def address(function: Callable[..., None], real: type) -> int:
    """Return where a compiled block function stands in memory."""
    return compiled(function, real).address


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
def place(context, array, index):
    """The address of an entry of a contiguous array; the index is a tuple."""

    def generate(target, builder, signature, values):
        kind = signature.args[0]
        data = target.make_array(kind)(target, builder, values[0])
        offset = builder.extract_value(values[1], 0)
        for n in range(1, kind.ndim):
            row = builder.mul(offset, builder.extract_value(data.shape, n))
            offset = builder.add(row, builder.extract_value(values[1], n))
        size = ir.Constant(ir.IntType(64), kind.dtype.bitwidth // 8)
        return builder.add(builder.ptrtoint(data.data, ir.IntType(64)), builder.mul(offset, size))

    return types.int64(array, types.UniTuple(types.int64, len(index))), generate
