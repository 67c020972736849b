"""Factors of the depth that a model's own forward pass brings to its branches, so that no plan counts them twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import log

import torch
from torch import nn

from deeplimits.errors import InputError
from deeplimits.transfer.anatomy import initial
from deeplimits.transfer.anatomy.branches import Step, list_of, steps
from deeplimits.transfer.anatomy.names import bare, starred
from deeplimits.transfer.anatomy.survey import Parameter
from deeplimits.transfer.anatomy.trial import TOLERANCE, Trial

Measured = dict[tuple[str, str], list[float]]
"""{(block of the base, what ends a branch in it): powers that were measured}."""
Powers = dict[str, float]
"""{parameter of the base that ends a branch: power of the depth that the forward pass divides the branch by}."""


def of_build(
    build: Callable[..., nn.Module],
    base: dict[str, int],
    doubled: Mapping[str, Sequence[Parameter]],
    trial: Trial,
    ends: Iterable[str],
    outer: set[str],
    blocks: Iterable[str],
    seed: int,
) -> Powers:
    """Measure the factors on a copy of twice the depth.

    The copy is given the base's values, block by block, and every block what its counterpart takes: what it adds
    differs by what the forward pass makes of the depth. Of the branches of a block one is on at a time, as each takes
    what the one before adds. Counterparts are the block of the same number and that of the
    same relative place; blocks that do different things by their place (local and global attention) are compared where
    they do the same.

    Args:
        build: makes the model from its sizes.
        base: sizes of the base.
        doubled: {size: what changes where it is doubled}.
        trial: of the base.
        ends: parameters of the base that branches are linear in.
        outer: blocks of the base whose output the model adds.
        blocks: of the base, in lists whose length changes.
        seed: of the copy.

    Returns:
        the powers; nothing of a branch that adds nothing, or where a size changes the depth and more than that.

    Raises:
        InputError: the branches of a list differ by other than one factor.
    """
    found, known = Powers(), set(blocks)
    for key, pairs in doubled.items():
        relative = {row.target_block: str(row.block) for row in pairs if row.block in known}
        if all(row.depth_ratio == 1 for row in pairs) or any(
            row.fan_in_ratio != 1 or row.fan_out_ratio != 1 for row in pairs
        ):
            continue
        deep = initial.materialised(build, {**base, key: 2 * base[key]}, seed).to(trial.dtype).eval()
        same = {head: head if head in relative.values() else other for head, other in relative.items()}
        measured: Measured = {}
        for end, names in _branches(ends, set(relative.values())).items():
            off = {name: trial.null[name] for name in trial.own if bare(name) in set(ends) - names}
            with trial.set(off):  # the copy takes the values that are held
                for match in (same, relative):
                    _fill(deep, pairs, match, trial)
                    for head, power in _compared(trial, deep, match, outer):
                        if any(name.startswith(f"{head}.") for name in names):
                            measured.setdefault((head, end), []).extend([] if power is None else [power])
        found |= _agreed(measured, ends, known)
    return found


def of_numbers(
    trial: Trial, target: nn.Module, rows: Sequence[Parameter], ends: Iterable[str], outer: set[str]
) -> Powers:
    """Measure the factors that are numbers held by modules, where two instances are given in place of a function.

    A copy of the base is given the target's number, one at a time; where its blocks then add a multiple of what they
    added, the number is such a factor. One that the forward pass computes (from the length of a list) is not seen.

    Args:
        trial: of the base.
        target: the model that will be trained.
        rows: one record a parameter of the target.
        ends: parameters of the base that branches are linear in.
        outer: blocks of the base whose output the model adds.

    Raises:
        InputError: the branches of a list differ by other than one factor.
    """
    blocks: dict[str, Parameter] = {str(row.block): row for row in rows if row.block and row.depth_ratio != 1}
    measured: Measured = {}
    for end, names in _branches(ends, set(blocks)).items():
        heads = {head: row for head, row in blocks.items() if any(name.startswith(f"{head}.") for name in names)}
        with trial.set({name: trial.null[name] for name in trial.own if bare(name) in set(ends) - names}):
            before = steps(trial.model, trial.inputs, blocks)
            given = {head: step.given for head, step in before.items()}
            added = {head: _added(before, head, head in outer) for head in heads}
            added = {head: branch for head, branch in added.items() if branch is not None and not trial.still(branch)}
            measured |= {(head, end): [0.0] for head in added}
            for module, name, other in _differing(trial, target, blocks):
                with trial.held(module, name, other):
                    after = steps(trial.model, trial.inputs, blocks, given)
                for head, branch in added.items():
                    ratio = _ratio(trial, branch, _added(after, head, head in outer))
                    measured[head, end][0] -= log(ratio or 1.0) / log(heads[head].depth_ratio)
    return _agreed(measured, ends, blocks)


def _differing(
    trial: Trial, target: nn.Module, blocks: Mapping[str, Parameter]
) -> Iterator[tuple[nn.Module, str, float]]:
    """Yield (module of the trial, attribute, the target's number) where both hold numbers that differ."""
    modules = dict(target.named_modules())
    for path, module in trial.model.named_modules():
        head = next((head for head in blocks if f"{path}.".startswith(f"{head}.")), None)
        if head is not None:
            path = blocks[head].target_block + path[len(head) :]
        for name, value in list(vars(module).items()):
            other = getattr(modules.get(path), name, value)
            if isinstance(value, float) and isinstance(other, float) and value != other:
                yield module, name, other


def _branches(ends: Iterable[str], heads: set[str]) -> dict[str, set[str]]:
    """Return {what ends a branch, named within its block: its parameters, of all blocks}: weight and bias are one."""
    found: dict[str, set[str]] = {}
    for name in ends:
        head = next((head for head in heads if name.startswith(f"{head}.")), None)
        if head is not None:
            found.setdefault(_stem(name[len(head) + 1 :]), set()).add(name)
    return found


def _stem(name: str) -> str:
    return name.removesuffix("weight").removesuffix("bias")


def _agreed(measured: Measured, ends: Iterable[str], blocks: Iterable[str]) -> Powers:
    """Return the power of every parameter that ends a branch, one for all blocks of a list.

    What adds nothing in the pass, as experts that no token chose, is scaled as its like.
    """
    by_list: dict[tuple[str, str], list[float]] = {}
    for (head, end), powers in measured.items():
        if not powers:
            why = f"{head} adds something else, by more than a factor, in a model of another depth"
            raise InputError("transfer", why, "let the depth change the number of blocks and nothing inside them")
        by_list.setdefault((list_of(head), end), []).extend(powers)
    for (name, _), powers in by_list.items():
        if max(powers) - min(powers) > TOLERANCE:
            why = f"the forward pass scales the blocks of {name} by their place"
            raise InputError(
                "transfer", why, "scale all branches alike, or leave the factor out: the plan brings its own"
            )
    alike = {(name, starred(f".{end}")): powers for (name, end), powers in by_list.items()}
    heads, found = list(blocks), Powers()
    for name in ends:
        head = next((head for head in heads if name.startswith(f"{head}.")), None)
        if head is not None:
            end = _stem(name[len(head) + 1 :])
            powers = by_list.get((list_of(head), end)) or alike.get((list_of(head), starred(f".{end}")))
            found |= {name: round(powers[0], 6) + 0.0} if powers else {}
    return found


def _fill(deep: nn.Module, pairs: Sequence[Parameter], match: Mapping[str, str], trial: Trial) -> None:
    """Give a copy the base's values, by a match of its blocks."""
    own = {bare(name): p for name, p in trial.own.items()}
    sources = {row.name: row for row in pairs}
    with torch.no_grad():
        for name, p in deep.named_parameters():
            row = sources[bare(name)]
            head = row.target_block
            source = row.base_name if head not in match else f"{match[head]}{row.name[len(head) :]}"
            p.copy_(own[source if source in own else row.base_name])


def _compared(
    trial: Trial, deep: nn.Module, match: Mapping[str, str], outer: set[str]
) -> list[tuple[str, float | None]]:
    """Return (block of the base, power) for every block of the copy; None where it adds no multiple of the same."""
    here = steps(trial.model, trial.inputs, dict.fromkeys(match.values()))
    there = steps(deep, trial.inputs, match, {head: here[other].given for head, other in match.items()})
    found: list[tuple[str, float | None]] = []
    for head, other in match.items():
        old, new = _added(here, other, other in outer), _added(there, head, other in outer)
        if old is not None and new is not None and not (trial.still(old) and trial.still(new)):
            ratio = _ratio(trial, old, new)
            found.append((other, None if ratio is None else -log(ratio) / log(2)))
    return found


def _ratio(trial: Trial, old: torch.Tensor, new: torch.Tensor | None) -> float | None:
    """Return how many times one block's branch the other's is, or None where it is no multiple."""
    if new is None or old.shape != new.shape:
        return None
    ratio = float((old * new).sum() / old.square().sum())
    return ratio if ratio > 0 and trial.equal(new, ratio * old) else None


def _added(found: Mapping[str, Step], head: str, outer: bool) -> torch.Tensor | None:
    """Return what a block adds to the stream; None where the pass does not show it.

    No block follows the last of a list: the model adds as many times what it gives as with another of the list.
    """
    step = found[head]
    if not outer:
        return step.branch(outer=False)
    if step.after is not None:
        return step.after - step.before
    for other, one in found.items():
        if list_of(other) == list_of(head) and one.after is not None and bool(one.made.any()):
            return step.made * ((one.after - one.before) * one.made).sum() / one.made.square().sum()
    return None
