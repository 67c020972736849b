"""The numbers of one parameter, from a rule and what grows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deeplimits.transfer.rule import Rule
from deeplimits.transfer.survey import Parameter


@dataclass(frozen=True)
class Row:
    """What a plan does with one parameter, relative to the base.

    Attributes:
        name: name in the target, without wrappers.
        shape: shape in the target.
        role: "input", "hidden", "output", "gain or bias", "fixed matrix" or "fixed vector".
        fan_in_ratio, fan_out_ratio: target over base.
        depth_ratio: blocks of its stack, target over base; 1 outside blocks.
        branch_output: whether the residual branch is linear in it, so that the branch's scale is folded into it.
        init_mult: its initial values are multiplied by this once; None: resolved by `apply`.
        init_ratio: wanted size of its initial values over that in the base.
        init_shift: added to them afterwards (gains that a norm reads as 1 + w).
        lr_mult, eps_mult, decay_mult: of learning rate, epsilon and weight decay.
        reason: how the numbers came about.
        source: keys of references.bib.
    """

    name: str
    shape: tuple[int, ...]
    role: str
    fan_in_ratio: float
    fan_out_ratio: float
    depth_ratio: float
    branch_output: bool
    init_mult: float | None
    init_ratio: float
    init_shift: float
    lr_mult: float
    eps_mult: float
    decay_mult: float
    reason: str
    source: str


def row(
    parameter: Parameter,
    rule: Rule,
    family: str,
    decay: str,
    init: float | None,
    branch_output: bool = False,
    tied_width: float = 1.0,
    shifted: bool = False,
) -> Row:
    """Return the numbers of a parameter.

    A multiplier c of the forward pass is folded into the parameter that the result is linear in: initial values c,
    learning rate c (SGD: c^2), epsilon 1/c, decay 1/c (SGD: 1/c^2) train exactly as c in the forward pass does.

    Args:
        parameter: what grows.
        rule: the parametrization.
        family: of the optimizer, "sgd", "entrywise" or "spectral".
        decay: "coupled" (the optimizer multiplies decay by the learning rate, as torch does) or "independent".
        init: size of the target's own initial values over the base's; None: not known yet.
        branch_output: whether the branch's multiplier is folded into this parameter.
        tied_width: width ratio of a tied readout whose multiplier 1/width is folded into this parameter.
        shifted: whether the parameter is a gain that its norm reads as 1 + w: c (1 + w) is 1 + (c w + c - 1).

    Source: yang-2022-tp5 (width), dey-2025-completep, Table 1 (depth).
    """
    m_in, m_out, m_depth = (float(r) for r in (parameter.fan_in_ratio, parameter.fan_out_ratio, parameter.depth_ratio))
    lr, wanted, eps = rule.lr[family](m_in, m_out), rule.init(m_in, m_out), rule.eps(m_in, m_out)
    weight_decay = 1 / lr
    words = {"LR": rule.lr[family].words(m_in, m_out), "init": rule.init.words(m_in, m_out)}
    reasons = [f"{what} {formula}" for what, formula in words.items()] if (m_in, m_out) != (1, 1) else []
    if rule.alpha is not None and m_depth != 1:
        power = 2 * rule.alpha - 1 if family == "sgd" else rule.alpha - 1
        lr, eps = lr * m_depth**power, eps * m_depth**-rule.alpha
        reasons.append(f"in a block: LR m_L^{power:g}")
    folded = 1.0
    if branch_output and rule.alpha is not None and m_depth != 1:
        folded *= m_depth**-rule.alpha
        reasons.append(f"ends a branch: the branch's m_L^-{rule.alpha:g} folded in")
    if tied_width != 1:
        folded /= tied_width
        reasons.append(f"before a tied readout: its 1/m = 1/{tied_width:g} folded in")
    squared = folded**2 if family == "sgd" else folded
    wanted, lr, eps, weight_decay = wanted * folded, lr * squared, eps / folded, weight_decay / squared
    return Row(
        name=parameter.name,
        shape=parameter.shape,
        role=parameter.role,
        fan_in_ratio=m_in,
        fan_out_ratio=m_out,
        depth_ratio=m_depth,
        branch_output=branch_output,
        init_mult=None if init is None else wanted / init,
        init_ratio=wanted,
        init_shift=folded - 1 if shifted else 0.0,
        lr_mult=lr,
        eps_mult=eps if family == "entrywise" else 1.0,
        decay_mult=weight_decay if decay == "coupled" else 1.0,
        reason="; ".join(reasons) or "does not grow",
        source=", ".join(rule.source),
    )


def as_dict(record: Row) -> dict[str, Any]:
    """Return a row as plain data."""
    return {**vars(record), "shape": list(record.shape)}
