"""Run claims: step by step, each step stored when it is done."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator

from deeplimits import __version__
from deeplimits.claims.claim import Claim, Finding, Step, Timed, finding
from deeplimits.claims.registry import chosen, claim
from deeplimits.claims.store import Store

Done = Callable[[Claim, Step, Timed], None]


def run(
    keys: Iterable[str] = (),
    *,
    size: str = "full",
    store: str | os.PathLike[str] | None = None,
    again: bool = False,
    done: Done | None = None,
) -> Iterator[Finding]:
    """Yield what each claim finds.

    Args:
        keys: which claims, all of them if none is given.
        size: "full", or "reduced" for a look in seconds, whose verdicts are often undecided.
        store: a folder that keeps finished steps, so that the same call after an interruption resumes. Steps found
            by other code or at other sizes are measured again.
        again: measure stored steps again.
        done: called with (claim, step, what it found) after every step.

    Raises:
        InputError: an unknown key, before any work.

    Example:
        >>> [one.verdict for one in run(["hayou-2023-commute-ii"], size="reduced")]  # doctest: +SKIP
        ['confirmed']
    """
    return _run([claim(key) for key in chosen(list(keys))], size, Store(store), again, done)


def _run(claims: list[Claim], size: str, kept: Store, again: bool, done: Done | None) -> Iterator[Finding]:
    for one in claims:
        sizes = one.sizes(size)
        found = []
        for step in one.steps:
            timed = None if again else kept.get(one.key, step.name, sizes)
            if timed is None:
                timed = measure(step, sizes)
                kept.put(one.key, sizes, timed)
            found.append(timed)
            if done is not None:
                done(one, step, timed)
        yield finding(one, found, size, __version__)


def measure(step: Step, sizes: object) -> Timed:
    """Return what a step measures, and what it takes."""
    start, cpu = time.perf_counter(), time.process_time()
    measured = step.measure(sizes)
    return Timed(step.name, measured, time.perf_counter() - start, time.process_time() - cpu)
