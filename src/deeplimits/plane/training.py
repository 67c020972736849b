"""Trained networks beside the limit of training, on a grid of widths and depths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits import __version__
from deeplimits.architecture.layer import Layer
from deeplimits.architecture.size import whole
from deeplimits.errors import DescriptionError, InputError
from deeplimits.finite.train import Descent, train
from deeplimits.numerics.seeds import sequence
from deeplimits.plane import training_check, training_limit
from deeplimits.plane.progress import Progress
from deeplimits.plane.request import rows, sizes
from deeplimits.plane.store import Store
from deeplimits.plane.training_check import Limit
from deeplimits.plane.training_record import TrainingComparison, TrainingPlace

Array = NDArray[np.float64]
NETWORKS = 100
KEPT = 8


@dataclass(frozen=True)
class TrainingRequest:
    """The arguments of a comparison of training in their final form; `labels` is (P, outputs)."""

    net: Layer
    inputs: Array
    labels: Array
    tests: Array | None
    widths: tuple[int, ...]
    depths: tuple[int, ...]
    networks: int
    seed: int
    descent: Descent

    @property
    def times(self) -> tuple[int, ...]:
        """Steps at which outputs are compared, closer together at the start, where more happens."""
        steps = self.descent.steps
        return tuple(sorted({round(steps * (index / KEPT) ** 2) for index in range(KEPT + 1)}))

    def places(self) -> list[tuple[int, int]]:
        """Return (width, depth), cheapest first."""
        return sorted(
            ((width, depth) for width in self.widths for depth in self.depths), key=lambda at: (self.cost(*at), at)
        )

    def cost(self, width: int, depth: int) -> float:
        """Return the relative cost of a place."""
        return width**2 * max(depth - 1, 1) + width * self.inputs.shape[1]

    def own_seed(self, *name: str | int) -> int:
        """Return the seed of a place or a limit: they must be independent."""
        return int(sequence(self.seed, "training", *name).generate_state(1, np.uint64)[0]) >> 1


def compare_training(
    net: Any, X: Any, y: Any, X_test: Any, widths: Any, depths: Any, networks: Any, seed: Any, descent: Any, store: Any,
    progress: Any,
) -> TrainingComparison:  # fmt: skip
    """Return trained networks beside the limit of training at each depth.

    Raises:
        DescriptionError, InputError, NoLimit, MemoryNeeded: before any network is trained.
    """
    asked = training_request(net, X, y, X_test, widths, depths, networks, seed, descent)
    limits = {depth: _limit(asked, depth) for depth in asked.depths}
    places = _places(asked, limits, store, progress)
    descent = asked.descent
    return TrainingComparison(
        network=repr(net),
        kind="lazy" if descent.gamma is None else "mean field",
        inputs=asked.inputs.shape[0],
        tests=0 if asked.tests is None else len(asked.tests),
        features=asked.inputs.shape[1],
        outputs=asked.labels.shape[1],
        networks=asked.networks,
        seed=asked.seed,
        rate=descent.rate,
        momentum=descent.momentum,
        gamma=descent.gamma,
        times=list(asked.times),
        widths=list(asked.widths),
        depths=list(asked.depths),
        places=places,
        verdict=training_check.verdict([[p for p in places if p.depth == depth] for depth in asked.depths]),
        notes=_notes(limits, places),
        version=__version__,
    )


def training_request(
    net: Any, X: Any, y: Any, X_test: Any, widths: Any, depths: Any, networks: Any, seed: Any, descent: Any
) -> TrainingRequest:
    """Return the checked arguments.

    Raises:
        DescriptionError: `net` is not a description.
        InputError: data, labels, sizes or a descent that cannot be used.
    """
    if not isinstance(net, Layer):
        fix = "give a network such as dl.ResNet('relu') or layers joined by >>"
        raise DescriptionError("compare", f"{net!r} is not a description of a network", fix)
    if not isinstance(descent, Descent):
        fix = "give e.g. training=dl.training.Descent(rate=0.1, steps=100), with gamma= for features that move"
        raise InputError("compare", f"training={descent!r}", fix)
    if descent.gamma is not None and descent.momentum:
        why = f"momentum={descent.momentum:g} beside gamma={descent.gamma:g}: the mean-field limit has none"
        raise InputError("compare", why, "leave one of them out")
    inputs = rows(X)
    tests = None if X_test is None else rows(X_test, "X_test")
    if tests is not None and tests.shape[1] != inputs.shape[1]:
        why = f"X_test has {tests.shape[1]} features and X {inputs.shape[1]}"
        raise InputError("compare(X_test)", why, "give test inputs of the same features")
    sequence(seed)
    return TrainingRequest(
        net=net,
        inputs=inputs,
        labels=labels(y, len(inputs)),
        tests=tests,
        widths=sizes("widths", widths),
        depths=sizes("depths", depths),
        networks=whole("compare", "networks", NETWORKS if networks is None else networks, minimum=2),
        seed=int(seed),
        descent=descent,
    )


def labels(y: Any, count: int) -> Array:
    """Return labels (P, outputs) of `count` inputs.

    Raises:
        InputError: none given, another shape, entries that are no finite numbers, or zeros alone.
    """
    where = "compare(y)"
    if y is None:
        raise InputError(where, "training needs labels", "give y=, shape (inputs,) or (inputs, outputs)")
    try:
        table = np.asarray(y.detach().cpu().numpy() if hasattr(y, "detach") else y)
        if table.dtype.kind not in "fiub":
            raise TypeError(f"dtype {table.dtype}")
        table = table.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(where, f"y is not an array of real numbers ({error})", "give numbers") from error
    if table.ndim not in (1, 2) or len(table) != count or 0 in table.shape:
        why = f"y has shape {table.shape}, X has {count} rows"
        raise InputError(where, why, f"give one label a row: shape ({count},) or ({count}, outputs)")
    table = table.reshape(count, -1)
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        raise InputError(where, f"y has {table[tuple(bad[0])]} at row {bad[0][0]}", "drop or impute those rows")
    if not table.any():
        raise InputError(where, "all labels are 0, and distances are measured in units of theirs", "give other labels")
    return table


def _limit(asked: TrainingRequest, depth: int) -> Limit:
    at = (asked.net, asked.inputs, asked.labels, asked.tests, depth, asked.descent, asked.times)
    if asked.descent.gamma is None:
        return training_limit.lazy(*at)
    return training_limit.mean_field(*at, asked.own_seed("limit", depth))


def _notes(limits: dict[int, Limit], places: list[TrainingPlace]) -> list[str]:
    notes = [f"limit: {text}" for text in dict.fromkeys(limit.text for limit in limits.values())]
    lost = [place for place in places if place.diverged]
    if lost:
        most = max(lost, key=lambda place: place.diverged)
        notes.append(
            f"at {len(lost)} of {len(places)} places networks diverged and are left out, at most {most.diverged} of "
            f"{most.networks}, at width {most.width}, depth {most.depth}"
        )
    return notes


def _places(
    asked: TrainingRequest, limits: dict[int, Limit], folder: Any, progress: bool | Callable[[Any], None]
) -> list[TrainingPlace]:
    question = (asked.net, asked.inputs, asked.labels, () if asked.tests is None else asked.tests, asked.networks)
    store = Store(folder, *question, asked.seed, asked.descent, "training", __version__, kind=TrainingPlace)
    found: dict[tuple[int, int], TrainingPlace] = {}
    with Progress(progress, sum(asked.cost(*at) for at in asked.places()), "training networks") as shown:
        for width, depth in asked.places():
            place = store.get(width, depth)
            if place is None:
                place = _place(asked, limits[depth], width, depth, shown)
                store.put(place)
            found[width, depth] = place
            shown.finished(place, asked.cost(width, depth))
    return [found[width, depth] for depth in asked.depths for width in asked.widths]


def _place(asked: TrainingRequest, limit: Limit, width: int, depth: int, shown: Progress) -> TrainingPlace:
    seed = asked.own_seed("place", width, depth)
    at = (width, depth, asked.networks, seed, asked.descent, asked.times)
    done = train(asked.net, asked.inputs, asked.labels, asked.tests, *at)
    outputs = done.outputs.reshape(*done.outputs.shape[:2], -1)
    return training_check.place(width, depth, outputs, asked.labels.reshape(-1), limit)
