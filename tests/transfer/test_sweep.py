"""Learning-rate sweeps: minima, intervals, verdicts, and stores that lose nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from math import inf, nan, sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import deeplimits as dl
from deeplimits.transfer.evidence.sweep import _fingerprint as fingerprint
from tests.transfer.models import Mlp


def train(model, groups, seed, steps=40):
    """A few steps towards a random teacher, the learning rate falling to zero; the loss before the last step."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(64, 12, generator=generator)
    y = torch.tanh(x @ torch.randn(12, 3, generator=torch.Generator().manual_seed(7)) / sqrt(12))
    optimizer = torch.optim.AdamW(groups)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 5) * (1 - step / steps))
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        schedule.step()
    return float(loss.detach())


def counted(calls, stop=None):
    end = [stop]

    def inner(model, groups, seed):
        if len(calls) == end[0]:
            raise KeyboardInterrupt
        calls.append(seed)
        return train(model, groups, seed, steps=2)

    return inner


PLAN = {
    "sizes": [{"width": 32, "depth": 4}, {"width": 64, "depth": 4}],
    "lrs": [2.0**-k for k in (4, 6, 8)],
    "seeds": 2,
}


def test_a_sweep_goes_on_where_it_stopped(tmp_path):
    store, calls = tmp_path / "runs.sqlite", []

    with pytest.raises(KeyboardInterrupt):
        dl.lr_transfer(Mlp, counted(calls, 5), "mup", **PLAN, store=store)
    dl.lr_transfer(Mlp, counted(calls), "mup", **PLAN, store=store)
    assert len(calls) == 12
    again = dl.lr_transfer(Mlp, counted(calls), "mup", **PLAN, store=store)
    assert len(calls) == 12
    more = dl.lr_transfer(Mlp, counted(calls), "mup", **{**PLAN, "seeds": 3}, store=store)
    assert len(calls) == 18
    np.testing.assert_array_equal(np.array(more.curves[1].losses)[:, :2], again.curves[1].losses)


def test_losses_that_are_not_finite_are_divergence(tmp_path):
    def diverges(model, groups, seed):
        return nan if groups[0]["lr"] > 2.0**-5 else train(model, groups, seed, steps=2)

    found = dl.lr_transfer(Mlp, diverges, "mup", **PLAN, store=tmp_path / "runs.sqlite")
    assert found.curves[0].losses[-1] == (inf, inf)


def test_another_plan_is_refused(tmp_path):
    store = tmp_path / "runs.sqlite"
    dl.lr_transfer(Mlp, counted([]), "mup", **PLAN, store=store)
    with pytest.raises(dl.DeepLimitsError, match="rule is 'mup' there and 'sp' here"):
        dl.lr_transfer(Mlp, counted([]), "sp", **PLAN, store=store)
    with pytest.raises(dl.DeepLimitsError, match="train is"):
        dl.lr_transfer(Mlp, lambda model, groups, seed: 1.0, "mup", **PLAN, store=store)
    with pytest.raises(dl.DeepLimitsError, match="build is"):
        dl.lr_transfer(lambda width, depth: Mlp(2 * width, depth), counted([]), "mup", **PLAN, store=store)


def test_functions_are_told_apart_by_what_they_read():
    def of(shift):
        return lambda model, groups, seed: shift

    def around(inner):
        return lambda model, groups, seed: inner(model, groups, seed)

    assert fingerprint(of(1.0)) == fingerprint(of(1.0)) != fingerprint(of(2.0))
    assert fingerprint(around(of(1.0))) == fingerprint(around(of(1.0))) != fingerprint(around(of(2.0)))


WORKER = """
import sys, time
from tests.transfer.models import Mlp
from tests.transfer.test_sweep import PLAN, train
from deeplimits.transfer.evidence.sweep import lr_transfer

def slow(model, groups, seed):
    time.sleep(0.4)
    print("run", flush=True)
    return train(model, groups, seed, steps=2)

lr_transfer(Mlp, slow, "mup", **PLAN, store=sys.argv[1])
print("finished", flush=True)
"""


@pytest.mark.slow
def test_a_killed_worker_and_two_that_share(tmp_path):
    """One worker is killed with SIGKILL in a run; two others take what is left. Waits for a stale run."""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", WORKER, str(tmp_path / "runs.sqlite")]

    def start():
        return subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True)

    first = start()
    lines = [first.stdout.readline() for _ in range(3)]
    time.sleep(0.1)
    first.send_signal(signal.SIGKILL)
    left = len([line for line in lines + first.stdout.readlines() if line == "run\n"])
    others = [start(), start()]
    outputs = [worker.communicate(timeout=180)[0].splitlines() for worker in others]
    assert all(output[-1] == "finished" for output in outputs)
    runs = sum(output.count("run") for output in outputs)
    assert 12 <= left + runs <= 13


def test_the_schedule_is_recorded(tmp_path):
    found = dl.lr_transfer(Mlp, train, "mup", **PLAN, store=tmp_path / "runs.sqlite")
    assert found.schedule == "40 steps, from 0.2222 of the peak to 0.0278"
    assert found.schedule in str(found)


def longer_for_wide(model, groups, seed):
    return train(model, groups, seed, steps=2 if model.read_in.out_features == 32 else 3)


def falling_to_a_floor(model, groups, seed):
    optimizer = torch.optim.AdamW(groups)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4, eta_min=0.01)
    for _ in range(4):
        model(torch.ones(1, 12)).sum().backward()
        optimizer.step()
        schedule.step()
    return 1.0


def without_the_groups(model, groups, seed):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(torch.ones(1, 12)).sum().backward()
    optimizer.step()
    return 1.0


@pytest.mark.parametrize(
    ("train", "words"),
    [
        (longer_for_wide, "width 32, depth 4 trained for 2 steps.*width 64, depth 4 for 3 steps"),
        (falling_to_a_floor, "where the plan's ratios say"),
        (without_the_groups, "into one group with one learning rate"),
        (lambda model, groups, seed: None, "train returned None"),
    ],
)
def test_training_that_cannot_be_compared_is_refused(tmp_path, train, words):
    with pytest.raises(dl.DeepLimitsError, match=words):
        dl.lr_transfer(Mlp, train, "mup", **PLAN, store=tmp_path / "runs.sqlite")


def test_a_run_that_diverged_early_may_be_shorter(tmp_path):
    def stops(model, groups, seed):
        return nan if groups[0]["lr"] > 2.0**-5 else train(model, groups, seed, steps=2)

    found = dl.lr_transfer(Mlp, stops, "mup", **PLAN, store=tmp_path / "runs.sqlite")
    assert [curve.diverged for curve in found.curves] == [2, 2]
    assert found.schedule.startswith("2 steps")


def test_a_store_holds_several_studies(tmp_path):
    url, calls = f"sqlite:///{tmp_path / 'runs.sqlite'}", []
    for rule in ("mup", "sp"):
        dl.lr_transfer(Mlp, counted(calls), rule, **PLAN, store=url, study=rule)
    assert len(calls) == 24
    dl.lr_transfer(Mlp, counted(calls), "sp", **PLAN, store=url, study="sp")
    assert len(calls) == 24


@pytest.mark.slow
def test_rates_transfer_in_width_and_drift_without_a_rule(tmp_path):
    """Width 32 to 128 of a residual perceptron: 24 short trainings a rule."""
    plan = {
        "sizes": [{"width": 32, "depth": 2}, {"width": 128, "depth": 2}],
        "lrs": [2.0**-k for k in range(3, 9)],
        "seeds": 2,
    }
    right = dl.lr_transfer(Mlp, train, "mup", **plan, store=tmp_path / "mup.sqlite")
    wrong = dl.lr_transfer(Mlp, train, "sp", **plan, store=tmp_path / "sp.sqlite")
    assert abs(right.drift) <= 0.75
    assert wrong.drift <= -1.0


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sizes": PLAN["sizes"][:1]}, "1 different sizes"),
        ({"lrs": [0.1, 0.2]}, "three learning rates"),
        ({"lrs": [0.0, 0.1, 0.2]}, "above zero"),
        ({"lrs": ["a", 0.1, 0.2]}, r"lrs=\['a', 0.1, 0.2\]"),
        ({"lrs": [inf, 0.1, 0.2]}, "above zero"),
        ({"sizes": [{"width": 32}, {"width": 64.5}]}, "width=64.5 is no size"),
        ({"sizes": [{"wide": 32}, {"wide": 64}]}, "was given wide"),
        ({"seeds": 1}, "two or more"),
        ({"store": "nowhere://here"}, "cannot be opened"),
    ],
)
def test_refused(tmp_path, changed, words):
    with pytest.raises(dl.DeepLimitsError, match=words):
        dl.lr_transfer(Mlp, train, "mup", **{**PLAN, "store": tmp_path / "runs.sqlite", **changed})
