"""What can be checked of a block without sampling: its description, its rule, its covariance."""

from __future__ import annotations

from dataclasses import is_dataclass

import torch

from deeplimits.architecture.increment import increment
from deeplimits.architecture.layer import Layer
from deeplimits.errors import DescriptionError
from deeplimits.limits.diffusion.layers import covariance
from deeplimits.numerics.seeds import generator
from deeplimits.testing.record import Log

EXACT = 1e-10
NEURONS = 24


def description(layer: Layer, log: Log) -> None:
    """Check that a layer is data: a frozen dataclass that can be compared and hashed."""
    kind = type(layer)
    frozen = is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    fix = f"write @dataclass(frozen=True) over class {kind.__name__}(Layer)"
    log.check("description", float(frozen), 1, 1, "a frozen dataclass" if frozen else "it is no frozen dataclass", fix)
    try:
        hash(layer)
        same = layer.replace({}) == layer
    except TypeError as error:
        fix = "hold numbers, text, tuples and layers only"
        log.check("hashable", 0, 1, 1, f"its fields cannot be hashed ({error})", fix)
        return
    log.check("hashable", float(same), 1, 1, "equal to its copy" if same else "not equal to its copy", "leave __eq__")


def rule(layer: Layer, log: Log) -> None:
    """Check that the increment is registered with a source."""
    found = increment.answers(layer)
    kind = type(layer).__name__
    words = f"source: {found.source} ({found.place})" if found else "it has no increment"
    fix = f"register one: @increment.rule({kind}, source=...)"
    log.check("rule", float(found is not None), 1, 1, words, fix)


def covariances(layer: Layer, seed: int, log: Log) -> None:
    """Check a block's covariance on random states: what every covariance of neurons that are alike must do.

    Raises:
        CheckFailed: it has a wrong shape, is not finite, is no covariance, or depends on the order of its inputs.
    """
    x = torch.from_numpy(generator(seed, "check", "state").standard_normal((3, 5, NEURONS)))
    x[1, 1] = x[1, 0]
    x[2, 2] = 0.0
    try:
        found = covariance(layer, x)
    except DescriptionError as error:
        log.check("covariance", 0, 1, 1, error.why, error.fix)
        return
    size = float(found.abs().max())
    lowest = float(torch.linalg.eigvalsh(found).min()) / max(size, 1e-300)
    fix = "check signs and cross terms; sums of products of averages of f(u) f(v) are positive semi-definite"
    words = f"smallest eigenvalue {lowest:.2g} of the largest entry"
    log.check("positive semi-definite", lowest, -1e-9, float("inf"), words, fix)
    order = torch.tensor([3, 0, 4, 1, 2])
    parts = {
        "order of inputs": (covariance(layer, x[:, order]), found[:, order][:, :, order]),
        "order of neurons": (covariance(layer, x.flip(2)), found),
        "diagonal": (torch.cat([covariance(layer, x[:, i : i + 1]) for i in range(5)], 1)[..., 0],
                     found.diagonal(dim1=1, dim2=2)),
        "alone or among others": (torch.cat([covariance(layer, x[i : i + 1]) for i in range(3)]), found),
    }  # fmt: skip
    fixes = {
        "order of neurons": "use neurons through mean(...) only, never by their index",
        "alone or among others": "use no dimension but the one mean(...) averages over",
    }
    for part, (one, other) in parts.items():
        apart = float((one - other).abs().max()) / max(size, 1e-300)
        words = f"differs by {apart:.1e} of the largest entry"
        log.check(part, apart, 0, EXACT, words, fixes.get(part, "let each pair of inputs depend on these two alone"))
