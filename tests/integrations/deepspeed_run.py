"""Train a planned model under DeepSpeed's stages and schedulers, and write what differs from torch alone."""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

import torch
import torch.distributed as dist

import deeplimits as dl
from deeplimits.integrations import deepspeed as glue
from deeplimits.integrations.groups import check, numbers
from tests.transfer.models import Mlp

BASE, TARGET = {"width": 32, "depth": 4}, {"width": 64, "depth": 8}
RATE, DECAY, STEPS = 2e-3, 0.1, 5
X, Y = torch.linspace(-1, 1, 48).reshape(4, 12), torch.tensor([0, 1, 2, 0])


def fresh(plan):
    torch.manual_seed(0)
    model = Mlp(**TARGET)
    plan.apply(model, initial=True)
    return model


def steps(engine, count):
    losses = []
    for _ in range(count):
        loss = torch.nn.functional.cross_entropy(engine(X), Y)
        engine.backward(loss)
        engine.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def plain(plan):
    model = fresh(plan)
    groups = plan.param_groups(model, lr=RATE, weight_decay=DECAY)
    kept, optimizer, losses = numbers(groups), torch.optim.AdamW(groups), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(X), Y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return kept, torch.stack(losses)


def config(stage, **more):
    return {
        "train_micro_batch_size_per_gpu": len(X),
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
        "gradient_clipping": 0.0,  # 1.0 where nothing is said
        **more,
    }


def engine_of(plan, model, held):
    return glue.initialize(plan, model, held, lr=RATE, weight_decay=DECAY)[0]


def trains_alike(plan, held):
    kept, losses = plain(plan)
    engine = engine_of(plan, fresh(plan), held)
    assert numbers(engine.optimizer.param_groups) == kept
    found = steps(engine, STEPS)
    assert numbers(engine.optimizer.param_groups) == kept
    torch.testing.assert_close(found, losses, rtol=1e-4, atol=0)


def schedules(plan, kind, **params):
    """Ratios hold at every step, from a configuration that names the base's learning rates only."""
    held = config(2, scheduler={"type": kind, "params": params})
    engine = engine_of(plan, fresh(plan), held)
    rates = set()
    for _ in range(STEPS):
        steps(engine, 1)
        check(plan, engine.optimizer)
        rates.add(engine.optimizer.param_groups[0]["lr"])
    assert len(rates) > 1 and max(rates) > 0


def checkpoint(plan, folder):
    engine = engine_of(plan, fresh(plan), config(2))
    steps(engine, 2)
    engine.save_checkpoint(folder, tag="two")
    expected = steps(engine, 2)
    groups = plan.param_groups(model := fresh(plan), lr=0.5, weight_decay=DECAY)
    import deepspeed

    other = deepspeed.initialize(model=model, config=config(2), optimizer=torch.optim.AdamW(groups))[0]
    other.load_checkpoint(folder, tag="two")
    assert numbers(other.optimizer.param_groups) == numbers(engine.optimizer.param_groups)
    torch.testing.assert_close(steps(other, 2), expected, rtol=1e-6, atol=0)


def init(plan):
    """Built under zero.Init: roles by name, initial values as if whole, refused twice."""
    import deepspeed

    with deepspeed.zero.Init(config_dict_or_path=config(3)):
        torch.manual_seed(0)
        model = Mlp(**TARGET)
    with deepspeed.zero.GatheredParameters(list(model.parameters())):
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
    glue.apply(plan, model, initial=True)
    with deepspeed.zero.GatheredParameters(list(model.parameters())):
        for name, p in model.named_parameters():
            torch.testing.assert_close(p.detach(), before[name] * plan[name].init_mult, rtol=1e-6, atol=0)
    losses = steps(engine_of(plan, model, config(3)), STEPS)
    assert losses[-1] < losses[0]


def main(folder: Path) -> None:
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", LOCAL_SIZE="1")
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # else it is compiled for communication on one host
    dist.init_process_group("gloo", init_method=f"file://{folder / 'rendezvous'}", rank=0, world_size=1)
    deepspeed.init_distributed("gloo")
    plan = dl.transfer(Mlp, base=BASE, target=TARGET)
    own = {"optimizer": {"type": "AdamW", "params": {"lr": RATE, "torch_adam": True}}}
    cases = {f"stage {stage}": lambda stage=stage: trains_alike(plan, config(stage)) for stage in range(4)}
    cases |= {
        "its own AdamW": lambda: trains_alike(plan, config(2, **own)),
        "WarmupLR": lambda: schedules(plan, "WarmupLR", warmup_max_lr=RATE, warmup_num_steps=4, warmup_type="linear"),
        "OneCycle": lambda: schedules(plan, "OneCycle", cycle_min_lr=1e-4, cycle_max_lr=RATE, cycle_first_step_size=3),
        "checkpoint": lambda: checkpoint(plan, folder / "checkpoint"),
        "Init": lambda: init(plan),
    }
    found = {}
    for name, case in cases.items():
        try:
            case()
            found[name] = ""
        except Exception:
            found[name] = traceback.format_exc()
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
