"""How much memory a forward pass keeps for the backward pass, as autograd counts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def saved_bytes(forward: Callable[[], object]) -> int:
    """Return the bytes of all tensors that autograd keeps for the backward pass of `forward()`, a storage counted once.

    Example:
        >>> import torch
        >>> x = torch.ones(10, dtype=torch.float64, requires_grad=True)
        >>> saved_bytes(lambda: x.exp())
        80
    """
    import torch

    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = forward()
    del result
    return sum(kept.values())
