"""The front of the kernel question: arrays in, arrays out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from deeplimits.architecture.controlled import ControlledResNet
from deeplimits.architecture.layer import Layer
from deeplimits.architecture.question import Question
from deeplimits.architecture.size import whole
from deeplimits.errors import AccuracyWarning, DescriptionError, InputError, NoLimit, PrecisionError, nearest
from deeplimits.limits.flow.describe import Description, summarise
from deeplimits.limits.kernel import diagonal
from deeplimits.limits.kernel.increment import Block
from deeplimits.limits.kernel.lowering import lower
from deeplimits.limits.kernel.record import Kernel
from deeplimits.limits.kernel.tape import Dual, Tape
from deeplimits.numerics.arrays import Inputs, check, check_memory, is_tensor, squares
from deeplimits.numerics.gaussian.expansion import Expansion

KINDS = ("nngp", "ntk")
ACCURACY = 1e-8
ROUNDING = 1e-6  # normalised inputs share one norm
SMALLER = (
    "use dtype='float32' (half the bytes), ask for one kernel only (get='nngp'), "
    "or compute blocks of rows with kernel(net, X[a:b], X, ...)"
)


def kernel(
    net: Layer,
    X1: Any,
    X2: Any = None,
    depth: float | None = None,
    get: str | tuple[str, ...] = KINDS,
    parametrization: str = "ntk",
    widths: Any = None,
    hyper: Mapping[str, Any] | None = None,
    dtype: Any = None,
    corrections: bool = False,
) -> Any:
    """Return the NNGP kernel and the NTK of a network at infinite width, at a finite or infinite depth.

    Args:
        net: the description.
        X1: inputs, shape (N, d); numpy or torch. Paths, for a ControlledResNet.
        X2: further inputs, shape (M, d), or None for X1 against itself.
        depth: what DEPTH stands for: a whole number or infinity (the default of a ControlledResNet).
        get: "nngp", "ntk" (the bare array comes back), or both (a Kernel).
        parametrization: "ntk", or "standard" (each layer's NTK term is multiplied by its number of inputs).
        widths: widths of the layers of open width, for the standard parametrization.
        hyper: {path: value} of hyperparameters (`net.hyperparameters()`); tensors are differentiated through.
        dtype: of the result; by default that of the inputs (integers: float64; half precision is computed in float32).
        corrections: give the first order in 1/width as well: means and variances over networks, and where they hold.

    Returns:
        Kernel with arrays of shape (N, M), or one array; with corrections a CorrectedKernel.

    Valid when: widths go to infinity first; weights Gaussian or pseudo-iid; every layer trained (NTK).

    Raises:
        InputError: data or sizes that cannot be used.
        NoLimit: the limit is infinite or does not exist; the message gives the rate.
        NoRule: a layer has no kernel.
        MemoryNeeded: the result does not fit.

    Source: lee-2018-deep; jacot-2018-ntk; hayou-yang-2023-commute (depth infinity).

    Example:
        >>> from math import inf
        >>> from deeplimits.architecture.zoo import ResNet
        >>> k = kernel(ResNet("relu"), np.ones((1, 4)), depth=inf)
        >>> round(float(k.nngp[0, 0]), 6), round(float(k.ntk[0, 0]), 6)
        (1.648721, 4.121803)
    """
    kinds = _kinds(get)
    if corrections is not False:
        from deeplimits.limits.corrections import ask

        return ask.corrected(net, X1, X2, depth, get, parametrization, widths, hyper, dtype, corrections)
    if isinstance(net, ControlledResNet):
        from deeplimits.limits.controlled import ask

        return ask.kernel(net, X1, X2, depth, get, hyper, dtype)
    depth = _depth(net, depth)
    if widths is not None and parametrization == "ntk":
        fix = "pass parametrization='standard' as well, or leave widths out"
        raise DescriptionError("kernel", f"widths={widths!r} has no effect in the ntk parametrization", fix)
    inputs = check("kernel", X1, X2, dtype)
    rows, columns = inputs.shape
    needed = rows * columns * len(kinds) * inputs.dtype.itemsize
    check_memory("kernel", needed, f"a {rows} x {columns} result", SMALLER)
    if hyper:
        net = net.replace(hyper)
    probe = _probe(inputs)
    tape, limits = _lowered(net, depth, inputs.features, parametrization, widths, probe)
    description = summarise(depth, list(limits))
    _refuse(description, kinds)
    _warn(tape, probe, description)
    _vanishing(tape, probe, kinds, inputs.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        result = _evaluate(tape, inputs, kinds)
    for kind, value in zip(kinds, result, strict=True):
        _finite(kind, value, inputs.dtype)
    if inputs.half is not None:
        result = [_rounded(kind, value, inputs.half) for kind, value in zip(kinds, result, strict=True)]
    if isinstance(get, str):
        return result[0]
    found = dict(zip(kinds, result, strict=True))
    return Kernel(found.get("nngp"), found.get("ntk"), description)


def variances(net: Layer, X: Any, depth: float | None = None, get: str = "nngp") -> np.ndarray:
    """Return the diagonal of a kernel, K(x, x) for every row x, without the matrix.

    Args:
        net: the description.
        X: inputs, shape (N, d); numpy or torch.
        depth: what DEPTH stands for: a whole number or infinity.
        get: "nngp" or "ntk".

    Returns:
        shape (N,), float64.

    Valid when: as for `kernel`.

    Raises:
        InputError: data or sizes that cannot be used.
        NoLimit: the limit is infinite or does not exist.

    Source: definition (the recursion of `kernel` at x' = x).

    Example:
        >>> from deeplimits.architecture.zoo import Mlp
        >>> variances(Mlp("relu"), np.ones((2, 4)), depth=3, get="ntk").round(12)
        array([4., 4.])
    """
    (kind,) = _kinds(get)
    if isinstance(net, ControlledResNet) and kind == "nngp":
        from deeplimits.limits.controlled import ask

        return ask.variances(net, X, depth)
    inputs = check("kernel", X, None, np.float64)
    tape, description = tape_of(net, inputs, depth)
    _refuse(description, (kind,))
    found = diagonal.run(tape, squares(inputs.numpy()[0]))
    value = found.k if kind == "nngp" else found.theta
    _finite(kind, value, inputs.dtype)
    return value


def tape_of(net: Layer, inputs: Inputs, depth: float | None = None) -> tuple[Tape, Description]:
    """Return the steps of a network (ntk parametrization), and which limit they take.

    Args:
        net: the description; its hyperparameters may be tensors.
        inputs: checked inputs, at whose norms the limit is examined.
        depth: what DEPTH stands for: a whole number or infinity.
    """
    depth = _depth(net, depth)
    tape, limits = _lowered(net, depth, inputs.features, "ntk", None, _probe(inputs))
    return tape, summarise(depth, list(limits))


def _kinds(get: Any) -> tuple[str, ...]:
    kinds = tuple(get) if isinstance(get, tuple | list) else (get,)
    for kind in kinds:
        if kind not in KINDS:
            raise DescriptionError("kernel", f"get={kind!r} is not a kernel", nearest(str(kind), KINDS))
    if not kinds or len(set(kinds)) != len(kinds):
        raise DescriptionError("kernel", f"get={get!r}", "use 'nngp', 'ntk' or ('nngp', 'ntk')")
    return kinds


def _depth(net: Layer, depth: Any) -> float:
    if not isinstance(net, Layer):
        fix = "describe it first, e.g. dl.ResNet('relu') or dl.layer.Dense() >> dl.act.Relu() >> dl.layer.Dense(1)"
        raise DescriptionError("kernel", f"{type(net).__name__} is not a network description", fix)
    if depth is None:
        from deeplimits.architecture.compose import depends_on_depth

        if depends_on_depth(net):
            raise InputError("kernel", "the network leaves DEPTH open", "pass depth=64 or depth=inf")
        return 1
    return whole("kernel", "depth", depth, infinite=True)


def _probe(inputs: Inputs) -> np.ndarray:
    with np.errstate(over="ignore"):
        q = squares(inputs.numpy()[0])
    q = q[(q > 0) & np.isfinite(q)]
    if not q.size:
        return np.array([0.5, 1.0, 2.0])
    low, middle, high = np.log2(np.quantile(q, [0.0, 0.5, 1.0]))
    return 2.0 ** np.unique([np.floor(low + ROUNDING), np.round(middle), np.ceil(high - ROUNDING)])


def _refuse(description: Description, kinds: tuple[str, ...]) -> None:
    bad = [kind for kind in kinds if not getattr(description, kind)]
    if bad:
        rest = [kind for kind in KINDS if getattr(description, kind)]
        also = f"; get={rest[0]!r} has a limit" if rest else ""
        fix = f"ask at a finite depth, or change the network{also}"
        raise NoLimit(f"kernel(depth=inf, get={bad[0]!r})", str(description), fix)


def _lowered(
    net: Layer, depth: float, features: int, parametrization: str, widths: Any, probe: np.ndarray
) -> tuple[Tape, tuple[Any, ...]]:
    tensors = any(is_tensor(value) for value in net.hyperparameters().values())
    write = _write.__wrapped__ if tensors else _write
    given = (net, depth, features, parametrization, widths, tuple(probe.tolist()), Question.edition)
    try:
        return write(*given)
    except TypeError:  # something in the description has no hash
        return _write.__wrapped__(*given)


@lru_cache(maxsize=32)
def _write(
    net: Layer, depth: float, features: int, parametrization: str, widths: Any, probe: tuple[float, ...], edition: int
) -> tuple[Tape, tuple[Any, ...]]:
    state = lower(net, depth, features, parametrization, widths, np.array(probe))
    return state.tape(), tuple(state.limits)


def _warn(tape: Tape, probe: np.ndarray, description: Description) -> None:
    for note in description.notes:
        if note.caution:
            warnings.warn(note.caution, AccuracyWarning, stacklevel=3)
    if not any(isinstance(step, Dual) and isinstance(step.family, Expansion | Block) for step in tape.steps):
        return
    largest: dict[Any, float] = {}
    for index, q in diagonal.run(tape, probe).before.items():
        step = tape.steps[index]
        if isinstance(step, Dual):
            largest[step.family] = max(largest.get(step.family, 0.0), float(q.max()))
    for family, q in largest.items():
        estimate = float(family.error(q))
        if estimate > ACCURACY:
            kind = "quadrature" if isinstance(family, Block) else "Hermite series"
            text = f"kernel: the {kind} of {family} is good to {estimate:.1e} of the diagonal at variance {q:.3g}"
            fix = "; functions with kinks, and large inputs, converge slowly: scale the inputs or use a closed form"
            warnings.warn(text + fix, AccuracyWarning, stacklevel=3)


def _evaluate(tape: Tape, inputs: Inputs, kinds: tuple[str, ...]) -> list[Any]:
    from deeplimits.limits.kernel import paths
    from deeplimits.limits.kernel.tile.encode import supports

    if paths.differentiable(tape, inputs) or not supports(tape):
        return paths.plain(tape, inputs, kinds)
    return paths.fast(tape, inputs, kinds)


def _rounded(kind: str, value: Any, half: Any) -> Any:
    with np.errstate(over="ignore"):
        value = value.to(half) if is_tensor(value) else value.astype(half)
    _finite(kind, value.float() if is_tensor(value) else value.astype(np.float32), half)
    return value


def _vanishing(tape: Tape, probe: np.ndarray, kinds: tuple[str, ...], dtype: Any) -> None:
    end, least = diagonal.run(tape, np.append(probe, 1.0)), float(np.finfo(dtype).tiny)
    for kind in kinds:
        value = end.k if kind == "nngp" else end.theta
        if value[-1] > 0 and bool(((value >= 0) & (value < least)).any()):
            why = f"values fall to {value.min():.2g}, below the smallest number of {np.dtype(dtype)}"
            fix = "scale the inputs up" if dtype == np.float64 else "use dtype='float64', or scale the inputs up"
            raise PrecisionError(f"kernel(get={kind!r})", why, fix)


def _finite(kind: str, value: Any, dtype: Any) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        total = value.sum()  # quick, and finite unless an entry is not, or the sum itself overflows
    finite = bool(total.isfinite() if is_tensor(value) else np.isfinite(total))
    if not finite and not bool(value.isfinite().all() if is_tensor(value) else np.isfinite(value).all()):
        fix = "use dtype='float64', a smaller depth, or branches scaled by DEPTH**-0.5"
        raise PrecisionError(f"kernel(get={kind!r})", f"values leave the range of {dtype}", fix)
