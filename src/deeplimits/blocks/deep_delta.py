"""Deep delta learning: a residual connection that erases along one direction before it writes there."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from deeplimits.errors import InputError


def delta(X: Tensor, direction: Tensor, value: Tensor, beta: Tensor | float) -> Tensor:
    """Return the state after what it holds along one direction is replaced by a value, in part, wholly or beyond.

    X' = X + beta k (v^T - k^T X), so that k^T X' = (1 - beta) k^T X + beta v^T. The map of X is I - beta k k^T: one
    eigenvalue 1 - beta along k, all others 1. beta = 0 keeps, 1 replaces, 2 reflects.

    Args:
        X: state, (..., d, d_v).
        direction: k, (..., d), of norm 1.
        value: v, (..., d_v).
        beta: (...), or a number.

    Source: zhang-2026-deep-delta.

    Example:
        >>> X, k, v = torch.randn(5, 3), torch.nn.functional.normalize(torch.randn(5), dim=0), torch.randn(3)
        >>> bool(torch.allclose(k @ delta(X, k, v, 1.0), v, atol=1e-5))
        True
    """
    weight = torch.as_tensor(beta, dtype=X.dtype, device=X.device)
    k = direction.unsqueeze(-1)
    return X + weight[..., None, None] * k * (value.unsqueeze(-2) - (k * X).sum(-2, keepdim=True))


class DeepDelta(nn.Module):
    """A block whose branch chooses a direction of the state, and what stands there afterwards.

    X' = X + beta k (v^T - k^T X), with k = F(x) / |F(x)|, v = V x, beta = 2 sigmoid(b x) in (0, 2), and x = X r the
    state read along a learned vector r. State (..., width, values), or (..., width) where values = 1.

    Args:
        branch: F, any module that keeps (..., width): attention or a perceptron.
        width: d, features.
        values: d_v, columns of the state.
        beta: at the start, between 0 and 2; the source's value could not be read.

    Raises:
        InputError: beta outside (0, 2), or a state of another shape.

    Source: zhang-2026-deep-delta; how the state is read for the three maps: a choice.

    Example:
        >>> block = DeepDelta(nn.Linear(16, 16), width=16)
        >>> block(torch.randn(2, 16)).shape, DeepDelta(nn.Linear(16, 16), 16, values=4)(torch.randn(2, 16, 4)).shape
        (torch.Size([2, 16]), torch.Size([2, 16, 4]))
    """

    def __init__(self, branch: nn.Module, width: int, values: int = 1, beta: float = 1.0):
        super().__init__()
        if not 0 < beta < 2:
            raise InputError("DeepDelta", f"beta={beta!r}", "start it between 0 and 2, both excluded")
        self.branch, self.width, self.values = branch, width, values
        self.read = nn.Parameter(torch.full((values,), values**-0.5))
        self.value, self.gate = nn.Linear(width, values), nn.Linear(width, 1)
        nn.init.zeros_(self.gate.weight)
        nn.init.constant_(self.gate.bias, float(torch.logit(torch.tensor(beta / 2))))

    def parts(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return k (..., width), v (..., values) and beta (...) at a state (..., width, values)."""
        x = X @ self.read
        k = nn.functional.normalize(self.branch(x), dim=-1)
        return k, self.value(x), 2 * self.gate(x).squeeze(-1).sigmoid()

    def forward(self, X: Tensor) -> Tensor:
        flat = self.values == 1 and (X.dim() < 2 or tuple(X.shape[-2:]) != (self.width, 1))
        state = X.unsqueeze(-1) if flat else X
        if state.dim() < 2 or tuple(state.shape[-2:]) != (self.width, self.values):
            why = f"a state of shape {tuple(X.shape)}"
            raise InputError("DeepDelta", why, f"give (..., {self.width}, {self.values})")
        found = delta(state, *self.parts(state))
        return found.squeeze(-1) if flat else found

    def extra_repr(self) -> str:
        return f"values={self.values}"
