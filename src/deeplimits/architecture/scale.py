"""The scale alpha of a residual branch: a number, a power of DEPTH, a decreasing sequence, or any alpha(l, L)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deeplimits.architecture.layer import Power, number
from deeplimits.errors import DescriptionError


@dataclass(frozen=True)
class Decreasing:
    """The sequence alpha_l = factor * l**(-exponent), the same at every depth.

    Valid when: exponent > 1/2, so that the sum of squares is finite.
    Source: hayou-2020-stable-resnet (decreasing scaling).

    Example:
        >>> Decreasing()(2, 100)
        0.5
    """

    exponent: float = 1.0
    factor: Any = 1.0

    def __call__(self, index: int, depth: int) -> Any:
        return self.factor * float(index) ** (-self.exponent)


def is_sequence(scale: Any) -> bool:
    """Say whether a scale is alpha(l, L) or a power of DEPTH rather than a number.

    Example:
        >>> is_sequence(Decreasing()), is_sequence(Power(-0.5)), is_sequence(0.5)
        (True, True, False)
    """
    return callable(scale) and not hasattr(scale, "__float__")


def check_scale(where: str, scale: Any) -> Any:
    """Return `scale` if it is one.

    Raises:
        DescriptionError: neither a number, a power of DEPTH, nor a callable alpha(l, L).
    """
    if isinstance(scale, Power):
        number(where, "scale factor", scale.factor, minimum=None)
        return scale
    if is_sequence(scale):
        return scale
    try:
        return number(where, "scale", scale, minimum=None)
    except DescriptionError:
        raise DescriptionError(
            where,
            f"scale={scale!r} is not a branch scale",
            "give a finite number, a power of DEPTH such as DEPTH**-0.5, or a callable alpha(l, L) with l = 1..L",
        ) from None


def alpha(scale: Any, index: int | None, repeats: int | None, depth: int) -> Any:
    """Return the scale of block `index` (from 1) of `repeats` in a network of the given depth.

    Raises:
        DescriptionError: a sequence outside any Repeat, or a sequence that returns no finite number.
    """
    if isinstance(scale, Power):
        return scale(depth)
    if not is_sequence(scale):
        return scale
    where = f"Residual(scale={getattr(scale, '__name__', scale)!r})"
    if index is None:
        raise DescriptionError(where, "a sequence alpha(l, L) needs blocks to count", "put the Residual inside Repeat")
    try:
        value = scale(index, repeats)
    except Exception as error:
        fix = "alpha(l, L) takes the block's index l (from 1) and the number of blocks L"
        raise DescriptionError(where, f"alpha({index}, {repeats}) raised {error!r}", fix) from error
    return check_scale(f"{where} at l={index}, L={repeats}", value)
