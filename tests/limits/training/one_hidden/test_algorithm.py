"""Algorithms of one's own at infinite width: built-in ones by autograd, and some without such a limit."""

import numpy as np
import pytest
import torch

from deeplimits.errors import DescriptionError, InputError, NoLimit
from deeplimits.limits.training.one_hidden.algorithm import at_width
from deeplimits.limits.training.one_hidden.ask import one_hidden

X, Y = torch.tensor([[1.0, 0.5], [0.2, -1.0]], dtype=torch.float64), torch.tensor([[1.0], [-1.0]], dtype=torch.float64)


def trained(optimizer, **options):
    """An algorithm: 30 steps of an optimizer of torch on the squared error, learning rate 0.2 in muP."""

    def algorithm(U, V, weight):
        weights = [w.clone().requires_grad_() for w in (U, V)]
        rate = 0.2 / weight if optimizer is torch.optim.SGD else 0.02
        steps, found = optimizer(weights, lr=rate, **options), []
        for _ in range(30):
            f = weight * (X / 2**0.5) @ weights[0].T @ weights[1]
            found.append(f.detach())
            steps.zero_grad()
            ((f - Y).square().sum() / 2).backward()
            steps.step()
        return {"outputs": torch.stack(found), "gram": weight * weights[0].T @ weights[0]}

    return algorithm


def test_an_algorithm_of_torch_is_the_built_in_one():
    found = at_width(trained(torch.optim.SGD, momentum=0.5), 2, 1)
    expected = one_hidden(X, Y, 0.2, 29, momentum=0.5)
    np.testing.assert_allclose(found["outputs"].numpy(), expected.outputs, atol=1e-12)


def test_a_large_width_is_close_to_infinity():
    limit, wide = (at_width(trained(torch.optim.SGD), 2, 1, width=w)["gram"].detach() for w in (np.inf, 40000))
    assert 0 < np.abs(limit - wide).max() < 0.05


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.Rprop])
def test_entrywise_optimisers_are_told(optimizer):
    with pytest.raises(NoLimit, match="depend on single neurons"):
        at_width(trained(optimizer), 2, 1)


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
