"""The dispatch mechanism: sources are mandatory, parts are followed, errors name the path."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from deeplimits.architecture.dense import Dense
from deeplimits.architecture.layer import Layer
from deeplimits.architecture.question import Question, coverage
from deeplimits.architecture.zoo import Mlp
from deeplimits.errors import NoRule


@dataclass(frozen=True)
class Pair(Layer):
    """Two dense layers, written with parts."""

    def parts(self):
        return Dense() >> Dense()


@dataclass(frozen=True)
class Mystery(Layer):
    """A layer nobody has a rule for."""


@pytest.fixture
def question():
    made = Question("count", otherwise="count by hand")
    yield made
    del Question.every["count"]


def test_a_source_is_mandatory(question):
    with pytest.raises(TypeError):
        question.rule(Dense)
    with pytest.raises(ValueError, match="needs a source"):
        question.rule(Dense, source="")


def test_a_second_rule_needs_replace(question):
    question.rule(Dense, source="a")(lambda layer: 1)
    with pytest.raises(ValueError, match="already"):
        question.rule(Dense, source="b")(lambda layer: 2)
    question.rule(Dense, source="b", replace=True)(lambda layer: 2)
    assert question(Dense()) == 2


def test_a_layer_without_a_rule_is_asked_by_its_parts(question):
    from deeplimits.architecture.compose import Serial

    question.rule(Dense, source="a")(lambda layer: 1)
    question.rule(Serial, source="a")(lambda layer: sum(question(part) for part in layer.layers))
    assert question(Pair()) == 2


def test_the_error_names_the_layer_what_else_to_do_and_the_path(question):
    from deeplimits.architecture.compose import Serial

    question.rule(Serial, source="a")(lambda layer: [question(part) for part in layer.layers])
    with pytest.raises(NoRule, match=r"Mystery.*count by hand.*@count.rule\(Mystery, source=...\)") as caught:
        question(Serial(Mystery()))
    assert [note.split("(")[0] for note in caught.value.__notes__] == ["in Mystery", "in Serial"]


def test_dispatch_is_on_the_exact_type(question):
    @dataclass(frozen=True)
    class Wider(Dense):
        pass

    question.rule(Dense, source="a")(lambda layer: 1)
    with pytest.raises(NoRule):
        question(Wider())


def test_coverage_lists_rules_and_parts():
    import deeplimits.limits.kernel  # noqa: F401

    table = coverage()
    assert table["Dense"]["kernel"] == "rule"
    assert table[Mlp.__name__]["kernel"] == "parts"


def test_every_rule_has_a_source_and_a_place():
    import deeplimits.limits.kernel  # noqa: F401

    for question in list(Question.every.values()):
        for kind, rule in question.rules.items():
            assert rule.source, (question.name, kind)
            assert rule.place.rpartition(":")[2].isdigit()
