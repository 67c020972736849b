"""Networks of one hidden layer in NTK parametrization, trained side by side by gradient descent, in plain formulas.

f(x) = a . phi(W x / sqrt(d)) / sqrt(n), entries of a and W/weight_std from N(0, 1); nothing of `finite` or `limits`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import pi, sqrt
from typing import Any

import numpy as np

from deeplimits.claims.one_thread import one_thread

NUMBERS = 2**19  # of a chunk of networks' hidden layer: it stays in the cache
Watch = Callable[[int, Any, Any], None]


@dataclass(frozen=True)
class Family:
    """An activation with its derivative, and the standard deviation of the hidden weights."""

    name: str
    weight_std: float

    def net(self) -> Any:
        """Return the description of the family."""
        from deeplimits.architecture.zoo import Mlp

        return Mlp(self.name, weight_std=self.weight_std)

    def both(self, u: Any) -> tuple[Any, Any]:
        """Return phi(u) and phi'(u)."""
        import torch

        if self.name == "relu":
            return torch.relu(u), (u > 0).to(u.dtype)
        return torch.erf(u), (2 / sqrt(pi)) * torch.exp(-u * u)


RELU, ERF = Family("relu", sqrt(2)), Family("erf", 1.3)


@dataclass(frozen=True)
class Trained:
    """Outputs of networks at given steps, (networks, times, points), and their tangent kernels before and after."""

    outputs: np.ndarray
    before: np.ndarray | None
    after: np.ndarray | None


@one_thread()
def trained(
    family: Family,
    data: tuple[np.ndarray, np.ndarray, np.ndarray],
    width: int,
    networks: int,
    seed: int,
    rates: np.ndarray,
    times: Sequence[int],
    momentum: float = 0.0,
    kernels: bool = False,
) -> Trained:
    """Train networks on (1/2) sum (f - y)^2 with steps v <- momentum v - rate gradient, weights <- weights + v.

    Args:
        family: of one hidden layer.
        data: training rows (P, d), targets (P,), further points (M, d).
        width: n.
        networks: how many.
        seed: of all of them.
        rates: one for each network, (networks,).
        times: steps at which outputs at rows and points are kept, rising.
        momentum: of the heavy ball.
        kernels: whether to keep the tangent kernels on the rows, (networks, P, P), before the first and after the last
            step.
    """
    import torch

    X, y, points = (torch.from_numpy(np.ascontiguousarray(part, dtype=np.float32)) for part in data)
    rows, every = len(X), torch.cat([X, points]) / sqrt(X.shape[1])
    outputs, before, after = [], [], []
    size = max(1, NUMBERS // (width * rows))
    for start in range(0, networks, size):
        generator = torch.Generator().manual_seed(seed * 1_000_003 + start)
        count = min(size, networks - start)
        hidden = family.weight_std * torch.randn(count, width, X.shape[1], generator=generator)
        readout = torch.randn(count, width, 1, generator=generator)
        rate = torch.from_numpy(rates[start : start + count].astype(np.float32))[:, None, None]
        if kernels:
            before.append(_tangent(family, hidden, readout, every[:rows]))
        outputs.append(torch.stack(list(_descend(family, hidden, readout, every, y, rate, momentum, times)), 1))
        if kernels:
            after.append(_tangent(family, hidden, readout, every[:rows]))
    found = [torch.cat(part).numpy().astype(np.float64) if part else None for part in (outputs, before, after)]
    assert found[0] is not None
    return Trained(found[0], found[1], found[2])


def _descend(
    family: Family, hidden: Any, readout: Any, every: Any, y: Any, rate: Any, momentum: float, times: Sequence[int]
) -> Iterator[Any]:
    """Yield the outputs (networks, points) at every time; weights are changed in place."""
    import torch

    rows, root = every[: len(y)], sqrt(hidden.shape[1])
    push, pull = torch.zeros_like(hidden), torch.zeros_like(readout)
    for step in range(times[-1] + 1):
        value, slope = family.both(hidden @ rows.T)
        if step in times:
            yield (readout.mT @ family.both(hidden @ every.T)[0])[:, 0] / root
        error = (readout.mT @ value)[:, 0] / root - y
        pull.mul_(momentum).sub_(rate / root * (value @ error[:, :, None]))
        slope *= error[:, None, :]
        push.mul_(momentum).sub_(family.weight_std**2 * rate / root * readout * (slope @ rows))
        readout += pull
        hidden += push


def _tangent(family: Family, hidden: Any, readout: Any, rows: Any) -> Any:
    value, slope = family.both(hidden @ rows.T)
    slope *= family.weight_std * readout
    return (value.mT @ value + (slope.mT @ slope) * (rows @ rows.T)) / hidden.shape[1]
