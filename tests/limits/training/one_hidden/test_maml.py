"""Meta-learning at infinite width beside autograd through the inner steps, and beside wide networks."""

import numpy as np
import pytest
import torch

from deeplimits.errors import DeepLimitsError, MemoryNeeded, NoLimit
from deeplimits.limits.training.one_hidden import start
from deeplimits.limits.training.one_hidden.maml import maml
from tests.limits.training.one_hidden.reference import LOSSES

RNG = np.random.default_rng(2)


def tasks_of(count, loss="square", outputs=2):
    """Tasks of 3 support and 4 query rows in 3 dimensions: linear maps that share a direction."""
    found = []
    for _ in range(count):
        x, z = RNG.standard_normal((3, 3)), RNG.standard_normal((4, 3))
        slope = np.outer([1.0, 0.5, 0.0], np.ones(outputs)) * RNG.standard_normal()
        make = {"square": lambda f: f, "logistic": np.sign, "softmax": lambda f: np.eye(outputs)[f.argmax(1)]}[loss]
        found.append((x, make(x @ slope + 0.1), z, make(z @ slope + 0.1)))
    return found


def by_autograd(U, V, tasks, inner_rate, rate, steps, inner_steps, first_order, loss):
    """Query losses after adaptation, before every outer step, of the network f = V^T U x / (n sqrt(d))."""
    n, d = len(U), tasks[0][0].shape[1]
    U, V = torch.tensor(U), torch.tensor(V)

    def score(u, v, x, y):
        return LOSSES[loss](torch.tensor(x) / d**0.5 @ u.T @ v / n, torch.tensor(y))

    found = []
    for _ in range(steps + 1):
        U, V = U.detach().requires_grad_(), V.detach().requires_grad_()
        total = 0.0
        for x, y, z, target in tasks:
            u, v = U, V
            for _ in range(inner_steps):
                gradients = torch.autograd.grad(score(u, v, x, y), (u, v), create_graph=not first_order)
                u, v = (w - inner_rate * n * g for w, g in zip((u, v), gradients, strict=True))
            total = total + score(u, v, z, target) / len(tasks)
        found.append(total.detach().item())
        dU, dV = torch.autograd.grad(total, (U, V))
        U, V = U - rate * n * dU, V - rate * n * dV
    return np.array(found)


@pytest.mark.parametrize(
    ("loss", "inner_steps", "first_order"),
    [("square", 1, False), ("square", 3, True), ("logistic", 2, False), ("softmax", 2, False)],
)
def test_networks_are_those_of_autograd(loss, inner_steps, first_order):
    tasks = tasks_of(2, loss)
    options = {"inner_steps": inner_steps, "first_order": first_order, "loss": loss}
    found = maml(tasks, 0.2, 0.05, 4, width=3, networks=2, seed=1, **options)
    weights = start.drawn(3, 3, 2, 2, 1)  # of no more neurons than directions, so that they are drawn as they are
    for k in range(2):
        U = weights.U[k] @ found.basis.T
        expected = by_autograd(U, weights.V[k], tasks, 0.2, 0.05, 4, inner_steps, first_order, loss)
        np.testing.assert_allclose(found.losses[k], expected, rtol=1e-12)


def test_infinite_width_is_what_wide_networks_tend_to():
    tasks = tasks_of(4)
    limit = maml(tasks[:3], 0.2, 0.1, 10, test_tasks=tasks[3:])
    errors = [
        np.sqrt(width * np.mean((maml(tasks[:3], 0.2, 0.1, 10, width=width, networks=600).runs - limit.runs) ** 2))
        for width in (256, 16384)
    ]
    assert max(errors) / min(errors) < 1.15
    assert limit.loss[-1] < 0.5 * limit.loss[0] and not limit.loss_error.any()
    assert limit.test_runs.shape == (1, 11, 1, 4, 2) and np.isfinite(limit.test_losses).all()
    assert np.all(np.diff(limit.loss) < 0)


def test_a_plain_network_of_large_width_agrees():
    tasks = tasks_of(2)
    weights = start.drawn(4000, 3, 2, 1, 0)
    found = by_autograd(weights.U[0], weights.V[0], tasks, 0.2, 0.1, 6, 1, False, "square")
    np.testing.assert_allclose(found, maml(tasks, 0.2, 0.1, 6).loss, rtol=0.15)


def test_second_derivatives_matter():
    tasks = tasks_of(3)
    second, first = (maml(tasks, 0.3, 0.1, 10, first_order=order).loss for order in (False, True))
    assert second[0] == first[0] and abs(second[-1] / first[-1] - 1) > 0.01


def test_divergence_keeps_the_steps_before():
    with pytest.raises(NoLimit, match="diverges at step") as told:
        maml(tasks_of(2), 3.0, 50.0, 30)
    assert np.isfinite(told.value.record.loss).all() and len(told.value.record.loss) >= 1


GOOD = tasks_of(2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": []}, "tasks is not a list of tasks"),
        ({"tasks": 3}, "tasks is not a list of tasks: 3"),
        ({"tasks": [GOOD[0][:3]]}, r"tasks\[0\] is not four arrays"),
        ({"tasks": [GOOD[0], tuple(a[:2] for a in GOOD[1])]}, r"X_support of tasks\[1\] has shape \(2, 3\)"),
        ({"tasks": [(GOOD[0][0], GOOD[0][1], GOOD[0][2][:, :2], GOOD[0][3])]}, "X_query has 2 columns and X_support 3"),
        ({"tasks": [(GOOD[0][0], GOOD[0][1][:2], *GOOD[0][2:])]}, r"tasks\[0\]: y has shape \(2, 2\)"),
        ({"tasks": [(GOOD[0][0] * np.nan, *GOOD[0][1:])]}, "X_support has nan at row 0"),
        ({"test_tasks": [tuple(a[:2] for a in GOOD[1])]}, "other shapes"),
        ({"inner_rate": 0}, "inner_rate=0"),
        ({"rate": "big"}, "rate='big'"),
        ({"steps": True}, "steps=True"),
        ({"inner_steps": 0}, "inner_steps=0"),
        ({"first_order": "no"}, "first_order='no'"),
        ({"loss": "logistic"}, "reads -1 and 1"),
        ({"networks": 3}, "no effect at infinite width"),
        ({"width": -3}, "width=-3"),
        ({"seed": 0.5}, "seed: 0.5"),
    ],
)
def test_bad_input_is_refused(changes, message):
    with pytest.raises(DeepLimitsError, match=message):
        maml(**({"tasks": GOOD, "inner_rate": 0.1, "rate": 0.1, "steps": 2} | changes))


def test_too_much_memory_is_refused():
    with pytest.raises(MemoryNeeded, match="2 tasks over 1000000000000 steps"):
        maml(GOOD, 0.1, 0.1, 10**12)
