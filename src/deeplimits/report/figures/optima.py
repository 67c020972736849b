"""Where the best learning rate lies, and the loss there, as the model grows: a rule a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from deeplimits.report import theme
from deeplimits.report.figures.axes import decades, measured
from deeplimits.report.figures.rates import label
from deeplimits.transfer.anatomy.names import width_first
from deeplimits.transfer.evidence.curves import Curve, Transfer


@dataclass(frozen=True)
class OptimaData:
    """Optima of rules at the same sizes: octaves from that of the base with intervals, or the losses there.

    Where an optimum lies at the edge of the grid, `beyond` is the side, 1 or -1, on which it may lie further, else 0.
    """

    title: str
    of: str
    sizes: tuple[str, ...]
    head: str
    rules: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    errors: tuple[tuple[tuple[float, float], ...], ...]
    beyond: tuple[tuple[int, ...], ...]
    margin: float

    def describe(self) -> str:
        """The figure in words, for readers who do not see it."""
        words = [
            f"{rule}: {', '.join(f'{v:.3g}' for v in each)}" for rule, each in zip(self.rules, self.values, strict=True)
        ]
        return f"{self.title}, at {self.head} {', '.join(self.sizes)}. {'; '.join(words)}."


def optima_data(transfers: Sequence[Transfer], of: str) -> OptimaData | None:
    """Take optima of rules measured at the same sizes.

    Args:
        transfers: a rule each.
        of: "rate" or "loss".
    """
    first = transfers[0]
    kept = [each for each in transfers if [c.size for c in each.curves] == [c.size for c in first.curves]]
    values, errors = [], []
    for each in kept:
        best = [c.best_log2_lr for c in each.curves]
        if of == "rate":
            values.append(tuple(b - best[0] for b in best))
            errors.append(tuple((c.best_log2_lr - c.low, c.high - c.best_log2_lr) for c in each.curves))
        else:
            values.append(tuple(c.best_loss for c in each.curves))
            errors.append(((0.0, 0.0),) * len(best))
    if not all(isfinite(value) for each in values for value in each):
        return None
    beyond = tuple(tuple(_side(curve) if of == "rate" else 0 for curve in each.curves) for each in kept)
    title = {"rate": "Best learning rate, octaves from the base's", "loss": "Loss at the best learning rate"}[of]
    sizes = tuple(label(c.size) for c in first.curves)
    rules = tuple(each.rule for each in kept)
    head = " × ".join(width_first(first.curves[0].size))
    return OptimaData(title, of, sizes, head, rules, tuple(values), tuple(errors), beyond, first.margin)


def _side(curve: Curve) -> int:
    return 0 if not curve.at_edge else -1 if curve.best_log2_lr == curve.log2_lrs[0] else 1


def draw(axes: Any, data: OptimaData) -> None:
    """Draw a rule a style: markers with their intervals, an arrow towards what lies beyond the grid, joined by lines.

    The band is what counts as transfer.
    """
    colours = (theme.LIGHT["ink"], theme.LIGHT["accent"], theme.scales([0, 1, 2])[1], theme.LIGHT["muted"])
    places = list(range(len(data.sizes)))
    if data.of == "rate":
        axes.axhspan(-data.margin, data.margin, color=theme.LIGHT["band"], zorder=0)
    for index, (rule, values, errors) in enumerate(zip(data.rules, data.values, data.errors, strict=True)):
        style, colour = theme.family(index), colours[index % len(colours)]
        x = [place + 0.06 * (index - (len(data.rules) - 1) / 2) for place in places]
        axes.plot(x, values, linestyle=style.line, color=colour, zorder=2)
        bars = [[max(pair[side], 0.0) for pair in errors] for side in (0, 1)] if data.of == "rate" else None
        measured(axes, x, values, bars, colour, style, label=rule)
        for place, value, side in zip(x, values, data.beyond[index], strict=True):
            if side:
                axes.annotate(
                    "", (place, value), (0, 26 * side), textcoords="offset points", annotation_clip=False,
                    arrowprops={"arrowstyle": "<|-", "color": colour, "shrinkA": 0, "shrinkB": 0},
                )  # fmt: skip
    if data.of == "loss" and min(min(each) for each in data.values) > 0:
        axes.set_yscale("log")
        decades(axes.yaxis)
    axes.set_xticks(places, data.sizes)
    axes.set_xlim(-0.4, len(places) - 0.6)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.03, 0.98), ncols=min(len(data.rules), 3), columnspacing=1.0)
    axes.set_xlabel(data.head)
    axes.set_ylabel("octaves" if data.of == "rate" else "final loss")
    axes.set_title(data.title, pad=12 + 13 * -(-len(data.rules) // 3))
