"""What data do to the features of a Bayesian network of finite width: the leading order in 1/width."""

from __future__ import annotations

import warnings
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from deeplimits.architecture.activation import Identity, ShapedRelu
from deeplimits.architecture.dense import Gaussian
from deeplimits.architecture.layer import Layer, as_float
from deeplimits.architecture.size import whole
from deeplimits.architecture.zoo import Mlp
from deeplimits.errors import AccuracyWarning, DescriptionError, InputError, PrecisionError
from deeplimits.limits.corrections.posterior_prior import mean_shift
from deeplimits.limits.corrections.posterior_record import PosteriorKernel, Width, check_widths
from deeplimits.limits.corrections.posterior_recursion import covariances, prior
from deeplimits.limits.kernel.activation import family
from deeplimits.numerics.arrays import check, check_memory, is_tensor
from deeplimits.numerics.seeds import generator

Array = NDArray[np.float64]
WHERE = "posterior_kernel"
SAMPLES = 2**18
ACCURACY = 1e-6
COARSE = 0.05  # of the largest change: a larger error of the four-point moments is told
SMALLER = "give fewer rows, a smaller depth, or ask for parts of the rows"


def posterior_kernel(
    net: Layer,
    X: Any,
    y: Any,
    depth: int = 1,
    width: Width = 100,
    noise: float = 0.1,
    samples: int = SAMPLES,
    seed: int = 0,
) -> PosteriorKernel:
    """Return the mean feature kernels of a Bayesian perceptron given data, to leading order in 1/width.

    With K the kernel of the last hidden layer, G = readout_std^2 K + readout_bias_std^2 + noise and C outputs,

    <K^l>_posterior = <K^l>_prior + (readout_std^2 / 2) sum_ij Cov(K^l, K_ij) [G^-1 Y Y^T G^-1 - C G^-1]_ij + O(1/n^2).

    Linear networks without biases: with A = G^-1, the change is (sum over m <= l of 1/n_m) (K A Y Y^T A K - C K A K).
    Nonlinear ones: four-point moments, contracted with the bracket before they are formed.

    Args:
        net: a `dl.Mlp`; all its standard deviations count.
        X: inputs, shape (P, d); numpy or torch.
        y: targets, shape (P,) or (P, C).
        depth: number of hidden layers L.
        width: of every hidden layer, or one a layer; infinity is allowed.
        noise: variance of the Gaussian noise in the targets.
        samples: quasi-random points of the four-point moments, used where neither a closed form nor a quadrature holds.
        seed: of these points.

    Returns:
        A record: `limit`, `prior`, `shift`, `kernels`, `at(width)`, `strength(width)`; `dl.plot` draws it.

    Valid when: `strength(width)` is well below 1; Gaussian weights. The prior is over all weights and biases: variances
        are those of the description, a weight's divided by the number of inputs of its layer.

    Raises:
        DescriptionError: another network, or other weights than Gaussian ones.
        InputError: data, widths or a noise that cannot be used; equal rows without noise; in deep nonlinear networks, a
            row whose first layer is zero.
        PrecisionError: kernel plus noise is singular in float64.

    Source: zavatone-veth-2021-finite-bnn.

    Example:
        >>> net = Mlp("identity")
        >>> found = posterior_kernel(net, [[2.0]], [3.0], width=100, noise=0.0)
        >>> float(found.limit[0, 0, 0]), round(float(found.at(100)[0, 0, 0]), 12)
        (4.0, 4.05)
    """
    depth = whole(WHERE, "depth", depth)
    mlp = _checked(net)
    x = check(WHERE, X).numpy()[0].astype(np.float64)
    check_memory(WHERE, 8 * len(x) ** 2 * (3 * depth**2 + 8 * depth), f"kernels of {len(x)} rows", SMALLER)
    targets, widths, noise = _targets(y, len(x)), check_widths(width, depth), _noise(noise)
    samples = whole(WHERE, "samples", samples)
    generator(seed, "checked")
    weight, bias, readout, level = (as_float(getattr(mlp, name)) ** 2 for name in Mlp.tunable)
    gram = _gram(x)
    given = prior(family(mlp.activation), weight, bias, gram, depth)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        covariance = readout * given.kernels[-1] + level
        weights = readout * bracket(covariance, targets, noise, x)
        shift, error, moments = covariances(given, weights, samples, seed)
        evidence = np.einsum("ij,mij->m", weights, shift[-1])
    if not np.isfinite(shift).all() or not np.isfinite(evidence).all():
        fix = "scale the targets to a variance near the kernel's diagonal, or give a larger noise"
        raise PrecisionError(WHERE, f"targets as large as {np.abs(targets).max():.2g} leave the range of float64", fix)
    before, doubt = np.zeros_like(shift), max(float(given.family.error(k.diagonal())) for k in given.inner)
    if depth > 1 and not isinstance(mlp.activation, Identity):
        before, least = mean_shift(WHERE, given.family, weight, bias, gram, depth)
        doubt = max(doubt, least)
    _warn(mlp, doubt, float(error.max()), float(np.abs(shift).max()))
    return PosteriorKernel(
        limit=np.stack(given.kernels),
        prior=before,
        shift=shift,
        error=error,
        evidence=evidence,
        widths=widths,
        noise=noise,
        methods=tuple(moment.method for moment in moments),
    )


def _gram(x: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        gram = x @ x.T / x.shape[1]
    own = gram.diagonal()
    bad = np.flatnonzero(~np.isfinite(own) | ((own == 0) & x.any(axis=1)))
    if bad.size or not np.isfinite(gram).all():
        row = int(bad[0]) if bad.size else 0
        why = f"|x|^2/d leaves the range of float64 at row {row}, whose largest entry is {np.abs(x[row]).max():.2g}"
        raise PrecisionError(WHERE, why, "scale the inputs to |x|^2/d near 1")
    return gram


def _warn(mlp: Mlp, series: float, error: float, size: float) -> None:
    name = type(mlp.activation).__name__
    if series > ACCURACY:
        text = f"{WHERE}: the Hermite series of {name} is good to {series:.1e}"
        warnings.warn(f"{text}; functions with jumps, and large inputs, converge slowly", AccuracyWarning, stacklevel=3)
    if error > COARSE * size:
        text = (
            f"{WHERE}: four-point moments of {name} are good to {error:.1e}, the largest change a width is {size:.1e}"
        )
        warnings.warn(f"{text}; raise samples, or scale the inputs down", AccuracyWarning, stacklevel=3)


def bracket(covariance: Array, targets: Array, noise: float, rows: Array) -> Array:
    """Return B with d log N(Y; 0, A) = sum B_ij dA_ij at A = covariance + noise: (A^-1 Y Y^T A^-1 - C A^-1) / 2.

    Args:
        covariance: of one output at the rows, shape (P, P).
        targets: shape (P, C).
        noise: variance.
        rows: inputs, shape (P, d), for the words of errors.

    Raises:
        InputError: no noise, and rows that the network cannot tell apart.
        PrecisionError: A is singular in float64.

    Source: rasmussen-williams-2006, section 5.4.1.

    Example:
        >>> bracket(np.eye(1), np.array([[3.0]]), 3.0, np.eye(1)).tolist()
        [[0.15625]]
    """
    matrix = covariance + noise * np.eye(len(covariance))
    try:
        if np.linalg.cond(matrix) > 1 / (len(matrix) * np.finfo(float).eps):
            raise LinAlgError
        factor = cho_factor(matrix)
    except LinAlgError:
        raise _singular(matrix, rows, noise) from None
    answer = cho_solve(factor, targets)
    return 0.5 * (answer @ answer.T - targets.shape[1] * cho_solve(factor, np.eye(len(matrix))))


def _singular(matrix: Array, rows: Array, noise: float) -> Exception:
    from deeplimits.limits.training.lazy.singular import refuse_coincident

    fix = "give a larger noise, drop such rows, or give the network biases (bias_std=0.1)"
    try:
        refuse_coincident(WHERE, matrix, rows)
    except InputError as error:
        return InputError(WHERE, error.why, fix)
    values = np.linalg.eigvalsh(matrix)
    size = f"eigenvalues from {values[0]:.2g} to {values[-1]:.2g}"
    why = f"kernel + noise of {len(matrix)} rows, noise={noise:g}, is singular in float64: {size}"
    return PrecisionError(WHERE, why, fix)


def _checked(net: Any) -> Mlp:
    if not isinstance(net, Mlp):
        why = f"{type(net).__name__}: the posterior of finite width is known here for perceptrons"
        raise DescriptionError(
            WHERE, why, "use dl.Mlp; for other networks dl.learn.DeepKernelMachineRegressor learns features"
        )
    if not isinstance(net.weights, Gaussian):
        why = f"weights={net.weights!r} fluctuate otherwise at order 1/width"
        raise DescriptionError(WHERE, why, "leave weights out: Gaussian")
    if net.outputs != 1:
        why = f"outputs={net.outputs}: the number of outputs is that of the columns of y"
        raise DescriptionError(WHERE, why, "leave outputs out")
    if isinstance(net.activation, ShapedRelu):
        why = "ShapedRelu depends on the width, and so do its kernels, at order 1/sqrt(n)"
        raise DescriptionError(WHERE, why, "give the activation of one width: dl.act.ShapedRelu(...).at(width=n)")
    return net


def _noise(noise: Any) -> float:
    if isinstance(noise, bool) or not isinstance(noise, Real) or not isfinite(noise) or float(noise) < 0:
        raise InputError(WHERE, f"noise={noise!r} is not a variance", "give a number >= 0, e.g. noise=0.1")
    return float(noise)


def _targets(y: Any, rows: int) -> Array:
    """Return y as float64, shape (P, C)."""
    try:
        values = np.asarray(y.detach().cpu() if is_tensor(y) else y)
        if values.dtype.kind not in "fiub":
            raise TypeError
    except (TypeError, ValueError):
        raise InputError(WHERE, f"y is not an array of numbers: {y!r:.60}", "give one number an input") from None
    values = values.astype(np.float64)
    if values.ndim not in (1, 2) or len(values) != rows or 0 in values.shape:
        fix = f"give shape ({rows},), or ({rows}, C) for C outputs"
        raise InputError(WHERE, f"y has shape {values.shape} for {rows} rows of X", fix)
    if not np.isfinite(values).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise InputError(WHERE, f"y has {values[place]} at row {place[0]}", "drop or impute that row")
    return values.reshape(rows, -1)
