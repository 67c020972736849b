"""The exact law of the log-norm of a multilayer perceptron with a homogeneous activation, at any width and depth."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from math import log, pi

import numpy as np
from scipy import special, stats

from deeplimits.architecture.activation import AbRelu, Abs, Activation, Identity, LeakyRelu, Relu, ShapedRelu
from deeplimits.architecture.compose import Serial, body, expand
from deeplimits.architecture.dense import Dense, Gaussian
from deeplimits.architecture.layer import Layer
from deeplimits.architecture.question import Question
from deeplimits.architecture.size import resolve, whole
from deeplimits.architecture.zoo import Mlp
from deeplimits.errors import NoRule

log_norm = Question("log-norm", otherwise="sample it with dl.sample, whose log_variance measures the same number")


@dataclass(frozen=True)
class LogNormLaw:
    """Mean and variance over networks of log(q_L / q_0), where q_L = |phi_L|^2/n enters the readout, q_0 = |x|^2/d.

    `edge` is log(q_L / q_0) at infinite width and the same depth.
    """

    width: int
    depth: int
    mean: float
    variance: float
    edge: float


def log_norm_law(net: Layer | float, width: int, depth: int) -> LogNormLaw:
    """Return the exact law of log(q_L / q_0) of a perceptron at finite width and depth.

    phi_l = phi(z_l), z_l ~ N(0, weight_std^2 q_{l-1}) in each of n features, so log(q_L/q_0) is a sum of L independent
    log((weight_std^2/n) S_l); for ReLU S_l is chi-square with B ~ Bin(n, 1/2) degrees of freedom, B >= 1. At
    depth = ratio * width it tends to N(-5 ratio/2, 5 ratio) for He weights, whatever the width, while the right edge
    has log(q_L/q_0) = 0: the two limits do not commute.

    Args:
        net: a perceptron, or the weight_std of a ReLU one.
        width: number of features n.
        depth: number of hidden activations L.

    Valid when: Gaussian weights, no biases, activations a*max(x,0) + b*min(x,0); networks none of whose layers
        is dead (probability of a dead ReLU layer 2^-n).

    Raises:
        NoRule: another network.

    Source: hanin-nica-2019 (the limit law).

    Example:
        >>> law = log_norm_law(2**0.5, width=128, depth=128)
        >>> round(law.mean, 3), round(law.variance, 2)
        (-2.533, 5.15)
    """
    width, depth = whole("log_norm_law", "width", width), whole("log_norm_law", "depth", depth)
    network = net if isinstance(net, Layer) else Mlp("relu", weight_std=net)
    walk = Walk(width)
    log_norm(expand(body(network), depth), walk)
    walk.activate(1.0, 1.0)
    mean = variance = edge = 0.0
    for (features, gain, plus, minus), count in walk.factors.items():
        center, spread = increment(features, plus, minus)
        mean += count * (center + log(gain))
        variance += count * spread
        edge += count * log(gain * (plus + minus) / 2)
    return LogNormLaw(width, depth, mean, variance, edge)


@dataclass
class Walk:
    """The layers met so far, as factors of q_L / q_0."""

    width: int
    pending: tuple[int, float] | None = None
    factors: Counter = field(default_factory=Counter)

    def activate(self, plus: float, minus: float) -> None:
        """Close the pending dense layer with the activation plus*max(x,0) + minus*min(x,0)."""
        if self.pending is not None:
            size = max(abs(plus), abs(minus))
            if size == 0.0:
                raise NoRule("log-norm", "the activation is zero", "give it a nonzero slope")
            gain = self.pending[1] ** 2 * size**2
            larger, smaller = 1.0, (min(abs(plus), abs(minus)) / size) ** 2
            self.factors[self.pending[0], gain, larger, smaller] += 1
            self.pending = None
        elif not plus == minus == 1.0:
            raise NoRule("log-norm", "an activation without a dense layer before it", "sample the law with dl.sample")


@log_norm.rule(Serial, source="hanin-nica-2019 (independence of the layers)")
def _serial(layer: Serial, walk: Walk) -> None:
    for part in layer.layers:
        log_norm(part, walk)


@log_norm.rule(Dense, source="hanin-nica-2019", valid="Gaussian weights, no bias")
def _dense(layer: Dense, walk: Walk) -> None:
    if not isinstance(layer.weights, Gaussian) or float(layer.bias_std) != 0.0:
        raise NoRule("Dense", "the log-norm law needs Gaussian weights and no bias", log_norm.otherwise)
    walk.activate(1.0, 1.0)
    walk.pending = (resolve("Dense", "features", layer.features, walk.width), float(layer.weight_std))


@log_norm.rule(Relu, Abs, Identity, LeakyRelu, AbRelu, source="hanin-nica-2019 (ReLU); the same proof for two slopes")
def _two_slopes(layer: Activation, walk: Walk) -> None:
    match layer:
        case Relu():
            walk.activate(1.0, 0.0)
        case LeakyRelu(slope=slope):
            walk.activate(1.0, slope)
        case AbRelu(negative=negative, positive=positive):
            walk.activate(positive, negative)
        case _:
            walk.activate(1.0, 1.0)


@log_norm.rule(ShapedRelu, source="li-nica-roy-2022; the proof of hanin-nica-2019 for two slopes")
def _shaped(layer: ShapedRelu, walk: Walk) -> None:
    _two_slopes(layer.at(walk.width), walk)


@lru_cache(maxsize=256)
def increment(features: int, plus: float, minus: float) -> tuple[float, float]:
    """Return mean and variance of log(S/n), S = sum over n standard normals z of plus*max(z,0)^2 + minus*min(z,0)^2.

    Conditional on S > 0. minus = 0: S = chi^2_B, mean E psi(B/2) + log 2, variance E psi'(B/2) + var psi(B/2);
    plus = minus = 1: B = n; otherwise from the Laplace transform of S.
    """
    if minus == 0.0:
        degrees = np.arange(1, features + 1)
        weight = stats.binom.pmf(degrees, features, 0.5)
        weight /= weight.sum()
        centers = special.digamma(degrees / 2)
        center = float(weight @ centers)
        spread = float(weight @ special.polygamma(1, degrees / 2) + weight @ (centers - center) ** 2)
        return center + log(2 * plus) - log(features), spread
    if plus == minus:
        spread = float(special.polygamma(1, features / 2))
        return float(special.digamma(features / 2)) + log(2 * plus) - log(features), spread
    return _from_laplace(features, plus, minus)


def _from_laplace(features: int, plus: float, minus: float) -> tuple[float, float]:
    """Moments of log S by T = log E - log S, E exponential: P(T > t) = phi(e^t), phi the Laplace transform of S."""
    shift = -log(features * (plus + minus) / 2)
    t, step = np.linspace(-45.0, 90.0, 4501, retstep=True)
    s = np.exp(t + shift)
    up, down = 1 + 2 * plus * s, 1 + 2 * minus * s
    base = np.log(0.5 * (up**-0.5 + down**-0.5))
    density = features * s * np.exp((features - 1) * base) * 0.5 * (plus * up**-1.5 + minus * down**-1.5)
    density *= step
    center = float(density @ t)
    spread = float(density @ (t - center) ** 2)
    return -np.euler_gamma - center - shift - log(features), spread - pi**2 / 6
