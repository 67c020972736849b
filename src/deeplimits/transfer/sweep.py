"""Learning-rate sweeps over sizes, kept in an Optuna storage that any number of workers may share."""

from __future__ import annotations

import hashlib
import inspect
import json
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf, isfinite, log2
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from deeplimits.errors import InputError
from deeplimits.progress import Bar
from deeplimits.transfer.curves import OCTAVES, Transfer, summarise
from deeplimits.transfer.initial import materialised
from deeplimits.transfer.make import transfer
from deeplimits.transfer.optimizer import base_groups
from deeplimits.transfer.rule import Rule

HEARTBEAT, GRACE = 5, 60  # seconds
Train = Callable[[nn.Module, list[dict[str, Any]], int], float]


@dataclass(frozen=True)
class Task:
    """One training run: a size, a learning rate of the base, and a seed."""

    size: tuple[tuple[str, int], ...]
    log2_lr: float
    seed: int

    @property
    def key(self) -> str:
        """The task as text."""
        return json.dumps([sorted(self.size), round(self.log2_lr, 9), self.seed])


def lr_transfer(
    build: Callable[..., nn.Module],
    train: Train,
    rule: str | Rule = "completep",
    sizes: Sequence[Mapping[str, int]] = (),
    lrs: Sequence[float] = (),
    seeds: int = 3,
    store: str | Path = "lr_transfer.sqlite",
    optimizer: str = "adamw",
    alpha: float | None = None,
    weight_decay: float = 0.0,
    margin: float = OCTAVES,
    progress: bool = True,
) -> Transfer:
    """Train every size at every learning rate and seed, and say whether the best learning rate transfers.

    Runs are kept in the storage as they end: a sweep that is interrupted or killed goes on where it stopped when it is
    called again, and several processes or machines that call it with the same storage share the runs.

    Args:
        build: makes a model from its sizes.
        train: train(model, groups, seed) trains with an optimizer made from the parameter groups and returns the final
            loss; the model is initialised and rescaled. A loss that is not finite counts as divergence.
        rule: the parametrization.
        sizes: the base first, as dict(width=32, depth=4).
        lrs: learning rates of the base, three or more.
        seeds: of initial values and data, 0 to seeds - 1; two or more.
        store: an SQLite file, or a database URL that Optuna takes. It remembers the plan and the source of `build` and
            `train`, and is refused for others; what these call is not looked into.
        optimizer: name or family of the optimizer that `train` makes.
        alpha: another exponent of residual branches.
        weight_decay: of the base.
        margin: drift in octaves that still counts as transfer.
        progress: whether to show a bar on a terminal.

    Raises:
        InputError: too few sizes, rates or seeds; a storage that holds another plan's runs.

    Source: definition; the drift of the minimum in octaves, with a bootstrap interval over seeds.
    """
    places = [tuple(sorted((key, int(value)) for key, value in size.items())) for size in sizes]
    rates = sorted(float(lr) for lr in lrs)
    _check(places, rates, seeds)
    plans = [
        transfer(build, dict(places[0]), dict(p), rule, optimizer, alpha) if p != places[0] else None for p in places
    ]
    name = rule.name if isinstance(rule, Rule) else rule
    about = {"rule": name, "alpha": alpha, "optimizer": optimizer, "base": dict(places[0])}
    about |= {"weight_decay": weight_decay, "build": _fingerprint(build), "train": _fingerprint(train)}
    study = _study(store, about)
    tasks = [Task(place, log2(lr), seed) for place in places for lr in rates for seed in range(seeds)]

    def run(task: Task) -> float:
        plan = plans[places.index(task.size)]
        model = materialised(build, dict(task.size), task.seed)
        if plan is not None:
            plan.apply(model, initial=True)
            groups = plan.param_groups(model, lr=2**task.log2_lr, weight_decay=weight_decay)
        else:
            groups = base_groups(model, 2**task.log2_lr, weight_decay)
        torch.manual_seed(task.seed)
        loss = train(model, groups, task.seed)
        if loss is None:
            raise InputError("lr_transfer", "train returned None", "return the final loss, a number")
        loss = float(loss)
        return loss if isfinite(loss) else inf

    found = _work(study, tasks, run, progress)
    losses = np.array([found[task.key] for task in tasks]).reshape(len(places), len(rates), seeds)
    return summarise(name, [dict(place) for place in places], [log2(lr) for lr in rates], losses, margin)


def _fingerprint(function: Any) -> str:
    """Return a digest of a function's or class's source and of the plain values that it reads."""
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        text = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__name__)}"
    if inspect.isfunction(function):
        held = inspect.getclosurevars(function)
        values = {**held.nonlocals, **held.globals}
        plain = {name: value for name, value in values.items() if isinstance(value, int | float | str | tuple)}
        text += repr(sorted(plain.items())) + repr(function.__defaults__) + repr(function.__kwdefaults__)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _check(places: list[Any], rates: list[float], seeds: int) -> None:
    if len(places) < 2 or len(set(places)) != len(places):
        raise InputError("lr_transfer", f"{len(set(places))} different sizes", "give the base and one size or more")
    if len(set(rates)) < 3 or rates[0] <= 0:
        why = f"lrs={rates}: a minimum needs three learning rates above zero"
        raise InputError("lr_transfer", why, "give a grid such as [2**k for k in range(-10, -3)]")
    if seeds < 2:
        raise InputError("lr_transfer", f"seeds={seeds}", "give two or more: the intervals come from them")


def _study(store: str | Path, about: Mapping[str, Any]) -> Any:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    url = str(store) if "://" in str(store) else f"sqlite:///{store}"
    options = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        storage = optuna.storages.RDBStorage(url, options, heartbeat_interval=HEARTBEAT, grace_period=GRACE)
    study = optuna.create_study(storage=storage, study_name="lr_transfer", load_if_exists=True)
    known = study.user_attrs.get("about")
    if known is None:
        study.set_user_attr("about", dict(about))
    elif known != dict(about):
        odd = [
            f"{key} is {known.get(key)!r} there and {value!r} here"
            for key, value in about.items()
            if known.get(key) != value
        ]
        why = f"{store} holds runs of another plan: {'; '.join(odd)}"
        raise InputError("lr_transfer", why, "name another store, or ask for the same plan")
    return study


def _work(study: Any, tasks: Sequence[Task], run: Callable[[Task], float], progress: bool) -> dict[str, float]:
    """Run what nobody has run, until every task has a result; returns {key: loss}."""
    import optuna

    state = optuna.trial.TrialState
    wanted = {task.key: task for task in tasks}

    def objective(trial: Any) -> float:
        key = trial.user_attrs["task"]
        earlier = (
            t for t in study.get_trials(deepcopy=False) if t.number < trial.number and t.user_attrs["task"] == key
        )
        if any(t.state in (state.RUNNING, state.COMPLETE) for t in earlier):
            raise optuna.TrialPruned  # two workers asked for it at once
        return run(wanted[key])

    with Bar(len(wanted), progress, "training") as bar:
        while True:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                optuna.storages.fail_stale_trials(study)
            trials = study.get_trials(deepcopy=False)
            done = _done(trials, wanted)
            bar.reach(len(done))
            if len(done) == len(wanted):
                return done
            held = {t.user_attrs["task"] for t in trials if t.state in (state.WAITING, state.RUNNING, state.COMPLETE)}
            for key in (key for key in wanted if key not in held):
                study.enqueue_trial({}, user_attrs={"task": key})
            if any(t.state == state.WAITING for t in study.get_trials(deepcopy=False)):
                with suppress(optuna.exceptions.UpdateFinishedTrialError):  # another worker took this run for lost
                    study.optimize(objective, n_trials=1)
            else:
                time.sleep(1.0)  # other workers hold the rest


def _done(trials: Iterable[Any], wanted: Mapping[str, Task]) -> dict[str, float]:
    found: dict[str, float] = {}
    for trial in trials:
        key = trial.user_attrs.get("task")
        if trial.state.name == "COMPLETE" and key in wanted:
            found.setdefault(key, float(trial.value))
    return found
