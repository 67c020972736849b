"""The inverse of erfi: against scipy's erfi, where it overflows, at zero, and its derivatives in torch."""

import numpy as np
import pytest
import torch
from scipy import special

import deeplimits as dl
from deeplimits.errors import DescriptionError
from deeplimits.finite import build
from deeplimits.numerics.erfi import inverse_erfi


def test_it_undoes_erfi_on_the_whole_line():
    u = np.concatenate([np.geomspace(1e-300, 26, 400), -np.linspace(0.1, 26, 50)])
    np.testing.assert_allclose(inverse_erfi(special.erfi(u)), u, rtol=1e-13)


def test_large_arguments_do_not_overflow_and_zero_stays_zero():
    found = inverse_erfi(np.array([1e308, -1e308, 0.0, np.inf]))
    u = found[0]
    assert abs(u * u - np.log(1e308) - np.log(np.sqrt(np.pi) * u)) < 1 / (u * u)  # erfi(u) ~ exp(u^2) / (sqrt(pi) u)
    assert found.tolist()[1:] == [-u, 0.0, np.inf]


def test_derivatives_of_the_activation_are_those_of_the_formula():
    layer = dl.act.OrnsteinUhlenbeck(0.7, -0.2)
    module = build(layer, 4, 1, 0)
    x = torch.linspace(-3, 3, 7, dtype=torch.float64, requires_grad=True)
    value = module(x)
    (first,) = torch.autograd.grad(value.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    u = torch.from_numpy(inverse_erfi(0.7 * x.detach().numpy() - 0.2))
    torch.testing.assert_close(first, 0.7 * np.sqrt(np.pi) * u, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(value.detach() * second, torch.full_like(u, np.pi * 0.7**2 / 2), rtol=1e-12, atol=0)
    torch.testing.assert_close(torch.vmap(module)(x[:, None])[:, 0], value)


def test_a_constant_activation_is_refused():
    with pytest.raises(DescriptionError, match="alpha=0 makes the activation constant"):
        dl.act.OrnsteinUhlenbeck(alpha=0.0)
