"""A planned model stays a plain one: whatever torch does to a model, it can still do."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from tests.integrations.conftest import SIZES
from tests.transfer.models import Mlp

X, Y = torch.linspace(-1, 1, 60).reshape(5, 12), torch.tensor([0, 1, 2, 0, 1])


def numbers(plan, model):
    groups = plan.param_groups(model, lr=2e-3, weight_decay=0.1)
    return {n: (g["lr"], g["weight_decay"], g["eps"]) for g in groups for n in g["param_names"]}


def trained(plan, model, steps=3):
    optimizer = torch.optim.AdamW(plan.param_groups(model, lr=2e-3, weight_decay=0.1))
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(X), Y)
        loss.backward()
        optimizer.step()
    return loss.detach()


def test_copies(plan, model):
    other = copy.deepcopy(model)
    assert numbers(plan, other) == numbers(plan, model)
    torch.testing.assert_close(trained(plan, other), trained(plan, model), rtol=0, atol=0)


def test_averages(plan, model):
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.5))
    average.update_parameters(model)
    before = model.head.weight.detach().clone()
    trained(plan, model)
    average.update_parameters(model)
    halfway = (before + model.head.weight.detach()) / 2
    torch.testing.assert_close(average.module.head.weight.detach(), halfway, rtol=1e-6, atol=1e-9)
    assert numbers(plan, average) == numbers(plan, model)


@pytest.mark.parametrize("compiled_first", [True, False])
def test_compiled(plan, compiled_first):
    """Compiled before the plan is applied or after: one graph, the values of the plain model, the same numbers."""
    torch.manual_seed(0)
    model = Mlp(**SIZES["target"])
    plain = copy.deepcopy(model)
    plan.apply(plain, initial=True)
    if not compiled_first:
        plan.apply(model, initial=True)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    if compiled_first:
        plan.apply(compiled, initial=True)
    assert numbers(plan, compiled) == numbers(plan, plain)
    torch.testing.assert_close(trained(plan, compiled), trained(plan, plain), rtol=1e-5, atol=0)


def test_assigned_to_meta(plan, model):
    with torch.device("meta"):
        other = Mlp(**SIZES["target"])
    other.load_state_dict(model.state_dict(), assign=True)
    torch.testing.assert_close(other(X), model(X), rtol=0, atol=0)
    assert numbers(plan, other) == numbers(plan, model)


def test_materialised_by_its_own_initialisation(plan, model):
    with torch.device("meta"):
        other = Mlp(**SIZES["target"])
    other.to_empty(device="cpu")
    torch.manual_seed(0)
    for module in other.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    plan.apply(other, initial=True)
    torch.testing.assert_close(other.state_dict(), model.state_dict(), rtol=0, atol=0)


def test_saved_whole(plan, model, tmp_path):
    torch.save(model, tmp_path / "model.pt")
    other = torch.load(tmp_path / "model.pt", weights_only=False)
    torch.testing.assert_close(other(X), model(X), rtol=0, atol=0)
    assert numbers(plan, other) == numbers(plan, model)


def test_weights_load_into_the_plain_class(plan, model):
    """Nothing of the plan lives in the model: names and values are all there is."""
    other = Mlp(**SIZES["target"])
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(other(X), model(X), rtol=0, atol=0)
    assert {name for name, _ in other.named_parameters()} == set(numbers(plan, model))
    assert not any(vars(parameter) for parameter in model.parameters())


def test_called_with_parameters_of_ones_own(model):
    own = dict(model.named_parameters())
    torch.testing.assert_close(functional_call(model, own, (X,)), model(X), rtol=0, atol=0)
    halved = {**own, "head.weight": own["head.weight"] / 2, "head.bias": own["head.bias"] / 2}
    torch.testing.assert_close(functional_call(model, halved, (X,)), model(X) / 2, rtol=1e-6, atol=1e-7)


def test_learning_rates_as_tensors(plan, model):
    """One tensor for all groups: each group gets its own, and a compiled optimizer may write into it."""
    rate = torch.tensor(2e-3)
    groups = plan.param_groups(model, lr=rate)
    for group in groups:
        group["lr"].mul_(0.5)
    plan.guard(torch.optim.AdamW(groups))
    assert rate.item() == pytest.approx(2e-3)
