"""What grows from a base model to a target model, parameter by parameter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any

from torch import nn

from deeplimits.errors import InputError
from deeplimits.transfer.anatomy.layout import MATRIX, VECTOR, Fans, fans
from deeplimits.transfer.anatomy.matching import check_names, stacks
from deeplimits.transfer.anatomy.names import bare
from deeplimits.transfer.anatomy.uses import Watch


@dataclass(frozen=True)
class Parameter:
    """One parameter of the target beside its counterpart in the base.

    Attributes:
        name: its name in the target, without wrappers.
        base_name: the counterpart's name in the base.
        shape: its shape in the target.
        base_shape: in the base.
        base: fans in the base.
        target: fans in the target.
        stack: the list of blocks it stands in, as "model.layers", where its length changes; else None.
        block: its block in the base, as "model.layers.3"; likewise.
        depth_ratio: blocks of its kind in the target over those in the base (of all residual ones of its list, where
            `branches.counted` found these); 1 outside.
        tied: other names of the same parameter.
    """

    name: str
    base_name: str
    shape: tuple[int, ...]
    base_shape: tuple[int, ...]
    base: Fans
    target: Fans
    stack: str | None
    block: str | None
    depth_ratio: Fraction
    tied: tuple[str, ...] = ()

    @property
    def fan_in_ratio(self) -> Fraction:
        """Fan-in of the target over that of the base."""
        return Fraction(self.target.fan_in, self.base.fan_in)

    @property
    def fan_out_ratio(self) -> Fraction:
        """Fan-out of the target over that of the base."""
        return Fraction(self.target.fan_out, self.base.fan_out)

    @property
    def target_block(self) -> str:
        """Its block in the target, as "model.layers.12"; empty outside."""
        return "" if self.block is None else self.name[: len(self.name) - len(self.base_name) + len(self.block)]

    @property
    def role(self) -> str:
        """What the parameter is, in the field's words."""
        if self.target.kind == VECTOR or (len(self.shape) < 2 and self.fan_in_ratio == 1):
            return "gain or bias" if self.fan_out_ratio != 1 else "fixed vector"
        grows = self.fan_in_ratio != 1, self.fan_out_ratio != 1
        return {(True, True): "hidden", (False, True): "input", (True, False): "output"}.get(grows, "fixed matrix")


def survey(base: nn.Module, target: nn.Module, watch: Watch | None = None) -> list[Parameter]:
    """Compare two models of one family, on any device (meta included).

    Args:
        base: the model that was tuned.
        target: the model that will be trained.
        watch: how the base's forward pass uses its parameters.

    Raises:
        InputError: names do not match up to the number of blocks, nothing grows, or it stays open what a growing
            parameter is summed over.
    """
    old, new = _parameters(base), _parameters(target)
    found = stacks(*({name: entry[2] for name, entry in side.items()} for side in (old, new)))
    within = {name: next((s for s in found if s.place(name) is not None), None) for name in new}
    matched = {name: stack.counterpart(name) if stack else name for name, stack in within.items()}
    check_names(old, {name: other if other in old else None for name, other in matched.items()})
    rows = []
    for name, (module, attribute, shape, tied) in new.items():
        other, stack = str(matched[name]), within[name]
        before = old[other][2]
        if len(before) != len(shape):
            why = f"{name} has {len(shape)} dimensions in the target and {len(before)} in the base"
            raise InputError("transfer", why, "build both models with the same function")
        if shape != before:
            _check_use(other, module, shape, watch)
        grows = {axis for axis, sizes in enumerate(zip(before, shape, strict=True)) if len(set(sizes)) > 1}
        own = [_fans(*side, other, watch, grows) for side in (old[other][:3], (module, attribute, shape))]
        place = stack.place(name) if stack else None
        where: tuple[Any, ...] = (None, None, Fraction(1))
        if stack is not None and place is not None:
            where = stack.prefix, f"{stack.head}{stack.blocks[place]}", stack.ratios[place]
        rows.append(Parameter(name, other, shape, before, own[0], own[1], where[0], where[1], where[2], tied))
    if all(row.fan_in_ratio == row.fan_out_ratio == row.depth_ratio == 1 for row in rows):
        why = "base and target have the same width in every dimension and the same depth"
        fix = "check that build uses its arguments (blocks that share weights show no depth), and give another target"
        raise InputError("transfer", why, fix)
    _check_experts(rows, old)
    return rows


def _parameters(model: nn.Module) -> dict[str, tuple[nn.Module, str, tuple[int, ...], tuple[str, ...]]]:
    """Return {name: (owner, attribute, shape, other names of the same parameter)}, each parameter once."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    found = {}
    for name, parameter in model.named_parameters():
        owner, _, attribute = name.rpartition(".")
        shape = tuple(getattr(parameter, "ds_shape", parameter.shape))
        also = tuple(bare(other) for other in names[id(parameter)] if other != name)
        found[bare(name)] = (model.get_submodule(owner), attribute, shape, also)
    if not found:
        raise InputError("transfer", f"{type(model).__name__} has no parameters", "pass a model that can be trained")
    return found


def _known(module: nn.Module) -> bool:
    layers = nn.Linear | nn.Embedding | nn.modules.conv._ConvNd | nn.MultiheadAttention | nn.RNNBase | nn.RNNCellBase
    return isinstance(module, layers) or type(module).__name__ == "Conv1D"


def _check_use(name: str, module: nn.Module, shape: tuple[int, ...], watch: Watch | None) -> None:
    """Refuse to guess what a growing matrix is summed over."""
    if watch is None or name not in watch.order:
        return
    mixed = watch.computed.get(name)
    if name not in watch.unclear and (mixed or (mixed is not None and not _known(module))):
        others = " with other parameters" if mixed else ""
        why = f"the weight of a layer is computed from {name} of shape {shape}{others}, as where it is normalised"
        fix = "let the layer hold its weight itself, as nn.Linear does; norms of activations and their gains are fine"
        raise InputError("transfer", why, fix)
    if len(shape) < 2:
        return
    use = watch.uses.get(name)
    if name in watch.unclear or not (
        _known(module) or name in watch.carried or use is not None or _broadcast(name, shape, watch)
    ):
        how = "is combined with other parameters" if name in watch.unclear else "is used by an operation not known here"
        why = f"{name} of shape {shape} {how}: it stays open what it is summed over"
        fix = "hold it in an nn.Linear, or multiply activations with it (x @ w), so that fan-in and fan-out are seen"
        raise InputError("transfer", why, fix)


def _broadcast(name: str, shape: tuple[int, ...], watch: Watch) -> bool:
    """Say whether a tensor is a vector that is shaped to stand beside activations, as a temperature for each head."""
    return len(shape) > 2 and sum(size > 1 for size in shape) < 2 and name not in watch.times


def _check_experts(rows: list[Parameter], old: Mapping[str, Any]) -> None:
    """Refuse another number of experts: stacked matrices, and a router that chooses among them."""
    routed = {(row.base.fan_out, row.target.fan_out) for row in rows if len(row.shape) == 2}
    for row in rows:
        before, after = old[row.base_name][2][:1], row.shape[:1]
        if len(row.shape) == 3 and before != after and (*before, *after) in routed:
            why = f"{row.name} holds {before[0]} matrices in the base and {after[0]} in the target, chosen by a router"
            raise InputError(
                "transfer", why, "keep the number of experts: it is an axis of its own, without a known rule"
            )


def _fans(
    module: nn.Module, attribute: str, shape: tuple[int, ...], name: str, watch: Watch | None, grows: set[int]
) -> Fans:
    use = None if watch is None else watch.uses.get(name)
    if watch is not None and use is None and name in watch.summed and grows & set(watch.summed[name].contracted):
        use = watch.summed[name]
    if use is not None and use.contracted:
        return Fans(MATRIX, prod(shape[a] for a in use.contracted), prod(shape[a] for a in use.written))
    if watch is not None and use is None and not _known(module) and len(shape) > 1:
        single = sum(size > 1 for size in shape) < 2 and name in watch.order and name not in watch.times
        if single or name in watch.carried:
            return Fans(VECTOR, 1, prod(shape))
    return fans(module, attribute, shape)
