"""What the proportional limit gave: covariances of sampled networks of infinite width and depth, and their laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from deeplimits.errors import InputError
from deeplimits.limits.proportional.collapse import Collapse
from deeplimits.numerics.quantiles import quantiles

Array = NDArray[np.float64]
LEVELS = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class LawTest:
    """A Kolmogorov-Smirnov test of one number: its name, the statistic, and the chance of a larger one."""

    name: str
    statistic: float
    pvalue: float


@dataclass(frozen=True, eq=False)
class Proportional:
    """Samples of the covariance V = <Y, Y>/n at width and depth infinite, depth/width = ratio.

    Its laws have heavy tails, so that quantiles and tests of laws are given, and no means of V.

    Attributes:
        ratio: depth/width.
        seed: of all samples.
        start: V where the first repeated layer begins, (m, m).
        times: fractions of the depth at which V was looked at, shape (T,).
        path: V at these times, shape (T, S, m, m); exploded paths are left out.
        angles: l^2 (1 - rho) at depth l, of the same shape, where all correlations tend to one; else None.
        gain: factor of V in each layer, divided out of all V here; 1 for networks that keep their variance.
        exploded: paths whose V overflowed, left out of everything else.
        repaired: steps after which a V was not positive semi-definite and lost its negative part.
        steps: of the scheme of Euler and Maruyama; 0 where nothing moves.
        step_error: how far halving the steps moved a quantile of rho or log V, in standard errors; NaN where the
            number of steps was given.
        log_moments: mean and variance of log V_aa - log V_aa(0), a normal law, where it is known; else None.
        collapse: the law of perceptrons that are not shaped by the width; else None.
        text: which process was simulated, in words.
    """

    ratio: float
    seed: int
    start: Array
    times: Array
    path: Array
    angles: Array | None
    gain: float
    exploded: int
    repaired: int
    steps: int
    step_error: float
    log_moments: tuple[float, float] | None
    collapse: Collapse | None
    text: str

    @property
    def samples(self) -> int:
        """Number of samples S, without those that exploded."""
        return self.path.shape[1]

    @cached_property
    def covariance(self) -> Array:
        """V at the last time asked for, (S, m, m)."""
        return self.path[-1]

    @cached_property
    def correlation(self) -> Array:
        """V_ab / sqrt(V_aa V_bb) at the last time, (S, m, m); NaN for an input of norm zero."""
        return correlations(self.covariance)

    @cached_property
    def log_norm(self) -> Array:
        """log V_aa at the last time, (S, m); minus infinity for an input of norm zero."""
        return log_norms(self.covariance)

    @property
    def start_correlation(self) -> Array:
        """Correlations at the start, (m, m)."""
        return correlations(self.start)

    @property
    def path_correlation(self) -> Array:
        """Correlations at all times, (T, S, m, m)."""
        return correlations(self.path)

    @property
    def path_log_norm(self) -> Array:
        """log V_aa at all times, (T, S, m)."""
        return log_norms(self.path)

    def quantiles(self, of: str = "correlation", levels: Sequence[float] = LEVELS) -> tuple[Array, Array]:
        """Return quantiles over samples at the last time, and their standard errors, each of shape (P, ...).

        Args:
            of: "correlation", "log_norm", "covariance" or "angles".
            levels: P numbers in (0, 1).

        Raises:
            InputError: another name, or levels that are not in (0, 1).
        """
        known = {"correlation": self.correlation, "log_norm": self.log_norm, "covariance": self.covariance}
        if self.angles is not None:
            known["angles"] = self.angles[-1]
        if of not in known:
            raise InputError("Proportional.quantiles", f"of={of!r} is not known", f"ask for {', '.join(known)}")
        if not all(0 < level < 1 for level in levels):
            raise InputError("Proportional.quantiles", f"levels={levels!r}", "give numbers between 0 and 1")
        return quantiles(known[of], levels)

    def compare(self, networks: Any, depth: int | None = None) -> list[LawTest]:
        """Test whether sampled networks have this law: two-sample Kolmogorov-Smirnov tests of all V_ab and rho_ab.

        Where all correlations tend to one, `angles` are compared with `angles_of` the networks.

        Args:
            networks: covariances of networks, shape (K, m, m), or what `dl.sample` returned.
            depth: of the networks; taken from a sample of `dl.sample`.

        Raises:
            InputError: another shape, numbers that are not finite, or no depth where it is needed.
        """
        where = "Proportional.compare"
        found = np.asarray(getattr(networks, "gram", networks), dtype=np.float64)
        depth = getattr(networks, "depth", None) if depth is None else depth
        m = self.path.shape[-1]
        if found.ndim != 3 or found.shape[1:] != (m, m) or not np.isfinite(found).all():
            why = f"networks of shape {found.shape} are not finite matrices (K, {m}, {m})"
            raise InputError(where, why, "give the Gram matrices <Y, Y>/n of the same inputs")
        name, law, seen = "rho", self.correlation, correlations(found)
        if self.collapse is not None and self.angles is not None:
            if depth is None:
                raise InputError(where, "angles are compared at a depth", "give depth=...")
            name, law, seen = "angle", self.angles[-1], self.angles_of(found, depth)
        pairs = [(a, b) for a in range(m) for b in range(a, m)]
        tests = [_test(f"V[{a},{b}]", self.covariance[:, a, b], found[:, a, b]) for a, b in pairs]
        return tests + [_test(f"{name}[{a},{b}]", law[:, a, b], seen[:, a, b]) for a, b in pairs if a < b]

    def angles_of(self, networks: Array, depth: int) -> Array:
        """Return what `angles` are the limit of, for networks of a finite depth, (K, m, m).

        1 - rho_ab over its value at infinite width and the same depth, times the angles' start at time zero: the same
        limit as l^2 (1 - rho_ab), which is off by log(l)/l.

        Args:
            networks: covariances of networks, shape (K, m, m).
            depth: their number of layers.

        Raises:
            InputError: correlations do not tend to one in this limit.
        """
        if self.collapse is None:
            why = "correlations do not tend to one in this limit"
            raise InputError("Proportional.angles_of", why, "compare correlations")
        apart = 1 - correlations(networks)
        edge = self.collapse.edge(self.start_correlation, depth)
        return self.collapse.start * np.divide(apart, edge, out=np.zeros_like(apart), where=edge > 0)

    def describe(self) -> str:
        """Say which process was simulated, with how many steps, and what was left out."""
        return self.text

    def __repr__(self) -> str:
        at = f"ratio={self.ratio:g}, steps={self.steps}, exploded={self.exploded}, seed={self.seed}"
        return f"Proportional({self.samples} samples, {self.path.shape[-1]} inputs, {at})"


def correlations(V: Array) -> Array:
    """Return V_ab / sqrt(V_aa V_bb), shape (..., m, m); NaN where a diagonal entry is zero."""
    norm = np.sqrt(np.diagonal(V, axis1=-2, axis2=-1))
    norm = np.where(norm > 0, norm, np.nan)
    return np.clip(V / (norm[..., :, None] * norm[..., None, :]), -1.0, 1.0)


def log_norms(V: Array) -> Array:
    """Return log V_aa, shape (..., m)."""
    diagonal = np.diagonal(V, axis1=-2, axis2=-1)
    return np.where(diagonal > 0, np.log(np.where(diagonal > 0, diagonal, 1.0)), -np.inf)


def _test(name: str, one: Array, other: Array) -> LawTest:
    found: Any = stats.ks_2samp(one, other)
    return LawTest(name, float(found.statistic), float(found.pvalue))
