"""Cells of continuous time: the exact solution, the approximation's two ends and bound, and what is refused."""

import copy

import pytest
import torch

from deeplimits.blocks import CfCCell, LTCCell, TimedSequence, liquid, liquid_approximation
from deeplimits.blocks.runge_kutta import adaptive, within
from deeplimits.errors import InputError
from tests.blocks.maps import DOUBLE, inputs


def neurons(count=200):
    draw = torch.Generator().manual_seed(4)
    x, drive, target = (2 * torch.randn(count, 1, generator=draw, dtype=DOUBLE) for _ in range(3))
    leak = torch.rand(count, 1, generator=draw, dtype=DOUBLE) * 3
    return x, leak, drive, target


@pytest.mark.parametrize("time", [0.0, 0.1, 1.0, 7.0])
def test_the_closed_form_solves_the_equation(time):
    x, leak, drive, target = neurons()
    rate = torch.sigmoid(drive)
    path = adaptive(lambda t, z: -(leak + rate) * z + target * rate, x, 0.0, time, within(1e-12))
    assert float((liquid(x, time, leak, rate, target) - path.state).abs().max()) < 1e-10


def test_two_intervals_are_one_and_rest_is_rest():
    x, leak, drive, target = neurons()
    rate = torch.sigmoid(drive)
    half = liquid(liquid(x, 0.4, leak, rate, target), 0.6, leak, rate, target)
    assert float((half - liquid(x, 1.0, leak, rate, target)).abs().max()) < 1e-14
    rest = target * rate / (leak + rate)
    assert float((liquid(rest, 3.0, leak, rate, target) - rest).abs().max()) < 1e-14
    assert torch.equal(liquid(x, 0.0, leak, rate, target), x)


def test_small_times_lose_no_digits():
    x, leak, drive, target = (one.float() for one in neurons())
    found = (
        liquid(x.double(), 1e-6, leak.double(), torch.sigmoid(drive).double(), target.double()) - x.double()
    ) / 1e-6
    slope = -(leak + torch.sigmoid(drive)) * x + target * torch.sigmoid(drive)
    assert float((found - slope.double()).abs().max()) < 1e-4


def test_the_approximations_two_ends_and_bound():
    x, leak, drive, target = neurons()
    rate = torch.sigmoid(drive)
    start = liquid_approximation(x, 0.0, leak, drive, target)
    assert torch.allclose(start, x * (1 - rate) + target * rate, atol=1e-14)
    assert torch.allclose(liquid_approximation(x, 1e6, leak, drive, target), target)
    zero = torch.zeros_like(leak)
    for time in (0.0, 0.3, 2.0, 10.0):
        error = liquid_approximation(x, time, zero, drive, target) - liquid(x, time, zero, rate, target)
        assert bool((error.abs() <= (x - target).abs()).all())
        exact = (target - x) * torch.exp(-rate * time) * rate  # e^(-ft) (f(-I) - 1) (x - A)
        assert torch.allclose(error, exact, atol=1e-13)


def test_states_stay_within_their_bounds():
    cell, x = LTCCell(3, 8).double(), 3 * inputs(50, 8)
    low = torch.minimum(torch.minimum(x, cell.target), torch.zeros(1, dtype=DOUBLE))
    high = torch.maximum(torch.maximum(x, cell.target), torch.zeros(1, dtype=DOUBLE))
    for time in (0.1, 1.0, 30.0):
        z = cell(x, 5 * inputs(50, 3), time)
        assert bool(((low <= z) & (z <= high)).all())
    gated = CfCCell(3, 8).double()
    _, early, late = gated.heads(x, inputs(50, 3))
    for time in (0.0, 1.0, 1e9):
        z = gated(x, inputs(50, 3), time)
        assert bool(((z - torch.minimum(early, late) >= -1e-15) & (torch.maximum(early, late) - z >= -1e-15)).all())


def test_the_gate_at_time_zero_and_at_infinity():
    cell, x, seen = CfCCell(3, 8).double(), inputs(5, 8), inputs(5, 3)
    rate, early, late = cell.heads(x, seen)
    zero = cell(x, seen, 0.0)
    assert torch.allclose(zero, (early + late) / 2, atol=1e-15)
    assert float((zero - x).detach().abs().max()) > 0.1  # the pitfall: not the state before
    assert torch.allclose(cell(x, seen, 1e12), torch.where(rate > 0, late, early))
    t = 0.7
    gate = 1 / (1 + torch.exp(rate * t))
    assert torch.allclose(cell(x, seen, t), gate * early + (1 - gate) * late, atol=1e-14)


def test_a_sequence_is_its_cell_step_by_step():
    for cell in (CfCCell(3, 8).double(), LTCCell(3, 8, recurrent=True).double()):
        model, seen, gaps = TimedSequence(cell), inputs(4, 6, 3), torch.rand(4, 6, dtype=DOUBLE)
        states = model(seen, gaps)
        x = torch.zeros(4, 8, dtype=DOUBLE)
        for index in range(6):
            x = cell(x, seen[:, index], gaps[:, index])
            assert torch.equal(states[:, index], x)
        tail = model(seen[:, 3:], gaps[:, 3:], state=states[:, 2])
        assert torch.equal(tail, states[:, 3:])
        assert torch.equal(model(seen, gaps[0]), model(seen, gaps[:1].expand(4, 6)))
        assert copy.deepcopy(model).float()(seen.float(), gaps).dtype == torch.float32
        assert model(seen[:, :0], gaps[:, :0]).shape == (4, 0, 8)


def test_an_exact_sequence_follows_the_equation_with_steps_of_input():
    cell, seen, gaps = LTCCell(2, 5).double(), inputs(3, 4, 2), torch.rand(3, 4, dtype=DOUBLE)
    states = TimedSequence(cell)(seen, gaps).detach()
    for row in range(3):
        x = torch.zeros(1, 5, dtype=DOUBLE)
        for index in range(4):
            rate = torch.sigmoid(cell.drive(seen[row : row + 1, index])).detach()
            leak, target = cell.log_leak.exp().detach(), cell.target.detach()
            field = lambda t, z, rate=rate, leak=leak, target=target: -(leak + rate) * z + target * rate
            x = adaptive(field, x, 0.0, float(gaps[row, index]), within(1e-11)).state
            assert float((x - states[row, index]).abs().max()) < 1e-9


def test_skipping_an_observation_of_no_duration_changes_nothing_for_the_exact_cell_only():
    seen, gaps = inputs(2, 3, 3), torch.tensor([[0.5, 0.0, 0.5]], dtype=DOUBLE).expand(2, 3)
    exact, gated = TimedSequence(LTCCell(3, 4).double()), TimedSequence(CfCCell(3, 4).double())
    for model, same in ((exact, True), (gated, False)):
        whole = model(seen, gaps)[:, -1]
        without = model(seen[:, [0, 2]], gaps[:, [0, 2]])[:, -1]
        assert torch.allclose(whole, without) is same


def test_gradients_copies_and_float32():
    for cell in (CfCCell(3, 8), LTCCell(3, 8), LTCCell(3, 8, recurrent=True)):
        model, seen, gaps = TimedSequence(cell), inputs(4, 6, 3).float(), torch.rand(4, 6)
        states = model(seen, gaps)
        states.square().sum().backward()
        assert states.dtype == torch.float32
        assert all(bool(torch.isfinite(p.grad).all()) and float(p.grad.abs().max()) > 0 for p in model.parameters())
        assert torch.equal(copy.deepcopy(model)(seen, gaps), states)
        other = TimedSequence(type(cell)(3, 8, **({"recurrent": cell.recurrent} if isinstance(cell, LTCCell) else {})))
        other.load_state_dict(model.state_dict())
        assert torch.equal(other(seen, gaps), states)


def test_what_cannot_be_is_refused():
    for cell in (CfCCell(3, 8).double(), LTCCell(3, 8).double()):
        x, seen = inputs(5, 8), inputs(5, 3)
        with pytest.raises(InputError, match=r"time is as small as -0.5"):
            cell(x, seen, -0.5)
        with pytest.raises(InputError, match=r"inputs has shape \(5, 8\)"):
            cell(x, x, 1.0)
        with pytest.raises(InputError, match=r"state has shape \(5, 3\)"):
            cell(seen, seen, 1.0)
        with pytest.raises(InputError, match="differ in their batch"):
            cell(x, seen, torch.ones(4, dtype=DOUBLE))
        with pytest.raises(InputError, match=r"time has nan at \(\)"):
            cell(x, seen, float("nan"))
        model = TimedSequence(cell)
        with pytest.raises(InputError, match=r"gaps have shape \(5, 3\)"):
            model(inputs(5, 6, 3), inputs(5, 3).abs())
        with pytest.raises(InputError, match="gaps is as small as"):
            model(inputs(5, 6, 3), -torch.ones(6, dtype=DOUBLE))
        with pytest.raises(InputError, match=r"inputs has shape \(5, 3\)"):
            model(seen, torch.ones(3, dtype=DOUBLE))
        with pytest.raises(InputError, match=r"state has shape \(5, 3\)"):
            model(inputs(5, 6, 3), torch.ones(6, dtype=DOUBLE), state=seen)
        with pytest.raises(InputError, match="state is a list"):
            model(inputs(5, 6, 3), torch.ones(6, dtype=DOUBLE), state=[1.0])
        mixed = r"state is a torch.float32 tensor and inputs a torch.float64 one"
        with pytest.raises(InputError, match=mixed):
            model(inputs(5, 6, 3), torch.ones(6), state=x.float())
        with pytest.raises(InputError, match=mixed):
            cell(x.float(), seen, 1.0)
        with pytest.raises(InputError, match=r"TimedSequence: the cell fails on state .* torch.float32"):
            model(inputs(5, 6, 3).float(), torch.ones(6))
        with pytest.raises(InputError, match=r"Cell: the cell fails on state .* torch.float32"):
            cell(x.float(), seen.float(), 1.0)
        with pytest.raises(InputError, match="gaps is a list"):
            model(inputs(5, 6, 3), [1.0] * 6)
        with pytest.raises(InputError, match="time is a str"):
            cell(x, seen, "soon")
    with pytest.raises(InputError, match="features=0"):
        CfCCell(3, 0)
    with pytest.raises(InputError, match="hidden=-2"):
        CfCCell(3, 4, hidden=-2)
    with pytest.raises(InputError, match="features_in=0"):
        LTCCell(0, 4)
    with pytest.raises(InputError, match="cell is a str"):
        TimedSequence("cfc")
