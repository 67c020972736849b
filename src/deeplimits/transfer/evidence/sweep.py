"""Learning-rate sweeps over sizes, kept in an Optuna storage that any number of workers may share."""

from __future__ import annotations

import hashlib
import inspect
import json
import sysconfig
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, log2
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from deeplimits.errors import DeepLimitsError, InputError
from deeplimits.transfer.anatomy.initial import materialised
from deeplimits.transfer.anatomy.names import in_words
from deeplimits.transfer.evidence import schedule
from deeplimits.transfer.evidence.curves import OCTAVES, Transfer, summarise
from deeplimits.transfer.evidence.workers import Done, shared
from deeplimits.transfer.make import transfer
from deeplimits.transfer.plan import Plan
from deeplimits.transfer.rule import Rule, get
from deeplimits.transfer.steps.optimizer import base_groups, usable

STUDY = "lr_transfer"
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

    @classmethod
    def of(cls, key: str) -> Task:
        """Read a task from its text."""
        size, log2_lr, seed = json.loads(key)
        return cls(tuple((name, value) for name, value in size), log2_lr, seed)


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
    inputs: Any = None,
    study: str = STUDY,
) -> Transfer:
    """Train every size at every learning rate and seed, and say whether the best learning rate transfers.

    Runs are kept in the storage as they end: a sweep that is interrupted or killed goes on where it stopped when it is
    called again, and several processes or machines that call it with the same storage share the runs. The steps of
    the optimizers that `train` makes are watched: their number and schedule are kept with every run, and runs of
    different ones are not compared.

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
        inputs: an example of what the model takes, where its first layer does not tell.
        study: name of the sweep in the storage; one storage may hold several.

    Raises:
        InputError: too few sizes, rates or seeds; a storage that holds another plan's runs; training whose horizon or
            schedule depends on the size, or that does not keep the ratios of the groups' learning rates.

    Source: definition; the drift of the minimum in octaves, with a bootstrap interval over seeds.
    """
    suffices(sizes, lrs, seeds)
    usable("lr_transfer", weight_decay=weight_decay)
    places = [tuple(sorted((key, int(value)) for key, value in size.items())) for size in sizes]
    rates = sorted(float(lr) for lr in lrs)
    plans = {
        place: transfer(build, dict(places[0]), dict(place), rule, optimizer, alpha, inputs=inputs)
        for place in places[1:]
    }
    chosen = get(rule, alpha)
    about = {"rule": chosen.name, "alpha": chosen.alpha, "optimizer": optimizer, "base": dict(places[0])}
    about |= {"weight_decay": weight_decay, "build": _fingerprint(build), "train": _fingerprint(train)}
    held = _study(store, study, about)
    tasks = [Task(place, log2(lr), seed).key for seed in range(seeds) for lr in rates for place in places]

    def run(key: str) -> tuple[float, dict[str, Any]]:
        task = Task.of(key)
        return _trained(build, train, plans.get(task.size), task, weight_decay)

    found = shared(held, tasks, run, _common, progress)
    losses = [
        [[found[Task(place, log2(lr), seed).key].loss for seed in range(seeds)] for lr in rates] for place in places
    ]
    words = schedule.words(_common(found))
    return summarise(
        chosen.name,
        [dict(size) for size in sizes],
        [log2(lr) for lr in rates],
        np.array(losses),
        margin,
        schedule=words,
    )


def _trained(
    build: Callable[..., nn.Module], train: Train, plan: Plan | None, task: Task, weight_decay: float
) -> tuple[float, dict[str, Any]]:
    """Return the final loss of one run, infinite where it diverged, and the schedule it was trained on."""
    model = materialised(build, dict(task.size), task.seed)
    if plan is not None:
        plan.apply(model, initial=True)
        groups = plan.param_groups(model, lr=2**task.log2_lr, weight_decay=weight_decay)
    else:
        groups = base_groups(model, 2**task.log2_lr, weight_decay)
    torch.manual_seed(task.seed)
    with schedule.recorded(model, groups) as record:
        loss = _run(train, model, groups, task)
    if loss is None:
        raise InputError("lr_transfer", "train returned None", "return the final loss, a number")
    loss = float(loss)
    return loss if isfinite(loss) else inf, {"schedule": record.schedule()}


def _run(train: Train, model: nn.Module, groups: list[dict[str, Any]], task: Task) -> Any:
    try:
        return train(model, groups, task.seed)
    except DeepLimitsError:
        raise
    except Exception as error:
        where = f"{in_words(dict(task.size))}, learning rate {2**task.log2_lr:.4g}, seed {task.seed}"
        words = f"{type(error).__name__}: {_first_line(error)}".rstrip(": ")
        why = f"at {where} train raised {words} ({_place(error)})"
        fix = (
            "mend what broke and make the same call again: this run is made again, and those finished are kept; a "
            "train whose own lines change needs another store"
        )
        raise InputError("lr_transfer", why, fix) from error


def _place(error: Exception) -> str:
    """Return the last line of the user's own that an error passed through, outside of what is installed."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    paths = sysconfig.get_paths()
    others = (*(paths[name] for name in ("stdlib", "purelib", "platlib")), str(Path(__file__).parents[2]), "<")
    own = [frame for frame in frames if not frame.filename.startswith(others)]
    last = (own or frames)[-1]
    return f"{last.filename}, line {last.lineno}, in {last.name}"


def _common(found: Mapping[str, Done]) -> schedule.Schedule | None:
    """Return the schedule of all runs that did not diverge; runs of different ones are refused."""
    pairs = [(dict(Task.of(key).size), run) for key, run in sorted(found.items()) if isfinite(run.loss)]
    return schedule.common([(in_words(size), run.notes["schedule"]) for size, run in pairs if "schedule" in run.notes])


def _fingerprint(function: Any) -> str:
    """Return a digest of a function's or class's source, and of the plain values and inner functions that it reads."""
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        text = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__name__)}"
    if inspect.isfunction(function):
        held = inspect.getclosurevars(function)
        values = {**held.nonlocals, **held.globals}
        plain = {name: value for name, value in values.items() if isinstance(value, int | float | str | tuple)}
        text += repr(sorted(plain.items())) + repr(function.__defaults__) + repr(function.__kwdefaults__)
        inner = {name: value for name, value in held.nonlocals.items() if inspect.isfunction(value)}
        text += "".join(_fingerprint(inner[name]) for name in sorted(inner) if inner[name] is not function)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def suffices(sizes: Sequence[Mapping[str, int]], lrs: Sequence[float], seeds: int) -> None:
    """Refuse sizes that are none, and too few sizes, learning rates or seeds, before any work.

    Raises:
        InputError: no minimum with an interval could come out.
    """
    for size in sizes:
        for key, value in size.items():
            if not isinstance(value, Integral) or value < 1:
                raise InputError("lr_transfer", f"{key}={value!r} is no size", "give whole numbers from 1 on")
    places = {tuple(sorted(size.items())) for size in sizes}
    if len(places) < 2 or len(sizes) != len(places):
        raise InputError("lr_transfer", f"{len(places)} different sizes", "give the base and one size or more")
    odd = [lr for lr in lrs if not isinstance(lr, Real) or not 0 < lr < inf]
    if odd or len(set(lrs)) < 3:
        why = f"lrs={list(lrs)}: a minimum needs three learning rates above zero"
        raise InputError("lr_transfer", why, "give a grid such as [2**k for k in range(-10, -3)]")
    if not isinstance(seeds, Integral) or seeds < 2:
        raise InputError("lr_transfer", f"seeds={seeds!r}", "give two or more: the intervals come from them")


def _study(store: str | Path, name: str, about: Mapping[str, Any]) -> Any:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    url = str(store) if "://" in str(store) else f"sqlite:///{store}"
    options = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else None
    try:
        storage = optuna.storages.RDBStorage(url, options)
    except Exception as error:
        fix = "name an SQLite file in a folder that exists, or a database URL whose driver is installed"
        raise InputError("lr_transfer", f"{store} cannot be opened ({_first_line(error)})", fix) from None
    study = optuna.create_study(storage=storage, study_name=name, load_if_exists=True)
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


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
