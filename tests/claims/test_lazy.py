"""The networks that claims train in plain formulas: one step beside autograd, and the edge read off a growth."""

import numpy as np
import pytest
import torch

from deeplimits.claims import lazy, lazy_limit

rng = np.random.default_rng(0)
X, Y, NEW = rng.standard_normal((4, 3)), rng.standard_normal(4), rng.standard_normal((2, 3))


@pytest.mark.parametrize("family", [lazy.RELU, lazy.ERF], ids=lambda family: family.name)
def test_steps_and_kernels_are_those_of_autograd(family):
    width, rate, momentum = 8, 0.1, 0.6
    generator = torch.Generator().manual_seed(7 * 1_000_003)
    hidden = torch.randn(1, width, 3, generator=generator)[0].requires_grad_()
    readout = torch.randn(1, width, 1, generator=generator)[0].requires_grad_()
    every = torch.tensor(np.concatenate([X, NEW]), dtype=torch.float32)

    def outputs():
        value = family.both(family.weight_std * every @ hidden.T / 3**0.5)[0]
        return (value @ readout)[:, 0] / width**0.5

    rows = [torch.autograd.grad(one, [hidden, readout], retain_graph=True) for one in outputs()[:4]]
    flat = torch.stack([torch.cat([part.flatten() for part in row]) for row in rows])
    optimizer = torch.optim.SGD([hidden, readout], lr=rate, momentum=momentum)
    expected = [outputs().detach()]
    for _ in range(3):
        optimizer.zero_grad()
        (0.5 * (outputs()[:4] - torch.tensor(Y, dtype=torch.float32)).square().sum()).backward()
        optimizer.step()
        expected.append(outputs().detach())
    found = lazy.trained(family, (X, Y, NEW), width, 1, 7, np.array([rate]), (0, 1, 2, 3), momentum, kernels=True)
    assert found.outputs[0] == pytest.approx(torch.stack(expected).numpy(), abs=2e-6)
    assert found.before[0] == pytest.approx((flat @ flat.T).numpy(), abs=1e-5)


@pytest.mark.parametrize("momentum", lazy_limit.MOMENTA)
def test_an_edge_is_read_off_the_growth(momentum):
    x = 2 * (1 + momentum) * np.array([1.01, 1.06, 1.1])
    before, now = np.ones(3), np.ones(3)
    for _ in range(lazy_limit.EARLY):
        before, now = now, (1 + momentum - x) * now - momentum * before
    assert lazy_limit._position(np.abs(now), momentum) == pytest.approx(x, rel=1e-4)
