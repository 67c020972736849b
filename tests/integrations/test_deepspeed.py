"""Plans under DeepSpeed: against an engine that treats groups as DeepSpeed does, and against DeepSpeed itself."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import deeplimits as dl
from deeplimits.integrations import deepspeed as glue
from deeplimits.integrations.groups import check, numbers
from tests.integrations import engine
from tests.integrations.conftest import SIZES
from tests.transfer.models import Mlp

ROOT = Path(__file__).parents[2]
RATE, DECAY = 2e-3, 0.1


@pytest.fixture
def deepspeed(monkeypatch):
    monkeypatch.setitem(sys.modules, "deepspeed", engine.module())


@pytest.mark.usefixtures("deepspeed")
@pytest.mark.parametrize(
    "config",
    [
        {},
        {"optimizer": {"type": "AdamW", "params": {"lr": 1.0, "eps": 0.5}}},
        {"scheduler": {"type": "WarmupLR", "params": {}}},
        {"scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": RATE}}},
        {"scheduler": {"type": "OneCycle", "params": {"cycle_max_lr": RATE, "cycle_min_lr": 0.1 * RATE}}},
    ],
    ids=str,
)
def test_report_28_groups_come_through_unchanged(plan, model, config, tmp_path):
    """deepspeedai/DeepSpeed#8440, #8438, #7713: groups were rebuilt, flattened, or given one rate by a scheduler."""
    expected = numbers(plan.param_groups(model, lr=RATE, weight_decay=DECAY))
    before = copy.deepcopy(config)
    _, optimizer, _, _ = glue.initialize(plan, model, config, lr=RATE, weight_decay=DECAY)
    assert numbers(optimizer.param_groups) == expected
    assert config == before
    (tmp_path / "config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    _, optimizer, _, _ = glue.initialize(plan, Mlp(**SIZES["target"]), tmp_path / "config.json", RATE, DECAY)
    assert numbers(optimizer.param_groups) == expected


@pytest.mark.usefixtures("deepspeed")
@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"forget": True}, "groups were built anew"),
        ({"overwrite": {"lr": 1e-3}}, "the plan says"),
        ({"overwrite": {"weight_decay": 0.5}}, "weight decay of read_in.weight was 0.1 and is 0.5 now"),
        ({"overwrite": {"eps": 1e-6}}, "epsilon of read_in.weight was 5e-09 and is 1e-06 now"),
        ({"optimizer": {"type": "Muon", "params": {}}}, "Muon builds parameter groups of its own"),
        ({"optimizer": {"type": "SGD", "params": {}}}, "is SGD, the plan is for adamw"),
    ],
    ids=str,
)
def test_engines_that_change_them_are_refused(plan, model, config, words):
    with pytest.raises(dl.DeepLimitsError, match=words):
        glue.initialize(plan, model, config, lr=RATE, weight_decay=DECAY)


@pytest.mark.usefixtures("deepspeed")
def test_one_learning_rate_for_all_groups_is_caught(plan, model):
    """WarmupLR with one maximum, given to DeepSpeed by hand."""
    optimizer = torch.optim.AdamW(plan.param_groups(model, lr=RATE))
    config = {"scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": RATE}}}
    engine.initialize(model, config, optimizer=optimizer)
    with pytest.raises(dl.DeepLimitsError, match="the plan says"):
        check(plan, optimizer)


@pytest.mark.usefixtures("deepspeed")
def test_models_partitioned_from_the_start(plan):
    torch.manual_seed(0)
    whole = Mlp(**SIZES["target"])
    parts = engine.partitioned(copy.deepcopy(whole))
    assert numbers(plan.param_groups(parts, lr=RATE)) == numbers(plan.param_groups(whole, lr=RATE))
    with pytest.raises(dl.DeepLimitsError, match=r"partitioned by ZeRO stage 3.*integrations\.deepspeed\.apply"):
        plan.apply(parts, initial=True)
    plan.apply(whole, initial=True)
    glue.apply(plan, parts, initial=True)
    for p, q in zip(parts.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(p.held, q.detach(), rtol=0, atol=0)
    with pytest.raises(dl.DeepLimitsError, match="already have the planned"):
        glue.apply(plan, parts, initial=True)


def test_report_03_roles_are_read_off_whole_shapes():
    """microsoft/mup#6, does it work with ZeRO? Of a target that is partitioned already, whole shapes tell the fans."""
    torch.manual_seed(0)
    small, large = Mlp(**SIZES["base"]), Mlp(64, 4)
    expected = dl.transfer(copy.deepcopy(large), base=small, rule="mup")
    found = dl.transfer(engine.partitioned(large), base=small, rule="mup")
    assert {row.name: (row.shape, row.role, row.lr_mult) for row in found.rows} == {
        row.name: (row.shape, row.role, row.lr_mult) for row in expected.rows
    }


def test_without_deepspeed(plan, model, monkeypatch):
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    with pytest.raises(dl.errors.MissingExtra, match=r"deeplimits\[deepspeed\]"):
        glue.initialize(plan, model, {}, lr=RATE)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What DeepSpeed did, in a process of its own: it takes over torch.distributed."""
    if find_spec("deepspeed") is None:
        pytest.skip("DeepSpeed is not installed")
    folder = tmp_path_factory.mktemp("deepspeed")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.integrations.deepspeed_run", folder]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    return json.loads((folder / "found.json").read_text())


CASES = ["stage 0", "stage 1", "stage 2", "stage 3", "its own AdamW", "WarmupLR", "OneCycle", "checkpoint", "Init"]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_deepspeed(found, case):
    """Groups by name, and losses of five steps, against torch alone; DeepSpeed starts once for all cases."""
    assert found[case] == ""
