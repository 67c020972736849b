"""Elementary functions of one number, written so that compiled loops over them vectorise.

A call into libm stops vectorisation, and the hardware's square root and division are slow: polynomials and Newton
steps from a float32 estimate take their place. Each function has a float64 and a float32 body, chosen by type.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload, register_jitable

_ONE, _HALF, _TINY = np.float32(1.0), np.float32(0.5), np.float32(1e-30)
_HALF_PI, _PI = np.float32(np.pi / 2), np.float32(np.pi)

# asin(m) = m + m z P(z), z = m**2 in [0, 1/2]; error 5e-17 (A, float64), 6e-9 (B, float32).
_A0, _A1, _A2, _A3 = 0.1666666666666666, 0.07500000000008983, 0.04464285712358516, 0.030381946078023858
_A4, _A5, _A6, _A7 = 0.022372086303686842, 0.017354730668996843, 0.013929824301362788, 0.011985559032731258
_A8, _A9, _A10, _A11 = 0.0058919623838489124, 0.033823977477227554, -0.1174784139555458, 0.46581061083892006
_A12, _A13, _A14, _A15 = -1.258681300394588, 2.573508064401593, -3.7415993002001366, 3.7316474816315224
_A16, _A17 = -2.277990489441633, 0.6629475548369097
_B0, _B1, _B2, _B3 = map(np.float32, (0.16666665678232892, 0.07500252163633334, 0.04453881397317572, 0.0319902392271622))
_B4, _B5, _B6, _B7 = map(np.float32, (0.01043532597498875, 0.06379697638268081, -0.0797207165195533, 0.09469734959597))

# exp(r) = 1 + r + r**2 E(r), |r| <= log(2)/2; error 1e-17 (E, float64), 8e-9 (F, float32).
_E0, _E1, _E2, _E3 = 0.5000000000000001, 0.16666666666666669, 0.041666666666624164, 0.008333333333330065
_E4, _E5, _E6 = 0.0013888888917196719, 0.00019841269863040545, 2.4801521322368692e-05
_E7, _E8, _E9 = 2.7557268480310024e-06, 2.7620075879983367e-07, 2.5100375832561234e-08
_F0, _F1, _F2 = map(np.float32, (0.5, 0.1666657702559799, 0.041666554662050534))
_F3, _F4 = map(np.float32, (0.008363173074513711, 0.001392617611993558))
_LOG2E, _LN2 = np.float32(1.4426950408889634), np.float32(0.6931471805599453)
_LOWEST, _HIGHEST, _EXPONENT = np.float32(-87.0), np.float32(88.0), np.float32(2.0**23 + 127.0)


@intrinsic
def wide_vectors(context):  # noqa: ARG001
    """Let the compiler use the machine's widest vectors in this function (it stays at 256 bits otherwise)."""

    def generate(target, builder, signature, arguments):  # noqa: ARG001
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return target.get_dummy_value()

    return types.void(), generate


@intrinsic
def _reinterpret(context, value):  # noqa: ARG001
    """The same bits as a float of the same size (of an integer) or as an integer (of a float)."""
    pairs = {types.float64: types.int64, types.float32: types.int32, types.int64: types.float64, types.int32: types.float32}
    result = pairs[value]

    def generate(target, builder, signature, arguments):  # noqa: ARG001
        return builder.bitcast(arguments[0], target.get_value_type(result))

    return result(value), generate


@register_jitable
def _inverse_root_64(x):
    v = max(x, 1e-30)
    y = np.float64(_ONE / np.sqrt(np.float32(v)))
    e = 1.0 - v * y * y
    return y + y * e * (0.5 + 0.375 * e)


@register_jitable
def _inverse_root_32(x):
    return _ONE / np.sqrt(max(x, _TINY))


@register_jitable
def _arcsine_64(m):
    z = m * m
    p = (((((_A17 * z + _A16) * z + _A15) * z + _A14) * z + _A13) * z + _A12) * z + _A11
    p = (((((p * z + _A10) * z + _A9) * z + _A8) * z + _A7) * z + _A6) * z + _A5
    p = ((((p * z + _A4) * z + _A3) * z + _A2) * z + _A1) * z + _A0
    return m + m * z * p


@register_jitable
def _arcsine_32(m):
    z = m * m
    p = ((((((_B7 * z + _B6) * z + _B5) * z + _B4) * z + _B3) * z + _B2) * z + _B1) * z + _B0
    return m + m * z * p


@register_jitable
def _exponential_64(x):
    v = min(max(x, -708.0), 709.0)
    n = np.floor(v * 1.4426950408889634 + 0.5)
    r = v - n * 0.6931471805599453
    p = (((((_E9 * r + _E8) * r + _E7) * r + _E6) * r + _E5) * r + _E4) * r + _E3
    p = ((p * r + _E2) * r + _E1) * r + _E0
    return (1.0 + (r + r * r * p)) * _reinterpret(_reinterpret(n + 4503599627371519.0) << np.int64(52))


@register_jitable
def _exponential_32(x):
    v = min(max(x, _LOWEST), _HIGHEST)
    n = np.floor(v * _LOG2E + _HALF)
    r = v - n * _LN2
    p = (((_F4 * r + _F3) * r + _F2) * r + _F1) * r + _F0
    return (_ONE + (r + r * r * p)) * _reinterpret(np.int32(_reinterpret(n + _EXPONENT) << np.int32(23)))


@register_jitable
def _angle_64(c, s):
    a = abs(c)
    acute = _arcsine_64(min(a, s))
    acute = acute if a > s else 1.5707963267948966 - acute
    return acute if c > 0.0 else 3.141592653589793 - acute


@register_jitable
def _angle_32(c, s):
    a = abs(c)
    acute = _arcsine_32(min(a, s))
    acute = acute if a > s else _HALF_PI - acute
    return acute if c > np.float32(0) else _PI - acute


def inverse_root(x):
    """1 / sqrt(max(x, 1e-30))."""
    return _inverse_root_64(x)


def arcsine(m):
    """asin(m) for 0 <= m <= sqrt(1/2)."""
    return _arcsine_64(m)


def exponential(x):
    """e**x; x is clamped to the range of finite normal results."""
    return _exponential_64(x)


def angle(c, s):
    """The angle in [0, pi] of cosine c and sine s."""
    return _angle_64(c, s)


@overload(inverse_root)
def _inverse_root(x):
    return _inverse_root_32 if x == types.float32 else _inverse_root_64


@overload(arcsine)
def _arcsine(m):
    return _arcsine_32 if m == types.float32 else _arcsine_64


@overload(exponential)
def _exponential(x):
    return _exponential_32 if x == types.float32 else _exponential_64


@overload(angle)
def _angle(c, s):
    return _angle_32 if c == types.float32 else _angle_64
