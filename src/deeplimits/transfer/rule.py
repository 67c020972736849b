"""A parametrization, as data: how initial values, learning rates and the rest scale from a base model."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from math import isfinite
from typing import Any

from deeplimits.errors import DescriptionError, nearest

FAMILIES = {
    "sgd": ("sgd", "momentum", "nesterov"),
    "entrywise": ("adam", "adamw", "lion", "nadam", "radam", "adamax", "rmsprop"),
    "spectral": ("muon", "muon:original", "muon:match_rms_adamw"),
}


@dataclass(frozen=True)
class Powers:
    """fan_in_ratio**fan_in * fan_out_ratio**fan_out * min(1, fan_out_ratio / fan_in_ratio)**clip.

    Example:
        >>> Powers(fan_in=-0.5, clip=0.5)(4.0, 1.0)
        0.25
    """

    fan_in: float = 0.0
    fan_out: float = 0.0
    clip: float = 0.0

    def __call__(self, fan_in_ratio: float, fan_out_ratio: float) -> float:
        shape = min(1.0, fan_out_ratio / fan_in_ratio) ** self.clip
        return fan_in_ratio**self.fan_in * fan_out_ratio**self.fan_out * shape

    def __str__(self) -> str:
        return self.words(0.0, 0.0)

    def words(self, fan_in_ratio: float, fan_out_ratio: float) -> str:
        """Return the formula, without the factors that are 1 at these ratios."""
        parts = [(f"m_in^{self.fan_in:g}", self.fan_in and fan_in_ratio != 1)]
        parts.append((f"m_out^{self.fan_out:g}", self.fan_out and fan_out_ratio != 1))
        parts.append((f"min(1, m_out/m_in)^{self.clip:g}", self.clip and not 1 <= fan_in_ratio <= fan_out_ratio))
        return " ".join(text for text, shown in parts if shown) or "1"


@dataclass(frozen=True)
class Rule:
    """How a parameter's numbers follow from its ratios; relative to the base, without multipliers in the forward pass.

    Attributes:
        name: as it is called.
        words: what it is, in one sentence.
        source: keys of references.bib.
        valid: when it holds.
        init: of the standard deviation.
        lr: {family of optimizers: of the learning rate}.
        eps: of Adam's epsilon, the size of gradients.
        perturbation: of the scale of SAM's perturbation.
        alpha: branches are scaled by depth**-alpha; None: the rule says nothing of depth.
        any_depth: whether it may be used at another depth all the same.
    """

    name: str
    words: str
    source: tuple[str, ...]
    valid: str
    init: Powers
    lr: Mapping[str, Powers]
    eps: Powers = field(default_factory=Powers)
    perturbation: Powers = field(default_factory=Powers)
    alpha: float | None = None
    any_depth: bool = False

    @property
    def readout_multiplier(self) -> bool:
        """Whether a readout's initial values and updates fall faster than in the standard parametrization."""
        return self.init(4.0, 1.0) < 0.5

    def with_alpha(self, alpha: float | None) -> Rule:
        """Return the rule with another exponent of the branches."""
        if alpha is None:
            return self
        if not isfinite(alpha) or alpha < 0:
            raise DescriptionError("transfer", f"alpha={alpha!r}", "give a number from 0 on, 1/2 to 1 as a rule")
        words = f"{self.name} with residual branches scaled by depth^-{alpha:g}"
        return replace(self, alpha=float(alpha), name=f"{self.name} with alpha {alpha:g}", words=words)


_GIVEN: dict[str, Rule] = {}
"""Rules that were given as objects in this process, so that plans made with them find them by name."""


@cache
def rules() -> dict[str, Rule]:
    """Return every rule by name, read from the files in `rules/`."""
    found = {}
    for file in sorted(resources.files("deeplimits.transfer").joinpath("rules").iterdir(), key=lambda f: f.name):
        if file.name.endswith(".toml"):
            rule = _read(tomllib.loads(file.read_text(encoding="utf-8")))
            found[rule.name] = rule
    return found


def get(name: str | Rule, alpha: float | None = None) -> Rule:
    """Return a rule by name.

    Raises:
        DescriptionError: no such rule; offers the nearest names.
    """
    if isinstance(name, Rule):
        if rules().get(name.name, name) != name:
            fix = "give it another name, or its alpha as alpha="
            raise DescriptionError("transfer", f"a rule that differs is called {name.name!r} already", fix)
        _GIVEN[name.name] = name
        return name.with_alpha(alpha)
    known = rules() | _GIVEN
    if name not in known:
        raise DescriptionError("transfer", f"rule={name!r} is not known", nearest(str(name), known))
    return known[name].with_alpha(alpha)


def family(optimizer: str) -> str:
    """Return the family of an optimizer: "sgd", "entrywise" or "spectral".

    Raises:
        DescriptionError: an optimizer of unknown family.

    Example:
        >>> family("AdamW"), family("muon")
        ('entrywise', 'spectral')
    """
    for name, members in FAMILIES.items():
        if optimizer.lower() in (name, *members):
            return name
    if optimizer.lower() == "sam":
        fix = "plan for the optimizer inside, with rule='mup2_sam', and wrap it: plan.sam(optimizer, rho=...)"
        raise DescriptionError("transfer", "SAM takes its steps with another optimizer", fix)
    known = [member for members in FAMILIES.values() for member in members]
    kinds = "sgd (steps follow the gradient's size), entrywise (Adam-like), spectral (Muon-like)"
    fix = f"{nearest(optimizer, known)}; or name the family: {kinds}"
    raise DescriptionError("transfer", f"optimizer={optimizer!r} is of no known family", fix)


def _read(data: dict[str, Any]) -> Rule:
    powers = {key: Powers(**data.get(key, {})) for key in ("init", "eps", "perturbation")}
    lr = {name: Powers(**data["lr"].get(name, {})) for name in FAMILIES}
    depth = {key: data[key] for key in ("alpha", "any_depth") if key in data}
    return Rule(data["name"], data["words"], tuple(data["source"]), data["valid"], lr=lr, **powers, **depth)
