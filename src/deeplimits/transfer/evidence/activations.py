"""What comes out of a model's modules while it is trained for a few steps, and by how much training changed it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from deeplimits.errors import InputError
from deeplimits.transfer.anatomy.inputs import call, example
from deeplimits.transfer.anatomy.names import bare, stacks
from deeplimits.transfer.anatomy.uses import Watch
from deeplimits.transfer.plan import Plan
from deeplimits.transfer.rule import family
from deeplimits.transfer.steps.optimizer import base_groups, of_torch

Batch = tuple[Any, torch.Tensor] | Callable[[int], tuple[Any, torch.Tensor]]
Sizes = dict[str, tuple[float, float]]
"""{module: (root mean square of its output, root mean square of what training changed in it)}."""


def followed(
    model: nn.Module, plan: Plan | None, optimizer: str, lr: float, steps: int, batch: Batch | None, seed: int
) -> list[Sizes]:
    """Train a fresh model for a few steps on one batch; returns sizes before training and after every step.

    Before training the readout has its own initial values; then it starts from zero, so that the change of the logits
    is not mixed with their initial size.

    Args:
        model: fresh; rescaled here.
        plan: of the model; None for the base.
        optimizer: a name of torch.optim.
        lr: of the base.
        steps: of training.
        batch: (inputs, labels) or a function of the seed that returns them; made from the first layer where left out.
        seed: of the batch.
    """
    if plan is not None:
        plan.apply(model, initial=True)
    inputs, labels = _given(batch, seed) if batch is not None else _random(model, seed)
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.eval()
    trainer = of_torch(optimizer, "coordinate_check")(_groups(model, plan, optimizer, lr))
    own = outputs(model, inputs)
    silence(model, inputs)
    before = outputs(model, inputs)
    found = [{name: (_size(value), 0.0) for name, value in own.items()}]
    for _ in range(steps):
        trainer.zero_grad()
        _loss(call(model, inputs), labels).backward()
        trainer.step()
        after = outputs(model, inputs)
        found.append({name: (_size(after[name]), _size(after[name] - before[name])) for name in before})
    return found


def outputs(model: nn.Module, inputs: Any) -> dict[str, torch.Tensor]:
    """Return {module: output} of the modules outside blocks, and of the block in the middle and the last one.

    A module that is called again has an entry a call: "act", "act (call 2)".
    """
    found: dict[str, torch.Tensor] = {}
    calls: Counter[str] = Counter()
    lists = {prefix: max(of) for prefix, of in stacks(name for name, _ in model.named_modules()).items()}

    def keep(name: str) -> Any:
        def hook(module: nn.Module, given: Any, result: Any) -> None:
            first = result[0] if isinstance(result, tuple | list) else getattr(result, "logits", result)
            if isinstance(first, torch.Tensor) and first.is_floating_point():
                calls[name] += 1
                found[name if calls[name] == 1 else f"{name} (call {calls[name]})"] = first.detach().double()

        return hook

    handles = []
    for name, module in model.named_modules():
        title = shown(name, lists)
        if title is not None and not isinstance(module, nn.ModuleList):
            handles.append(module.register_forward_hook(keep(title or "logits")))
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # the same noise every time, in models that draw some
            call(model, inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found


def shown(name: str, lists: Mapping[str, int]) -> str | None:
    """Return a module's name with its block called middle or last; None for the other blocks.

    Half of all blocks lie before a module inside the middle block, and before the output of the middle block: these
    are two blocks, so that their place in the stream does not move with the depth.

    Example:
        >>> [shown(name, {"blocks": 7}) for name in ("blocks.3", "blocks.4.norm", "blocks.7", "blocks.2", "head")]
        ['blocks.middle', 'blocks.middle.norm', 'blocks.last', None, 'head']
    """
    parts, prefix = name.split("."), ""
    for place, part in enumerate(parts):
        if part.isdigit() and lists.get(prefix, 0) > 0:
            inside = place + 1 < len(parts)
            known = {(lists[prefix] + inside) // 2: "middle", lists[prefix]: "last"}
            if int(part) not in known:
                return None
            parts[place] = known[int(part)]
        prefix = f"{prefix}.{part}" if prefix else part
    return ".".join(parts)


def silence(model: nn.Module, inputs: Any) -> None:
    """Set the readout, the last matrix of the forward pass outside all blocks, to zero."""
    with torch.no_grad(), Watch(model) as watch:
        call(model, inputs)
    own = {bare(name): parameter for name, parameter in model.named_parameters()}
    last = [name for name in watch.order if own[bare(name)].dim() > 1 and bare(name) not in watch.twice][-1]
    with torch.no_grad():
        own[bare(last)].zero_()


def _groups(model: nn.Module, plan: Plan | None, optimizer: str, lr: float) -> list[dict[str, Any]]:
    if plan is None:
        return base_groups(model, lr)
    left_out = {"param_names"} | ({"eps"} if family(optimizer) == "sgd" else set())
    return [{k: v for k, v in group.items() if k not in left_out} for group in plan.param_groups(model, lr=lr)]


def _given(batch: Batch, seed: int) -> tuple[Any, torch.Tensor]:
    return batch(seed) if callable(batch) else batch


def _random(model: nn.Module, seed: int) -> tuple[Any, torch.Tensor]:
    inputs = example(model)
    with torch.no_grad():
        logits = call(model, inputs)
    generator = torch.Generator().manual_seed(seed)
    return inputs, torch.randint(logits.shape[-1], logits.shape[:-1], generator=generator)


def _loss(output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy of class labels, or the mean square error of real ones."""
    if labels.is_floating_point():
        return nn.functional.mse_loss(output, labels)
    if labels.numel() * output.shape[-1] != output.numel():
        why = f"labels of shape {tuple(labels.shape)} do not fit an output of shape {tuple(output.shape)}"
        raise InputError("coordinate_check", why, "give class labels for every place, or targets shaped as the output")
    return nn.functional.cross_entropy(output.flatten(0, -2), labels.flatten())


def _size(value: torch.Tensor) -> float:
    return float(value.square().mean().sqrt())
