"""Plans under the Trainer of transformers: its own arguments are the base's."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

from deeplimits.errors import InputError, MissingExtra
from deeplimits.integrations.groups import check
from deeplimits.transfer.plan import Plan
from deeplimits.transfer.rule import family

HERE = "integrations.trainer"


def planned(plan: Plan, trainer: type | None = None) -> type:
    """Return transformers' Trainer, or a subclass of it, that trains with a plan's parameter groups.

    `learning_rate`, `weight_decay` and `adam_epsilon` of the training arguments are the base's. Ratios of the groups
    are checked whenever the trainer logs: after a checkpoint was resumed, and under any schedule.

    Args:
        plan: of the target, applied to the model already.
        trainer: a subclass of Trainer; Trainer itself where left out.

    Raises:
        MissingExtra: transformers or accelerate is not installed.

    Source: definition.
    """
    try:
        hub: Any = import_module("transformers")  # by name: a type checker would read all of it
        accelerated = import_module("transformers.utils.import_utils").is_accelerate_available()
    except ImportError:
        raise MissingExtra(HERE, "transformers is not installed", "pip install 'deeplimits[hf]'") from None
    if not accelerated:
        raise MissingExtra(HERE, "accelerate is not installed", "pip install 'deeplimits[hf]'")
    base: Any = trainer or hub.Trainer

    class Guard(hub.TrainerCallback):
        def on_log(self, args: Any, state: Any, control: Any, **named: Any) -> None:
            if named.get("optimizer") is not None:
                check(plan, named["optimizer"], where=HERE)

    class Planned(base):
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            self.add_callback(Guard())

        def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
            if self.optimizer is None:
                trained = self.model if model is None else model
                kind, settings = self.get_optimizer_cls_and_kwargs(self.args, trained)
                self.optimizer = _optimizer(plan, trained, kind, dict(settings), self.args.weight_decay)
            return self.optimizer

    return Planned


def _optimizer(
    plan: Plan, model: Any, kind: Any, settings: dict[str, Any], weight_decay: float
) -> torch.optim.Optimizer:
    if family(kind.__name__) != family(plan.optimizer):
        why = f"the training arguments ask for {kind.__name__}, the plan is for {plan.optimizer}"
        raise InputError(HERE, why, f"make the plan with optimizer={kind.__name__.lower()!r}, or set optim= to match")
    groups = plan.param_groups(model, settings.pop("lr"), weight_decay, settings.pop("eps", None))
    return kind(groups, **settings)
