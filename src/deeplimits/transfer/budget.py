"""Batch size, tokens and weight decay: optional rules, as data, off where nothing is said of them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import isfinite
from typing import Any

from deeplimits.errors import DescriptionError, InputError, nearest
from deeplimits.transfer.rule import FAMILIES


@dataclass(frozen=True)
class BudgetRule:
    """How an optimizer's numbers follow one ratio, the batch's or the tokens'; powers of it.

    Attributes:
        name: as it is called.
        words: what it keeps.
        source: keys of references.bib.
        valid: when it holds.
        lr: {family: of the learning rate}.
        eps: {family: of epsilon}.
        memory: {family: of what is forgotten in a step: beta becomes beta ** ratio**memory}.
    """

    name: str
    words: str
    source: tuple[str, ...]
    valid: str
    lr: Mapping[str, float]
    eps: Mapping[str, float]
    memory: Mapping[str, float]


@dataclass(frozen=True)
class Decay:
    """How weight decay follows from the learning rate, the width and the number of steps.

    Attributes:
        name: as it is called.
        words: what it keeps.
        source: keys of references.bib.
        valid: when it holds.
        per_rate: whether the optimizer multiplies decay by the learning rate; decay is then divided by its multiplier.
        fan_in: power of the fan-in's ratio.
        steps: power of the ratio of the numbers of steps.
    """

    name: str
    words: str
    source: tuple[str, ...]
    valid: str
    per_rate: bool = False
    fan_in: float = 0.0
    steps: float = 0.0

    def __call__(self, lr_mult: float, fan_in_ratio: float, budget: Budget) -> float:
        """Return the multiplier of weight decay.

        Args:
            lr_mult: of the learning rate, without the factor of the depth.
            fan_in_ratio: target over base.
            budget: what else changes.
        """
        return lr_mult ** -float(self.per_rate) * fan_in_ratio**self.fan_in * budget.steps**self.steps


@dataclass(frozen=True)
class Budget:
    """Batch size and tokens of a run, target over base; 1 where the rule is off.

    Attributes:
        batch: ratio of the batch sizes.
        tokens: ratio of the numbers of tokens (or examples) of the whole run.
    """

    batch: float = 1.0
    tokens: float = 1.0

    @property
    def steps(self) -> float:
        """Ratio of the numbers of steps."""
        return self.tokens / self.batch

    def lr(self, family: str) -> float:
        """Return the multiplier of learning rates.

        Example:
            >>> Budget(batch=16.0).lr("entrywise"), Budget(batch=16.0).lr("sgd")
            (4.0, 16.0)
        """
        return self._product("lr", family)

    def eps(self, family: str) -> float:
        """Return the multiplier of epsilon."""
        return self._product("eps", family)

    def memory(self, family: str) -> float:
        """Return by how much more is forgotten in a step: beta becomes beta ** memory."""
        return self._product("memory", family)

    def _product(self, of: str, family: str) -> float:
        powers = {name: getattr(rule, of)[family] for name, rule in optional().items()}
        return self.batch ** powers["batch"] * self.tokens ** powers["tokens"]

    def settings(self, family: str, given: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return an optimizer's settings with what it remembers adapted to the budget.

        Args:
            family: of the optimizer.
            given: the base's settings.
            where: who asks.

        Raises:
            InputError: betas change and the base's are not given.
        """
        memory = self.memory(family)
        if memory == 1:
            return dict(given)
        if not {"betas", "alpha"} & set(given):  # RMSprop has an alpha
            why = "the batch or token rule is on, which changes betas, and the base's are not given"
            raise InputError(where, why, "pass betas=(0.9, 0.95) or whatever the base was tuned with")
        changed = {"betas": tuple(beta**memory for beta in given["betas"])} if "betas" in given else {}
        return {**given, **changed, **({"alpha": given["alpha"] ** memory} if "alpha" in given else {})}

    def words(self) -> str:
        """Return what is on, in one sentence."""
        on = [f"{name} x {ratio:g}" for name, ratio in (("batch", self.batch), ("tokens", self.tokens)) if ratio != 1]
        if not on:
            return "rules for batch size and tokens are off: both are taken to be the base's"
        return (
            f"experimental: {', '.join(on)}; learning rates, epsilon and betas of one stochastic differential equation"
        )


OFF = Budget()


def budget(batch: tuple[float, float] | None, tokens: tuple[float, float] | None) -> Budget:
    """Return the ratios of what is given as (base, target).

    Raises:
        InputError: not two positive numbers.

    Example:
        >>> budget((64, 1024), None)
        Budget(batch=16.0, tokens=1.0)
    """
    ratios = []
    for name, pair in (("batch", batch), ("tokens", tokens)):
        if pair is None:
            ratios.append(1.0)
            continue
        numbers = list(pair) if isinstance(pair, tuple | list) else []
        if len(numbers) != 2 or not all(isinstance(n, int | float) and isfinite(n) and n > 0 for n in numbers):
            raise InputError("transfer", f"{name}={pair!r}", f"give {name}=(base, target), two positive numbers")
        ratios.append(numbers[1] / numbers[0])
    return Budget(*ratios)


@cache
def optional() -> dict[str, BudgetRule]:
    """Return the rules for batch size and tokens, read from the files in `rules/optional/`."""
    found = {}
    for data in _files("optional"):
        families = {
            part: {name: data.get(name, {}).get(part, 0.0) for name in FAMILIES} for part in ("lr", "eps", "memory")
        }
        found[data["name"]] = BudgetRule(data["name"], data["words"], tuple(data["source"]), data["valid"], **families)
    return found


@cache
def decays() -> dict[str, Decay]:
    """Return the rules of weight decay, read from the files in `rules/decay/`."""
    return {data["name"]: Decay(**{**data, "source": tuple(data["source"])}) for data in _files("decay")}


def decay(name: str) -> Decay:
    """Return a rule of weight decay by name.

    Raises:
        DescriptionError: no such rule; lists them.
    """
    if name not in decays():
        raise DescriptionError("transfer", f"decay={name!r} is not known", nearest(str(name), decays()))
    return decays()[name]


def _files(folder: str) -> list[dict[str, Any]]:
    files = resources.files("deeplimits.transfer").joinpath("rules", folder).iterdir()
    texts = [
        file.read_text(encoding="utf-8") for file in sorted(files, key=lambda f: f.name) if file.name.endswith(".toml")
    ]
    return [tomllib.loads(text) for text in texts]
