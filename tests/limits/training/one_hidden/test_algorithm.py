"""Algorithms of one's own at infinite width: built-in ones by autograd, and some without such a limit."""

import numpy as np
import pytest
import torch

from deeplimits.errors import DescriptionError, InputError, NoLimit
from deeplimits.limits.training.one_hidden.algorithm import at_width
from deeplimits.limits.training.one_hidden.ask import one_hidden

X, Y = torch.tensor([[1.0, 0.5], [0.2, -1.0]], dtype=torch.float64), torch.tensor([[1.0], [-1.0]], dtype=torch.float64)


def trained(step, rate=0.2):
    """An algorithm: 30 steps of muP on the squared error; `step(gradient, memory)` gives a step and a new memory."""

    def algorithm(U, V, weight):
        weights, memories, found = [U, V], [torch.zeros_like(U), torch.zeros_like(V)], []
        for _ in range(30):
            weights = [w.detach().requires_grad_() for w in weights]
            f = weight * (X / 2**0.5) @ weights[0].T @ weights[1]
            found.append(f.detach())
            gradients = torch.autograd.grad((f - Y).square().sum() / 2, weights)
            steps = [step(g / weight, m) for g, m in zip(gradients, memories, strict=True)]
            weights = [w - rate * move for w, (move, _) in zip(weights, steps, strict=True)]
            memories = [memory for _, memory in steps]
        return {"outputs": torch.stack(found), "gram": (weight * weights[0].T @ weights[0]).detach()}

    return algorithm


def heavy_ball(gradient, memory):
    return (moved := 0.5 * memory + gradient), moved


def root_mean_square(gradient, memory):
    squares = 0.9 * memory + 0.1 * gradient**2
    return gradient / (squares.sqrt() + 1e-8), squares


def test_an_algorithm_of_torch_is_the_built_in_one():
    found = at_width(trained(heavy_ball), 2, 1)
    expected = one_hidden(X, Y, 0.2, 29, momentum=0.5)
    np.testing.assert_allclose(found["outputs"].numpy(), expected.outputs, atol=1e-12)


def test_a_large_width_is_close_to_infinity():
    limit, wide = (at_width(trained(heavy_ball), 2, 1, width=w)["gram"] for w in (np.inf, 40000))
    assert 0 < np.abs(limit - wide).max() < 0.05


@pytest.mark.parametrize("step", [lambda g, m: (g.sign(), m), root_mean_square], ids=["signs", "root mean square"])
def test_entrywise_optimisers_are_told(step):
    with pytest.raises(NoLimit, match="depend on single neurons"):
        at_width(trained(step, rate=0.02), 2, 1)


def test_results_that_are_neurons_or_chance_are_told():
    with pytest.raises(NoLimit, match="when neurons are mixed"):
        at_width(lambda U, V, weight: U, 2, 1)
    random = np.random.default_rng(0)
    with pytest.raises(NoLimit, match="seed what is drawn"):
        at_width(lambda U, V, weight: random.random(), 2, 1)


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="features=0"):
        at_width(lambda *_: 1.0, 0, 1)
    with pytest.raises(InputError, match="3 is not an algorithm"):
        at_width(3, 1, 1)
    with pytest.raises(InputError, match=r"width=0\.5"):
        at_width(lambda *_: 1.0, 1, 1, width=0.5)
    with pytest.raises(DescriptionError, match="returned a NoneType"):
        at_width(lambda *_: None, 1, 1)
    with pytest.raises(NoLimit, match="not finite"):
        at_width(lambda *_: np.nan, 1, 1)


def test_a_result_of_zero_is_a_result():
    assert abs(float(at_width(lambda U, V, weight: (weight * V.T @ U).norm(), 2, 1))) < 1e-15
