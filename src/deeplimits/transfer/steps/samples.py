"""Samples of a run: their record, the file that holds them, and where else they may go."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from math import isnan
from pathlib import Path
from typing import Any

from deeplimits.errors import InputError

UPDATE, LOGITS, RATE = "update", "logits", "lr"


@dataclass(frozen=True)
class Sample:
    """One number of a run.

    Attributes:
        step: of the optimizer, from 0.
        what: "update" (root mean square of a parameter's change in the step, decay included), "logits" (root mean
            square of the model's output) or "lr" (learning rate of a group).
        name: of the parameter, blocks pooled ("blocks.*.up.weight"); of a group, its first parameter.
        role: of the parameter, as in the plan.
        measured: in this run.
        unit: what `measured` is counted in: the planned learning rate times the size of the optimizer's steps.
        predicted: by the plan; NaN where nothing is predicted.
    """

    step: int
    what: str
    name: str
    role: str
    measured: float
    unit: float
    predicted: float


COLUMNS = tuple(field.name for field in fields(Sample))


def read(path: str | Path) -> list[Sample]:
    """Return the samples in a CSV file that a watch has written.

    Raises:
        InputError: it holds something else.
    """
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("watch", f"{path} cannot be read ({error})", "name a file that a watch wrote") from None
    if not rows or tuple(rows[0]) != COLUMNS:
        raise InputError("watch", f"{path} does not hold the samples of a watch", "name a file that a watch wrote")
    whole_rows = (row for row in rows[1:] if len(row) == len(COLUMNS))
    return [Sample(int(row[0]), row[1], row[2], row[3], *(float(x) for x in row[4:])) for row in whole_rows]


def sink(to: Any) -> Callable[[Sequence[Sample]], Any]:
    """Return what takes samples: it appends them to a CSV file, adds them to TensorBoard, or hands them on.

    Args:
        to: a path, an object with `add_scalar`, or a function of a list of samples.

    Raises:
        InputError: none of these, or a file that holds something else.
    """
    if isinstance(to, str | Path):
        return _file(Path(to))
    if hasattr(to, "add_scalar"):
        return lambda samples: _scalars(to, samples)
    if callable(to):
        return lambda samples: to(list(samples))
    fix = "give a CSV file, an object with add_scalar (TensorBoard's SummaryWriter), or a function of samples"
    raise InputError("watch", f"to is a {type(to).__name__}", fix)


def _scalars(writer: Any, samples: Sequence[Sample]) -> None:
    for sample in samples:
        writer.add_scalar(f"{sample.what}/{sample.name}", sample.measured, sample.step)
        if not isnan(sample.predicted):
            writer.add_scalar(f"{sample.what}/{sample.name}/predicted", sample.predicted, sample.step)
    getattr(writer, "flush", lambda: None)()


def _file(path: Path) -> Callable[[Sequence[Sample]], None]:
    """Return what appends samples to a file; a last line that a kill cut short is taken away first."""
    if path.exists() and path.stat().st_size:
        read(path)
        text = path.read_bytes()
        if not text.endswith(b"\n"):
            path.write_bytes(text[: text.rfind(b"\n") + 1])
    else:
        path.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")

    def write(samples: Sequence[Sample]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(astuple(sample) for sample in samples)
        with path.open("a", encoding="utf-8") as file:
            file.write(text.getvalue())

    return write
