"""Which dimension of a parameter is summed over and which it writes to."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

MATRIX, EMBEDDING, VECTOR = "matrix", "embedding", "vector"


@dataclass(frozen=True)
class Fans:
    """How a parameter acts.

    Attributes:
        kind: "matrix" (contracts its fan-in), "embedding" (picks rows) or "vector" (gains, biases, scalars).
        fan_in: entries of the input that one output sums over; 1 for embeddings and vectors.
        fan_out: entries of the output.
    """

    kind: str
    fan_in: int
    fan_out: int


def fans(module: Any, name: str, shape: tuple[int, ...]) -> Fans:
    """Return the fans of a parameter from the module that holds it.

    Matrices are (out, in) as in `torch.nn.Linear`, convolutions (out, in / groups, *kernel), transposed ones
    (in, out / groups, *kernel), Hugging Face's Conv1D (in, out), stacked experts (experts, out, in).

    Args:
        module: the module that owns the parameter.
        name: the parameter's name in that module.
        shape: its shape.
    """
    from torch import nn

    if len(shape) < 2:
        return Fans(VECTOR, 1, prod(shape))
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return Fans(EMBEDDING, 1, shape[1])
    if isinstance(module, nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d):
        return Fans(MATRIX, shape[0] * prod(shape[2:]), shape[1] * module.groups)
    if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return Fans(MATRIX, prod(shape[1:]), shape[0])
    if type(module).__name__ == "Conv1D":
        return Fans(MATRIX, shape[0], shape[1])
    if len(shape) == 3:
        return Fans(MATRIX, shape[2], shape[1])
    if len(shape) == 2:
        return Fans(MATRIX, shape[1], shape[0])
    return Fans(MATRIX, prod(shape[1:]), shape[0])
