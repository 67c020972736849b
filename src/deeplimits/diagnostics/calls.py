"""What modules read and return, whatever their signature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn


def call(model: nn.Module, inputs: Any) -> Tensor:
    """Return the main output of model(inputs), model(*inputs) or model(**inputs): logits, hidden state or the first."""
    if isinstance(inputs, Mapping):
        result = model(**{name: _copied(value) for name, value in inputs.items()})
    else:
        result = model(*map(_copied, inputs if isinstance(inputs, tuple | list) else [inputs]))
    for name in ("logits", "last_hidden_state"):
        if hasattr(result, name):
            return getattr(result, name)
    return first_tensor(result)  # type: ignore[return-value]


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value  # a model may write on what it reads


def first_tensor(result: Any) -> Tensor | None:
    """Return the tensor itself, or the first of several."""
    if isinstance(result, Tensor):
        return result
    if isinstance(result, tuple | list) and result and isinstance(result[0], Tensor):
        return result[0]
    return None


def stream_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor | None:
    """Return the stream among a block's arguments: the first tensor, those by position first."""
    named = kwargs.get("hidden_states")
    candidates = [*args[:1], named, *kwargs.values()]
    return next((one for one in candidates if isinstance(one, Tensor)), None)


def put(stream: Tensor, template: Any) -> Any:
    """Return the stream in the place that it has in what a block returns."""
    if isinstance(template, Tensor):
        return stream
    return type(template)((stream, *template[1:]))
