"""`dl.plot`: one figure of a record, chosen by the record's type."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import singledispatch
from importlib import import_module
from typing import TYPE_CHECKING, Any

from deeplimits.errors import InputError
from deeplimits.report import theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Panel = tuple[Callable[..., None], tuple[Any, ...]]
SIZE = (4.25, 3.55)

_DRAWN = {
    "claims.claim.Finding": "claims",
    "diagnostics.record.DepthUse": "figures.depth_use",
    "limits.corrections.posterior_record.PosteriorKernel": "figures.posterior",
    "limits.corrections.record.CorrectedKernel": "figures.corrected_kernel",
    "limits.diffusion.record.Diffusion": "figures.diffusion",
    "limits.diffusion.regime.Regime": "figures.regime",
    "limits.flow.criticality.Criticality": "figures.phase",
    "limits.flow.phase_diagram.PhaseDiagram": "figures.phase",
    "limits.proportional.record.Proportional": "figures.proportional",
    "limits.tokens.record.Tokens": "figures.tokens",
    "limits.training.branches.record.MeanODE": "figures.mean_ode",
    "limits.training.linear.best_rate_record.BestRates": "figures.best_rates",
    "limits.training.linear.record.DeepLinear": "figures.deep_linear",
    "limits.training.mean_field.record.MeanField": "figures.mean_field",
    "limits.training.lazy.record.GradientFlow": "figures.gradient_flow",
    "limits.training.one_hidden.record.OneHidden": "figures.one_hidden",
    "limits.training.one_hidden.maml.Maml": "figures.one_hidden",
    "limits.training.one_hidden.projected.Projected": "figures.one_hidden",
    "limits.training.one_hidden.word2vec.Word2vec": "figures.one_hidden",
    "plane.law_record.LawComparison": "figures.laws",
    "plane.record.Comparison": "figures.comparison",
    "plane.training_record.TrainingComparison": "figures.training",
    "transfer.evidence.coordinates.CoordinateCheck": "transfer",
    "transfer.evidence.curves.Transfer": "transfer",
    "transfer.evidence.proof.Proof": "transfer",
}
"""{type of a record: module of this package whose `panels_of(record)`, or `figure(record)`, draws it}."""


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
    for kind in type(record).__mro__:
        if home := _DRAWN.get(f"{kind.__module__}.{kind.__qualname__}".removeprefix("deeplimits.")):
            drawn = import_module(f"deeplimits.report.{home}")
            return drawn.figure(record) if hasattr(drawn, "figure") else sheet(drawn.panels_of(record), columns=2)
    why = f"a {type(record).__name__} has no figure"
    raise InputError(
        "plot", why, "pass what dl.compare returned, or register a drawing with deeplimits.report.plot.register"
    )


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
