"""Widened models train on: averages of gradients are carried, copies part, rates warm up; what cannot be is refused."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import deeplimits as dl
from deeplimits.errors import InputError
from deeplimits.transfer.anatomy.initial import materialised
from tests.transfer.growing import perceptron, trained
from tests.transfer.models import Gpt, Mlp


def states(reset, kind=torch.optim.Adam, **settings):
    small, _, inputs = trained(perceptron, None)
    old = kind(small.parameters(), lr=1e-2, **settings)
    small(inputs).square().mean().backward()
    old.step()
    large = materialised(perceptron, {"width": 64}, 1)
    grown = dl.grow(small, large)
    new = kind(large.parameters(), lr=1e-2, **settings)
    grown.carry(old, new, reset)
    return small, old, large, new, grown


def test_printed():
    *_, grown = states("new")
    assert str(grown) == repr(grown) and "values, outputs differ by" in repr(grown) and len(repr(grown)) < 120


def test_new_channels_start_without_averages_and_old_ones_go_on():
    small, old, large, new, _ = states("new")
    for name, axes in (("0", "rows"), ("2", "both"), ("4", "columns")):
        before, after = (
            optimizer.state[model.get_submodule(name).weight] for model, optimizer in ((small, old), (large, new))
        )
        shrink = 1.0 if axes == "columns" else 0.5
        rows, columns = before["exp_avg"].shape
        torch.testing.assert_close(after["exp_avg"][:rows, :columns], before["exp_avg"] * shrink)
        torch.testing.assert_close(after["exp_avg_sq"][:rows, :columns], before["exp_avg_sq"] * shrink**2)
        assert after["step"] == before["step"]
        if axes != "columns":
            assert not after["exp_avg"][rows:].any()
        if axes != "rows":
            assert not after["exp_avg_sq"][:, columns:].any()


@pytest.mark.parametrize(("kind", "key"), [(torch.optim.SGD, "momentum_buffer"), (torch.optim.RMSprop, "square_avg")])
def test_other_optimizers_carry_theirs(kind, key):
    small, old, large, new, _ = states("new", kind, momentum=0.9)
    before, after = old.state[small[0].weight][key], new.state[large[0].weight][key]
    torch.testing.assert_close(after[:32], before * (0.25 if key == "square_avg" else 0.5))
    assert not after[32:].any()


def steps(model, optimizer, inputs, count):
    for _ in range(count):
        optimizer.zero_grad()
        F.mse_loss(model(inputs), torch.linspace(-1, 1, 9).reshape(3, 3)).backward()
        optimizer.step()


def test_twins_part_after_an_asymmetric_reset_and_stay_without():
    cosines = {}
    for reset in ("new", "none"):
        small, old, inputs = trained(perceptron, None)
        large = materialised(perceptron, {"width": 64}, 1)
        grown = dl.grow(small, large)
        assert set(grown.twins()) == {"0.weight", "2.weight"}
        assert min(grown.twins().values()) == pytest.approx(1.0, abs=1e-6)
        new = torch.optim.Adam(large.parameters(), lr=1e-2)
        if reset == "new":
            grown.carry(old, new)
        else:
            with pytest.raises(InputError, match="nothing tells them apart"):
                grown.carry(old, new, reset="none")
        steps(large, new, inputs, 30)
        cosines[reset] = max(grown.twins().values())
    assert cosines["none"] == pytest.approx(1.0, abs=1e-3)
    assert cosines["new"] < 0.99


@pytest.mark.parametrize("split", [0.0, 0.3])
def test_uneven_shares_tell_copies_apart_without_averages(split):
    small, _, inputs = trained(perceptron, None)
    small, large = small.double(), materialised(perceptron, {"width": 64}, 1).double()
    grown = dl.grow(small, large, split=split)
    plain, new = (torch.optim.SGD(model.parameters(), lr=0.1) for model in (small, large))
    if split:
        grown.carry(plain, new)
    steps(large, new, inputs.double(), 30)
    apart = 1 - grown.twins()["0.weight"]
    assert apart > 1e-6 if split else apart < 1e-12


def test_shares_are_the_same_for_the_same_seed():
    small, _, _ = trained(perceptron, None)
    found = [materialised(perceptron, {"width": 64}, seed) for seed in (1, 2, 3)]
    for model, seed in zip(found, (0, 0, 1), strict=True):
        dl.grow(small, model, split=0.3, seed=seed)
    assert torch.equal(found[0][2].weight, found[1][2].weight)
    assert not torch.equal(found[0][2].weight, found[2][2].weight)


def test_models_need_not_be_run():
    small, _, inputs = trained(perceptron, None)
    large = materialised(perceptron, {"width": 64}, 1)
    grown = dl.grow(small, large, check=False)
    assert grown.error is None
    torch.testing.assert_close(large(inputs), small(inputs), rtol=1e-5, atol=1e-6)


def test_the_rates_warm_up_again():
    _, _, _, new, grown = states("new")
    schedule, seen = grown.warmup(new, steps=4), []
    for _ in range(6):
        seen.append(new.param_groups[0]["lr"])
        new.step()
        schedule.step()
    assert seen == pytest.approx([0.0025, 0.005, 0.0075, 0.01, 0.01, 0.01])
    with pytest.raises(InputError, match="steps=0"):
        grown.warmup(new, steps=0)


def test_a_plan_gives_the_wide_models_rates():
    small, old, _ = trained(perceptron, None)
    large = materialised(perceptron, {"width": 64}, 1)
    plan = dl.transfer(large, base=small, rule="mup", optimizer="adam")
    grown = dl.grow(small, large)
    new = torch.optim.Adam(plan.param_groups(large, lr=1e-2))
    grown.carry(old, new)
    plan.guard(new)
    assert new.state[large[2].weight]["exp_avg"].shape == large[2].weight.shape
    assert old.state[small[2].weight]["exp_avg"].shape == small[2].weight.shape


class Grouped(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(12, width), nn.GroupNorm(4, width), nn.Linear(width, 3)

    def forward(self, x):
        return self.b(self.norm(self.a(x)))


class Scaled(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a, self.b, self.width = nn.Linear(12, width), nn.Linear(width, 3), width

    def forward(self, x):
        return self.b(torch.relu(self.a(x))) / self.width


REFUSED = {
    "groups of a norm": (Grouped, 64, "copies part at norm"),
    "a factor of the width": (Scaled, 64, "copies part at the output"),
    "larger heads": (lambda width: Gpt(width, 1, heads=4), 64, "cannot be kept"),
    "no whole factor": (perceptron, 48, "goes from 32 to 48"),
    "a narrower model": (perceptron, 16, "goes from 32 to 16"),
    "the same width": (perceptron, 32, "same width"),
    "another depth": (lambda width: Mlp(width, width // 8), 64, "another number of blocks"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_leaves_the_model_alone(case):
    build, width, words = REFUSED[case]
    small, large = materialised(build, {"width": 32}, 0), materialised(build, {"width": width}, 1)
    kept = copy.deepcopy(large.state_dict())
    with pytest.raises(InputError, match=words):
        dl.grow(small, large)
    assert all(torch.equal(value, kept[name]) for name, value in large.state_dict().items())


def test_other_bad_input():
    small, old, _ = trained(perceptron, None)
    large = materialised(perceptron, {"width": 64}, 1)
    with pytest.raises(InputError, match=r"split=0.7"):
        dl.grow(small, large, split=0.7)
    with pytest.raises(InputError, match="no parameter is called so"):
        dl.grow(small, large, parts={"qkv": 3})
    with pytest.raises(InputError, match="not 5 equal parts"):
        dl.grow(small, large, parts={"0.weight": 5})
    with torch.device("meta"):
        empty = perceptron(64)
    with pytest.raises(InputError, match="large model is on the meta device"):
        dl.grow(small, empty)
    grown = dl.grow(small, large)
    new = torch.optim.Adam(large.parameters())
    with pytest.raises(InputError, match="not of the small model"):
        grown.carry(new, old)
    with pytest.raises(InputError, match="reset='some'"):
        grown.carry(old, new, reset="some")
    other = torch.optim.Rprop(small.parameters())
    for p in small.parameters():
        p.grad = torch.ones_like(p)
    other.step()
    with pytest.raises(InputError, match="no average of gradients"):
        grown.carry(other, torch.optim.Rprop(large.parameters()))
