"""Equilibrium layers: their root, their gradient, the memory they take, and what they say when there is no root."""

import copy

import pytest
import torch
from torch import nn

from deeplimits.blocks import ContinuousDeepEquilibrium, DeepEquilibrium, Injected, SkipDeepEquilibrium, steady_state
from deeplimits.claims.saved import saved_bytes
from deeplimits.errors import ConvergenceWarning, InputError, NoRule
from tests.blocks.maps import DOUBLE, Linear, Tangent, gap, gradients, inputs

KINDS = {
    "anderson": lambda block, **more: DeepEquilibrium(block, 8, **more),
    "picard": lambda block, **more: DeepEquilibrium(block, 8, method="picard", **more),
    "ode": lambda block, **more: ContinuousDeepEquilibrium(block, 8, **more),
}


def unrolled(block, x, times=300):
    z = x.new_zeros(len(x), 8)
    for _ in range(times):
        z = block(z, x)
    return z


@pytest.mark.parametrize("kind", KINDS)
def test_root_and_gradient_are_those_of_the_unrolled_network(kind):
    block, x = Tangent(norm=0.9), inputs(5, 3).requires_grad_()
    layer = KINDS[kind](block, tolerance=1e-13, iterations=2000)
    z, expected = layer(x), unrolled(block, x)
    assert float((z - expected).detach().abs().max()) < 1e-11
    assert gap(gradients(z, block, x), gradients(expected, block, x)) < 1e-10
    assert layer.forward_report.converged
    assert layer.backward_report.converged
    assert layer.backward_report.residual <= 1e-13


def test_the_gradient_of_a_linear_block_is_that_of_the_inverse():
    a = 0.6 * inputs(4, 4) / 4
    block, x = Linear(a), inputs(3, 4).requires_grad_()
    z = DeepEquilibrium(block, 4, tolerance=1e-14)(x)
    matrix = a.clone().requires_grad_()
    exact = torch.linalg.solve(torch.eye(4, dtype=DOUBLE) - matrix, x.T).T
    expected = torch.autograd.grad(0.5 * exact.square().sum(), [x, matrix])
    assert gap(gradients(z, block, x), expected) < 1e-12


def test_the_gradient_is_right_where_iteration_explodes():
    a = 2.0 * torch.linalg.qr(inputs(4, 4))[0]
    block, x = Linear(a), inputs(3, 4).requires_grad_()
    z = DeepEquilibrium(block, 4, tolerance=1e-12, memory=8)(x)
    exact = torch.linalg.solve(torch.eye(4, dtype=DOUBLE) - a, x.T).T
    assert gap([z], [exact]) < 1e-9
    assert gap(torch.autograd.grad(z.sum(), [x]), torch.autograd.grad(exact.sum(), [x])) < 1e-9


def test_the_gradient_passes_autograds_own_check():
    block, x = Tangent(norm=0.7), inputs(2, 3).requires_grad_()
    layer = DeepEquilibrium(block, 8, tolerance=1e-14)
    assert torch.autograd.gradcheck(layer, (x,), eps=1e-6, atol=1e-7)


def test_memory_does_not_grow_with_the_iterations():
    block, x = Tangent(norm=0.95), inputs(20, 3)
    kept, evaluations = [], []
    for tolerance in (1e-2, 1e-12):
        layer = DeepEquilibrium(block, 8, method="picard", tolerance=tolerance, iterations=1000)
        kept.append(saved_bytes(lambda layer=layer: layer(x)))
        evaluations.append(layer.forward_report.evaluations)
    assert evaluations[1] > 4 * evaluations[0]
    assert kept[0] == kept[1] > 0
    assert saved_bytes(lambda: unrolled(block, x, evaluations[1])) > 10 * kept[1]


def test_the_root_is_where_the_flow_ends():
    block, x = Tangent(norm=0.9), inputs(5, 3)
    root = DeepEquilibrium(block, 8, tolerance=1e-13)(x)
    flow = steady_state(lambda z: block(z, x), inputs(5, 8, seed=9), tolerance=1e-12, evaluations=5000)
    assert flow.converged
    assert float((root - flow.value).detach().abs().max()) < 1e-10


def test_no_root_is_told_with_the_residual_and_the_best_iterate_is_kept():
    layer = DeepEquilibrium(Linear(torch.eye(2, dtype=DOUBLE)), 2, method="picard", iterations=17)
    x = torch.ones(3, 2, dtype=DOUBLE)
    with pytest.warns(ConvergenceWarning, match=r"3 of 3 samples .* residual .* after 17 evaluations, 1.0e-06"):
        z = layer(x)
    assert z.shape == (3, 2)
    report = layer.forward_report
    assert (report.evaluations, report.converged) == (17, False)
    assert report.residual > 1e-3


def test_a_backward_equation_that_does_not_converge_is_told_too():
    layer = DeepEquilibrium(Tangent(norm=0.99), 8, method="picard", tolerance=1e-10, iterations=5000)
    x = 1e-3 * inputs(3, 3)
    z = layer(x)
    layer.iterations = 3
    with pytest.warns(ConvergenceWarning, match=r"backward: .* after 3 evaluations"):
        z.sum().backward()
    assert not layer.backward_report.converged
    assert bool(torch.isfinite(layer.block.a.grad).all())


def test_gradients_of_gradients_are_refused_and_not_wrong():
    block, x = Tangent(), inputs(2, 3).requires_grad_()
    with pytest.raises(NoRule, match="gradients of gradients"):
        torch.autograd.grad(DeepEquilibrium(block, 8)(x).sum(), x, create_graph=True)


@pytest.mark.parametrize("kind", KINDS)
def test_float32_and_an_input_without_gradient(kind):
    block, x = Tangent(norm=0.5).float(), inputs(5, 3).float()
    layer = KINDS[kind](block)
    z = layer(x)
    assert z.dtype == torch.float32
    assert (
        float((z.detach().double() - unrolled(copy.deepcopy(block).double(), x.double()).detach()).abs().max()) < 1e-5
    )
    z.square().sum().backward()
    assert bool(torch.isfinite(block.a.grad).all()) and float(block.a.grad.abs().max()) > 0
    with torch.no_grad():
        assert torch.equal(layer(x), z)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    block, x = Tangent(norm=0.5), inputs(5, 3)
    z = DeepEquilibrium(copy.deepcopy(block).to(dtype), 8, tolerance=0.02)(x.to(dtype))
    assert z.dtype == dtype
    assert float((z.detach().double() - unrolled(block, x).detach()).abs().max()) < 0.1


def test_parameters_changed_before_backward_are_refused():
    layer = DeepEquilibrium(Tangent(), 8)
    z = layer(inputs(5, 3))
    with torch.no_grad():
        layer.block.a.mul_(0.9)
    with pytest.raises(InputError, match="parameters were changed"):
        z.sum().backward()


def test_a_broken_block_is_told_and_a_broken_gradient_stays_in_its_sample():
    layer, x = DeepEquilibrium(Tangent(), 8), inputs(5, 3).requires_grad_()
    gradient = torch.ones(5, 8, dtype=DOUBLE)
    gradient[2, 0] = torch.nan
    with pytest.warns(ConvergenceWarning, match="backward: 1 of 5 samples"):
        layer(x).backward(gradient)
    assert torch.isfinite(x.grad).all(dim=1).tolist() == [True, True, False, True, True]
    with torch.no_grad():
        layer.block.a[0, 0] = torch.nan
    with pytest.warns(ConvergenceWarning, match="5 of 5 samples did not converge: residual inf"):
        layer(x)


def test_states_of_any_shape_and_weightless_blocks():
    class Shifted(nn.Module):
        def forward(self, z, x):
            return 0.5 * torch.roll(torch.sin(z), 1, dims=-1) + x

    x = inputs(4, 2, 3).requires_grad_()
    z = DeepEquilibrium(Shifted(), (2, 3), tolerance=1e-13)(x)
    assert z.shape == (4, 2, 3)
    assert float((Shifted()(z, x) - z).detach().abs().max()) < 1e-12
    z.sum().backward()
    assert x.grad.shape == x.shape
    constant = DeepEquilibrium(nn.Bilinear(2, 2, 2).requires_grad_(False), 2)
    assert not constant(torch.zeros(1, 2)).requires_grad


def test_copies_and_saved_states_give_the_same_root():
    layer = SkipDeepEquilibrium(DeepEquilibrium(Injected(3, 8), 8), nn.Linear(3, 8))
    x = inputs(5, 3).float()
    z, _ = layer(x)
    other = SkipDeepEquilibrium(DeepEquilibrium(Injected(3, 8), 8), nn.Linear(3, 8))
    other.load_state_dict(layer.state_dict())
    for copied in (copy.deepcopy(layer), other):
        assert torch.equal(copied(x)[0], z)


class Known(nn.Module):
    """A predictor that returns what it was told."""

    def __init__(self, value):
        super().__init__()
        self.value = nn.Parameter(value)

    def forward(self, x):
        return self.value


def test_a_guess_at_the_root_costs_one_evaluation_and_no_guess_moves_it():
    block, x = Tangent(norm=0.9), inputs(20, 3)
    plain = DeepEquilibrium(block, 8, tolerance=1e-9)
    root = DeepEquilibrium(block, 8, tolerance=1e-12)(x).detach()
    z, penalty = SkipDeepEquilibrium(plain, Known(root))(x)
    assert plain.forward_report.evaluations == 1
    assert penalty.item() < 1e-20
    for guess in (Known(root + 1), nn.Linear(3, 8).double(), None):
        skip = SkipDeepEquilibrium(plain, guess, weight=2.0)
        z, penalty = skip(x)
        assert float((z - root).detach().abs().max()) < 1e-7
        assert penalty.item() == pytest.approx(2.0 * float((skip.guess(x) - z).detach().square().mean()))


def test_the_penalty_trains_the_guess_and_the_block():
    skip = SkipDeepEquilibrium(DeepEquilibrium(Tangent(norm=0.5), 8), nn.Linear(3, 8).double(), weight=1.0)
    optimizer, x, penalties = torch.optim.Adam(skip.parameters(), lr=3e-2), inputs(20, 3), []
    for _ in range(10):
        optimizer.zero_grad()
        penalties.append(skip(x)[1])
        penalties[-1].backward()
        assert float(skip.layer.block.a.grad.abs().max()) > 0
        optimizer.step()
    assert penalties[-1].item() < 0.7 * penalties[0].item()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: DeepEquilibrium(torch.tanh, 8), "block is a builtin_function_or_method"),
        (lambda: DeepEquilibrium(Tangent(), 0), "features=0"),
        (lambda: DeepEquilibrium(Tangent(), 8, tolerance=0), "tolerance=0 is not a positive"),
        (lambda: DeepEquilibrium(Tangent(), 8, method="ode"), "method='ode'"),
        (lambda: ContinuousDeepEquilibrium(Tangent(), 8, iterations=-1), "iterations=-1"),
        (lambda: SkipDeepEquilibrium(nn.Linear(3, 8)), "layer is a Linear"),
        (lambda: SkipDeepEquilibrium(DeepEquilibrium(Tangent(), 8), weight=-1.0), "weight=-1.0"),
        (lambda: SkipDeepEquilibrium(DeepEquilibrium(Tangent(), 8), predictor="g"), "predictor is a str"),
        (lambda: Injected(3, 0), "features=0"),
    ],
)
def test_settings_that_cannot_be_are_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_inputs_that_cannot_be_are_refused():
    layer, x = DeepEquilibrium(Tangent(), 8), inputs(5, 3)
    x[3, 1] = torch.nan
    with pytest.raises(InputError, match=r"x has nan at \(3, 1\)"):
        layer(x)
    with pytest.raises(InputError, match=r"x is a torch\.int64 tensor"):
        layer(torch.ones(2, 3, dtype=torch.int64))
    with pytest.raises(InputError, match=r"x has shape \(3,\)"):
        layer(inputs(3))
    with pytest.raises(InputError, match="x is a list"):
        layer([[1.0]])
    with pytest.raises(InputError, match=r"sends shape \(5, 7\) to \(5, 8\)"):
        DeepEquilibrium(Linear(torch.ones(8, 7, dtype=DOUBLE)), 7)(inputs(5, 8))
    with pytest.raises(InputError, match=r"the guess has shape \(5, 2\)"):
        SkipDeepEquilibrium(layer, nn.Linear(3, 2).double())(inputs(5, 3))
    for kind in (DeepEquilibrium, ContinuousDeepEquilibrium):
        layer = kind(Injected(3, 8), 8)
        with pytest.raises(InputError, match=r"the block fails on z of shape \(5, 8\) .* x of shape \(5, 4\)"):
            layer(inputs(5, 4).float())
        with pytest.raises(InputError, match=r"the block fails on .* x of shape \(5, 3\) and torch.float64"):
            layer(inputs(5, 3))
        with pytest.raises(InputError, match=r"the block fails on z of shape \(5, 7\)"):
            kind(Injected(3, 8), 7)(inputs(5, 3).float())
    for predictor, words in ((nn.Linear(4, 8), "the predictor fails on x"), (None, "the block fails on z")):
        with pytest.raises(InputError, match=words):
            SkipDeepEquilibrium(DeepEquilibrium(Injected(3, 8), 8), predictor)(inputs(5, 3))
