"""The pi-limit: perceptrons of infinite width whose gradients are projected on a fixed basis."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from deeplimits.architecture.size import whole
from deeplimits.errors import InputError, NoLimit
from deeplimits.limits.training.one_hidden.ask import activation_family
from deeplimits.limits.training.one_hidden.kernel_map import KernelMap, kernel
from deeplimits.limits.training.one_hidden.loss import Square
from deeplimits.limits.training.one_hidden.task import EXPLODED, Task, prepare
from deeplimits.numerics.arrays import check_memory
from deeplimits.numerics.gaussian import Family
from deeplimits.numerics.seeds import generator
from deeplimits.progress import Bar

Array = NDArray[np.float64]
WHERE = "projected"
SMALLER = "use fewer steps or inputs (rows of the state grow with their product), or a smaller batch"
COPIES = 16  # of the kernel between rows and inputs, in a forward and a backward pass


@dataclass(frozen=True, eq=False)
class Projected:
    """Training in the pi-limit, step by step; T = steps + 1 times, P inputs, M test inputs, C outputs, K kept times.

    Attributes:
        outputs: at the training inputs, shape (T, P), or (T, P, C) where y had an axis for outputs.
        test_outputs: at the test inputs, (T, M), or (T, M, C).
        loss: summed over all training inputs and outputs, shape (T,).
        kept: the times of kernels, shape (K,).
        features: E[phi phi] in the last hidden layer at kept times, shape (K, P, P).
        rows: of the state of one layer at every time, shape (T,).
        initial: (A, B) of every layer between two hidden ones at the start.
        first: A of the input layer at the start, (d, rank): g = A^T x / sqrt(d).
        hidden_layers: L.
        text: what was solved, how, and in how much memory.
    """

    outputs: Array
    test_outputs: Array
    loss: Array
    kept: NDArray[np.int64]
    features: Array
    rows: NDArray[np.int64]
    initial: tuple[tuple[Array, Array], ...]
    first: Array
    hidden_layers: int
    text: str

    @property
    def times(self) -> NDArray[np.int64]:
        """Numbers of gradient steps taken, 0 .. steps."""
        return np.arange(len(self.loss))

    @property
    def movement(self) -> Array:
        """How far features have moved at kept times: |Phi(t) - Phi(0)| / |Phi(0)|, shape (K,)."""
        size = np.linalg.norm(self.features[:1], axis=(1, 2))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.linalg.norm(self.features - self.features[:1], axis=(1, 2)) / size

    def describe(self) -> str:
        """Say what was solved, how, and in how much memory."""
        return self.text

    def __repr__(self) -> str:
        layers = f"{self.hidden_layers} hidden layer{'s' if self.hidden_layers > 1 else ''}"
        return f"Projected({layers}, {len(self.loss) - 1} steps, {self.rows[-1]} rows)"


def projected(
    X: Any,
    y: Any,
    rate: float,
    steps: int,
    *,
    hidden_layers: int = 1,
    activation: Any = "relu",
    rank: int | None = None,
    weight_decay: float = 0.0,
    batch: int | None = None,
    loss: str = "square",
    seed: int = 0,
    kept: int = 9,
    X_test: Any = None,
) -> Projected:
    """Return training of a perceptron in the pi-limit: muP at infinite width with projected gradients, not muP itself.

    Every hidden neuron has a fixed standard normal w in R^r and the preactivation w . g; gradients of preactivations
    are projected on what the w of a layer span, w (w^T w)^{-1} w^T, before they move weights. At infinite width
    g^1 = A^T x / sqrt(d), g^{l+1} = sum of A_i k(B_i, g^l) and so f of g^L, k the kernel of the activation, and a
    step appends the row (-rate dL/dg^{l+1}, g^l) to each layer for each input: gradient descent on functions. The input
    layer moves by plain gradient descent. It learns features, but by another algorithm than muP's gradient descent,
    which is dl.training.one_hidden: their outputs differ by an amount that no width makes small.

    Args:
        X: training inputs, shape (P, d); numpy or torch.
        y: targets, shape (P,), or (P, C) for C outputs.
        rate: learning rate, in the units of dl.training.one_hidden.
        steps: of gradient descent.
        hidden_layers: L.
        activation: any whose kernel is known: a name or an activation of dl.act.
        rank: r of every layer; None: the number of directions that inputs span, and A of the input layer is the
            identity. Otherwise it is normal of variance 1/r, drawn.
        weight_decay: all weights shrink by 1 - rate * weight_decay at every step.
        batch: inputs a step, in an order drawn from the seed; None for all.
        loss: "square" (sum of (f - y)^2 / 2), "logistic" or "softmax".
        seed: of drawn layers and orders. Layers between hidden ones start with B = I and A normal of variance 1/r.
        kept: times at which the kernel of the last hidden layer is kept, evenly spaced.
        X_test: inputs to predict at, which are not trained on, shape (M, d).

    Memory: with R = r + steps batch rows a layer, 8 (L R (2 r + C) + 16 L R (P + M)) bytes, about, refused before any
    work where it does not fit; the kernel is evaluated L R^2 (P + M) / (2 batch) times: quadratic in steps.

    Valid when: width to infinity at a fixed number of steps.

    Raises:
        InputError: data or options that cannot be used; a rate that is unstable at the start, with the largest stable
            one (full batches, squared error).
        NoLimit: training diverges; the error's `record` holds the steps before.
        MemoryNeeded: the rows do not fit.

    Source: yang-2022-pi-limit; the equations are derived here.

    Example:
        >>> found = projected(np.eye(2), [1.0, -1.0], rate=0.5, steps=40)
        >>> found.outputs[-1].round(2), found.rows[[0, -1]]
        (array([ 1., -1.]), array([ 0, 80]))
    """
    task = prepare(WHERE, X, y, X_test, loss, rate, steps, 0.0, 1.0, batch, kept, seed)
    layers = whole(WHERE, "hidden_layers", hidden_layers)
    size = task.X.shape[1] if rank is None else whole(WHERE, "rank", rank)
    phi, left = activation_family(WHERE, activation), 1 - task.rate * _decay(weight_decay, task.rate)
    rows = task.steps * (len(task.X) if task.batches is None else task.batches.shape[1])
    inputs = len(task.X) + len(task.X_test)
    state = layers * (size + rows) * (2 * size + task.y.shape[1] + COPIES * inputs)
    needed = 8 * (state + (task.steps + 1) * inputs * task.y.shape[1] + len(task.kept) * len(task.X) ** 2)
    check_memory(WHERE, needed, f"{rows} rows in each of {layers} layers", SMALLER)
    first, between = _initial(task, size, layers, rank, seed)
    _stable(task, phi, first, between)
    evaluations = layers * (size + rows / 2) * inputs * task.steps
    shape = f"{layers} hidden layer{'s' if layers > 1 else ''} of rank {size}"
    text = (
        f"pi-limit, {shape}, rate {task.rate:g}: {task.steps} steps on {len(task.X)} inputs; {rows} rows a layer, "
        f"{needed:,} bytes, {evaluations:.3g} evaluations of the kernel"
    )
    return _descend(task, phi, (first, between), left, layers, text)


def _decay(weight_decay: Any, rate: float) -> float:
    good = isinstance(weight_decay, int | float | np.integer | np.floating) and not isinstance(weight_decay, bool)
    if not good or not 0 <= weight_decay < min(1 / rate, inf):
        fix = f"give 0 <= weight_decay < 1 / rate = {1 / rate:.4g}"
        raise InputError(WHERE, f"weight_decay={weight_decay!r} is not in that range", fix)
    return float(weight_decay)


def _initial(task: Task, size: int, layers: int, rank: Any, seed: int) -> tuple[Array, tuple[tuple[Array, Array], ...]]:
    """Return A of the input layer, (r0, r), and (A, B) of the layers between hidden ones, (r, r) each."""
    random = generator(seed, "layers")
    directions = task.X.shape[1]
    first = np.eye(size) if rank is None else random.standard_normal((directions, size)) / size**0.5
    between = [(random.standard_normal((size, size)) / size**0.5, np.eye(size)) for _ in range(layers - 1)]
    return first, tuple(between)


def _stable(task: Task, phi: Family, first: Array, between: tuple[tuple[Array, Array], ...]) -> None:
    """Refuse a rate at which errors grow from the first step, which moves the readout alone."""
    if not isinstance(task.loss, Square) or task.batches is not None:
        return
    g = torch.from_numpy(task.X @ first)
    for A, B in between:
        g = kernel(phi, g, torch.from_numpy(B)) @ torch.from_numpy(A)
    most = 2 / max(float(torch.linalg.eigvalsh(kernel(phi, g, g))[-1]), np.finfo(np.float64).tiny)
    if task.rate > most:
        why = f"rate={task.rate:g} is past stability: at the start, errors along one direction grow at every step"
        raise InputError(WHERE, why, f"give a rate below {most:.4g} = 2 / (largest eigenvalue of the features' kernel)")


def _descend(task: Task, phi: Family, initial: Any, left: float, layers: int, text: str) -> Projected:
    first, between = initial
    more = task.steps * (len(task.X) if task.batches is None else task.batches.shape[1])
    pairs = [tuple(torch.from_numpy(w) for w in one) for one in between]
    none = (torch.empty((0, size), dtype=torch.float64) for size in (task.y.shape[1], first.shape[1]))
    maps = [KernelMap.of(A, B, more, phi) for A, B in (*pairs, tuple(none))]
    inner, X = torch.from_numpy(first.copy()), torch.from_numpy(np.concatenate([task.X, task.X_test]))
    outputs, features, losses = [], [], []

    def record() -> Projected:
        few = np.stack(outputs)
        few = few if task.several else few[..., 0]
        rows, times = len(task.X), task.kept[: len(features)]
        kernels = np.array(features).reshape(-1, rows, rows)
        step = more // task.steps
        counts = len(maps[0].A) - more + step * np.arange(len(losses))
        A = task.basis @ first
        return Projected(
            few[:, :rows], few[:, rows:], np.array(losses), times, kernels, counts, between, A, layers, text
        )

    most = float(task.loss.value(np.zeros_like(task.y), task.y))
    with Bar(task.steps + 1, description=WHERE) as bar:
        for time in range(task.steps + 1):
            g = [(X @ inner).requires_grad_()]
            for layer in maps:
                g.append(layer(g[-1]))
            f = g[-1].detach().numpy()
            value = float(task.loss.value(f[: len(task.X)], task.y))
            if not value <= EXPLODED * most:
                raise _diverged(time, record if losses else None)
            outputs.append(f)
            losses.append(value)
            if time in task.kept:
                last = g[-2][: len(task.X)].detach()
                features.append(kernel(phi, last, last).numpy())
            bar.reach((time + 1) ** 2 / (task.steps + 1))
            if time < task.steps:
                _step(task, time, X, inner, maps, g, left)
    return record()


def _step(
    task: Task, time: int, X: torch.Tensor, inner: torch.Tensor, maps: list[KernelMap], g: list[torch.Tensor],
    left: float,
) -> None:  # fmt: skip
    """Append the rows of one step to every layer, and move the input layer."""
    rows = np.arange(len(task.X)) if task.batches is None else task.batches[time]
    chi = torch.zeros_like(g[-1])
    chi[rows] = torch.from_numpy(task.loss.slope(g[-1].detach().numpy()[rows], task.y[rows]))
    down = [*torch.autograd.grad(g[-1], g[:-1], chi, allow_unused=True, materialize_grads=True), chi]
    with torch.no_grad():
        inner.mul_(left).sub_(task.rate * X[rows].T @ down[0][rows])
        for layer, at, gradient in zip(maps, g[:-1], down[1:], strict=True):
            layer.move(at[rows].detach(), gradient[rows], task.rate, left)


def _diverged(time: int, record: Any) -> NoLimit:
    why = f"training diverges at step {time}: the loss is more than a million times that of zero outputs"
    refusal = NoLimit(WHERE, why, "use a smaller rate; this error's `record` holds the steps before")
    refusal.record = None if record is None else record()  # type: ignore[attr-defined]
    return refusal
