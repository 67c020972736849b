"""Models that a plan would be wrong for: refused before any work, with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatch
from math import log, prod
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.nn.parameter import UninitializedParameter
from torch.nn.utils import parametrize

from deeplimits.errors import InputError
from deeplimits.transfer.anatomy.initial import STANDARD_ERRORS
from deeplimits.transfer.anatomy.layout import MATRIX
from deeplimits.transfer.anatomy.matching import listed
from deeplimits.transfer.anatomy.names import bare, starred
from deeplimits.transfer.anatomy.pairs import Found
from deeplimits.transfer.anatomy.products import Product
from deeplimits.transfer.anatomy.survey import Parameter
from deeplimits.transfer.anatomy.uses import Watch

if TYPE_CHECKING:
    from deeplimits.transfer.numbers import Row

NARROW, SHALLOW = 32, 4


def readable(model: Any) -> None:
    """Refuse what is no model, has parameters without a shape, or weights that are computed from others.

    Raises:
        InputError: one of these.
    """
    if not isinstance(model, nn.Module):
        why = f"the build function returns {type(model).__name__}, not a torch.nn.Module"
        raise InputError("transfer", why, "return the model")
    for name, parameter in model.named_parameters():
        if isinstance(parameter, UninitializedParameter):
            why = f"{name} stands on no device and has no shape yet: its module is lazy"
            raise InputError(
                "transfer", why, "name its sizes (nn.Linear in place of nn.LazyLinear), or run the model once"
            )
    for name, module in model.named_modules():
        old = [key for key in vars(module).get("_parameters", {}) if key.endswith("_g")]
        if parametrize.is_parametrized(module) or any(f"{key[:-2]}_v" in module._parameters for key in old):
            why = f"the weight of {name} is computed from other parameters (weight_norm or another parametrization)"
            fix = "remove it (torch.nn.utils.parametrize.remove_parametrizations); norms of activations are fine"
            raise InputError("transfer", why, fix)


def same_uses(rows: Iterable[Parameter], base: Watch | None, target: Watch | None) -> None:
    """Refuse weights that blocks share, where their number changes: the names do not show the depth.

    Raises:
        InputError: a parameter is used more often in the target.
    """
    if base is None or target is None:
        return
    for row in rows:
        before, after = base.times.get(row.base_name, 0), target.times.get(row.name, 0)
        if before and after and before != after and len(row.shape) > 1:
            why = f"{row.name} is used {before} times by the base and {after} times by the target: blocks share weights"
            raise InputError(
                "transfer", why, "keep the depth: gradients add up over the uses, and no rule is known for it"
            )


def adapters(rows: Iterable[Parameter], frozen: Iterable[str]) -> None:
    """Refuse low-rank adapters of frozen weights.

    Raises:
        InputError: frozen matrices stand beside trained ones that pass through a dimension that does not grow.
    """
    still = set(frozen)
    matrices = [row for row in rows if row.target.kind == MATRIX]
    low = [row for row in matrices if row.base_name not in still and row.role in ("input", "output")]
    for row in low:
        beside = row.base_name.rpartition(".")[0].rpartition(".")[0]
        if beside and any(other.base_name in still and other.base_name.startswith(beside) for other in matrices):
            why = f"{row.name} adapts frozen weights through a low rank: another theory than that of full training"
            raise InputError("transfer", why, "train all weights, or merge the adapters first")


def blocks(rows: Iterable[Parameter], modules: Iterable[str]) -> None:
    """Refuse layers that are no modules of their own, as in nn.LSTM, where their number changes.

    Args:
        rows: all parameters.
        modules: names of the base's modules.

    Raises:
        InputError: there are such layers.
    """
    known = set(modules)
    for row in rows:
        if row.depth_ratio != 1 and row.block is not None and row.block not in known:
            why = f"{row.name} and its like hold several layers in one module, and their number changes"
            fix = "keep num_layers (the width may grow): there is no stack of blocks that residual branches end in"
            raise InputError("transfer", why, fix)


def fixed_matrices(rows: Sequence[Parameter], allowed: Iterable[str]) -> None:
    """Refuse matrices inside blocks that do not grow while the stream between blocks does.

    Args:
        rows: all parameters.
        allowed: patterns of names, as "*.router.weight", that may stay as they are.

    Raises:
        InputError: there are such matrices, or a pattern that names none.
    """
    allowed = list(allowed)
    for pattern in allowed:
        if not any(fnmatch(row.name, pattern) for row in rows):
            fix = "name parameters of the target, as fixed=['*.name.weight']"
            raise InputError("transfer", f"fixed: {pattern!r} matches no parameter", fix)
    places = [part for row in rows for part in [_block(row.name)] if part is not None]
    grows = any(row.fan_out_ratio != 1 and _block(row.name) is None for row in rows)
    fixed = [
        row.name
        for row in rows
        if row.role == "fixed matrix"
        and _block(row.name) is not None
        and len({place for place, rest in places if rest == _block(row.name)[1]}) > 1  # type: ignore[index]
        and not any(fnmatch(row.name, pattern) for pattern in allowed)
    ]
    if grows and fixed:
        why = f"matrices inside blocks do not grow while the model does: {listed(fixed, 3)}"
        fix = "let their sizes follow the width; or, where they are meant to stay, name them: fixed=['*.name.weight']"
        raise InputError("transfer", why, fix)


def _block(name: str) -> tuple[str, str] | None:
    """Return (the block's place in its list, the rest of the name), or None outside lists of blocks."""
    parts = name.split(".")
    place = next((n for n, part in enumerate(parts[:-2]) if part.isdigit()), None)
    return None if place is None else (".".join(parts[: place + 1]), ".".join([*parts[:place], *parts[place + 1 :]]))


def share(rows: Sequence[Parameter]) -> str:
    """Return in words what part of the target stands in dimensions that grow, or how the depth alone changes."""
    lists = list(dict.fromkeys(row.stack for row in rows if row.stack is not None))
    if lists and all(row.fan_in_ratio == row.fan_out_ratio == 1 for row in rows):
        numbers = {stack: lengths(rows, stack) for stack in lists}
        words = ", ".join(f"{stack} has {new} blocks in place of {old}" for stack, (new, old) in numbers.items())
        return f"the depth changes, and no width: {words}"
    total = sum(prod(row.shape) for row in rows)
    grows = sum(prod(row.shape) for row in rows if row.fan_in_ratio != 1 or row.fan_out_ratio != 1)
    return f"{100 * grows / total:.1f} % of the parameters stand in dimensions that grow"


def lengths(rows: Iterable[Parameter], stack: str | None) -> tuple[int, int]:
    """Return how many blocks a list has in the target, and in the base."""
    blocks = {row.target_block: row.block for row in rows if row.stack == stack}
    return len(blocks), len(set(blocks.values()))


def small_base(rows: Sequence[Parameter], blocks: int | None) -> list[str]:
    """Return why a base is too small to tell where the optimum lies, in words."""
    said = []
    thin = min((row for row in rows if row.fan_in_ratio != 1), key=lambda row: row.base.fan_in, default=None)
    if thin is not None and thin.base.fan_in < NARROW:
        wide = f"the base is {thin.base.fan_in} wide (fan-in of {thin.base_name})"
        said.append(f"{wide}: below {NARROW} the optimum still moves with width")
    if blocks is not None and blocks < SHALLOW:
        said.append(f"the base has {blocks} blocks: below {SHALLOW} the optimum still moves with depth")
    return said


def initial_values(
    rows: Iterable[Row],
    first: Mapping[str, float],
    measured: Mapping[str, tuple[float, int]],
    resolved: Mapping[str, float],
) -> None:
    """Refuse to rescale a model whose weights are not initial.

    Args:
        rows: of the plan.
        first: {name: size of the base's initial values}.
        measured: {name: (size, number of values)} of the model.
        resolved: {name: multiplier}.

    Raises:
        InputError: the weights have the planned sizes already, or others than initial ones.
    """
    carry, odd = [], []
    for row in rows:
        size, count = measured[row.name]
        base = first.get(row.name, 0.0)
        if not size or not base or row.init_mult is None:
            carry += [row.name] if row.init_shift and size and not base else []  # a gain 1 + w starts from 0
            continue
        in_base = count / (row.fan_in_ratio * row.fan_out_ratio)
        error = STANDARD_ERRORS * (1 / count + 1 / in_base) ** 0.5 + 0.05
        wanted = base * row.init_ratio
        if abs(log(size / (wanted / row.init_mult))) > error:
            (carry if abs(log(size / wanted)) <= error else odd).append(row.name)
    if len(carry) > len(odd):
        why = f"{carry[0]} and {len(carry) - 1} others already have the planned initial size"
        raise InputError("plan.apply", why, "apply a plan once, to a model as its build function leaves it")
    if odd:
        why = f"{odd[0]} and {len(odd) - 1} others do not have the size of initial values"
        raise InputError("plan.apply", why, "apply the plan before training or loading; then use param_groups only")


def unclaimed(rows: Sequence[Parameter], small: Sequence[Product], large: Found) -> dict[str, str]:
    """Return {parameter: why its numbers are not claimed}: keys and values that more queries share than in the base.

    Args:
        rows: all parameters.
        small: products of the base.
        large: what each is in the target; None where it was not seen.
    """
    found: dict[str, str] = {}
    for old, new in zip(small, large, strict=False):
        if new is not None and old.repeated != new.repeated:
            words = (
                f"not claimed: {old.repeated} queries share a key and value in the base, {new.repeated} in the target"
            )
            of = {old.key, old.value} - {old.query}
            found |= {row.name: words for row in rows if row.base_name in of}
    return found


def sums(small: Watch, large: Watch) -> list[str]:
    """Return which activations are summed over a size that grows and no parameter weighs, in words.

    Args:
        small: of a forward pass.
        large: of that of a wider model.
    """
    sides: list[dict[str, set[int]]] = [{}, {}]
    for found, watch in zip(sides, (small, large), strict=True):
        for name, size in watch.sums:
            found.setdefault(starred(bare(name)), set()).add(size)
    fix = "what comes out grows with it: take the mean, or let nn.Linear read it out"
    return [
        f"not claimed: activations after {name} are summed over {max(sizes)} entries in the base, "
        f"{max(sides[1][name])} in the target, and no parameter weighs them; {fix}"
        for name, sizes in sides[0].items()
        if name in sides[1] and sizes != sides[1][name]
    ]


def numbers(small: nn.Module, large: nn.Module, products: Sequence[Product]) -> list[str]:
    """Return the numbers, held by modules or as buffers of one entry, that change with the width, in words.

    Those of modules around an attention are left out: they scale its logits.

    Args:
        small: a model; its buffers are compared where both models have values.
        large: one of the same depth.
        products: of the model's forward pass.
    """
    attention = {product.query.rpartition(".")[0] for product in products if product.query}
    modules, found = dict(large.named_modules()), []
    for path, module in small.named_modules():
        other = modules.get(path)
        if other is None or any(f"{query}.".startswith(f"{path}.") for query in attention if path):
            continue
        for name, value in _held(module).items():
            if name in _held(other) and _held(other)[name] != value:
                found.append(f"{path}.{name}".lstrip(".") + f" ({value:.4g} to {_held(other)[name]:.4g})")
    if not found:
        return []
    return [f"not counted: numbers of the forward pass that change with the width: {listed(found, 3)}"]


def _held(module: nn.Module) -> dict[str, float]:
    buffers = {name: b for name, b in module.named_buffers(recurse=False) if b.numel() == 1 and b.is_floating_point()}
    own = {name: float(b) for name, b in buffers.items() if not b.is_meta}
    return own | {name: value for name, value in vars(module).items() if isinstance(value, float)}
