"""`deeplimits coverage`: which layer answers which question, by a rule of its own or through its parts."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

ROOMS = ("limits.kernel", "limits.controlled.ask", "limits.diffusion", "limits.proportional.chi_square", "finite.build")


def coverage(
    *,
    markdown: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """List every layer against every question: rule, parts (rewritten into simpler layers) or -.

    Parameters
    ----------
    markdown
        Print the table in Markdown, as it stands in the README, layers of equal answers in one line.
    json
        Print one JSON document on stdout and nothing else.
    """
    from deeplimits.cli import console

    table = registered()
    questions = list(next(iter(table.values())))
    rows = [[layer, *answers.values()] for layer, answers in table.items()]
    if json:
        console.document(table)
    elif markdown:
        lines = [["layer", *questions], ["---"] * (len(questions) + 1), *_together(rows)]
        print("\n".join(f"| {' | '.join(line)} |" for line in lines))
    else:
        console.table(["layer", *questions], rows)


def _together(rows: list[list[str]]) -> list[list[str]]:
    """Return the rows with those of equal answers in one.

    Example:
        >>> _together([["Abs", "rule"], ["Dense", "-"], ["Relu", "rule"]])
        [['Abs, Relu', 'rule'], ['Dense', '-']]
    """
    found: dict[tuple[str, ...], list[str]] = {}
    for layer, *answers in rows:
        found.setdefault(tuple(answers), []).append(layer)
    return [[", ".join(layers), *answers] for answers, layers in found.items()]


def registered() -> dict[str, dict[str, str]]:
    """The coverage table after every room has registered its rules."""
    import importlib

    from deeplimits.architecture.question import coverage as table

    for room in ROOMS:
        importlib.import_module(f"deeplimits.{room}")
    return table()
