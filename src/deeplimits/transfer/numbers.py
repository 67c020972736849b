"""The numbers of one parameter, from a rule and what grows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from deeplimits.errors import InputError
from deeplimits.transfer.anatomy.survey import Parameter
from deeplimits.transfer.budget import OFF, Budget
from deeplimits.transfer.budget import decay as decay_rule
from deeplimits.transfer.rule import Powers, Rule, family


@dataclass(frozen=True)
class Row:
    """What a plan does with one parameter, relative to the base.

    Attributes:
        name: name in the target, without wrappers.
        shape, base_shape: as stored in the target and in the base.
        role: "input", "hidden", "output", "gain or bias", "fixed matrix" or "fixed vector".
        fan_in, fan_out: of the target.
        fan_in_ratio, fan_out_ratio: target over base.
        depth_ratio: blocks of its stack, target over base; 1 outside blocks.
        branch_output: whether the residual branch is linear in it, so that the branch's scale is folded into it.
        tied_width: width ratio of a tied readout whose multiplier 1/width is folded into this parameter; else 1.
        init_mult: its initial values are multiplied by this once; None: resolved by `apply`.
        init_ratio: wanted size of its initial values over that in the base.
        init_shift: added to them afterwards (gains that a norm reads as 1 + w).
        lr_mult, eps_mult, decay_mult: of learning rate, epsilon and weight decay.
        reason: how the numbers came about, and what is not claimed.
        source: keys of references.bib.
        parts: numbers of its outputs that are query, key and value, where it gives several of them.
        forward_alpha: power of the depth that the model's own forward pass divides its branch by.
        logits_factor: factor of attention logits of growing heads that is folded into this parameter.
        width_factor: factor that the model's own forward pass gives it, target over base.
    """

    name: str
    shape: tuple[int, ...]
    role: str
    fan_in: int
    fan_out: int
    fan_in_ratio: float
    fan_out_ratio: float
    depth_ratio: float
    branch_output: bool
    tied_width: float
    init_mult: float | None = None
    init_ratio: float = 1.0
    init_shift: float = 0.0
    lr_mult: float = 1.0
    eps_mult: float = 1.0
    decay_mult: float = 1.0
    reason: str = ""
    source: str = ""
    base_shape: tuple[int, ...] = ()
    parts: tuple[int, ...] = ()
    forward_alpha: float = 0.0
    logits_factor: float = 1.0
    width_factor: float = 1.0


@dataclass(frozen=True)
class Rates:
    """Multipliers of learning rate, epsilon and weight decay, and why."""

    lr: float
    eps: float
    decay: float
    reasons: tuple[str, ...]


def row(
    parameter: Parameter,
    rule: Rule,
    optimizer: str,
    decay: str,
    init: float | None,
    branch_output: bool = False,
    parts: tuple[int, ...] = (),
    tied_width: float = 1.0,
    shifted: bool = False,
    forward_alpha: float = 0.0,
    logits_factor: float = 1.0,
    width_factor: float = 1.0,
    remark: str = "",
    budget: Budget = OFF,
) -> Row:
    """Return the numbers of a parameter.

    Args:
        parameter: what grows.
        rule: the parametrization.
        optimizer: its name.
        decay: "coupled" (the optimizer multiplies decay by the learning rate, as in torch) or another of `rules/decay`.
        init: size of the target's own initial values over the base's; None: not known yet.
        branch_output: whether the branch's multiplier is folded into this parameter.
        parts: numbers of its outputs that are query, key and value, where it gives several of them.
        tied_width: width ratio of a tied readout whose multiplier 1/width is folded into this parameter.
        shifted: whether the parameter is a gain that its norm reads as 1 + w: c (1 + w) is 1 + (c w + c - 1).
        forward_alpha: power of the depth that the forward pass divides the branch by already.
        logits_factor: factor of attention logits that is folded into this parameter.
        width_factor: factor that the forward pass gives the parameter already, target over base.
        remark: what is not claimed.
        budget: batch size and tokens, target over base.

    Source: yang-2022-tp5 (width), dey-2025-completep, Table 1 (depth).
    """
    m_in, m_out, m_depth = (float(r) for r in (parameter.fan_in_ratio, parameter.fan_out_ratio, parameter.depth_ratio))
    grown = Row(
        name=parameter.name,
        shape=parameter.shape,
        base_shape=parameter.base_shape,
        parts=parts,
        role=parameter.role,
        fan_in=parameter.target.fan_in,
        fan_out=parameter.target.fan_out,
        fan_in_ratio=m_in,
        fan_out_ratio=m_out,
        depth_ratio=m_depth,
        branch_output=branch_output,
        tied_width=tied_width,
        source=", ".join(rule.source),
        forward_alpha=forward_alpha,
        logits_factor=logits_factor,
        width_factor=width_factor,
    )
    folded = folding(grown, rule)
    grown = replace(grown, init_shift=folded - 1 if shifted else 0.0)
    found = rates(grown, rule, optimizer, decay, budget)
    wanted = rule.init(m_in, m_out) * folded
    reasons = [f"init {rule.init.words(m_in, m_out)}"] if (m_in, m_out) != (1, 1) else []
    return replace(
        grown,
        init_mult=None if init is None else wanted / init,
        init_ratio=wanted,
        lr_mult=found.lr,
        eps_mult=found.eps,
        decay_mult=found.decay,
        reason="; ".join(filter(None, [*reasons, *found.reasons, remark])) or "does not grow",
    )


def folding(grown: Row, rule: Rule) -> float:
    """Return the multiplier of the forward pass that is folded into a parameter: what the model has not itself."""
    branch = grown.branch_output and rule.alpha is not None and grown.depth_ratio != 1
    depth = grown.depth_ratio ** (grown.forward_alpha - (rule.alpha or 0.0)) if branch else 1.0
    return depth / grown.tied_width * grown.logits_factor / grown.width_factor


def gradient(grown: Row, rule: Rule) -> float:
    """Return how the entries of a parameter's gradient grow, which Adam's epsilon follows.

    1 / m_out, in blocks m_L^-alpha, over the multiplier that is folded in.
    """
    depth = 1.0 if rule.alpha is None else grown.depth_ratio**-rule.alpha
    return rule.eps(grown.fan_in_ratio, grown.fan_out_ratio) * depth / folding(grown, rule)


def perturbations(rows: Iterable[Row], rule: Rule) -> dict[str, float]:
    """Return {name: scale of SAM's perturbation of a parameter}, what is folded into it included.

    Args:
        rows: of the parameters.
        rule: the parametrization.

    Raises:
        InputError: the rule says nothing of perturbations.
    """
    if rule.perturbation == Powers():
        why = f"rule {rule.name!r} says nothing of the perturbation"
        raise InputError("SAM", why, "plan with rule='mup2_sam', or leave out the plan for plain SAM")
    return {row.name: rule.perturbation(row.fan_in_ratio, row.fan_out_ratio) * folding(row, rule) for row in rows}


def rates(grown: Row, rule: Rule, optimizer: str, decay: str, budget: Budget = OFF) -> Rates:
    """Return the multipliers of a parameter under an optimizer.

    A multiplier c of the forward pass is folded into the parameter that the result is linear in: initial values c,
    learning rate c (SGD: c^2), epsilon 1/c, decay 1/c (SGD: 1/c^2) train exactly as c in the forward pass does.

    Args:
        grown: how the parameter grows.
        rule: the parametrization.
        optimizer: its name; torch's Muon scales its own steps with the shape, in one of two ways, which is undone.
        decay: "coupled", "independent" or another of `rules/decay`.
        budget: batch size and tokens, target over base.
    """
    kind, m_in, m_out = family(optimizer), grown.fan_in_ratio, grown.fan_out_ratio
    lr = rule.lr[kind](m_in, m_out) * budget.lr(kind)
    reasons = [f"LR {rule.lr[kind].words(m_in, m_out)}"] if (m_in, m_out) != (1, 1) else []
    own = own_ratio(optimizer, grown)
    lr /= own or 1.0
    if own is None:
        reasons.append("torch's Muon takes matrices only: plan.optimizers leaves it to the other optimizer")
    elif own != 1:
        reasons.append(f"the optimizer's own factor {own:.3g} undone")
    if budget != OFF:
        reasons.append(f"batch and tokens: LR x {budget.lr(kind):.3g}")
    decays = decay_rule(decay)
    weight_decay = decays(lr, m_in, budget)
    if rule.alpha is not None and grown.depth_ratio != 1:
        power = 2 * rule.alpha - 1 if kind == "sgd" else rule.alpha - 1
        lr *= grown.depth_ratio**power
        reasons.append(f"in a block: LR m_L^{power:g}")
        if grown.branch_output:
            left = rule.alpha - grown.forward_alpha
            own = f", of which the forward pass has m_L^-{grown.forward_alpha:g}" if grown.forward_alpha else ""
            reasons.append(f"ends a branch: the branch's m_L^-{left:g} folded in{own}")
    if grown.tied_width != 1:
        reasons.append(f"before a tied readout: its 1/m = 1/{grown.tied_width:g} folded in")
    if grown.logits_factor != 1:
        reasons.append(f"logits of heads that grow: 1/size, so {grown.logits_factor:.4g} folded in")
    if grown.width_factor != 1:
        reasons.append(f"the forward pass has the factor {grown.width_factor:.4g} of the width, which is undone")
    folded = folding(grown, rule)
    squared = folded**2 if kind == "sgd" else folded
    weight_decay /= squared if decays.per_rate else 1.0
    if grown.init_shift:  # w = 0 is the gain of the base, not of the target
        weight_decay = 0.0
        reasons.append("a gain 1 + w that is shifted does not decay")
    eps = gradient(grown, rule) * budget.eps(kind) if kind == "entrywise" else 1.0
    return Rates(lr * squared, eps, weight_decay, tuple(reasons))


def own_ratio(optimizer: str, grown: Row) -> float | None:
    """Return an optimizer's own factor of a parameter, target over base; None where torch's Muon does not take it.

    Args:
        optimizer: its name.
        grown: how the parameter grows.
    """
    if len(grown.shape) not in (2, 3):  # stacks are taken one by one
        return None if own_scale(optimizer, 1, 4) != 1 else 1.0
    return own_scale(optimizer, *grown.shape[:-3:-1]) / own_scale(optimizer, *grown.base_shape[:-3:-1])


def own_scale(optimizer: str, columns: int, rows: int) -> float:
    """Return how an optimizer scales its steps with the shape of a matrix, beyond its learning rate.

    torch takes matrices as they are stored: embeddings as (tokens, width), whatever they are summed over.

    Args:
        optimizer: its name.
        columns: of the matrix as it is stored.
        rows: likewise.

    Example:
        >>> own_scale("muon", 64, 256), own_scale("muon:match_rms_adamw", 100, 25), own_scale("adamw", 1, 4)
        (2.0, 2.0, 1.0)
    """
    name = optimizer.lower()
    if name in ("muon", "muon:original"):
        return max(1.0, rows / columns) ** 0.5
    return 0.2 * max(columns, rows) ** 0.5 if name == "muon:match_rms_adamw" else 1.0


def as_dict(record: Row) -> dict[str, Any]:
    """Return a row as plain data."""
    return {**vars(record), "shape": list(record.shape)}
