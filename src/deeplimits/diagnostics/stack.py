"""The residual blocks of any model: found, watched, and replaced for the time of a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from deeplimits.diagnostics.calls import call, first_tensor, put, stream_of
from deeplimits.errors import InputError

Rule = Callable[[Tensor, Callable[[], Tensor]], Tensor]
"""Rule(h, run): what a block gives at h; run() is what it would give by itself."""


class Stack:
    """Blocks one after the other on one stream, and what they gave on the inputs.

    Attributes:
        names: of the blocks, as in `model.named_modules()`.
        streams: h_0 ... h_L, features in the last dimension: before the first block, and after each.
        output: of the model.
    """

    def __init__(self, model: nn.Module, inputs: Any, names: Sequence[str], features: int = -1):
        self.model, self.inputs, self.names, self.features = model, inputs, tuple(names), features
        self.blocks = [model.get_submodule(name) for name in self.names]
        with torch.no_grad(), evaluating(model):
            seen, self.output = watched(model, inputs, self.names)
        if not isinstance(self.output, Tensor):
            why = f"{type(model).__name__} returns no tensor, logits or last_hidden_state"
            raise InputError("depth_use", why, "wrap it in a module whose forward pass returns the tensor to look at")
        ends = [_ends(name, seen[name]) for name in self.names]
        for index, ((_, gave), (reads, _)) in enumerate(pairwise(ends)):
            if not _same(gave, reads):
                why = f"{self.names[index + 1]} does not read what {self.names[index]} gives"
                raise InputError("depth_use", why, "name the blocks of one residual stream in order: blocks=[...]")
        self.templates = [seen[name][0][1] for name in self.names]
        self.streams = [self.last(ends[0][0]), *(self.last(after) for _, after in ends)]

    def __len__(self) -> int:
        return len(self.blocks)

    def last(self, h: Tensor) -> Tensor:
        """Return a stream with its features in the last dimension."""
        return h.movedim(self.features, -1)

    def updates(self) -> list[Tensor]:
        """Return h_{l+1} - h_l for every block."""
        return [after - before for before, after in pairwise(self.streams)]

    def run(self, rules: Mapping[int, Rule]) -> tuple[list[Tensor], Tensor]:
        """Return streams and output of a pass in which some blocks follow other rules."""
        streams: list[Tensor] = []

        def kept(rule: Rule | None) -> Rule:
            def follow(h: Tensor, run: Callable[[], Tensor]) -> Tensor:
                if not streams:
                    streams.append(self.last(h).clone())
                found = run() if rule is None else rule(h, run)
                streams.append(self.last(found).clone())  # the next block may write on what it reads
                return found

            return follow

        with evaluating(self.model), self._following({i: kept(rules.get(i)) for i in range(len(self))}):
            output = call(self.model, self.inputs)
        return streams, output

    def given(self, index: int) -> Rule:
        """Return the rule that gives what a block gave."""
        found = self.streams[index + 1].movedim(-1, self.features)
        return lambda h, run: found.clone()

    @contextmanager
    def _following(self, rules: Mapping[int, Rule]) -> Iterator[None]:
        before = {}
        try:
            for index, rule in rules.items():
                block = self.blocks[index]
                before[index] = vars(block).get("forward")
                block.forward = _forward(block.forward, rule, self.templates[index])
            yield
        finally:
            for index, own in before.items():
                if own is None:
                    del self.blocks[index].forward
                else:
                    self.blocks[index].forward = own


def skipped(h: Tensor, run: Callable[[], Tensor]) -> Tensor:
    """The rule of a block that is left out."""
    return h


def _forward(original: Callable[..., Any], rule: Rule, template: Any) -> Callable[..., Any]:
    def forward(*args: Any, **kwargs: Any) -> Any:
        result: list[Any] = []

        def run() -> Tensor:
            result.append(original(*args, **kwargs))
            return first_tensor(result[-1])  # type: ignore[return-value]

        found = rule(stream_of(args, kwargs), run)  # type: ignore[arg-type]
        return put(found, result[-1] if result else template)

    return forward


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put every module in evaluation mode, and back into its own afterwards."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def watched(model: nn.Module, inputs: Any, names: Sequence[str]) -> tuple[dict[str, list[tuple[Any, Any]]], Tensor]:
    """Return {name: [(stream that a module read, what it returned) of every call]} and the model's output."""
    seen: dict[str, list[tuple[Any, Any]]] = {name: [] for name in names}

    def before(name: str) -> Callable[..., None]:
        def keep(module: nn.Module, args: Any, kwargs: Any) -> None:
            stream = stream_of(args, kwargs)
            seen[name].append((None if stream is None else stream.clone(), None))

        return keep

    def after(name: str) -> Callable[..., None]:
        def keep(module: nn.Module, args: Any, result: Any) -> None:
            stream = first_tensor(result)
            seen[name][-1] = (seen[name][-1][0], result if stream is None else put(stream.clone(), result))

        return keep

    handles = []
    for name in names:
        module = model.get_submodule(name)
        handles.append(module.register_forward_pre_hook(before(name), with_kwargs=True))
        handles.append(module.register_forward_hook(after(name)))
    try:
        return seen, call(model, inputs)
    finally:
        for handle in handles:
            handle.remove()


def found(model: nn.Module, inputs: Any, blocks: str | Sequence[str | nn.Module] | None = None) -> list[str]:
    """Return the names of a model's residual blocks: those given, or the longest chain of equal modules.

    Raises:
        InputError: names that are not there, or no chain of two or more modules of one class, each of which keeps the
            shape of what it reads and reads what the one before it gave.
    """
    if not isinstance(model, nn.Module):
        raise InputError("depth_use", f"{model!r} is no torch.nn.Module", "give the model itself")
    names = {module: name for name, module in model.named_modules()}
    if isinstance(blocks, str):
        blocks = [f"{blocks}.{name}" for name, _ in _sub(model, blocks).named_children()]
    if blocks is not None:
        chosen = [_sub(model, block) if isinstance(block, str) else block for block in blocks]
        missing = next((block for block in chosen if block not in names), None)
        if missing is not None or not chosen:
            why = "no blocks" if missing is None else f"a {type(missing).__name__} that is not in the model"
            raise InputError("depth_use", why, "give modules of the model, or their names, in order")
        return [names[block] for block in chosen]
    groups = [_run_of_equals(list(module.children())) for module in model.modules()]
    groups = [[names[block] for block in group] for group in groups if len(group) > 1]
    with torch.no_grad(), evaluating(model):
        seen, _ = watched(model, inputs, sorted({name for group in groups for name in group}))
    chains = [group for group in groups if _is_chain([seen[name] for name in group])]
    if not chains:
        why = "no chain of equal modules that keep the shape of their stream"
        raise InputError("depth_use", why, "name the residual blocks in order: blocks=['layers.0', 'layers.1', ...]")
    sizes = [sum(p.numel() for name in group for p in model.get_submodule(name).parameters()) for group in chains]
    return max(zip(chains, sizes, strict=True), key=lambda pair: (len(pair[0]), pair[1]))[0]


def _sub(model: nn.Module, name: str) -> nn.Module:
    try:
        return model.get_submodule(name)
    except AttributeError as error:
        raise InputError("depth_use", f"no module {name!r}", "take names from model.named_modules()") from error


def _run_of_equals(children: list[nn.Module]) -> list[nn.Module]:
    """Return the longest run of modules of one class."""
    best: list[nn.Module] = []
    run: list[nn.Module] = []
    for child in children:
        run = [*run, child] if run and type(child) is type(run[-1]) else [child]
        best = max(best, run, key=len)
    return best


def _is_chain(calls: Sequence[list[tuple[Any, Any]]]) -> bool:
    if any(len(one) != 1 for one in calls):
        return False
    ends = [(before, first_tensor(result)) for ((before, result),) in calls]
    if any(before is None or after is None or before.shape != after.shape for before, after in ends):
        return False
    return all(_same(after, before) for (_, after), (before, _) in pairwise(ends))  # type: ignore[arg-type]


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, rtol=0.0, atol=0.0, equal_nan=True)


def _ends(name: str, calls: list[tuple[Any, Any]]) -> tuple[Tensor, Tensor]:
    """Return what a block read and gave.

    Raises:
        InputError: it was not called once, changes the shape of its stream, or holds values that are not finite.
    """
    fix = "name blocks that are called once, read their stream first and return it first: blocks=[...]"
    if len(calls) != 1:
        raise InputError("depth_use", f"{name} is called {len(calls)} times", fix)
    before, after = calls[0][0], first_tensor(calls[0][1])
    if before is None or after is None or before.shape != after.shape:
        shapes = [None if one is None else tuple(one.shape) for one in (before, after)]
        raise InputError("depth_use", f"{name} reads {shapes[0]} and gives {shapes[1]}", fix)
    for side, one in (("reads", before), ("gives", after)):
        if not bool(torch.isfinite(one).all()):
            place = tuple(int(i) for i in (~torch.isfinite(one)).nonzero()[0])
            why = f"{name} {side} {float(one[place])} at {place}"
            raise InputError("depth_use", why, "mend the inputs, or the layer where it first appears")
    return before, after
