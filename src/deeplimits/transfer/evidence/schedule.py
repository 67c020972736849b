"""What schedule a training ran on, seen from its optimizers' steps: its horizon, and its rates over their peak."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from deeplimits.errors import InputError

PLACES = 8
DIGITS = 4
TOLERANCE = 1e-6

Schedule = dict[str, Any]
"""{"steps": of each optimizer, "factors": its rates over their peak at nine places of the run}; plain data."""


class Record:
    """Watches the optimizers of one thread that move a model's parameters.

    Args:
        groups: the plan's parameter groups, whose ratios training must keep.
        names: {id of a parameter: its name}.
    """

    def __init__(self, groups: Sequence[Mapping[str, Any]], names: Mapping[int, str]):
        self.planned = {id(p): float(group["lr"]) for group in groups for p in group["params"]}
        self.names, self.thread = names, threading.get_ident()
        self.rates: dict[int, array[float]] = {}
        self.last: dict[int, list[float]] = {}
        self.first: dict[int, list[int]] = {}

    def note(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Keep the rates of a step that begins."""
        if threading.get_ident() != self.thread or not any(
            id(p) in self.planned for group in optimizer.param_groups for p in group["params"][:1]
        ):
            return
        key = id(optimizer)
        if key not in self.rates:
            self.rates[key] = array("d")
            self.first[key] = [id(group["params"][0]) for group in optimizer.param_groups]
            self._check_groups(optimizer)
        self.last[key] = [float(group["lr"]) for group in optimizer.param_groups]
        self._check_ratios(key)
        self.rates[key].append(max(self.last[key]))

    def schedule(self) -> Schedule:
        """Return what was seen."""
        found = [(len(rates), _factors(rates)) for rates in self.rates.values()]
        return {"steps": [steps for steps, _ in found], "factors": [factors for _, factors in found]}

    def _check_groups(self, optimizer: torch.optim.Optimizer) -> None:
        for group in optimizer.param_groups:
            known = [(self.planned[id(p)], id(p)) for p in group["params"] if id(p) in self.planned]
            low, high = min(known), max(known)
            if high[0] - low[0] > TOLERANCE * high[0]:
                why = f"train puts {self._name(low[1])} and {self._name(high[1])} into one group with one learning rate"
                fix = "make the optimizer from the groups that train is given: torch.optim.AdamW(groups)"
                raise InputError("lr_transfer", why, fix)

    def _check_ratios(self, key: int) -> None:
        pairs = [
            (rate, self.planned[p], p)
            for rate, p in zip(self.last[key], self.first[key], strict=False)
            if p in self.planned
        ]
        top, planned, _ = max(pairs)
        for rate, plan, parameter in pairs:
            expected = top * plan / planned
            if abs(rate - expected) > TOLERANCE * abs(expected):
                why = (
                    f"training set the learning rate of {self._name(parameter)} to {rate:.4g} where the plan's ratios "
                    f"say {expected:.4g}"
                )
                fix = (
                    "schedule with factors of the peak (LambdaLR), a floor included; max_lr may be a list, one a group"
                )
                raise InputError("lr_transfer", why, fix)

    def _name(self, parameter: int) -> str:
        return self.names.get(parameter, "a parameter")


def _factors(rates: Sequence[float]) -> list[float]:
    peak = max(rates) or 1.0
    places = [round(n * (len(rates) - 1) / PLACES) for n in range(PLACES + 1)]
    return [round(rates[place] / peak, DIGITS) for place in places]


@contextmanager
def recorded(model: torch.nn.Module, groups: Sequence[Mapping[str, Any]]) -> Iterator[Record]:
    """Watch the training of a model.

    Raises:
        InputError: a step is taken whose groups do not stand in the plan's ratios.
    """
    record = Record(groups, {id(parameter): name for name, parameter in model.named_parameters()})
    handle = register_optimizer_step_pre_hook(record.note)
    try:
        yield record
    finally:
        handle.remove()


def words(schedule: Schedule | None) -> str:
    """Return a schedule in words.

    Example:
        >>> words({"steps": [60], "factors": [[0.2, 1.0, 0.8, 0.7, 0.5, 0.4, 0.3, 0.1, 0.02]]})
        '60 steps, from 0.2 of the peak to 0.02'
    """
    if not schedule or not schedule["steps"]:
        return "steps not seen"
    parts = []
    for steps, factors in zip(schedule["steps"], schedule["factors"], strict=True):
        level = max(factors) - min(factors) <= TOLERANCE
        shape = "at a constant rate" if level else f"from {factors[0]:g} of the peak to {factors[-1]:g}"
        parts.append(f"{steps} steps, {shape}")
    return "; ".join(parts)


def common(schedules: Sequence[tuple[str, Schedule]]) -> Schedule | None:
    """Return the schedule that all runs share.

    Args:
        schedules: (what ran, its schedule) of runs that did not diverge.

    Raises:
        InputError: two runs of different horizon or schedule, which curves cannot be compared over.
    """
    first: tuple[str, Schedule] | None = None
    for where, schedule in schedules:
        if first is None:
            first = where, schedule
        elif schedule != first[1]:
            why = f"{first[0]} trained for {words(first[1])}, {where} for {words(schedule)}"
            if words(first[1]) == words(schedule):
                why += f", over rates {first[1]['factors']} and {schedule['factors']}"
            fix = "train every size on the same schedule: best learning rates move with the horizon"
            raise InputError("lr_transfer", f"curves of different horizons are not compared: {why}", fix)
    return None if first is None else first[1]
