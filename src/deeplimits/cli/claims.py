"""`deeplimits claims`: each paper's headline claim beside its measurement, with a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter


def claims(
    *keys: str,
    list_: Annotated[bool, Parameter(name="--list", negative="")] = False,
    reduced: Annotated[bool, Parameter(negative="")] = False,
    again: Annotated[bool, Parameter(negative="")] = False,
    out: Path = Path("out/claims"),
    html: Path | None = None,
    markdown: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Measure each paper's headline claim and say whether the numbers confirm it, by tests stated beforehand.

    Every step finished is stored at once; after an interruption the same command goes on where it stopped. Steps
    measured by other code are measured again. Exit code 1: a claim is not confirmed; undecided claims end with 0.

    Parameters
    ----------
    keys
        Which claims, as in --list; all of them by default (a quarter of an hour or so).
    list_
        Print the claims without running them.
    reduced
        Run at the size of a test, in seconds; most verdicts are then undecided.
    again
        Measure again what is stored.
    out
        Folder of the record claims.json and of the finished steps.
    html
        Write one self-contained page with the figures here, and each figure as PNG beside it.
    markdown
        Print the stored record of the last run as the README's table, without running anything.
    json
        Print one JSON document on stdout and nothing else.
    """
    from deeplimits.claims.registry import chosen
    from deeplimits.cli import console

    wanted = chosen(keys)
    if list_:
        return _list(wanted, json)
    record = out / "claims.json"
    if markdown:
        from deeplimits.report.claims import markdown as table

        print(table([one for one in _stored(record) if one.key in wanted]))
        return 0
    try:
        found = _run(wanted, "reduced" if reduced else "full", out, again, json)
    except KeyboardInterrupt:
        console.say(f"\ninterrupted; finished steps are kept in {out / 'steps'}: the same command goes on from there")
        return 130
    _keep(record, found)
    page = None
    if html is not None:
        from deeplimits import html as write

        page = write(found, html).resolve()
    if json:
        console.document([_row(one) for one in found])
    else:
        print(f"record: {record.resolve()}" + (f"\nreport: {page}" if page else ""))
    return int(any(one.verdict == "not confirmed" for one in found))


def _list(keys: list[str], json: bool) -> int:
    from deeplimits.claims.registry import claim
    from deeplimits.cli import console

    found = [claim(key) for key in keys]
    if json:
        console.document([{"key": one.key, "statement": one.statement, "source": one.source} for one in found])
    else:
        console.table(["claim", "statement"], [[one.key, one.statement] for one in found])
    return 0


def _run(keys: list[str], size: str, out: Path, again: bool, quiet: bool) -> list[Any]:
    from deeplimits.claims.registry import claim
    from deeplimits.claims.run import run
    from deeplimits.cli import imports
    from deeplimits.progress import Bar

    imports.whole("deeplimits.finite.sample", "deeplimits.limits.kernel.tile.engine", "deeplimits.inference")
    steps = {(key, step.name): step.cost for key in keys for step in claim(key).steps}
    found = []
    with Bar(sum(steps.values()), shown=not quiet) as bar:
        done = lambda one, step, _: bar.advance(f"{one.key}: {step.name} done", steps[one.key, step.name])
        for one in run(keys, size=size, store=out / "steps", again=again, done=done):
            found.append(one)
            if not quiet:
                bar.print(_words(one))
    return found


def _words(found: Any) -> str:
    """A finding in words: its verdict, and every part with its numbers."""
    from deeplimits.report.claims import measured, predicted

    lines = [f"{found.verdict.upper()}: {found.key} ({found.seconds:.0f} s)", f"  {found.statement}"]
    lines += [
        f"  {_mark(part):>13}  {part.name}: {measured(part)}, predicted {predicted(part)}" for part in found.parts
    ]
    return "\n".join(lines) + "\n"


def _mark(part: Any) -> str:
    return part.verdict if part.counts else f"({part.verdict})"


def _row(found: Any) -> dict[str, Any]:
    """What one claim is in the JSON document."""
    from deeplimits.plane.record import encode

    names = ("key", "statement", "source", "predicted", "measured", "standard_error", "verdict", "seconds")
    more = ("cpu_seconds", "headline", "reason", "size", "version", "parts")
    return {name: encode(getattr(found, name)) for name in (*names, *more)}


def _stored(record: Path) -> list[Any]:
    from deeplimits.claims.claim import from_json
    from deeplimits.errors import InputError

    try:
        return from_json(record.read_text(encoding="utf-8"))
    except OSError as error:
        fix = "run deeplimits claims first, or name the folder of its record with --out"
        raise InputError("--out", f"{str(record)!r} cannot be read ({error})", fix) from None


def _keep(record: Path, found: list[Any]) -> None:
    """Write the findings into the record, beside those of other claims that it already holds."""
    from deeplimits.claims.claim import from_json, to_json
    from deeplimits.claims.registry import keys
    from deeplimits.errors import InputError
    from deeplimits.plane.store import write_whole

    try:
        known = {one.key: one for one in from_json(record.read_text(encoding="utf-8"))}
    except (OSError, InputError):
        known = {}
    known |= {one.key: one for one in found}
    write_whole(record, to_json([known[key] for key in keys() if key in known]) + "\n")
