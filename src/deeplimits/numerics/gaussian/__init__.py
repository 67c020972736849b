"""Expectations E[phi(u) phi(v)] of correlated Gaussians: closed forms, and Hermite series with an error estimate."""

from deeplimits.numerics.gaussian.erf import Erf
from deeplimits.numerics.gaussian.family import Family
from deeplimits.numerics.gaussian.gelu import Gelu
from deeplimits.numerics.gaussian.linear import Linear
from deeplimits.numerics.gaussian.polynomial import PolynomialFamily
from deeplimits.numerics.gaussian.rectified import RectifiedPower
from deeplimits.numerics.gaussian.series import Series
from deeplimits.numerics.gaussian.trigonometric import Bump, Exponential, Sine

__all__ = [
    "Bump",
    "Erf",
    "Exponential",
    "Family",
    "Gelu",
    "Linear",
    "PolynomialFamily",
    "RectifiedPower",
    "Series",
    "Sine",
]
