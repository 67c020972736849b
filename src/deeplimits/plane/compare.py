"""Prediction and measurement side by side on the (width, depth) plane."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import inf
from typing import Any, overload

import numpy as np

from deeplimits import __version__
from deeplimits.architecture.controlled import ControlledResNet
from deeplimits.errors import DescriptionError, InputError
from deeplimits.finite.train import Descent
from deeplimits.plane import measure, neural_function, verdict
from deeplimits.plane.law_record import LawComparison
from deeplimits.plane.laws import compare_laws
from deeplimits.plane.progress import Progress
from deeplimits.plane.rates import width_rate, widths_needed
from deeplimits.plane.record import Comparison, Place
from deeplimits.plane.request import KERNELS, Request, request
from deeplimits.plane.store import Store
from deeplimits.plane.theory import Theory, depth_rate, log_norm, predict
from deeplimits.plane.training import compare_training
from deeplimits.plane.training_record import TrainingComparison


@overload
def compare(
    net: Any, X: Any, widths: Iterable[int], depths: Iterable[int], networks: int | None = None, seed: int = 0,
    get: str | tuple[str, ...] = KERNELS, function: Callable[[Any, Any], Any] | None = None, store: Any = None,
    progress: bool | Callable[[Any], None] = False, *, ratio: None = None,
) -> Comparison: ...  # fmt: skip
@overload
def compare(
    net: Any, X: Any, widths: Iterable[int], depths: Iterable[float] | None = None, networks: int | None = None,
    seed: int = 0, *, store: Any = None, progress: bool | Callable[[Any], None] = False, ratio: float | None = None,
) -> LawComparison: ...  # fmt: skip
@overload
def compare(
    net: Any, X: Any, widths: Iterable[int], depths: Iterable[int], networks: int | None = None, seed: int = 0, *,
    store: Any = None, progress: bool | Callable[[Any], None] = False, y: Any, X_test: Any = None, training: Descent,
) -> TrainingComparison: ...  # fmt: skip
def compare(
    net: Any,
    X: Any,
    widths: Iterable[int],
    depths: Iterable[float] | None = None,
    networks: int | None = None,
    seed: int = 0,
    get: str | tuple[str, ...] = KERNELS,
    function: Callable[[Any, Any], Any] | None = None,
    store: Any = None,
    progress: bool | Callable[[Any], None] = False,
    *,
    ratio: float | None = None,
    y: Any = None,
    X_test: Any = None,
    training: Descent | None = None,
) -> Comparison | LawComparison | TrainingComparison:
    """Compare networks with theory: sampled on a grid of sizes, on the top edge or the diagonal, or trained on a grid.

    On a grid: q_n,L(x, x') = <Y_L(x), Y_L(x')>/n of the features that enter the readout, and the NTK of the network
    with its readout, over `networks` random networks a place, beside the kernels of infinite width. The verdict, on
    whether the order of the limits matters, rests on the law of log q over networks, never on means: along L = r n,
    var(log q) ~ n^s with the 99 % interval of s inside [-1.3, -0.7] commutes, inside [-0.3, 0.3] does not commute,
    anything else is undecided.

    Where the limit is random, laws are compared: of log q of every input and of its correlation with the first, by
    Kolmogorov-Smirnov distances and quantiles. With infinity among the depths, networks of every other depth stand
    beside `dl.diffusion` at their width (the top edge); with a ratio, networks of depth = ratio * width stand beside
    `dl.proportional` (the diagonal). All distances at the largest size surely below 0.1 agree, one above differs.

    With labels and `training`, networks are trained at every place of the grid, each from its own initialisation,
    beside the limit of training at that depth: `dl.gradient_flow` (mean and covariance of the ensemble) or, with a
    gamma, `dl.mean_field` (one function). Mean and standard deviation over networks of all outputs are compared at
    several steps.

    Args:
        net: a description.
        X: inputs, (k, d), at most 256 rows, 16 for laws; for attention, the tokens of one sequence.
        widths: the grid's widths.
        depths: the grid's depths; a verdict needs three places on one diagonal depth = ratio * width. [16, 64, inf] for
            the top edge.
        networks: random networks at each place; by default 200, for laws 2000 (and 4 samples of the limit for each).
        seed: each place, network and layer draws from its own named stream.
        get: "nngp", "ntk" or both; () with a function. Laws are those of the features.
        function: (module, X) -> tensor, a neural function of full networks (float64); its law then gives the verdict.
        store: a folder that keeps finished places, so that the same call after an interruption resumes.
        progress: True for a bar on stderr (on a terminal only), or a function called with every finished place.
        ratio: depth over width, in place of depths.
        y: labels for training, (k,) or (k, outputs).
        X_test: further inputs whose outputs are compared after training on X.
        training: how networks are trained, a `dl.training.Descent`; by default 100 networks a place.

    Raises:
        DescriptionError, InputError, NoLimit, MemoryNeeded: before any network is sampled or trained.

    Source: hayou-yang-2023-commute (rates in width and depth); hanin-nica-2019 (the network that does not commute);
        hayou-2022-infinite-depth (top edge); li-nica-roy-2022, noci-2023-shaped-transformer (diagonal).

    Example:
        >>> import numpy as np, deeplimits as dl
        >>> table = dl.compare(dl.Mlp("relu"), np.eye(2), [16, 32, 64], [16, 32, 64], networks=200, get="nngp")
        >>> table.verdict.word
        'does not commute'
        >>> dl.compare(dl.ShapedMlp(), np.ones((1, 2)), widths=[64], ratio=0.5).verdict.word
        'agrees'
    """
    if isinstance(net, ControlledResNet):
        fix = "set dl.sample(net, paths, width, depth, networks) beside dl.kernel(net, paths, depth=depth)"
        raise DescriptionError("compare", "networks driven by paths are not compared: X holds rows", fix)
    deep = _several(depths)
    if training is not None or y is not None or X_test is not None:
        _only_training(ratio, get, function)
        return compare_training(net, X, y, X_test, widths, deep, networks, seed, training, store, progress)
    if ratio is not None or (deep is not None and inf in deep):
        _only_laws(deep, ratio, get, function)
        return compare_laws(net, X, widths, deep, ratio, networks, seed, store, progress)
    return _on_grid(net, X, widths, deep, networks, seed, get, function, store, progress)


def _several(depths: Any) -> Any:
    """Return depths that can be read twice."""
    return list(depths) if isinstance(depths, Iterable) and not isinstance(depths, str | bytes) else depths


def _only_laws(depths: Any, ratio: Any, get: Any, function: Any) -> None:
    """Refuse arguments of a grid beside those of laws."""
    if ratio is not None and depths is not None:
        raise InputError("compare", f"both depths={depths!r} and ratio={ratio!r}", "give one of them")
    if function is not None or get not in (KERNELS, "nngp", ("nngp",)):
        why = f"get={get!r}, function={function!r}: with a ratio or infinite depth the laws of features are compared"
        raise InputError("compare", why, "leave them out, or give finite depths")


def _only_training(ratio: Any, get: Any, function: Any) -> None:
    """Refuse arguments of other comparisons beside labels."""
    given = {"ratio": (ratio, None), "get": (get, KERNELS), "function": (function, None)}
    odd = [f"{name}={value!r}" for name, (value, usual) in given.items() if value is not usual and value != usual]
    if odd:
        why = f"{', '.join(odd)} beside labels: the outputs of networks are compared"
        raise InputError("compare", why, "leave that out, or give neither y, X_test nor training")


def _on_grid(
    net: Any, X: Any, widths: Any, depths: Any, networks: Any, seed: Any, get: Any, function: Any, store: Any,
    progress: Any,
) -> Comparison:  # fmt: skip
    if depths is None:
        raise InputError("compare", "neither depths nor ratio", "give e.g. depths=[16, 64], or ratio=0.5")
    asked = request(net, X, widths, depths, networks, seed, get, function)
    theory = predict(asked.net, asked.inputs, asked.depths, asked.get)
    places = _places(asked, theory, store, progress)
    found = verdict.rays(places)
    decided = verdict.verdict(found)
    if function is not None:
        own = neural_function.rays(places)
        found, decided = found + own, neural_function.verdict(places, own)
    corners = {name: theory.at(name, inf) for name in ("nngp", "ntk")}
    return Comparison(
        network=repr(net),
        inputs=asked.inputs.shape[0],
        features=asked.inputs.shape[1],
        networks=asked.networks,
        seed=asked.seed,
        get=list(asked.get),
        widths=list(asked.widths),
        depths=list(asked.depths),
        places=places,
        rays=found,
        verdict=decided,
        corner=theory.corner,
        corner_nngp=_listed(corners["nngp"]),
        corner_ntk=_listed(corners["ntk"]),
        depth_rates=[depth_rate(asked.net, asked.inputs, name, theory) for name in asked.get],
        width_rates=[width_rate(name, places) for name in asked.get],
        widths_needed=[needed for name in asked.get for needed in widths_needed(name, places)],
        function=None if function is None else neural_function.name_of(function),
        notes=_notes(places, theory),
        version=__version__,
    )


def _places(asked: Request, theory: Theory, folder: Any, progress: Any) -> list[Place]:
    question = (asked.net, asked.inputs, asked.networks, asked.seed, asked.get, asked.function, __version__)
    store = Store(folder, *question)
    order = asked.places()
    found: dict[tuple[int, int], Place] = {}
    with Progress(progress, sum(asked.cost(*at) for at in order)) as shown:
        for width, depth in order:
            place = store.get(width, depth)
            if place is None:
                place = _place(asked, theory, width, depth)
                store.put(place)
            found[width, depth] = place
            shown.finished(place, asked.cost(width, depth))
    return [found[width, depth] for depth in asked.depths for width in asked.widths]


def _place(asked: Request, theory: Theory, width: int, depth: int) -> Place:
    from deeplimits.finite.sample import sample

    seed = asked.place_seed(width, depth)
    place = Place(width, depth, asked.networks)
    if asked.get:
        drawn = sample(asked.net, asked.inputs, width, depth, asked.networks, seed, get=asked.get)
        checks = {}
        for name in asked.get:
            samples = np.asarray(drawn.gram if name == "nngp" else drawn.ntk, dtype=np.float64)
            checks[name] = measure.kernel_check(samples, theory.at(name, depth), theory.at(name, inf))
        place = replace(place, **checks)
        if "nngp" in asked.get:
            place = _with_law(place, asked, np.asarray(drawn.gram, dtype=np.float64), theory.at("nngp", depth))
    if asked.function is not None:
        at = (asked.inputs, width, depth, asked.networks, seed)
        values = neural_function.measure(asked.net, asked.function, *at)
        place = replace(place, function=neural_function.check(values))
    return place


def _with_law(place: Place, asked: Request, gram: np.ndarray, edge: np.ndarray | None) -> Place:
    """Add the law over networks of log q and of the correlations."""
    diagonal = np.diagonal(gram, axis1=1, axis2=2)
    reference = diagonal.mean(axis=0) if edge is None else np.diag(edge)
    logs, alive, dead = measure.log_ratio(diagonal, reference)
    place = replace(place, dead=dead)
    if len(logs) < 2 or not logs.size:
        return place
    known = log_norm(asked.net, place.width, place.depth)
    place = replace(
        place,
        log_mean=None if edge is None else measure.average(logs),
        log_mean_predicted=None if known is None else known[0],
        log_variance=measure.variance(logs),
        log_variance_predicted=None if known is None else known[1],
        log_rms=None if edge is None else measure.root(measure.average(logs**2)),
    )
    angles = measure.correlations(gram[alive])
    if angles is None:
        return place
    predicted = None if edge is None else measure.correlations(edge[None])
    return replace(
        place,
        correlation_mean=measure.average(angles),
        correlation_sd=measure.root(measure.variance(angles)),
        correlation_predicted=None if predicted is None else float(predicted.mean()),
    )


def _notes(places: list[Place], theory: Theory) -> list[str]:
    notes = list(dict.fromkeys(theory.notes))
    dead = sum(place.dead for place in places)
    if dead:
        notes.append(f"{dead} networks had an input with all features zero; the law of log q leaves them out")
    dead = sum(place.function.dead for place in places if place.function is not None)
    if dead:
        notes.append(f"{dead} networks gave the function's value zero; the law of its logarithm leaves them out")
    wild = [place for place in places if place.log_variance is not None and place.log_variance.value > 1]
    if wild:
        at = f"{len(wild)} of {len(places)} places"
        notes.append(
            f"at {at} var(log q) exceeds 1: means, rms and z-scores there hang on rare networks, logarithms do not"
        )
    if any(place.nngp is not None or place.ntk is not None for place in places):
        notes.append(
            "z-scores compare means at finite width with infinite width: a bias of order 1/width is part of them"
        )
    return notes


def _listed(matrix: np.ndarray | None) -> list[list[float]] | None:
    return None if matrix is None else matrix.tolist()
