"""The static audit of a plan: what share of the model scales, in which roles, and what does not."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from deeplimits.transfer.anatomy.names import in_words, stacks
from deeplimits.transfer.plan import Plan

SHARE = "stand in dimensions that grow"


@dataclass(frozen=True)
class Audit:
    """What a plan scales, before anything is trained.

    Attributes:
        rule: the parametrization.
        optimizer: that the numbers are for.
        base, target: sizes, in words.
        values: number of trainable values of the target.
        growing: share of them, from 0 to 1, in tensors with a fan-in or fan-out that grows.
        deeper: share of them in blocks whose number changes.
        roles: (role, tensors, values), the largest first.
        branches: tensors that end residual branches, and carry their factor.
        fixed: matrices inside blocks that do not grow while others do.
        notes: of the plan.
    """

    rule: str
    optimizer: str
    base: str
    target: str
    values: int
    growing: float
    deeper: float
    roles: tuple[tuple[str, int, int], ...]
    branches: int
    fixed: tuple[str, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.rule}, {self.optimizer}, from {self.base} to {self.target}: {self.values:,} values"]
        lines.append(f"  {self.growing:.1%} in dimensions that grow, {self.deeper:.1%} in blocks whose number changes")
        lines += [f"  {role}: {tensors} tensors, {values / self.values:.1%}" for role, tensors, values in self.roles]
        lines += [f"  {self.branches} tensors end residual branches"] if self.branches else []
        return "\n".join(lines + [f"  {note}" for note in self.notes])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def audit(plan: Plan) -> Audit:
    """Look through a plan.

    Example:
        >>> from torch import nn
        >>> from deeplimits.transfer.make import transfer
        >>> build = lambda width: nn.Sequential(nn.Linear(5, width), nn.ReLU(), nn.Linear(width, 2))
        >>> found = audit(transfer(build, dict(width=32), dict(width=64), "mup"))
        >>> f"{found.growing:.3f}", [role for role, *_ in found.roles]
        ('0.996', ['input', 'output', 'gain or bias', 'fixed vector'])
    """
    sizes = [(row, prod(row.shape)) for row in plan.rows]
    total = sum(size for _, size in sizes)
    grows = [row for row in plan.rows if row.fan_in_ratio != 1 or row.fan_out_ratio != 1]
    of = lambda rows: sum(prod(row.shape) for row in rows) / total
    roles = {row.role: 0 for row in plan.rows}
    counts = {role: sum(row.role == role for row in plan.rows) for role in roles}
    for row, size in sizes:
        roles[row.role] += size
    blocks = stacks(row.name for row in plan.rows)
    inside = lambda row: any(row.name.startswith(f"{prefix}.") for prefix in blocks)
    fixed = [row.name for row in plan.rows if grows and row.role == "fixed matrix" and inside(row)]
    return Audit(
        plan.rule,
        plan.optimizer,
        in_words(plan.base),
        in_words(plan.target),
        total,
        of(grows),
        of([row for row in plan.rows if row.depth_ratio != 1]),
        tuple(sorted(((role, counts[role], size) for role, size in roles.items()), key=lambda entry: -entry[2])),
        sum(row.branch_output for row in plan.rows),
        tuple(fixed),
        tuple(note for note in plan.notes if SHARE not in note),
    )
