"""Perceptrons side by side do what torch's own do one by one."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from deeplimits.claims.perceptrons import bisected, cross_entropy, descend, drawn, edge, layers, rms, square
from deeplimits.errors import InputError

WIDTHS, FACTORS = [6, 8, 8, 3], [0.5, 1.0, 2.0]


def modelled(weights, network):
    linear = [nn.Linear(i, o, bias=False) for i, o in pairwise(WIDTHS)]
    for layer, weight in zip(linear, weights, strict=True):
        layer.weight.data = weight[network].detach().clone()
    return nn.Sequential(linear[0], nn.ReLU(), linear[1], nn.ReLU(), linear[2])


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("loss", [square, cross_entropy])
def test_steps_are_those_of_torch(loss, own):
    weights, generator = drawn(WIDTHS, 2, seed=0), torch.Generator().manual_seed(1)
    x = torch.randn(*([2, 5] if own else [5]), 6, generator=generator)
    y = torch.randint(3, x.shape[:-1], generator=generator)
    models, rates = [modelled(weights, n) for n in range(2)], torch.tensor([0.1, 0.3])
    for _ in range(3):
        descend(weights, rates, loss, x, y, FACTORS)
    for n, model in enumerate(models):
        groups = [{"params": [p], "lr": float(rates[n]) * f} for p, f in zip(model.parameters(), FACTORS, strict=True)]
        optimizer = torch.optim.SGD(groups)
        inputs, labels = (x[n], y[n]) if own else (x, y)
        for _ in range(3):
            optimizer.zero_grad()
            outputs = model(inputs)
            if loss is square:
                value = 0.5 * (outputs - F.one_hot(labels, 3)).square().sum(1).mean()
            else:
                value = F.cross_entropy(outputs, labels)
            value.backward()
            optimizer.step()
        for mine, parameter in zip(weights, model.parameters(), strict=True):
            torch.testing.assert_close(mine[n], parameter, rtol=1e-5, atol=1e-6)


def test_initial_weights_have_their_sizes():
    weights = drawn([64, 256, 10], 40, seed=0)
    for weight, variance in zip(weights, (2 / 64, 1 / 256), strict=True):
        error = (2 / weight.numel()) ** 0.5
        assert float(weight.detach().var()) == pytest.approx(variance, rel=5 * error)
    hidden, outputs = layers(weights, torch.ones(1, 64))
    assert hidden.shape == (40, 1, 256)
    torch.testing.assert_close(rms(outputs), outputs.square().mean((1, 2)).sqrt())


def test_bisection_finds_every_networks_own_edge():
    edges = np.array([-3.0, 0.1, 2.7])
    found = bisected(lambda rates: rates < edges, -8.0, 8.0, 3, 10)
    assert np.abs(found - edges).max() <= 16 / 2**11


@pytest.mark.parametrize("near", [-6.0, 0.0, 5.0])
def test_the_edge_is_found_from_anywhere(near):
    edges = np.array([-7.3, -3.0, 0.1, 2.7, 8.8])
    found = edge(lambda rates: rates < edges, near, 5, rounds=6)
    assert np.abs(found - edges).max() <= 2.0**-7


def test_networks_without_an_edge_are_told():
    with pytest.raises(InputError, match="1 of 2 networks have no edge within 30 octaves"):
        edge(lambda rates: np.array([True, rates[1] < 1]), 0.0, 2)
