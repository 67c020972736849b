"""What a deep linear network does while it trains: the strength of its modes, its loss, its outputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.errors import InputError
from deeplimits.limits.training.linear.inputs import check_share
from deeplimits.limits.training.linear.modes import mode_time
from deeplimits.numerics.arrays import check, check_memory

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DeepLinear:
    """Gradient flow of f(x) = W_N ... W_1 x on sum (f - y)^2 / 2, mode by mode.

    Attributes:
        layers: N, the number of weight matrices; may be infinite.
        times: rate times steps, shape (T,); N times that for infinite N.
        targets: strengths s that the modes end at, largest first, shape (m,).
        speeds: c, eigenvalues of X'X that the modes see, shape (m,).
        initial: strengths at time 0, shape (m,).
        strengths: of the modes at these times, shape (T, m).
        left: directions of the outputs, orthonormal columns, shape (C, m).
        right: directions of the inputs, likewise, shape (d, m).
        whitening: the map of the inputs that whitened them, shape (d, d), or None if they were white as given.
        floor: the loss that no linear map goes below.
        flat: whether y had the shape (P,): outputs then have no last axis.
    """

    layers: float
    times: Array
    targets: Array
    speeds: Array
    initial: Array
    strengths: Array
    left: Array
    right: Array
    whitening: Array | None
    floor: float
    flat: bool

    @cached_property
    def loss(self) -> Array:
        """Loss sum (f - y)^2 / 2 on the training data at every time, shape (T,)."""
        return self.floor + (self.speeds * (self.strengths - self.targets) ** 2).sum(1) / 2

    @property
    def matrix(self) -> Array:
        """The product W_N ... W_1 at every time, for the inputs as they were given, shape (T, C, d).

        Raises:
            MemoryNeeded: it does not fit.
        """
        right = self.right if self.whitening is None else self.whitening @ self.right
        needed = 8 * len(self.times) * len(self.left) * len(right)
        check_memory("DeepLinear.matrix", needed, "the product at every time", "ask for fewer times")
        return np.einsum("cm,tm,dm->tcd", self.left, self.strengths, right, optimize=True)

    @property
    def largest_rate(self) -> float:
        """Largest learning rate at which gradient descent is stable where the modes end: 2 / (N c s^(2 - 2/N)).

        For infinite N it is N times the rate, as times are. Small rates follow the flow: the error is of their order.

        Source: derived (the second derivative of the loss along a mode).
        """
        power = 2.0 if self.layers == inf else 2 - 2 / self.layers
        number = 1.0 if self.layers == inf else self.layers
        return float(np.min(2 / (number * self.speeds * self.targets**power)))

    def predict(self, X: Any) -> Array:
        """Return outputs at every time, shape (T, P, C), or (T, P) if y was (P,).

        Raises:
            InputError: inputs that are not finite numbers of shape (P, d).
            MemoryNeeded: they do not fit.
        """
        where = "DeepLinear.predict"
        x = np.asarray(check(where, X).numpy()[0], dtype=np.float64)
        if x.shape[1] != len(self.right):
            why = f"X has {x.shape[1]} columns, and the network was trained on {len(self.right)}"
            raise InputError(where, why, "give the same columns")
        needed = 8 * len(self.times) * len(x) * len(self.left)
        check_memory(where, needed, "the outputs at every time", "ask for fewer times or rows")
        seen = (x if self.whitening is None else x @ self.whitening) @ self.right
        found = np.einsum("pm,tm,cm->tpc", seen, self.strengths, self.left, optimize=True)
        return found[..., 0] if self.flat else found

    def learned(self, share: float = 0.5) -> Array:
        """Return the times at which the modes reach a share of their target, shape (m,); 0 for those that start there.

        They are exact, whatever times were asked for; infinite for a mode that starts at 0 or above its target.

        Raises:
            InputError: a share that is not between 0 and 1.
        """
        wanted = check_share("DeepLinear.learned", share) * self.targets
        found = mode_time(wanted, self.targets, self.initial, self.layers, self.speeds)
        return np.where((wanted <= self.initial) & (self.initial <= self.targets), 0.0, found)

    def describe(self) -> str:
        """Say which network it is and how far its modes came."""
        count, kind = len(self.targets), "1 mode" if len(self.targets) == 1 else f"{len(self.targets)} modes"
        done = int(np.sum(self.strengths[-1] >= 0.95 * self.targets))
        unit = "N x rate x steps" if self.layers == inf else "rate x steps"
        white = "" if self.whitening is None else " of whitened inputs"
        return (
            f"Product of {self.layers:g} matrices, {kind}{white} with targets {self.targets[0]:.4g} to "
            f"{self.targets[-1]:.4g}. At {unit} = {self.times[-1]:g}, {done} of {count} are learned to 95 %; the loss "
            f"went from {self.loss[0]:.4g} to {self.loss[-1]:.4g} of at least {self.floor:.4g}."
        )

    def __repr__(self) -> str:
        return f"DeepLinear({self.layers:g} matrices, {len(self.targets)} modes, {len(self.times)} times)"
