"""A folded multiplier trains exactly as the same multiplier in the forward pass."""

from __future__ import annotations

import copy

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


@pytest.mark.parametrize("depth", [16, 12])
@pytest.mark.parametrize("rule", ["depth_mup", "completep"])
def test_folded_and_explicit_branches_under_muon(rule, depth):
    """Factors that are powers of two: exact; others: 1e-3, for Muon's iteration rounds to bfloat16."""
    alpha, m = {"depth_mup": 0.5, "completep": 1.0}[rule], depth / 4
    plan = dl.transfer(Mlp, base=BASE, target={**BASE, "depth": depth}, rule=rule)
    torch.manual_seed(0)
    folded = Mlp(32, depth).double()
    explicit = Mlp(32, depth, scale=m**-alpha).double()
    explicit.load_state_dict(folded.state_dict())
    plan.apply(folded, initial=True)
    rates = {"muon": 0.02, "adamw": 2e-3}
    pair = plan.optimizers(folded, lr=rates, weight_decay=0.1)
    held = {name for group in pair["muon"].param_groups for name in group["param_names"]}
    groups: dict[str, list] = {"muon": [], "adamw": []}
    for key, parameter in explicit.named_parameters():
        kind, block = "muon" if key in held else "adamw", key.startswith("blocks.")
        group = {"params": [parameter], "lr": rates[kind] * (m ** (alpha - 1) if block else 1)}
        group["weight_decay"] = 0.1 if parameter.dim() > 1 else 0.0
        groups[kind].append(group | ({"eps": 1e-8 * (m**-alpha if block else 1)} if kind == "adamw" else {}))
    one = losses(folded, Both(pair.values()))
    other = losses(explicit, Both([torch.optim.Muon(groups["muon"]), torch.optim.AdamW(groups["adamw"])]))
    assert one[-1] < 0.8 * one[0]
    exact = depth == 16
    torch.testing.assert_close(one, other, rtol=1e-12 if exact else 1e-3, atol=1e-12 if exact else 1e-3)


class Both:
    """Two optimizers as one."""

    def __init__(self, pair):
        self.pair = list(pair)

    def zero_grad(self):
        for optimizer in self.pair:
            optimizer.zero_grad()

    def step(self):
        for optimizer in self.pair:
            optimizer.step()


# Tensor Programs V, Tables 3, 8 and 9: powers of the width's ratio in (initial std, multiplier, LR of SGD, of Adam)
TABLES = {
    3: {"input": (0, 0, 1, 0), "hidden": (-0.5, 0, 0, -1), "output": (-1, 0, -1, -1)},
    8: {"input": (0, 0, 1, 0), "hidden": (-0.5, 0, 0, -1), "output": (0, -1, 1, 0)},
    9: {"input": (-0.5, 0.5, 0, -0.5), "hidden": (-0.5, 0, 0, -1), "output": (-0.5, -0.5, 0, -0.5)},
}


def explicit_losses(start, table, name, rate):
    """Train m^multiplier times values, which start at m^(std) times the base's, with a table's learning rates.

    Gains and biases scale as input weights do; a bias of the readout does not grow.
    """
    m, model = 4.0, copy.deepcopy(start)
    held, powers, groups = {}, {}, []
    for key, p in start.named_parameters():
        role = "hidden" if key.startswith("blocks.") and p.dim() > 1 else "output" if key == "head.weight" else "input"
        powers[key] = (0, 0, 0, 0) if key == "head.bias" else TABLES[table][role]
        held[key] = (p.detach() * m ** -powers[key][1]).requires_grad_()
        group = {"params": [held[key]], "lr": rate * m ** powers[key][2 if name == "sgd" else 3]}
        if name == "adamw":
            own = {"input": -1, "hidden": -1, "output": 0}[role] if key != "head.bias" else 0
            group |= {"eps": 1e-8 * m ** (own + powers[key][1]), "weight_decay": 0.0}
        groups.append(group)

    def forward(x):
        return torch.func.functional_call(model, {key: m ** powers[key][1] * w for key, w in held.items()}, x)

    return losses(forward, OPTIMIZERS[name](groups))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_three_tables_of_tensor_programs_v_are_one(name):
    """Tables 3, 8 and 9, each written out, against the plan: the same losses over 30 steps."""
    plan = dl.transfer(Mlp, base=BASE, target={"width": 128, "depth": 4}, rule="mup", optimizer=name)
    torch.manual_seed(0)
    start = Mlp(128, 4).double()
    plan.apply(start, initial=True)
    rate = {"adamw": 2e-3, "sgd": 0.05, "lion": 3e-4}[name]
    found = {table: explicit_losses(start, table, name, rate) for table in TABLES}
    ours = losses(start, OPTIMIZERS[name](plan.param_groups(start, lr=rate)))
    assert ours[-1] < 0.9 * ours[0]
    for table in TABLES:
        torch.testing.assert_close(found[table], ours, rtol=1e-12, atol=1e-12)
        sizes = {"input": "read_in.weight", "hidden": "blocks.1.up.weight", "output": "head.weight"}
        for role, key in sizes.items():
            init, multiplier = TABLES[table][role][:2]
            assert plan[key].init_ratio == pytest.approx(4.0 ** (init + multiplier))
