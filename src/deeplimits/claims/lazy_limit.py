"""Trained networks of one hidden layer beside `dl.gradient_flow`: single ones, their law, and the edge of stability."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.agreement import CONFIDENCE
from deeplimits.claims.claim import Curve, Measured, Panel
from deeplimits.claims.inputs import sphere
from deeplimits.claims.lazy import ERF, RELU, Family, Trained, trained
from deeplimits.numerics.fit import Slope, slope
from deeplimits.numerics.seeds import generator
from deeplimits.plane.record import Estimate

STEPS = 60
MOMENTA = (0.0, 0.5)
EARLY = 6  # steps in which an error grows or shrinks
NEAR = 0.05  # of the edge of stability
Data = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class LazySizes:
    """(width, networks) beside the linear equation, of the law and of the edge; steps at which the law is looked at."""

    linear: tuple[tuple[int, int], ...]
    law: tuple[int, int]
    times: tuple[int, ...]
    draws: int
    edge: tuple[int, int]


def linear(sizes: LazySizes) -> Measured:
    """Measure single networks beside the linear equation of the limit, from their own start, and their kernels."""
    X, new = sphere(12, 4, seed=11), sphere(8, 4, seed=12)
    data = X, np.sin(X.sum(1)), new
    moving, rate = _moving(ERF, data)
    rows, points, changes = [], [], []
    for width, networks in sizes.linear:
        found = trained(ERF, data, width, networks, 13, np.full(networks, rate), (0, STEPS), kernels=True)
        lines, outputs = _linear(moving, data, found, rate), found.outputs[:, 1]
        rows.append(agreement.average(_distance(outputs[:, :12], lines[:, :12])))
        points.append(agreement.average(_distance(outputs[:, 12:], lines[:, 12:])))
        assert found.before is not None and found.after is not None
        changes.append(agreement.average(_distance(found.after, found.before)))
    widths, count = [width for width, _ in sizes.linear], sizes.linear[-1][1]
    change, distance = _exponent(widths, changes), _exponent(widths[1:], points[1:])
    parts = [
        agreement.inside(
            f"exponent in the width, {widths[0]} to {widths[-1]}, of the NTK's change in training, one hidden layer",
            -1.0, change, -9.0, -0.5,
        ),
        agreement.between(
            f"outputs of one network after {STEPS} steps beside the linear equation, training rows, width {widths[-1]}",
            0.0, rows[-1], -0.02, 0.02, networks=count, paper=False, note="2 % was fixed beforehand",
        ),
        agreement.inside(
            f"exponent in the width, from {widths[1]} on, of the same distance at new points", -0.5, distance,
            -0.65, -0.35, note="below, the kernel moves by a tenth and more",
        ),
    ]  # fmt: skip
    x = [float(width) for width in widths]
    shown = (("outputs, rows", rows, 0.5), ("outputs, new points", points, 0.5), ("NTK's change", changes, 1.0))
    curves = [
        Curve(
            name, x, [e.value for e in one], [e.error for e in one],
            [one[-1].value * (widths[-1] / width) ** power for width in x],
        )
        for name, one, power in shown
    ]  # fmt: skip
    title = "One hidden layer; lines: 1/√width, 1/width"
    return Measured(parts, [Panel(title, "width n", "relative distance, or change", curves, y_scale="log")])


def law(sizes: LazySizes) -> Measured:
    """Measure mean and spread of trained networks beside the same numbers of as many draws from the limit."""
    from deeplimits.limits.training.lazy.ask import gradient_flow

    data = _gaussian(14)
    _, rate = _moving(RELU, data)
    width, networks = sizes.law
    found = trained(RELU, data, width, networks, 15, np.full(networks, rate), sizes.times)
    times = list(sizes.times)
    flow = gradient_flow(RELU.net(), *data, depth=1, time=times, rule="gd", rate=rate, covariance="full")
    assert flow.covariance is not None
    random, parts, shown = generator(16, "claims", "draws"), [], []
    for place, time in enumerate(sizes.times):
        outputs, mean, std = found.outputs[:, place, len(data[0]) :], flow.mean[place], flow.std[place]
        values, vectors = np.linalg.eigh(flow.covariance[place])
        white = random.standard_normal((sizes.draws, networks, len(std)))
        drawn = mean + white @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        for name, of, resolution, bias in (
            ("standard deviation over its prediction", _spread, 0.2, 10 / width),
            ("rms z of the means", _mean, 1.5, 100 / width),
        ):
            expected, ours = of(drawn, mean, std), float(of(outputs[None], mean, std)[0])
            centre, sigma = float(expected.mean()), float(expected.std(ddof=1))
            parts.append(
                agreement.near(
                    f"{name}, {networks} networks of width {width}, step {time}", centre, Estimate(ours, sigma),
                    resolution, bias=bias, because="of the order of 1/n of the width", paper=False,
                    note=f"{(ours - centre) / sigma:+.2f} standard deviations of {sizes.draws} draws from the limit",
                )
            )  # fmt: skip
        shown.append(Curve(f"step {time}", std.tolist(), outputs.std(0, ddof=1).tolist(), None, std.tolist()))
    title = f"Spread of {networks} networks at 20 new points"
    panel = Panel(title, "standard deviation, limit", "standard deviation, networks", shown, "linear")
    return Measured(parts, [panel])


def edge(sizes: LazySizes) -> Measured:
    """Measure the rate from which on the error along the leading mode grows in the first steps."""
    from deeplimits.limits.training.lazy.rate import max_learning_rate

    data, (width, networks), parts = _gaussian(17), sizes.edge, []
    for momentum in MOMENTA:
        most = max_learning_rate(RELU.net(), data[0], depth=1, momentum=momentum)
        below, above = (_growth(data, sizes.edge, share * most, momentum) for share in (1 - NEAR, 1 + NEAR))
        words = f"width {width}, momentum {momentum:g}"
        parts.append(
            agreement.equal(
                f"networks that shrink the error at 0.95 of the predicted edge and grow it at 1.05, {words}",
                float(networks), float(((below < 1) & (above > 1)).sum()), 0.0, "all of them", paper=False,
            )
        )  # fmt: skip
        measured = agreement.average((1 + NEAR) * 2 * (1 + momentum) / _position(above, momentum))
        parts.append(
            agreement.between(
                f"edge over its prediction, from the growth in {EARLY} steps, {words}", 1.0, measured,
                1 - NEAR, 1 + NEAR, networks=networks, paper=False, note="by growth: above the edge networks catapult",
            )
        )  # fmt: skip
    return Measured(parts, [])


def _exponent(widths: list[int], found: list[Estimate]) -> Slope:
    return slope(widths, [one.value for one in found], [one.error for one in found], CONFIDENCE)


def _gaussian(seed: int) -> Data:
    """Return 16 rows of 10 normal numbers, the sine of their sum, and 20 new rows."""
    random = generator(seed, "claims", "lazy")
    X = random.standard_normal((16, 10))
    return X, np.sin(X.sum(1)), random.standard_normal((20, 10))


def _moving(family: Family, data: Data) -> tuple[np.ndarray, float]:
    """Return the NTK of rows and new points with rows, and the rate 1 / its largest eigenvalue on rows."""
    from deeplimits.limits.kernel.ask import kernel

    X, _, new = data
    found = np.asarray(kernel(family.net(), np.concatenate([X, new]), X, depth=1, get="ntk"))
    return found, 1 / float(np.linalg.eigvalsh(found[: len(X)])[-1])


def _linear(moving: np.ndarray, data: Data, found: Trained, rate: float) -> np.ndarray:
    """Return what the linear equation makes of the outputs at the start, in as many steps, (networks, points)."""
    start, y = found.outputs[:, 0], data[1]
    values, vectors = np.linalg.eigh(moving[: len(y)])
    gain = (1 - (1 - rate * values) ** STEPS) / values
    return start + (y - start[:, : len(y)]) @ (vectors * gain) @ vectors.T @ moving.T


def _distance(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return |found - expected| / |expected| of every network."""
    axes = tuple(range(1, found.ndim))
    return np.sqrt(np.sum((found - expected) ** 2, axes) / np.sum(expected**2, axes))


def _spread(outputs: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """Return the average over points of the standard deviation over networks, in units of its prediction."""
    return (outputs.std(1, ddof=1) / std).mean(1)


def _mean(outputs: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """Return the root mean square over points of the error of the mean, in standard errors."""
    z = (outputs.mean(1) - mean) * outputs.shape[1] ** 0.5 / std
    return np.sqrt((z**2).mean(1))


def _growth(data: Data, place: tuple[int, int], rate: float, momentum: float) -> np.ndarray:
    """Return by how much every network's error along the leading mode grows in the first steps."""
    (X, y, _), (width, networks) = data, place
    found = trained(RELU, data, width, networks, 18, np.full(networks, rate), (0, EARLY), momentum)
    leading = np.linalg.eigh(_moving(RELU, data)[0][: len(X)])[1][:, -1]
    first, last = (np.abs((found.outputs[:, place, : len(y)] - y) @ leading) for place in (0, 1))
    return last / first


def _position(growth: np.ndarray, momentum: float) -> np.ndarray:
    """Return the rate times eigenvalue at which an error grows by so much in the first steps, near the edge."""
    x = 2 * (1 + momentum) * np.linspace(1 - 2 * NEAR, 1 + 4 * NEAR, 6001)
    before, now = np.ones_like(x), np.ones_like(x)
    for _ in range(EARLY):
        before, now = now, (1 + momentum - x) * now - momentum * before
    rising = x >= x[np.argmin(np.abs(now))]
    return np.interp(growth, np.abs(now)[rising], x[rising])
