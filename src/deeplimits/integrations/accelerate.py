"""Plans under accelerate: one call from a planned model to what `Accelerator.prepare` returns."""

from __future__ import annotations

from typing import Any

from torch import nn

from deeplimits.integrations.groups import check, numbers
from deeplimits.transfer.plan import Plan
from deeplimits.transfer.steps.optimizer import of_torch

HERE = "integrations.accelerate"


def prepare(
    plan: Plan,
    accelerator: Any,
    model: nn.Module,
    *others: Any,
    lr: float,
    weight_decay: float = 0.0,
    eps: float | None = None,
    **settings: Any,
) -> tuple[Any, ...]:
    """Prepare a planned model, torch's optimizer of the plan's name and whatever else, and check the groups.

    Args:
        plan: of the target, applied to the model already.
        accelerator: accelerate's Accelerator, on one process or many, DDP, FSDP or DeepSpeed.
        model: the target.
        others: data loaders and the like.
        lr: the base's learning rate.
        weight_decay: the base's weight decay.
        eps: the base's epsilon.
        settings: put into every group.

    Returns:
        model, optimizer, and the others.

    Raises:
        InputError: what was prepared lost names or numbers.

    Source: definition.
    """
    groups = plan.param_groups(model, lr, weight_decay, eps, **settings)
    given, optimizer = numbers(groups), of_torch(plan.optimizer.partition(":")[0], HERE)(groups)
    found = accelerator.prepare(model, optimizer, *others)
    check(plan, found[1], given, HERE)
    return found
