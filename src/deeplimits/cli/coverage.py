"""`deeplimits coverage`: which layer answers which question, by a rule of its own or through its parts."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

ROOMS = ("limits.kernel", "limits.diffusion", "limits.proportional.chi_square", "finite.build")


def coverage(
    *,
    markdown: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """List every layer against every question: rule, parts (rewritten into simpler layers) or -.

    Parameters
    ----------
    markdown
        Print the table in Markdown, as it stands in the README.
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
        lines = [["layer", *questions], ["---"] * (len(questions) + 1), *rows]
        print("\n".join(f"| {' | '.join(line)} |" for line in lines))
    else:
        console.table(["layer", *questions], rows)


def registered() -> dict[str, dict[str, str]]:
    """The coverage table after every room has registered its rules."""
    import importlib

    from deeplimits.architecture.question import coverage as table

    for room in ROOMS:
        importlib.import_module(f"deeplimits.{room}")
    return table()
