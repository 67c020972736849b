"""`deeplimits transfer rules`: the parametrizations, and the table of one."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

rules = App(name="rules", help="The parametrizations; `rules explain NAME` prints the table of one.")


@rules.default
def listed(*, json: Annotated[bool, Parameter(negative="")] = False) -> None:
    """List the parametrizations.

    Parameters
    ----------
    json
        Print one JSON document on stdout and nothing else.
    """
    from deeplimits.cli import console
    from deeplimits.transfer.rule import rules as known

    found = [
        {"name": rule.name, "what": rule.words, "valid": rule.valid, "alpha": rule.alpha, "source": list(rule.source)}
        for rule in known().values()
    ]
    if json:
        console.document(found)
        return
    depth = lambda alpha: "-" if alpha is None else f"depth^-{alpha:g}"
    console.table(["rule", "branches", "what"], [[each["name"], depth(each["alpha"]), each["what"]] for each in found])


@rules.command
def explain(name: str, /, *, alpha: float | None = None) -> None:
    """Print what a rule gives to every role, with its sources.

    Parameters
    ----------
    name
        Of the rule, as completep.
    alpha
        Another exponent of residual branches.
    """
    from deeplimits.transfer.role_table import explain as table

    print(table(name, alpha))
