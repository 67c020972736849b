"""Every source that a rule or a docstring names is a key of references.bib, or says that it is a definition."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "deeplimits"
FILES = sorted(PACKAGE.rglob("*.py"))
BIB = (PACKAGE / "references.bib").read_text()
KEYS = set(re.findall(r"^@\w+\{([^,\s]+),", BIB, flags=re.MULTILINE))
KEY = re.compile(r"\b[a-z]+(?:-[a-z]+)*-(?:1[89]|20)\d\d(?:-[a-z0-9]+)*\b")
WITHOUT_PAPER = ("definition", "derived")


def rule_sources(path):
    """Yield (line, source) of every `source=` given as a literal."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            for word in node.keywords:
                if word.arg == "source" and isinstance(word.value, ast.Constant) and isinstance(word.value.value, str):
                    yield node.lineno, word.value.value


def named_keys(path):
    """Return everything in a file's strings that looks like a key of references.bib."""
    strings = (n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant))
    return {key for text in strings if isinstance(text, str) for key in KEY.findall(text)}


def test_keys_are_unique_and_well_formed():
    entries = re.findall(r"^@\w+\{([^,\s]+),", BIB, flags=re.MULTILINE)
    assert len(entries) == len(set(entries)) >= 20
    assert [key for key in entries if not KEY.fullmatch(key)] == []


def test_every_entry_has_title_author_and_year():
    entries = re.split(r"^@", BIB, flags=re.MULTILINE)[1:]
    for entry in entries:
        fields = set(re.findall(r"^  (\w+) = ", entry, flags=re.MULTILINE))
        assert {"title", "author", "year"} <= fields, entry


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_sources_resolve(path):
    unresolved = [
        f"line {line}: {source}"
        for line, source in rule_sources(path)
        if not (set(KEY.findall(source)) or source.startswith(WITHOUT_PAPER))
    ]
    assert unresolved == []
    assert named_keys(path) - KEYS == set()


def test_every_registered_rule_has_a_source_that_resolves():
    from deeplimits.architecture.question import Question
    from deeplimits.cli.coverage import registered

    registered()
    rules = [
        (question.name, kind.__name__, rule.source)
        for question in Question.every.values()
        for kind, rule in question.rules.items()
    ]
    assert len(rules) >= 60
    unresolved = [rule for rule in rules if not (set(KEY.findall(rule[2])) & KEYS or rule[2].startswith(WITHOUT_PAPER))]
    assert unresolved == []
