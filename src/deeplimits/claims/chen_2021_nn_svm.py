"""Wide networks trained on a soft margin beside the support vector machines of their kernels."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.agreement import CONFIDENCE
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.claims.soft_margin import EVERY, TAIL, trained
from deeplimits.numerics.fit import slope
from deeplimits.numerics.seeds import generator
from deeplimits.plane.record import Estimate

DECAY, RATE, SLIGHT = 2.0, 0.01, 1e-3
NEAR, AGREE = 0.05, 0.98
AS_READ = "the paper was read as far as its abstract: the form of its theorem as others quote it"
Data = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Sizes:
    """Rows and points; (width, networks); steps; points of the attack, its steps and halvings of its radius."""

    rows: int
    points: int
    widths: tuple[tuple[int, int], ...]
    slight: tuple[int, int]
    steps: int
    attacked: int
    attack: tuple[int, int]


def moons(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two moons in the plane with a third coordinate of 1, (count, 3), and their labels, -1 and 1."""
    from sklearn.datasets import make_moons

    found: Any = make_moons(count, noise=0.15, random_state=seed)
    X, label = found
    return np.hstack([X - [0.5, 0.25], np.ones((count, 1))]), 2.0 * label - 1


def _data(sizes: Sizes) -> Data:
    return *moons(sizes.rows, 1), moons(sizes.points, 2)[0]


def _net() -> Any:
    from deeplimits.architecture.zoo import Mlp

    return Mlp("relu")


def machine(data: Data, kind: str, decay: float) -> np.ndarray:
    """Return the outputs at the points of the support vector machine of a kernel, C = 1/decay."""
    from deeplimits.limits.kernel.ask import kernel
    from deeplimits.limits.training.machine.ask import kernel_machine

    X, y, points = data
    every = np.asarray(kernel(_net(), np.concatenate([X, points]), X, depth=1, get=kind))
    return kernel_machine(every[: len(X)], y, C=1 / decay).predict(every[len(X) :])


def path(data: Data, towards: str, decay: float, steps: int) -> np.ndarray:
    """Return the limit's outputs, averaged over the same steps as those of networks."""
    from deeplimits.limits.training.machine.path import decay_path

    X, y, points = data
    tail = [step for step in range(0, steps, EVERY) if step >= steps * (1 - TAIL)]
    options: Any = {"decay": decay, "towards": towards, "rate": RATE, "steps": tail}
    return decay_path(_net(), X, y, points, depth=1, **options).outputs.mean(0)


def _distances(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    return np.linalg.norm(found - expected, axis=1) / np.linalg.norm(expected)


def _fitted(widths: list[int], found: list[Estimate]) -> Any:
    return slope(widths, [one.value for one in found], [one.error for one in found], CONFIDENCE)


def _curve(name: str, widths: list[int], found: list[Estimate]) -> Curve:
    return Curve(name, [float(w) for w in widths], [one.value for one in found], [one.error for one in found])


def _form(sizes: Sizes, towards: str, seed: int) -> tuple[Any, ...]:
    """Return outputs of all networks and their distances to the machines of NTK and NNGP kernel, by width."""
    data = _data(sizes)
    both = machine(data, "ntk", DECAY), machine(data, "nngp", DECAY)
    outputs = [trained(data, width, count, seed, DECAY, towards, RATE, sizes.steps) for width, count in sizes.widths]
    ntk, nngp = ([agreement.average(_distances(one, end)) for one in outputs] for end in both)
    return data, both, outputs, ntk, nngp


def start(sizes: Sizes) -> Measured:
    """Measure networks whose weights all decay to their start beside the machine of the NTK."""
    _, both, outputs, ntk, nngp = _form(sizes, "start", 3)
    widths, (width, count) = [w for w, _ in sizes.widths], sizes.widths[-1]
    agrees = agreement.average((np.sign(outputs[-1]) == np.sign(both[0])).mean(1))
    time = f"decay x time {DECAY * RATE * sizes.steps:g}"
    parts = [
        agreement.above(
            HEADLINE, AGREE, agrees, predicted=1.0, networks=count, paper=False,
            note=f"width {width}, {time}; the decay to the start is the form for which the limit holds at all times",
        ),
        agreement.inside(
            f"decay to the start: exponent in the width, {widths[0]} to {width}, of the distance to the NTK's machine",
            -0.5, _fitted(widths, ntk), -9.0, 0.0, paper=False, note="falls; the jitter of the rate is below it",
        ),
        agreement.between(
            f"decay to the start: distance to the NTK's machine over its size, width {width}", 0.0, ntk[-1], -NEAR,
            NEAR, networks=count, paper=False,
        ),
    ]  # fmt: skip
    curves = [_curve("to the NTK's machine", widths, ntk), _curve("to the NNGP kernel's", widths, nngp)]
    panel = Panel("All weights decay to their start", "width n", "relative distance", curves, y_scale="log")
    return Measured(parts, [panel])


def readout(sizes: Sizes) -> Measured:
    """Measure networks whose readout alone decays, towards zero, beside both machines and their own limit."""
    data, both, outputs, ntk, nngp = _form(sizes, "readout", 4)
    widths, (width, count) = [w for w, _ in sizes.widths], sizes.widths[-1]
    limit = path(data, "readout", DECAY, sizes.steps)
    apart = float(_distances(both[1][None], both[0])[0])
    own, time = agreement.average(_distances(outputs[-1], limit)), DECAY * RATE * sizes.steps
    parts = [
        agreement.between(
            f"decay of the readout to zero: distance to the NTK's machine, width {width}, decay x time {time:g}", 0.0,
            ntk[-1], -NEAR, NEAR, networks=count, paper=False, note=AS_READ,
        ),
        agreement.between(
            f"decay of the readout to zero: distance to the NNGP kernel's machine, width {width}", 0.0, nngp[-1],
            -NEAR, NEAR, networks=count, paper=False, note=f"the two machines are {apart:.3f} apart",
        ),
        agreement.above(
            f"decay of the readout to zero: how much nearer the NNGP kernel's machine is than the NTK's, width {width}",
            0.0, agreement.average(_distances(outputs[-1], both[0]) - _distances(outputs[-1], both[1])),
            predicted=apart, networks=count, paper=False,
        ),
        agreement.inside(
            f"decay of the readout to zero: exponent in the width, {widths[0]} to {width}, of that distance", -0.5,
            _fitted(widths, nngp), -9.0, 0.0, paper=False,
        ),
        agreement.between(
            f"decay of the readout to zero: distance to its own limit, a fading NTK, width {width}", 0.0, own, -NEAR,
            NEAR, networks=count, paper=False,
        ),
    ]  # fmt: skip
    curves = [_curve("to the NTK's machine", widths, ntk), _curve("to the NNGP kernel's", widths, nngp)]
    panel = Panel("The readout decays to zero", "width n", "relative distance", curves, y_scale="log")
    return Measured(parts, [panel, _over_time(data, both, sizes.steps)])


def _over_time(data: Data, both: tuple[np.ndarray, np.ndarray], steps: int) -> Panel:
    from deeplimits.limits.training.machine.path import decay_path

    X, y, points = data
    options: Any = {"decay": DECAY, "towards": "readout", "rate": RATE, "steps": list(range(20, steps + 1, 20))}
    found = decay_path(_net(), X, y, points, depth=1, **options)
    curves = [
        Curve(name, (DECAY * found.time).tolist(), predicted=_distances(found.outputs, end).tolist())
        for name, end in zip(("to the NTK's machine", "to the NNGP kernel's"), both, strict=True)
    ]
    title = "The limit while its readout decays"
    return Panel(title, "decay x time", "relative distance", curves, "linear", "log")


def slight(sizes: Sizes) -> Measured:
    """Measure networks whose readout hardly has time to decay beside the course of the NTK."""
    data, (width, count) = _data(sizes), sizes.slight
    found = trained(data, width, count, 5, SLIGHT, "readout", RATE, sizes.steps)
    distance = agreement.average(_distances(found, path(data, "start", SLIGHT, sizes.steps)))
    part = agreement.between(
        f"decay of the readout, decay x time {SLIGHT * RATE * sizes.steps:g}: distance to the course of the NTK, width "
        f"{width}", 0.0, distance, -2 * NEAR, 2 * NEAR, networks=count, paper=False,
        note="where the decay has had no time, the NTK is constant",
    )  # fmt: skip
    return Measured([part], [])


def certificate(sizes: Sizes) -> Measured:
    """Measure certified radii beside the smallest at which projected gradient steps change a label."""
    from deeplimits.limits.kernel.ask import kernel
    from deeplimits.limits.training.machine.ask import kernel_machine
    from deeplimits.limits.training.machine.certificate import radii

    random = generator(6, "claims", "certificate")
    X, points = random.standard_normal((24, 5)), random.standard_normal((sizes.attacked, 5))
    y = np.sign(X[:, 0] + 0.5 * X[:, 1] * X[:, 2])
    weights = kernel_machine(kernel(_net(), X, depth=1, get="ntk"), y, C=2.0).weights
    found = {norm: radii(points, X, weights, 1 / pi, norm=norm)[1] for norm in ("l1", "l2")}
    attack = attacked(points, X, weights, sizes.attack, random)
    parts = [
        agreement.equal(
            f"points of {sizes.attacked} whose certified radius ({norm}) is below any that the attack of "
            f"{sizes.attack[0]} steps needs", float(sizes.attacked), float((found[norm] <= attack).sum()), 0.0,
            "all of them", paper=False,
        )
        for norm in ("l1", "l2")
    ]  # fmt: skip
    ratio = float(found["l1"].mean() / found["l2"].mean())
    name = "mean certified radius by the 1-norm over that by the 2-norm"
    parts.append(agreement.above(name, 1.0, Estimate(ratio, 0.0), paper=False, note="the form by the 1-norm is ours"))
    order = np.argsort(attack)
    x, line = attack[order].tolist(), attack[order].tolist()
    names = {"l1": "certified, 1-norm; line: the attack", "l2": "certified, 2-norm"}
    curves = [
        Curve(names[norm], x, found[norm][order].tolist(), None, line if norm == "l1" else None) for norm in names
    ]
    title = f"Robustness of {sizes.attacked} points"
    return Measured(parts, [Panel(title, "radius at which the attack succeeds", "radius", curves, "log", "log")])


def attacked(points: Any, X: Any, weights: Any, attack: tuple[int, int], random: Any) -> np.ndarray:
    """Return the smallest radius, of the largest coordinate, at which projected gradient steps change the sign.

    Args:
        points: shape (M, d).
        X: training rows, shape (N, d).
        weights: of the NTK of one hidden ReLU layer, variances 2 and 1, shape (N,).
        attack: steps, and halvings of the radius.
        random: draws the starts.
    """
    import torch

    rows, carried, clean = (torch.from_numpy(one) for one in (X, weights, points))

    def outputs(x: Any) -> Any:
        sizes = x.norm(dim=1, keepdim=True) * rows.norm(dim=1)
        cosine = (x @ rows.T / sizes).clamp(-1 + 1e-12, 1 - 1e-12)
        height = 2 * cosine * (pi - torch.arccos(cosine)) + torch.sqrt(1 - cosine**2)
        return (sizes * height / (pi * x.shape[1])) @ carried

    sign, (steps, halvings) = torch.sign(outputs(clean)), attack
    low, high = torch.zeros(len(clean), dtype=torch.float64), 4 * clean.norm(dim=1)
    for _ in range(halvings):
        radius = ((low + high) / 2)[:, None]
        drawn = torch.from_numpy(random.uniform(-0.5, 0.5, clean.shape))
        moved, changed = clean + radius * drawn, torch.zeros(len(clean), dtype=torch.bool)
        for _ in range(steps):
            moved.requires_grad_()
            (slope,) = torch.autograd.grad((sign * outputs(moved)).sum(), moved)
            stepped = moved.detach() - 2.5 * radius / steps * torch.sign(slope)
            moved = torch.maximum(torch.minimum(stepped, clean + radius), clean - radius)
            changed |= sign * outputs(moved) <= 0
        low, high = torch.where(changed, low, radius[:, 0]), torch.where(changed, radius[:, 0], high)
    return high.numpy()


HEADLINE = "labels that networks share with the NTK's machine, weights decaying to their start"

CLAIM = Claim(
    key="chen-2021-nn-svm",
    statement=(
        "A wide network trained by subgradient descent on a soft margin with weight decay is the support vector "
        "machine of its neural tangent kernel."
    ),
    source="chen-2021-nn-svm",
    headline=HEADLINE,
    steps=(
        Step("start", start, 17.0),
        Step("readout", readout, 17.0),
        Step("slight", slight, 5.0),
        Step("certificate", certificate, 3.0),
    ),
    full=Sizes(32, 200, ((256, 64), (1024, 48), (4096, 40)), (4096, 16), 400, 200, (40, 20)),
    reduced=Sizes(12, 60, ((64, 8), (256, 8)), (256, 8), 200, 20, (20, 6)),
)
