"""Files stay readable in one sitting, functions on one screen."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))

AIM, LIMIT = 300, 500
LARGER: dict[str, str] = {}  # path: why it is longer than the aim


def relative(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_file_is_short(path):
    lines = len(path.read_text().splitlines())
    assert lines <= (LIMIT if relative(path) in LARGER else AIM)


def function_lines(node):
    """Lines of a function without its docstring."""
    first = node.body[0]
    docstring = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) is not None else 0
    return node.end_lineno - node.lineno + 1 - docstring


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_functions_are_short(path):
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = {f.name: function_lines(f) for f in functions if function_lines(f) > 50}
    assert long == {}


def test_every_file_is_named_after_what_it_holds():
    vague = [relative(path) for path in FILES if path.stem in ("utils", "util", "helpers", "common", "misc")]
    assert vague == []


def test_larger_files_exist_and_are_larger():
    lines = {relative(path): len(path.read_text().splitlines()) for path in FILES}
    assert [name for name in LARGER if lines.get(name, 0) <= AIM] == []
