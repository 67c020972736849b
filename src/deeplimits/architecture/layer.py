"""What every description has in common: a frozen dataclass that can be composed, listed and changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from deeplimits.errors import DescriptionError, nearest


@dataclass(frozen=True)
class Share:
    """A share of the network's width: `0.25 * WIDTH`.

    Example:
        >>> 0.25 * WIDTH
        Share(fraction=0.25)
    """

    fraction: float = 1.0

    def __mul__(self, factor: float) -> Share:
        return Share(self.fraction * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Share:
        return Share(self.fraction / divisor)

    def __repr__(self) -> str:
        return "WIDTH" if self.fraction == 1.0 else f"Share(fraction={self.fraction})"


@dataclass(frozen=True)
class Power:
    """A power of the network's depth, factor * L**exponent; `DEPTH**-0.5` makes one.

    Example:
        >>> 2 * DEPTH**-0.5
        Power(exponent=-0.5, factor=2.0)
    """

    exponent: float = 1.0
    factor: Any = 1.0

    def __mul__(self, factor: Any) -> Power:
        return Power(self.exponent, self.factor * factor)

    __rmul__ = __mul__

    def __pow__(self, exponent: float) -> Power:
        return Power(self.exponent * exponent, self.factor**exponent)

    def __rtruediv__(self, numerator: Any) -> Power:
        return Power(-self.exponent, numerator / self.factor)

    def __call__(self, depth: int) -> Any:
        return self.factor * float(depth) ** self.exponent

    def __repr__(self) -> str:
        if self == DEPTH:
            return "DEPTH"
        return f"Power(exponent={self.exponent}, factor={self.factor})"


WIDTH = Share(1.0)
DEPTH = Power(1.0, 1.0)


class Layer:
    """A part of a network, described and never computed.

    A layer is a frozen dataclass. What theory says about it is a rule registered with a `Question`;
    a layer without a rule is rewritten through `parts()` into simpler layers.
    """

    tunable: ClassVar[tuple[str, ...]] = ()

    def parts(self) -> Layer | None:
        """Return the same network written with simpler layers, or None for a primitive layer."""
        return None

    def __rshift__(self, other: Layer) -> Layer:
        from deeplimits.architecture.compose import Serial

        if not isinstance(other, Layer):
            fix = "join layers only, e.g. Dense() >> act.Relu(); a name such as 'relu' stands for one in Mlp and ResNet"
            raise DescriptionError(f"{type(self).__name__} >> ...", f"{other!r} is not a layer", fix)
        return Serial(*_chain(self), *_chain(other))

    def children(self) -> Iterator[tuple[str, Layer]]:
        """Yield (name, layer) for every layer held in a field."""
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, Layer):
                yield field.name, value
            elif isinstance(value, tuple) and value and all(isinstance(v, Layer) for v in value):
                yield from ((str(index), layer) for index, layer in enumerate(value))

    def hyperparameters(self) -> dict[str, Any]:
        """Return {path: value} of the numbers that a kernel can be differentiated in.

        Example:
            >>> from deeplimits.architecture.dense import Dense
            >>> (Dense(weight_std=1.5) >> Dense(features=1)).hyperparameters()["0.weight_std"]
            1.5
        """
        own = {}
        for name in self.tunable:
            value = getattr(self, name)
            if isinstance(value, Power):
                own[name] = value.factor
            elif not callable(value):
                own[name] = value
        for name, child in self.children():
            own.update({f"{name}.{path}": value for path, value in child.hyperparameters().items()})
        return own

    def replace(self, changes: Mapping[str, Any]) -> Layer:
        """Return the same description with the hyperparameters at the given paths changed.

        Raises:
            DescriptionError: a path is not one of `hyperparameters()`.
        """
        known = self.hyperparameters()
        for path in changes:
            if path not in known:
                raise DescriptionError(
                    f"{type(self).__name__}.replace", f"no hyperparameter at {path!r}", nearest(path, known)
                )
        return self._replaced(changes)

    def _replaced(self, changes: Mapping[str, Any]) -> Layer:
        updates: dict[str, Any] = {}
        for name, value in changes.items():
            if "." not in name:
                old = getattr(self, name)
                updates[name] = Power(old.exponent, value) if isinstance(old, Power) else value
        for name, child in self.children():
            inner = {path.split(".", 1)[1]: v for path, v in changes.items() if path.startswith(name + ".")}
            if inner:
                self._put(updates, name, child._replaced(inner))
        return replace(self, **updates) if updates else self  # type: ignore[type-var]

    def _put(self, updates: dict[str, Any], name: str, child: Layer) -> None:
        if not name.isdigit():
            updates[name] = child
            return
        holder = next(f.name for f in fields(self) if isinstance(getattr(self, f.name), tuple))  # type: ignore[arg-type]
        held = list(updates.get(holder, getattr(self, holder)))
        held[int(name)] = child
        updates[holder] = tuple(held)


def _chain(layer: Layer) -> tuple[Layer, ...]:
    from deeplimits.architecture.compose import Serial

    return layer.layers if isinstance(layer, Serial) else (layer,)


def as_float(value: Any) -> float:
    """Return a number, or a tensor that holds one, as a float."""
    return float(value.detach()) if hasattr(value, "detach") else float(value)


def number(where: str, name: str, value: Any, *, minimum: float | None = 0.0) -> Any:
    """Check that `value` is a finite number (a tensor scalar is let through) and return it.

    Raises:
        DescriptionError: not a number, not finite, or below `minimum`.
    """
    try:
        plain = as_float(None if isinstance(value, str) else value)
    except (TypeError, ValueError):
        raise DescriptionError(where, f"{name}={value!r} is not a number", f"give {name} as a float") from None
    if plain != plain or plain in (float("inf"), float("-inf")) or (minimum is not None and plain < minimum):
        bound = "" if minimum is None else f" at least {minimum:g}"
        raise DescriptionError(where, f"{name}={plain} is out of range", f"give a finite number{bound}")
    return value
