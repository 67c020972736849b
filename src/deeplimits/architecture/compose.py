"""Ways of putting layers together: in sequence, around a skip, in parallel, repeated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from deeplimits.architecture.layer import DEPTH, Layer, Power
from deeplimits.architecture.scale import alpha, check_scale
from deeplimits.architecture.size import whole
from deeplimits.errors import DescriptionError, InputError

MOST_BLOCKS = 1_000_000


@dataclass(frozen=True, init=False)
class Serial(Layer):
    """Layers one after the other; `a >> b` makes one. An empty Serial is the identity.

    Example:
        >>> from deeplimits.architecture.dense import Dense
        >>> len((Dense() >> Dense(features=1)).layers)
        2
    """

    layers: tuple[Layer, ...]

    def __init__(self, *args: Layer, layers: tuple[Layer, ...] | None = None):
        object.__setattr__(self, "layers", _layers("Serial", args if layers is None else layers))


@dataclass(frozen=True)
class Residual(Layer):
    """x + scale * branch(x).

    Args:
        branch: the branch.
        scale: a number, a power of DEPTH, or a sequence alpha(l, L) for block l = 1..L.

    Raises:
        DescriptionError: the scale is not a scale.
    """

    branch: Layer
    scale: Any = 1.0

    tunable: ClassVar[tuple[str, ...]] = ("scale",)

    def __post_init__(self) -> None:
        _layers("Residual", (self.branch,))
        check_scale("Residual", self.scale)


@dataclass(frozen=True, init=False)
class Parallel(Layer):
    """The sum of branches that read the same input.

    Valid when: in kernels, at most one branch passes its input on unchanged; the others end in a Dense layer.
    """

    branches: tuple[Layer, ...]

    def __init__(self, *args: Layer, branches: tuple[Layer, ...] | None = None):
        held = _layers("Parallel", args if branches is None else branches)
        if not held:
            raise DescriptionError("Parallel", "no branches", "give at least one layer")
        object.__setattr__(self, "branches", held)


@dataclass(frozen=True)
class Repeat(Layer):
    """A block repeated, with fresh weights each time.

    Args:
        block: the block.
        times: a whole number, or DEPTH (left open).
    """

    block: Layer
    times: Any = DEPTH

    def __post_init__(self) -> None:
        _layers("Repeat", (self.block,))
        if isinstance(self.times, Power):
            if self.times != DEPTH:
                raise DescriptionError("Repeat", f"times={self.times!r}", "use times=DEPTH or a whole number")
        else:
            whole("Repeat", "times", self.times)


def _layers(where: str, layers: tuple[Any, ...]) -> tuple[Layer, ...]:
    for layer in layers:
        if not isinstance(layer, Layer):
            fix = "use layers such as Dense(...), activations such as act.Relu() and their compositions"
            raise DescriptionError(where, f"{layer!r} is not a layer", fix)
    return tuple(layers)


def expand(layer: Layer, depth: int, index: int | None = None, repeats: int | None = None) -> Layer:
    """Return the network at a finite depth: zoo names and repeats written out, every branch scale a number.

    Args:
        layer: the description.
        depth: the number that DEPTH stands for.
        index: index (from 1) of the enclosing repeated block.
        repeats: number of the enclosing repeated blocks.

    Example:
        >>> from deeplimits.architecture.dense import Dense
        >>> len(expand(Repeat(Residual(Dense(), DEPTH**-0.5)), 4).layers)
        4
    """
    match layer:
        case Serial(layers=layers):
            return Serial(layers=_flat(expand(part, depth, index, repeats) for part in layers))
        case Repeat(block=block, times=times):
            count = depth if isinstance(times, Power) else times
            if count > MOST_BLOCKS:
                why = f"depth={count:g}: every block is written out, at most {MOST_BLOCKS:,}"
                raise InputError("depth", why, "give a smaller depth, or depth=inf where it has a limit")
            return Serial(layers=_flat(expand(block, depth, place, count) for place in range(1, count + 1)))
        case Residual(branch=branch, scale=scale):
            return Residual(expand(branch, depth, index, repeats), alpha(scale, index, repeats, depth))
        case Parallel(branches=branches):
            return Parallel(branches=tuple(expand(branch, depth, index, repeats) for branch in branches))
    written_out = layer.parts()
    return layer if written_out is None else expand(written_out, depth, index, repeats)


def depends_on_depth(layer: Layer) -> bool:
    """Say whether DEPTH stands anywhere in the description.

    Example:
        >>> from deeplimits.architecture.dense import Dense
        >>> depends_on_depth(Dense()), depends_on_depth(Repeat(Dense()))
        (False, True)
    """
    if (simpler := layer.parts()) is not None:
        return depends_on_depth(simpler)
    own = isinstance(getattr(layer, "times", None), Power) or isinstance(getattr(layer, "scale", None), Power)
    return own or any(depends_on_depth(child) for _, child in layer.children())


def _flat(layers: Any) -> tuple[Layer, ...]:
    flat: list[Layer] = []
    for layer in layers:
        flat.extend(layer.layers if isinstance(layer, Serial) else (layer,))
    return tuple(flat)


def written_out(layer: Layer) -> Layer:
    """Return the description with zoo names replaced by their parts, repeats kept, as a flat Serial."""
    while (simpler := layer.parts()) is not None:
        layer = simpler
    if isinstance(layer, Serial):
        return Serial(
            layers=_flat(
                written_out(part) if part.parts() is not None or isinstance(part, Serial) else part
                for part in layer.layers
            )
        )
    return Serial(layer)


def body(layer: Layer) -> Layer:
    """Return the network without its last Dense layer: what enters the readout.

    Raises:
        DescriptionError: the network does not end in a Dense layer.
    """
    from deeplimits.architecture.dense import Dense

    flat = written_out(layer)
    assert isinstance(flat, Serial)
    if not flat.layers or not isinstance(flat.layers[-1], Dense):
        raise DescriptionError("body", "the network does not end in a Dense readout", "add >> Dense(features=1)")
    return Serial(layers=flat.layers[:-1])
