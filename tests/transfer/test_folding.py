"""A folded multiplier trains exactly as the same multiplier in the forward pass."""

from __future__ import annotations

import pytest
import torch

import deeplimits as dl
from tests.transfer.models import Mlp

BASE, TARGET = {"width": 32, "depth": 4}, {"width": 64, "depth": 16}


class Lion(torch.optim.Optimizer):
    def __init__(self, groups):
        super().__init__(groups, {"betas": (0.9, 0.99), "lr": 1e-3, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                memory = self.state[p].setdefault("memory", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * torch.sign(group["betas"][0] * memory + (1 - group["betas"][0]) * p.grad))
                memory.mul_(group["betas"][1]).add_(p.grad, alpha=1 - group["betas"][1])


OPTIMIZERS = {
    "adamw": lambda groups: torch.optim.AdamW(groups),
    "sgd": lambda groups: torch.optim.SGD(groups, momentum=0.9),
    "lion": Lion,
}


def losses(model, optimizer, steps=30):
    torch.manual_seed(1)
    x, y = torch.randn(20, 12, dtype=torch.float64), torch.randint(3, (20,))
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    return torch.tensor(found, dtype=torch.float64)


@pytest.mark.parametrize("rule", ["depth_mup", "completep"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_folded_and_explicit_branches(name, rule):
    """Depth only: the explicit form has branches scaled by m_L^-alpha and no other change in what ends them."""
    alpha, m = {"depth_mup": 0.5, "completep": 1.0}[rule], 4.0
    plan = dl.transfer(Mlp, base=BASE, target={**BASE, "depth": 16}, rule=rule, optimizer=name)
    torch.manual_seed(0)
    folded = Mlp(32, 16).double()
    explicit = Mlp(32, 16, scale=m**-alpha).double()
    explicit.load_state_dict(folded.state_dict())
    plan.apply(folded, initial=True)
    rate, decay = {"adamw": (2e-3, 0.1), "sgd": (0.05, 1e-3), "lion": (3e-4, 0.1)}[name]
    inside = m ** (2 * alpha - 1 if name == "sgd" else alpha - 1)
    groups = []
    for key, parameter in explicit.named_parameters():
        block = key.startswith("blocks.")
        own = decay if parameter.dim() > 1 else 0.0
        group = {"params": [parameter], "lr": rate * (inside if block else 1), "weight_decay": own}
        if name == "adamw":
            group["eps"] = 1e-8 * (m**-alpha if block else 1)
        groups.append(group)
    one = losses(folded, OPTIMIZERS[name](plan.param_groups(folded, lr=rate, weight_decay=decay)))
    other = losses(explicit, OPTIMIZERS[name](groups))
    assert one[-1] < 0.8 * one[0]
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_tables_of_tensor_programs_v_agree(name):
    """Table 3 (the plan's) against Table 8: readout of the base's size, a multiplier 1/m in the forward pass."""
    m = 4.0
    plan = dl.transfer(Mlp, base=BASE, target={"width": 128, "depth": 4}, rule="mup", optimizer=name)
    torch.manual_seed(0)
    third = Mlp(128, 4).double()
    eighth = Mlp(128, 4, readout=1 / m).double()
    plan.apply(third, initial=True)
    eighth.load_state_dict(third.state_dict())
    with torch.no_grad():
        for parameter in eighth.head.parameters():
            parameter.mul_(m)
    rate = 2e-3 if name == "adamw" else 0.05
    groups = plan.param_groups(third, lr=rate)
    again = {id(p): dict(g, params=[]) for g in groups for p in g["params"]}
    others = []
    for (key, p), q in zip(third.named_parameters(), eighth.parameters(), strict=True):
        group = dict(again[id(p)], params=[q])
        if key.startswith("head."):
            group["lr"] *= m if name == "adamw" else m**2
            if "eps" in group:
                group["eps"] /= m
        others.append({k: v for k, v in group.items() if k != "param_names"})
    one, other = losses(third, OPTIMIZERS[name](groups)), losses(eighth, OPTIMIZERS[name](others))
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
