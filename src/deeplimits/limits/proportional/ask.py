"""The front of the proportional question: a network and its inputs in, a record out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Any

import numpy as np

from deeplimits.architecture.compose import Repeat, Residual, Serial, written_out
from deeplimits.architecture.dense import Dense
from deeplimits.architecture.layer import Layer, Power, as_float, number
from deeplimits.architecture.scale import is_sequence
from deeplimits.architecture.size import whole
from deeplimits.errors import AccuracyWarning, DescriptionError, InputError, NoLimit, NormalisationWarning
from deeplimits.limits.kernel.ask import kernel
from deeplimits.limits.proportional.collapse import Collapse
from deeplimits.limits.proportional.motion import Motion
from deeplimits.limits.proportional.motion import proportional as question
from deeplimits.limits.proportional.record import Array, Proportional
from deeplimits.limits.proportional.solve import SHARE, Course, Paths, collapsed, converged, shaped
from deeplimits.numerics.arrays import check, check_memory
from deeplimits.numerics.seeds import generator

WHERE = "proportional"
TIMES = tuple(step / 10 for step in range(11))
NORMAL = 1e-4
"""Gains closer to one than this are weights written with a few digits, and count as one."""


def proportional(
    net: Layer,
    X: Any,
    ratio: float,
    samples: int = 1000,
    seed: int = 0,
    times: Sequence[float] = TIMES,
    steps: int | None = None,
) -> Proportional:
    """Return samples of the covariance of a network whose width and depth grow together, depth/width = ratio.

    V = <Y, Y>/n of the features that enter the readout (of a Transformer: of its tokens) is a diffusion in the time
    t = layer/n from 0 to the ratio. Layers near the identity, shaped by the width, move it by dV = drift dt + noise;
    in an unshaped perceptron norms are log-normal and correlations tend to one, l^2 (1 - rho) having a law of its own;
    branches scaled by DEPTH**-0.5 give the deterministic limit that width and depth have in any order.

    Args:
        net: the description; one block repeated DEPTH times, with layers before it and a Dense readout after it.
        X: inputs, shape (m, d); for attention, the m tokens of one sequence.
        ratio: depth over width, positive.
        samples: how many, at least 2; the first 100 of 200 are those of a run of 100 with the same steps.
        seed: of all of them.
        times: fractions of the depth at which V is looked at, rising in [0, 1]; at the nearest step.
        steps: of the scheme of Euler and Maruyama; None halves them until no quantile of rho or log V moves by more
            than its standard error. In unshaped perceptrons there are at least two between any two times.

    Memory: 2 (len(times) + 2) * samples * m^2 numbers.

    Valid when: Gaussian weights, no biases in the block. With attention the law is that of networks only as long as V
        stays bounded: its drift is cubic, some paths explode, and those are left out and counted.

    Raises:
        InputError: rows whose features are zero at the start (tokens may be); data, a ratio, samples, times, steps or a
            seed that cannot be used.
        NoLimit: there is none, such as for skips that let attention's logits grow; says why.
        NoRule: a layer has no rule.
        DescriptionError: not a network of one repeated block.

    Source: li-nica-roy-2022; noci-2023-shaped-transformer; hanin-nica-2019 and li-nica-2023 (unshaped).

    Example:
        >>> from deeplimits.architecture.shaped import ShapedMlp
        >>> law = proportional(ShapedMlp(), np.eye(2), ratio=0.5, samples=400, steps=64)
        >>> law.log_moments, bool(abs(law.log_norm[:, 0].std() - 1) < 0.2)
        ((-0.5, 1.0), True)
    """
    task = _prepare(net, X, ratio, samples, seed, times, steps)
    if any(is_sequence(layer.scale) for layer in _residuals(task.block)):
        return _corner(task)
    motion = question(task.block)
    if motion.slopes is not None:
        return _collapse(task, motion)
    return _shaped(task, motion)


@dataclass(frozen=True)
class _Task:
    net: Serial
    before: Serial
    block: Layer
    X: Array
    ratio: float
    samples: int
    seed: int
    times: Array
    steps: int | None

    def course(self) -> Course:
        """Return what is to be simulated, from the covariance at infinite width of what enters the block."""
        start = self.X @ self.X.T / self.X.shape[1]
        if self.before.layers:
            start = np.asarray(kernel(self.before, self.X, depth=1, get="nngp"), dtype=np.float64)
        return Course(start, self.times * self.ratio, self.samples, self.seed)


def _prepare(net: Any, X: Any, ratio: Any, samples: Any, seed: Any, times: Any, steps: Any) -> _Task:
    if not isinstance(net, Layer):
        fix = "describe it first, e.g. dl.ShapedMlp() or layers joined by >>"
        raise DescriptionError(WHERE, f"{type(net).__name__} is not a network description", fix)
    inputs = np.asarray(check(WHERE, X).numpy()[0], dtype=np.float64)
    try:
        if isinstance(ratio, bool | np.bool_):
            raise DescriptionError(WHERE, "a truth value", "give a number")
        ratio = float(number(WHERE, "ratio", ratio, minimum=None))
    except DescriptionError as error:
        raise InputError(
            WHERE, f"ratio={ratio!r} is not a finite number", "give depth/width, e.g. ratio=0.5"
        ) from error
    if ratio <= 0:
        fix = "give depth/width > 0, e.g. ratio=0.5; width to infinity first is dl.kernel(net, X, depth=...)"
        raise InputError(WHERE, f"ratio={ratio:g} is not positive", fix)
    samples = whole(WHERE, "samples", samples, minimum=2)
    generator(seed, "checked")
    if steps is not None and whole(WHERE, "steps", steps) % 2:
        raise InputError(WHERE, f"steps={steps} is odd", "give an even number, or None to have it found")
    seen = _times(times)
    fix = "use fewer inputs, samples or times"
    check_memory(WHERE, 16 * (len(seen) + 2) * samples * len(inputs) ** 2, "the covariances of all samples", fix)
    layers = written_out(net).layers  # type: ignore[attr-defined]
    body = layers[:-1] if layers and isinstance(layers[-1], Dense) else layers
    open_places = [i for i, layer in enumerate(body) if isinstance(layer, Repeat) and isinstance(layer.times, Power)]
    if len(open_places) != 1 or open_places[0] != len(body) - 1:
        why = f"{len(open_places)} blocks are repeated DEPTH times, not one"
        if len(open_places) == 1:
            names = ", ".join(type(layer).__name__ for layer in body[open_places[0] + 1 :])
            why = f"{names} after the block repeated DEPTH times: only a Dense readout may come there"
        raise DescriptionError(WHERE, why, "write [layers >>] dl.layer.Repeat(block) >> dl.layer.Dense(1)")
    block = body[-1].block
    return _Task(Serial(layers=body), Serial(layers=body[:-1]), block, inputs, ratio, samples, seed, seen, steps)


def _times(given: Any) -> Array:
    try:
        times = np.asarray(given, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        times = np.array([np.nan])
    inside = bool(((times >= 0) & (times <= 1)).all())
    if not len(times) or not inside or bool((np.diff(times) <= 0).any()) or times[-1] == 0:
        raise InputError(WHERE, f"times={given!r} do not rise from 0 to 1", "give e.g. times=(0, 0.5, 1)")
    return times


def _residuals(layer: Layer) -> list[Residual]:
    simpler = layer.parts()
    if simpler is not None:
        return _residuals(simpler)
    own = [layer] if isinstance(layer, Residual) else []
    return own + [found for _, child in layer.children() for found in _residuals(child)]


def _shaped(task: _Task, motion: Motion) -> Proportional:
    motion, lost = _normalised(motion)
    course = task.course()
    zero = _zeros(course.start)
    if motion.attention and zero:  # others attend to them, so that they cannot be left out
        lost += f"; tokens {zero} are zero and stay so: they have no correlations, and log V is minus infinity"
    else:
        _no_zeros(course.start)
    paths, moved = converged(lambda steps, halved: shaped(motion, course, steps, halved), task.steps)
    T = task.ratio * float(task.times[-1])
    moments = None if motion.attention else (-motion.dense * T, 2 * motion.dense * T)
    return _record(
        task,
        course.start,
        paths,
        moved,
        motion.gain,
        moments,
        None,
        f"a diffusion of the covariance, {_names(motion)}{lost}",
    )


def _names(motion: Motion) -> str:
    parts = ["fresh weights"] if motion.dense else []
    parts += ["shaped activations"] if motion.angle else []
    parts += ["shaped attention"] if motion.attention else []
    return "moved by " + " and ".join(parts) if parts else "that nothing moves"


def _normalised(motion: Motion) -> tuple[Motion, str]:
    """Return the motion of V / gain^layer, and a remark; attention is cubic in V and does not survive a shrinking V."""
    if abs(motion.gain - 1) < NORMAL:
        return replace(motion, gain=1.0), ""
    grows = "grow" if motion.gain > 1 else "shrink"
    if motion.attention and motion.gain > 1:
        why = f"covariances {grows} by a factor {motion.gain:.6g} a layer, and with them the logits of the attention"
        raise NoLimit(WHERE, why, "keep skip^2 + branch_scale^2 = 1, e.g. by leaving skip out")
    text = f"covariances {grows} by a factor {motion.gain:.6g} a layer, which is divided out of V"
    if motion.attention:
        text += "; the logits vanish with them, and so does what attention does"
        motion = Motion(motion.gain, motion.dense, motion.angle)
    fix = "keep skip^2 + branch_scale^2 = 1, or dense layers of weight_std 1, to have the networks' own V"
    warnings.warn(f"{WHERE}: {text}; {fix}", NormalisationWarning, stacklevel=4)
    return motion, f"; {text}"


def _collapse(task: _Task, motion: Motion) -> Proportional:
    if motion.dense != 1.0 or motion.angle or motion.attention or motion.slopes is None:
        why = "an activation that is not shaped by the width stands in a block with other layers"
        raise NoLimit(WHERE, why, "repeat Dense() >> activation alone, or use dl.act.ShapedRelu(...)")
    motion, lost = _normalised(motion)
    assert motion.slopes is not None
    collapse, course = Collapse(*motion.slopes), task.course()
    _no_zeros(course.start)
    paths, moved = converged(lambda steps, halved: collapsed(collapse, course, steps, halved), task.steps)
    text = f"log-norms are normal and the same for all inputs, correlations are one: see angles{lost}"
    moments = collapse.log_moments(task.ratio * float(task.times[-1]))
    return _record(task, course.start, paths, moved, motion.gain, moments, collapse, text)


def _zeros(V: Array) -> list[int]:
    return np.flatnonzero(np.diagonal(V) == 0).tolist()


def _no_zeros(V: Array) -> None:
    """Refuse inputs whose features are zero: they stay so, and have neither angles nor logarithms of their norms."""
    zero = _zeros(V)
    if zero:
        raise InputError(WHERE, f"X has only zeros in row {zero[0]}, which has no angle", "leave that row out")


def _corner(task: _Task) -> Proportional:
    """Return the deterministic limit of branches whose scales depend on the depth, at the times where it is known."""
    scales = {path: scale for path, scale in task.net.hyperparameters().items() if path.endswith("scale")}
    known = task.times if len(scales) == len(_residuals(task.block)) else task.times[task.times % 1 == 0]
    if not len(known):
        why = "inside a sequence of scales the limit is known at its two ends only"
        raise InputError(WHERE, why, "give times=(0, 1), or scale the branches by DEPTH**-0.5")
    at = [task.net.replace({path: as_float(scale) * sqrt(t) for path, scale in scales.items()}) for t in known]
    start = task.course().start
    path = np.stack(
        [start if t == 0 else kernel(net, task.X, depth=inf, get="nngp") for t, net in zip(known, at, strict=True)]
    )
    text = (
        f"depth/width {task.ratio:g}: deterministic, since branches scaled with the depth have one limit, whatever the "
        "ratio and the order (the corner of the plane)"
    )
    _no_zeros(path[-1])
    path = np.broadcast_to(path[:, None], (len(known), task.samples, *start.shape))
    return Proportional(task.ratio, task.seed, start, known, path, None, 1.0, 0, 0, 0, 0.0, None, None, text)


def _record(
    task: _Task,
    start: Array,
    paths: Paths,
    moved: float,
    gain: float,
    moments: Any,
    collapse: Collapse | None,
    text: str,
) -> Proportional:
    exploded = int((~paths.alive).sum())
    if exploded == task.samples:
        why = f"all {exploded} paths explode before depth/width = {task.ratio:g}"
        raise NoLimit(WHERE, why, "use a smaller ratio, a smaller branch_scale, a larger temperature or smaller inputs")
    words = f"depth/width {task.ratio:g}: {text}; {paths.steps} Euler-Maruyama steps"
    if moved > SHARE:
        words += f", which still move a quantile by {moved:.2g} standard errors"
        warnings.warn(f"{WHERE}: {words}", AccuracyWarning, stacklevel=4)
    if exploded:
        words += f"; {exploded} of {task.samples} paths exploded and are left out"
    if paths.repaired:
        words += f"; {paths.repaired} covariances of single steps lost a negative part"
    keep = paths.alive
    angles = None if paths.angles is None else paths.angles[:, keep]
    return Proportional(
        task.ratio, task.seed, start, task.times, paths.path[:, keep], angles, gain,
        exploded, paths.repaired, paths.steps, moved, moments, collapse, words,
    )  # fmt: skip
