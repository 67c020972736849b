"""Checks of the sizes a network is asked at."""

from __future__ import annotations

from math import inf, isfinite
from numbers import Integral, Real
from typing import Any

from deeplimits.architecture.layer import Share
from deeplimits.errors import DescriptionError, InputError


def whole(where: str, name: str, value: Any, *, minimum: int = 1, infinite: bool = False) -> Any:
    """Return `value` as an int (or inf where allowed).

    Raises:
        InputError: not a whole number of at least `minimum`.
    """
    if infinite and isinstance(value, Real) and value == inf:
        return inf
    number: Any = value
    good = isinstance(value, Integral) or (isinstance(value, Real) and float(number).is_integer())
    if isinstance(value, bool) or not good or int(number) < minimum:
        also = " or infinity" if infinite else ""
        why = f"{name}={value!r} is not a whole number >= {minimum}{also}"
        raise InputError(where, why, f"give {name} as such a number")
    return int(number)


def resolve(where: str, name: str, size: Any, width: int) -> int:
    """Return a size given as a share of `width`, a float share or a fixed number, as a whole number >= 1."""
    if isinstance(size, Share):
        return max(1, round(size.fraction * width))
    if isinstance(size, float) and not size.is_integer():
        return max(1, round(size * width))
    if isinstance(size, float) and size == 1.0:
        return width
    value = whole(where, name, size)
    if value > width:
        raise InputError(where, f"{name}={value} exceeds the width {width}", f"give {name} as a share of WIDTH")
    return value


def check_size(where: str, name: str, size: Any, largest: float = 1.0) -> Any:
    """Return `size` if it is a share in (0, largest] or a whole number >= 1.

    Raises:
        DescriptionError: it is neither.
    """
    fraction = size.fraction if isinstance(size, Share) else size if isinstance(size, float) else None
    if fraction is not None:
        most = largest if isinstance(size, Share) else 1.0
        if not (0.0 < fraction <= most and isfinite(fraction)):
            bound = f"(0, {most:g}" + ("]" if isfinite(most) else ")")
            raise DescriptionError(where, f"{name}={size!r} is not a share in {bound}", f"use e.g. {name}=0.25 * WIDTH")
        return size
    if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
        raise DescriptionError(
            where, f"{name}={size!r} is not a size", "use a share such as 0.25 * WIDTH or an int >= 1"
        )
    return size


def is_fixed(size: Any) -> bool:
    """Say whether a size is a fixed number, which has no limit at infinite width."""
    return isinstance(size, Integral)
