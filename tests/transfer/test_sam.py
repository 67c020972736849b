"""SAM around an optimizer: two steps, exactly undone, and perturbations whose effect keeps its size in width."""

from __future__ import annotations

import copy
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import deeplimits as dl
from deeplimits.errors import InputError
from deeplimits.transfer import SAM
from deeplimits.transfer.anatomy.initial import materialised

WIDTHS, SEEDS, RHO = (64, 128, 256, 512, 1024), 6, 0.1
LAYERS = ("read_in", "hidden", "head")


class Perceptron(nn.Module):
    """Its readout starts from 1/width, as muP has it: the readout's gradient is the largest at every width."""

    def __init__(self, width):
        super().__init__()
        self.read_in, self.hidden, self.head = nn.Linear(12, width), nn.Linear(width, width), nn.Linear(width, 3)
        for layer in (self.read_in, self.hidden, self.head):
            nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
        nn.init.normal_(self.head.weight, std=1 / width)

    def forward(self, x):
        return self.head(torch.relu(self.hidden(torch.relu(self.read_in(x)))))


def batch(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(32, 12, generator=generator, dtype=dtype), torch.randint(3, (32,), generator=generator)


def differentiated(model, optimizer, x, y):
    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    return closure


@cache
def planned(width):
    return dl.transfer(Perceptron, base={"width": WIDTHS[0]}, target={"width": width}, rule="mup2_sam")


def effects(width, scaled, seed):
    """Return {layer or bias: root mean square of what its own perturbation adds to its output}."""
    model = materialised(Perceptron, {"width": width}, seed)
    groups = model.parameters()
    plan = None
    if width != WIDTHS[0]:
        plan = planned(width)
        plan.apply(model, initial=True)
        groups = plan.param_groups(model, lr=0.1)
    optimizer = SAM(torch.optim.AdamW(groups, lr=0.1), RHO, plan if scaled else None)
    x, y = batch()
    seen = {}
    for name in LAYERS:
        model.get_submodule(name).register_forward_pre_hook(
            lambda module, given: seen.update({module: given[0].detach()})
        )
    before = copy.deepcopy(model.state_dict())
    differentiated(model, optimizer, x, y)()
    optimizer.first_step()
    moved = {name: value - before[name] for name, value in model.state_dict().items()}
    outputs = {name: seen[model.get_submodule(name)] @ moved[f"{name}.weight"].T for name in LAYERS}
    outputs |= {f"{name}.bias": moved[f"{name}.bias"] for name in LAYERS}
    return {name: float(value.square().mean().sqrt()) for name, value in outputs.items()}


@pytest.fixture(scope="module")
def exponents():
    found = {}
    for scaled in (True, False):
        runs = [[effects(width, scaled, seed) for seed in range(SEEDS)] for width in WIDTHS]
        for name in runs[0][0]:
            sizes = np.array([[np.log(run[name]) for run in at] for at in runs]).mean(1)
            found[name, scaled] = np.polyfit(np.log(WIDTHS), sizes, 1)[0]
    return found


@pytest.mark.parametrize("name", [*LAYERS, "read_in.bias", "hidden.bias"])
def test_planned_perturbations_keep_their_effect(exponents, name):
    assert abs(exponents[name, True]) <= 0.1


@pytest.mark.parametrize(("name", "expected"), [("read_in", -1.49), ("hidden", -0.49), ("head", 0.50)])
def test_plain_perturbations_do_not(exponents, name, expected):
    assert exponents[name, False] == pytest.approx(expected, abs=0.15)


def test_two_steps_by_hand():
    model = materialised(Perceptron, {"width": 8}, 0).double()
    twin = copy.deepcopy(model)
    x, y = batch(torch.float64)
    optimizer = SAM(torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9), rho=0.2)
    other = torch.optim.SGD(twin.parameters(), lr=0.3, momentum=0.9)
    for _ in range(4):
        loss = optimizer.step(differentiated(model, optimizer, x, y))
        start = [p.detach().clone() for p in twin.parameters()]
        expected = differentiated(twin, other, x, y)()
        norm = torch.cat([p.grad.flatten() for p in twin.parameters()]).norm()
        with torch.no_grad():
            for p in twin.parameters():
                p += 0.2 * p.grad / norm
        differentiated(twin, other, x, y)()
        with torch.no_grad():
            for p, value in zip(twin.parameters(), start, strict=True):
                p.copy_(value)
        other.step()
        assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-12)
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-14)


def test_both_ways_of_calling_agree_and_parameters_come_back_exactly():
    x, y = batch()
    models = [materialised(Perceptron, {"width": 8}, 0) for _ in range(2)]
    one, two = (SAM(torch.optim.AdamW(m.parameters(), lr=1e-2), rho=0.05) for m in models)
    start = copy.deepcopy(models[1].state_dict())
    one.step(differentiated(models[0], one, x, y))
    differentiated(models[1], two, x, y)()
    two.first_step(zero_grad=True)
    assert not torch.equal(models[1].head.weight, start["head.weight"])
    differentiated(models[1], two, x, y)()
    rate = two.param_groups[0]["lr"]
    two.param_groups[0]["lr"] = 0.0
    two.second_step(zero_grad=True)
    for name, value in models[1].state_dict().items():
        assert torch.equal(value, start[name])
    two.param_groups[0]["lr"] = rate
    assert models[1].head.weight.grad is None
    assert not torch.equal(models[0].head.weight, start["head.weight"])


def test_the_base_is_plain():
    plan = dl.transfer(Perceptron, base={"width": 32}, target={"width": 64}, rule="mup2_sam", optimizer="sgd")
    model = materialised(Perceptron, {"width": 64}, 0)
    found = plan.sam(torch.optim.SGD(plan.param_groups(model, lr=0.1)), rho=0.05)
    scales = {name: found._scales[p] for name, p in model.named_parameters()}
    root = 2**0.5
    assert scales == pytest.approx(
        {
            **{"read_in.weight": root, "read_in.bias": root, "hidden.weight": 1.0, "hidden.bias": root},
            **{"head.weight": 1 / root, "head.bias": 1.0},
        }
    )


def test_schedulers_and_states_are_those_of_the_optimizer_inside():
    x, y = batch()
    model = materialised(Perceptron, {"width": 8}, 0)
    optimizer = SAM(torch.optim.Adam(model.parameters(), lr=1e-2), rho=0.05)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for _ in range(2):
        optimizer.step(differentiated(model, optimizer, x, y))
        scheduler.step()
    assert optimizer.optimizer.param_groups[0]["lr"] == pytest.approx(1e-2 / 4)
    kept = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    optimizer.step(differentiated(model, optimizer, x, y))
    after = copy.deepcopy(model.state_dict())
    model.load_state_dict(kept[0])
    optimizer.load_state_dict(kept[1])
    optimizer.step(differentiated(model, optimizer, x, y))
    for name, value in model.state_dict().items():
        assert torch.equal(value, after[name])


def test_what_is_refused():
    weight = nn.Parameter(torch.ones(2))
    inner = torch.optim.SGD([weight], lr=0.1)
    with pytest.raises(InputError, match=r"rho=-1"):
        SAM(inner, rho=-1)
    with pytest.raises(InputError, match="optimizer is a list"):
        SAM([weight], rho=0.1)
    optimizer = SAM(inner, rho=0.1)
    with pytest.raises(InputError, match="no closure"):
        optimizer.step()
    with pytest.raises(InputError, match="without a first"):
        optimizer.second_step()
    weight.sum().backward()
    optimizer.first_step()
    with pytest.raises(InputError, match="perturbed already"):
        optimizer.first_step()
    plans = {
        rule: dl.transfer(Perceptron, base={"width": 32}, target={"width": 64}, rule=rule, optimizer="sgd")
        for rule in ("mup", "mup2_sam")
    }
    with pytest.raises(InputError, match="says nothing of the perturbation"):
        plans["mup"].sam(inner, rho=0.1)
    with pytest.raises(InputError, match="no parameter names"):
        plans["mup2_sam"].sam(inner, rho=0.1)


def test_a_zero_gradient_leaves_the_parameters():
    weight = nn.Parameter(torch.ones(2))
    optimizer = SAM(torch.optim.SGD([weight], lr=0.1), rho=0.1)
    (0 * weight.sum()).backward()
    optimizer.first_step()
    assert torch.equal(weight, torch.ones(2))
