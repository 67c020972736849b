"""FractalNet: depth without skips, from a rule applied to itself, with columns that answer alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from deeplimits.errors import InputError


class Fractal(nn.Module):
    """C columns of 1, 2, 4, ... units, joined by their mean wherever units end together.

    f_1 = unit, f_{C+1}(z) = mean of f_C(f_C(z)) and unit(z), joins that follow each other merged into one. Depth
    2^(C-1), units 2^C - 1, paths p_{C+1} = p_C^2 + 1: 1, 2, 5, 26, 677.

    In training each input of a join is dropped with probability `drop`, one at least is kept, and the mean is over the
    kept (local drop-path). `column` runs one column alone, column 0 with one unit: an answer at any time, and global
    drop-path where `FractalNet` draws it.

    Args:
        unit: unit(first) returns a fresh module; `first` where it reads the block's input, whose size it may change.
        columns: C.
        drop: probability of local drop-path.

    Raises:
        InputError: fewer than one column, a probability outside [0, 1), or a column that is not there.

    Source: larsson-2016-fractalnet.

    Example:
        >>> block = Fractal(lambda first: nn.Sequential(nn.Linear(8, 8), nn.ReLU()), columns=4)
        >>> x = torch.randn(5, 8)
        >>> block(x).shape, block(x, column=3).shape, block.depth, block.paths
        (torch.Size([5, 8]), torch.Size([5, 8]), 8, 26)
    """

    def __init__(self, unit: Callable[[bool], nn.Module], columns: int, drop: float = 0.15):
        super().__init__()
        if not isinstance(columns, int) or columns < 1:
            raise InputError("Fractal", f"columns={columns!r}", "give 1 or more")
        if not 0 <= drop < 1:
            raise InputError("Fractal", f"drop={drop!r}", "give a probability from 0 to below 1; 0.15 is usual")
        self.columns, self.drop = columns, float(drop)
        self.units = nn.ModuleList(
            nn.ModuleList(unit(place == 0) for place in range(2**column)) for column in range(columns)
        )

    @property
    def depth(self) -> int:
        """Units on the longest path."""
        return 2 ** (self.columns - 1)

    @property
    def paths(self) -> int:
        """Ways from input to output."""
        count = 1
        for _ in range(self.columns - 1):
            count = count * count + 1
        return count

    def forward(self, z: Tensor, column: int | None = None) -> Tensor:
        if column is not None:
            return self.alone(z, column)
        held = [z] * self.columns
        for step in range(1, self.depth + 1):
            spans = [self.depth >> c for c in range(self.columns)]
            ready = [c for c, span in enumerate(spans) if step % span == 0]
            kept = [c for c in ready if not self.dropped()] or [ready[int(torch.randint(len(ready), ()))]]
            joined = torch.stack([self.unit_of(c, step // spans[c] - 1)(held[c]) for c in kept]).mean(0)
            for c in ready:
                held[c] = joined
        return held[-1]

    def alone(self, z: Tensor, column: int) -> Tensor:
        """Return what one column makes of the input."""
        if column not in range(self.columns):
            raise InputError("Fractal", f"column={column!r}", f"give 0 (shallow) to {self.columns - 1} (deep)")
        for place in range(2**column):
            z = self.unit_of(column, place)(z)
        return z

    def unit_of(self, column: int, place: int) -> nn.Module:
        """Return a unit by its column and its place in it."""
        return self.units[column][place]  # type: ignore[index]

    def dropped(self) -> bool:
        """Draw whether an input of a join is dropped, from torch's random state; never outside training."""
        return self.training and self.drop > 0 and bool(torch.rand(()) < self.drop)

    def extra_repr(self) -> str:
        return f"columns={self.columns}, depth={self.depth}, drop={self.drop:g}"


class FractalNet(nn.Module):
    """Fractal blocks and what stands between them, with one column drawn for all of them in part of the training.

    Args:
        stages: modules in order; those that are `Fractal` take the column, all others their input alone.
        whole: share of forward passes in training that run one column, the same in all blocks (global drop-path); the
            others drop inputs of joins.

    Raises:
        InputError: no fractal block, or blocks with different numbers of columns.

    Source: larsson-2016-fractalnet.

    Example:
        >>> dense = lambda first: nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        >>> net = FractalNet([Fractal(dense, 3), Fractal(dense, 3), nn.Linear(8, 2)])
        >>> net(torch.randn(5, 8)).shape, net(torch.randn(5, 8), column=2).shape
        (torch.Size([5, 2]), torch.Size([5, 2]))
    """

    def __init__(self, stages: Sequence[nn.Module], whole: float = 0.5):
        super().__init__()
        columns = {stage.columns for stage in stages if isinstance(stage, Fractal)}
        if len(columns) != 1:
            why = f"blocks with {sorted(columns)} columns" if columns else "no fractal block"
            raise InputError(
                "FractalNet", why, "give blocks with one number of columns, so that one can be drawn for all"
            )
        self.stages, self.whole, self.columns = nn.ModuleList(stages), float(whole), columns.pop()

    def forward(self, x: Tensor, column: int | None = None) -> Tensor:
        if column is None and self.training and bool(torch.rand(()) < self.whole):
            column = int(torch.randint(self.columns, ()))
        for stage in self.stages:
            x = stage(x, column) if isinstance(stage, Fractal) else stage(x)
        return x
