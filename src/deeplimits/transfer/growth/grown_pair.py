"""A small model and the wide one made from it: filled, run, and compared."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from deeplimits.errors import InputError
from deeplimits.transfer.anatomy.inputs import call
from deeplimits.transfer.anatomy.names import bare
from deeplimits.transfer.anatomy.trial import PRECISIONS
from deeplimits.transfer.growth.widen import Widening

TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-3}


class Pair:
    """Both models, and trials of them on copies.

    Args:
        small: the model that was trained.
        large: the model that takes its values.
        split: how unequal the shares of copies are.
        seed: of the shares.
    """

    def __init__(self, small: nn.Module, large: nn.Module, split: float, seed: int):
        self.small, self.large, self.split, self.seed = small, large, split, seed

    def fill(self, widenings: Mapping[str, Widening]) -> None:
        """Put the small model's values, copied, into the large one."""
        _fill(self.small, self.large, widenings, self.split, self.seed)

    def trial(self, widenings: Mapping[str, Widening], dtype: torch.dtype) -> tuple[nn.Module, nn.Module]:
        """Return copies of both, the large one filled."""
        small, large = (copy.deepcopy(model).to(dtype).eval() for model in (self.small, self.large))
        _fill(small, large, widenings, self.split, self.seed)
        return small, large

    def error(self, widenings: Mapping[str, Widening], inputs: Any) -> float | None:
        """Return the largest difference of the outputs over their largest entry; None where they are not equal."""
        for dtype in PRECISIONS:
            try:
                with torch.no_grad():
                    one, other = (call(model, inputs) for model in self.trial(widenings, dtype))
            except RuntimeError as error:  # some operations exist in float32 only
                if dtype != PRECISIONS[-1]:
                    continue
                why = f"a forward pass fails on the inputs that were tried ({error})"
                raise InputError("grow", why, "pass inputs=, as for model(inputs)") from error
            if one.shape != other.shape:
                why = f"outputs have shape {tuple(one.shape)} in the small model and {tuple(other.shape)} in the large"
                raise InputError("grow", why, "widen hidden dimensions only")
            gap = float((one - other).abs().max() / one.abs().max().clamp_min(1e-300))
            return gap if gap <= TOLERANCES[dtype] else None
        return None

    def refusal(self, widenings: Mapping[str, Widening], inputs: Any) -> InputError:
        """Return the error that names the module where the models part."""
        models = self.trial(widenings, PRECISIONS[-1])
        with torch.no_grad():
            one, other = (_outputs(model, inputs) for model in models)
        odd = next((name for name, value in one.items() if not _copied(value, other.get(name), name, widenings)), "")
        kind = type(self.small.get_submodule(odd)).__name__
        why = f"the outputs cannot be kept: copies part at {odd or 'the output'} ({kind})"
        fix = "keep the size of heads and the number of copies in a norm's group, take factors of the width out of "
        return InputError("grow", why, f"{fix}forward passes, or pass parts={{name: number}} for fused matrices")


def _fill(small: nn.Module, large: nn.Module, widenings: Mapping[str, Widening], split: float, seed: int) -> None:
    values = {bare(name): p for name, p in small.named_parameters()}
    kept = {bare(name): b for name, b in small.named_buffers()}
    with torch.no_grad():
        for name, p in large.named_parameters():
            p.copy_(widenings[bare(name)].values(values[bare(name)].detach(), split, seed))
        for name, buffer in large.named_buffers():
            if (own := kept.get(bare(name))) is not None:
                buffer.copy_(Widening(name, tuple(own.shape), tuple(buffer.shape)).checked().copies(own))


def _outputs(model: nn.Module, inputs: Any) -> dict[str, torch.Tensor]:
    """Return {module: first output} of the modules that hold no others, in the order of the forward pass."""
    found: dict[str, torch.Tensor] = {}

    def keep(name: str) -> Any:
        def hook(module: nn.Module, given: Any, result: Any) -> None:
            first = result[0] if isinstance(result, tuple | list) else result
            if isinstance(first, torch.Tensor) and first.is_floating_point():
                found.setdefault(name, first.detach())

        return hook

    leaves = [(name, module) for name, module in model.named_modules() if not any(module.children())]
    handles = [module.register_forward_hook(keep(bare(name))) for name, module in leaves]
    try:
        call(model, inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _copied(one: torch.Tensor, other: torch.Tensor | None, name: str, widenings: Mapping[str, Widening]) -> bool:
    """Say whether a module's output in the large model is that of the small one, copied."""
    if other is None or one.dim() != other.dim():
        return True
    weight = widenings.get(f"{name}.weight")
    shared = Widening(name, tuple(one.shape), tuple(other.shape)).ratios
    if any(n != o * ratio for o, n, ratio in zip(one.shape, other.shape, shared, strict=True)):
        return True
    if weight is not None and weight.parts > 1:
        return True
    wanted = Widening(name, tuple(one.shape), tuple(other.shape)).copies(one)
    return bool((wanted - other).abs().max() <= TOLERANCES[PRECISIONS[-1]] * one.abs().max().clamp_min(1e-30))
