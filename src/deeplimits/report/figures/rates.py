"""Loss against learning rate, a curve a size: does the lowest point stay where it is?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, isfinite, log
from typing import Any

from deeplimits.report import theme
from deeplimits.report.figures.axes import decades, superscript
from deeplimits.transfer.anatomy.names import width_first
from deeplimits.transfer.evidence.curves import UNDECIDED, Curve, Transfer


@dataclass(frozen=True)
class RatesData:
    """The curves of one rule; `limits` of the losses that are drawn, the same for rules that are set side by side."""

    title: str
    transfer: Transfer
    limits: tuple[float, float]

    def describe(self) -> str:
        """The figure in words, for readers who do not see it."""
        places = [
            f"{label(c.size)}: "
            + (f"lowest at 2^{c.best_log2_lr:+.2f}, loss {c.best_loss:.3g}" if c.trained else c.untrained)
            for c in self.transfer.curves
        ]
        return f"Loss against learning rate under {self.transfer.rule}. {'; '.join(places)}. {self.transfer.reason}."


def label(size: Mapping[str, int]) -> str:
    """A size in a few characters: 64 × 8 for width and depth, else its numbers.

    Example:
        >>> label({"depth": 8, "width": 64}), label({"width": 64})
        ('64 × 8', '64')
    """
    return " × ".join(str(size[name]) for name in width_first(size))


def rates_data(transfer: Transfer, beside: Sequence[Transfer] = ()) -> RatesData:
    """Take the curves of one rule, on the scale of all those beside it."""
    losses = [mean for each in (transfer, *beside) for curve in each.curves for mean in means(curve) if isfinite(mean)]
    lowest = min(losses, default=1.0)
    basins = [curve.best_loss for each in (transfer, *beside) for curve in each.curves if curve.trained]
    top = min(max(losses, default=1.0), 60 * max(basins, default=1.0) if lowest > 0 else inf)
    return RatesData(f"{transfer.rule}: {_moved(transfer)}", transfer, (lowest, top))


def _moved(transfer: Transfer) -> str:
    if not isfinite(transfer.drift):
        return "a size without an optimum"
    if not transfer.moved:
        return "optima at the edge of the grid"
    bounded = isfinite(transfer.drift_high - transfer.drift_low)
    undecided = f"drift {transfer.moved}{', undecided' if bounded else ''}"
    words = undecided if transfer.verdict == UNDECIDED else f"optimum moves {transfer.moved}"
    return words.replace("-", "−")


def means(curve: Curve) -> list[float]:
    """Mean loss over seeds at each learning rate: geometric where all are above zero; infinite if one diverged."""
    found = []
    for losses in curve.losses:
        if not all(isfinite(loss) for loss in losses):
            found.append(inf)
        elif min(losses) > 0:
            found.append(exp(sum(log(loss) for loss in losses) / len(losses)))
        else:
            found.append(sum(losses) / len(losses))
    return found


def draw(axes: Any, data: RatesData) -> None:
    """Draw a size a colour: the line joins means, dots are seeds, the ring with its bar is the optimum."""
    curves = data.transfer.curves
    colours = list(theme.scales(range(len(curves))).values())
    low, high = data.limits
    positive = low > 0
    for index, (curve, colour) in enumerate(zip(curves, colours, strict=True)):
        x = curve.log2_lrs
        aside = 0.12 * (index - (len(curves) - 1) / 2)
        level = means(curve)
        axes.plot(x, [value if isfinite(value) else float("nan") for value in level], color=colour, zorder=2)
        for place, losses in zip(x, curve.losses, strict=True):
            kept = [loss for loss in losses if isfinite(loss)]
            axes.plot([place] * len(kept), kept, ".", color=colour, markersize=3.0, zorder=2)
        gone = [place + aside for place, value in zip(x, level, strict=True) if not isfinite(value)]
        top = high * 1.25 if positive else high
        axes.plot(gone, [top] * len(gone), "x", color=colour, markersize=5, zorder=2)
        above = [place + aside for place, value in zip(x, level, strict=True) if top < value < inf]
        axes.plot(above, [top] * len(above), "^", color=colour, markersize=5, zorder=2)
        if isfinite(curve.best_loss):
            ends = [min(max(end, x[0]), x[-1]) for end in (curve.low, curve.high)]
            axes.plot(ends, [curve.best_loss] * 2, color=colour, linewidth=2.6, alpha=0.45, solid_capstyle="butt")
            axes.plot(
                [curve.best_log2_lr], [curve.best_loss], "o", markersize=8, markeredgewidth=1.8, zorder=4,
                markeredgecolor=colour, markerfacecolor=theme.LIGHT["paper"],
            )  # fmt: skip
    _scales(axes, data, positive)
    _key(axes, [label(curve.size) for curve in curves], colours, " × ".join(width_first(curves[0].size)))
    axes.set_xlabel("learning rate of the base")
    axes.set_ylabel("final loss")
    axes.set_title(data.title, pad=24)


def _scales(axes: Any, data: RatesData, positive: bool) -> None:
    x = data.transfer.curves[0].log2_lrs
    step = max(1, -(-len(x) // 7))
    axes.set_xticks(list(x[::step]), [f"2{superscript(f'{value:g}')}" for value in x[::step]])
    low, high = data.limits
    if positive:
        axes.set_ylim(low / 1.3, high * 1.4)
        decades(axes.yaxis)
        axes.set_ylim(low / 1.3, high * 1.4)
    else:
        room = 0.08 * (high - low or 1.0)
        axes.set_ylim(low - room, high + room)


def _key(axes: Any, names: list[str], colours: list[str], head: str) -> None:
    from matplotlib.lines import Line2D

    blank = Line2D([], [], linestyle="none", label=head)
    lines = [Line2D([], [], color=colour, label=name) for name, colour in zip(names, colours, strict=True)]
    axes.legend(
        handles=[blank, *lines], ncols=len(lines) + 1, loc="lower left", bbox_to_anchor=(-0.09, 0.985),
        columnspacing=0.9, handletextpad=0.4, handlelength=1.2,
    )  # fmt: skip
