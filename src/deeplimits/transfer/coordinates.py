"""The coordinate check: do activations, logits and their updates keep their size as the model grows?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from deeplimits.errors import InputError
from deeplimits.numerics.fit import Slope, slope
from deeplimits.transfer.initial import materialised
from deeplimits.transfer.inputs import call, example
from deeplimits.transfer.make import transfer
from deeplimits.transfer.names import bare, stacks
from deeplimits.transfer.optimizer import base_groups, of_torch
from deeplimits.transfer.plan import Plan
from deeplimits.transfer.rule import Rule, family, get

MARGIN = 0.2
PASS, FAIL, UNDECIDED = "pass", "fail", "undecided"


@dataclass(frozen=True)
class Coordinate:
    """How the update of one module's output scales along one axis.

    Attributes:
        module: its name; of the blocks, the one in the middle and the last.
        axis: "width" or "depth".
        sizes: along the axis.
        updates: root mean square of what training changed in its output, mean over seeds, shape (sizes,).
        errors: standard errors, shape (sizes,).
        predicted: range of the exponent that keeps features moving: 0; in depth, for what ends a branch, from -1 (the
            change of its own weights) to -alpha (the change of what it reads).
        slope: exponent of the updates, with its interval.
        verdict: "pass" (its interval lies within the margin around the prediction), "fail" (outside) or "undecided".
    """

    module: str
    axis: str
    sizes: tuple[int, ...]
    updates: tuple[float, ...]
    errors: tuple[float, ...]
    predicted: tuple[float, float]
    slope: Slope
    verdict: str


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
    """

    rule: str
    optimizer: str
    steps: int
    seeds: int
    margin: float
    coordinates: tuple[Coordinate, ...]
    verdict: str

    def __str__(self) -> str:
        words = {PASS: "updates keep their size", FAIL: "updates do not keep their size", UNDECIDED: "undecided"}
        lines = [f"{self.rule}, {self.optimizer}, {self.steps} steps, {self.seeds} seeds: {words[self.verdict]}"]
        for c in self.coordinates:
            interval = f"[{c.slope.low:+.2f}, {c.slope.high:+.2f}]"
            low, high = c.predicted
            words = f"{low:g}" if low == high else f"{low:g} to {high:g}"
            lines.append(f"  {c.verdict:9}  {c.axis}^{c.slope.value:+.2f} {interval}, predicted {words}  {c.module}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


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
    batch: tuple[Any, torch.Tensor] | None = None,
    alpha: float | None = None,
    margin: float = MARGIN,
) -> CoordinateCheck:
    """Train small copies for a few steps and fit how the change of every module's output scales in width and in depth.

    Readouts start from zero, so that the change of the logits is not mixed with their initial size, which falls as
    width**-1/2 under muP by design. A change is taken on the batch it was trained on. For each module and axis the
    exponent is fitted over sizes, with standard errors over seeds and a 99 % interval.

    Args:
        build: build(width=, depth=) returns a model.
        rule: the parametrization to check.
        widths: sizes of the width axis, at the base's depth.
        depths: sizes of the depth axis, at the base's width.
        base: the smallest of both by default.
        optimizer: "adamw", "adam", "sgd" or "lion"-like names that torch.optim has.
        lr: learning rate of the base.
        steps: of training.
        seeds: number of initial values.
        batch: (inputs, class labels); made from the model's first layer where left out.
        alpha: another exponent of residual branches.
        margin: exponents within it pass.

    Raises:
        InputError: fewer than three sizes on an axis, or sizes that cannot be compared.
    """
    for axis, sizes in (("widths", widths), ("depths", depths)):
        if len(set(sizes)) < 3 and (sizes or not (widths or depths)):
            why = f"{axis}={list(sizes)}: an exponent with an interval needs three sizes"
            raise InputError("coordinate_check", why, "give three or more widths, or three or more depths")
    if base is None:
        base = _smallest(widths, depths)
    found: list[Coordinate] = []
    for axis, sizes in (("width", widths), ("depth", depths)):
        if sizes:
            places = [{**base, axis: size} for size in sorted(set(sizes))]
            plans = [
                transfer(build, base, place, rule, optimizer, alpha) if place != dict(base) else None
                for place in places
            ]
            runs = [
                [
                    _trained(_start(build, place, plan, seed), plan, optimizer, lr, steps, batch, seed)
                    for seed in range(seeds)
                ]
                for place, plan in zip(places, plans, strict=True)
            ]
            ending = _ending(plans[-1], get(rule, alpha).alpha) if axis == "depth" else {}
            found += _fitted(axis, [place[axis] for place in places], runs, margin, ending)
    found.sort(key=lambda c: -max(c.predicted[0] - c.slope.value, c.slope.value - c.predicted[1]))
    verdicts = {c.verdict for c in found}
    verdict = FAIL if FAIL in verdicts else PASS if verdicts == {PASS} else UNDECIDED
    name = rule.name if isinstance(rule, Rule) else rule
    return CoordinateCheck(name, optimizer, steps, seeds, margin, tuple(found), verdict)


def _smallest(widths: Sequence[int], depths: Sequence[int]) -> dict[str, int]:
    if not widths or not depths:
        axis = "depth" if widths else "width"
        fix = f"pass base=dict(width=..., depth=...) with the {axis} to keep"
        raise InputError("coordinate_check", f"the base's {axis} is open", fix)
    return {"width": min(widths), "depth": min(depths)}


def _start(build: Any, place: Mapping[str, int], plan: Plan | None, seed: int) -> nn.Module:
    model = materialised(build, place, seed)
    if plan is not None:
        plan.apply(model, initial=True)
    _silence(model)
    return model


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
            found[_shown(".".join(parts[:end]), lists) or ""] = (-max(alpha, 1.0), -min(alpha, 1.0))
    return found


def _silence(model: nn.Module) -> None:
    """Set the readout, the last matrix of the forward pass outside all blocks, to zero."""
    from deeplimits.transfer.uses import Watch

    with torch.no_grad(), Watch(model) as watch:
        call(model, example(model))
    own = {bare(name): parameter for name, parameter in model.named_parameters()}
    last = [name for name in watch.order if own[bare(name)].dim() > 1 and bare(name) not in watch.twice][-1]
    with torch.no_grad():
        own[bare(last)].zero_()


def _trained(
    model: nn.Module, plan: Plan | None, optimizer: str, lr: float, steps: int, batch: Any, seed: int
) -> dict[str, float]:
    inputs, labels = batch if batch is not None else _batch(model, seed)
    if plan is not None:
        groups: Any = [{k: v for k, v in g.items() if k != "param_names"} for g in plan.param_groups(model, lr=lr)]
    else:
        groups = base_groups(model, lr)
    if family(optimizer) == "sgd":
        groups = [{k: v for k, v in g.items() if k != "eps"} for g in groups]
    trainer = of_torch(optimizer, "coordinate_check")(groups)
    before = _outputs(model, inputs)
    for _ in range(steps):
        trainer.zero_grad()
        logits = call(model, inputs)
        nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten()).backward()
        trainer.step()
    after = _outputs(model, inputs)
    return {name: float((after[name] - before[name]).square().mean().sqrt()) for name in before}


def _batch(model: nn.Module, seed: int) -> tuple[Any, torch.Tensor]:
    inputs = example(model)
    with torch.no_grad():
        logits = call(model, inputs)
    generator = torch.Generator().manual_seed(seed)
    return inputs, torch.randint(logits.shape[-1], logits.shape[:-1], generator=generator)


def _outputs(model: nn.Module, inputs: Any) -> dict[str, torch.Tensor]:
    """Return {module: output} of the modules outside blocks, and of the block in the middle and the last one."""
    found: dict[str, torch.Tensor] = {}
    lists = {prefix: max(of) for prefix, of in stacks(name for name, _ in model.named_modules()).items()}

    def keep(name: str) -> Any:
        def hook(module: nn.Module, given: Any, result: Any) -> None:
            first = result[0] if isinstance(result, tuple | list) else result
            if isinstance(first, torch.Tensor) and first.is_floating_point():
                found[name] = first.detach().double()

        return hook

    handles = []
    for name, module in model.named_modules():
        shown = _shown(name, lists)
        if shown is not None and not isinstance(module, nn.ModuleList):
            handles.append(module.register_forward_hook(keep(shown or "logits")))
    try:
        with torch.no_grad():
            call(model, inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _shown(name: str, lists: Mapping[str, int]) -> str | None:
    """Return a module's name with its block called middle or last; None for the other blocks."""
    parts, prefix = name.split("."), ""
    for place, part in enumerate(parts):
        if part.isdigit() and lists.get(prefix, 0) > 0:
            known = {(lists[prefix] + 1) // 2: "middle", lists[prefix]: "last"}
            if int(part) not in known:
                return None
            parts[place] = known[int(part)]
        prefix = f"{prefix}.{part}" if prefix else part
    return ".".join(parts)


def _fitted(
    axis: str,
    sizes: list[int],
    runs: list[list[dict[str, float]]],
    margin: float,
    predicted: Mapping[str, tuple[float, float]],
) -> list[Coordinate]:
    found = []
    for name in (name for name in runs[0][0] if all(name in run for at in runs for run in at)):
        values = np.array([[run[name] for run in at] for at in runs])
        if not (values > 0).all():
            continue
        means, errors = values.mean(1), values.std(1, ddof=1) / values.shape[1] ** 0.5
        fit, expected = slope(sizes, means, np.maximum(errors, 1e-3 * means)), predicted.get(name, (0.0, 0.0))
        low, high = expected[0] - margin, expected[1] + margin
        verdict = PASS if fit.inside(low, high) else FAIL if fit.low > high or fit.high < low else UNDECIDED
        scatter = tuple(errors.tolist())
        found.append(Coordinate(name, axis, tuple(sizes), tuple(means.tolist()), scatter, expected, fit, verdict))
    return found
