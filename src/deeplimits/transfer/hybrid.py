"""Two optimizers for one model: orthogonal steps for hidden matrices, entrywise ones for the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from deeplimits.errors import InputError
from deeplimits.transfer.numbers import Row, rates
from deeplimits.transfer.optimizer import name_of, of_torch
from deeplimits.transfer.plan import Plan
from deeplimits.transfer.rule import FAMILIES


def optimizers(
    plan: Plan,
    model: nn.Module,
    lr: Mapping[str, float],
    matrices: str = "muon",
    rest: str = "adamw",
    weight_decay: float = 0.0,
    choose: Callable[[Row], bool] | None = None,
) -> dict[str, torch.optim.Optimizer]:
    """Return {"muon": ..., "adamw": ...}, with the plan's numbers for each, whatever optimizer the plan was made for.

    Hidden matrices of two dimensions go to the first: those that grow in fan-in and fan-out, and those in lists of
    blocks where nothing grows. Embeddings, readouts, experts of three dimensions, gains and biases go to the second;
    gains and biases do not decay.

    Args:
        plan: of the target.
        model: the target.
        lr: the base's learning rates, {matrices: rate, rest: rate}.
        matrices: "muon" or "muon:match_rms_adamw" (torch.optim.Muon), or another name of torch.optim.
        rest: a name of torch.optim.
        weight_decay: the base's.
        choose: which rows go to the first instead.

    Raises:
        InputError: a learning rate is missing, or no parameter is left for one of them.
    """
    if not isinstance(lr, Mapping):
        why = f"lr={lr!r}: the two optimizers have learning rates of their own"
        raise InputError("plan.optimizers", why, f"pass lr={{{matrices!r}: ..., {rest!r}: ...}}")
    for name in (matrices, rest):
        if name not in lr:
            raise InputError(
                "plan.optimizers", f"lr has no rate for {name!r}", f"pass lr={{{matrices!r}: ..., {rest!r}: ...}}"
            )
    first = [row for row in plan.rows if (choose or _hidden)(row)]
    names = {row.name for row in first}
    second = [row for row in plan.rows if row.name not in names]
    if not first or not second:
        why = f"{len(first)} parameters for {matrices} and {len(second)} for {rest}"
        raise InputError("plan.optimizers", why, "choose rows with choose=, or use plan.param_groups for one optimizer")
    found = {}
    for name, rows in ((matrices, first), (rest, second)):
        part = _tuned(plan, name, rows)
        groups = [group for group in part.param_groups(model, lr[name], weight_decay, partial=True) if group["params"]]
        found[name] = of_torch(name.partition(":")[0], "plan.optimizers")(groups, **_options(name))
    return found


def of(plan: Plan, optimizer: torch.optim.Optimizer) -> Plan:
    """Return the plan with the numbers for an optimizer in use; the plan itself where its name is not known.

    Args:
        plan: of the target.
        optimizer: whose groups carry names of parameters.
    """
    name = name_of(optimizer)
    if name == plan.optimizer.lower() or not any(name in (kind, *members) for kind, members in FAMILIES.items()):
        return plan
    held = {member for group in optimizer.param_groups for member in group.get("param_names", ())}
    return _tuned(plan, name, [row for row in plan.rows if row.name in held])


def _tuned(plan: Plan, optimizer: str, rows: list[Row]) -> Plan:
    new = []
    for row in rows:
        found = rates(row, plan.parametrization, optimizer, plan.decay, plan.budget)
        new.append(replace(row, lr_mult=found.lr, eps_mult=found.eps, decay_mult=found.decay))
    return replace(plan, optimizer=optimizer, rows=tuple(new))


def _hidden(row: Row) -> bool:
    numbered = any(part.isdigit() for part in row.name.split("."))
    return len(row.shape) == 2 and (row.role == "hidden" or (row.role == "fixed matrix" and numbered))


def _options(name: str) -> dict[str, Any]:
    mode = name.partition(":")[2]
    return {"adjust_lr_fn": mode} if mode else {}
