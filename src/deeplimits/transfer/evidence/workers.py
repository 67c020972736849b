"""Runs that workers share through an Optuna study: each is claimed, kept alive, and taken over from the dead.

A run is a trial with its task as a user attribute. A worker that holds one renews its beat every few seconds; a run
whose worker is gone from this machine, or whose beat has not changed for a minute of watching, whether it ever had
one or not, is failed, and its task is free again.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from deeplimits.progress import Bar
from deeplimits.transfer.evidence.interrupts import Interrupts

BEAT, PATIENCE = 5.0, 60.0  # seconds
PAUSE = 0.5
Run = Callable[[str], tuple[float, dict[str, Any]]]


@dataclass(frozen=True)
class Done:
    """A finished run: its loss, and what else was kept of it."""

    loss: float
    notes: dict[str, Any]


@dataclass
class Watch:
    """Which running trials are lost, as seen by one worker with its own clock."""

    seen: dict[int, tuple[Any, float]] = field(default_factory=dict)

    def lost(self, trial: Any) -> bool:
        """Return whether nobody works on a running trial."""
        if _gone(trial.user_attrs.get("worker", "")):
            return True
        beat, now = trial.user_attrs.get("beat"), time.monotonic()
        known, since = self.seen.get(trial.number, (None, None))
        if since is None or beat != known:
            self.seen[trial.number] = beat, now
            return False
        return now - since > PATIENCE


class _Beat:
    """Renews a trial's beat in the background."""

    def __init__(self, trial: Any):
        self.trial, self.stop = trial, threading.Event()
        self.thread = threading.Thread(target=self._renew, daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()

    def _renew(self) -> None:
        import optuna

        count = 0
        while not self.stop.wait(BEAT):
            count += 1
            with suppress(optuna.exceptions.OptunaError):  # locked for once, or taken for lost: the next call tells
                self.trial.set_user_attr("beat", count)


def shared(
    study: Any, tasks: Collection[str], run: Run, check: Callable[[dict[str, Done]], Any], progress: bool
) -> dict[str, Done]:
    """Run what nobody has run, until every task is done; returns {task: what came out}.

    Args:
        study: an Optuna study that any number of workers have open.
        tasks: as text, in the order in which they are wanted.
        run: returns (loss, plain data to keep with it).
        check: called with what is done whenever something new is, to refuse early.
        progress: whether to show a bar on a terminal.

    Raises:
        KeyboardInterrupt: Ctrl-C; the run at hand is failed, and everything finished is kept.
    """
    from optuna.trial import TrialState

    watch, known = Watch(), -1
    with Bar(len(tasks), progress, "training") as bar, Interrupts() as interrupts:
        while True:
            trials = study.get_trials(deepcopy=False)
            for trial in (t for t in trials if t.state == TrialState.RUNNING and watch.lost(t)):
                study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
            found = done(trials, tasks)
            bar.reach(len(found))
            if len(found) != known:
                check(found)
                known = len(found)
            if known == len(tasks):
                return found
            waiting = _offer(study, tasks)
            if waiting:
                _take(study, tasks, run, interrupts)
            else:
                with interrupts.open():
                    time.sleep(PAUSE)  # other workers hold the rest


def done(trials: Iterable[Any], tasks: Collection[str]) -> dict[str, Done]:
    """Return {task: what came out} of the finished trials; of two with one task, the first."""
    found: dict[str, Done] = {}
    for trial in trials:
        task = trial.user_attrs.get("task")
        if trial.state.name == "COMPLETE" and task in tasks:
            found.setdefault(task, Done(float(trial.value), dict(trial.user_attrs.get("notes") or {})))
    return found


def _offer(study: Any, tasks: Collection[str]) -> bool:
    """Put every task that nobody has into the queue; returns whether the queue holds one of them."""
    held: dict[str, str] = {}
    for trial in study.get_trials(deepcopy=False):
        if trial.state.name in ("WAITING", "RUNNING", "COMPLETE"):
            held[trial.user_attrs.get("task", "")] = trial.state.name
    free = [task for task in tasks if task not in held]
    for task in free:
        study.enqueue_trial({}, user_attrs={"task": task})
    return bool(free) or any(held.get(task) == "WAITING" for task in tasks)


def _take(study: Any, tasks: Collection[str], run: Run, interrupts: Interrupts) -> None:
    """Claim one task of the queue and run it."""
    from optuna.exceptions import UpdateFinishedTrialError
    from optuna.trial import TrialState

    trial = study.ask()
    task = trial.user_attrs.get("task")
    if task not in tasks or _taken(study, trial.number, task):
        study.tell(trial, state=TrialState.PRUNED, skip_if_finished=True)
        return
    try:
        trial.set_user_attr("worker", _own_name())
        with _Beat(trial), interrupts.open():
            loss, notes = run(task)
        trial.set_user_attr("notes", notes)
        study.tell(trial, loss, skip_if_finished=True)
    except UpdateFinishedTrialError:
        return  # another worker took this run for lost
    except BaseException:
        study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)
        raise


def _taken(study: Any, number: int, task: str) -> bool:
    """Return whether an earlier trial has the task: two workers offered it at once."""
    earlier = (t for t in study.get_trials(deepcopy=False) if t.number < number and t.user_attrs.get("task") == task)
    return any(t.state.name in ("RUNNING", "COMPLETE") for t in earlier)


def _own_name() -> str:
    return f"{_machine()} {os.getpid()}"


def _machine() -> str:
    """Return this machine, and inside it the space in which process numbers mean something."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = "-"
    return f"{platform.node() or '-'} {space}"


def _gone(worker: str) -> bool:
    """Return whether a worker of this machine no longer runs; False where that cannot be known."""
    machine, _, number = worker.rpartition(" ")
    if machine != _machine() or not number.isdigit() or os.name == "nt":
        return False
    try:
        os.kill(int(number), 0)
        stat = Path(f"/proc/{number}/stat")
        return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] in "ZX"  # dead, not yet reaped
    except ProcessLookupError:
        return True
    except OSError:
        return False
