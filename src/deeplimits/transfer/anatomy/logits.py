"""Attention logits whose heads grow: sums over a head of size d need the factor 1/d, relative to the base."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from deeplimits.transfer.anatomy.inputs import call
from deeplimits.transfer.anatomy.names import bare, starred
from deeplimits.transfer.anatomy.pairs import Found
from deeplimits.transfer.anatomy.products import Product, Products
from deeplimits.transfer.anatomy.trial import Trial

_TWICE = 2.0


@dataclass
class Mended:
    """What carries the factor of attention logits.

    Attributes:
        folded: {parameter of the base: factor folded into it}.
        shifts: those of them that a norm reads as 1 + w.
        attributes: {"module.attribute" of the base: factor it is multiplied with in the target}.
        remarks: {weight of the query: what carries the factor, where it does not}.
        notes: what was found, in words; once for attention that differs by its place in a list.
    """

    folded: dict[str, float] = field(default_factory=dict)
    shifts: set[str] = field(default_factory=set)
    attributes: dict[str, float] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def factors(small: Sequence[Product], large: Found) -> dict[int, float | None]:
    """Return {place: what the logits lack}, for attention whose heads grow; None where the scale cannot be read.

    With queries and keys that learn to align, a sum over d entries grows like d. The logits of the target have the
    size of the base's if their scale s falls like 1/d: the factor is (d0 / d) / (s / s0), and sqrt(d0 / d) for the
    usual s = 1 / sqrt(d).

    Args:
        small: products of the base.
        large: what each is in the target; None where it was not seen.

    Source: yang-2022-tp5.

    Example:
        >>> head = Product(8, 4, 1, 8**-0.5, True, None, None)
        >>> factors([head], [Product(32, 4, 1, 32**-0.5, True, None, None)])
        {0: 0.5}
        >>> factors([head], [Product(8, 16, 1, 8**-0.5, True, None, None)])
        {}
    """
    found: dict[int, float | None] = {}
    for place, (old, new) in enumerate(zip(small, large, strict=False)):
        if new is None or not old.softmax or not new.softmax or old.size == new.size:
            continue
        lacks = None if not old.scale or not new.scale else old.size / new.size * old.scale / new.scale
        if lacks is None or abs(lacks - 1) > 1e-6:
            found[place] = lacks if lacks is None else float(f"{lacks:.12g}")
    return found


def open_ends(small: Sequence[Product], large: Found) -> list[str]:
    """Return which products over a size that grows go into no softmax, in words, each kind once.

    Args:
        small: products of the base.
        large: what each is in the target; None where it was not seen.

    Example:
        >>> small, large = (Product(size, 4, 1, 1.0, False, "a", "b") for size in (8, 32))
        >>> open_ends([small], [large])[0].partition(",")[0]
        'not claimed: activations of a and b are multiplied and summed over 8 entries in the base'
    """
    found = {}
    for old, new in zip(small, large, strict=False):
        if new is not None and not old.softmax and old.size != new.size:
            found.setdefault((old.size, new.size), (old.query or "one", old.key or "another"))
    fix = "let the forward pass divide them by the size, where they learn to align as queries and keys do, or keep it"
    return [
        f"not claimed: activations of {names[0]} and {names[1]} are multiplied and summed over {sizes[0]} entries in "
        f"the base, {sizes[1]} in the target, and no softmax of theirs is seen: {fix}"
        for sizes, names in found.items()
    ]


def unseen(small: Sequence[Product], large: Found, failed: str) -> list[str]:
    """Return which attention was not seen in the target, in words, with what to do.

    Args:
        small: products of the base.
        large: what each is in the target; None where it was not seen.
        failed: why, where the target's forward pass fails.

    Example:
        >>> unseen([Product(8, 4, 1, 1.0, True, "query", "key")], [None], "nonzero")[0].partition(":")[0]
        'not claimed'
    """
    pairs = zip(small, large, strict=True)
    names = [starred(bare(p.query or "an unknown query")) for p, other in pairs if p.softmax and other is None]
    if not names:
        return []
    why = f" (its forward pass fails on the meta device in {failed})" if failed else ""
    fix = "plan with a build function whose copies run on the CPU, or with values in both models"
    return [
        f"not claimed: attention of {', '.join(dict.fromkeys(names))} is not seen in the target{why}: where its heads "
        f"grow, their logits need 1/size, not 1/sqrt(size); {fix}"
    ]


def mend(trial: Trial, lacking: Mapping[int, float | None], products: Sequence[Product]) -> Mended:
    """Find what the logits' factors can be folded into, each proved: twice it and half the query change nothing.

    In this order: the matrix that queries come from, with its bias; the gain of a norm of the queries; the same of the
    keys; a number that a module of the attention holds, as `scaling`.

    Args:
        trial: of the base.
        lacking: `factors`.
        products: of the base.
    """
    found, notes = Mended(), dict[str, list[str]]()
    for place, lacks in lacking.items():
        product = products[place]
        members = next((m for m in _candidates(trial, product) if _carries(trial, place, m)), None)
        number = (
            None if members else next((a for a in _numbers(trial.model, product) if _scales(trial, place, a)), None)
        )
        carriers = [bare(name) for name in members or ([".".join(number)] if number else [])]
        notes.setdefault(_note(starred, product.query, lacks, carriers), []).append(
            _note(str, product.query, lacks, carriers)
        )
        if lacks is None or not carriers:
            continue
        if members:
            found.folded |= {bare(name): lacks for name in members}
            found.shifts |= {bare(name) for name in members if trial.null[name]}
        else:
            found.attributes[carriers[0]] = lacks
            found.remarks[bare(product.query or "")] = f"logits of heads that grow: {lacks:.4g} in {carriers[0]}"
    found.notes = [same[0] if len(same) == 1 else f"{len(same)} times: {words}" for words, same in notes.items()]
    return found


def _note(named: Callable[[str], str], query: str | None, lacks: float | None, carriers: Sequence[str]) -> str:
    where = f"attention of {named(bare(query)) if query else 'an unknown query'}"
    if lacks is not None and carriers:
        return f"{where}: its logits' factor {lacks:.4g} (1/size) is in {', '.join(map(named, carriers))}"
    if lacks is None:
        return f"{where}: its scale cannot be read; logits of growing heads need 1/size, not 1/sqrt(size)"
    return (
        f"{where}: logits lack the factor {lacks:.4g} (1/size, not 1/sqrt(size)), and no parameter or number of their "
        "own carries it: multiply their scale by it in the target, or keep the head size and let heads grow in number"
    )


def _candidates(trial: Trial, product: Product) -> Iterable[list[str]]:
    """Sets of parameters that may scale the logits alone."""
    for source in (product.query, product.key):
        if source is None or source not in trial.own:
            continue
        yield _with_bias(trial, source)
        after = trial.order[trial.order.index(source) + 1 :]
        block = source.rpartition(".")[0].rpartition(".")[0]
        for name in after:
            if trial.own[name].dim() > 1 and not name.startswith(block):
                break
            if trial.own[name].dim() == 1 and name.endswith("weight") and name.startswith(block):
                yield _with_bias(trial, name)


def _with_bias(trial: Trial, weight: str) -> list[str]:
    stem, _, attribute = weight.rpartition(".")
    bias = f"{stem}.{attribute.replace('weight', 'bias')}"
    return [weight, bias] if bias != weight and bias in trial.own else [weight]


def _carries(trial: Trial, place: int, members: list[str]) -> bool:
    """Say whether twice the parameters, with half the query, change nothing."""
    once = trial.output()
    with trial.set({name: trial.twice(name) for name in members}):
        return _same(trial, place, once)


def _same(trial: Trial, place: int, once: torch.Tensor) -> bool:
    with torch.no_grad(), Products(trial.model, {place: _TWICE}):
        halved = call(trial.model, trial.inputs)
    return trial.equal(halved, once) and not trial.equal(trial.output(), once)


def _numbers(model: nn.Module, product: Product) -> Iterable[tuple[str, str]]:
    """Numbers held by the module that owns the query's matrix, and by those above it, nearest first."""
    path = (product.query or "").rpartition(".")[0]
    while path:
        module = model.get_submodule(path)
        yield from ((path, name) for name, value in vars(module).items() if isinstance(value, float))
        path = path.rpartition(".")[0]


def _scales(trial: Trial, place: int, number: tuple[str, str]) -> bool:
    """Say whether twice the number, with half the query, changes nothing."""
    once = trial.output()
    module = trial.model.get_submodule(number[0])
    with trial.held(module, number[1], _TWICE * getattr(module, number[1])):
        return _same(trial, place, once)
