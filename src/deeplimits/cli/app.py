"""The program `deeplimits`: commands, errors and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from cyclopts import App
from cyclopts.exceptions import CycloptsError

from deeplimits import __version__
from deeplimits.errors import DeepLimitsError

HELP = """Stand at any width and depth of a neural network, infinity included: prediction beside measurement.

Exit codes: 0 done, 1 a check failed, 2 bad input, 130 interrupted."""
INTERRUPTED = 130
COMMANDS = {
    "compare": "Sampled networks beside theory on a grid of widths and depths; writes a report.",
    "kernel": "NNGP and NTK of a network of infinite width, at any depth.",
    "transfer": "Tune a small model, train a large one: plan, check, sweep, report.",
    "claims": "Papers' headline claims: predicted, measured, and a verdict by a stated test.",
    "criticality": "The edge of chaos of an activation, its correlation lengths and its phase diagram.",
    "coverage": "Which layer answers which question.",
    "cite": "BibTeX of the results behind a network's limits.",
    "doctor": "Versions, devices, caches and a short self test.",
}


def app() -> App:
    """Return the program, its commands imported only when they are asked for."""
    program = App(
        name="deeplimits", help=HELP, version=__version__, help_format="plaintext", suppress_keyboard_interrupt=False
    )
    for name, words in COMMANDS.items():
        program.command(f"deeplimits.cli.{name}:{name}", name=name, help=words)
    return program


def main(words: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; bad input is told in words, without a traceback."""
    code = _run(words)
    if code == INTERRUPTED and words is None:
        # Where an import was cut short, Python would end by the signal itself and lose the exit code.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _run(words: Sequence[str] | None) -> int:
    try:
        code: Any = app()(words, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
        return int(code or 0)
    except CycloptsError as error:
        command = " ".join(("deeplimits", *(error.command_chain or ()), "--help"))
        return _tell("command line", str(error), f"{command} lists what can be given")
    except DeepLimitsError as error:
        return _tell(error.where, error.why, error.fix, getattr(error, "__notes__", ()))
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _tell(where: str, why: str, fix: str, notes: Sequence[str] = ()) -> int:
    lines = [f"error: {where}: {why.rstrip('.?')}.", *(f"  {note}" for note in notes), f"fix: {fix}."]
    print("\n".join(lines), file=sys.stderr)
    return 2
