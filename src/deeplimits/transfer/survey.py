"""What grows from a base model to a target model, parameter by parameter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any

from torch import nn

from deeplimits.errors import InputError
from deeplimits.transfer.layout import VECTOR, Fans, fans
from deeplimits.transfer.names import Stack, bare, stacks
from deeplimits.transfer.uses import Watch

_SHOWN = 5


@dataclass(frozen=True)
class Parameter:
    """One parameter of the target beside its counterpart in the base.

    Attributes:
        name: its name in the target, without wrappers.
        base_name: the counterpart's name in the base.
        shape: its shape in the target.
        base: fans in the base.
        target: fans in the target.
        stack: the stack of blocks it stands in, as "model.layers"; None outside.
        depth_ratio: blocks of that stack in the target over those in the base; 1 outside.
        tied: other names of the same parameter.
    """

    name: str
    base_name: str
    shape: tuple[int, ...]
    base: Fans
    target: Fans
    stack: str | None
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
    def role(self) -> str:
        """What the parameter is, in the field's words."""
        if self.target.kind == VECTOR:
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
    found = _stacks(old, new)
    matched = {name: _counterpart(name, new, old, found) for name in new}
    _check_names(old, new, matched)
    rows = []
    for name, (module, attribute, shape, tied) in new.items():
        other = matched[name]
        assert other is not None
        before = len(old[other][2])
        if before != len(shape):
            why = f"{name} has {len(shape)} dimensions in the target and {before} in the base"
            raise InputError("transfer", why, "build both models with the same function")
        sides = (old[other][:3], (module, attribute, shape))
        if shape != old[other][2]:
            _check_use(other, module, shape, watch)
        own = [_fans(*side, other, watch) for side in sides]
        stack = next((s for s in found if s[1].place(name) is not None), None)
        ratio = Fraction(stack[1].length, stack[0].length) if stack else Fraction(1)
        rows.append(Parameter(name, other, shape, own[0], own[1], stack[1].prefix if stack else None, ratio, tied))
    if all(row.fan_in_ratio == row.fan_out_ratio == row.depth_ratio == 1 for row in rows):
        why = "base and target have the same width in every dimension and the same depth"
        fix = "check that build uses its arguments, and give a target that differs from the base"
        raise InputError("transfer", why, fix)
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


def _stacks(old: Iterable[str], new: Iterable[str]) -> list[tuple[Stack, Stack]]:
    """Return the lists of blocks whose number differs, as (in the base, in the target)."""
    before, after = stacks(old), stacks(new)
    return [
        (Stack(prefix, len(before[prefix])), Stack(prefix, len(after[prefix])))
        for prefix in after
        if prefix in before and len(before[prefix]) != len(after[prefix])
    ]


def _counterpart(name: str, new: Any, old: Any, found: list[tuple[Stack, Stack]]) -> str | None:
    for small, large in found:
        place = large.place(name)
        if place is None:
            continue
        rest = name[len(large.prefix) + 1 + len(str(place)) :]
        wanted = place * small.length // large.length
        for other in sorted(range(small.length), key=lambda j: abs(j - wanted)):
            candidate = f"{small.prefix}.{other}{rest}"
            if candidate in old:
                return candidate
        return None
    return name if name in old else None


def _check_names(old: Any, new: Any, matched: dict[str, str | None]) -> None:
    alone = [name for name, other in matched.items() if other is None]
    gone = set(old) - {other for other in matched.values()}
    gone = {name for name in gone if not any(other and _same_block(name, other) for other in matched.values())}
    if alone or gone:
        parts = [f"only in the target: {_list(alone)}"] if alone else []
        parts += [f"only in the base: {_list(sorted(gone))}"] if gone else []
        why = f"parameter names do not match up to the number of blocks ({'; '.join(parts)})"
        raise InputError("transfer", why, "build both models with the same function, changing sizes only")


def _same_block(name: str, other: str) -> bool:
    a, b = name.split("."), other.split(".")
    return len(a) == len(b) and all(x == y or (x.isdigit() and y.isdigit()) for x, y in zip(a, b, strict=True))


def _list(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _known(module: nn.Module) -> bool:
    layers = nn.Linear | nn.Embedding | nn.modules.conv._ConvNd | nn.MultiheadAttention | nn.RNNBase | nn.RNNCellBase
    return isinstance(module, layers) or type(module).__name__ == "Conv1D"


def _check_use(name: str, module: nn.Module, shape: tuple[int, ...], watch: Watch | None) -> None:
    """Refuse to guess what a growing matrix is summed over."""
    if len(shape) < 2 or watch is None or name not in watch.order:
        return
    use = watch.uses.get(name)
    if name in watch.unclear or not (_known(module) or name in watch.carried or (use is not None)):
        how = "is combined with other parameters" if name in watch.unclear else "is used by an operation not known here"
        why = f"{name} of shape {shape} {how}: it stays open what it is summed over"
        fix = "hold it in an nn.Linear, or multiply activations with it (x @ w), so that fan-in and fan-out are seen"
        raise InputError("transfer", why, fix)


def _fans(module: nn.Module, attribute: str, shape: tuple[int, ...], name: str, watch: Watch | None) -> Fans:
    use = None if watch is None else watch.uses.get(name)
    if use is not None and use.contracted:
        return Fans("matrix", prod(shape[a] for a in use.contracted), prod(shape[a] for a in use.written))
    if watch is not None and use is None and name in watch.carried and not _known(module) and len(shape) > 1:
        return Fans(VECTOR, 1, prod(shape))
    return fans(module, attribute, shape)
