"""The coordinate check: do activations, logits and their updates keep their size as the model grows?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import nn

from deeplimits.errors import InputError
from deeplimits.numerics.fit import Slope, slope
from deeplimits.transfer.anatomy.initial import materialised
from deeplimits.transfer.anatomy.names import stacks
from deeplimits.transfer.evidence.activations import Batch, Sizes, followed, shown
from deeplimits.transfer.evidence.audit import Audit, audit
from deeplimits.transfer.make import transfer
from deeplimits.transfer.plan import Plan
from deeplimits.transfer.rule import Rule, get
from deeplimits.transfer.steps.optimizer import usable

MARGIN = 0.2
PASS, FAIL, UNDECIDED = "pass", "fail", "undecided"
FLOOR = 1e-3


@dataclass(frozen=True)
class Coordinate:
    """How the update of one module's output scales along one axis.

    Attributes:
        module: its name; of the blocks, the one in the middle and the last; a module called again has an entry a call.
        axis: "width" or "depth".
        sizes: along the axis.
        updates: root mean square of what training changed in its output, mean over seeds, shape (sizes,).
        errors: standard errors, shape (sizes,).
        predicted: range of the exponent that keeps features moving: 0; in depth, for what ends a branch, from -1 (the
            change of its own weights) to -alpha (the change of what it reads).
        slope: exponent of the updates, with its interval.
        verdict: "pass" (its interval lies within the margin around the prediction), "fail" (outside) or "undecided".
        activations: root mean square of its output before training and after every step, shape (steps + 1, sizes).
        initial: exponent of the first of them, with the readout's own values; None where an output is zero.
        earlier: exponents of the updates after the steps before the last; None where nothing moved yet.
        transient: what was outside the margin before training, or early on, and does not fail at the end, in words.
    """

    module: str
    axis: str
    sizes: tuple[int, ...]
    updates: tuple[float, ...]
    errors: tuple[float, ...]
    predicted: tuple[float, float]
    slope: Slope
    verdict: str
    activations: tuple[tuple[float, ...], ...] = ()
    initial: Slope | None = None
    earlier: tuple[Slope | None, ...] = ()
    transient: str = ""

    @property
    def deviation(self) -> float:
        """How far the exponent lies outside its prediction; negative inside."""
        return max(self.predicted[0] - self.slope.value, self.slope.value - self.predicted[1])


@dataclass(frozen=True)
class CoordinateCheck:
    """What a coordinate check found.

    Attributes:
        rule: the parametrization.
        optimizer: that trained.
        steps: of training before the updates were measured.
        seeds: over which updates were averaged.
        margin: of exponents that pass.
        coordinates: one record a module and axis, the worst first.
        verdict: "fail" if one fails, "pass" if all pass, else "undecided".
        audits: what the plans scale, for the largest model of each axis.
        still: modules whose output did not change in some run, which have no exponent.
    """

    rule: str
    optimizer: str
    steps: int
    seeds: int
    margin: float
    coordinates: tuple[Coordinate, ...]
    verdict: str
    audits: tuple[Audit, ...] = ()
    still: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = {PASS: "updates keep their size", FAIL: "updates do not keep their size", UNDECIDED: "undecided"}
        lines = [str(each) for each in self.audits]
        lines.append(f"{self.rule}, {self.optimizer}, {self.steps} steps, {self.seeds} seeds: {words[self.verdict]}")
        for c in self.coordinates:
            interval = f"[{c.slope.low:+.2f}, {c.slope.high:+.2f}]"
            after = f"  ({c.transient})" if c.transient else ""
            expected = f"predicted {exponents(c.predicted)}"
            lines.append(f"  {c.verdict:9}  {c.axis}^{c.slope.value:+.2f} {interval}, {expected}  {c.module}{after}")
        return "\n".join([*lines, *(f"  {name} did not move" for name in self.still)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def exponents(predicted: tuple[float, float]) -> str:
    """Return a range of exponents in words.

    Example:
        >>> exponents((0.0, 0.0)), exponents((-1.0, -0.5))
        ('0', '-1 to -0.5')
    """
    low, high = predicted
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def coordinate_check(
    build: Callable[..., nn.Module],
    rule: str | Rule = "completep",
    widths: Sequence[int] = (),
    depths: Sequence[int] = (),
    base: Mapping[str, int] | None = None,
    optimizer: str = "adamw",
    lr: float = 2e-3,
    steps: int = 3,
    seeds: int = 8,
    batch: Batch | None = None,
    alpha: float | None = None,
    margin: float = MARGIN,
) -> CoordinateCheck:
    """Train small copies for a few steps and fit how the change of every module's output scales in width and in depth.

    Readouts start from zero, so that the change of the logits is not mixed with their initial size, which falls as
    width**-1/2 under muP by design: that is told apart as a transient. A change is taken on the batch it was trained
    on. For each module and axis the exponent is fitted over sizes, with standard errors over seeds and a 99 % interval.

    Args:
        build: build(width=, depth=) returns a model.
        rule: the parametrization to check.
        widths: sizes of the width axis, at the base's depth.
        depths: sizes of the depth axis, at the base's width.
        base: the smallest of both by default.
        optimizer: "adamw", "adam", "sgd" or "lion"-like names that torch.optim has.
        lr: learning rate of the base.
        steps: of training.
        seeds: number of initial values; two or more.
        batch: (inputs, class labels or real targets), or a function of the seed that returns them; made from the
            model's first layer where left out.
        alpha: another exponent of residual branches.
        margin: exponents within it pass.

    Raises:
        InputError: fewer than three sizes on an axis, sizes that cannot be compared, or a run that diverged.

    Source: yang-2022-tp5 (in width); dey-2025-completep (in depth).
    """
    usable("coordinate_check", lr)
    suffices(widths, depths, steps, seeds)
    if base is None:
        base = _smallest(widths, depths)
    found: list[Coordinate] = []
    audits, still = [], set()
    for axis, sizes in (("width", widths), ("depth", depths)):
        if sizes:
            places = [{**base, axis: size} for size in sorted(set(sizes))]
            inputs = None if batch is None else (batch(0) if callable(batch) else batch)[0]
            plans = [
                transfer(build, base, place, rule, optimizer, alpha, inputs=inputs) if place != dict(base) else None
                for place in places
            ]
            runs = [
                [
                    followed(materialised(build, place, seed), plan, optimizer, lr, steps, batch, seed)
                    for seed in range(seeds)
                ]
                for place, plan in zip(places, plans, strict=True)
            ]
            ending = _ending(plans[-1], get(rule, alpha).alpha) if axis == "depth" else {}
            fits, unmoved = _fitted(axis, [place[axis] for place in places], runs, margin, ending)
            found, still = found + fits, still | unmoved
            audits += [audit(plan) for plan in plans[-1:] if plan is not None]
    found.sort(key=lambda c: -c.deviation)
    verdicts = {c.verdict for c in found}
    verdict = FAIL if FAIL in verdicts else PASS if verdicts == {PASS} else UNDECIDED
    name = get(rule, alpha).name
    return CoordinateCheck(
        name, optimizer, steps, seeds, margin, tuple(found), verdict, tuple(audits), tuple(sorted(still))
    )


def suffices(widths: Sequence[int], depths: Sequence[int], steps: int, seeds: int) -> None:
    """Refuse too few sizes, steps or seeds, before any work.

    Raises:
        InputError: no exponent with an interval could come out.
    """
    for axis, sizes in (("widths", widths), ("depths", depths)):
        if len(set(sizes)) < 3 and (sizes or not (widths or depths)):
            why = f"{axis}={list(sizes)}: an exponent with an interval needs three sizes"
            raise InputError("coordinate_check", why, "give three or more widths, or three or more depths")
    for name, value, least in (("steps", steps, 1), ("seeds", seeds, 2)):
        if value < least:
            raise InputError("coordinate_check", f"{name}={value}", f"give {least} or more")


def _smallest(widths: Sequence[int], depths: Sequence[int]) -> dict[str, int]:
    if not widths or not depths:
        axis = "depth" if widths else "width"
        fix = f"pass base=dict(width=..., depth=...) with the {axis} to keep"
        raise InputError("coordinate_check", f"the base's {axis} is open", fix)
    return {"width": min(widths), "depth": min(depths)}


def _ending(plan: Plan | None, alpha: float | None) -> dict[str, tuple[float, float]]:
    """Return {module that ends a branch, as shown: range of the exponent of its output in depth}."""
    if plan is None or not alpha:
        return {}
    lists = {prefix: max(of) for prefix, of in stacks(row.name for row in plan.rows).items()}
    found = {}
    for row in plan.rows:
        parts = row.name.split(".")[:-1] if row.branch_output else []
        depth = max((n for n, part in enumerate(parts) if part.isdigit()), default=len(parts))
        for end in range(depth + 2, len(parts) + 1):
            found[shown(".".join(parts[:end]), lists) or ""] = (-max(alpha, 1.0), -min(alpha, 1.0))
    return found


def _fitted(
    axis: str,
    sizes: list[int],
    runs: list[list[list[Sizes]]],
    margin: float,
    predicted: Mapping[str, tuple[float, float]],
) -> tuple[list[Coordinate], set[str]]:
    """Return the exponents of every module, and the modules that did not move in some run."""
    found, still = [], set()
    for name in (name for name in runs[0][0][-1] if all(name in run[-1] for at in runs for run in at)):
        values = np.array([[[run[t][name] for run in at] for at in runs] for t in range(len(runs[0][0]))])
        if not np.isfinite(values).all():
            size = sizes[int(np.argwhere(~np.isfinite(values))[0][1])]
            why = f"{name} is not finite at {axis} {size}"
            raise InputError("coordinate_check", why, "lower lr: updates of a run that diverged have no exponent")
        *before, last = [_slope(sizes, at) for at in values[1:, :, :, 1]]
        if last is None:
            still.add(name)
            continue
        expected = predicted.get(name.partition(" (call")[0], (0.0, 0.0))
        initial, verdict = _slope(sizes, values[0, :, :, 0]), _verdict(last, expected, margin)
        means = values.mean(2)
        errors = tuple((values[-1, :, :, 1].std(1, ddof=1) / values.shape[2] ** 0.5).tolist())
        updates, activations = tuple(means[-1, :, 1].tolist()), tuple(map(tuple, means[:, :, 0].tolist()))
        early = (
            "" if verdict == FAIL else _transient(axis, initial, before if verdict == PASS else (), expected, margin)
        )
        found.append(
            Coordinate(
                name, axis, tuple(sizes), updates, errors, expected, last, verdict, activations, initial,
                tuple(before), early,
            )
        )  # fmt: skip
    return found, still


def _slope(sizes: list[int], values: np.ndarray) -> Slope | None:
    """Return the exponent of values of shape (sizes, seeds); None where one is zero."""
    if not (values > 0).all():
        return None
    means, errors = values.mean(1), values.std(1, ddof=1) / values.shape[1] ** 0.5
    return slope(sizes, means, np.maximum(errors, FLOOR * means))


def _verdict(fit: Slope, expected: tuple[float, float], margin: float) -> str:
    low, high = expected[0] - margin, expected[1] + margin
    return PASS if fit.inside(low, high) else FAIL if fit.low > high or fit.high < low else UNDECIDED


def _transient(
    axis: str, initial: Slope | None, before: Sequence[Slope | None], expected: tuple[float, float], margin: float
) -> str:
    words = []
    if initial is not None and _verdict(initial, expected, margin) == FAIL:
        words.append(f"transient at t = 0: size {axis}^{initial.value:+.2f} before training")
    early = [t for t, fit in enumerate(before, 1) if fit is not None and _verdict(fit, expected, margin) == FAIL]
    if early:
        fit = before[early[0] - 1]
        words.append(f"transient at t = {early[0]}: update {axis}^{fit.value:+.2f}" if fit else "")
    return "; ".join(words)
