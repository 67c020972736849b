"""`dl.plot`: one figure of a record, chosen by the record's type."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from deeplimits.claims.claim import Finding
from deeplimits.diagnostics.record import DepthUse
from deeplimits.errors import InputError
from deeplimits.limits.diffusion.record import Diffusion
from deeplimits.limits.diffusion.regime import Regime
from deeplimits.limits.flow.criticality import Criticality
from deeplimits.limits.flow.phase_diagram import PhaseDiagram
from deeplimits.limits.proportional.record import Proportional
from deeplimits.limits.tokens.record import Tokens
from deeplimits.plane.law_record import LawComparison
from deeplimits.plane.record import Comparison
from deeplimits.report import theme
from deeplimits.report.figures import (
    agreement,
    depth,
    depth_use,
    diagonal,
    diffusion,
    laws,
    phase,
    plane,
    proportional,
    regime,
    tokens,
    width,
)
from deeplimits.transfer.evidence.coordinates import CoordinateCheck
from deeplimits.transfer.evidence.curves import Transfer
from deeplimits.transfer.evidence.proof import Proof, proof

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Panel = tuple[Callable[..., None], tuple[Any, ...]]
SIZE = (4.25, 3.55)


@singledispatch
def plot(record: Any) -> Figure:
    """Draw a record as one matplotlib figure, readable at 700 pixels and in grey.

    Args:
        record: what `dl.compare`, `dl.diffusion` or `dl.proportional` returned, the finding of a claim, a coordinate
            check or sweep of `dl.transfer`, a phase diagram (a Criticality draws its own), or what
            `dl.diagnostics.depth_use` found.

    Returns:
        A `matplotlib.figure.Figure` bound to no window: `figure.savefig(path)`, or the last line of a notebook cell.

    Raises:
        InputError: a record of a type that has no figure.
    """
    why = f"a {type(record).__name__} has no figure"
    raise InputError(
        "plot", why, "pass what dl.compare returned, or register a drawing with deeplimits.report.plot.register"
    )


@plot.register(Comparison)
def _comparison(record: Comparison) -> Figure:
    return sheet(panels_of(record), columns=2)


@plot.register(Finding)
def _finding(record: Finding) -> Figure:
    from deeplimits.report import claims

    return sheet(claims.panels_of(record), columns=2)


@plot.register(Proof)
def _proof(record: Proof) -> Figure:
    from deeplimits.report import transfer

    return sheet(transfer.panels_of(record), columns=2)


@plot.register(CoordinateCheck)
@plot.register(Transfer)
def _part_of_a_proof(record: CoordinateCheck | Transfer) -> Figure:
    return plot(proof([record]))


@plot.register(DepthUse)
def _depth_use(record: DepthUse) -> Figure:
    return sheet(depth_use.panels_of(record), columns=2)


@plot.register(LawComparison)
def _laws(record: LawComparison) -> Figure:
    return sheet(laws.panels_of(record), columns=2)


@plot.register(Diffusion)
def _diffusion(record: Diffusion) -> Figure:
    return sheet(diffusion.panels_of(record), columns=2)


@plot.register(Proportional)
def _proportional(record: Proportional) -> Figure:
    return sheet(proportional.panels_of(record), columns=2)


@plot.register(Regime)
def _regime(record: Regime) -> Figure:
    return sheet([(regime.draw, (regime.regime_data(record),))], columns=1)


@plot.register(PhaseDiagram)
def _phase_diagram(record: PhaseDiagram) -> Figure:
    return sheet([(phase.draw, (phase.phase_data(record),))], columns=1)


@plot.register(Tokens)
def _tokens(record: Tokens) -> Figure:
    return tokens.figure(tokens.tokens_data(record))


@plot.register(Criticality)
def _criticality(record: Criticality) -> Figure:
    return plot(record.diagram())


def panels_of(record: Comparison) -> list[Panel]:
    """Drawing functions and their data for everything a comparison can show."""
    every = [
        (diagonal.draw, diagonal.diagonal_data([record])),
        (plane.draw, plane.plane_data(record)),
        (width.draw, width.width_data(record)),
        (depth.draw, depth.depth_data(record)),
        (agreement.draw, agreement.agreement_data(record)),
    ]
    return [(draw, (data,)) for draw, data in every if data is not None]


def sheet(panels: Iterable[Panel], columns: int) -> Figure:
    """Lay panels out on one figure, row by row."""
    from matplotlib.figure import Figure

    panels = list(panels)
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    with theme.applied():
        figure = Figure(figsize=(SIZE[0] * columns, SIZE[1] * rows), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)  # type: ignore[union-attr]
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, (draw, arguments) in zip(grid, panels, strict=False):
            draw(axes, *arguments)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
    return figure
