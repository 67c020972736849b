"""What the two deep kernel machines have in common: their parameters, and what a fit keeps."""

from __future__ import annotations

import warnings
from math import inf
from numbers import Real
from typing import Any

import numpy as np
import torch

from deeplimits.architecture.size import whole
from deeplimits.architecture.zoo import Mlp
from deeplimits.errors import ConvergenceWarning, DescriptionError, InputError, PrecisionError, nearest
from deeplimits.inference.deep_kernel_evidence import SingularError
from deeplimits.inference.deep_kernel_inducing import inducing
from deeplimits.inference.deep_kernel_law import MachineLaw, gram
from deeplimits.inference.deep_kernel_layers import Blocks, layers
from deeplimits.inference.deep_kernel_machine import SOLVERS, Task, begin, forward, maximise, roots
from deeplimits.inference.estimator import NetworkEstimator, check_fit
from deeplimits.inference.gaussian_process import factorise
from deeplimits.inference.prior import network
from deeplimits.numerics.arrays import check_memory

MATRICES = 25  # of the base, held for each layer: gradients, and the memory of L-BFGS
FEWER = "give fewer inducing_points, fewer rows, or a smaller depth"
DEFAULT = Mlp("relu", bias_std=0.3)


class DeepKernelMachine(NetworkEstimator):
    """An estimator that learns a Gram matrix for each hidden layer of a network."""

    nu: Any
    inducing_points: Any
    solver: Any
    max_iter: Any
    tol: Any
    seed: Any
    progress: bool
    optimize = None
    _default = DEFAULT

    def _learn(
        self, where: str, rows: np.ndarray, targets: np.ndarray, noise: float | None, unit: float, flat: bool
    ) -> None:
        if self.solver not in SOLVERS:
            raise DescriptionError(where, f"solver={self.solver!r} is not one", nearest(str(self.solver), SOLVERS))
        steps, tolerance = whole(where, "max_iter", self.max_iter), _positive(where, "tol", self.tol)
        self.net_ = network(self.net, self._default)
        cut = layers(where, self.net_, self.depth, rows)
        nu = _prices(where, self.nu, len(cut.maps) - 1)
        base = inducing(where, self.inducing_points, rows, self.seed)
        sparse = base is not rows
        check_fit(where, len(base), MATRICES * len(cut.maps), "give inducing_points=100")
        if sparse:
            needed = 8 * len(rows) * len(base) * MATRICES * len(cut.maps)
            check_memory(where, needed, f"{len(rows)} rows beside {len(base)} inducing points", FEWER)
            if noise == 0.0:
                fix = "give a noise > 0, or leave inducing_points out"
                raise InputError(where, "noise=0 with inducing points, between which something is always left out", fix)
            own = torch.from_numpy(np.einsum("nd,nd->n", rows, rows) / rows.shape[1])
            given = Blocks(gram(base, base), gram(rows, base), own)
        else:
            given = Blocks(gram(rows, rows))
        task = begin(cut, given, torch.from_numpy(targets), noise, nu)
        if noise is not None and not sparse:
            start = forward(task, [None] * len(nu), given).kernel.base
            factorise(where, start.numpy().copy(), noise, rows, unit)
        self._keep(where, task, steps, tolerance, base, unit, flat)

    def _keep(
        self, where: str, task: Task, steps: int, tolerance: float, base: np.ndarray, unit: float, flat: bool
    ) -> None:
        found = maximise(where, task, self.solver, steps, tolerance, self.progress)
        with torch.no_grad():
            try:
                state = forward(task, roots(task, torch.from_numpy(found.flat)), task.inputs)
            except SingularError:
                why = "a kernel is not positive definite in float64 at the learned Gram matrices"
                raise PrecisionError(where, why, "raise nu, or give fewer inducing_points") from None
            self.posterior_ = MachineLaw(task, state, base, flat)
            self.likelihood_ = self.posterior_.likelihood(unit)
        self.kl_ = np.array([float(cost) for cost in state.costs])
        self.nu_ = np.array(task.nu)
        self.objective_ = self.likelihood_ - float(
            sum(n * k for n, k in zip(task.nu, self.kl_, strict=True) if n < inf)
        )
        self.grams_ = [one.numpy() for one in state.grams]
        self.prior_grams_ = [one.numpy() for one in state.priors]
        self.ranks_ = [one.rank for one in task.chosen[:-1]]
        self.inducing_points_ = base
        self.n_iter_, self.residual_, self.tolerance_ = max(found.steps, 1), found.residual, tolerance
        self.converged_ = found.residual <= tolerance
        if not self.converged_:
            text = (
                f"{where}: {self.solver} stopped after {found.steps} steps with a gradient of {found.residual:.1e} a "
            )
            text += f"target, tol={tolerance:g}; what was found is kept (converged_ is False)"
            warnings.warn(f"{text}. Raise max_iter or nu, or scale the targets", ConvergenceWarning, stacklevel=4)


def _prices(where: str, nu: Any, count: int) -> tuple[float, ...]:
    several = isinstance(nu, list | tuple | np.ndarray)
    each = list(nu) if several else [nu] * count
    if len(each) != count:
        why = f"nu has {len(each)} entries for {count} layers that are learned"
        raise InputError(where, why, "give one number, or one a layer")
    for value in each:
        if isinstance(value, bool) or not isinstance(value, Real) or not float(value) > 0:
            raise InputError(where, f"nu={value!r} is not a number > 0", "give e.g. nu=10.0, or infinity for the NNGP")
    return tuple(float(value) for value in each)


def _positive(where: str, name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < inf:
        raise InputError(where, f"{name}={value!r} is not a number > 0", f"give e.g. {name}=1e-4")
    return float(value)
