"""Networks of one hidden layer trained by autograd: an independent side for every one-hidden-layer test."""

import numpy as np
import torch

LOSSES = {
    "square": lambda f, y: ((f - y) ** 2).sum() / 2,
    "logistic": lambda f, y: torch.nn.functional.softplus(-y * f).sum(),
    "softmax": lambda f, y: -(y * torch.log_softmax(f, -1)).sum(),
}


def train(U, V, X, y, phi, loss, rate, steps, momentum=0.0, gamma=1.0, rows=None):
    """Outputs (T, P, C) of one network f = V^T phi(U x / sqrt(d)) / (gamma n) whose weights move by rate gamma^2 n."""
    n, d = len(U), X.shape[1]
    x, y = torch.as_tensor(X, dtype=torch.float64) / d**0.5, torch.as_tensor(y, dtype=torch.float64)
    weights = [torch.tensor(w, dtype=torch.float64, requires_grad=True) for w in (U, V)]
    speed, found = [torch.zeros_like(w) for w in weights], []
    for step in range(steps + 1):
        f = phi(x @ weights[0].T) @ weights[1] / (gamma * n)
        found.append(f.detach().numpy())
        batch = slice(None) if rows is None or step == steps else torch.as_tensor(rows[step])
        gradients = torch.autograd.grad(LOSSES[loss](f[batch], y[batch]), weights)
        with torch.no_grad():
            for w, v, g in zip(weights, speed, gradients, strict=True):
                v.mul_(momentum).add_(g, alpha=-rate * gamma**2 * n)
                w.add_(v)
    return np.stack(found)
