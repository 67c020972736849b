"""Forward passes that are watched, on the meta device where that is possible."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import nn

from deeplimits.errors import InputError
from deeplimits.transfer.anatomy.inputs import call
from deeplimits.transfer.anatomy.products import Product, Products
from deeplimits.transfer.anatomy.uses import Watch

_FAILURES = (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError, KeyError, AttributeError)


@dataclass
class Seen:
    """A forward pass that was watched.

    Attributes:
        watch: how it uses parameters; None where it could not be run.
        products: its products of activations, as far as it came.
        choices: how many experts are chosen by each `topk`.
        failed: why it could not be run.
    """

    watch: Watch | None
    products: Sequence[Product]
    choices: Sequence[int]
    failed: str = ""


def seen(model: nn.Module, inputs: Any, real: nn.Module | None = None) -> Seen:
    """Watch a forward pass on the meta device; where it cannot be run there, on the real model.

    Some operations exist in bfloat16 only, and some forward passes make constants without naming a device.

    Args:
        model: with or without values.
        inputs: what it takes.
        real: a model of the same names with values.

    Raises:
        InputError: the real model does not take the inputs either.
    """
    farthest, reach = Seen(None, (), ()), -1
    for dtype, placed in product((None, torch.bfloat16), (nullcontext(), torch.device("meta"))):
        twin = _without_values(model).to(dtype)
        watch, products = Watch(twin), Products(twin)
        try:
            with torch.no_grad(), placed, watch, products:
                call(twin, inputs)
            return Seen(watch, products.found, products.choices)
        except _FAILURES as error:
            if len(watch.order) > reach:
                words = f"{watch.running}: {type(error).__name__}: {error}".splitlines()[0]
                farthest, reach = Seen(None, products.found, products.choices, words), len(watch.order)
    return farthest if real is None or bare_meta(real) else followed(real, inputs)


def followed(model: nn.Module, inputs: Any) -> Seen:
    """Watch a forward pass with values.

    Args:
        model: with values.
        inputs: what it takes.

    Raises:
        InputError: the model does not take the inputs.
    """
    training = model.training
    watch, products = Watch(model.eval()), Products(model)
    try:
        with torch.no_grad(), watch, products:
            call(model, inputs)
        return Seen(watch, products.found, products.choices)
    except _FAILURES as error:
        why = f"the forward pass fails on the inputs that were tried ({type(error).__name__}: {error})"
        raise InputError("transfer", why, "pass inputs=, as for model(inputs)") from error
    finally:
        model.train(training)


def tried(model: nn.Module, inputs: Any) -> Seen:
    """Watch a forward pass with values, or say why it fails, as where inputs follow the width.

    Args:
        model: with values.
        inputs: what another width takes.
    """
    try:
        return followed(model, inputs)
    except InputError as error:
        return Seen(None, (), (), error.why)


def _without_values(model: nn.Module) -> nn.Module:
    """Return a copy on the meta device; no value is copied, however large the model."""
    tensors = [*model.parameters(), *model.buffers()]
    empty = {id(t): torch.empty_like(t, device="meta", requires_grad=t.requires_grad) for t in tensors}
    for p in model.parameters():
        empty[id(p)] = nn.Parameter(empty[id(p)].detach(), p.requires_grad)
    return copy.deepcopy(model, empty).eval()


def bare_meta(model: nn.Module) -> bool:
    """Say whether a model has parameters without values, or in parts that another framework keeps."""
    return any(p.is_meta or getattr(p, "ds_shape", p.shape) != p.shape for p in model.parameters())
