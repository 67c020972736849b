"""The rule by which the product of a deep linear network moves, as an optimizer of one matrix."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import torch

from deeplimits.architecture.size import whole
from deeplimits.errors import InputError, PrecisionError
from deeplimits.limits.training.linear.inputs import check_positive

WHERE = "EndToEnd"


class EndToEnd(torch.optim.Optimizer):
    """Gradient descent on a matrix as if it were a product W = W_N ... W_1 of balanced layers.

    W <- (1 - lr N decay) W - lr sum_j (W W')^((N-j)/N) G (W' W)^((j-1)/N), j = 1, ..., N, with G the gradient at W. In
    the singular basis W = U diag(s) V' the sum is G_ik sum_j s_i^(2(N-j)/N) s_k^(2(j-1)/N), with 0^0 = 1. For one
    output it is |w|^(2 - 2/N) (G + (N - 1) <G, w> w / |w|^2).

    Args:
        params: matrices, shape (C, d), each a network of its own.
        lr: learning rate of every layer; for infinite N it is N times that.
        layers: N >= 1; may be infinite: sum_j / N then tends to (s_i^2 - s_k^2) / log(s_i^2 / s_k^2).
        weight_decay: of every layer.

    A step costs one singular value decomposition of a matrix, none of a single output or for N = 1. It is that of N
    layers under plain gradient descent, without momentum, up to terms of second order in lr.

    Valid when: the layers are balanced, W_(j+1)' W_(j+1) = W_j W_j', which gradient flow keeps, weight decay included,
    and hidden layers are no narrower than min(C, d). Inputs need not be white, nor the loss quadratic.

    Raises:
        InputError: parameters that are no real matrices, biases among them, or are zero (a saddle of two layers or
            more, which none leave), numbers that cannot be, sparse gradients.
        PrecisionError: a parameter or gradient that is no longer finite.

    Source: arora-2018-implicit-acceleration.

    Example:
        >>> w = torch.tensor([[1.0, 0.0]], requires_grad=True)
        >>> optimizer = EndToEnd([w], lr=0.1, layers=3)
        >>> (w @ torch.tensor([1.0, 2.0])).sum().backward()
        >>> optimizer.step()
        >>> w.tolist()
        [[0.699999988079071, -0.20000000298023224]]
    """

    def __init__(self, params: Any, lr: float, layers: float = 2, weight_decay: float = 0.0):
        super().__init__(params, {"lr": lr, "layers": layers, "weight_decay": weight_decay})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add matrices with options of their own, checked."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            check_positive(WHERE, "lr", group["lr"])
            group["layers"] = whole(WHERE, "layers", group["layers"], infinite=True)
            if group["weight_decay"] != 0:
                check_positive(WHERE, "weight_decay", group["weight_decay"], zero=True)
            for index, weight in enumerate(group["params"]):
                _check_weight(index, weight, group["layers"])
        except InputError:
            self.param_groups.pop()
            raise

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move every matrix by the rule.

        Args:
            closure: evaluates the loss again and returns it.

        Returns:
            The loss that the closure returned, if there is one.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for index, weight in enumerate(group["params"]):
                if weight.grad is not None:
                    _move(index, weight, group["lr"], group["layers"], group["weight_decay"])
        return loss


def _move(index: int, weight: torch.Tensor, rate: float, layers: float, decay: float) -> None:
    if weight.grad is None or weight.grad.layout is not torch.strided:
        raise InputError(WHERE, f"the gradient of parameter {index} is sparse", "use a dense one")
    for name, values in (("parameter", weight), ("gradient of parameter", weight.grad)):
        if not values.isfinite().all():
            raise PrecisionError(WHERE, f"{name} {index} is not finite", "lower lr: it is past stability")
    number = 1 if layers == inf else layers
    step = preconditioned(weight, weight.grad, layers)
    weight.mul_(1 - rate * number * decay).sub_(step, alpha=rate)


def preconditioned(weight: torch.Tensor, gradient: torch.Tensor, layers: float) -> torch.Tensor:
    """Return sum_j (W W')^((N-j)/N) G (W' W)^((j-1)/N); for infinite N its N-th part.

    Args:
        weight: W, shape (C, d).
        gradient: G, likewise.
        layers: N.

    Source: arora-2018-implicit-acceleration.

    Example:
        >>> preconditioned(torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 1.0]]), layers=2).tolist()
        [[4.0, 2.0]]
    """
    if layers == 1:
        return gradient.clone()
    if 1 in weight.shape:
        return _single(weight, gradient, layers)
    kind = torch.float64 if weight.dtype == torch.float64 else torch.float32
    G = gradient.to(kind)
    U, s, V = torch.linalg.svd(weight.to(kind), full_matrices=False)
    # outside the singular vectors s is 0: one factor remains, and none if both sides are outside
    edge = s ** (2 - 2 / layers) if layers < inf else torch.zeros_like(s)
    left, right = U.mT @ G, G @ V.mT
    inner = left @ V.mT
    moved = U @ (_factors(s, layers) * inner) @ V
    moved += U @ (edge[:, None] * (left - inner @ V)) + ((right - U @ inner) * edge) @ V
    return moved.to(weight.dtype)


def _single(weight: torch.Tensor, gradient: torch.Tensor, layers: float) -> torch.Tensor:
    size = torch.linalg.vector_norm(weight)
    if size == 0:
        return torch.zeros_like(gradient)
    way = weight / size
    along = (gradient * way).sum() * way
    if layers == inf:
        return size**2 * along
    return size ** (2 - 2 / layers) * (gradient + (layers - 1) * along)


def _factors(s: torch.Tensor, layers: Any) -> torch.Tensor:
    """Return sum_j s_i^(2(N-j)/N) s_k^(2(j-1)/N), (m, m); its N-th part in the limit, the logarithmic mean of s^2."""
    if layers == inf:
        high, low = torch.maximum(s[:, None], s), torch.minimum(s[:, None], s)
        gap = 2 * torch.log(high / low)
        mean = high**2 * torch.where(gap > 0, -torch.expm1(-gap) / gap, torch.ones_like(gap))
        return torch.where(low > 0, mean, torch.zeros_like(mean))
    a = s ** (2 / layers)
    total, power = torch.ones_like(a[:, None] * a), a
    for bit in f"{layers:b}"[1:]:
        # from n terms to 2n, and to 2n + 1
        total, power = total * (power[:, None] + power), power * power
        if bit == "1":
            total, power = total * a[:, None] + power, power * a
    return total


def _check_weight(index: int, weight: torch.Tensor, layers: float) -> None:
    fix = "give matrices (C, d), of one output (1, d), and leave biases and others to another optimizer"
    if weight.ndim != 2 or weight.numel() == 0:
        raise InputError(WHERE, f"parameter {index} has shape {tuple(weight.shape)}", fix)
    if not weight.dtype.is_floating_point:
        raise InputError(WHERE, f"parameter {index} is {weight.dtype}", "give real floating-point numbers")
    if weight.is_meta:
        raise InputError(WHERE, f"parameter {index} is on the meta device", "materialise the model first")
    if not weight.isfinite().all():
        raise InputError(WHERE, f"parameter {index} is not finite", "start from finite numbers")
    if layers > 1 and not weight.any():
        why = f"parameter {index} is zero, a saddle that {layers:g} balanced layers never leave"
        raise InputError(WHERE, why, "start from a matrix that is not zero, e.g. 0.01 times a random one")
