"""From two sizes of a model to a plan."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from numbers import Integral
from typing import Any

from torch import nn

from deeplimits.errors import BaseWarning, InputError
from deeplimits.transfer import budget
from deeplimits.transfer.anatomy import checks, initial
from deeplimits.transfer.anatomy.reading import Reading, read
from deeplimits.transfer.numbers import row
from deeplimits.transfer.plan import Plan
from deeplimits.transfer.rule import Rule, family, get


def transfer(
    model: Callable[..., nn.Module] | nn.Module,
    base: Mapping[str, int] | nn.Module,
    target: Mapping[str, int] | None = None,
    rule: str | Rule = "completep",
    optimizer: str = "adamw",
    alpha: float | None = None,
    decay: str = "coupled",
    inputs: Any = None,
    seed: int = 0,
    batch: tuple[float, float] | None = None,
    tokens: tuple[float, float] | None = None,
    fixed: Iterable[str] = (),
) -> Plan:
    """Plan how to train a large model with the settings tuned on a small one, in width and in depth.

    Args:
        model: a function of sizes that builds the model, or the target itself (meta device welcome).
        base: the sizes that were tuned, as dict(width=256, depth=6), or the base model itself.
        target: the sizes that will be trained (with a build function).
        rule: the parametrization: "sp", "ntp", "mean_field", "mup", "depth_mup", "completep", "spectral", ...
        optimizer: name or family: "adamw", "sgd", "muon" (torch's, with adjust_lr_fn="original"),
            "muon:match_rms_adamw", "spectral" (orthogonal steps without a factor of their own), ...
        alpha: another exponent for residual branches, depth**-alpha.
        decay: "coupled" where the optimizer multiplies weight decay by the learning rate (torch), else "independent";
            experimental: "independent_width", "timescale" (learning rate times decay times steps stays).
        inputs: an example of what the model takes; made from its first layer where left out.
        seed: of the small copies that are tried.
        batch: (base's, target's) batch size: turns the rule for it on (experimental); left out, it is the base's.
        tokens: (base's, target's) tokens or examples of the whole run, likewise.
        fixed: patterns of names ("*.router.weight") of matrices inside blocks that are meant not to grow.

    Returns:
        a Plan: apply it to the fresh target, and take its parameter groups.

    Raises:
        InputError: the models do not match, nothing grows, the depth changes under a rule for width only, or no branch
            can be proved.
        DescriptionError: an unknown rule or optimizer.

    Source: yang-2022-tp5; dey-2025-completep.
    """
    chosen = get(rule, alpha)
    optimizer = _named(optimizer)
    family(optimizer)
    budget.decay(decay)
    ratios = budget.budget(batch, tokens)
    small, large, sizes = _models(model, base, target)
    found = read(None if sizes is None else model, small, large, sizes, chosen, inputs, seed, fixed)
    rows = tuple(row(r, chosen, optimizer, decay, budget=ratios, **found.of(r)) for r in found.rows)
    names = sizes or ({"model": type(small).__name__}, {"model": type(large).__name__})
    ratio = [None if pair is None else (float(pair[0]), float(pair[1])) for pair in (batch, tokens)]
    return Plan(
        rule=chosen.name,
        optimizer=optimizer,
        base=names[0],
        target=names[1],
        decay=decay,
        rows=rows,
        initial=found.first,
        notes=(*found.notes, *_warned(found)),
        rule_alpha=chosen.alpha,
        batch=ratio[0],
        tokens=ratio[1],
        scales=found.scales(large),
    )


def _models(model: Any, base: Any, target: Any) -> tuple[nn.Module, nn.Module, Any]:
    if isinstance(model, nn.Module) and isinstance(base, nn.Module):
        return base, model, None
    if isinstance(model, nn.Module) or not isinstance(base, Mapping) or not isinstance(target, Mapping):
        why = f"got {type(model).__name__}, base {type(base).__name__}, target {type(target).__name__}"
        fix = "pass transfer(build, base=dict(width=..), target=dict(width=..)) or transfer(model, base=small_model)"
        raise InputError("transfer", why, fix)
    if set(base) != set(target):
        odd = ", ".join(sorted(set(base) ^ set(target)))
        raise InputError("transfer", f"{odd} is given for one of base and target only", "give both the same sizes")
    for sizes in (base, target):
        for key, size in sizes.items():
            if base[key] != target[key] and not (isinstance(size, Integral) and int(size) > 0):
                raise InputError("transfer", f"{key}={size!r} is no size", "give whole numbers from 1 on")
        try:
            signature(model).bind(**sizes)
        except TypeError as error:
            takes = ", ".join(signature(model).parameters)
            why = f"the build function takes ({takes}), and was given {', '.join(sizes)} ({error})"
            raise InputError("transfer", why, "name base and target sizes as its arguments") from None
    return _built(model, base), _built(model, target), (dict(base), dict(target))


def _built(build: Callable[..., nn.Module], sizes: Mapping[str, Any]) -> nn.Module:
    try:
        return initial.on_meta(build, sizes)
    except TypeError as error:
        why = f"the build function raised TypeError for {dict(sizes)} ({error})"
        raise InputError("transfer", why, "give sizes that it can build, as whole numbers") from error


def _named(optimizer: Any) -> str:
    if isinstance(optimizer, str):
        return optimizer
    return (optimizer if isinstance(optimizer, type) else type(optimizer)).__name__.lower()


def _warned(found: Reading) -> list[str]:
    blocks = {row.block for row in found.rows if row.block is not None}
    said = checks.small_base(found.rows, len(blocks) or None)
    for words in said:
        warnings.warn(words, BaseWarning, stacklevel=4)  # the caller of dl.transfer
    return said
