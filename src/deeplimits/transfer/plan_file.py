"""Plans as files of JSON."""

from __future__ import annotations

import json
from pathlib import Path

from deeplimits.errors import InputError
from deeplimits.transfer.numbers import Row, as_dict
from deeplimits.transfer.plan import Plan

FORMAT = 3


def save(plan: Plan, path: str | Path) -> None:
    """Write a plan.

    Args:
        plan: to write.
        path: of the file.
    """
    content = {**vars(plan), "format": FORMAT, "rows": [as_dict(row) for row in plan.rows]}
    content |= {key: dict(content[key]) for key in ("base", "target", "initial", "scales")}
    Path(path).write_text(json.dumps(content, indent=1), encoding="utf-8")


def load(path: str | Path) -> Plan:
    """Read a plan.

    Args:
        path: of the file.

    Raises:
        InputError: it cannot be read, or holds something else.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        fix = "name a file that plan.save wrote"
        raise InputError("Plan.load", f"{path} cannot be read ({error})", fix) from None
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise InputError("Plan.load", f"{path} is not a plan of this version", "make it again with dl.transfer")
    lists = ("shape", "base_shape", "parts")
    rows = tuple(Row(**row | {name: tuple(row[name]) for name in lists}) for row in content.pop("rows"))
    pairs = {name: content[name] and tuple(content[name]) for name in ("batch", "tokens")}
    return Plan(**{**content, **pairs, "rows": rows, "notes": tuple(content["notes"])})
