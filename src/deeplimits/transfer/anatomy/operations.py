"""PyTorch's operations by what they do: products, views, sums."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F


def of_tensor(*names: str) -> set[Any]:
    """Return methods of torch.Tensor."""
    return {getattr(torch.Tensor, name) for name in names}


LINEAR = {F.linear}
RIGHT = {torch.matmul, torch.mm, torch.bmm, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.Tensor.__rmatmul__}
RIGHT |= {torch.Tensor.mm, torch.Tensor.bmm}
RIGHT |= {getattr(of, name) for of, name in ((torch, "_grouped_mm"), (F, "grouped_mm")) if hasattr(of, name)}
SHIFTED = {torch.addmm, torch.baddbmm, torch.addmv, *of_tensor("addmm", "baddbmm", "addmv")}
DOTS = {torch.mv, torch.dot, torch.vdot, torch.inner, torch.linalg.vecdot, *of_tensor("mv", "dot", "vdot", "inner")}
EINSUM = {torch.einsum, torch.functional.einsum}
ATTENTION = {F.scaled_dot_product_attention}
LOOKUPS = {F.embedding, F.embedding_bag}
CONVOLUTIONS = {F.conv1d, F.conv2d, F.conv3d, F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d}

TIMES = {torch.mul, torch.multiply, *of_tensor("mul", "mul_", "multiply", "__mul__", "__rmul__", "__imul__")}
OVER = {torch.div, torch.divide, torch.true_divide}
OVER |= of_tensor("div", "div_", "divide", "true_divide", "__truediv__", "__itruediv__")
PLUS = {torch.add, torch.sub, *of_tensor("add", "sub", "add_", "sub_")}
PLUS |= of_tensor(*(f"__{side}{name}__" for side in ("", "r", "i") for name in ("add", "sub")))
POWERS = {torch.pow, torch.square, torch.abs, torch.exp, *of_tensor("pow", "__pow__", "square", "abs", "exp")}
SUMS = {torch.sum, torch.nansum, *of_tensor("sum", "nansum")}

TURNS = {torch.t, torch.Tensor.t, torch.Tensor.transpose, torch.transpose, torch.Tensor.permute, torch.permute}
TURNS |= {torch.Tensor.T.__get__, torch.Tensor.mT.__get__}  # type: ignore[attr-defined]
CARRIED = {torch.cat, torch.concat, torch.stack, torch.Tensor.expand, torch.Tensor.expand_as, torch.Tensor.repeat}
CARRIED |= {torch.add, torch.sub, torch.mul, torch.div, torch.where}
CARRIED |= of_tensor("add", "sub", "mul", "div", "add_", "mul_", "__truediv__", "__rtruediv__")
CARRIED |= of_tensor(*(f"__{side}{name}__" for side in ("", "r", "i") for name in ("add", "sub", "mul")))
PARTS = {torch.Tensor.chunk, torch.chunk, torch.Tensor.split, torch.split, torch.Tensor.__getitem__, torch.Tensor.to}
PARTS |= {torch.Tensor.float, torch.Tensor.contiguous, torch.Tensor.unbind, torch.unbind, torch.Tensor.type_as}
PARTS |= {torch.Tensor.data.__get__, *of_tensor("detach", "clone", "type", "double", "half", "bfloat16")}  # type: ignore[attr-defined]
SHAPED = {torch.unsqueeze, torch.squeeze, torch.reshape, torch.flatten, torch.Tensor.__getitem__}
SHAPED |= of_tensor("unsqueeze", "squeeze", "reshape", "view", "flatten")


def number(value: Any) -> bool:
    """Say whether a factor is a number, alone or as a tensor of one entry."""
    return value.numel() == 1 and value.dim() < 2 if isinstance(value, torch.Tensor) else isinstance(value, int | float)
