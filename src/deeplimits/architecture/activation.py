"""Activations: functions applied to each feature, given by name or as objects of `dl.act`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any

from deeplimits.architecture.layer import Layer, as_float, number
from deeplimits.architecture.size import whole
from deeplimits.errors import DescriptionError, nearest


@dataclass(frozen=True)
class Activation(Layer):
    """A function applied to every feature."""

    def __post_init__(self) -> None:
        for name, value in self.__dict__.items():
            if isinstance(value, float | int):
                number(type(self).__name__, name, value, minimum=None)


@dataclass(frozen=True)
class Identity(Activation):
    """phi(x) = x."""


@dataclass(frozen=True)
class Relu(Activation):
    """phi(x) = max(x, 0)."""


@dataclass(frozen=True)
class LeakyRelu(Activation):
    """phi(x) = max(x, 0) + slope * min(x, 0)."""

    slope: float = 0.01


@dataclass(frozen=True)
class AbRelu(Activation):
    """phi(x) = negative * min(x, 0) + positive * max(x, 0)."""

    negative: float = 0.0
    positive: float = 1.0


@dataclass(frozen=True)
class ShapedRelu(Activation):
    """A two-slope ReLU that tends to the identity as the width n grows, at the rate that keeps deep networks alive.

    phi(x) = sqrt(c) (s_plus max(x, 0) + s_minus min(x, 0)), s = 1 + (plus or minus)/sqrt(n) and
    c = 2/(s_plus^2 + s_minus^2), so that E[phi(z)^2] = 1 for a standard normal z. At infinite width it is the identity.

    Args:
        plus, minus: the two slopes' distances from 1, times sqrt(n).

    Source: li-nica-roy-2022.

    Example:
        >>> ShapedRelu(plus=1.0, minus=-7.0).at(width=16)
        AbRelu(negative=-0.7276068751089989, positive=1.212678125181665)
    """

    plus: Any = 0.0
    minus: Any = -1.0

    def at(self, width: float) -> AbRelu:
        """Return the activation of a network of that width.

        Raises:
            DescriptionError: both slopes are zero at that width.
        """
        positive, negative = (1.0 + as_float(c) / float(width) ** 0.5 for c in (self.plus, self.minus))
        square = (positive**2 + negative**2) / 2
        if square == 0.0:
            why = f"both slopes are zero at width {width:g}"
            raise DescriptionError("ShapedRelu", why, "use another width, or other values of plus and minus")
        return AbRelu(negative / square**0.5, positive / square**0.5)


@dataclass(frozen=True)
class Abs(Activation):
    """phi(x) = |x|."""


@dataclass(frozen=True)
class Sign(Activation):
    """phi(x) = sign(x); its derivative counts as zero in the NTK."""


@dataclass(frozen=True)
class Step(Activation):
    """phi(x) = 1 for x > 0, else 0; its derivative counts as zero in the NTK."""


@dataclass(frozen=True)
class RectifiedMonomial(Activation):
    """phi(x) = max(x, 0)**power for a whole power >= 0."""

    power: int = 2

    def __post_init__(self) -> None:
        whole("RectifiedMonomial", "power", self.power, minimum=0)


@dataclass(frozen=True)
class Erf(Activation):
    """phi(x) = amplitude * erf(frequency * x) + shift."""

    amplitude: float = 1.0
    frequency: float = 1.0
    shift: float = 0.0


@dataclass(frozen=True)
class Sin(Activation):
    """phi(x) = amplitude * sin(frequency * x + phase)."""

    amplitude: float = 1.0
    frequency: float = 1.0
    phase: float = 0.0


@dataclass(frozen=True)
class Cos(Activation):
    """phi(x) = amplitude * cos(frequency * x + phase)."""

    amplitude: float = 1.0
    frequency: float = 1.0
    phase: float = 0.0


@dataclass(frozen=True)
class Exp(Activation):
    """phi(x) = amplitude * exp(rate * x)."""

    amplitude: float = 1.0
    rate: float = 1.0


@dataclass(frozen=True)
class GaussianBump(Activation):
    """phi(x) = exp(-rate * x**2) with rate >= 0."""

    rate: float = 0.5

    def __post_init__(self) -> None:
        number("GaussianBump", "rate", self.rate)


@dataclass(frozen=True)
class Probit(Activation):
    """phi(x) = P(z <= x) for a standard normal z."""


@dataclass(frozen=True)
class Gelu(Activation):
    """phi(x) = x P(z <= x) for a standard normal z (the exact GELU)."""


@dataclass(frozen=True)
class Polynomial(Activation):
    """phi(x) = sum over j of coefficients[j] * x**j."""

    coefficients: tuple[float, ...] = (0.0, 1.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "coefficients", tuple(float(c) for c in self.coefficients))
        if not self.coefficients or not all(isfinite(c) for c in self.coefficients):
            fix = "give finite numbers, constant term first"
            raise DescriptionError("Polynomial", f"coefficients={self.coefficients!r}", fix)


@dataclass(frozen=True)
class Hermite(Activation):
    """phi(x) = He_n(x) / sqrt(n!), the normalised probabilists' Hermite polynomial."""

    order: int = 2

    def __post_init__(self) -> None:
        whole("Hermite", "order", self.order, minimum=0)


@dataclass(frozen=True)
class Tanh(Activation):
    """phi(x) = tanh(x)."""


@dataclass(frozen=True)
class Sigmoid(Activation):
    """phi(x) = 1 / (1 + exp(-x))."""


@dataclass(frozen=True)
class Softplus(Activation):
    """phi(x) = log(1 + exp(x))."""


@dataclass(frozen=True)
class Silu(Activation):
    """phi(x) = x / (1 + exp(-x))."""


@dataclass(frozen=True)
class OrnsteinUhlenbeck(Activation):
    """phi(x) = exp(u**2), u = erfi^-1(alpha * x + beta), with phi phi'' = pi alpha**2 / 2.

    A residual network of width 1 and infinite depth with this activation is an Ornstein-Uhlenbeck process in u.
    phi(x) grows as |x| sqrt(log |x|); alpha is not 0.

    Source: hayou-2022-infinite-depth.

    Example:
        >>> OrnsteinUhlenbeck(alpha=1.0, beta=0.3)
        OrnsteinUhlenbeck(alpha=1.0, beta=0.3)
    """

    alpha: float = 1.0
    beta: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha == 0:
            why = "alpha=0 makes the activation constant"
            raise DescriptionError("OrnsteinUhlenbeck", why, "give another alpha, e.g. alpha=1.0")


@dataclass(frozen=True)
class Custom(Activation):
    """A function of the user's own, written with torch; kernels use quadrature and say its error.

    Args:
        function: torch tensor -> torch tensor, applied to each entry.
        derivative: its derivative likewise; by default taken from the Hermite series and by autograd.
        name: name in reports.
    """

    function: Callable[[Any], Any]
    derivative: Callable[[Any], Any] | None = None
    name: str = "custom"

    def __post_init__(self) -> None:
        if not callable(self.function):
            fix = "give a function of torch tensors, e.g. act.Custom(torch.atan)"
            raise DescriptionError("Custom", f"function={self.function!r} is not callable", fix)


NAMES: dict[str, type[Activation]] = {
    "identity": Identity,
    "linear": Identity,
    "relu": Relu,
    "leaky-relu": LeakyRelu,
    "abrelu": AbRelu,
    "abs": Abs,
    "sign": Sign,
    "step": Step,
    "rectified-monomial": RectifiedMonomial,
    "erf": Erf,
    "sin": Sin,
    "cos": Cos,
    "exp": Exp,
    "gaussian": GaussianBump,
    "probit": Probit,
    "gelu": Gelu,
    "polynomial": Polynomial,
    "hermite": Hermite,
    "tanh": Tanh,
    "sigmoid": Sigmoid,
    "softplus": Softplus,
    "silu": Silu,
    "swish": Silu,
    "ornstein-uhlenbeck": OrnsteinUhlenbeck,
}


def activation(given: Any) -> Activation:
    """Return the activation named or given.

    Args:
        given: a name such as "relu" or "leaky-relu", or an Activation.

    Raises:
        DescriptionError: an unknown name (the nearest are offered), or something else.

    Example:
        >>> activation("leaky_relu")
        LeakyRelu(slope=0.01)
    """
    if isinstance(given, Activation):
        return given
    if isinstance(given, str):
        kind = NAMES.get(given.lower().replace("_", "-"))
        if kind is None:
            raise DescriptionError("activation", f"no activation named {given!r}", nearest(given, NAMES))
        return kind()
    fix = "give a name, an object such as dl.act.Relu(), or dl.act.Custom(function)"
    raise DescriptionError("activation", f"{given!r} is not an activation", fix)
