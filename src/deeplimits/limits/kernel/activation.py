"""The kernels of activations: which Gaussian expectation each one needs."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial, pi, sqrt
from typing import Any

import numpy as np

from deeplimits.architecture import activation as act
from deeplimits.architecture.question import Question
from deeplimits.errors import DescriptionError
from deeplimits.limits.kernel.lowering import Lowering, kernel
from deeplimits.limits.kernel.tape import Dual
from deeplimits.numerics.erfi import inverse_erfi
from deeplimits.numerics.gaussian.erf import Erf
from deeplimits.numerics.gaussian.gelu import Gelu
from deeplimits.numerics.gaussian.linear import Linear
from deeplimits.numerics.gaussian.rectified import RectifiedPower
from deeplimits.numerics.gaussian.series import PolynomialFamily, Series
from deeplimits.numerics.gaussian.trigonometric import Bump, Exponential, Sine

dual = Question(
    "dual", otherwise="give the function as dl.act.Custom(function), whose kernel is computed by quadrature"
)


def family(layer: act.Activation) -> Any:
    """Return the Gaussian expectations E[phi(u) phi(v)] of an activation."""
    return dual(layer)


def _write(layer: act.Activation, state: Lowering) -> None:
    if not state.gaussian:
        why = f"its input, {state.holds}, is not Gaussian in the limit"
        raise DescriptionError(type(layer).__name__, why, "put a Dense layer before it")
    state.add(Dual(state.register, family(layer)))
    state.gaussian, state.carried, state.holds = False, False, f"the output of {type(layer).__name__}"


def _pass(layer: act.Activation, state: Lowering) -> None:
    """Write nothing: the identity leaves its input what it is."""


def _activation(kind: type, source: str, valid: str = "Gaussian input") -> Callable[[Callable], Callable]:
    def register(function: Callable) -> Callable:
        dual.rule(kind, source=source, valid=valid)(function)
        kernel.rule(kind, source=source, valid=valid)(_pass if kind in (act.Identity, act.ShapedRelu) else _write)
        return function

    return register


@_activation(act.Identity, "definition", "any Gaussian input")
def identity(_: act.Identity) -> Linear:
    """E[u v] = k."""
    return Linear()


@_activation(act.ShapedRelu, "li-nica-roy-2022", "infinite width, where it is the identity; see dl.proportional")
def shaped_relu(_: act.ShapedRelu) -> Linear:
    """E[u v] = k."""
    return Linear()


@_activation(act.Relu, "cho-saul-2009, eq. 6")
def relu(_: act.Relu) -> RectifiedPower:
    """sqrt(q q') (sin t + (pi - t) cos t) / (2 pi)."""
    return RectifiedPower(1, 1.0, 0.0)


@_activation(act.LeakyRelu, "cho-saul-2009, eq. 6")
def leaky(layer: act.LeakyRelu) -> RectifiedPower:
    """As ReLU on both half-lines."""
    return RectifiedPower(1, 1.0, -float(layer.slope))


@_activation(act.AbRelu, "cho-saul-2009, eq. 6")
def abrelu(layer: act.AbRelu) -> RectifiedPower:
    """As ReLU on both half-lines."""
    return RectifiedPower(1, float(layer.positive), -float(layer.negative))


@_activation(act.Abs, "cho-saul-2009, eq. 6")
def absolute(_: act.Abs) -> RectifiedPower:
    """As ReLU on both half-lines."""
    return RectifiedPower(1, 1.0, 1.0)


@_activation(act.Sign, "cho-saul-2009, eq. 5", "Gaussian input; the derivative counts as zero")
def sign(_: act.Sign) -> RectifiedPower:
    """1 - 2 t / pi."""
    return RectifiedPower(0, 1.0, -1.0)


@_activation(act.Step, "cho-saul-2009, eq. 5", "Gaussian input; the derivative counts as zero")
def step(_: act.Step) -> RectifiedPower:
    """(pi - t) / (2 pi)."""
    return RectifiedPower(0, 1.0, 0.0)


@_activation(act.RectifiedMonomial, "cho-saul-2009, eq. 4")
def rectified(layer: act.RectifiedMonomial) -> RectifiedPower:
    """(q q')**(p/2) J_p(t) / (2 pi)."""
    return RectifiedPower(int(layer.power), 1.0, 0.0)


@_activation(act.Erf, "williams-1997-computing, eq. 11")
def erf(layer: act.Erf) -> Erf:
    """(2/pi) asin(2k / sqrt((1+2q)(1+2q')))."""
    return Erf(float(layer.amplitude), float(layer.frequency), float(layer.shift))


@_activation(act.Probit, "williams-1997-computing, eq. 11")
def probit(_: act.Probit) -> Erf:
    """1/4 + asin(k / sqrt((1+q)(1+q'))) / (2 pi)."""
    return Erf(0.5, sqrt(0.5), 0.5)


@_activation(act.Sin, "yang-2019-tensor-programs (Gaussian characteristic function)")
def sine(layer: act.Sin) -> Sine:
    """e^{-(q+q')/2} sinh k at unit frequency and zero phase."""
    return Sine(float(layer.amplitude), float(layer.frequency), float(layer.phase))


@_activation(act.Cos, "yang-2019-tensor-programs (Gaussian characteristic function)")
def cosine(layer: act.Cos) -> Sine:
    """A sine with its phase moved by pi/2."""
    return Sine(float(layer.amplitude), float(layer.frequency), float(layer.phase) + pi / 2)


@_activation(act.Exp, "definition (Gaussian moment generating function)")
def exponential(layer: act.Exp) -> Exponential:
    """e^{(q+q')/2 + k} at unit rate."""
    return Exponential(float(layer.amplitude), float(layer.rate))


@_activation(act.GaussianBump, "definition (Gaussian integral)")
def bump(layer: act.GaussianBump) -> Bump:
    """((1+q)(1+q') - k^2)**(-1/2) at rate 1/2."""
    return Bump(float(layer.rate))


@_activation(act.Gelu, "tsuchida-2021-avoiding")
def gelu(_: act.Gelu) -> Gelu:
    """By Stein's lemma from the Gaussian cdf's dual."""
    return Gelu()


@_activation(act.Polynomial, "mehler-1866")
def polynomial(layer: act.Polynomial) -> PolynomialFamily:
    """The finite Hermite series."""
    return PolynomialFamily(tuple(layer.coefficients))


@_activation(act.Hermite, "mehler-1866", "Gaussian input of any variance")
def hermite(layer: act.Hermite) -> PolynomialFamily:
    """The finite Hermite series of a Hermite polynomial at any variance; c**n at variance one."""
    monomials = np.polynomial.hermite_e.herme2poly([0.0] * layer.order + [1.0]) / sqrt(factorial(layer.order))
    return PolynomialFamily(tuple(float(c) for c in monomials))


@_activation(act.Tanh, "mehler-1866")
def tanh(_: act.Tanh) -> Series:
    """Hermite series, coefficients by quadrature."""
    return Series(np.tanh, lambda x: 1.0 - np.tanh(x) ** 2, "tanh")


def _logistic(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1.0 + np.tanh(0.5 * x))


@_activation(act.Sigmoid, "mehler-1866")
def sigmoid(_: act.Sigmoid) -> Series:
    """Hermite series, coefficients by quadrature."""
    return Series(_logistic, lambda x: _logistic(x) * _logistic(-x), "sigmoid")


@_activation(act.Softplus, "mehler-1866")
def softplus(_: act.Softplus) -> Series:
    """Hermite series, coefficients by quadrature."""
    return Series(lambda x: np.logaddexp(0.0, x), _logistic, "softplus")


@_activation(act.Silu, "mehler-1866")
def silu(_: act.Silu) -> Series:
    """Hermite series, coefficients by quadrature."""
    return Series(lambda x: x * _logistic(x), lambda x: _logistic(x) * (1.0 + x * _logistic(-x)), "silu")


@_activation(act.OrnsteinUhlenbeck, "mehler-1866")
def ornstein_uhlenbeck(layer: act.OrnsteinUhlenbeck) -> Series:
    """Hermite series, coefficients by quadrature; phi' = alpha sqrt(pi) u."""
    alpha, beta = float(layer.alpha), float(layer.beta)
    return Series(
        lambda x: np.exp(inverse_erfi(alpha * x + beta) ** 2),
        lambda x: alpha * sqrt(pi) * inverse_erfi(alpha * x + beta),
        f"ornstein-uhlenbeck:{alpha!r}:{beta!r}",
    )


@_activation(act.Custom, "mehler-1866", "square-integrable function; the error estimate is reported")
def custom(layer: act.Custom) -> Series:
    """Hermite series, coefficients by quadrature of the user's function."""
    derivative = None if layer.derivative is None else _through_torch(layer, layer.derivative)
    return Series(_through_torch(layer, layer.function), derivative, f"custom:{layer.name}:{id(layer.function)}")


def _through_torch(layer: act.Custom, function: Callable) -> Callable[[np.ndarray], np.ndarray]:
    import torch

    def call(x: np.ndarray) -> np.ndarray:
        where = f"Custom({layer.name!r})"
        given = torch.from_numpy(np.array(x, dtype=np.float64, order="C"))
        try:
            with torch.no_grad():
                value = torch.as_tensor(function(given), dtype=torch.float64)
        except Exception as error:
            fix = "write it with torch functions of a float64 tensor, entry by entry"
            raise DescriptionError(where, f"the function raised {error!r}", fix) from error
        if value.shape != given.shape:
            why = f"the function maps shape {tuple(given.shape)} to {tuple(value.shape)}"
            raise DescriptionError(where, why, "return one number for each entry")
        if not bool(torch.isfinite(value).all()):
            spot = float(given.flatten()[int((~torch.isfinite(value)).flatten().nonzero()[0])])
            raise DescriptionError(
                where, f"the function is not finite at x={spot:g}", "make it finite on the real line"
            )
        return value.numpy()

    return call
