"""What training at infinite width gave: outputs, order parameters and responses at every step, with standard errors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Course:
    """Numbers over time, of one march or averaged over them; T = steps + 1 times, P inputs, C outputs, M test inputs.

    Axes of gradients run over pairs (input, output) in that order, Q = P C of them; with one output Q = P.

    Attributes:
        outputs: f, shape (T, P, C).
        features: Phi of every hidden layer, <phi(h(t)) phi(h(s))>, shape (layers, T, T, P, P).
        gradients: G of every hidden layer, <g(t) g(s)>, shape (layers, T, T, Q, Q).
        feature_responses: C, how features at t answer to the noise of the gradients at s < t, (layers', T, T, P, Q); of
            perceptrons, every hidden layer but the last.
        gradient_responses: D, how gradients at t answer to the noise of the features at s <= t, (layers', T, T, Q, P);
            of perceptrons, every hidden layer but the first. By "stein" only products with what the responses act on,
            C with the next layer's G and D with the layer's below Phi, are determined, and not each entry.
        kernel: the NTK between any two times, shape (T, T, Q, Q).
        test_outputs: f at inputs that are not trained on, shape (T, M, C).
        coarser_outputs: at infinite depth, `outputs` as smaller depths give them; else the same.
    """

    outputs: Array
    features: Array
    gradients: Array
    feature_responses: Array
    gradient_responses: Array
    kernel: Array
    test_outputs: Array
    coarser_outputs: Array = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.coarser_outputs is None:
            object.__setattr__(self, "coarser_outputs", self.outputs)

    def cut(self, times: int) -> Course:
        """Return the first `times` times only."""
        outer = {"outputs", "test_outputs", "coarser_outputs"}
        cut = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in outer:
                cut[field.name] = value[:times]
            elif field.name == "kernel":
                cut[field.name] = value[:times, :times]
            else:
                cut[field.name] = value[:, :times, :times]
        return Course(**cut)


def averaged(courses: Iterable[Course], sampled: bool) -> tuple[Course, Course, Array]:
    """Return the mean of independent marches, its standard error, and the outputs of each, (marches, T, P, C).

    Args:
        courses: one a march; they are taken one after the other, and none is kept.
        sampled: whether they are samples; the standard error is 0 where they are not, NaN of a single one.
    """
    mean: dict[str, Array] = {}
    squares: dict[str, Array] = {}
    outputs = []
    for count, course in enumerate(courses, start=1):
        outputs.append(course.outputs)
        for field in fields(Course):
            value = getattr(course, field.name)
            old = mean.get(field.name, np.zeros(()))
            mean[field.name] = old + (value - old) / count
            squares[field.name] = squares.get(field.name, 0.0) + (value - old) * (value - mean[field.name])
    count = len(outputs)
    scale = 1 / (count * (count - 1)) if count > 1 else np.nan if sampled else 0.0
    error = {name: np.sqrt(value * scale) for name, value in squares.items()}
    return Course(**mean), Course(**error), np.stack(outputs)


@dataclass(frozen=True, eq=False)
class MeanField:
    """Training of a network of infinite width in the mean-field (muP) limit, step by step.

    Attributes:
        course: every number over time, the mean over marches.
        standard_error: of each number of `course`, by independent marches; zeros where nothing is sampled.
        loss: sum over inputs and outputs of (f - y)^2 / 2 at every time, shape (T,).
        loss_error: its standard error, shape (T,).
        targets: y, shape (P, C).
        depth: a whole number, or infinity; of a network without DEPTH, its hidden layers.
        gamma: strength of feature learning.
        rate: learning rate.
        solver: "stein", "jacobian" or "exact".
        samples: particles a layer, over all marches; 0 where nothing is sampled.
        marches: independent marches that they are split into.
        seed: of all of them.
        text: what was solved, how, and in how much memory.
        several: whether y had an axis for outputs.
    """

    course: Course
    standard_error: Course
    loss: Array
    loss_error: Array
    targets: Array
    depth: float
    gamma: float
    rate: float
    solver: str
    samples: int
    marches: int
    seed: int
    text: str
    several: bool = False

    @property
    def times(self) -> NDArray[np.int64]:
        """Numbers of gradient steps taken, 0 .. steps."""
        return np.arange(len(self.loss))

    @property
    def outputs(self) -> Array:
        """Outputs at the training inputs, (T, P), or (T, P, C) where y had an axis for outputs."""
        return self._squeezed(self.course.outputs)

    @property
    def outputs_error(self) -> Array:
        """Standard error of `outputs`."""
        return self._squeezed(self.standard_error.outputs)

    @property
    def test_outputs(self) -> Array:
        """Outputs at the test inputs, (T, M), or (T, M, C) where y had an axis for outputs."""
        return self._squeezed(self.course.test_outputs)

    @property
    def test_outputs_error(self) -> Array:
        """Standard error of `test_outputs`."""
        return self._squeezed(self.standard_error.test_outputs)

    @property
    def features(self) -> Array:
        """Phi of every hidden layer between any two times, (layers, T, T, P, P)."""
        return self.course.features

    @property
    def gradients(self) -> Array:
        """G of every hidden layer between any two times, (layers, T, T, Q, Q)."""
        return self.course.gradients

    @property
    def feature_responses(self) -> Array:
        """C of every hidden layer, (layers, T, T, P, Q)."""
        return self.course.feature_responses

    @property
    def gradient_responses(self) -> Array:
        """D of every hidden layer, (layers, T, T, Q, P)."""
        return self.course.gradient_responses

    @property
    def kernel(self) -> Array:
        """The NTK between any two times, (T, T, Q, Q); `kernel[t, t]` moves the outputs at time t."""
        return self.course.kernel

    @property
    def depth_error(self) -> float:
        """How far half the depths move the outputs at infinite depth, about three times what is left; else 0."""
        return float(np.abs(self.course.outputs - self.course.coarser_outputs).max())

    @cached_property
    def alignment(self) -> Array:
        """Cosine of kernel[t, t] with y y^T, shape (T,): 1 where the kernel has only the direction of the targets."""
        y = self.targets.reshape(-1)
        now = np.einsum("ttij->tij", self.kernel)
        size = np.sqrt(np.einsum("tij,tij->t", now, now)) * (y @ y)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.einsum("tij,i,j->t", now, y, y) / size

    @cached_property
    def sharpness(self) -> Array:
        """Largest eigenvalue of kernel[t, t], (T,); errors change sign and grow where rate times it is above 2."""
        now = np.einsum("ttij->tij", self.kernel)
        return np.asarray(np.linalg.eigvalsh(now)[:, -1], dtype=np.float64)

    def _squeezed(self, values: Array) -> Array:
        return values if self.several else values[..., 0]

    def describe(self) -> str:
        """Say what was solved, how, in how much memory, and how accurately."""
        return self.text

    def __repr__(self) -> str:
        at = f"gamma={self.gamma:g}, rate={self.rate:g}, solver={self.solver!r}"
        return f"MeanField({len(self.loss) - 1} steps, {len(self.targets)} inputs, depth={self.depth:g}, {at})"
