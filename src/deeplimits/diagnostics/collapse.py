"""Neural collapse: how far features of one class fall on one point, and the means of classes on a simplex."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deeplimits.diagnostics.calls import call
from deeplimits.diagnostics.collapse_record import NeuralCollapse
from deeplimits.diagnostics.given import finite_matrix
from deeplimits.diagnostics.stack import evaluating
from deeplimits.errors import InputError

WHERE = "neural_collapse"
RCOND = 1e-6


def neural_collapse(
    features: Any, labels: Any, weights: Any = None, bias: Any = None, *, rcond: float = RCOND
) -> NeuralCollapse:
    """Measure NC1 to NC4 of features, all classes counting alike.

    With mu_c the mean of class c, mu that of the mu_c, M_c = mu_c - mu, S_B = mean_c M_c M_c^T and S_W the mean over
    classes of the covariance within each:

    - NC1 tr(S_W S_B^+)/C, and tr S_W / tr S_B, which no weak direction between means can dominate;
    - NC2 std/mean of |M_c|, std of cos(M_c, M_c'), and mean |cos(M_c, M_c') + 1/(C-1)|;
    - NC3 |W/|W| - M/|M|| of the (C, d) matrices, Frobenius norms;
    - NC4 share of features whose largest W h + b is not the class of the nearest mean.

    Args:
        features: (N, d), a tensor or array, computed in float64.
        labels: (N,) or (N, 1) whole numbers; any numbers without weights, 0 ... C-1 with them.
        weights: (C, d) of the linear layer that reads the features; None measures no NC3 and NC4.
        bias: (C,) of that layer; None for none.
        rcond: of the pseudo-inverse: directions between means that are shorter than this share of the longest are left
            out. S_B has rank C-1 at most; what was kept is `rank`.

    Returns:
        a `NeuralCollapse`; every measure is 0 at full collapse.

    Valid when: means of classes differ.

    Raises:
        InputError: fewer than two classes, a class with one member, means that coincide, entries that are not finite,
            or shapes that do not fit.

    Source: papyan-2020-neural-collapse.

    Example:
        >>> corners = torch.eye(3) - 1 / 3
        >>> found = neural_collapse(corners.repeat(4, 1), torch.arange(3).repeat(4), weights=2 * corners)
        >>> round(found.variability, 9), round(found.simplex, 6), round(found.duality, 6), found.disagreement
        (0.0, 0.0, 0.0, 0.0)
    """
    x = finite_matrix(features, WHERE, "features")
    classes, place = _classes(labels, len(x))
    if isinstance(rcond, bool) or not isinstance(rcond, int | float) or not 0 < rcond < 1:
        raise InputError(WHERE, f"rcond={rcond!r}", f"give a share between 0 and 1; {RCOND:g} is usual")
    w, b = _readout(weights, bias, classes, x.shape[1])
    scale = float(np.abs(x).max()) or 1.0
    x = x / scale  # squares of any finite entries stay finite
    counts = np.bincount(place)
    means = np.stack([x[place == c].mean(0) for c in range(len(classes))])
    centred = means - means.mean(0)
    sizes = np.linalg.norm(centred, axis=1)
    _distinct(sizes, classes)
    inner = x - means[place]
    share = 1 / (counts[place] * len(classes))
    _, strengths, directions = np.linalg.svd(centred, full_matrices=False)
    kept = np.arange(len(strengths)) < len(classes) - 1
    kept &= strengths > rcond * strengths[0]
    along = share @ (inner @ directions[kept].T) ** 2  # v^T S_W v
    within = np.sqrt(np.stack([(inner[place == c] ** 2).sum(1).mean() for c in range(len(classes))]))
    cosines = (centred / sizes[:, None]) @ (centred / sizes[:, None]).T
    pairs = cosines[np.triu_indices(len(classes), 1)]
    return NeuralCollapse(
        classes=tuple(classes.tolist()),
        counts=tuple(counts.tolist()),
        variability=float((along / strengths[kept] ** 2).sum()),
        trace_ratio=float((within**2).mean() / (sizes**2).mean()),
        norm_spread=float(sizes.std() / sizes.mean()),
        cosine_spread=float(pairs.std()),
        simplex=float(np.abs(pairs + 1 / (len(classes) - 1)).mean()),
        duality=None if w is None else float(np.linalg.norm(w / np.linalg.norm(w) - centred / np.linalg.norm(centred))),
        disagreement=None if w is None else _disagreement(x, means, w, b / scale),
        rank=int(kept.sum()),
        distances=tuple((scale * sizes).tolist()),
        deviations=tuple((scale * within).tolist()),
        cosines=tuple(pairs.tolist()),
    )


def neural_collapse_of(
    model: nn.Module, inputs: Any, labels: Any, layer: str | None = None, *, rcond: float = RCOND
) -> NeuralCollapse:
    """Measure neural collapse in what a layer of a model reads.

    Args:
        model: any module; it is run in evaluation mode, and left as it was.
        inputs: one tensor, a tuple for several, or a dict of keywords.
        labels: (N,) or (N, 1), as of `neural_collapse`.
        layer: name of a module, as in `model.named_modules()`: its input is measured, and where it is linear with one
            row a class, its weights too; None for the `torch.nn.Linear` that is called last.
        rcond: as of `neural_collapse`.

    Returns:
        a `NeuralCollapse`.

    Raises:
        InputError: no such layer, a layer that is not called once or reads no (N, d) tensor, or as `neural_collapse`.

    Source: papyan-2020-neural-collapse.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
        >>> found = neural_collapse_of(model, torch.randn(30, 4), torch.arange(30) % 3)
        >>> found.counts, found.duality is not None
        ((10, 10, 10), True)
    """
    if not isinstance(model, nn.Module):
        raise InputError(WHERE, f"{type(model).__name__} is no torch.nn.Module", "give the model itself")
    modules = dict(model.named_modules())
    if layer is not None and layer not in modules:
        raise InputError(WHERE, f"no module {layer!r}", "take names from model.named_modules()")
    watched = (
        [module for module in modules.values() if isinstance(module, nn.Linear)] if layer is None else [modules[layer]]
    )
    calls: list[tuple[nn.Module, Any]] = []
    handles = [
        m.register_forward_pre_hook(lambda m, args: calls.append((m, args[0] if args else None))) for m in watched
    ]
    try:
        with torch.no_grad(), evaluating(model):
            call(model, inputs)
    finally:
        for handle in handles:
            handle.remove()
    module, read = _chosen(calls, layer)
    linear = (
        module if isinstance(module, nn.Linear) and module.out_features == len(_classes(labels, len(read))[0]) else None
    )
    weights, bias = (None, None) if linear is None else (linear.weight, linear.bias)
    return neural_collapse(read, labels, weights, bias, rcond=rcond)


def _chosen(calls: list[tuple[nn.Module, Any]], layer: str | None) -> tuple[nn.Module, Tensor]:
    name = "the last linear layer" if layer is None else repr(layer)
    if not calls:
        raise InputError(WHERE, f"{name} is not called in the forward pass", "name a layer that is: layer=...")
    module, read = calls[-1]
    times = sum(one is module for one, _ in calls)
    if times > 1:
        raise InputError(WHERE, f"{name} is called {times} times", "name a layer that is called once: layer=...")
    if not isinstance(read, Tensor) or read.dim() != 2:
        shape = tuple(read.shape) if isinstance(read, Tensor) else type(read).__name__
        why = f"{name} reads {shape}, not (N, d)"
        raise InputError(WHERE, why, "name a layer that reads one vector an input, or pool and call neural_collapse")
    return module, read


def _classes(labels: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    given = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]
    if given.shape != (count,):
        fix = "give one whole number an input; of one-hot rows, their argmax(1)"
        raise InputError(WHERE, f"labels of shape {given.shape} for {count} features", fix)
    if given.dtype.kind not in "iub":
        whole = given.dtype.kind == "f" and bool(np.isfinite(given).all()) and bool((given == np.round(given)).all())
        if not whole:
            bad = given[~(np.isfinite(given) & (given == np.round(given)))][0] if given.dtype.kind == "f" else given[:1]
            raise InputError(WHERE, f"labels {given.dtype}, as {bad}", "give whole numbers")
    given = given.astype(np.int64)
    classes, place, counts = np.unique(given, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise InputError(
            WHERE, f"{len(classes)} class(es) among {count} labels", "give features of two classes or more"
        )
    if counts.min() < 2:
        alone = classes[counts.argmin()]
        why = f"class {alone} has one member, and no variability within"
        raise InputError(WHERE, why, f"give two features or more of every class, or leave class {alone} out")
    return classes, place


def _readout(weights: Any, bias: Any, classes: np.ndarray, width: int) -> tuple[np.ndarray | None, np.ndarray]:
    none = np.zeros(len(classes))
    if weights is None:
        if bias is not None:
            raise InputError(WHERE, "a bias without weights", "give the weights of that layer, or neither")
        return None, none
    w = finite_matrix(weights, WHERE, "weights")
    if w.shape != (len(classes), width):
        why = f"weights {w.shape} for {len(classes)} classes of {width} features"
        raise InputError(WHERE, why, "give one row for each class among the labels")
    if not w.any():
        raise InputError(WHERE, "weights are all 0, and have no direction", "give trained weights")
    if classes.tolist() != list(range(len(classes))):
        why = f"labels {classes.tolist()} do not number the {len(classes)} rows of weights"
        raise InputError(WHERE, why, "number classes 0, 1, ... as the rows of weights")
    b = (
        none
        if bias is None
        else finite_matrix([bias] if not isinstance(bias, Tensor) else bias[None], WHERE, "bias")[0]
    )
    if b.shape != none.shape:
        raise InputError(WHERE, f"bias {b.shape} for {len(classes)} rows of weights", "give one number a row")
    largest = np.abs(w).max()
    return w / largest, b / largest


def _distinct(sizes: np.ndarray, classes: np.ndarray) -> None:
    """Refuse means without a direction from their centre: cosines of rounding errors would be noise."""
    least = 1e-12 * max(1.0, float(sizes.max()))
    if sizes.max() <= least:
        raise InputError(WHERE, "means of all classes coincide", "features that differ by class can be measured")
    if sizes.min() <= least:
        alone = classes[sizes.argmin()]
        why = f"the mean of class {alone} is the mean of all, and has no direction from it"
        raise InputError(WHERE, why, f"measure without class {alone}")


def _disagreement(x: np.ndarray, means: np.ndarray, w: np.ndarray, b: np.ndarray) -> float:
    nearest = ((means**2).sum(1) / 2 - x @ means.T).argmin(1)
    return float((nearest != (x @ w.T + b).argmax(1)).mean())
