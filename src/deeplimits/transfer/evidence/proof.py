"""What shows that settings carry over from a small model to a large one: plan, coordinate checks, sweeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deeplimits.errors import InputError
from deeplimits.transfer.evidence.coordinates import CoordinateCheck
from deeplimits.transfer.evidence.curves import Transfer
from deeplimits.transfer.numbers import as_dict
from deeplimits.transfer.plan import Plan


@dataclass(frozen=True)
class Proof:
    """Everything measured about one model, for one page. The first of each kind is of the rule in question.

    Attributes:
        name: of the model.
        plan: of the rule in question; None where none was made.
        checks: coordinate checks, a rule each.
        transfers: sweeps, a rule each.
    """

    name: str
    plan: Plan | None = None
    checks: tuple[CoordinateCheck, ...] = field(default=())
    transfers: tuple[Transfer, ...] = field(default=())


def plain(plan: Plan) -> dict[str, Any]:
    """Return a plan as plain data."""
    fields = {key: dict(value) if isinstance(value, Mapping) else value for key, value in vars(plan).items()}
    return {**fields, "rows": [as_dict(row) for row in plan.rows]}


def proof(records: Iterable[Any], name: str = "a model") -> Proof:
    """Put plans, coordinate checks and sweeps together, in their order.

    Raises:
        InputError: a record of another type, or none.
    """
    kinds: dict[type, list[Any]] = {Plan: [], CoordinateCheck: [], Transfer: []}
    for record in records:
        if type(record) not in kinds:
            fix = "pass plans, coordinate checks and sweeps"
            raise InputError("proof", f"a {type(record).__name__} is none of them", fix)
        kinds[type(record)].append(record)
    if not any(kinds.values()):
        raise InputError("proof", "no records", "pass plans, coordinate checks and sweeps")
    return Proof(name, next(iter(kinds[Plan]), None), tuple(kinds[CoordinateCheck]), tuple(kinds[Transfer]))
