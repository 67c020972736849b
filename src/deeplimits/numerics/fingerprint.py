"""A digest that tells two questions apart, the same in every process."""

from __future__ import annotations

import hashlib
import inspect
import types
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np


def fingerprint(*parts: Any) -> str:
    """Return a hexadecimal digest of numbers, text, arrays, descriptions and functions.

    A function counts by its name, compiled code, defaults and captured values, so that editing it gives another digest;
    what it calls is not looked into.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        _add(digest, part, frozenset())
    return digest.hexdigest()


def _add(digest: Any, part: Any, above: frozenset[int]) -> None:
    if id(part) in above:
        digest.update(b"<again>")
        return
    if isinstance(part, types.FunctionType):
        above = above | {id(part)}
    digest.update(f"<{type(part).__module__}.{type(part).__qualname__}".encode())
    if isinstance(part, np.ndarray):
        digest.update(f"{part.dtype.str}{part.shape}".encode() + np.ascontiguousarray(part).tobytes())
    elif is_dataclass(part) and not isinstance(part, type):
        for field in fields(part):
            digest.update(field.name.encode())
            _add(digest, getattr(part, field.name), above)
    elif isinstance(part, tuple | list | frozenset):
        for item in sorted(part, key=repr) if isinstance(part, frozenset) else part:
            _add(digest, item, above)
    elif isinstance(part, types.FunctionType):
        _function(digest, part, above)
    elif isinstance(part, types.CodeType):
        _code(digest, part, above)
    elif isinstance(part, partial):
        _add(digest, (part.func, part.args, tuple(sorted(part.keywords.items()))), above)
    elif (tensor := getattr(part, "detach", None)) is not None and not isinstance(part, type):
        _add(digest, tensor().cpu().numpy(), above)
    elif isinstance(part, types.BuiltinFunctionType | type | np.ufunc):
        digest.update(f"{getattr(part, '__module__', '')}.{part.__name__}".encode())
    else:
        digest.update(repr(part).encode())
    digest.update(b">")


def _function(digest: Any, function: types.FunctionType, above: frozenset[int]) -> None:
    captured = tuple(inspect.getclosurevars(function).nonlocals.values())
    name = f"{function.__module__}.{function.__qualname__}"
    _add(digest, (name, function.__code__, function.__defaults__ or (), captured), above)


def _code(digest: Any, code: types.CodeType, above: frozenset[int]) -> None:
    _add(digest, (code.co_code, tuple(code.co_consts), tuple(code.co_names)), above)
