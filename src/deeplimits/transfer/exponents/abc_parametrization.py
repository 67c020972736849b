"""What an abc-parametrization does at infinite width: whether it is stable, and whether features are learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deeplimits.errors import DescriptionError, nearest

FEATURES, KERNEL, TRIVIAL, UNSTABLE = "feature learning", "kernel", "trivial", "unstable"
NAMED = ("sp", "ntp", "mean_field", "mup")
_TOLERANCE = 1e-12


@dataclass(frozen=True)
class Abc:
    """A classified abc-parametrization.

    Attributes:
        a, b: exponents of the L + 1 layers: W = n^-a w, w ~ N(0, n^-2b).
        c: exponents of the learning rates of the layers, n^-c.
        r: the features of the last hidden layer move by n^-r in a step (before saturation, where r < 0).
        r_layers: the part of each hidden layer's weights in that; 0 where a layer is maximally updated.
        stable: whether activations and outputs stay of order 1.
        nontrivial: whether the function moves by order 1.
        regime: "feature learning", "kernel", "trivial" or "unstable".
    """

    a: tuple[float, ...]
    b: tuple[float, ...]
    c: tuple[float, ...]
    r: float
    r_layers: tuple[float, ...]
    stable: bool
    nontrivial: bool
    regime: str


def abc(
    a: str | Sequence[float], b: Sequence[float] | None = None, c: float | Sequence[float] = 0.0, hidden: int = 2
) -> Abc:
    """Classify a parametrization of a perceptron with L hidden layers, trained by SGD with learning rate n^-c.

    r_l = min(a_{L+1} + b_{L+1}, 2 a_{L+1} + c_{L+1}) + c_l - 1 + 2 a_l + [l = 1], and r is the smallest of them.

    Args:
        a: exponents of the multipliers, L + 1 of them, or a name: "sp" (learning rate 1/n), "ntp", "mean_field", "mup".
        b: exponents of the initial standard deviations.
        c: exponent of the learning rate, one for all layers or one for each.
        hidden: L, where a name is given.

    Valid when: smooth activations (tanh, GELU); one step and all later ones, at fixed time.

    Raises:
        DescriptionError: an unknown name, or lists of different lengths.

    Source: yang-hu-2020-tp4, Definition 3.2 and Theorems 3.3 to 3.6; with one learning rate a layer, derived.

    Example:
        >>> abc("mup").regime, abc("ntp").r, abc("sp").regime
        ('feature learning', 0.5, 'kernel')
    """
    if isinstance(a, str):
        a, b, c = _named(a, hidden)
    if b is None or len(a) != len(b) or len(a) < 2:
        why = f"{len(a)} exponents a and {0 if b is None else len(b)} exponents b"
        raise DescriptionError("abc", why, "give L + 1 of each, for L >= 1 hidden layers")
    rates = tuple(float(x) for x in c) if isinstance(c, Sequence) else (float(c),) * len(a)
    if len(rates) != len(a):
        raise DescriptionError("abc", f"{len(rates)} exponents c", f"give one, or {len(a)}")
    last, readout = a[-1] + b[-1], 2 * a[-1] + rates[-1]
    parts = tuple(min(last, readout) + rates[n] - 1 + 2 * a[n] + (n == 0) for n in range(len(a) - 1))
    r = min(parts)
    starts = abs(a[0] + b[0]) <= _TOLERANCE and all(
        abs(x + y - 0.5) <= _TOLERANCE for x, y in zip(a[1:-1], b[1:-1], strict=True)
    )
    stays = min(last - 0.5, r, readout - 1, last + r - 1) >= -_TOLERANCE
    moves = min(abs(last + r - 1), abs(readout - 1)) <= _TOLERANCE
    stable = starts and stays
    regime = UNSTABLE if not stable else TRIVIAL if not moves else FEATURES if abs(r) <= _TOLERANCE else KERNEL
    return Abc(tuple(a), tuple(b), rates, r, parts, stable, stable and moves, regime)


def _named(name: str, hidden: int) -> tuple[list[float], list[float], float]:
    inner = hidden - 1
    table = {
        "sp": ([0.0] * (hidden + 1), [0.0] + [0.5] * hidden, 1.0),
        "ntp": ([0.0] + [0.5] * hidden, [0.0] * (hidden + 1), 0.0),
        "mean_field": ([0.0, 1.0], [0.0, 0.0], -1.0),
        "mup": ([-0.5, *[0.0] * inner, 0.5], [0.5] * (hidden + 1), 0.0),
    }
    if name not in table:
        raise DescriptionError("abc", f"{name!r} is not known", nearest(name, NAMED))
    return table[name]
