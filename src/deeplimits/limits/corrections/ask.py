"""The front of the corrections: a description and inputs in, kernels with their first order in 1/width out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.architecture import activation as act
from deeplimits.architecture.dense import Gaussian, Orthogonal
from deeplimits.architecture.layer import Layer, as_float
from deeplimits.architecture.scale import alpha
from deeplimits.architecture.zoo import Mlp, ResNet
from deeplimits.errors import AccuracyWarning, DescriptionError, InputError, NoLimit, NoRule, PrecisionError
from deeplimits.limits.corrections.layer import DenseLayer
from deeplimits.limits.corrections.pair import PairState, pair
from deeplimits.limits.corrections.record import CorrectedKernel
from deeplimits.limits.corrections.residual import residual
from deeplimits.limits.corrections.single import SingleState, single
from deeplimits.limits.kernel.activation import family
from deeplimits.limits.kernel.record import Kernel
from deeplimits.numerics.arrays import check, check_memory, is_tensor
from deeplimits.progress import Bar

Array = NDArray[np.float64]
WHERE = "kernel(corrections=True)"
GOOD = 1e-6
SMALLEST = 1e-140
BLOCK = 2048  # pairs at a time
NUMBERS = 6000  # doubles a pair of one block needs
SMALLER = "ask for blocks of rows with kernel(net, X[a:b], X, corrections=True), or for fewer rows"


@dataclass(frozen=True, eq=False)
class Rows:
    """Distinct inputs and the pairs of them that are asked for.

    Attributes:
        x: distinct rows, shape (U, d).
        first, second: pairs of different rows, shape (M,).
        place: for every entry of the result, where it stands in (U single rows, M pairs), shape (N, M).
    """

    x: Array
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    place: NDArray[np.intp]

    @property
    def pairs(self) -> str:
        """Two different rows of the result, in words."""
        return f"{self.x[self.first[0]][:4].round(4).tolist()} and {self.x[self.second[0]][:4].round(4).tolist()}"


def corrected(
    net: Layer, X1: Any, X2: Any, depth: Any, get: Any, parametrization: str, widths: Any,
    hyper: Mapping[str, Any] | None, dtype: Any, corrections: Any = True,
) -> CorrectedKernel:  # fmt: skip
    """Return kernels with their corrections; the arguments are those of `dl.kernel`.

    Valid when: every hidden layer has the same width n; a perceptron with Gaussian or orthogonal weights, or (NNGP at
        single inputs) a residual network of one-layer branches with Gaussian weights.

    Raises:
        NoRule: another network, or the NTK of a residual one.
        NoLimit: infinite depth.
        DescriptionError: another law of weights or parametrization; hyperparameters that are tensors.
        InputError: a row of zeros that the network maps to zero.

    Source: guillen-2025-feynman-ntk; day-2023-orthogonal-weights.
    """
    from deeplimits.limits.kernel.ask import kernel

    if corrections is not True:
        raise DescriptionError("kernel", f"corrections={corrections!r}", "give True or False")
    if isinstance(net, Layer) and hyper:
        net = net.replace(hyper)
    kinds = (get,) if isinstance(get, str) else get
    _refuse(net, depth, parametrization)
    limit = kernel(net, X1, X2, depth, kinds, parametrization, widths, dtype=dtype)
    depth = 1 if depth is None else int(depth)
    assert isinstance(net, Mlp | ResNet)
    if isinstance(net, ResNet) and tuple(kinds) != ("nngp",):
        why = "corrections of the NTK of residual networks are not known here: gradients share the forward clock"
        raise NoRule(WHERE, why, "ask for get='nngp'; dl.sample(..., get='ntk') measures the NTK")
    rows = _rows(*check(WHERE, X1, X2, dtype).numpy())
    found = _residual(net, depth, rows) if isinstance(net, ResNet) else _perceptron(net, depth, rows)
    return _record(limit, found, rows, net)


@dataclass(frozen=True, eq=False)
class Found:
    """n times shifts and variances of single rows followed by pairs, shape (U + M,) each."""

    nngp_shift: Array
    ntk_shift: Array
    nngp_variance: Array
    ntk_variance: Array
    fluctuation: float
    ntk_fluctuation: float = 0.0


def layers(mlp: Mlp, depth: int) -> list[DenseLayer]:
    """Return the dense layers of a perceptron, the readout last.

    Example:
        >>> [layer.weight for layer in layers(Mlp("tanh", readout_std=2.0), 2)]
        [1.0, 1.0, 4.0]
    """
    weight, bias, readout, level = (as_float(getattr(mlp, name)) ** 2 for name in Mlp.tunable)
    hidden = DenseLayer(weight, bias, isinstance(mlp.weights, Orthogonal))
    return [hidden] * depth + [DenseLayer(readout, level)]


def _perceptron(mlp: Mlp, depth: int, rows: Rows) -> Found:
    phi, dense = family(mlp.activation), layers(mlp, depth)
    gram = np.einsum("nd,nd->n", rows.x, rows.x) / rows.x.shape[1]
    _refuse_zero(dense[0], gram, "bias_std")
    with np.errstate(all="ignore"):
        states = single(phi, dense, gram)
    _refuse_range(np.stack([state.k for state in states]))
    own, blocks, error = states[-1], [], states[-1].error
    with Bar(len(rows.first) or 1, len(rows.first) > BLOCK, "pairs") as bar:
        for start in range(0, len(rows.first), BLOCK):
            first, second = rows.first[start : start + BLOCK], rows.second[start : start + BLOCK]
            both = np.einsum("md,md->m", rows.x[first], rows.x[second]) / rows.x.shape[1]
            state = pair(phi, dense, np.stack([gram[first], gram[second], both], axis=1))
            blocks.append(_entries(state))
            error = max(error, state.error)
            bar.advance("pairs", len(first))
    _warn(mlp.activation, error)
    singles = np.stack([own.k_shift, own.h_shift, own.v, own.h_variance])
    every = np.concatenate([singles, *blocks], axis=1)
    ntk = float(np.max(own.h_variance / np.where(own.h > 0, own.h, np.inf) ** 2))
    return Found(every[0], every[1], every[2], every[3], _fluctuation(states), ntk)


def _residual(net: ResNet, depth: int, rows: Rows) -> Found:
    if len(rows.first):
        why = f"corrections of residual networks are known here between an input and itself, not between {rows.pairs}"
        raise NoRule(WHERE, why, "give one row at a time; dl.sample measures pairs")
    weight, bias, readin, level, readout = (as_float(getattr(net, name)) ** 2 for name in ResNet.tunable[:5])
    first, branch = DenseLayer(readin, level), DenseLayer(weight, bias)
    gram = np.einsum("nd,nd->n", rows.x, rows.x) / rows.x.shape[1]
    _refuse_zero(first, gram, "readin_bias_std")
    alphas = [as_float(alpha(net.scale, index, depth, depth)) for index in range(1, depth + 1)]
    with np.errstate(all="ignore"):
        state = residual(family(net.activation), branch, alphas, float(first.weight * gram[0] + first.bias))
    _refuse_range(state.k)
    _warn(net.activation, state.error)
    plain = net.final_activation is None
    shift = state.k_shift[-1] if plain else state.s_shift[-1]
    variance = state.k_variance[-1] if plain else state.s_variance[-1]
    none = np.zeros(1)
    return Found(
        np.array([readout * shift]),
        none,
        np.array([readout**2 * variance]),
        none,
        float(max(state.k_variance / state.k**2)),
    )


def _refuse_zero(layer: DenseLayer, gram: Array, name: str) -> None:
    zero = np.flatnonzero(layer.weight * gram + layer.bias == 0)
    if zero.size:
        why = f"the first layer's variance is 0 at {'a row of zeros' if gram[zero[0]] == 0 else 'every row'}"
        raise InputError(WHERE, why, f"drop such rows, or give the network biases ({name}=0.1)")


def _refuse_range(k: Array) -> None:
    """Refuse variances whose squares, which the corrections need, leave float64; exact zeros stay."""
    bad = ~((k == 0) | ((k > SMALLEST) & (k < 1 / SMALLEST)))
    if bad.any():
        why = f"a layer's variance is {k[bad].flat[0]:.3g}; its square leaves the range of float64"
        raise PrecisionError(WHERE, why, "scale the inputs, or use another weight_std or a smaller depth")


def _warn(activation: act.Activation, error: float) -> None:
    if error > GOOD:
        text = f"{WHERE}: the Hermite series of {type(activation).__name__} is good to {error:.1e}"
        fix = "; functions with kinks, and large inputs, converge slowly: scale the inputs or use a closed form"
        warnings.warn(text + fix, AccuracyWarning, stacklevel=5)


def _entries(state: PairState) -> Array:
    return np.stack([state.k_shift[:, 2], state.h_shift[:, 2], state.v[:, 2, 2], state.h_variance[:, 2]])


def _fluctuation(states: list[SingleState]) -> float:
    return max(float(np.max(np.abs(state.v) / np.where(state.k > 0, state.k, 1.0) ** 2)) for state in states)


def _rows(x1: Array, x2: Array | None) -> Rows:
    """Gather the distinct rows; the NTK of equal rows is that of one row."""
    both = x1 if x2 is None else np.concatenate([x1, x2])
    x, index = np.unique(both.astype(np.float64), axis=0, return_inverse=True)
    index = index.ravel()
    left, right = index[: len(x1)], index[0 if x2 is None else len(x1) :]
    low, high = np.minimum.outer(left, right), np.maximum.outer(left, right)
    codes, back = np.unique(low * len(x) + high, return_inverse=True)
    first, second = codes // len(x), codes % len(x)
    different = first != second
    check_memory(WHERE, 8 * NUMBERS * min(BLOCK, int(different.sum())), "a block of pairs", SMALLER)
    place = np.where(different, len(x) + np.cumsum(different) - 1, first)
    return Rows(x, first[different], second[different], place[back.reshape(low.shape)])


def _record(limit: Kernel, found: Found, rows: Rows, net: Mlp | ResNet) -> CorrectedKernel:
    def arranged(values: Array, like: Any) -> Any:
        if like is None:
            return None
        full = values[rows.place]
        if is_tensor(like):
            import torch

            return torch.from_numpy(full).to(like)
        return full.astype(like.dtype)

    least = rows.x.shape[1] if isinstance(net.weights, Orthogonal) else 1
    return CorrectedKernel(
        limit.nngp, limit.ntk, limit.description,
        arranged(found.nngp_shift, limit.nngp), arranged(found.ntk_shift, limit.ntk),
        arranged(found.nngp_variance, limit.nngp), arranged(found.ntk_variance, limit.ntk),
        found.fluctuation, 0.0 if limit.ntk is None else found.ntk_fluctuation, least,
    )  # fmt: skip


def _refuse(net: Any, depth: Any, parametrization: str) -> None:
    if not isinstance(net, Layer):
        return  # `kernel` refuses it
    kind = type(net).__name__
    if not isinstance(net, Mlp | ResNet):
        fix = "use dl.Mlp, or dl.ResNet with one-layer branches (get='nngp'); dl.sample measures any network"
        raise NoRule(WHERE, f"corrections in 1/width of {kind} are not known here", fix)
    if depth == inf:
        why = "corrections in 1/width hold at a finite depth; at infinite depth the ratio depth/width decides"
        raise NoLimit(WHERE, why, "give a whole number; dl.proportional and dl.diffusion answer for infinite depth")
    if parametrization != "ntk":
        why = f"parametrization={parametrization!r}: learning rates that depend on the width change the order in 1/n"
        raise DescriptionError(WHERE, why, "leave parametrization out")
    if any(is_tensor(value) for value in net.hyperparameters().values()):
        raise DescriptionError(WHERE, "hyperparameters are tensors, and corrections have no gradient", "give numbers")
    _refuse_residual(net)
    laws = Gaussian | Orthogonal if isinstance(net, Mlp) else Gaussian
    if not isinstance(net.weights, laws):
        why = f"weights={net.weights!r} fluctuate otherwise at order 1/width"
        raise DescriptionError(WHERE, why, "leave weights out (Gaussian), or use dl.layer.Orthogonal() in dl.Mlp")
    if isinstance(net.activation, act.ShapedRelu):
        why = "ShapedRelu depends on the width, and so do its corrections, at order 1/sqrt(n)"
        raise DescriptionError(WHERE, why, "give the activation of one width: dl.act.ShapedRelu(...).at(width=n)")


def _refuse_residual(net: Mlp | ResNet) -> None:
    if not isinstance(net, ResNet):
        return
    if net.branch_layers != 1:
        why = f"branch_layers={net.branch_layers}: corrections are known here for one dense layer a branch"
        raise NoRule(WHERE, why, "leave branch_layers out; dl.sample measures the others")
    if net.final_activation not in (None, net.activation):
        why = f"final_activation={net.final_activation!r} differs from the branches' activation {net.activation!r}"
        raise NoRule(WHERE, why, "leave it out or give the same")
