"""Every code block of the README and the guides runs, and shows what it prints."""

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.blocks import blocks, commands

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CONSOLE = [
    pytest.param(command, shown, id=f"{page.name}:{block.line}:{command[:40]}")
    for page in PAGES
    for block in blocks(page)
    if block.language == "console"
    for command, shown in commands(block)
    if command.startswith("deeplimits")
]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    parser = doctest.DocTestParser()
    count = 0
    for block in blocks(page):
        if block.language == "python":
            exec(compile("\n" * block.line + block.text, str(page), "exec"), namespace)
            count += 1
        if block.language == "pycon":
            test = parser.get_doctest(block.text, namespace, f"{page.name}:{block.line}", str(page), block.line)
            runner.run(test, clear_globs=False)
            namespace.update(test.globs)
            count += 1
    assert runner.summarize(verbose=False).failed == 0
    assert count > 0 or page.name != "README.md"


@pytest.mark.parametrize(("command", "shown"), CONSOLE)
def test_console_blocks_run(command, shown, tmp_path):
    script, *words = shlex.split(command)
    tool = Path(sys.executable).with_name(script)
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}
    run = subprocess.run([tool, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=170)
    assert run.returncode == 0, run.stderr
    if shown.strip():
        assert doctest.OutputChecker().check_output(shown, run.stdout, FLAGS), run.stdout


def test_readme_has_console_blocks():
    assert len(CONSOLE) >= 1


def test_readme_is_short():
    written = re.sub(r"<!-- (\w+): begin -->.*?<!-- \1: end -->", "", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(written.splitlines()) <= 250


def test_make_targets_named_exist():
    makefile = (ROOT / "Makefile").read_text()
    named = {t for page in PAGES for t in re.findall(r"\bmake ([a-z]+)\b", "".join(b.text for b in blocks(page)))}
    assert named
    assert [target for target in named if f"\n{target}:" not in makefile] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_exist(page):
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []
