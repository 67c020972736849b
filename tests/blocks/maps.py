"""Maps that the tests of equilibrium layers and of neural ODEs share."""

import torch
from torch import nn

DOUBLE = torch.float64


class Linear(nn.Module):
    """f(z, x) = A z + x, whose fixed point is (I - A)^-1 x."""

    def __init__(self, matrix):
        super().__init__()
        self.matrix = nn.Parameter(matrix)

    def forward(self, z, x):
        return z @ self.matrix.T + x


class Tangent(nn.Module):
    """f(z, x) = tanh(A z + B x), with |A|_2 as given."""

    def __init__(self, features_in=3, features=8, norm=0.8, seed=0):
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        a = torch.randn(features, features, generator=draw, dtype=DOUBLE)
        self.a = nn.Parameter(norm * a / torch.linalg.matrix_norm(a, 2))
        self.b = nn.Parameter(torch.randn(features, features_in, generator=draw, dtype=DOUBLE))

    def forward(self, z, x):
        return torch.tanh(z @ self.a.T + x @ self.b.T)


class Field(nn.Module):
    """f(t, z) = B tanh((1 + t) A z)."""

    def __init__(self, features=4, hidden=16, seed=0):
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        self.a = nn.Parameter(torch.randn(hidden, features, generator=draw, dtype=DOUBLE) / features**0.5)
        self.b = nn.Parameter(torch.randn(features, hidden, generator=draw, dtype=DOUBLE) / hidden**0.5)

    def forward(self, time, z):
        return torch.tanh((1 + time) * (z @ self.a.T)) @ self.b.T


def inputs(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def gradients(output, module, x):
    """Return the gradients of sum(output^2)/2, to x and all parameters."""
    return torch.autograd.grad(0.5 * output.square().sum(), [x, *module.parameters()])


def gap(found, expected):
    """Return the largest relative difference of tensors in two lists."""
    pairs = zip(found, expected, strict=True)
    return max(float((a.detach() - b.detach()).norm() / b.detach().norm()) for a, b in pairs)
