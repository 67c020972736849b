"""Subhomogeneous layers: degrees, the contraction they promise, one root from any start, and what is refused."""

import copy
from math import exp, log

import pytest
import torch
from scipy.special import lambertw

from deeplimits.blocks import SubhomogeneousDeepEquilibrium, degree, measured_degree, thompson
from deeplimits.blocks.subhomogeneous import steps_needed
from deeplimits.errors import ConvergenceWarning, InputError, PrecisionError
from tests.blocks.maps import DOUBLE, gap, gradients, inputs


def layer(activation="relu", power=0.5, shift=0.0, size=16.0, features=16, tolerance=1e-12, seed=0):
    torch.manual_seed(seed)
    weight = size * torch.rand(features, features, dtype=DOUBLE)
    made = SubhomogeneousDeepEquilibrium(
        3, features, activation=activation, power=power, shift=shift, weight=weight, tolerance=tolerance
    )
    return made.double()


def test_degrees_of_the_table():
    for c, expected in ((1.05, 1.878), (1.1, 1.411), (1.2, 0.9991), (1.5, 0.569)):
        assert degree("tanh", shift=c, domain="real") == pytest.approx(expected, abs=6e-4)
    assert degree("sigmoid") == pytest.approx(float(lambertw(exp(-1)).real), abs=1e-9)  # max u/(1 + e^u)
    assert degree("sigmoid", domain="real") == float("inf")
    assert degree("softplus", domain="real") == float("inf")
    assert degree("tanh", shift=1.0, domain="real") == float("inf")
    assert degree("softplus") == degree("relu") == 1.0
    assert degree("tanh") == pytest.approx(1.0, abs=1e-9)
    assert degree("relu", shift=1.3) == degree("softplus", shift=2.0) == 1.0  # at infinity
    for p in (0.2, 0.5, 0.9):
        assert degree("relu", power=p) == p
        assert degree("sigmoid", power=p) == pytest.approx(p * degree("sigmoid"))


@pytest.mark.parametrize("name", ["relu", "softplus", "sigmoid", "tanh"])
@pytest.mark.parametrize("domain", ["positive", "real"])
def test_no_point_exceeds_the_degree(name, domain):
    shift = 1.3
    bound = degree(name, shift=shift, power=0.7, domain=domain)
    u = torch.linspace(0 if domain == "positive" else -30, 60, 7001, dtype=DOUBLE).requires_grad_()
    value = (layer(name, power=0.1).phi(u) + shift) ** 0.7
    (slope,) = torch.autograd.grad(value.sum(), u)
    ratios = ((u * slope).abs() / value).detach()
    assert float(ratios.max()) <= bound * (1 + 1e-9)
    assert float(ratios.max()) >= bound * (0.95 if name in ("relu", "softplus") else 0.999)


def test_the_measured_degree_is_a_lower_bound():
    made = layer("tanh", power=0.8, shift=0.2, size=0.2)
    x = inputs(1, 3)
    starts = torch.rand(5, 16, dtype=DOUBLE) + 1e-3
    found = [float(measured_degree(lambda z: made.block(z[None], x)[0], z)) for z in starts]
    assert 0 < max(found) <= made.degree


@pytest.mark.parametrize(("name", "power", "shift"), [("relu", 0.5, 0.0), ("softplus", 0.9, 0.0), ("tanh", 0.95, 0.05)])
def test_two_points_come_closer_by_the_degree_at_least(name, power, shift):
    made, x = layer(name, power, shift), inputs(1, 3)
    logs = 8 * (torch.rand(2, 50, 16, dtype=DOUBLE) - 0.5)
    z, y = logs.exp()
    ratios = thompson(made.block(z, x), made.block(y, x)) / thompson(z, y)
    assert float(ratios.max().detach()) <= made.degree * (1 + 1e-12)
    assert float(torch.linalg.matrix_norm(made.weight.detach(), 2)) > 10


def test_fifty_starts_have_one_end_and_the_stopping_bound_holds():
    made, x = layer(tolerance=1e-13), inputs(1, 3).expand(50, 3)
    starts = (12 * (torch.rand(50, 16, dtype=DOUBLE) - 0.5)).exp()
    with torch.no_grad():
        ends = made(x, starts)
        assert float((ends / ends[:1] - 1).abs().max()) < 1e-12
        made.tolerance = 1e-3
        rough = made(x, starts)
    actual = float(thompson(rough, ends).max())
    assert actual <= made.forward_report.residual + 1e-12
    assert 1e-7 < made.forward_report.residual <= 1e-3


@pytest.mark.parametrize("name", ["relu", "softplus", "sigmoid", "tanh"])
def test_the_gradient_is_that_of_the_unrolled_network(name):
    made, x = layer(name, size=0.3), inputs(4, 3).requires_grad_()
    found = gradients(made(x), made, x)
    z = torch.ones(4, 16, dtype=DOUBLE)
    for _ in range(80):
        z = made.block(z, x)
    assert gap(found, gradients(z, made, x)) < 1e-9
    assert made.backward_report.converged


def test_the_backward_equation_contracts_at_the_same_rate():
    made, x = layer("softplus", power=0.9), inputs(1, 3)
    with torch.no_grad():
        z = made(x)[0]
    jacobian = torch.func.jacrev(lambda u: made.block(u[None], x)[0])(z).detach()
    scaled = jacobian.abs() * z[None, :] / z[:, None]
    assert float(scaled.sum(dim=1).max()) <= made.degree * (1 + 1e-9)


def test_the_number_of_steps_is_known_beforehand():
    made, x = layer(tolerance=1e-10), inputs(4, 3)
    with torch.no_grad():
        made(x)
        first = float(thompson(made.block(torch.ones(4, 16, dtype=DOUBLE), x), torch.ones(4, 16, dtype=DOUBLE)).max())
    assert made.forward_report.evaluations <= steps_needed(0.5, first, 1e-10) + 2
    assert steps_needed(0.5, 8.0, 0.5) == 5  # 8 / 2^5 / (1 - 1/2) = 1/2
    assert steps_needed(0.5, 0.0, 0.1) == 1


def test_float32_converges_to_its_tolerance_and_says_when_it_cannot():
    made, x = layer(tolerance=1e-5).float(), inputs(4, 3).float()
    assert made(x).dtype == torch.float32
    assert made.forward_report.converged
    made.tolerance = 1e-12
    with pytest.warns(ConvergenceWarning, match="1.0e-12 was asked for"):
        made(x)


def test_signs_of_the_parameter_do_not_count():
    made, x = layer(), inputs(4, 3)
    expected = made(x)
    with torch.no_grad():
        made.weight[::2] *= -1
    assert torch.equal(made(x), expected)


def test_training_keeps_the_weights_valid_and_copies_agree():
    made, x = layer(size=0.1, tolerance=1e-8), inputs(8, 3)
    optimizer = torch.optim.SGD(made.parameters(), lr=1.0)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = (made(x).mean(dim=1) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert bool((made.weight < 0).any())  # V may be negative, |V| is what acts
    assert losses[-1] < 0.5 * losses[0]
    other = layer(seed=5, tolerance=1e-8)
    other.load_state_dict(made.state_dict())
    for copied in (copy.deepcopy(made), other):
        assert torch.equal(copied(x), made(x))


def test_thompson_is_a_distance_of_logarithms():
    x, y = torch.tensor([[1.0, 4.0]], dtype=DOUBLE), torch.tensor([[3.0, 2.0]], dtype=DOUBLE)
    assert float(thompson(x, y)) == pytest.approx(log(3))
    assert float(thompson(5 * x, 5 * y)) == pytest.approx(log(3))
    assert float(thompson(x, x)) == 0.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: SubhomogeneousDeepEquilibrium(3, 4, activation="relu", power=1.0),
            "has degree 1, which is not below 1",
        ),
        (lambda: SubhomogeneousDeepEquilibrium(3, 4, activation="rleu"), "did you mean 'relu'"),
        (lambda: SubhomogeneousDeepEquilibrium(3, 4, shift=-0.1), "is not positive"),
        (lambda: SubhomogeneousDeepEquilibrium(3, 4, tolerance=0.0), "tolerance=0.0"),
        (lambda: SubhomogeneousDeepEquilibrium(3, 4, tolerance=1.0), "tolerance=1.0 is not a positive number below 1"),
        (
            lambda: SubhomogeneousDeepEquilibrium(3, 2, weight=torch.tensor([[1.0, 2.0], [-3.0, 4.0]])),
            r"-3 at \(1, 0\)",
        ),
        (
            lambda: SubhomogeneousDeepEquilibrium(3, 2, weight=torch.full((2, 2), torch.nan)),
            r"weight has nan at \(0, 0\)",
        ),
        (lambda: SubhomogeneousDeepEquilibrium(3, 2, weight=torch.ones(3, 2)), r"weight has shape \(3, 2\)"),
        (lambda: degree("relu", power=-1.0), "power=-1.0"),
        (lambda: degree("relu", domain="complex"), "domain='complex'"),
        (lambda: degree("relu", domain="real"), "not positive for all u"),
        (lambda: degree("tanh", shift=0.5, domain="real"), "take a shift above 1"),
        (lambda: degree("tanh", shift=float("nan")), "tanh"),
        (lambda: thompson(torch.tensor([1.0, 0.0]), torch.ones(2)), r"x has 0.0 at \(1,\)"),
    ],
)
def test_what_cannot_be_is_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_ranges_of_numbers_end_the_iteration_in_words():
    large = torch.full((8, 8), 10.0)
    with pytest.raises(PrecisionError, match=r"F\(z\) has inf at \(0, 0\), beyond the range of torch\.float32"):
        SubhomogeneousDeepEquilibrium(3, 8, activation="relu", power=0.99, weight=large)(torch.ones(1, 3))
    broken = layer()
    with torch.no_grad():
        broken.weight[1, 0] = torch.nan
    with pytest.raises(PrecisionError, match=r"F\(z\) has nan at \(0, 1\)"):
        broken(inputs(2, 3))
    near = SubhomogeneousDeepEquilibrium(3, 8, activation="relu", power=0.999)
    with pytest.warns(ConvergenceWarning, match=r"did not converge: residual [0-9.]+e-04 after"):
        near(torch.ones(1, 3))
    assert near.forward_report.evaluations < 200


def test_inputs_that_cannot_be_are_refused():
    made = layer()
    with pytest.raises(InputError, match=r"x has shape \(2, 4\)"):
        made(inputs(2, 4))
    with pytest.raises(InputError, match=r"as small as -1"):
        made(inputs(2, 3), -torch.ones(2, 16, dtype=DOUBLE))
    with pytest.raises(InputError, match=r"start has shape"):
        made(inputs(2, 3), torch.ones(2, 5, dtype=DOUBLE))
