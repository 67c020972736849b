"""The objective of a deep kernel machine: the evidence less what the Gram matrices cost, and its maximum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import cos, inf, pi
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deeplimits.errors import PrecisionError
from deeplimits.inference.deep_kernel_evidence import Answer, SingularError, exact, gaussian, logistic
from deeplimits.inference.deep_kernel_layers import Blocks, Layers, Pivots, learned, pivots
from deeplimits.progress import Bar

LBFGS, ADAM = SOLVERS = ("lbfgs", "adam")
RATE = 0.05  # of Adam, falling to zero as half a cosine
MEMORY = 20  # pairs of steps and gradients that L-BFGS keeps
ROUNDING = 1e-15
SHRINKS = 0.7  # factor by which a polishing step must shrink the gradient


@dataclass(frozen=True, eq=False)
class Task:
    """What is fixed while the Gram matrices are learned.

    Attributes:
        layers: the kernel maps.
        inputs: Gram matrix X X^T / d of the base, and the blocks of training rows where these are others.
        targets: y, or signs of labels, shape (N, C).
        noise: variance, or None for the logistic likelihood.
        nu: price of each learned layer, shape (L,); infinity keeps the layer at its prior.
        chosen: pivots of all layers, the last of the output kernel.
    """

    layers: Layers
    inputs: Blocks
    targets: Tensor
    noise: float | None
    nu: tuple[float, ...]
    chosen: tuple[Pivots, ...] = field(default=())

    @property
    def sparse(self) -> bool:
        """Whether training rows are others than the base."""
        return self.inputs.cross is not None

    def sizes(self) -> list[int]:
        """Ranks of the layers that are learned."""
        return [one.rank for one, price in zip(self.chosen, self.nu, strict=False) if price < inf]

    def count(self) -> int:
        """Number of parameters."""
        return sum(size * (size + 1) // 2 for size in self.sizes())

    def curvature(self) -> np.ndarray:
        """Second derivatives at the priors of sum of nu_l KL_l, nu at least 1, over the number of targets."""
        prices = [max(price, 1.0) for price in self.nu if price < inf]
        each = [
            np.repeat([2 * price, price], [size, size * (size - 1) // 2])
            for size, price in zip(self.sizes(), prices, strict=True)
        ]
        return np.concatenate([*each, np.zeros(0)]) / self.targets.numel()


@dataclass(frozen=True, eq=False)
class State:
    """What parameters stand for.

    Attributes:
        roots: M of each layer, None where it is not learned.
        priors: K_l(G_{l-1}) at the base, L matrices.
        grams: G_l at the base, L matrices.
        kernel: that of the output.
        costs: KL(N(0, G_l) | N(0, K_l)) of each layer.
    """

    roots: list[Tensor | None]
    priors: list[Tensor]
    grams: list[Tensor]
    kernel: Blocks
    costs: list[Tensor]


def begin(layers: Layers, inputs: Blocks, targets: Tensor, noise: float | None, nu: tuple[float, ...]) -> Task:
    """Return the task, with pivots chosen where all layers are at their priors."""
    found, below = [], Blocks(inputs.base)
    for layer in range(len(layers.maps)):
        below = layers.kernel(layer, below)
        found.append(pivots(below.base))
    return Task(layers, inputs, targets, noise, nu, tuple(found))


def forward(task: Task, roots: list[Tensor | None], inputs: Blocks) -> State:
    """Follow Gram matrices through the layers, at the base and at the other rows of `inputs`."""
    priors, grams, costs, below = [], [], [], inputs
    for layer, (root, chosen) in enumerate(zip(roots, task.chosen, strict=False)):
        below = task.layers.kernel(layer, below)
        priors.append(below.base)
        cost = below.base.new_zeros(())
        if root is not None:
            cost = 0.5 * ((root**2).sum() - len(root)) - root.diagonal().log().sum()
            below = learned(below, chosen, root)
        costs.append(cost)
        grams.append(below.base)
    return State(roots, priors, grams, task.layers.kernel(len(roots), below), costs)


def roots(task: Task, flat: Tensor) -> list[Tensor | None]:
    """Return M of each layer: lower triangular, its diagonal the exponential of what `flat` holds."""
    found: list[Tensor | None] = []
    for price, chosen in zip(task.nu, task.chosen, strict=False):
        if price == inf:
            found.append(None)
            continue
        size = chosen.rank
        rows, columns = torch.tril_indices(size, size, -1)
        below = flat.new_zeros(size, size).index_put((rows, columns), flat[size : size + len(rows)])
        found.append(below + torch.diag(flat[:size].exp()))
        flat = flat[size + len(rows) :]
    return found


def features(task: Task, kernel: Blocks) -> tuple[Tensor, Tensor, Tensor]:
    """Return the factor C at the output's pivots, A = K C^-T at the training rows, and the variances it leaves out."""
    rows = task.chosen[-1].rows
    lower = torch.linalg.cholesky(kernel.base[rows][:, rows])
    across, own = (
        (kernel.cross, kernel.variances) if kernel.cross is not None else (kernel.base, kernel.base.diagonal())
    )
    inner = torch.linalg.solve_triangular(lower, across[:, rows].T, upper=False).T
    return lower, inner, (own - (inner**2).sum(1)).clamp(min=0)


def evidence(task: Task, kernel: Blocks, start: Tensor | None = None) -> Answer:
    """Return the evidence of the targets and the law of the output, through the features of the pivots."""
    _, inner, rest = features(task, kernel)
    if task.noise is None:
        return logistic(inner, rest, task.targets, start)
    return gaussian(inner, rest, task.targets, task.noise)


class Objective:
    """Minus (evidence - sum of nu_l KL_l) over the number of targets, and its gradient."""

    def __init__(self, task: Task):
        self.task, self.start, self.worst = task, None, 0.0

    def value(self, flat: Tensor) -> Tensor:
        """Return it, differentiable in the parameters."""
        task = self.task
        state = forward(task, roots(task, flat), task.inputs)
        if task.noise is not None and not task.sparse:
            likelihood = exact(state.kernel.base, task.targets, task.noise)
        else:
            answer = evidence(task, state.kernel, self.start)
            likelihood = answer.value
            self.start = answer.mean.detach() if task.noise is None else None
        pairs = zip(task.nu, state.costs, strict=True)
        return -(likelihood - sum(nu * cost for nu, cost in pairs if nu < inf)) / task.targets.numel()

    def __call__(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        given = torch.from_numpy(flat.copy()).requires_grad_()
        try:
            value = self.value(given)
            value.backward()
        except SingularError:  # too far: the line search comes back
            return self.worst, np.zeros_like(flat)
        assert given.grad is not None
        found = float(value.detach())
        self.worst = max(self.worst, abs(found) * 1e3 + 1e6)
        return found, given.grad.numpy()


@dataclass(frozen=True, eq=False)
class Maximum:
    """Where a solver stopped: the parameters, its largest gradient an entry, steps taken."""

    flat: np.ndarray
    residual: float
    steps: int


def maximise(where: str, task: Task, solver: str, max_iter: int, tolerance: float, progress: bool) -> Maximum:
    """Return the maximum found from the priors on.

    Args:
        where: named in errors.
        task: what is learned.
        solver: "lbfgs" or "adam".
        max_iter: most steps.
        tolerance: of the largest entry of the gradient of the objective over the number of targets.
        progress: whether to show a bar on a terminal.

    Raises:
        PrecisionError: the objective is not finite at the priors.
    """
    start, objective = np.zeros(task.count()), Objective(task)
    if not len(start):
        return Maximum(start, 0.0, 0)
    value, gradient = objective(start)
    if not np.isfinite(value) or not np.isfinite(gradient).all():
        why = f"log p(y) is {-value * task.targets.numel():.3g} at the priors, and has no gradient in float64"
        raise PrecisionError(where, why, "scale the targets (normalize_y=True) and the inputs, or give a larger noise")
    with Bar(max_iter, progress, "learning Gram matrices") as bar:
        search = _lbfgs if solver == LBFGS else _adam
        return search(objective, start, max_iter, tolerance, lambda: bar.advance("learning Gram matrices", 1))


def _lbfgs(objective: Objective, start: np.ndarray, most: int, tolerance: float, tick: Callable[[], None]) -> Maximum:
    """Search in parameters in which the KL near the priors is a sphere, then polish.

    A line search on values stops where rounding hides their differences; the gradient is still good there, and steps of
    the KL's own curvature shrink it further.
    """
    from scipy.optimize import minimize

    curvature = objective.task.curvature()
    root = np.sqrt(curvature)

    def scaled(z: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(z / root)
        return value, gradient / root

    options: dict[str, Any] = {"maxiter": most, "maxfun": 4 * most + 20, "ftol": ROUNDING, "maxcor": MEMORY}
    options["gtol"] = tolerance / float(root.max())
    found = minimize(scaled, start * root, jac=True, method="L-BFGS-B", callback=lambda _: tick(), options=options)
    at, gradient, steps = found.x / root, found.jac * root, int(found.nit)
    while np.abs(gradient).max() > tolerance and steps < most:
        trial = at - gradient / curvature
        moved = objective(trial)[1]
        if not np.abs(moved).max() < SHRINKS * np.abs(gradient).max() or not moved.any():
            break
        at, gradient, steps = trial, moved, steps + 1
    return Maximum(at, float(np.abs(gradient).max()), steps)


def _adam(objective: Objective, start: np.ndarray, most: int, tolerance: float, tick: Callable[[], None]) -> Maximum:
    at, first, second = start.copy(), np.zeros_like(start), np.zeros_like(start)
    _, gradient = objective(at)
    for step in range(1, most + 1):
        if np.abs(gradient).max() <= tolerance:
            return Maximum(at, float(np.abs(gradient).max()), step - 1)
        first += 0.1 * (gradient - first)
        second += 0.001 * (gradient**2 - second)
        rate = RATE * 0.5 * (1 + cos(pi * (step - 1) / most))
        at = at - rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-12)
        _, gradient = objective(at)
        tick()
    return Maximum(at, float(np.abs(gradient).max()), most)


def linear_grams(inputs: Any, targets: Any, depth: int) -> list[np.ndarray]:
    """Return the Gram matrices of a linear machine without noise, of price nu = C in each layer, in closed form.

    G_l = G_0 (G_0^-1 S)^(l / (L + 1)), S = Y Y^T / C.

    Args:
        inputs: G_0, shape (P, P), positive definite.
        targets: Y, shape (P, C) with C >= P.
        depth: number of learned layers L.

    Returns:
        G_1 .. G_L, shape (P, P) each.

    Valid when: K(G) = G (dl.Mlp("identity")), noise 0, nu = C, G_0 and S of full rank.

    Source: yang-2021-deep-kernel-machine; derived.

    Example:
        >>> [gram.tolist() for gram in linear_grams([[1.0]], [[4.0]], 1)]
        [[[4.0]]]
    """
    from scipy.linalg import eigh

    gram, y = np.asarray(inputs, dtype=np.float64), np.asarray(targets, dtype=np.float64)
    values, vectors = eigh(y @ y.T / y.shape[1], gram)
    left = gram @ vectors
    return [(left * values ** (layer / (depth + 1))) @ left.T for layer in range(1, depth + 1)]
