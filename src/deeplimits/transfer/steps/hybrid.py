"""Two optimizers for one model: orthogonal steps for hidden matrices, entrywise ones for the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from deeplimits.errors import InputError
from deeplimits.transfer.numbers import Row, rates
from deeplimits.transfer.plan import Plan
from deeplimits.transfer.rule import FAMILIES
from deeplimits.transfer.steps.optimizer import name_of, of_torch
from deeplimits.transfer.steps.split_muon import SplitMuon

FUSED = re.compile(r"qkv|c_attn|query_key_value|in_proj_weight|gate_up|kv_proj|w12", re.IGNORECASE)
"""Names of parameters that hold several matrices side by side, as libraries call them."""

Split = Mapping[str, int | Sequence[int]]


def optimizers(
    plan: Plan,
    model: nn.Module,
    lr: Mapping[str, float],
    matrices: str = "muon",
    rest: str = "adamw",
    weight_decay: float = 0.0,
    choose: Callable[[Row], bool] | None = None,
    split: Split | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, torch.optim.Optimizer]:
    """Return {"muon": ..., "adamw": ...}, with the plan's numbers for each, whatever optimizer the plan was made for.

    Hidden matrices of two dimensions go to the first: those that grow in fan-in and fan-out, and those in lists of
    blocks where nothing grows. Embeddings, readouts, stacks of experts, gains and biases go to the second; gains and
    biases do not decay. Stacks that `choose` sends to Muon are made orthogonal expert by expert.

    A parameter that holds several matrices, as query, key and value side by side, is not one matrix to Muon: those
    that give several of these in the forward pass, or are called so, are refused until `split` says what their parts
    are.

    Args:
        plan: of the target.
        model: the target.
        lr: the base's learning rates, {matrices: rate, rest: rate}.
        matrices: "muon" or "muon:match_rms_adamw" (torch.optim.Muon), or another name of torch.optim.
        rest: a name of torch.optim.
        weight_decay: the base's.
        choose: which rows go to the first instead.
        split: {part of a name: number of equal parts, or their sizes} of parameters whose consecutive outputs belong to
            different matrices; 1 makes the whole orthogonal (as where heads are interleaved).
        settings: {matrices or rest: more settings of its optimizer}, as {"adamw": {"betas": (0.9, 0.95)}}.

    Raises:
        InputError: a learning rate is missing, no parameter is left for one of them, a parameter that holds several
            matrices, or parts that do not fit.
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
    unused = [key for key in split or {} if not any(key in row.name for row in first)]
    if unused:
        why = f"no parameter for {matrices} has {unused[0]!r} in its name"
        raise InputError("plan.optimizers", why, "name a part of a parameter's name, as in plan.rows")
    found = {}
    for name, rows in ((matrices, first), (rest, second)):
        kind = of_torch(name.partition(":")[0], "plan.optimizers")
        sets, groups = {None: rows}, []
        if issubclass(kind, torch.optim.Muon):
            sets = _sets(rows, split or {})
            kind = SplitMuon if set(sets) != {None} or any(len(row.shape) > 2 for row in rows) else kind
        for parts, same in sets.items():
            own = dict((settings or {}).get(name, {}))
            own |= {} if parts is None else {"parts": parts[0], "part_dim": parts[1]}
            groups += _tuned(plan, name, same).param_groups(model, lr[name], weight_decay, partial=True, **own)
        found[name] = kind([group for group in groups if group["params"]], **_options(name))
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


def _sets(rows: list[Row], split: Split) -> dict[Any, list[Row]]:
    """Return {(sizes of parts, their dimension): rows}, None for rows of one matrix each."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        key = next((key for key in split if key in row.name), None)
        if len(row.shape) not in (2, 3):
            why = f"{row.name} of shape {row.shape} is neither a matrix nor a stack of them"
            raise InputError("plan.optimizers", why, "leave it to the other optimizer with choose=")
        if key is None and (row.parts or FUSED.search(row.name)):
            why = f"{row.name} of shape {row.shape} holds several matrices, which Muon would take for one"
            own = row.parts if sum(row.parts) == row.fan_out else 3
            own = len(own) if isinstance(own, tuple) and len(set(own)) == 1 else own
            fix = f"pass split={{{row.name!r}: {own}}} or whatever its parts are, their sizes, or 1 for the whole"
            raise InputError("plan.optimizers", why, fix)
        found.setdefault(None if key is None else _parts(row, split[key]), []).append(row)
    return found


def _parts(row: Row, split: int | Sequence[int]) -> tuple[tuple[int, ...], int] | None:
    if split == 1:
        return None
    equal = isinstance(split, int)
    sizes = (row.fan_out // max(split, 1),) * split if equal else tuple(split)
    if sum(sizes) != row.fan_out or min(sizes) < 1:
        why = f"split={split!r} does not add up to the {row.fan_out} outputs of {row.name}"
        raise InputError("plan.optimizers", why, "give a number that divides them, or the sizes of all parts")
    return sizes, 0 if row.shape[-2] == row.fan_out else 1


def _hidden(row: Row) -> bool:
    numbered = any(part.isdigit() for part in row.name.split("."))
    return len(row.shape) == 2 and (row.role == "hidden" or (row.role == "fixed matrix" and numbered))


def _options(name: str) -> dict[str, Any]:
    mode = name.partition(":")[2]
    return {"adjust_lr_fn": mode} if mode else {}
