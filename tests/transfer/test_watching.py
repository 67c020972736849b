"""Watched runs: what is predicted of updates, logits and learning rates, measured, and kept whatever ends the run."""

from __future__ import annotations

import os
import subprocess
import sys
from math import isnan
from pathlib import Path

import pytest
import torch
from torch import nn

import deeplimits as dl
from deeplimits.transfer.steps.samples import read
from tests.transfer.models import Mlp
from tests.transfer.test_folding import Lion

BASE, TARGET = {"width": 64, "depth": 4}, {"width": 256, "depth": 8}
OPTIMIZERS = {
    "adamw": (torch.optim.AdamW, 1e-3),
    "lion": (Lion, 1e-4),
    "sgd": (torch.optim.SGD, 0.05),
}


@pytest.fixture(scope="module")
def plans():
    return {name: dl.transfer(Mlp, base=BASE, target=TARGET, optimizer=name) for name in OPTIMIZERS}


def trained(model, optimizer, steps):
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(64, 12, generator=generator), torch.randint(3, (64,), generator=generator)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def fresh(plan=None):
    torch.manual_seed(0)
    model = Mlp(**(BASE if plan is None else TARGET))
    if plan is not None:
        plan.apply(model, initial=True)
    return model


def run(plan, name, tmp_path, steps=6, **settings):
    kind, lr = OPTIMIZERS[name]
    base, target = fresh(), fresh(plan)
    optimizer = kind([{"params": list(base.parameters()), "lr": lr, "weight_decay": 0.0}])
    dl.transfer.watch(base, optimizer, every=2, to=tmp_path / "base.csv")
    trained(base, optimizer, steps)
    optimizer = kind(plan.param_groups(target, lr=lr, **settings))
    plan.watch(optimizer, every=2, to=tmp_path / "run.csv", model=target, against=tmp_path / "base.csv")
    trained(target, optimizer, steps)
    return read(tmp_path / "run.csv")


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_are_as_predicted_from_the_base(name, plans, tmp_path):
    """Matrices at 4 times the width, twice the depth: up to 8^0.15, the margin of gradient exponents, later 8^0.2."""
    samples = run(plans[name], name, tmp_path)
    assert [s.step for s in samples if s.what == "logits"] == [0, 2, 4]
    updates = [s for s in samples if s.what == "update" and s.role in ("input", "hidden", "output")]
    assert {s.name for s in updates} == {f"{n}.weight" for n in ("read_in", "blocks.*.up", "blocks.*.down", "head")}
    for s in updates:
        margin = 8 ** (0.15 if s.step == 0 else 0.2)
        assert 1 / margin <= s.measured / s.predicted <= margin, s


def test_lion_steps_have_the_planned_size(plans):
    """Without a base: every entry with a gradient moves by the planned learning rate."""
    plan, (kind, lr) = plans["lion"], OPTIMIZERS["lion"]
    model, seen = fresh(plan), []
    optimizer = kind(plan.param_groups(model, lr=lr))
    watch = plan.watch(optimizer, every=1, to=seen.extend)
    trained(model, optimizer, 1)
    head = next(s for s in seen if s.name == "head.weight" and s.what == "update")
    assert head.measured == pytest.approx(head.predicted, rel=1e-4) == pytest.approx(lr / 4, rel=1e-4)
    assert watch.last == tuple(seen)


def test_a_hybrid(plans):
    """Muon's steps are orthogonal up to its five iterations (singular values 0.7 to 1.2), in both modes.

    Gradients are random, of full rank: of a low rank, steps are smaller than an orthogonal matrix.
    """
    for mode in ("muon", "muon:match_rms_adamw"):
        model = fresh(plans["adamw"])
        found = plans["adamw"].optimizers(model, lr={mode: 0.02, "adamw": 1e-3}, matrices=mode)
        seen = []
        for optimizer in found.values():
            plans["adamw"].watch(optimizer, every=1, to=seen.extend)
        for p in model.parameters():
            p.grad = torch.randn_like(p)
        found[mode].step()
        updates = {s.name: s for s in seen if s.what == "update"}
        assert set(updates) == {"blocks.*.up.weight", "blocks.*.down.weight"}
        for s in updates.values():
            assert 0.6 <= s.measured / s.predicted <= 1.25
        trained(model, found["adamw"], 1)
        assert {s.measured / s.predicted for s in seen if s.what == "lr"} == {1.0}


def test_lost_ratios_are_seen_and_told(plans):
    plan, seen = plans["adamw"], []
    optimizer = torch.optim.AdamW(plan.param_groups(model := fresh(plan), lr=1e-3))
    watch = plan.watch(optimizer, every=3, to=seen.extend)
    optimizer.param_groups[0]["lr"] *= 2
    with pytest.raises(dl.DeepLimitsError, match=r"plan\.scale"):
        trained(model, optimizer, 1)
    assert sum(abs(s.measured / s.predicted - 1) > 1e-6 for s in seen if s.what == "lr") == 1
    watch.remove()
    trained(model, optimizer, 4)
    assert {s.step for s in seen} == {0}


def test_nothing_is_held_between_samples(plans):
    optimizer = torch.optim.AdamW(plans["adamw"].param_groups(model := fresh(plans["adamw"]), lr=1e-3))
    with plans["adamw"].watch(optimizer, every=5, to=lambda samples: None, model=model) as watch:
        for step in range(1, 8):
            trained(model, optimizer, 1)
            assert (watch.step, watch._before, watch._logits) == (step, None, None)
            assert {s.step for s in watch.last} == {5 * ((step - 1) // 5)}
    assert not optimizer._optimizer_step_post_hooks and not model._forward_hooks


class Writer:
    def __init__(self):
        self.scalars, self.flushed = {}, 0

    def add_scalar(self, tag, value, step):
        self.scalars[tag, step] = value

    def flush(self):
        self.flushed += 1


def test_tensorboard(plans):
    plan, writer = plans["adamw"], Writer()
    optimizer = torch.optim.AdamW(plan.param_groups(model := fresh(plan), lr=1e-3))
    plan.watch(optimizer, every=2, to=writer, model=model)
    trained(model, optimizer, 3)
    assert writer.flushed == 2
    assert {"update/blocks.*.up.weight", "update/blocks.*.up.weight/predicted", "logits/logits"} <= {
        tag for tag, _ in writer.scalars
    }


KILLED = """
import os, signal, sys, torch
sys.path.insert(0, {root!r})
from tests.transfer.test_watching import fresh, trained
from deeplimits.transfer.plan import Plan
plan = Plan.load({plan!r})
optimizer = torch.optim.AdamW(plan.param_groups(model := fresh(plan), lr=1e-3))
plan.watch(optimizer, every=1, to={file!r}, start={start})
trained(model, optimizer, 3)
with open({file!r}, "a") as file:
    file.write("3,update,blo")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_keeps_every_sample(plans, tmp_path):
    """kill -9 after three steps and in the middle of a line; the next run goes on in the same file."""
    root, file, path = Path(__file__).parents[2], tmp_path / "watch.csv", tmp_path / "plan.json"
    plans["adamw"].save(path)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(root / "src")}
    code = KILLED.format(root=str(root), plan=str(path), file=str(file), start=0)
    done = subprocess.run([sys.executable, "-c", code], env=environment, timeout=120, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    samples = read(file)
    assert sorted({s.step for s in samples}) == [0, 1, 2]
    plan = plans["adamw"]
    optimizer = torch.optim.AdamW(plan.param_groups(model := fresh(plan), lr=1e-3))
    plan.watch(optimizer, every=1, to=file, start=3)
    trained(model, optimizer, 2)
    again = read(file)
    assert again[: len(samples)] == samples
    assert sorted({s.step for s in again}) == [0, 1, 2, 3, 4]
    assert len(again) == len(samples) * 5 // 3


def test_sgd_alone_predicts_nothing(plans):
    plan, seen = plans["sgd"], []
    optimizer = torch.optim.SGD(plan.param_groups(model := fresh(plan), lr=0.1))
    plan.watch(optimizer, every=1, to=seen.extend)
    trained(model, optimizer, 1)
    assert all(isnan(s.predicted) for s in seen if s.what == "update")


def test_refused(plans, tmp_path):
    plan = plans["adamw"]
    optimizer = torch.optim.AdamW(plan.param_groups(fresh(plan), lr=1e-3))
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    plain = torch.optim.AdamW(fresh().parameters())
    for settings, words in (
        ({"every": 0}, "every=0"),
        ({"to": other}, "does not hold the samples"),
        ({"to": 3}, "to is a int"),
        ({"to": print, "against": tmp_path / "none.csv"}, "cannot be read"),
    ):
        with pytest.raises(dl.DeepLimitsError, match=words):
            plan.watch(optimizer, **settings)
    with pytest.raises(dl.DeepLimitsError, match="no parameter names"):
        plan.watch(plain, to=print)
    assert not optimizer._optimizer_step_post_hooks
