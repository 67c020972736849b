"""Widening a model while it trains: the same function, the same sizes of activations, and copies that part ways."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from deeplimits.errors import InputError
from deeplimits.transfer.anatomy import branches
from deeplimits.transfer.anatomy.inputs import call, example
from deeplimits.transfer.anatomy.names import bare
from deeplimits.transfer.anatomy.products import Products
from deeplimits.transfer.anatomy.survey import survey
from deeplimits.transfer.anatomy.trial import PRECISIONS, Trial
from deeplimits.transfer.anatomy.uses import Watch
from deeplimits.transfer.growth.grown_pair import Pair
from deeplimits.transfer.growth.widen import Widening

RESETS = ("new", "all", "none")
_GATES = {nn.LSTM: 4, nn.LSTMCell: 4, nn.GRU: 3, nn.GRUCell: 3, nn.MultiheadAttention: 3}


@dataclass(frozen=True, repr=False)
class Growth:
    """A model that has been widened.

    Attributes:
        small: what it was.
        model: what it is, with the same outputs.
        widenings: {name: how the parameter was copied}.
        error: largest difference of the outputs over their largest entry; None where it was not checked.
        split: how unequal the shares of copies are.
    """

    small: nn.Module
    model: nn.Module
    widenings: Mapping[str, Widening]
    error: float | None
    split: float

    def __repr__(self) -> str:
        counts = [sum(p.numel() for p in model.parameters()) for model in (self.small, self.model)]
        checked = "outputs not compared" if self.error is None else f"outputs differ by {self.error:.2g}"
        return f"<Growth: {type(self.model).__name__}, {counts[0]:,} to {counts[1]:,} values, {checked}>"

    def carry(self, old: Optimizer, new: Optimizer, reset: str = "new") -> None:
        """Give the new optimizer the old one's averages of gradients, in the sizes that the wide model's have.

        A copy's gradient is that of the original over the number of copies. With reset="new" the averages of new
        channels start from zero, so that copies take different steps and part; those of old channels go on.

        Args:
            old: of the small model.
            new: of the wide model, of the same kind; its learning rates and other settings stay.
            reset: "new", "all" (nothing is carried) or "none" (copies stay copies, unless they were split).

        Raises:
            InputError: another word for reset, parameters of another model, a state that is not known here, or copies
                that nothing would tell apart.

        Source: sparkling-2026-width-growth; sizes of gradients: derived.
        """
        if reset not in RESETS:
            raise InputError("grow", f"reset={reset!r}", f"use one of {', '.join(RESETS)}")
        mine = {bare(name): p for name, p in self.model.named_parameters()}
        theirs = {bare(name): p for name, p in self.small.named_parameters()}
        for optimizer, own, side in ((old, theirs, "small"), (new, mine, "wide")):
            if not _held(optimizer) <= {id(p) for p in own.values()}:
                why = f"an optimizer holds parameters that are not of the {side} model"
                raise InputError("grow", why, "pass the optimizer of the small model, then that of the wide one")
        held, moved = _held(new), {}
        for name, widening in self.widenings.items():
            if name in mine and id(mine[name]) in held:
                moved[mine[name]] = widening.state(old.state.get(theirs[name], {}), reset) if reset != "all" else {}
        averages = any(isinstance(v, torch.Tensor) and v.dim() for state in moved.values() for v in state.values())
        if not self.split and (reset != "new" or not averages):
            why = "copies get equal gradients and equal states: nothing tells them apart"
            raise InputError("grow", why, "pass split=0.1 to dl.grow, or carry averages of gradients with reset='new'")
        for parameter, state in moved.items():
            new.state[parameter] = state

    def warmup(self, optimizer: Optimizer, steps: int) -> torch.optim.lr_scheduler.LambdaLR:
        """Return a schedule that takes the learning rates up again, from 1/steps of themselves, in so many steps.

        Args:
            optimizer: of the wide model.
            steps: until the rates are back.
        """
        if not isinstance(steps, int) or steps < 1:
            raise InputError("grow", f"steps={steps!r}", "give the number of steps of the warm-up, 1 or more")
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / steps))

    def twins(self) -> dict[str, float]:
        """Return {name: mean cosine between the weights of the first two copies of a channel}, as the model is now."""
        found = {}
        for name, parameter in self.model.named_parameters():
            cosines = self.widenings[bare(name)].twins(parameter)
            if cosines is not None:
                found[bare(name)] = float(cosines.mean())
        return found


def grow(
    small: nn.Module,
    large: nn.Module,
    split: float = 0.0,
    parts: Mapping[str, int] | None = None,
    inputs: Any = None,
    check: bool = True,
    seed: int = 0,
) -> Growth:
    """Widen a model in the midst of training: `large` takes weights that give the outputs of `small`.

    Every channel is copied a whole number of times, new heads and channels after the old ones, and weights that sum
    over copies are divided among them: outputs stay, and so do the root mean squares of activations. That holds
    through norms over the width, residual streams, convolutions, attention with more heads, embeddings, and tied
    readouts (the last norm's gain carries their 1/copies). Both models are run, and unequal outputs are refused.

    Args:
        small: the model that was trained; left as it is.
        large: built by the same function at a larger width, equal depth and equal heads' size; its values are replaced.
        split: unequal shares of copies in every sum, up to 1/2, which tells copies apart from the start; needed for
            optimizers without averages of gradients.
        parts: {part of a name: equal parts of a fused matrix's outputs}, as {"gate_up": 2}; fused queries, keys and
            values are recognised.
        inputs: an example of what the models take; made from the first layer where left out.
        check: whether to run both.
        seed: of unequal shares.

    Returns:
        a Growth: `carry(old, new)` moves the optimizer's state, `warmup` the learning rates, `twins` tells whether
        copies have parted.

    Valid when: every dimension grows by a whole factor; no factor of the width stands in a forward pass.

    Raises:
        InputError: names that do not match, another depth, a factor that is not whole, a parameter whose use is not
            known, values that are not there, or outputs that are not those of the small model, with the module where
            they part.

    Source: sparkling-2026-width-growth; the division among copies: derived.

    Example:
        >>> build = lambda width: nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 2))
        >>> small, large = build(32), build(64)
        >>> old = torch.optim.Adam(small.parameters())
        >>> small(torch.ones(1, 3)).sum().backward(); old.step()
        >>> grown = grow(small, large)
        >>> torch.allclose(large(torch.eye(3)), small(torch.eye(3)), atol=1e-6)
        True
        >>> new = torch.optim.Adam(large.parameters())
        >>> grown.carry(old, new)
        >>> schedule = grown.warmup(new, steps=10)
    """
    if not isinstance(split, int | float) or not 0 <= split <= 0.5:
        raise InputError("grow", f"split={split!r}", "give a number from 0 to 1/2")
    for model, side in ((small, "small"), (large, "large")):
        if any(t.is_meta for t in (*model.parameters(), *model.buffers())):
            raise InputError(
                "grow", f"the {side} model is on the meta device and has no values", "materialise it first"
            )
    inputs = example(small, inputs)
    watch, fused = _seen(small, inputs)
    found = _widenings(small, large, watch, parts or {})
    found |= _gains(small, found, watch, inputs, seed)
    pair = Pair(small, large, split, seed)
    if not check:
        pair.fill(found)
        return Growth(small, large, found, None, float(split))
    error = pair.error(found, inputs)
    if error is None and fused:
        found |= {name: replace(found[name], parts=count) for name, count in fused.items() if name in found}
        error = pair.error(found, inputs)
    if error is None:
        raise pair.refusal(found, inputs)
    pair.fill(found)
    return Growth(small, large, found, error, float(split))


def _held(optimizer: Optimizer) -> set[int]:
    return {id(p) for group in optimizer.param_groups for p in group["params"]}


def _seen(small: nn.Module, inputs: Any) -> tuple[Watch, dict[str, int]]:
    """Return how parameters are used, and {matrix or bias: equal parts} where queries, keys and values share one."""
    for dtype in PRECISIONS:
        twin = copy.deepcopy(small).to(dtype).eval()
        try:
            with torch.no_grad(), Watch(twin) as watch, Products(twin) as products:
                call(twin, inputs)
            break
        except RuntimeError as error:  # some operations exist in float32 only
            if dtype == PRECISIONS[-1]:
                why = f"the forward pass fails on the inputs that were tried ({error})"
                raise InputError("grow", why, "pass inputs=, as for model(inputs)") from error
    fused = {}
    for product in products.found:
        names = (product.query, product.key, product.value)
        count = 3 if product.query == product.key else 2
        if product.key is not None and names.count(product.key) == count:
            fused |= {bare(product.key): count, bare(product.key).removesuffix("weight") + "bias": count}
    return watch, fused


def _widenings(small: nn.Module, large: nn.Module, watch: Watch, parts: Mapping[str, int]) -> dict[str, Widening]:
    try:
        rows = survey(small, large, watch)
    except InputError as error:
        raise InputError("grow", error.why, error.fix) from None
    deeper = next((row for row in rows if row.depth_ratio != 1 or row.name != row.base_name), None)
    if deeper is not None:
        why = f"{deeper.stack} has another number of blocks"
        raise InputError("grow", why, "build both models at one depth: new blocks cannot keep what others compute")
    unused = [key for key in parts if not any(key in row.name for row in rows)]
    if unused:
        raise InputError("grow", f"parts names {unused[0]!r}, and no parameter is called so", "name a part of a name")
    old = {bare(name): p for name, p in small.named_parameters()}
    found = {}
    for row in rows:
        owner, _, attribute = row.name.rpartition(".")
        module, before = small.get_submodule(owner), tuple(old[row.name].shape)
        own = next((count for key, count in parts.items() if key in row.name), _gates(module, attribute))
        summed = _summed(module, before, row.name, watch)
        found[row.name] = Widening(row.name, before, row.shape, summed, own).checked()
    return found


def _gates(module: nn.Module, attribute: str) -> int:
    fused = attribute.startswith(("in_proj", "weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    return next((count for kind, count in _GATES.items() if isinstance(module, kind) and fused), 1)


def _summed(module: nn.Module, shape: tuple[int, ...], name: str, watch: Watch) -> tuple[int, ...]:
    """Return the dimensions of a parameter that are summed over."""
    use = watch.uses.get(name)
    if name in watch.twice or len(shape) < 2 or (use is None and name in watch.carried):
        return ()
    if use is not None:
        return use.contracted
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return ()
    first = isinstance(module, nn.modules.conv._ConvTransposeNd) or type(module).__name__ == "Conv1D"
    return (0,) if first else (1,)


def _gains(
    small: nn.Module, found: Mapping[str, Widening], watch: Watch, inputs: Any, seed: int
) -> dict[str, Widening]:
    """Return the last gains before tied readouts, which carry 1 over the number of copies."""
    tied = {name: max(found[bare(name)].ratios) for name in watch.twice if max(found[bare(name)].ratios) > 1}
    if not tied:
        return {}
    try:
        ends = branches.last_gains(Trial(small, inputs, seed), tied)
    except InputError as error:
        raise InputError("grow", error.why, error.fix) from None
    factor = 1 / max(tied.values())
    return {name: replace(found[name], factor=factor, shift=-null) for name, null in ends.items()}
