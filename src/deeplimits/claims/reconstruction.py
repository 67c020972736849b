"""A network of two layers that is trained in its lazy regime, and the attack that reads its data off its weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

CONVERGED, MOST_STEPS = 1e-3, 20_000
RIDGE = 1e-6
"""Added to the kernel of the points of an attack, whose entries are of order 1: two of them may coincide."""


@dataclass(frozen=True)
class Trained:
    """Inputs (N, d) of norm sqrt(d), weights before and after training, and the relative change of the kernel."""

    x: Any
    before: tuple[Any, Any]
    after: tuple[Any, Any]
    moved: float


def train(width: int, count: int, dimension: int, seed: int) -> Trained:
    """Train f = a tanh(W x / sqrt(d)) / sqrt(n) on labels +-1, f(0) taken off, until no point is off by 1e-3.

    Gradient descent on all weights at half of the largest stable rate at the start.
    """
    import torch

    from deeplimits.numerics.seeds import torch_generator

    stream = torch_generator(seed, "claims", "reconstruction")
    x = torch.randn(count, dimension, generator=stream, dtype=torch.float64)
    x = x * (dimension**0.5 / x.norm(dim=1, keepdim=True))
    y = torch.randn(count, generator=stream, dtype=torch.float64).sign()
    w = torch.randn(width, dimension, generator=stream, dtype=torch.float64)
    a = torch.randn(width, generator=stream, dtype=torch.float64)
    before, start = (w, a), gram(x, w, a)
    rate = 1 / float(torch.linalg.eigvalsh(start)[-1])
    first = torch.tanh(x @ w.T / dimension**0.5) @ a / width**0.5
    for _ in range(MOST_STEPS):
        h = torch.tanh(x @ w.T / dimension**0.5)
        error = h @ a / width**0.5 - first - y
        if float(error.abs().max()) < CONVERGED:
            break
        back = ((1 - h**2) * a * error[:, None]).T @ x / (width * dimension) ** 0.5
        w, a = w - rate * back, a - rate * (h.T @ error) / width**0.5
    return Trained(x, before, (w, a), float((gram(x, w, a) - start).norm() / start.norm()))


def gram(x: Any, w: Any, a: Any) -> Any:
    """Return the tangent kernel of the network at inputs, (N, N)."""
    import torch

    h = torch.tanh(x @ w.T / x.shape[1] ** 0.5)
    slopes = (1 - h**2) * a
    return (h @ h.T + (slopes @ slopes.T) * (x @ x.T) / x.shape[1]) / len(a)


class Attack:
    """What weights tell of the points they were trained on.

    The displacement of the weights is sum_j alpha_j grad f(x_j) with gradients at one place, but for the movement of
    the kernel: the share of its square that given points miss, with the best alpha.

    Args:
        trained: the network before and after.
        place: where gradients are taken: 0 before training, 1 after, 1/2 midway.
    """

    def __init__(self, trained: Trained, place: float = 0.5):
        (w, a), (w1, a1) = trained.before, trained.after
        self.moved, self.size = (w1 - w, a1 - a), float((w1 - w).square().sum() + (a1 - a).square().sum())
        self.at = w + place * (w1 - w), a + place * (a1 - a)

    def missed(self, x: Any, ridge: float = 0.0) -> tuple[Any, Any]:
        """Return the share of the squared displacement that points x (M, d) miss, and their coefficients (M,)."""
        import torch

        (w, a), (dw, da) = self.at, self.moved
        width, dimension = w.shape
        h = torch.tanh(x @ w.T / dimension**0.5)
        slopes = (1 - h**2) * a
        kernel = (h @ h.T + (slopes @ slopes.T) * (x @ x.T) / dimension) / width
        along = (h @ da + ((slopes @ dw) * x).sum(1) / dimension**0.5) / width**0.5
        alpha = torch.linalg.solve(kernel + ridge * torch.eye(len(x), dtype=x.dtype), along)
        return 1 - (2 * along @ alpha - alpha @ kernel @ alpha) / self.size, alpha

    def points(self, count: int, starts: int, short: int, long: int, seed: int) -> Any:
        """Return points (count, d) that miss least: the best of several short searches, searched on.

        L-BFGS over the points; coefficients are solved for at every step.
        """
        import torch

        from deeplimits.numerics.seeds import torch_generator

        stream, dimension = torch_generator(seed, "claims", "attack"), self.at[0].shape[1]
        tried = []
        for _ in range(starts):
            x = torch.randn(count, dimension, generator=stream, dtype=torch.float64)
            x = (x * (dimension**0.5 / x.norm(dim=1, keepdim=True))).requires_grad_()
            tried.append((self._search(x, short), x))
        best = min(tried, key=lambda pair: pair[0])[1]
        self._search(best, long)
        return best.detach()

    def _search(self, x: Any, evaluations: int) -> float:
        import torch

        search = torch.optim.LBFGS(
            [x], max_iter=evaluations, max_eval=evaluations, history_size=20, line_search_fn="strong_wolfe",
            tolerance_grad=0.0, tolerance_change=0.0,
        )  # fmt: skip

        def loss() -> Any:
            search.zero_grad()
            value = self.missed(x, RIDGE)[0]
            value.backward()
            return value

        search.step(loss)
        with torch.no_grad():
            return float(self.missed(x, RIDGE)[0])


def distances(x: Any, found: Any) -> Any:
    """Return min_k min(|x_j - found_k|, |x_j + found_k|) / |x_j|, (N,): odd networks know points up to signs."""
    import torch

    gaps = torch.minimum(torch.cdist(x, found), torch.cdist(x, -found))
    return gaps.min(1).values / x.norm(dim=1)
