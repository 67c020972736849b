"""Fixed points: found, counted, kept where they were not found, and refused where they cannot be asked for."""

from math import cos

import pytest
import torch

from deeplimits.blocks import fixed_point, steady_state
from deeplimits.blocks.iteration import most, residuals
from deeplimits.errors import InputError
from tests.blocks.maps import DOUBLE, inputs


def linear(norm, seed=0):
    a = inputs(12, 12, seed=seed)
    a = norm * a / torch.linalg.matrix_norm(a, 2)
    b = inputs(5, 12, seed=seed + 1)
    return a, b, torch.linalg.solve(torch.eye(12, dtype=DOUBLE) - a, b.T).T


@pytest.mark.parametrize("method", ["picard", "anderson"])
def test_a_linear_contraction_reaches_its_solution(method):
    a, b, solution = linear(0.7)
    found = fixed_point(lambda z: z @ a.T + b, torch.zeros_like(b), method=method, tolerance=1e-12)
    assert found.converged
    assert found.residual.shape == (5,)
    assert found.worst <= 1e-12
    assert float((found.value - solution).abs().max()) < 1e-11 / (1 - 0.7) * float(solution.abs().max())


def test_picard_contracts_at_the_maps_own_rate():
    found = [fixed_point(lambda z: z / 2 + 1, torch.zeros(1, 1, dtype=DOUBLE), method="picard", tolerance=tolerance)
             for tolerance in (1e-3, 1e-3 / 2**10)]  # fmt: skip
    assert found[1].evaluations - found[0].evaluations == 10


def test_anderson_solves_a_linear_map_in_as_many_evaluations_as_dimensions():
    a, b, solution = linear(3.0)  # iteration alone explodes
    found = fixed_point(lambda z: z @ a.T + b, torch.zeros_like(b), memory=12, tolerance=1e-9, iterations=30)
    assert found.converged
    assert found.evaluations <= 12 + 6
    assert float((found.value - solution).norm() / solution.norm()) < 1e-7


def test_the_residual_is_that_of_the_value_returned():
    def swing(z):
        return torch.cos(3 * z) + 0.2

    start = inputs(4, 3)
    for method in ("picard", "anderson"):
        found = fixed_point(swing, start, method=method, iterations=7, tolerance=1e-15)
        assert not found.converged
        assert found.evaluations == 7
        assert torch.equal(found.residual, residuals(found.value, swing(found.value), most(swing(start))))


def test_samples_are_solved_one_by_one():
    b = inputs(6, 3)
    together = fixed_point(lambda z: 0.9 * torch.tanh(z) + b, torch.zeros_like(b), tolerance=1e-12)
    for index in range(6):
        alone = fixed_point(
            lambda z, row=b[index : index + 1]: 0.9 * torch.tanh(z) + row, torch.zeros(1, 3, dtype=DOUBLE),
            tolerance=1e-12,
        )  # fmt: skip
        assert float((together.value[index] - alone.value[0]).abs().max()) < 1e-10


def test_samples_among_several_roots_are_solved_where_mixing_alone_leaps():
    a, x = 1.5 * torch.linalg.qr(inputs(6, 6))[0], 0.3 * inputs(300, 6)

    def block(z):
        return torch.tanh(z @ (a + a.T) / 2 + x)

    found = fixed_point(block, torch.zeros_like(x), tolerance=1e-9, iterations=500)
    assert found.converged
    assert float(residuals(found.value, block(found.value), most(x)).max()) <= 1e-9
    assert not fixed_point(block, torch.zeros_like(x), method="picard", tolerance=1e-9, iterations=500).converged


def test_a_lost_sample_does_not_spoil_the_others():
    b = torch.tensor([[1.0], [-3.0]], dtype=DOUBLE)  # z = z^2/4 + b has no root for b = 3
    found = fixed_point(lambda z: z**2 / 4 - b, torch.zeros_like(b), tolerance=1e-10, method="picard")
    assert not found.converged
    assert float(found.residual[0]) <= 1e-10
    assert float(found.residual[1]) > 1e-2
    assert bool(torch.isfinite(found.value).all())


def test_a_steady_state_is_found_where_iteration_swings():
    found = steady_state(lambda z: -3 * z + 4, torch.zeros(2, 1, dtype=DOUBLE), tolerance=1e-10)
    assert found.converged
    assert float((found.value - 1).abs().max()) < 1e-9
    assert not fixed_point(lambda z: -3 * z + 4, torch.zeros(2, 1, dtype=DOUBLE), method="picard").converged


def test_a_flow_without_rest_stops_at_its_evaluations():
    found = steady_state(lambda z: z + 1, torch.zeros(1, 1, dtype=DOUBLE), evaluations=100)
    assert not found.converged
    assert found.evaluations <= 102
    assert found.worst > 1e-3


def test_a_flow_that_only_slows_down_gives_its_stillest_state():
    found = steady_state(lambda z: z + (z - 1) ** 2 + 0.01, torch.zeros(1, 1, dtype=DOUBLE), evaluations=400)
    assert not found.converged
    assert abs(float(found.value) - 1) < 0.3
    assert found.worst < 0.05


def test_running_away_at_constant_speed_is_no_convergence():
    found = fixed_point(
        lambda z: z + 1, torch.zeros(1, 1, dtype=DOUBLE), method="picard", iterations=2000, tolerance=1e-3
    )
    assert not found.converged
    assert found.worst > 1e-3


@pytest.mark.parametrize("solve", [fixed_point, steady_state])
def test_both_find_the_root_of_the_cosine_in_either_precision(solve):
    root = 0.7390851332151607
    assert abs(cos(root) - root) < 1e-15
    for dtype, tolerance in ((torch.float32, 1e-6), (DOUBLE, 1e-12)):
        found = solve(torch.cos, torch.zeros(3, 2, dtype=dtype), tolerance=tolerance)
        assert found.value.dtype == dtype
        assert found.converged
        assert float((found.value - root).abs().max()) < 4 * tolerance


def test_an_empty_batch_is_solved():
    for solve in (fixed_point, steady_state):
        found = solve(torch.cos, torch.zeros(0, 2))
        assert found.converged
        assert (found.value.shape, found.worst) == ((0, 2), 0.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "newton"}, "method='newton' is not known"),
        ({"tolerance": 0.0}, "tolerance=0.0 is not a positive number"),
        ({"tolerance": -1e-6}, "tolerance=-1e-06"),
        ({"tolerance": float("nan")}, "tolerance=nan"),
        ({"tolerance": True}, "tolerance=True"),
        ({"iterations": 0}, "iterations=0"),
        ({"memory": 1.5}, "memory=1.5"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, words):
    with pytest.raises(InputError, match=words):
        fixed_point(torch.cos, torch.zeros(1, 1), **settings)


@pytest.mark.parametrize("solve", [fixed_point, steady_state])
def test_maps_to_another_shape_and_starts_without_batch_are_refused(solve):
    with pytest.raises(InputError, match=r"sends shape \(2, 3\) to \(2, 1\)"):
        solve(lambda z: z.sum(1, keepdim=True), torch.zeros(2, 3))
    with pytest.raises(InputError, match=r"start has shape \(3,\)"):
        solve(torch.cos, torch.zeros(3))
