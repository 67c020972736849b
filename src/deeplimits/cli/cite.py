"""`deeplimits cite`: BibTeX of the results behind a network's limits, or of the program itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from deeplimits.architecture.layer import Layer

ENTRY = re.compile(r"^@\w+\{([^,\s]+),.*?^\}", flags=re.MULTILINE | re.DOTALL)
PROGRAM = """@software{{deeplimits,
  title = {{deeplimits: neural networks at any width and depth, infinity included}},
  author = {{The deeplimits developers}},
  version = {{{version}}},
  license = {{Apache-2.0}}
}}"""


def cite(
    network: str | None = None,
    /,
    *,
    activation: str = "relu",
    limit: str | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Print BibTeX of deeplimits and of the results used for a network.

    Parameters
    ----------
    network
        A family (resnet, mlp, stable-resnet) with or without options, or module:attribute; without it, the program.
    activation
        Activation of the named family.
    limit
        Only the results of this question (a column of deeplimits coverage); all of them by default.
    json
        Print one JSON document on stdout and nothing else.
    """
    from deeplimits import __version__
    from deeplimits.cli import console, read

    entries = {"deeplimits": PROGRAM.format(version=__version__)}
    used: dict[str, list[str]] = {}
    if network is not None:
        used = rules_used(read.network(network, activation), limit)
        known = references()
        entries |= {key: known[key] for key in known if key in used}
    if json:
        console.document({"entries": entries, "used": used})
        return
    for key, text in entries.items():
        if key in used:
            print(f"% {'; '.join(used[key])}")
        print(text + "\n")


def references() -> dict[str, str]:
    """BibTeX entry of every key of references.bib."""
    from importlib.resources import files

    text = files("deeplimits").joinpath("references.bib").read_text(encoding="utf-8")
    return {match[1]: match[0] for match in ENTRY.finditer(text)}


def rules_used(net: Layer, limit: str | None = None) -> dict[str, list[str]]:
    """{key: what it is used for} over the rules that answer for the network's layers.

    Raises:
        InputError: no question of that name.
    """
    from deeplimits.architecture.question import Question
    from deeplimits.cli.coverage import registered
    from deeplimits.errors import InputError, nearest

    registered()
    if limit is not None and limit not in Question.every:
        raise InputError("--limit", f"{limit!r} is not a question", nearest(limit, Question.every))
    known, used = references(), {}
    for name, question in Question.every.items():
        if limit in (None, name):
            for layer in _layers(net, question):
                rule = question.answers(layer)
                for key in known:
                    if rule is not None and key in re.findall(r"[\w-]+", rule.source):
                        purpose = f"{name} of {type(layer).__name__}"
                        if purpose not in used.setdefault(key, []):
                            used[key].append(purpose)
    return used


def _layers(layer: Layer, question: object) -> list[Layer]:
    """The layer, its parts where it has no rule of its own, and all that they hold."""
    found = [layer]
    parts = layer.parts()
    held = [child for _, child in layer.children()] + ([] if parts is None else [parts])
    for child in held:
        found += _layers(child, question)
    return found
