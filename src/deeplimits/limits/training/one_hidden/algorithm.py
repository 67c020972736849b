"""Any algorithm of one's own on a linear network of one hidden layer, at any width, infinity included."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.architecture.size import whole
from deeplimits.errors import DescriptionError, InputError, NoLimit
from deeplimits.limits.training.one_hidden.start import basis, drawn
from deeplimits.limits.training.one_hidden.task import size_of
from deeplimits.numerics.arrays import check_memory
from deeplimits.numerics.seeds import generator

if TYPE_CHECKING:
    from torch import Tensor

WHERE = "at_width"
SAME = 1e-7
ROUNDING = 1e-13  # of numbers of order 1, which weights are: a result may be 0
"""Results that differ by more, relative to the largest, after neurons are mixed, depend on single neurons."""


def at_width(
    algorithm: Callable[[Tensor, Tensor, float], Any], features: int, outputs: int, width: float = inf, seed: int = 0
) -> Any:
    """Run an algorithm on f(x) = weight V^T U x at a width, infinity included, and return what it returns.

    Gradients in U and V of any loss of f move [U, V] to [U_0, V_0] M, and all that f shows depends on
    weight [U, V]^T [U, V], which is the identity at infinite width: there the algorithm gets U = [I; 0], V = [0; I] and
    weight 1. It is then run once more with its neurons mixed by a rotation: what is not the same after that, such as an
    entrywise optimiser (Adam, sign descent), leaves the span and has another limit.

    Args:
        algorithm: called with U (n, features) and V (n, outputs), float64 tensors, and the weight of a neuron; a
            learning rate of muP is rate / weight. It returns numbers or arrays (or several in a list or a dict) that
            depend on outputs or on weight U^T U and the like, not on single neurons; chance in it must be seeded.
        features: columns of U.
        outputs: columns of V.
        width: infinity, or neurons, whose standard normal weights are drawn.
        seed: of drawn weights, and of the rotation.

    Raises:
        NoLimit: the results depend on single neurons, so that infinite width is not this one.
        InputError: sizes that cannot be.
        DescriptionError: the algorithm returns nothing that holds numbers.

    Source: yang-hu-2020-tp4 (the limit); the check is derived here.

    Example:
        >>> import torch
        >>> def descent(U, V, weight, x=torch.tensor([1.0, 2.0], dtype=torch.float64)):
        ...     for _ in range(50):
        ...         U, V = U.detach().requires_grad_(), V.detach().requires_grad_()
        ...         dU, dV = torch.autograd.grad((weight * V.T @ U @ x - 1).square().sum() / 2, (U, V))
        ...         U, V = U - 0.1 / weight * dU, V - 0.1 / weight * dV
        ...     return (weight * V.T @ U @ x).detach()
        >>> at_width(descent, features=2, outputs=1).numpy().round(3)
        array([1.])
    """
    import torch

    width, _ = size_of(WHERE, width, None)
    sizes = whole(WHERE, "features", features), whole(WHERE, "outputs", outputs)
    random = generator(seed, "rotation")
    if not callable(algorithm):
        raise InputError(WHERE, f"{algorithm!r} is not an algorithm", "give a function of U, V and weight")
    neurons = sum(sizes) if width == inf else int(width)
    check_memory(WHERE, 32 * neurons * sum(sizes), f"weights of {neurons} neurons", "use a smaller width")
    if width < inf:
        start = drawn(int(width), *sizes, 1, seed)
        return algorithm(torch.from_numpy(start.U[0]), torch.from_numpy(start.V[0]), start.weight)
    start = basis(*sizes)
    mix = np.linalg.qr(random.standard_normal((neurons, neurons)))[0]
    found = algorithm(torch.from_numpy(start.U[0].copy()), torch.from_numpy(start.V[0].copy()), 1.0)
    mixed = algorithm(torch.from_numpy(mix @ start.U[0]), torch.from_numpy(mix @ start.V[0]), 1.0)
    _same(_numbers(found), _numbers(mixed))
    return found


def _same(found: NDArray[np.float64], mixed: NDArray[np.float64]) -> None:
    if found.shape == mixed.shape and np.isfinite(found).all():
        gap = float(np.abs(found - mixed).max(initial=0.0))
        size = float(np.abs(found).max(initial=0.0))
        if gap <= max(SAME * size, ROUNDING):
            return
        told = f"they change by {gap:.2g} of {size:.2g}"
    else:
        told = "they are not finite, or change their shape"
    why = f"the results depend on single neurons: when neurons are mixed by a rotation, {told}"
    fix = "use optimisers whose step is linear in gradients (gradient descent, momentum), not entrywise ones (Adam)"
    raise NoLimit(WHERE, why, f"{fix}; return outputs or weight * U.T @ U, not U; seed what is drawn")


def _numbers(found: Any) -> NDArray[np.float64]:
    """Return all numbers in what an algorithm returned, in order."""
    if hasattr(found, "detach"):
        found = found.detach().cpu().numpy()
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, list | tuple) and len(found):
        return np.concatenate([_numbers(one) for one in found])
    try:
        if np.asarray(found).dtype.kind not in "fiub":
            raise TypeError
        return np.asarray(found, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        why = f"the algorithm returned a {type(found).__name__}"
        raise DescriptionError(WHERE, why, "return numbers or arrays, or a list or dict of them") from None
