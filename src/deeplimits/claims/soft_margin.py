"""ReLU networks of one hidden layer trained on a soft margin with weight decay, side by side, in plain formulas.

f(x) = a . relu(W x / sqrt(d)) / sqrt(n), n/2 pairs of neurons that start alike but for the sign of their readout: f = 0
at the start. Entries of a from N(0, 1) and of W from N(0, 2); nothing of `finite` or `limits`.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from deeplimits.claims.one_thread import one_thread

NUMBERS = 2**19  # of a chunk of networks' hidden layer: it stays in the cache
TAIL, EVERY = 0.2, 10  # outputs are averaged over the last steps, each tenth of them


@one_thread()
def trained(
    data: tuple[np.ndarray, np.ndarray, np.ndarray], width: int, networks: int, seed: int, decay: float, towards: str,
    rate: float, steps: int,
) -> np.ndarray:  # fmt: skip
    """Return outputs at points after subgradient descent on sum max(0, 1 - y f) + (decay/2) penalty.

    Args:
        data: training rows (P, d), labels -1 and 1 (P,), points (M, d).
        width: n, even.
        networks: how many.
        seed: of all of them.
        decay: of the penalty.
        towards: "start": of all weights, |w - w_0|^2; "readout": |a|^2.
        rate: of the descent.
        steps: of it.

    Returns:
        Outputs averaged over the last fifth of the steps, (networks, M).
    """
    import torch

    X, y, points = (torch.from_numpy(np.ascontiguousarray(part, dtype=np.float32)) for part in data)
    outputs, size = [], max(1, NUMBERS // (width * len(X)))
    for start in range(0, networks, size):
        generator = torch.Generator().manual_seed(seed * 1_000_003 + start)
        count = min(size, networks - start)
        half = sqrt(2) * torch.randn(count, width // 2, X.shape[1], generator=generator)
        signs = torch.randn(count, width // 2, 1, generator=generator)
        weights = torch.cat([half, half], 1), torch.cat([signs, -signs], 1)
        outputs.append(
            _descend(*weights, X / sqrt(X.shape[1]), y, points / sqrt(X.shape[1]), decay, towards, rate, steps)
        )
    return torch.cat(outputs).numpy().astype(np.float64)


def _descend(
    hidden: Any, readout: Any, X: Any, y: Any, points: Any, decay: float, towards: str, rate: float, steps: int
) -> Any:
    import torch

    first, last = (hidden.clone(), readout.clone()) if towards == "start" else (None, None)
    root, kept, fade = sqrt(hidden.shape[1]), [], 1 - rate * decay
    for step in range(steps):
        values = torch.relu(hidden @ X.mT)
        pull = y * (y * (readout.mT @ values)[:, 0] / root < 1)
        slopes = (values > 0).to(values.dtype) * pull[:, None, :]
        moves = rate / root * (values @ pull[:, :, None]), 2 * rate / root * readout * (slopes @ X)
        if first is not None and last is not None:
            hidden = torch.lerp(first, hidden, fade)
            readout = torch.lerp(last, readout, fade)
        else:
            readout = fade * readout
        readout, hidden = readout + moves[0], hidden + moves[1]
        if step >= steps * (1 - TAIL) and step % EVERY == 0:
            kept.append((readout.mT @ torch.relu(hidden @ points.mT))[:, 0] / root)
    return torch.stack(kept).mean(0)
