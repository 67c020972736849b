"""A comparison of training as rows and as text."""

from __future__ import annotations

from typing import Any

from deeplimits.plane.law_table import aligned, wrap
from deeplimits.plane.training_record import TrainingComparison, TrainingPlace

HEADER = (
    "width",
    "depth",
    "step",
    "loss",
    "predicted",
    "mean",
    "by noise",
    "standard deviation",
    "by noise",
    "deviation",
)


def rows(record: TrainingComparison) -> list[dict[str, Any]]:
    """Return one flat {column: number} for each place and kept step."""
    found = []
    for place in record.places:
        for index, step in enumerate(record.times):
            row: dict[str, Any] = {
                "width": place.width, "depth": place.depth, "networks": place.networks, "diverged": place.diverged,
                "step": step, "loss": place.loss[index], "loss_error": place.loss_error[index],
                "predicted_loss": place.predicted_loss[index],
            }  # fmt: skip
            for column in range(len(place.measured.mean[0])):
                for name in ("mean", "spread"):
                    row[f"{name}_{column}"] = getattr(place.measured, name)[index][column]
                    row[f"{name}_error_{column}"] = getattr(place.measured, f"{name}_error")[index][column]
                    row[f"predicted_{name}_{column}"] = getattr(place.predicted, name)[index][column]
            found.append(row)
    return found


def cells(record: TrainingComparison, place: TrainingPlace) -> list[str]:
    """Return one line of the table: the last loss, and distances to the limit with what sampling alone gives."""
    found = [str(place.width), str(place.depth), str(record.times[-1])]
    found += [f"{place.loss[-1]:.3g}±{place.loss_error[-1]:.1g}", f"{place.predicted_loss[-1]:.3g}"]
    for gap in place.gaps:
        found += [f"{gap.distance:.3f}", f"{gap.noise:.3f}"]
    return [*found, f"{place.deviation:.3f}±{place.deviation_error:.1g}"]


def table(record: TrainingComparison) -> list[list[str]]:
    """Return the lines of the table."""
    return [cells(record, place) for place in record.places]


def heading(record: TrainingComparison) -> str:
    """Return the sizes in words."""
    tests = f" and {record.tests} test inputs" if record.tests else ""
    return (
        f"{record.inputs} inputs{tests} of {record.features} features, {record.times[-1]} steps of rate "
        f"{record.rate:g}, {record.networks} networks a place, seed {record.seed}"
    )


def where(record: TrainingComparison) -> str:
    """Return which limit in words."""
    return "training, lazy limit" if record.gamma is None else f"training, mean-field limit of gamma {record.gamma:g}"


def call(record: TrainingComparison) -> str:
    """Return the line of Python that makes the record again."""
    options = [f"rate={record.rate:g}", f"steps={record.times[-1]}"]
    options += [f"momentum={record.momentum:g}"] if record.momentum else []
    options += [] if record.gamma is None else [f"gamma={record.gamma:g}"]
    tests = ", X_test=X_test" if record.tests else ""
    return (
        f"dl.compare({record.network}, X, widths={record.widths}, depths={record.depths}, networks={record.networks}, "
        f"seed={record.seed}, y=y{tests}, training=dl.training.Descent({', '.join(options)}))"
    )


def summary(record: TrainingComparison) -> str:
    """Return the table of places and the verdict in words."""
    parts = [wrap(record.network), wrap(f"{where(record)}: {heading(record)}"), ""]
    parts += [*aligned([list(HEADER), *table(record)]), ""]
    parts += [wrap(f"note: {note}") for note in record.notes]
    parts += [wrap(f"test: {record.verdict.test}"), ""]
    parts.append(wrap(f"VERDICT: {record.verdict.word.upper()} (the predicted training). {record.verdict.reason}."))
    return "\n".join(parts)
