"""What a comparison is asked, checked before any work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from deeplimits.architecture.layer import Layer
from deeplimits.architecture.size import whole
from deeplimits.errors import DescriptionError, InputError, nearest
from deeplimits.numerics.arrays import check_memory
from deeplimits.numerics.seeds import sequence
from deeplimits.plane.neural_function import name_of

KERNELS = ("nngp", "ntk")
MOST_INPUTS = 256
NETWORKS = 200


@dataclass(frozen=True)
class Request:
    """A comparison's arguments in their final form."""

    net: Layer
    inputs: np.ndarray
    widths: tuple[int, ...]
    depths: tuple[int, ...]
    networks: int
    seed: int
    get: tuple[str, ...]
    function: Callable[[Any, Any], Any] | None

    def places(self) -> list[tuple[int, int]]:
        """Return (width, depth), cheapest first."""
        return sorted(((n, depth) for n in self.widths for depth in self.depths), key=lambda at: (self.cost(*at), at))

    def cost(self, width: int, depth: int) -> float:
        """Return the relative cost of a place."""
        return width * depth * (1.0 if self.function is None else 1.0 + width / 64)

    def place_seed(self, width: int, depth: int) -> int:
        """Return the place's own seed: places must be independent, or fits over them would claim too much."""
        return int(sequence(self.seed, "place", width, depth).generate_state(1, np.uint64)[0]) >> 1


def request(
    net: Any, X: Any, widths: Any, depths: Any, networks: Any, seed: Any, get: Any, function: Any
) -> Request:  # fmt: skip
    """Return the checked arguments of `compare`.

    Raises:
        DescriptionError: `net` is not a description.
        InputError: data, sizes or names that cannot be used.
        MemoryNeeded: the sampled kernels would not fit.
    """
    if not isinstance(net, Layer):
        fix = "give a network such as dl.ResNet('relu') or layers joined by >>"
        raise DescriptionError("compare", f"{net!r} is not a description of a network", fix)
    names = (get,) if isinstance(get, str) else tuple(get)
    for name in names:
        if name not in KERNELS:
            raise InputError("compare", f"get={name!r} is not a kernel", nearest(str(name), KERNELS))
    if function is not None:
        name_of(function)
    elif not names:
        raise InputError("compare", "get=() and no function: nothing to compare", "put 'nngp' or 'ntk' into get")
    sequence(seed)
    asked = Request(
        net=net,
        inputs=rows(X),
        widths=sizes("widths", widths),
        depths=sizes("depths", depths),
        networks=whole("compare", "networks", NETWORKS if networks is None else networks, minimum=2),
        seed=int(seed),
        get=names,
        function=function,
    )
    _fits(asked)
    return asked


def rows(X: Any, name: str = "X") -> np.ndarray:
    """Return the inputs as a finite float64 matrix.

    Raises:
        InputError: not such a matrix, empty, or more rows than a comparison takes.
    """
    where = f"compare({name})"
    given = X.detach().cpu().numpy() if hasattr(X, "detach") else X
    try:
        table = np.asarray(given)
        if np.iscomplexobj(table) or table.dtype == object or table.dtype.kind not in "fiub":
            raise TypeError(f"dtype {table.dtype}")
        table = table.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(where, f"{name} is not a matrix of real numbers ({error})", "give a float array") from error
    if table.ndim != 2:
        fix = f"give {name} of shape (inputs, features), e.g. {name}[None, :] for one input"
        raise InputError(where, f"{name} has shape {table.shape}", fix)
    if 0 in table.shape:
        raise InputError(where, f"{name} is empty: shape {table.shape}", "give at least one row and one feature")
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        row, column = bad[0]
        why = f"{name} has {table[row, column]} at row {row}, column {column} ({len(bad)} such entries)"
        raise InputError(where, why, "drop or impute those rows")
    if len(table) > MOST_INPUTS:
        step = -(-len(table) // MOST_INPUTS)
        fix = f"pick rows, for example {name}[::{step}]; sixteen tell as much about the order of the limits"
        raise InputError(where, f"{name} has {len(table)} rows, a comparison takes at most {MOST_INPUTS}", fix)
    return table


def sizes(name: str, given: Any) -> tuple[int, ...]:
    """Return widths or depths as whole numbers, rising.

    Raises:
        InputError: no list, an empty one, a number that is no size, or one given twice.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InputError("compare", f"{name}={given!r} is not a list of sizes", f"give e.g. {name}=[64, 256, 1024]")
    found = [whole("compare", name, size) for size in given]
    if not found:
        raise InputError("compare", f"{name} is empty", f"give e.g. {name}=[64, 256, 1024]")
    twice = sorted({size for size in found if found.count(size) > 1})
    if twice:
        raise InputError("compare", f"{name} holds {twice[0]} twice", "give every size once")
    return tuple(sorted(found))


def _fits(asked: Request) -> None:
    count = len(asked.inputs)
    needed = 4 * 8 * asked.networks * count * count * max(len(asked.get), 1)
    what = f"sampling {asked.networks} networks on {count} inputs"
    check_memory("compare", needed, what, "take fewer inputs, fewer networks, or one kernel: get='nngp'")
