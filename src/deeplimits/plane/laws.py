"""Sampled networks beside a random limit: the top edge of the plane, and its diagonal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits import __version__
from deeplimits.architecture.layer import Layer
from deeplimits.architecture.size import whole
from deeplimits.errors import DescriptionError, InputError
from deeplimits.numerics.arrays import check_memory
from deeplimits.numerics.seeds import sequence
from deeplimits.plane import law_check, law_limit
from deeplimits.plane.law_limit import Limit
from deeplimits.plane.law_record import LawComparison, LawPlace
from deeplimits.plane.progress import Progress
from deeplimits.plane.request import rows, sizes
from deeplimits.plane.store import Store

NETWORKS = 2000
SHARE = 4
MOST_INPUTS = 16
SLACK = 1e-9


@dataclass(frozen=True)
class LawRequest:
    """The arguments of a comparison of laws in their final form; `ratio` is None on the top edge."""

    net: Layer
    inputs: NDArray[np.float64]
    widths: tuple[int, ...]
    depths: tuple[int, ...]
    ratio: float | None
    networks: int
    seed: int

    def places(self) -> list[tuple[int, int]]:
        """Return (width, depth) in the order of the record: rows of the top edge, or up the diagonal."""
        if self.ratio is not None:
            return list(zip(self.widths, self.depths, strict=True))
        return [(width, depth) for width in self.widths for depth in self.depths]

    def own_seed(self, *name: str | int) -> int:
        """Return the seed of a place or a limit: they must be independent."""
        return int(sequence(self.seed, "laws", *name).generate_state(1, np.uint64)[0]) >> 1


def compare_laws(
    net: Any, X: Any, widths: Any, depths: Any, ratio: Any, networks: Any, seed: Any, store: Any, progress: Any
) -> LawComparison:  # fmt: skip
    """Return sampled networks beside the law at depth infinity of each width, or at depth = ratio * width.

    Raises:
        DescriptionError, InputError, NoLimit, MemoryNeeded: before any network is sampled.
    """
    asked = law_request(net, X, widths, depths, ratio, networks, seed)
    places = _places(asked, store, progress)
    columns = [[place for place in places if place.width == width] for width in asked.widths]
    return LawComparison(
        network=repr(net),
        kind="top edge" if asked.ratio is None else "diagonal",
        ratio=asked.ratio,
        inputs=asked.inputs.shape[0],
        features=asked.inputs.shape[1],
        networks=asked.networks,
        samples=SHARE * asked.networks,
        seed=asked.seed,
        widths=list(asked.widths),
        depths=list(asked.depths),
        places=places,
        verdict=law_check.verdict(columns if asked.ratio is None else [places], SHARE),
        notes=_notes(places),
        version=__version__,
    )


def law_request(net: Any, X: Any, widths: Any, depths: Any, ratio: Any, networks: Any, seed: Any) -> LawRequest:
    """Return the checked arguments; depths that hold infinity ask for the top edge, a ratio for the diagonal.

    Raises:
        DescriptionError: `net` is not a description.
        InputError: data or sizes that cannot be used.
        MemoryNeeded: the sampled matrices would not fit.
    """
    if not isinstance(net, Layer):
        fix = "give a network such as dl.ResNet('relu') or layers joined by >>"
        raise DescriptionError("compare", f"{net!r} is not a description of a network", fix)
    inputs = rows(X)
    if len(inputs) > MOST_INPUTS:
        step = -(-len(inputs) // MOST_INPUTS)
        why = f"X has {len(inputs)} rows, a comparison of laws takes at most {MOST_INPUTS}"
        raise InputError("compare(X)", why, f"pick rows, for example X[::{step}]; two show norms and correlations")
    wide = sizes("widths", widths)
    if ratio is None:
        finite = [depth for depth in depths if depth != inf]
        if not finite:
            why = f"depths={list(depths)!r} holds no finite depth: networks of one stand beside the limit"
            raise InputError("compare", why, "give at least one finite depth beside inf, e.g. depths=[16, 64, inf]")
        deep = sizes("depths", finite)
    else:
        ratio = _ratio(ratio)
        deep = tuple(_depth(ratio, width) for width in wide)
    networks = whole("compare", "networks", NETWORKS if networks is None else networks, minimum=2)
    sequence(seed)
    needed = 3 * 8 * (1 + SHARE) * networks * len(inputs) ** 2
    what = f"sampling {networks} networks and {SHARE * networks} limits on {len(inputs)} inputs"
    check_memory("compare", needed, what, "take fewer inputs or fewer networks")
    return LawRequest(net, inputs, wide, deep, ratio, networks, int(seed))


def _ratio(ratio: Any) -> float:
    if isinstance(ratio, bool) or not isinstance(ratio, int | float | Fraction | np.number) or not 0 < ratio < inf:
        raise InputError("compare", f"ratio={ratio!r} is not a positive number", "give depth/width, e.g. ratio=0.5")
    return float(ratio)


def _depth(ratio: float, width: int) -> int:
    depth = round(ratio * width)
    if depth < 1 or abs(ratio * width - depth) > SLACK * width:
        step = Fraction(ratio).limit_denominator(1000).denominator
        why = f"ratio={ratio:g} times width={width} is {ratio * width:g}, no depth"
        raise InputError("compare", why, f"give widths that are multiples of {step}")
    return depth


def _places(asked: LawRequest, folder: Any, progress: bool | Callable[[Any], None]) -> list[LawPlace]:
    question = (asked.net, asked.inputs, asked.ratio, asked.networks, asked.seed, "laws", __version__)
    store = Store(folder, *question, kind=LawPlace)
    limits: dict[int | None, Limit] = {}
    found = []
    with Progress(progress, sum(width * depth for width, depth in asked.places())) as shown:
        for width, depth in asked.places():
            place = store.get(width, depth)
            if place is None:
                at = width if asked.ratio is None else None
                if at not in limits:
                    limits[at] = _limit(asked, at)
                place = _place(asked, limits[at], width, depth)
                store.put(place)
            found.append(place)
            shown.finished(place, width * depth)
    return found


def _limit(asked: LawRequest, width: int | None) -> Limit:
    samples, seed = SHARE * asked.networks, asked.own_seed("limit", 0 if width is None else width)
    if width is not None:
        return law_limit.top_edge(asked.net, asked.inputs, width, samples, seed)
    assert asked.ratio is not None
    return law_limit.diagonal(asked.net, asked.inputs, asked.ratio, samples, seed)


def _place(asked: LawRequest, limit: Limit, width: int, depth: int) -> LawPlace:
    from deeplimits.finite.sample import sample

    drawn = sample(asked.net, asked.inputs, width, depth, asked.networks, asked.own_seed("place", width, depth))
    values, dead = law_limit.networks(np.asarray(drawn.gram, dtype=np.float64), depth, limit)
    samples = len(next(iter(limit.values.values())))
    if min(asked.networks - dead, samples) < 2:
        why = (
            f"at width {width}, depth {depth} {dead} of {asked.networks} networks have an input with all features zero"
        )
        raise InputError("compare", why, "give inputs that are not zero, larger widths or more networks")
    laws = [law_check.law_check(name, values[name], predicted) for name, predicted in limit.values.items()]
    return LawPlace(width, depth, asked.networks, samples, dead, limit.dead, limit.exploded, laws, limit.text)


def _notes(places: list[LawPlace]) -> list[str]:
    notes = [f"limit: {text}" for text in dict.fromkeys(place.limit for place in places)]
    dead = sum(place.dead for place in places)
    if dead:
        notes.append(f"{dead} networks had an input with all features zero, and are left out")
    exploded = max(place.exploded for place in places)
    if exploded:
        total = exploded + places[0].samples + places[0].limit_dead
        notes.append(f"{exploded} of {total} paths of the limit exploded and are left out, while every network counts")
    return notes
