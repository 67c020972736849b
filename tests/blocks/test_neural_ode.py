"""Neural ODEs: their solution, their limit of depth, their adjoint, and what they refuse."""

import copy
from math import exp

import pytest
import torch
from torch import nn
from torchdiffeq import odeint

from deeplimits.blocks import NeuralODE
from deeplimits.blocks.runge_kutta import adaptive, euler, within
from deeplimits.claims.saved import saved_bytes
from deeplimits.errors import InputError, NoRule, PrecisionError
from deeplimits.numerics.fit import slope
from tests.blocks.maps import DOUBLE, Field, gap, gradients, inputs


class Turn(nn.Module):
    """z' = rate z, for numbers with a closed form."""

    def __init__(self, rate=1.0):
        super().__init__()
        self.rate = nn.Parameter(torch.tensor(rate, dtype=DOUBLE))

    def forward(self, time, z):
        return self.rate * z


class Lost(nn.Module):
    """A field to another shape."""

    def forward(self, time, z):
        return z.sum(1)


def test_the_exponential_and_its_gradients():
    field, x = Turn(0.7), inputs(3, 2).requires_grad_()
    z = NeuralODE(field, time=2.0, tolerance=1e-12)(x)
    assert float((z - x * exp(1.4)).detach().abs().max()) < 1e-10
    to_x, to_rate = torch.autograd.grad(z.sum(), [x, field.rate])
    assert float((to_x - exp(1.4)).abs().max()) < 1e-9
    assert abs(float(to_rate) - 2 * exp(1.4) * float(x.detach().sum())) < 1e-9


def test_the_solution_is_that_of_torchdiffeq():
    field, x = Field(), inputs(6, 4)
    with torch.no_grad():
        times = torch.tensor([0.0, 1.5], dtype=DOUBLE)
        expected = odeint(lambda t, z: field(float(t), z), x, times, rtol=1e-11, atol=1e-11)
    assert float((NeuralODE(field, time=1.5, tolerance=1e-11)(x) - expected[-1]).detach().abs().max()) < 1e-9


def test_the_error_follows_the_tolerance():
    field, x = Field(), inputs(6, 4)
    exact = NeuralODE(field, tolerance=1e-13)(x)
    for tolerance in (1e-4, 1e-7, 1e-10):
        layer = NeuralODE(field, tolerance=tolerance)
        error = float((layer(x) - exact).detach().abs().max())
        assert error < 10 * tolerance
        assert layer.forward_report.evaluations >= 1 + 6 * layer.forward_report.steps


def test_residual_networks_approach_it_as_one_over_depth():
    field, x = Field(), inputs(6, 4)
    exact = NeuralODE(field, tolerance=1e-12)(x)
    depths = [64, 128, 256]
    errors = [float((NeuralODE(field, steps=depth)(x) - exact).detach().abs().max()) for depth in depths]
    assert slope(depths, errors).value == pytest.approx(-1.0, abs=0.03)
    loop = x
    for index in range(8):
        loop = loop + field(index / 8, loop) / 8
    assert torch.equal(NeuralODE(field, steps=8)(x), loop)


@pytest.mark.parametrize("time", [0.5, 2.0])
def test_the_adjoint_is_the_gradient_of_backpropagation(time):
    field, x = Field(), inputs(5, 4).requires_grad_()
    adjoint, plain = (NeuralODE(field, time=time, tolerance=1e-11, adjoint=choice) for choice in (True, False))
    through = gradients(plain(x), field, x)
    assert gap(gradients(adjoint(x), field, x), through) < 1e-8
    fine = gradients(NeuralODE(field, time=time, steps=300)(x), field, x)
    assert gap(through, fine) < 0.05  # Euler's own error
    assert adjoint.backward_report.steps >= 1


def test_the_adjoint_in_float32():
    field, x = Field(), inputs(5, 4)
    exact = gradients(NeuralODE(field, tolerance=1e-11)(x.requires_grad_()), field, x)
    single, rough = copy.deepcopy(field).float(), x.detach().float().requires_grad_()
    found = gradients(NeuralODE(single, tolerance=1e-6)(rough), single, rough)
    assert gap([one.double() for one in found], exact) < 1e-4


def test_the_gradient_passes_autograds_own_check():
    layer = NeuralODE(Field(features=2, hidden=3), time=0.5, tolerance=1e-11)
    assert torch.autograd.gradcheck(layer, (inputs(1, 2).requires_grad_(),), eps=1e-6, atol=1e-7)


def test_memory_does_not_grow_with_the_steps():
    field, x = Field(), inputs(5, 4)
    kept = {}
    for adjoint in (True, False):
        for tolerance in (1e-3, 1e-11):
            layer = NeuralODE(field, tolerance=tolerance, adjoint=adjoint)
            kept[adjoint, tolerance] = saved_bytes(lambda layer=layer: layer(x))
    assert kept[True, 1e-3] == kept[True, 1e-11] > 0
    assert kept[False, 1e-11] > 5 * kept[False, 1e-3]


def test_a_sample_is_as_accurate_in_a_batch_as_alone():
    x = torch.cat([1e-3 * inputs(99, 4), 5 * inputs(1, 4)])
    layer = NeuralODE(Field(), tolerance=1e-6)
    exact = NeuralODE(layer.field, tolerance=1e-12)(x)
    assert float((layer(x) - exact).detach().abs().max()) < 1e-4


def test_copies_saved_states_frozen_fields_and_empty_batches():
    layer, x = NeuralODE(Field()), inputs(5, 4)
    other = NeuralODE(Field(seed=3))
    other.load_state_dict(layer.state_dict())
    for copied in (copy.deepcopy(layer), other):
        assert torch.equal(copied(x), layer(x))
    frozen = NeuralODE(Field().requires_grad_(False), tolerance=1e-9)
    y = x.clone().requires_grad_()
    (found,) = torch.autograd.grad(frozen(y).sum(), y)
    (expected,) = torch.autograd.grad(NeuralODE(frozen.field, tolerance=1e-9, adjoint=False)(y).sum(), y)
    assert gap([found], [expected]) < 1e-7
    assert layer(inputs(0, 4)).shape == (0, 4)


def test_a_field_that_does_not_use_all_its_parameters():
    field = Field()
    field.idle = nn.Parameter(torch.ones(3, dtype=DOUBLE))
    NeuralODE(field)(inputs(2, 4)).sum().backward()
    assert float(field.idle.grad.abs().max()) == 0.0


def test_time_may_run_backwards_and_a_step_of_no_length_ends_the_path():
    there = adaptive(lambda t, z: t * z, torch.ones(1, 1, dtype=DOUBLE), 0.0, 2.0, within(1e-12))
    back = adaptive(lambda t, z: t * z, there.state, 2.0, 0.0, within(1e-12))
    assert abs(float(there.state) - exp(2.0)) < 1e-9
    assert abs(float(back.state) - 1) < 1e-9
    assert float(euler(lambda t, z: z, torch.ones(1, 1, dtype=DOUBLE), 1.0, 2)) == 2.25


def test_an_explosion_is_told_with_its_time():
    class Square(nn.Module):
        def forward(self, time, z):
            return z * z

    with pytest.raises(PrecisionError, match=r"stopped at time (0\.99|1\.0|1 )"):  # z = 1/(1 - t)
        NeuralODE(Square(), time=2.0)(torch.ones(1, 1, dtype=DOUBLE))
    with pytest.raises(PrecisionError, match="raise evaluations=20"):
        NeuralODE(Field(), tolerance=1e-12, evaluations=20)(inputs(2, 4))


def test_gradients_of_gradients_need_backpropagation():
    field, x = Field(), inputs(2, 4).requires_grad_()
    with pytest.raises(NoRule, match="adjoint=False"):
        torch.autograd.grad(NeuralODE(field)(x).sum(), x, create_graph=True)
    (first,) = torch.autograd.grad(NeuralODE(field, adjoint=False)(x).square().sum(), x, create_graph=True)
    assert float(torch.autograd.grad(first.square().sum(), x)[0].abs().max()) > 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: NeuralODE(lambda t, z: z), "field is a function"),
        (lambda: NeuralODE(Field(), time=0.0), "time=0.0"),
        (lambda: NeuralODE(Field(), time=-1), "time=-1 is not a positive number. Fix: give one in \\(0, inf\\)"),
        (lambda: NeuralODE(Field(), time=float("inf")), "time=inf"),
        (lambda: NeuralODE(Field(), steps=0), "steps=0"),
        (lambda: NeuralODE(Field(), tolerance=-1e-3), "tolerance=-0.001"),
        (lambda: NeuralODE(Field(), steps=4, adjoint=True), "adjoint=True with steps=4"),
    ],
)
def test_settings_that_cannot_be_are_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_inputs_that_cannot_be_are_refused():
    layer, x = NeuralODE(Field()), inputs(5, 4)
    x[0, 2] = torch.inf
    with pytest.raises(InputError, match=r"x has inf at \(0, 2\)"):
        layer(x)
    with pytest.raises(InputError, match=r"x has shape \(4,\)"):
        layer(inputs(4))
    with pytest.raises(InputError, match=r"sends shape \(5, 4\) to \(5,\)"):
        NeuralODE(Lost())(inputs(5, 4))
    with pytest.raises(InputError, match=r"the field fails on z of shape \(5, 3\) and torch.float64"):
        NeuralODE(nn.Bilinear(1, 4, 4).double())(inputs(5, 3))


def test_fixed_steps_that_leave_every_bound_are_told():
    class Cube(nn.Module):
        def forward(self, t, z):
            return z**3

    with pytest.raises(PrecisionError, match="after 20 steps to time 5 the solution is no longer finite"):
        NeuralODE(Cube(), time=5.0, steps=20)(3 * torch.ones(2, 2, dtype=DOUBLE))
