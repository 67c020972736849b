"""Residual branches, found by setting parameters to zero and proved by their linearity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import torch
from torch import nn

from deeplimits.errors import InputError
from deeplimits.transfer.anatomy.inputs import call
from deeplimits.transfer.anatomy.names import bare
from deeplimits.transfer.anatomy.survey import Parameter
from deeplimits.transfer.anatomy.trial import TOLERANCE, Trial

Ends = dict[str, float]
"""{name: the value at which the parameter switches its branch off}: 0, or -1 for gains that a norm reads as 1 + w."""


@dataclass(frozen=True)
class Step:
    """A block in a forward pass.

    Attributes:
        given: what it takes.
        made: what it returns.
        before: what the stream brought to it; `given`, unless that was put in its place.
        after: what the stream brings to the next block of its list; None for the last.
    """

    given: torch.Tensor
    made: torch.Tensor
    before: torch.Tensor
    after: torch.Tensor | None

    def branch(self, outer: bool) -> torch.Tensor:
        """Return what the block adds, or with `outer` what it returns for the model to add."""
        if outer:
            return self.made
        return self.made - self.given if self.made.shape == self.given.shape else torch.full((1,), torch.nan)


def outputs(trial: Trial, blocks: Sequence[str]) -> tuple[Ends, set[str]]:
    """Return the parameters that residual branches are linear in, and the blocks whose output the model itself adds.

    In every block: the smallest set of parameters, taken in the order of the forward pass, whose zero makes the block
    the identity (or zero, where the model adds it to the stream); each is then proved: with the others at zero, twice
    the parameter gives twice the branch.

    Args:
        trial: of the base.
        blocks: their names, as "model.layers.3".

    Raises:
        InputError: a block without an identity path, or a branch that is not linear in what ends it.
    """
    found: Ends = {}
    outer = {head for head in blocks if _outer(trial, head, blocks)}
    for head in blocks:
        members = _smallest(trial, head, head in outer)
        _prove(trial, head, members, head in outer)
        found |= {bare(name): trial.null[name] for name in members}
    return found, outer


def steps(
    model: nn.Module, inputs: Any, blocks: Iterable[str], given: Mapping[str, torch.Tensor] | None = None
) -> dict[str, Step]:
    """Return {block: what it does} in one forward pass.

    Args:
        model: the model.
        inputs: what it takes.
        blocks: their names.
        given: {block: what it takes in place of what the stream brings}.
    """
    seen: dict[str, list[torch.Tensor]] = {}

    def enter(head: str, args: Any, kwargs: Any) -> Any:
        key = None if args else next(name for name, value in kwargs.items() if isinstance(value, torch.Tensor))
        before = args[0] if key is None else kwargs[key]
        first = before if given is None else given.get(head, before)
        seen.setdefault(head, [first, before])
        return ((first, *args[1:]), kwargs) if key is None else (args, {**kwargs, key: first})

    def leave(head: str, result: Any) -> None:
        if len(seen[head]) == 2:
            seen[head].append(result[0] if isinstance(result, tuple | list) else result)

    handles = []
    for head in blocks:
        block = model.get_submodule(head)
        handles.append(block.register_forward_pre_hook(lambda m, a, k, h=head: enter(h, a, k), with_kwargs=True))
        handles.append(block.register_forward_hook(lambda m, a, r, h=head: leave(h, r)))
    try:
        with torch.no_grad():
            call(model, inputs)
    finally:
        for handle in handles:
            handle.remove()
    heads = list(seen)
    follows = {a: b for n, a in enumerate(heads) for b in heads[n + 1 :][:1] if list_of(a) == list_of(b)}
    after = {head: seen[other][1] for head, other in follows.items()}
    return {head: Step(seen[head][0], seen[head][2], seen[head][1], after.get(head)) for head in heads}


def counted(trial: Trial, rows: Sequence[Parameter]) -> list[Parameter]:
    """Count all residual blocks of a list together, where they are of several kinds.

    Of kinds whose number stays, as a first block that has a bias of its own or no experts, those with an identity path
    are residual blocks; the first of a ResNet's stage has none.

    Args:
        trial: of the base.
        rows: one record a parameter of the target, blocks counted by their kind.

    Raises:
        InputError: a block whose number changes has no identity path.
    """
    residual = {str(row.block): str(row.stack) for row in rows if row.block is not None and row.depth_ratio != 1}
    lists = {stack: head for head, stack in residual.items()}
    members = {str(row.block): str(row.stack) for row in rows if row.stack in lists}
    others = {head: stack for head, stack in members.items() if head not in residual}
    called = steps(trial.model, trial.inputs, members) if others else {}
    ways = {stack: _outer(trial, head, list(members)) for stack, head in lists.items()} if others else {}
    for head in set(others) & set(called):
        try:
            if _outer(trial, head, list(members)) == ways[others[head]]:
                residual[head] = others[head]
        except InputError:
            continue
    ratios = {}
    for stack in lists:
        blocks = {row.target_block: row.block for row in rows if row.stack == stack and row.block in residual}
        ratios[stack] = Fraction(len(blocks), len(set(blocks.values())))
    return [replace(row, depth_ratio=ratios[row.stack]) if row.block in residual else row for row in rows]


def last_gains(trial: Trial, tables: Iterable[str]) -> Ends:
    """Return the gains and biases, after all matrices, that a tied readout's input is linear in.

    Args:
        trial: of the base.
        tables: names of the tied tables.

    Raises:
        InputError: the readout's input is not linear in any such parameter.
    """
    own, order, tables = trial.own, trial.order, set(tables)
    last = max((n for n, name in enumerate(order) if own[name].dim() > 1 and name not in tables), default=-1)
    names = [name for name in order[last + 1 :] if own[name].dim() == 1 and name not in tables]
    once = trial.readout(tables)
    for name in list(names):  # early ones are set free while the others keep the readout silent
        rest = [other for other in names if other != name]
        with trial.set({other: trial.null[other] for other in rest}):
            if rest and not bool(trial.readout(tables).any()):
                names = rest
    with trial.set({name: trial.null[name] for name in names}):
        silent = names and not bool(trial.readout(tables).any())
    with trial.set({name: trial.twice(name) for name in names}):
        twice = trial.readout(tables)
    if not silent or not trial.equal(twice, 2 * once):
        why = f"the readout is tied to {', '.join(sorted(tables))}, and no norm before it can carry its factor 1/width"
        fix = "untie the readout, end the model in a norm with a gain, or divide its logits by a number that it holds"
        raise InputError("transfer", why, fix)
    return {bare(name): trial.null[name] for name in names}


def list_of(head: str) -> str:
    """Return the list that a block stands in.

    Example:
        >>> list_of("model.layers.3"), list_of("encoder.block_11")
        ('model.layers', 'encoder.block')
    """
    return head.rstrip("0123456789").rstrip("._")


def _within(trial: Trial, head: str) -> dict[str, float]:
    """Return {parameter of a block: value that switches it off}, in the order of the forward pass."""
    return {name: trial.null[name] for name in trial.order if name.startswith(f"{head}.")}


def _outer(trial: Trial, head: str, blocks: Sequence[str]) -> bool:
    """Say whether the model adds a block's output to the stream, in place of the block itself."""
    with trial.set(_within(trial, head)):
        off = steps(trial.model, trial.inputs, blocks)[head]
    if off.made.shape == off.given.shape and trial.still(off.made - off.given):
        return False
    on = steps(trial.model, trial.inputs, blocks)
    passed = off.after is None or (off.after.shape == off.before.shape and trial.still(off.after - off.before))
    if (
        trial.still(off.made)
        and passed
        and any(list_of(other) == list_of(head) and on[other].after is not None for other in on)
    ):
        step = on[head]
        if step.after is None:
            return True
        change = step.after - step.before
        ratio = float((change * step.made).sum() / step.made.square().sum())
        if abs(ratio) > TOLERANCE and trial.equal(change, ratio * step.made):
            return True
    why = f"{head} is not the identity at zero parameters: its stream passes a norm or layer"
    fix = "use a rule for width only at equal depth, or put the norm inside the branch (pre-norm)"
    experts = "; a list of experts is no list of blocks, and its length must stay"
    raise InputError("transfer", why, fix + experts)


def _smallest(trial: Trial, head: str, outer: bool) -> list[str]:
    """Return the parameters that must be off for the branch to vanish, early ones set free first.

    Those of experts that are not chosen in the pass do as their like in an expert that is.
    """
    held = _within(trial, head)
    for name in list(held):
        rest = {other: value for other, value in held.items() if other != name}
        with trial.set(rest):
            if trial.still(steps(trial.model, trial.inputs, [head])[head].branch(outer)):
                held = rest
    return [
        *held,
        *(name for name in _within(trial, head) if name not in held and _idle(trial, head, name, held, outer)),
    ]


def _idle(trial: Trial, head: str, name: str, held: Mapping[str, float], outer: bool) -> bool:
    """Say whether a parameter is like one that ends the branch and had no part in the pass: of an expert not chosen."""
    parts = name.split(".")
    for place in (n for n, part in enumerate(parts) if part.isdigit() and n > head.count(".")):
        numbers = dict.fromkeys(other.split(".")[place] for other in held if other.count(".") > place)
        likes = [".".join([*parts[:place], number, *parts[place + 1 :]]) for number in numbers]
        like = next((other for other in likes if other in held), None)
        if like is None or trial.own[like].shape != trial.own[name].shape:
            continue
        chosen = ".".join(like.split(".")[: place + 1]) + "."
        with trial.set({other: value for other, value in held.items() if not other.startswith(chosen)}):
            once = steps(trial.model, trial.inputs, [head])[head].branch(outer)
            with trial.set({name: trial.null[name]}):
                return trial.still(steps(trial.model, trial.inputs, [head])[head].branch(outer) - once)
    return False


def _prove(trial: Trial, head: str, members: list[str], outer: bool) -> None:
    """Check that the branch is linear in each member while the others are off."""
    for name in members:
        with trial.set({other: trial.null[other] for other in members if other != name}):
            once = steps(trial.model, trial.inputs, [head])[head].branch(outer)
            with trial.set({name: trial.twice(name)}):
                twice = steps(trial.model, trial.inputs, [head])[head].branch(outer)
        if not trial.equal(twice, 2 * once):
            why = f"the branch of {head} is not linear in {name}, which ends it"
            fix = "end the branch in a linear layer or a gain"
            if not outer and not _passes(trial, head):
                why = f"an activation follows the sum of {head} (post-activation): its stream has no identity path"
                fix = "put the activation inside the branch (pre-activation), h + branch(activation(norm(h)))"
            raise InputError("transfer", why, f"{fix}, or use a rule for width only at equal depth")


def _passes(trial: Trial, head: str) -> bool:
    """Say whether a block without its parameters passes on the negative of what it takes, as an identity does."""
    with trial.set(_within(trial, head)):
        given = steps(trial.model, trial.inputs, [head])[head].given
        turned = steps(trial.model, trial.inputs, [head], {head: -given})[head]
    return trial.still(turned.made - turned.given)
