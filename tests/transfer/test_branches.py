"""Ends of branches that are hard to see: experts not chosen, gains read as 1 + w, activations after sums."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import deeplimits as dl

DEEP = {"base": {"width": 32, "depth": 4}, "target": {"width": 64, "depth": 8}}


class Routed(nn.Module):
    """h + mixed(h), then h + the one expert that a router chooses, in a loop over experts."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.mixed = nn.LayerNorm(width), nn.Linear(width, width)
        self.router = nn.Linear(width, 4, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)) for _ in range(4)
        )

    def forward(self, h):
        h = h + self.mixed(self.norm(h))
        x = self.norm(h).flatten(0, 1)
        gate, choice = self.router(x).softmax(-1).max(-1)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = (choice == number).nonzero(as_tuple=True)[0]
            y = y.index_add(0, rows, expert(x[rows]) * gate[rows, None])
        return h + y.view(h.shape)


def routed(width, depth):
    return nn.Sequential(
        nn.Embedding(17, width), nn.Sequential(*[Routed(width) for _ in range(depth)]), nn.Linear(width, 17)
    )


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_experts_that_no_token_chooses_end_branches_too(seed):
    """Two tokens choose two experts of four at most; the plan is that of all four, whatever the tokens."""
    words = None if seed is None else torch.randint(17, (1, 2), generator=torch.Generator().manual_seed(seed))
    plan = dl.transfer(routed, **DEEP, inputs=words)
    ends = ("mixed.weight", "mixed.bias", *(f"experts.{n}.2.{part}" for n in range(4) for part in ("weight", "bias")))
    assert {row.name for row in plan.rows if row.branch_output} == {f"1.{b}.{end}" for b in range(8) for end in ends}
    assert any("cannot be followed without values" in note for note in plan.notes)
    assert not any("Error" in note or "nonzero" in note for note in plan.notes)


class Scaled(nn.Module):
    """A norm under a name that says nothing, with gain w or 1 + w, and a bias."""

    def __init__(self, width, shifted):
        super().__init__()
        self.shifted = shifted
        self.w, self.b = (nn.Parameter(torch.full((width,), value)) for value in (float(not shifted), 0.0))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * (self.w + float(self.shifted)) + self.b


class Tied(nn.Module):
    def __init__(self, width, shifted, cap):
        super().__init__()
        self.words, self.mix, self.last = nn.Embedding(17, width), nn.Linear(width, width), Scaled(width, shifted)
        self.head, self.cap = nn.Linear(width, 17, bias=False), cap
        self.head.weight = self.words.weight

    def forward(self, x):
        h = self.words(x)
        logits = self.head(self.last(h + torch.tanh(self.mix(h))))
        return self.cap * torch.tanh(logits / self.cap) if self.cap else logits


@pytest.mark.parametrize("cap", [None, 30.0])
def test_gains_are_told_by_what_they_do(cap):
    """At 4 times the width the gain is a quarter: 1/4 w, or 1 + (1/4 w - 3/4); the bias follows, unshifted."""
    for shifted, shift in ((False, 0.0), (True, -0.75)):
        build = lambda width, shifted=shifted: Tied(width, shifted, cap)
        plan = dl.transfer(build, base={"width": 32}, target={"width": 128}, rule="mup")
        assert (plan["last.w"].init_mult, plan["last.w"].init_shift) == (0.25, shift)
        assert (plan["last.b"].tied_width, plan["last.b"].init_shift) == (4.0, 0.0)
        model = build(128)
        plan.apply(model, initial=True)
        assert torch.allclose(model.last.w + float(shifted), torch.tensor(0.25))


class After(nn.Module):
    """relu(h + branch(h)), or with `before` h + branch(relu(h)), as the advice has it."""

    def __init__(self, width, before):
        super().__init__()
        self.before, self.norm = before, nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, h):
        if self.before:
            return h + self.down(torch.relu(self.up(torch.relu(self.norm(h)))))
        return torch.relu(h + self.down(torch.relu(self.up(self.norm(h)))))


def after(before):
    def build(width, depth):
        blocks = [After(width, before) for _ in range(depth)]
        return nn.Sequential(nn.Linear(12, width), nn.ReLU(), nn.Sequential(*blocks), nn.Linear(width, 3))

    return build


def test_activations_after_the_sum_are_named_and_the_advice_works():
    with pytest.raises(dl.DeepLimitsError, match=r"activation follows the sum of 2\.0 .*pre-activation.*width only"):
        dl.transfer(after(False), **DEEP)
    assert {row.name for row in dl.transfer(after(True), **DEEP).rows if row.branch_output} == {
        f"2.{b}.down.{part}" for b in range(8) for part in ("weight", "bias")
    }
    assert dl.transfer(after(False), base={"width": 32, "depth": 4}, target={"width": 64, "depth": 4}, rule="mup")
