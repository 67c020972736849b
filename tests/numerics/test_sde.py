"""Steppers against torchsde on the same Brownian path, their orders, and the factor of a covariance."""

from __future__ import annotations

from math import exp, sqrt

import numpy as np
import pytest
import torch
import torchsde

from deeplimits.numerics.sde import euler_maruyama, factor, halved, run


class Geometric(torch.nn.Module):
    """dX = -X/2 dt + 0.8 X dB, coordinate by coordinate."""

    noise_type, sde_type = "diagonal", "ito"

    def f(self, t, y):
        return -0.5 * y

    def g(self, t, y):
        return 0.8 * y


@pytest.fixture(scope="module")
def path():
    return torchsde.BrownianInterval(0.0, 1.0, size=(2000, 2), dtype=torch.float64, entropy=7)


def increments(path, steps):
    dt = 1.0 / steps
    return lambda index: lambda *shape: path(index * dt, (index + 1) * dt) / sqrt(dt)


MOVE = euler_maruyama(lambda x: -0.5 * x, lambda x, normals: 0.8 * x * normals(*x.shape))


def test_equals_torchsde_on_the_same_path(path):
    start = torch.ones(2000, 2, dtype=torch.float64)
    times = torch.tensor([0.0, 1.0], dtype=torch.float64)
    theirs = torchsde.sdeint(Geometric(), start, times, bm=path, dt=1 / 32, method="euler")[-1]
    ours = run(MOVE, start, 1.0, 32, increments(path, 32))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-10)


def test_strong_order_is_one_half(path):
    start = torch.ones(2000, 2, dtype=torch.float64)
    exact = start * torch.exp(-(0.5 + 0.32) + 0.8 * path(0.0, 1.0))
    errors = [
        float((run(MOVE, start, 1.0, steps, increments(path, steps)) - exact).square().mean().sqrt())
        for steps in (16, 64, 256)
    ]
    ratios = [errors[0] / errors[1], errors[1] / errors[2]]
    assert all(1.6 < ratio < 2.5 for ratio in ratios)  # four times the steps: half the error


def test_half_the_steps_see_the_same_path(path):
    start = torch.ones(2000, 2, dtype=torch.float64)
    coarse = run(MOVE, start, 1.0, 32, halved(increments(path, 64)))
    np.testing.assert_allclose(coarse.numpy(), run(MOVE, start, 1.0, 32, increments(path, 32)).numpy(), rtol=1e-10)


def test_weak_order_is_one_where_the_mean_is_known():
    quiet = euler_maruyama(lambda x: -0.5 * x, lambda x, normals: 0 * x)
    start = torch.ones(1, dtype=torch.float64)
    errors = [abs(float(run(quiet, start, 1.0, n, lambda index: torch.zeros)) - exp(-0.5)) for n in (64, 128)]
    assert 1.98 < errors[0] / errors[1] < 2.02


def test_run_shows_every_state():
    seen = []
    run(MOVE, torch.ones(1, 1), 1.0, 4, lambda index: torch.zeros, lambda done, x: seen.append((done, float(x))))
    assert [done for done, _ in seen] == [0, 1, 2, 3, 4]
    np.testing.assert_allclose([x for _, x in seen], 0.875 ** np.arange(5), rtol=1e-6)


def test_factor_of_a_definite_matrix_is_choleskys():
    x = torch.randn(50, 4, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    gram = x @ x.mT
    root, worst = factor(gram)
    np.testing.assert_allclose(root.numpy(), torch.linalg.cholesky(gram).numpy(), rtol=1e-9, atol=1e-12)
    assert worst == 0.0


def test_factor_of_coincident_and_zero_inputs():
    x = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows = torch.stack([x[0], x[0], 0 * x[0], -2 * x[0], x[1]])
    gram = rows @ rows.T
    root, worst = factor(gram)
    np.testing.assert_allclose((root @ root.T).numpy(), gram.numpy(), atol=1e-13)
    np.testing.assert_array_equal(root[0], root[1])
    assert worst > -1e-12


def test_factor_tells_an_indefinite_matrix():
    assert factor(torch.tensor([[1.0, 2.0], [2.0, 1.0]], dtype=torch.float64))[1] < -1
