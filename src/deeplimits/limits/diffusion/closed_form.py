"""Laws of the hidden state that are known in closed form: width 1, infinite depth, and which networks have one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from math import exp, inf, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from deeplimits.architecture import activation as act
from deeplimits.architecture.compose import Repeat, Serial, written_out
from deeplimits.architecture.dense import Dense, Gaussian
from deeplimits.architecture.layer import WIDTH, Layer, Power, as_float
from deeplimits.limits.diffusion.compose import active
from deeplimits.limits.diffusion.task import Task
from deeplimits.numerics.erfi import inverse_erfi

Array = NDArray[np.float64]
NODES = np.linspace(-9.0, 9.0, 721)
WEIGHTS = stats.norm.pdf(NODES) / stats.norm.pdf(NODES).sum()


@dataclass(frozen=True)
class ClosedForm(ABC):
    """The law of the one neuron X_t of a network of width 1: dX = phi(X) dB from X_0 ~ N(mean, start_std^2).

    A function of X_t, named by `coordinate`, is Gaussian given X_0; averages over X_0 are sums over 721 nodes.
    X_t has no drift, so E X_t = E X_0.

    Attributes:
        mean: of X_0, and so of X_t.
        start_std: standard deviation of X_0; 0 where it is fixed.
        length: the process's own time at the end of the network, weight_std^2 sum alpha^2.
        time: fraction of the layer time that is asked about.

    Valid when: width 1, infinite depth, no biases in the blocks.

    Source: hayou-2022-infinite-depth.
    """

    mean: float
    start_std: float
    length: float
    time: float = 1.0

    coordinate = ""

    def at(self, time: float) -> ClosedForm:
        """Return the law at another fraction of the layer time."""
        return replace(self, time=time)

    def given(self, start: float) -> ClosedForm:
        """Return the law given X_0 = start."""
        return replace(self, mean=start, start_std=0.0)

    @abstractmethod
    def gaussian(self, start: Any) -> tuple[Array, Array]:
        """Return mean and variance, given X_0 = start, of the function of X_t called `coordinate`."""

    @abstractmethod
    def cdf_given(self, x: Array, start: Array) -> Array:
        """Return P(X_t <= x) given X_0 = start."""

    @property
    def infinite_variance(self) -> bool:
        """Whether E X_t^2 is infinite."""
        return False

    @abstractmethod
    def square_given(self, start: Array) -> Array:
        """Return E X_t^2 given X_0 = start; infinite where it is."""

    def cdf(self, x: Any) -> Array:
        """Return P(X_t <= x), entry by entry."""
        x = np.asarray(x, dtype=np.float64)
        start = self._starts()
        found = self.cdf_given(x.reshape(-1, 1), start[None]) @ (WEIGHTS if len(start) > 1 else np.ones(1))
        return found.reshape(x.shape)

    def quantile(self, p: float) -> float:
        """Return the smallest x with P(X_t <= x) >= p, to 1e-10 of its size."""
        low, high = -1.0, 1.0
        while float(self.cdf(low)) >= p and low > -1e300:
            low *= 4
        while float(self.cdf(high)) < p and high < 1e300:
            high *= 4
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (low, middle) if float(self.cdf(middle)) >= p else (middle, high)
            if high - low <= 1e-10 * max(abs(low), abs(high), 1e-6):
                break
        return high

    @property
    def variance(self) -> float:
        """Variance of X_t; infinite where it is."""
        start = self._starts()
        return float(self.square_given(start) @ (WEIGHTS if len(start) > 1 else np.ones(1))) - self.mean**2

    def cdf_log_square(self, y: Any) -> Array:
        """Return P(log X_t^2 <= y): of the log of the Gram matrix's one entry."""
        root = np.exp(np.asarray(y, dtype=np.float64) / 2)
        return self.cdf(root) - self.cdf(np.nextafter(-root, -inf))

    def _starts(self) -> Array:
        return np.array([self.mean]) if self.start_std == 0 else self.mean + self.start_std * NODES

    @property
    def passed(self) -> float:
        """The process's own time at `time`."""
        return self.length * self.time


@dataclass(frozen=True)
class TwoSlopes(ClosedForm):
    """phi(x) = plus max(x, 0) + minus min(x, 0): geometric Brownian motion on either side of 0.

    Given X_0: log|X_t| ~ N(log|X_0| - s^2 T/2, s^2 T), s the slope on the side of X_0, which X never leaves; frozen
    where s = 0, as ReLU below 0.
    """

    plus: float = 1.0
    minus: float = 0.0

    coordinate = "log|X_t|"

    def gaussian(self, start: Any) -> tuple[Array, Array]:
        start = np.asarray(start, dtype=np.float64)
        spread = np.where(start > 0, self.plus, self.minus) ** 2 * self.passed
        with np.errstate(divide="ignore"):
            return np.log(np.abs(start)) - spread / 2, spread

    def cdf(self, x: Any) -> Array:
        if self.start_std == 0:
            return super().cdf(x)
        x = np.asarray(x, dtype=np.float64)  # X_t <= x iff X_0 <= x exp(-G), G the Gaussian rise on the side of x
        spread = np.where(x > 0, self.plus, self.minus)[..., None] ** 2 * self.passed
        start = x[..., None] * np.exp(spread / 2 - np.sqrt(spread) * NODES)
        return special.ndtr((start - self.mean) / self.start_std) @ WEIGHTS

    def cdf_given(self, x: Array, start: Array) -> Array:
        middle, spread = self.gaussian(start)
        with np.errstate(divide="ignore", invalid="ignore"):
            rank = (np.log(np.abs(x)) - middle) / np.sqrt(spread)
            below = special.ndtr(np.where(start > 0, rank, -rank))
        same = (np.sign(x) * np.sign(start) > 0) & (spread > 0)
        return np.where(same, below, start <= x)

    def square_given(self, start: Array) -> Array:
        return start**2 * np.exp(np.where(start > 0, self.plus, self.minus) ** 2 * self.passed)


@dataclass(frozen=True)
class OrnsteinUhlenbeck(ClosedForm):
    """phi(x) = exp(u^2), u = erfi^-1(alpha x + beta): dU = -(pi alpha^2/4) U dT + (alpha sqrt(pi)/2) dB.

    Given X_0: U_t ~ N(u_0 e^(-th T), (1 - e^(-2 th T))/2), th = pi alpha^2/4.
    """

    alpha: float = 1.0
    beta: float = 0.0

    coordinate = "u(X_t)"

    def gaussian(self, start: Any) -> tuple[Array, Array]:
        fall = exp(-pi * self.alpha**2 / 4 * self.passed)
        start = inverse_erfi(self.alpha * np.asarray(start, dtype=np.float64) + self.beta)
        return start * fall, np.full_like(start, (1 - fall**2) / 2)

    def cdf_given(self, x: Array, start: Array) -> Array:
        middle, spread = self.gaussian(start)
        here = inverse_erfi(self.alpha * x + self.beta)
        with np.errstate(divide="ignore", invalid="ignore"):
            below = special.ndtr(np.sign(self.alpha) * (here - middle) / np.sqrt(spread))
        return np.where(spread > 0, below, start <= x)

    @property
    def infinite_variance(self) -> bool:
        return 4 * float(self.gaussian(0.0)[1]) >= 1  # erfi(u)^2 grows as exp(2 u^2)

    def square_given(self, start: Array) -> Array:
        if self.infinite_variance:
            return np.full(len(start), inf)
        middle, spread = (part.reshape(-1, 1) for part in self.gaussian(start))
        left = 1 - 4 * spread[0, 0]
        z = 4 * middle * np.sqrt(spread) / left + NODES / sqrt(left)
        u = middle + np.sqrt(spread) * z
        squares = (4 / pi * special.dawsn(u) ** 2) * np.exp(2 * u * u - z * z / 2) / sqrt(2 * pi)
        ends = squares.sum(1) * (NODES[1] - NODES[0]) / sqrt(left)
        rise = special.erfi(inverse_erfi(self.alpha * start + self.beta))  # E erfi(U_t) = erfi(u_0)
        return (ends - 2 * self.beta * rise + self.beta**2) / self.alpha**2


def closed_forms(task: Task) -> tuple[tuple[ClosedForm, ...], str]:
    """Return the law of the hidden state at the end for every input, none where it is not known, and why in words."""
    reason = _refused(task)
    if reason:
        return (), f"no closed-form law: {reason}"
    layers: tuple[Any, ...] = task.body.layers
    index = next(i for i, layer in enumerate(layers) if isinstance(layer, Repeat))
    ((branch, p),) = active(layers[index].block)
    activation, last = written_out(branch).layers  # type: ignore[attr-defined]
    length = as_float(last.weight_std) ** 2 * as_float(p.time)
    starts = [(float(x[0]), 0.0) for x in task.X]
    if index:
        read = layers[0]
        squares = (task.X**2).mean(1)
        starts = [
            (0.0, sqrt(as_float(read.weight_std) ** 2 * float(q) + as_float(read.bias_std) ** 2)) for q in squares
        ]
    laws = tuple(_law(activation, *start, length) for start in starts)
    return laws, f"closed form: {laws[0].coordinate} is Gaussian given the state at the start"


def _law(activation: Layer, mean: float, std: float, length: float) -> ClosedForm:
    match activation:
        case act.OrnsteinUhlenbeck(alpha=alpha, beta=beta):
            return OrnsteinUhlenbeck(mean, std, length, alpha=float(alpha), beta=float(beta))
        case act.Identity():
            slopes = (1.0, 1.0)
        case act.Abs():
            slopes = (1.0, -1.0)
        case act.LeakyRelu(slope=slope):
            slopes = (1.0, float(slope))
        case act.AbRelu(negative=negative, positive=positive):
            slopes = (float(positive), float(negative))
        case _:
            slopes = (1.0, 0.0)
    return TwoSlopes(mean, std, length, plus=slopes[0], minus=slopes[1])


KNOWN = (act.Relu, act.LeakyRelu, act.AbRelu, act.Abs, act.Identity, act.OrnsteinUhlenbeck)


def _refused(task: Task) -> str:
    """Return why there is no closed form, or nothing."""
    if task.depth != inf:
        return "those known are of infinite depth"
    if task.width != 1:
        return f"those known are of width 1, not {task.width}"
    layers: tuple[Any, ...] = task.body.layers
    blocks = [i for i, layer in enumerate(layers) if isinstance(layer, Repeat) and isinstance(layer.times, Power)]
    if blocks not in ([0], [1]) or (blocks == [1] and not _plain(layers[0])):
        return "the blocks stand neither first nor behind one Dense layer"
    if blocks == [0] and task.X.shape[1] != 1:
        return "the inputs are not states of width 1"
    parts = active(layers[blocks[0]].block)
    if len(parts) != 1 or parts[0][1].kind != "flow":
        return "the block is not one residual layer with scales that vanish as depth grows"
    branch: Any = written_out(parts[0][0])
    inner: tuple[Any, ...] = branch.layers if isinstance(branch, Serial) else (branch,)
    if len(inner) != 2 or not isinstance(inner[0], act.Activation) or not _plain(inner[1]):
        return "the branch is not an activation and a Dense layer of Gaussian weights"
    if as_float(inner[1].bias_std) != 0:
        return f"the blocks have biases (bias_std={as_float(inner[1].bias_std):g})"
    if not isinstance(inner[0], KNOWN):
        return f"none is known for {inner[0]!r}"
    return ""


def _plain(layer: Layer) -> bool:
    return isinstance(layer, Dense) and isinstance(layer.weights, Gaussian) and layer.features in (WIDTH, 1)
