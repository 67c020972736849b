"""The table of a rule: what every role gets, as powers of the ratios of width and depth."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import log

from deeplimits.transfer.budget import Decay, decays, optional
from deeplimits.transfer.numbers import Row, folding, rates
from deeplimits.transfer.rule import FAMILIES, Rule, get

WIDE = {
    "input": (False, True),
    "embedding": (False, True),
    "hidden": (True, True),
    "readout": (True, False),
    "bias": (False, True),
    "gain": (False, True),
}
"""{role: (whether its fan-in grows with the width, whether its fan-out does)}."""
COLUMNS = ("init std", "LR SGD", "LR Adam", "LR Muon", "eps", "decay SGD", "decay AdamW", "decay Muon", "SAM")
_RATIO = 4.0


def explain(name: str | Rule, alpha: float | None = None) -> str:
    """Return the table of a rule in words: for every role initial values, learning rates, epsilon, decay, sources.

    Args:
        name: of the rule; or of an optional one: "batch", "tokens", or a rule of weight decay.
        alpha: another exponent of the branches.

    Raises:
        DescriptionError: no such rule.

    Example:
        >>> print(explain("mup").splitlines()[0])
        mup: maximal update parametrization: features move by the same amount at every width
    """
    if name in optional() or name in decays():
        return _optional(str(name))
    rule = get(name, alpha)
    head = [f"{rule.name}: {rule.words}", f"valid for: {rule.valid}", f"source: {', '.join(rule.source)}", ""]
    lines = [("role", *COLUMNS), *((role, *cells) for role, cells in table(rule).items())]
    widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
    rows = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([*head, *rows, "", *_notes(rule)])


def table(name: str | Rule, alpha: float | None = None) -> dict[str, tuple[str, ...]]:
    """Return {role: powers of the width's ratio m and the depth's ratio m_L, in the order of COLUMNS}.

    Args:
        name: of the rule.
        alpha: another exponent of the branches.

    Example:
        >>> table("mup")["hidden"][:4]
        ('m^-1/2', '1', 'm^-1', '1')
    """
    rule = get(name, alpha)
    found = {}
    for role, (reads, writes) in WIDE.items():
        grown = _row(_RATIO if reads else 1.0, _RATIO if writes else 1.0)
        cells = [_power(value, "m") for value in _values(grown, rule)]
        vector = role in ("bias", "gain")
        found[role] = tuple(
            "none" if vector and c.startswith("decay") else x for c, x in zip(COLUMNS, cells, strict=True)
        )
    if rule.alpha is not None:
        inside = _row(1.0, 1.0, depth=_RATIO)
        ending = replace(inside, branch_output=True)
        found["in a block, times"] = tuple(_power(value, "m_L") for value in _values(inside, rule))
        found["ending a branch, times"] = tuple(_power(value, "m_L") for value in _values(ending, rule))
    return found


def _optional(name: str) -> str:
    rule = optional().get(name) or decays()[name]
    head = [f"{rule.name}: {rule.words}", f"valid for: {rule.valid}", f"source: {', '.join(rule.source)}", ""]
    if isinstance(rule, Decay):
        rate = (
            "divided by the multiplier of the learning rate" if rule.per_rate else "not divided by the learning rate's"
        )
        powers = f"times m_in^{rule.fan_in:g}, times (steps, target over base)^{rule.steps:g}"
        return "\n".join([*head, f"decay: {rate}, {powers}"])
    powers = (("LR", rule.lr), ("eps", rule.eps), ("power of betas", rule.memory))
    lines = [f"{family}: " + ", ".join(f"{of} r^{power[family]:g}" for of, power in powers) for family in FAMILIES]
    return "\n".join(
        [*head, *lines, "", f"r: {name}, target over base; off unless dl.transfer({name}=(base, target)) says it."]
    )


def _values(grown: Row, rule: Rule) -> tuple[float, ...]:
    m_in, m_out = grown.fan_in_ratio, grown.fan_out_ratio
    by = {family: rates(grown, rule, family, "coupled") for family in FAMILIES}
    found = (rule.init(m_in, m_out) * folding(grown, rule), *(by[family].lr for family in FAMILIES))
    decays = (by[family].decay for family in FAMILIES)
    return (*found, by["entrywise"].eps, *decays, rule.perturbation(m_in, m_out))


def _row(m_in: float, m_out: float, depth: float = 1.0) -> Row:
    fans = {"fan_in": round(m_in), "fan_out": round(m_out), "fan_in_ratio": m_in, "fan_out_ratio": m_out}
    shape = (round(m_out), round(m_in))
    return Row(
        name="", shape=shape, base_shape=(1, 1), role="", depth_ratio=depth, branch_output=False, tied_width=1.0, **fans
    )


def _power(value: float, of: str) -> str:
    power = Fraction(log(value) / log(_RATIO)).limit_denominator(1000)
    return "1" if power == 0 else of if power == 1 else f"{of}^{power}"


def _notes(rule: Rule) -> list[str]:
    notes = ["m: fan-in or fan-out, target over base. Powers are relative to the base, where everything is 1."]
    notes.append("Decay: for optimizers that multiply it by the learning rate; left alone by those that do not.")
    notes.append("Nothing is left for the forward pass: multipliers are folded into initial values and learning rates.")
    if rule.readout_multiplier:
        notes.append(
            "The readout has its factor 1/m folded in (yang-2022-tp5, Table 3). With the factor in the forward"
        )
        notes.append(
            "pass (its Table 8) initial values are 1 and learning rates m (SGD) and 1 (Adam): the same training."
        )
    if rule.alpha is not None:
        notes.append(
            "m_L: number of blocks, target over base. What ends a branch carries the branch's factor m_L^-alpha,"
        )
        notes.append(
            f"alpha = {Fraction(rule.alpha).limit_denominator(1000)}; its decay is not scaled by depth otherwise."
        )
    else:
        notes.append("Depth: no part of this rule" + ("." if rule.any_depth else ", and a changed depth is refused."))
    return notes
