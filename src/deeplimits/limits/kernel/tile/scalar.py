"""Elementary functions of one number, written so that compiled loops over them vectorise.

A call into libm stops vectorisation, and the hardware's square root and division are slow: polynomials and Newton
steps from a float32 estimate take their place. Each function has a float64 and a float32 body, chosen by type.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic, overload

_ONE, _ZERO, _HALF, _TINY = np.float32(1), np.float32(0), np.float32(0.5), np.float32(1e-30)
_PI, _QUARTER, _ROOT_HALF = np.float32(np.pi), np.float32(np.pi / 4), np.float32(np.sqrt(0.5))

# asin(m) = m + m z P(z), z = m**2 in [0, 1/2]; error 5e-17 (float64), 6e-9 (float32).
_ASIN_64 = (
    *(0.1666666666666666, 0.07500000000008983, 0.04464285712358516, 0.030381946078023858, 0.022372086303686842),
    *(0.017354730668996843, 0.013929824301362788, 0.011985559032731258, 0.0058919623838489124, 0.033823977477227554),
    *(-0.1174784139555458, 0.46581061083892006, -1.258681300394588, 2.573508064401593, -3.7415993002001366),
    *(3.7316474816315224, -2.277990489441633, 0.6629475548369097),
)
_ASIN_32 = (
    *(0.16666665678232892, 0.07500252163633334, 0.044538813973175724, 0.03199023922716213),
    *(0.010435325974988746, 0.06379697638268081, -0.07972071595315332, 0.09469734959597223),
)
_A, _a = _ASIN_64, tuple(np.float32(c) for c in _ASIN_32)
# asin(d sqrt(1/2)) = d (sqrt(1/2) + y Q(y)), y = d**2
_Q = tuple(c * np.sqrt(0.5) / 2 ** (n + 1) for n, c in enumerate(_ASIN_64))
_q = tuple(np.float32(c * np.sqrt(0.5) / 2 ** (n + 1)) for n, c in enumerate(_ASIN_32))

# exp(r) = 1 + r + r**2 E(r), |r| <= log(2)/2; error 1e-17 (float64), 8e-9 (float32).
_E = (
    *(0.5000000000000001, 0.16666666666666669, 0.041666666666624164, 0.008333333333330065, 0.0013888888917196719),
    *(0.00019841269863040545, 2.4801521322368692e-05, 2.7557268480310024e-06, 2.7620075879983367e-07),
    2.5100375832561234e-08,
)
_e = tuple(
    np.float32(c) for c in (0.5, 0.1666657702559799, 0.041666554662050534, 0.008363173074513711, 0.001392617611993558)
)
_LOG2E, _LN2 = np.float32(1.4426950408889634), np.float32(0.6931471805599453)
_LOWEST, _HIGHEST, _EXPONENT = np.float32(-87), np.float32(88), np.float32(2.0**23 + 127)


@intrinsic
def vectorise(context):
    """Let the compiler use the machine's widest vectors in this function (it stays at 256 bits otherwise).

    Also promises that no two arrays or pointers given to the function overlap, unless both are only read.
    """

    def generate(target, builder, signature, arguments):
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        for argument in builder.function.args:
            if argument.type.is_pointer:
                argument.add_attribute("noalias")
        return target.get_dummy_value()

    return types.void(), generate


@intrinsic
def _reinterpret(context, value):
    """The same bits as a float of the same size (of an integer) or as an integer (of a float)."""
    wide, narrow = {types.float64: types.int64, types.int64: types.float64}, {types.float32: types.int32}
    result = (wide | narrow | {types.int32: types.float32})[value]

    def generate(target, builder, signature, arguments):
        return builder.bitcast(arguments[0], target.get_value_type(result))

    return result(value), generate


def _inverse_root_64(x):
    v = max(x, 1e-30)
    y = np.float64(_ONE / np.sqrt(np.float32(v)))
    e = 1.0 - v * y * y
    return y + y * e * (0.5 + 0.375 * e)


def _inverse_root_32(x):
    return _ONE / np.sqrt(max(x, _TINY))


def _angle_64(c, s):
    d = s - abs(c)
    y = d * d
    v = y * y
    even = (((_Q[16] * v + _Q[14]) * v + _Q[12]) * v + _Q[10]) * v + _Q[8]
    even = (((even * v + _Q[6]) * v + _Q[4]) * v + _Q[2]) * v + _Q[0]
    odd = (((_Q[17] * v + _Q[15]) * v + _Q[13]) * v + _Q[11]) * v + _Q[9]
    odd = (((odd * v + _Q[7]) * v + _Q[5]) * v + _Q[3]) * v + _Q[1]
    acute = 0.7853981633974483 + d * (0.7071067811865476 + y * (even + y * odd))
    return acute if c > 0.0 else 3.141592653589793 - acute


def _angle_32(c, s):
    d = s - abs(c)
    y = d * d
    v = y * y
    even = ((_q[6] * v + _q[4]) * v + _q[2]) * v + _q[0]
    odd = ((_q[7] * v + _q[5]) * v + _q[3]) * v + _q[1]
    acute = _QUARTER + d * (_ROOT_HALF + y * (even + y * odd))
    return acute if c > _ZERO else _PI - acute


def _arcsine_64(c, s):
    m = min(abs(c), s)
    z = m * m
    v = z * z
    even = (((_A[16] * v + _A[14]) * v + _A[12]) * v + _A[10]) * v + _A[8]
    even = (((even * v + _A[6]) * v + _A[4]) * v + _A[2]) * v + _A[0]
    odd = (((_A[17] * v + _A[15]) * v + _A[13]) * v + _A[11]) * v + _A[9]
    odd = (((odd * v + _A[7]) * v + _A[5]) * v + _A[3]) * v + _A[1]
    small = m + m * (z * (even + z * odd))
    acute = small if abs(c) <= s else 1.5707963267948966 - small
    return acute if c > 0.0 else -acute


def _arcsine_32(c, s):
    m = min(abs(c), s)
    z = m * m
    v = z * z
    even = ((_a[6] * v + _a[4]) * v + _a[2]) * v + _a[0]
    odd = ((_a[7] * v + _a[5]) * v + _a[3]) * v + _a[1]
    small = m + m * (z * (even + z * odd))
    acute = small if abs(c) <= s else _QUARTER + _QUARTER - small
    return acute if c > _ZERO else -acute


def _exponential_64(x):
    v = min(max(x, -708.0), 709.0)
    n = np.floor(v * 1.4426950408889634 + 0.5)
    r = v - n * 0.6931471805599453
    p = (((((_E[9] * r + _E[8]) * r + _E[7]) * r + _E[6]) * r + _E[5]) * r + _E[4]) * r + _E[3]
    p = ((p * r + _E[2]) * r + _E[1]) * r + _E[0]
    return (1.0 + (r + r * r * p)) * _reinterpret(_reinterpret(n + 4503599627371519.0) << np.int64(52))


def _exponential_32(x):
    v = min(max(x, _LOWEST), _HIGHEST)
    n = np.floor(v * _LOG2E + _HALF)
    r = v - n * _LN2
    p = (((_e[4] * r + _e[3]) * r + _e[2]) * r + _e[1]) * r + _e[0]
    return (_ONE + (r + r * r * p)) * _reinterpret(np.int32(_reinterpret(n + _EXPONENT) << np.int32(23)))


def inverse_root(x):
    """1 / sqrt(max(x, 1e-30))."""
    return _inverse_root_64(x)


def angle(c, s):
    """The angle in [0, pi] of cosine c and sine s, from asin((s - |c|) sqrt(1/2))."""
    return _angle_64(c, s)


def arcsine(c, s):
    """asin(c) given the cosine sqrt(1 - c**2) of the result, as accurate as c however small c is."""
    return _arcsine_64(c, s)


def exponential(x):
    """e**x; x is clamped to the range of finite normal results."""
    return _exponential_64(x)


@overload(inverse_root, inline="always")
def _inverse_root(x):
    return _inverse_root_32 if x == types.float32 else _inverse_root_64


@overload(angle, inline="always")
def _angle(c, s):
    return _angle_32 if c == types.float32 else _angle_64


@overload(arcsine, inline="always")
def _arcsine(c, s):
    return _arcsine_32 if c == types.float32 else _arcsine_64


@overload(exponential, inline="always")
def _exponential(x):
    return _exponential_32 if x == types.float32 else _exponential_64


def like(x, value):
    """The value as a number of x's type."""
    return type(x)(value)


@overload(like, inline="always")
def _like(x, value):
    if x == types.float32:
        return lambda x, value: np.float32(value)
    return lambda x, value: value
