"""Kernels with their first corrections in 1/width: a plain record."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.architecture.size import whole
from deeplimits.errors import AccuracyWarning, InputError
from deeplimits.limits.kernel.record import Kernel

Array = NDArray[np.float64]
STRONG = 1.0  # of `strength`: the next order, its square, is then as large


@dataclass(frozen=True, eq=False)
class CorrectedKernel(Kernel):
    """Kernels at infinite width, and to first order in 1/n what networks of hidden width n have instead.

    A network's own kernel is E[f f' | hidden weights], which is readout_std^2 times the Gram matrix of the features
    that enter the readout (`dl.sample(...).gram`) plus readout_bias_std^2, and its NTK that of one output. Their means
    over networks are `nngp + nngp_shift / n` and `ntk + ntk_shift / n`, their variances `nngp_variance / n` and
    `ntk_variance / n`, all up to O(1/n^2).

    Attributes:
        nngp, ntk, description: as of a Kernel.
        nngp_shift: n times the change of the mean, shape (N, M), or None; likewise for the others.
        ntk_shift: n times the change of the NTK's mean.
        nngp_variance: n times the variance over networks of each entry.
        ntk_variance: n times the variance over networks of each entry of the NTK.
        fluctuation: largest |V| / K^2 over layers and inputs, V = n Cov(z_1^2, z_2^2) of two neurons with variance K;
            of a residual network n Var(|x|^2 / n) / K^2.
        ntk_fluctuation: largest n Var(Theta(x, x)) / Theta(x, x)^2 over inputs, 0 where no NTK was asked.
        least_width: smallest width that the description allows: the number of features, of orthogonal weights.
    """

    nngp_shift: Any
    ntk_shift: Any
    nngp_variance: Any
    ntk_variance: Any
    fluctuation: float
    ntk_fluctuation: float
    least_width: int = 1

    def at(self, width: int) -> Kernel:
        """Return the mean kernels of networks of a hidden width, to first order in 1/width.

        Warns:
            AccuracyWarning: `strength(width)` is 1 or more, where the next order is as large: 5 depth / width for ReLU.

        Raises:
            InputError: a width that is not a whole number, or below the number of features of orthogonal weights.
        """
        n = self._width(width)
        strength = self.strength(n)
        if strength >= STRONG:
            of = "V/(n K^2)" if self.fluctuation >= self.ntk_fluctuation else "Var(NTK)/NTK^2"
            why = f"kernel(corrections=True).at({n}): fluctuations of relative size {strength:.3g} = {of}"
            fix = f"; the first order in 1/n is good for widths well above {strength * n:.0f}"
            warnings.warn(why + " are not small" + fix, AccuracyWarning, stacklevel=2)
        nngp = None if self.nngp is None else self.nngp + self.nngp_shift / n
        ntk = None if self.ntk is None else self.ntk + self.ntk_shift / n
        return Kernel(nngp, ntk, self.description)

    def spread(self, width: int) -> Kernel:
        """Return the standard deviations over networks of a width of the kernels' entries, to leading order.

        Raises:
            InputError: as for `at`.
        """
        n = self._width(width)
        nngp = None if self.nngp is None else (self.nngp_variance / n) ** 0.5
        ntk = None if self.ntk is None else (self.ntk_variance / n) ** 0.5
        return Kernel(nngp, ntk, self.description)

    def strength(self, width: int) -> float:
        """Return the size of the fluctuations: first order holds where it is well below 1.

        The larger of V/(n K^2) and, where the NTK was asked for, its relative variance Var(Theta(x, x))/Theta(x, x)^2.

        Raises:
            InputError: as for `at`.
        """
        return max(self.fluctuation, self.ntk_fluctuation) / self._width(width)

    def _width(self, width: Any) -> int:
        n = whole("kernel(corrections=True)", "width", width)
        if n < self.least_width:
            why = f"width={n} is below the {self.least_width} features of X, which orthogonal weights map to a sphere"
            raise InputError("kernel(corrections=True)", why, f"give a width of {self.least_width} or more")
        return int(n)
