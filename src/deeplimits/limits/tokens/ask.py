"""The front of the question how tokens move: arrays in, a record out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import numpy as np

from deeplimits.architecture.size import whole
from deeplimits.errors import AccuracyWarning, ConvergenceWarning
from deeplimits.limits.tokens import clusters, flow
from deeplimits.limits.tokens.hardmax import Hardmax
from deeplimits.limits.tokens.inputs import (
    Array,
    check_kind,
    check_options,
    check_times,
    check_tokens,
    positive,
)
from deeplimits.limits.tokens.record import Tokens
from deeplimits.limits.tokens.sinkhorn import RESIDUAL, SinkhornFlow
from deeplimits.limits.tokens.sphere import Sphere
from deeplimits.numerics.arrays import check_memory

WHERE = "tokens"
CLOSE = {"softmax": 0.1, "unnormalised": 0.1}
FINEST = {"softmax": 1e-13, "unnormalised": 1e-13, "sinkhorn": 1e-11}


def tokens(
    kind: str,
    X: Any,
    time: float | Sequence[float],
    *,
    beta: float | None = None,
    query_key: Any = None,
    value: Any = None,
    step: float | None = None,
    ties: float | None = None,
    epsilon: float | None = None,
    iterations: int | None = None,
    close: float | None = None,
    accuracy: float | None = None,
) -> Tokens:
    """Return how attention alone moves tokens: trajectories, energy, clusters and when they form.

    - "softmax": x_i' = P(x_i) V sum_j softmax_j(beta <A x_i, x_j>) x_j on the unit sphere, P(x) = I - x x^T;
    - "unnormalised": the same with weights e^(beta <A x_i, x_j>) / m, a gradient flow for A = V = I;
    - "hardmax": beta infinite, in steps: x_i moves by step/(1 + step) towards the mean of the tokens with the largest
      <A x_i, x_j>, a step of Frank and Wolfe;
    - "sinkhorn": x_i' = V (sum_j K_ij x_j - x_i) / epsilon in space, K doubly stochastic; V = -1 is heat diffusion.

    Args:
        kind: of attention.
        X: tokens, shape (m, d); on the sphere only their directions count.
        time: the last time, or rising times to look at; for "hardmax", steps.
        beta: inverse temperature ("softmax", "unnormalised"; 1 by default).
        query_key: A, shape (d, d), or a number times the identity, which is the default.
        value: V, likewise (not "hardmax").
        step: alpha ("hardmax"; 1 by default).
        ties: scores nearer than this share of the largest one are equal ("hardmax"; 1e-12 by default).
        epsilon: width of the kernel e^(-|x - y|^2 / 2 epsilon) ("sinkhorn"; 0.1 by default).
        iterations: of Sinkhorn's algorithm, at most, each time (300 by default).
        close: tokens joined by steps no longer than this are one cluster: radians on the sphere (0.1 by default),
            elsewhere a share of the largest distance at the start (0.01).
        accuracy: largest error of a coordinate, as a share of a token's size, and of the times at which clusters form,
            as a share of themselves (not "hardmax"; 1e-6 by default).

    The equations are solved by LSODA, adaptive and stiff, with a tenth of the tolerance each time until two solutions
    differ by less than `accuracy`; what stands in the record is the finer one; `error` and `merge_error` are the
    differences.

    Valid when: one head without a mask, weights shared by all layers, no noise.

    Raises:
        InputError: tokens, times, matrices or numbers that cannot be.

    Warns:
        AccuracyWarning: the accuracy was not reached; the record is kept.
        ConvergenceWarning: Sinkhorn's algorithm did not converge; says how far it came, the record is kept.

    Source: geshkovski-2023-perspective (sphere); alcalde-2025-hardmax-frank-wolfe; sander-2021-sinkformers.

    Example:
        >>> pair = [[1.0, 0.0], [0.0, 1.0]]
        >>> found = tokens("softmax", pair, time=20.0, beta=4.0)
        >>> found.merge_counts.tolist(), round(found.cluster_time(1), 3)
        ([1], 10.022)
    """
    given = {
        "beta": beta, "query_key": query_key, "value": value, "step": step, "ties": ties, "epsilon": epsilon,
        "iterations": iterations, "accuracy": accuracy,
    }  # fmt: skip
    x = check_tokens(WHERE, X, check_kind(WHERE, kind) in ("softmax", "unnormalised"))
    options = check_options(WHERE, kind, given, x.shape[1])
    times = check_times(WHERE, time, whole=kind == "hardmax")
    close = positive(WHERE, "close", CLOSE.get(kind, 0.01) if close is None else close)
    if kind == "hardmax":
        return _hardmax(x, times, close, Hardmax(**options))
    return _flow(kind, x, times, close, options)


def _hardmax(x: Array, times: Array, close: float, rule: Hardmax) -> Tokens:
    steps = int(times[-1])
    check_memory(WHERE, 16 * (steps + 1) * x.size, "the tokens at every step", "ask for fewer steps")
    path, reach = rule.path(x, steps), close * _diameter(x)
    found = clusters.jumps(path, reach, sphere=False)
    sign = {
        "positive": "A is positive semidefinite: leaders stay, all others end where one leads",
        "negative": "A is negative semidefinite: all tokens contract to one point",
        "indefinite": "A is indefinite, of which no theorem speaks",
    }[rule.sign()]
    text = (
        f"{_counted(x)} under hardmax attention, steps of Frank and Wolfe with step {rule.step:g}; {sign}. The energy "
        "is the mean of <A x, x>."
    )
    seen = path[times.astype(int)]
    return _record("hardmax", times, seen, rule.energy, reach, found, rule.leaders(x), (0.0, 0.0), text)


def _flow(kind: str, x: Array, times: Array, close: float, options: dict[str, Any]) -> Tokens:
    accuracy, sphere = options.pop("accuracy"), kind != "sinkhorn"
    if sphere:
        rule: Sphere | SinkhornFlow = Sphere(**options, normalised=kind == "softmax")
        rule.check(x)
    else:
        options["iterations"] = whole(WHERE, "iterations", options["iterations"])
        rule = SinkhornFlow(**options)
    check_memory(WHERE, 32 * x.size**2, "the Jacobian of all tokens", "use fewer tokens or coordinates")
    reach = close if sphere else close * _diameter(x)
    solve = lambda tolerance: _solved(rule, x, float(times[-1]), tolerance, reach)
    (fine, found), times, error, late = _agreeing(solve, times, accuracy, FINEST[kind])
    if max(error, late) > accuracy:
        text = f"tokens: good to {error:.1e} of their size, and the times of their clusters to {late:.1e}"
        text += f", not to the {accuracy:.1e} asked for: rounding grows along these trajectories"
        warnings.warn(text, AccuracyWarning, stacklevel=3)
    text = f"{_counted(x)} {_words(kind, rule)} Solved by LSODA to {error:.1e} of a token's size."
    none = np.empty(0, dtype=np.int64)
    seen = np.stack([fine.position(t) for t in times])
    record = _record(kind, times, seen, rule.energy, reach, found, none, (error, late), text)
    if isinstance(rule, SinkhornFlow) and rule.residual > RESIDUAL:
        text = f"tokens: after {rule.iterations} iterations of Sinkhorn's algorithm columns still sum to 1 within"
        fix = "give more iterations or a larger epsilon"
        warnings.warn(f"{text} {rule.residual:.1e} only; {fix}", ConvergenceWarning, stacklevel=3)
    return record


def _solved(
    rule: Sphere | SinkhornFlow, x: Array, end: float, tolerance: float, reach: float
) -> tuple[flow.Path, clusters.Events]:
    sphere = isinstance(rule, Sphere)
    path = flow.solve(rule.velocity, x, end, tolerance, rule.jacobian, sphere)
    return path, clusters.events(path.position, path.nodes.tolist(), reach, sphere)


def _agreeing(
    solve: Callable[[float], tuple[flow.Path, clusters.Events]], times: Array, accuracy: float, finest: float
) -> tuple[tuple[flow.Path, clusters.Events], Array, float, float]:
    """Return a solution that agrees with a coarser one, the times it reaches, and how far the two are apart."""
    tolerance = accuracy / 10
    fine = solve(tolerance)
    while True:
        coarse, tolerance = fine, tolerance / 10
        fine = solve(tolerance)
        end = min(coarse[0].end, fine[0].end)
        apart = [np.abs(fine[0].position(t) - coarse[0].position(t)).max() for t in times[times <= end]]
        error = float(max(apart, default=0.0)) / flow.size_of(fine[0].position(0.0))
        late = _apart(*([event for event in found if event[0] <= end] for _, found in (fine, coarse)))
        if max(error, late) <= accuracy or tolerance < 2 * finest or end < times[-1]:
            return fine, _reached(times, end), error, late


def _record(
    kind: str, times: Array, seen: Array, energy: Callable[[Array], float], reach: float, found: clusters.Events,
    leaders: Any, errors: tuple[float, float], text: str,
) -> Tokens:  # fmt: skip
    found = [event for event in found if event[0] <= times[-1]]
    when = np.array([time for time, _ in found], dtype=np.float64)
    counts = np.array([count for _, count in found], dtype=np.int64)
    energies = np.array([energy(x) for x in seen])
    return Tokens(kind, times, seen, energies, reach, when, counts, leaders, *errors, text)


def _reached(times: Array, end: float) -> Array:
    """Return the times that the solver reached, and tell of the others."""
    if end >= times[-1]:
        return times
    text = f"tokens: the solver stopped at time {end:g}, before {times[-1]:g}; what it reached is kept"
    warnings.warn(text, AccuracyWarning, stacklevel=4)
    return times[times <= end] if (times <= end).any() else np.array([end])


def _apart(found: clusters.Events, other: clusters.Events) -> float:
    """Return the largest relative difference of the times of the same events; infinity if they are not the same."""
    if [count for _, count in found] != [count for _, count in other]:
        return inf
    return max((abs(a - b) / max(a, 1e-300) for (a, _), (b, _) in zip(found, other, strict=True)), default=0.0)


def _diameter(x: Array) -> float:
    return float(clusters.distances(x, sphere=False).max(initial=0.0)) or 1.0


def _counted(x: Array) -> str:
    return f"{len(x)} token{'s' if len(x) > 1 else ''} in {x.shape[1]} dimension{'s' if x.shape[1] > 1 else ''}"


def _words(kind: str, rule: Sphere | SinkhornFlow) -> str:
    if isinstance(rule, SinkhornFlow):
        what = "the transport of the tokens to themselves, OT / 2 epsilon"
        return f"under doubly stochastic attention with epsilon = {rule.epsilon:g}. The energy is {what}."
    what = "(1/beta) log mean e^(beta <A x, y>)"
    return f"on the sphere under {kind} attention with beta = {rule.beta:g}. The energy is {what}."
