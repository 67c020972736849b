"""From two sizes of a model to a plan."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import torch
from torch import nn

from deeplimits.errors import InputError
from deeplimits.transfer import branches, budget, initial
from deeplimits.transfer.inputs import call, example
from deeplimits.transfer.numbers import row
from deeplimits.transfer.plan import Plan
from deeplimits.transfer.rule import Rule, family, get
from deeplimits.transfer.survey import Parameter, survey
from deeplimits.transfer.uses import Watch

NARROW, SHALLOW = 32, 4


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
    given = example(small, inputs)
    watched = _watched(small, given)
    rows = survey(small, large, watched)
    deeper = sorted({r.block for r in rows if r.block is not None and r.depth_ratio != 1})
    _check_depth(chosen, rows)
    real = initial.materialised(model, sizes[0], seed) if sizes is not None else small  # type: ignore[arg-type]
    _check_values(real, chosen, deeper, watched)
    ends = branches.outputs(real, deeper, given, seed) if deeper and chosen.alpha is not None else {}
    tied = watched.twice if watched else set()
    gains = branches.last_gains(real, tied, given, seed) if tied and chosen.readout_multiplier else {}
    measured = {} if _bare_meta(real) else initial.sizes(real)
    first = {r.name: measured[r.base_name][0] for r in rows if measured}
    own = _own(model, small, sizes, rows, seed)
    width = _tied_ratio(rows, tied)
    numbers = tuple(
        row(
            r,
            chosen,
            optimizer,
            decay,
            own.get(r.name),
            branch_output=r.base_name in ends,
            tied_width=width if r.base_name in gains else 1.0,
            shifted=(ends | gains).get(r.base_name, 0.0) != 0.0,
            budget=ratios,
        )
        for r in rows
    )
    names = sizes or ({"model": type(small).__name__}, {"model": type(large).__name__})
    notes = [*_notes(rows), *_heads(watched, _watched(large, given) if chosen.readout_multiplier else None)]
    shown, other = (None if pair is None else (float(pair[0]), float(pair[1])) for pair in (batch, tokens))
    return Plan(
        *(chosen.name, optimizer, names[0], names[1], decay, numbers, first, tuple(notes)), chosen.alpha, shown, other
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
    return initial.on_meta(model, base), initial.on_meta(model, target), (dict(base), dict(target))


def _watched(model: nn.Module, inputs: Any) -> Watch | None:
    """Return how parameters are used, where a forward pass can be tried on the meta device."""
    tensors = [*model.parameters(), *model.buffers()]
    empty = {id(t): torch.empty_like(t, device="meta", requires_grad=t.requires_grad) for t in tensors}
    for p in model.parameters():
        empty[id(p)] = nn.Parameter(empty[id(p)].detach(), p.requires_grad)
    twin = copy.deepcopy(model, empty).eval()  # no value is copied, however large the model
    try:
        with torch.no_grad(), Watch(twin) as watch:
            call(twin, inputs)
    except (RuntimeError, NotImplementedError):  # values decide what the forward pass does
        return None
    return watch


def _check_depth(rule: Rule, rows: list[Parameter]) -> None:
    changed = next((r for r in rows if r.depth_ratio != 1), None)
    if changed is not None and rule.alpha is None and not rule.any_depth:
        why = f"the depth changes by {float(changed.depth_ratio):g} and rule {rule.name!r} has no depth part"
        raise InputError("transfer", why, "use rule='completep' or 'depth_mup', or keep the depth of the base")


def _named(optimizer: Any) -> str:
    if isinstance(optimizer, str):
        return optimizer
    return (optimizer if isinstance(optimizer, type) else type(optimizer)).__name__.lower()


def _tied_ratio(rows: list[Parameter], tied: set[str]) -> float:
    return max((float(r.fan_out_ratio) for r in rows if r.base_name in tied), default=1.0)


def _check_values(base: nn.Module, rule: Rule, deeper: list[str], watched: Watch | None) -> None:
    if _bare_meta(base) and ((deeper and rule.alpha is not None) or (watched and watched.twice)):
        why = "the base is on the meta device, and residual branches and tied readouts are proved by running it"
        raise InputError("transfer", why, "build the base on the CPU; the target may stay on the meta device")


def _bare_meta(model: nn.Module) -> bool:
    return any(parameter.is_meta for parameter in model.parameters())


def _own(model: Any, small: nn.Module, sizes: Any, rows: list[Parameter], seed: int) -> dict[str, float]:
    if sizes is None:
        return {}
    base, target = sizes
    matches: dict[str, dict[str, str]] = {}
    grows: dict[str, set[str]] = {}
    for key in (key for key in base if base[key] != target[key]):
        larger = initial.on_meta(model, {**base, key: 2 * base[key]})
        try:
            pairs = survey(small, larger)
        except InputError as error:
            if "same width" not in error.why:
                raise
            why = f"doubling {key} changes nothing: build ignores it"
            raise InputError(
                "transfer", why, f"use {key} in the build function, or leave it out of base and target"
            ) from None
        matches[key] = {r.name: r.base_name for r in pairs}
        grows[key] = {r.base_name for r in pairs if r.fan_in_ratio != 1 or r.fan_out_ratio != 1}
    powers = initial.exponents(model, base, matches, grows, seed)
    return {r.name: initial.extrapolated(base, target, powers, r.base_name) for r in rows}


def _notes(rows: list[Parameter]) -> list[str]:
    total = sum(prod(r.shape) for r in rows)
    grows = sum(prod(r.shape) for r in rows if r.fan_in_ratio != 1 or r.fan_out_ratio != 1)
    notes = [f"{100 * grows / total:.1f} % of the parameters stand in dimensions that grow"]
    fixed = [r.name for r in rows if r.stack is not None and r.role == "fixed matrix"]
    if fixed and grows:
        notes.append(f"matrices inside blocks that do not grow: {', '.join(fixed[:3])}")
    narrow = min((r.base.fan_in for r in rows if r.fan_in_ratio != 1), default=NARROW)
    if narrow < NARROW:
        notes.append(f"the base is {narrow} wide: below {NARROW} the optimum still moves with width")
    return notes


def _heads(small: Watch | None, large: Watch | None) -> list[str]:
    """Attention logits of growing heads, which no parameter group can scale."""
    if small is None or large is None or not small.heads or not large.heads or small.heads[0] == large.heads[0]:
        return []
    before, after = small.heads[0], large.heads[0]
    mend = (
        f"scale them by sqrt({before})/{after} in the target (scale= of the attention), or let the number of heads grow"
    )
    return [f"attention heads grow from {before} to {after}: logits need 1/size, not 1/sqrt(size); {mend}"]
