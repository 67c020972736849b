"""Random matrices: Gaussian, Haar frames, masks, blocks; each from its own named stream."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from deeplimits.finite.build.place import Place
from deeplimits.numerics.seeds import generator, torch_generator


def normal(shape: tuple[int, ...], place: Place, name: str) -> Tensor:
    """Return standard normals in float64, so that every dtype gets the same numbers rounded."""
    return torch.randn(shape, generator=torch_generator(place.seed, place.path, name), dtype=torch.float64)


def frame(rows: int, columns: int, place: Place, name: str) -> Tensor:
    """Return a Haar-distributed matrix with orthonormal columns, or rows where it is wide.

    QR of a Gaussian matrix with the signs of R's diagonal moved into Q; without them the law is not Haar.

    Source: mezzadri-2007-haar, section 5.
    """
    tall = normal((max(rows, columns), min(rows, columns)), place, name)
    q, r = torch.linalg.qr(tall)
    q = q * torch.where(torch.diagonal(r) < 0, -1.0, 1.0)
    return (q if rows >= columns else q.mT).contiguous()


def sparse_mask(rows: int, columns: int, kept: int, place: Place) -> Tensor:
    """Return a 0/1 matrix with `kept` ones at random places of every row."""
    uniform = torch.rand(
        (rows, columns), generator=torch_generator(place.seed, place.path, "mask"), dtype=torch.float64
    )
    chosen = uniform.topk(kept, dim=1).indices
    return torch.zeros((rows, columns), dtype=torch.float64).scatter_(1, chosen, 1.0)


@dataclass(frozen=True)
class Blocks:
    """Layout of a block-diagonal matrix with permuted rows and columns."""

    gather: Tensor
    scatter: Tensor
    columns: Tensor
    used: Tensor
    rows: int


def blocks(rows: int, columns: int, count: int, place: Place) -> Blocks:
    """Return `count` blocks over random groups of columns and rows, group sizes within one of each other."""
    numpy = generator(place.seed, place.path, "blocks")
    column_groups = _groups(torch.from_numpy(numpy.permutation(columns)), count)
    row_groups = _groups(torch.from_numpy(numpy.permutation(rows)), count)
    widest, tallest = len(column_groups[0]), len(row_groups[0])
    gather = torch.full((count, widest), columns)
    scatter = torch.empty(rows, dtype=torch.long)
    used = torch.zeros(count, tallest, widest, dtype=torch.float64)
    for index, (ins, outs) in enumerate(zip(column_groups, row_groups, strict=True)):
        gather[index, : len(ins)] = ins
        scatter[outs] = index * tallest + torch.arange(len(outs))
        used[index, : len(outs), : len(ins)] = 1.0
    sizes = torch.tensor([len(group) for group in column_groups])
    return Blocks(gather, scatter, sizes, used, tallest)


def _groups(order: Tensor, count: int) -> list[Tensor]:
    return list(torch.tensor_split(order, count))
