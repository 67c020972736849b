"""Products of two activations, as of queries with keys: what they are summed over and how they are scaled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from deeplimits.transfer.anatomy.operations import EINSUM, LINEAR, LOOKUPS, OVER, RIGHT, SHIFTED, TIMES, of_tensor

_SOFTMAX = {F.softmax, torch.softmax, F.log_softmax, torch.log_softmax, *of_tensor("softmax", "log_softmax")}
_SOFTMAX |= {torch.exp, torch.exp2, *of_tensor("exp", "exp_", "exp2", "exp2_")}  # by hand: exp, over its sum
_REPEATS = {torch.repeat_interleave, *of_tensor("expand", "expand_as", "repeat", "repeat_interleave")}
_SQUARES = {torch.square, torch.pow, *of_tensor("square", "pow", "__pow__")}
_LENGTHS = {torch.norm, torch.linalg.norm, torch.linalg.vector_norm, torch.Tensor.norm}
_SUMS = {torch.sum: False, torch.Tensor.sum: False, torch.mean: True, torch.Tensor.mean: True}
_ROOTS = {torch.sqrt: 0.5, torch.Tensor.sqrt: 0.5, torch.rsqrt: -0.5, torch.Tensor.rsqrt: -0.5}
_NORMS = {F.layer_norm, F.rms_norm, torch.layer_norm, torch.rms_norm}


@dataclass(frozen=True)
class Product:
    """A product of two activations.

    Attributes:
        size: entries that it is summed over: the size of a head.
        heads: of the queries; 1 where they stand in no dimension of their own.
        repeated: how often each key serves, once for each query of its group.
        scale: what is multiplied with the sum; None where it cannot be read.
        softmax: whether it goes into a softmax: attention logits.
        query, key, value: names of the matrices (or lookups) that these come from; None where there is none.
        shares: {"query", "key" or "value": what part it is of all that its matrix gives}, where it is not all.
    """

    size: int
    heads: int
    repeated: int
    scale: float | None
    softmax: bool
    query: str | None
    key: str | None
    value: str | None = None
    shares: Mapping[str, float] = field(default_factory=dict)


def fused(products: Iterable[Product]) -> dict[str, tuple[float, ...]]:
    """Return {matrix: parts of its outputs that are query, key and value}, for those that give several of them.

    Args:
        products: of a forward pass.

    Example:
        >>> fused([Product(8, 4, 1, 1.0, True, "qkv", "qkv", "qkv", {"query": 0.5, "key": 0.25, "value": 0.25})])
        {'qkv': (0.5, 0.25, 0.25)}
    """
    found: dict[str, dict[str, float]] = {}
    for product in products:
        for kind in product.shares:
            found.setdefault(getattr(product, kind), {}).setdefault(kind, product.shares[kind])
    return {name: tuple(shares.values()) for name, shares in found.items() if name and len(shares) > 1}


@dataclass(frozen=True)
class _Trace:
    """What is known of a tensor: whether it is a weight, its matrix and all this gave, its scale, what it repeats.

    A vector over its length has entries of n^-1/2: `squared` and `length`, n, tell how a length comes about.
    """

    weight: bool = False
    source: str | None = None
    made: int = 0
    scale: float | None = 1.0
    repeated: int = 1
    product: int | None = None
    probability: bool = False
    squared: bool = False
    length: int = 0


class Products(TorchFunctionMode):
    """Records every product of two activations, in the order of the forward pass.

    Args:
        model: its parameters are told apart from activations.
        divided: {place of a product: number that its first factor is divided by}.

    Attributes:
        found: the products.
        choices: how many are kept by each `topk`, in order.
    """

    def __init__(self, model: nn.Module, divided: Mapping[int, float] | None = None):
        super().__init__()
        self._traces = {id(p): _Trace(weight=True, source=name) for name, p in model.named_parameters()}
        self._matrices = {name for name, p in model.named_parameters() if p.dim() > 1}
        self._kept: list[Any] = []
        self._divided = divided or {}
        self.found: list[Product] = []
        self.choices: list[int] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [x for x in _flat([*args, *kwargs.values()]) if isinstance(x, torch.Tensor)]
        traces = [self._traces.get(id(x), _Trace()) for x in tensors]
        place = len(self.found)
        made = self._product(function, args, kwargs)
        if made and place in self._divided:
            args, kwargs = _divide(function, args, kwargs, self._divided[place])
        result = function(*args, **kwargs)
        if made:
            trace = _Trace(product=place, scale=self.found[place].scale, probability=self.found[place].softmax)
        elif not traces or all(trace == _Trace() for trace in traces):
            return result
        else:
            trace = self._after(function, args, kwargs, traces, result)
        for part in _flat([result]):
            if isinstance(part, torch.Tensor):
                self._kept.append(part)  # an id is only good while its tensor lives
                self._traces[id(part)] = trace
        return result

    def _product(self, function: Any, args: Any, kwargs: Any) -> bool:
        """Record a product of two activations; returns whether this is one."""
        if function is F.multi_head_attention_forward:
            self.found.append(self._packed(args, kwargs))
            return True
        if function in (torch.topk, torch.Tensor.topk):
            self.choices.append(int(kwargs["k"] if "k" in kwargs else args[1]))
        pair = _factors(function, args, kwargs)
        if pair is None:
            return False
        q, k = (self._traces.get(id(x), _Trace()) for x in pair)
        direct = function is F.scaled_dot_product_attention
        if (q.weight or k.weight) and not direct:
            return False
        if q.probability or k.probability:
            before, value = (q, k) if q.probability else (k, q)
            if before.product is not None:
                other = pair[1] if value is k else pair[0]
                known = self.found[before.product]
                self.found[before.product] = replace(
                    known, value=value.source, shares={**known.shares, **_shares(value=(other, value))}
                )
            return False
        size = _summed(function, args, pair)
        scale = None if q.scale is None or k.scale is None else q.scale * k.scale
        if direct and scale is not None:
            given = kwargs.get("scale")
            scale *= size**-0.5 if given is None else float(given)
        if function in SHIFTED and scale is not None:
            scale *= float(kwargs.get("alpha", 1.0))
        heads = [int(x.shape[-3]) if x.dim() > 3 else 1 for x in pair]
        repeated = k.repeated * (heads[0] // heads[1] if direct else 1)
        parts = {"query": (pair[0], q), "key": (pair[1], k)}
        if direct:
            third = args[2] if len(args) > 2 else kwargs["value"]
            parts["value"] = (third, self._traces.get(id(third), _Trace()))
        names = [parts[kind][1].source if kind in parts else None for kind in ("query", "key", "value")]
        self.found.append(Product(size, heads[0], repeated, scale, direct, *names, shares=_shares(**parts)))
        return True

    def _packed(self, args: Any, kwargs: Any) -> Product:
        names = ("query", "key", "value", "embed_dim_to_check", "num_heads", "in_proj_weight")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        size = given["embed_dim_to_check"] // given["num_heads"]
        parts = [given.get("in_proj_weight")] * 3
        if given.get("use_separate_proj_weight"):
            parts = [given[f"{kind}_proj_weight"] for kind in "qkv"]
        q, k, v = (self._traces.get(id(x), _Trace()).source for x in parts)
        shares = {kind: 1 / 3 for kind in ("query", "key", "value") if q == k == v}
        return Product(size, given["num_heads"], 1, size**-0.5, True, q, k, v, shares)

    def _after(self, function: Any, args: Any, kwargs: Any, traces: list[_Trace], result: Any) -> _Trace:
        activations = [trace for trace in traces if not trace.weight]
        weights = [trace for trace in traces if trace.weight]
        if function in LINEAR and traces[0].weight:  # of a learned input, as the queries of a Perceiver
            return _Trace(source=traces[1].source, made=result.numel())
        if not activations:
            return weights[0]
        if weights and function in LINEAR | RIGHT | SHIFTED | LOOKUPS | EINSUM:
            source = max(weights, key=lambda trace: trace.source in self._matrices).source
            return _Trace(source=source, made=result.numel())
        first = next((trace for trace in activations if trace != _Trace()), activations[0])
        if function in _SOFTMAX and first.product is not None and not first.probability:
            self.found[first.product] = replace(self.found[first.product], softmax=True, scale=first.scale)
            return replace(first, probability=True, scale=1.0)
        if function in _NORMS:
            return replace(first, scale=1.0)
        normed = _normed(function, args, kwargs, traces, result)
        if normed is not None:
            return normed
        if function in TIMES | OVER and len(args) > 1:
            known = self._traces
            numbers = [not isinstance(x, torch.Tensor) or (x.numel() == 1 and id(x) not in known) for x in args[:2]]
            return replace(first, scale=_scaled(first.scale, function, args[:2], numbers))
        if function in _REPEATS and isinstance(result, torch.Tensor):
            return replace(first, repeated=first.repeated * max(1, result.numel() // max(1, args[0].numel())))
        return first


def _normed(function: Any, args: Any, kwargs: Any, traces: list[_Trace], result: Any) -> _Trace | None:
    """Return what is known of squares, sums of them, their roots, and what is divided by these; else None."""
    first = traces[0]
    if function is F.normalize:
        dim = kwargs.get("dim", args[2] if len(args) > 2 else 1)
        return replace(first, scale=args[0].shape[dim] ** -0.5)
    if not args or not first.scale:
        return None
    if (function in _SQUARES and (len(args) < 2 or args[1] == 2)) or (function in TIMES and args[0] is args[1]):
        return replace(first, squared=True, scale=first.scale**2)
    if function in _LENGTHS or (function in _SUMS and first.squared):
        entries = args[0].numel() // max(1, result.numel())
        scale = first.scale / entries if _SUMS.get(function) else first.scale
        return replace(first, squared=False, length=entries, scale=scale)
    if function in _ROOTS and first.length:
        return replace(first, scale=first.scale ** _ROOTS[function])
    if function in TIMES | OVER and len(traces) == 2 and traces[0].source == traces[1].source:
        vector, norm = sorted(traces, key=lambda trace: trace.length)
        if norm.length and not vector.length and norm.scale and vector.scale:
            over = 1 / norm.scale if function in TIMES else norm.scale
            return replace(vector, scale=vector.scale / over * norm.length**-0.5)
    return None


def _shares(**parts: tuple[torch.Tensor, _Trace]) -> dict[str, float]:
    """Return what part of all that its matrix gives a query, key or value is, where it is not all."""
    of = {kind: x.numel() / (t.repeated * t.made) if t.made else 1.0 for kind, (x, t) in parts.items()}
    return {kind: share for kind, share in of.items() if share < 1}


def _flat(values: Any) -> list[Any]:
    return [y for x in values for y in (_flat(x) if isinstance(x, tuple | list) else [x])]


def _factors(function: Any, args: Any, kwargs: Any) -> tuple[torch.Tensor, torch.Tensor] | None:
    if function is F.scaled_dot_product_attention:
        pair = [args[n] if len(args) > n else kwargs[name] for n, name in enumerate(("query", "key"))]
    elif function in RIGHT:
        pair = [*args, *kwargs.values()][:2]
    elif function in SHIFTED:
        pair = [*args[1:], kwargs.get("batch1"), kwargs.get("batch2")][:2] if len(args) > 1 else []
        pair = pair if len(args) > 2 else [kwargs.get("batch1"), kwargs.get("batch2")]
    elif function in EINSUM and isinstance(args[0], str):
        pair = _flat(args[1:])
    else:
        return None
    if len(pair) != 2 or not all(isinstance(x, torch.Tensor) and x.is_floating_point() and x.dim() > 1 for x in pair):
        return None
    return pair[0], pair[1]


def _summed(function: Any, args: Any, pair: tuple[torch.Tensor, torch.Tensor]) -> int:
    if function not in EINSUM:
        return int(pair[0].shape[-1])
    left, _, right = args[0].replace(" ", "").replace("...", "").partition("->")
    own, other = left.split(",")
    sizes = dict(zip(reversed(own), reversed(pair[0].shape), strict=False))
    return prod(int(sizes[letter]) for letter in own if letter in other and letter not in right)


def _divide(function: Any, args: Any, kwargs: Any, by: float) -> tuple[Any, Any]:
    """Divide the first factor of a product."""
    if function in SHIFTED and len(args) < 2:
        return args, {**kwargs, "batch1": kwargs["batch1"] / by}
    place = 1 if function in SHIFTED | EINSUM else 0
    if len(args) > place and isinstance(args[place], torch.Tensor):
        return (*args[:place], args[place] / by, *args[place + 1 :]), kwargs
    return args, {**kwargs, "query": kwargs["query"] / by}


def _scaled(scale: float | None, function: Any, pair: Any, constant: list[bool]) -> float | None:
    """Return the scale after a product or quotient with a number; unchanged by gains, gates and rotations."""
    if constant.count(True) != 1 or scale is None:
        return scale
    number = pair[constant.index(True)]
    if isinstance(number, torch.Tensor):
        if number.is_meta:
            return None
        number = number.item()
    if function in TIMES:
        return scale * number
    return scale / number if constant[1] else None
