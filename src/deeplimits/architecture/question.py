"""The one dispatch mechanism: a question asked of a network, answered layer by layer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from deeplimits.architecture.layer import Layer
from deeplimits.errors import DeepLimitsError, NoRule


@dataclass(frozen=True)
class Rule:
    """One answer: the function, where it comes from, and when it is valid."""

    function: Callable[..., Any]
    source: str
    valid: str = ""

    @property
    def place(self) -> str:
        """File and line of the rule."""
        code = inspect.unwrap(self.function).__code__
        return f"{code.co_filename}:{code.co_firstlineno}"


class Question:
    """A question with rules registered per layer type; dispatch is on the exact type.

    Args:
        name: the question's name, as it stands in the coverage table.
        otherwise: what a user can do where no rule exists.

    Example:
        >>> from deeplimits.architecture.dense import Dense
        >>> parameters = Question("parameters", otherwise="count by hand")
        >>> @parameters.rule(Dense, source="definition")
        ... def dense(layer, width):
        ...     return width * width
        >>> parameters(Dense(), 10)
        100
    """

    every: ClassVar[dict[str, Question]] = {}
    edition: ClassVar[int] = 0
    """How often rules were registered: answers kept from an earlier edition may be outdated."""

    def __init__(self, name: str, otherwise: str):
        self.name, self.otherwise = name, otherwise
        self.rules: dict[type, Rule] = {}
        self.derivations: list[tuple[Question, Rule]] = []
        Question.every[name] = self

    def rule(self, *kinds: type, source: str, valid: str = "", replace: bool = False) -> Callable[[Callable], Callable]:
        """Register a rule for layer types; `source` names where the rule comes from and is mandatory.

        Raises:
            ValueError: the source is empty, or a rule stands already and `replace` is not set.
        """
        if not source:
            raise ValueError(f"a rule of {self.name!r} needs a source=")

        def register(function: Callable) -> Callable:
            for kind in kinds:
                if kind in self.rules and not replace:
                    raise ValueError(f"{self.name!r} has a rule for {kind.__name__} already; pass replace=True")
                self.rules[kind] = Rule(function, source, valid)
            Question.edition += 1
            return function

        return register

    def through(self, other: Question, source: str, valid: str = "") -> Callable[[Callable], Callable]:
        """Register function(layer, *state) for every layer that has a rule of `other` and none here.

        Raises:
            ValueError: the source is empty.
        """
        if not source:
            raise ValueError(f"a derivation of {self.name!r} needs a source=")

        def register(function: Callable) -> Callable:
            self.derivations.append((other, Rule(function, source, valid)))
            Question.edition += 1
            return function

        return register

    def answers(self, layer: Layer) -> Rule | None:
        """Return the rule for this layer's exact type, else the one derived from another question's, or None."""
        own = self.rules.get(type(layer))
        derived = (rule for other, rule in self.derivations if type(layer) in other.rules)
        return own or next(derived, None)

    def answered(self, kind: type) -> str:
        """Say how a layer type is answered: 'rule', the name of the question it follows from, 'parts' or '-'."""
        if kind in self.rules:
            return "rule"
        derived = (other.name for other, _ in self.derivations if kind in other.rules)
        return next(derived, "-" if kind.parts is Layer.parts else "parts")  # type: ignore[attr-defined]

    def __call__(self, layer: Layer, *state: Any) -> Any:
        """Answer for a layer by its rule, else by its parts.

        Raises:
            NoRule: neither exists.
        """
        try:
            rule = self.answers(layer)
            if rule is not None:
                return rule.function(layer, *state)
            simpler = layer.parts()
            if simpler is not None:
                return self(simpler, *state)
            raise self.missing(layer)
        except DeepLimitsError as error:
            error.add_note(f"in {shorten(layer)}")
            raise

    def missing(self, layer: Layer) -> NoRule:
        """Return the error for a layer without a rule."""
        kind = type(layer).__name__
        others = [q.name for q in Question.every.values() if q is not self and type(layer) in q.rules]
        answered = f" (it answers {', '.join(others)})" if others else ""
        lines = [f"@{question.name}.rule({kind}, source=...)" for question in (self, *(o for o, _ in self.derivations))]
        fix = f"{self.otherwise}; or add one: {' or '.join(lines)}"
        return NoRule(kind, f"no rule for the {self.name}{answered}", fix)


def shorten(layer: Layer, limit: int = 90) -> str:
    """Return a repr cut to `limit` characters."""
    text = repr(layer)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def coverage() -> dict[str, dict[str, str]]:
    """Return {layer: {question: how it is answered}} over every registered question and known layer."""
    kinds: set[type] = set()
    for question in Question.every.values():
        kinds.update(question.rules)
    kinds.update(_concrete(Layer))
    table: dict[str, dict[str, str]] = {}
    for kind in sorted(kinds, key=lambda k: k.__name__):
        table[kind.__name__] = {name: question.answered(kind) for name, question in Question.every.items()}
    return table


def _concrete(kind: type) -> set[type]:
    found = set()
    for sub in kind.__subclasses__():
        if sub.__module__.startswith("deeplimits.") and not sub.__subclasses__():
            found.add(sub)
        found |= _concrete(sub)
    return found
