"""Runs shared by workers: what a dead one held is free at once on its machine, and after a while elsewhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import optuna
import pytest
from optuna.trial import TrialState

from deeplimits.transfer.evidence import workers
from deeplimits.transfer.evidence.workers import shared

TASKS = ["a", "b", "c"]


@pytest.fixture
def study(tmp_path):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(storage=f"sqlite:///{tmp_path / 'runs.sqlite'}", study_name="runs")


def claimed(study, task, **attributes):
    study.enqueue_trial({}, user_attrs={"task": task, **attributes})
    return study.ask()


def work(study, run=lambda task: (1.0, {}), check=lambda done: None):
    ran = []

    def counted(task):
        ran.append(task)
        return run(task)

    return ran, shared(study, TASKS, counted, check, progress=False)


def test_every_task_is_run_once_and_its_notes_are_kept(study):
    ran, done = work(study, lambda task: (2.0, {"of": task}))
    assert ran == TASKS
    assert {task: (one.loss, one.notes) for task, one in done.items()} == {t: (2.0, {"of": t}) for t in TASKS}
    assert work(study)[0] == []


def test_a_run_claimed_by_a_worker_that_never_beat_is_taken_over(study, monkeypatch):
    monkeypatch.setattr(workers, "PATIENCE", 0.2)
    monkeypatch.setattr(workers, "PAUSE", 0.05)
    claimed(study, "b")
    assert work(study)[0] == ["a", "c", "b"]


def test_a_dead_worker_of_this_machine_is_not_waited_for(study):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(30)
    claimed(study, "b", worker=f"{workers._machine()} {gone.pid}")
    assert sorted(work(study)[0]) == TASKS


def test_a_worker_that_beats_is_waited_for(study, monkeypatch):
    monkeypatch.setattr(workers, "PATIENCE", 0.5)
    monkeypatch.setattr(workers, "PAUSE", 0.05)
    trial = claimed(study, "b", worker="elsewhere - 1")
    stop = threading.Event()

    def alive():
        for count in range(30):
            trial.set_user_attr("beat", count)
            if stop.wait(0.05):
                return
        study.tell(trial, 7.0)

    thread = threading.Thread(target=alive)
    thread.start()
    try:
        ran, done = work(study)
    finally:
        stop.set()
        thread.join()
    assert ran == ["a", "c"]
    assert done["b"].loss == 7.0


def test_of_two_offers_of_one_task_one_is_run(study):
    for _ in range(2):
        study.enqueue_trial({}, user_attrs={"task": "a"})
    assert sorted(work(study)[0]) == TASKS


def test_others_tasks_are_left(study):
    study.enqueue_trial({}, user_attrs={"task": "of another sweep"})
    assert sorted(work(study)[0]) == TASKS


def test_an_error_frees_the_task(study):
    def fails(task):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work(study, fails)
    assert sorted(work(study)[0]) == TASKS


def test_ctrl_c_while_the_store_is_written_is_held_back(study):
    """Pressed inside a commit and inside training: the run at hand is free again, the finished ones are kept."""
    tell, handler = study.tell, signal.getsignal(signal.SIGINT)

    def pressed(*given, **named):
        os.kill(os.getpid(), signal.SIGINT)
        return tell(*given, **named)

    study.tell = pressed
    with pytest.raises(KeyboardInterrupt):
        work(study)
    study.tell = tell
    assert [t.state for t in study.get_trials()][:2] == [TrialState.COMPLETE, TrialState.FAIL]

    def stops(task):
        os.kill(os.getpid(), signal.SIGINT)
        return 1.0, {}

    with pytest.raises(KeyboardInterrupt):
        work(study, stops)
    assert work(study)[0] == ["b", "c"]
    assert signal.getsignal(signal.SIGINT) is handler


def test_what_is_done_is_checked_as_it_comes(study):
    seen = []
    work(study, check=lambda done: seen.append(len(done)))
    assert seen == [0, 1, 2, 3]
