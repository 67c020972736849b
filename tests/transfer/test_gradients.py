"""Sizes of gradients, which Adam's epsilon and clipping follow, against the powers of the rules."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.transfer.anatomy.names import pooled
from deeplimits.transfer.numbers import gradient
from tests.transfer.models import Mlp

BASE, STEPS, SEEDS = {"width": 64, "depth": 4}, 5, 4
# embedding, both layers of a block, bias, gains in a block and after them, readout
MEASURED = [f"{name}.weight" for name in ("read_in", "blocks.*.up", "blocks.*.down", "blocks.*.norm", "norm", "head")]
MEASURED.append("blocks.*.up.bias")
AXES = {"width": (64, 128, 256), "depth": (4, 8, 16, 32)}


def sizes(place, rule):
    """The plan and {parameter, blocks pooled: mean log of its gradient's root mean square after steps of Adam}."""
    plan = None if place == BASE else dl.transfer(Mlp, base=BASE, target=place, rule=rule)
    found = []
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        model = Mlp(**place)
        if plan is not None:
            plan.apply(model, initial=True)
        data = torch.Generator().manual_seed(seed)  # the same at every size
        x = torch.randn(128, 12, generator=data)
        y = (x @ torch.randn(12, 3, generator=data)).argmax(-1)
        groups = model.parameters() if plan is None else plan.param_groups(model, lr=1e-3, eps=1e-12)
        optimizer = torch.optim.Adam(groups, lr=1e-3, eps=1e-12)
        for step in range(STEPS + 1):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            if step < STEPS:
                optimizer.step()
        own = {name: p.grad.square().mean() for name, p in model.named_parameters()}
        labels = pooled({name: tuple(p.shape) for name, p in model.named_parameters()})
        found.append({label: float(sum(own[n] for n in names) / len(names)) ** 0.5 for label, names in labels.items()})
    return plan, {label: np.mean([np.log(run[label]) for run in found]) for label in MEASURED}


@pytest.mark.slow
@pytest.mark.parametrize(("axis", "rule"), [("width", "mup"), ("depth", "depth_mup"), ("depth", "completep")])
def test_gradients_scale_as_epsilon_does(axis, rule):
    """Exponents after 5 steps of Adam within 0.15: 1/m_out, in blocks m_L^-alpha over what is folded in."""
    runs = [sizes({**BASE, axis: size}, rule) for size in AXES[axis]]
    plan = runs[-1][0]
    m, rule = AXES[axis][-1] / AXES[axis][0], plan.parametrization
    for label in MEASURED:
        predicted = np.log(gradient(plan[label.replace("*", "0")], rule)) / np.log(m)
        found = np.polyfit(np.log(AXES[axis]), [run[1][label] for run in runs], 1)[0]
        assert found == pytest.approx(predicted, abs=0.15), label
