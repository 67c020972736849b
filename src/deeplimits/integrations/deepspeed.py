"""Plans under DeepSpeed: the base's own configuration, and parameter groups that come through unchanged."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import nn

from deeplimits.errors import InputError, MissingExtra
from deeplimits.integrations.groups import check, numbers
from deeplimits.transfer.plan import Plan
from deeplimits.transfer.rule import family
from deeplimits.transfer.steps.optimizer import of_torch

BOUNDS = ("warmup_min_lr", "warmup_max_lr", "cycle_min_lr", "cycle_max_lr", "lr_range_test_min_lr")
HERE = "integrations.deepspeed"


def apply(plan: Plan, model: nn.Module, initial: bool) -> Plan:
    """Rescale, as `plan.apply` does, a fresh model whose parameters ZeRO stage 3 has partitioned (`zero.Init`).

    One parameter at a time is gathered; every process must call this. A model that is not partitioned yet needs
    `plan.apply` only, before the engine is made.

    Args:
        plan: of the target.
        model: the target, its parameters partitioned or not.
        initial: must be True, to say that the weights are initial.

    Raises:
        InputError: as in `plan.apply`.
        MissingExtra: DeepSpeed is not installed.

    Source: rajbhandari-2021-zero-infinity (the partition); definition (what is rescaled).
    """
    zero = _deepspeed().zero
    return plan.apply(model, initial, hold=lambda parameter: zero.GatheredParameters([parameter], modifier_rank=0))


def initialize(
    plan: Plan,
    model: nn.Module,
    config: Mapping[str, Any] | str | Path,
    lr: float,
    weight_decay: float = 0.0,
    eps: float | None = None,
    **settings: Any,
) -> tuple[Any, Any, Any, Any]:
    """Make a DeepSpeed engine that trains a planned model, and check that the engine keeps the plan's numbers.

    Learning rates that the configuration's scheduler names (WarmupLR's `warmup_max_lr`, OneCycle's `cycle_max_lr`) are
    the base's: every group gets its own. An optimizer in the configuration is made from the plan's groups, whose own
    learning rates, epsilons and decays win over its "params"; without one, torch's optimizer of the plan's name is.
    DeepSpeed clips gradients at norm 1 where the configuration does not say `gradient_clipping`.

    Args:
        plan: of the target, applied to the model already.
        model: the target.
        config: DeepSpeed's configuration as for the base, or the file that holds it.
        lr: the base's learning rate.
        weight_decay: the base's weight decay.
        eps: the base's epsilon.
        settings: passed on to `deepspeed.initialize`.

    Returns:
        engine, optimizer, data loader, scheduler, as `deepspeed.initialize` returns them.

    Raises:
        InputError: an optimizer of another family than the plan's, or an engine that lost names or numbers.
        MissingExtra: DeepSpeed is not installed.

    Source: rajbhandari-2021-zero-infinity.
    """
    deepspeed = _deepspeed()
    held = dict(config) if isinstance(config, Mapping) else json.loads(Path(config).read_text(encoding="utf-8"))
    groups = plan.param_groups(model, lr, weight_decay, eps)
    given = numbers(groups)
    held = scheduled(held, [float(group["lr"]) / lr for group in groups])
    if "optimizer" in held:
        _check_kind(plan, held["optimizer"].get("type", ""))
        settings["model_parameters"] = groups
    else:
        settings["optimizer"] = of_torch(plan.optimizer.partition(":")[0], HERE)(groups)
    found = deepspeed.initialize(model=model, config=held, **settings)
    check(plan, found[1], given, HERE)
    return found


def scheduled(config: Mapping[str, Any], multipliers: Sequence[float]) -> dict[str, Any]:
    """Return a configuration whose scheduler has a list of learning rates, one a group, where it had one number.

    Args:
        config: DeepSpeed's.
        multipliers: of the groups' learning rates.

    Example:
        >>> scheduled({"scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.5}}}, [1.0, 0.25])
        {'scheduler': {'type': 'WarmupLR', 'params': {'warmup_max_lr': [0.5, 0.125]}}}
    """
    if "scheduler" not in config:
        return dict(config)
    params = dict(config["scheduler"].get("params", {}))
    for key in BOUNDS:
        if isinstance(params.get(key), int | float):
            params[key] = [params[key] * multiplier for multiplier in multipliers]
    return {**config, "scheduler": {**config["scheduler"], "params": params}}


def _check_kind(plan: Plan, kind: str) -> None:
    if kind.lower() == "muon":
        why = "the configuration's optimizer Muon builds parameter groups of its own"
        fix = "leave it out and pass one of plan.optimizers(model, lr=...), or take AdamW"
        raise InputError(HERE, why, fix)
    if family(kind.removeprefix("OneBit").removeprefix("ZeroOne")) != family(plan.optimizer):
        why = f"the configuration's optimizer is {kind}, the plan is for {plan.optimizer}"
        raise InputError(HERE, why, f"make the plan with optimizer={kind.lower()!r}")


def _deepspeed() -> Any:
    try:
        return import_module("deepspeed")
    except ImportError:
        raise MissingExtra(HERE, "DeepSpeed is not installed", "pip install 'deeplimits[deepspeed]'") from None
