"""One of the processes that train a planned model under DeepSpeed: what each ZeRO stage does to parameter groups.

It runs as a program of its own, `python -m deeplimits.claims.zero_stages FOLDER RANK WORLD STEPS STAGE...`, because
DeepSpeed takes over torch.distributed; the folder holds `plan.json`, and the first process writes `found.json` there.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import nn

from deeplimits.transfer.examples import gpt
from deeplimits.transfer.make import transfer
from deeplimits.transfer.plan import Plan

BASE, TARGET = {"width": 32, "depth": 4}, {"width": 64, "depth": 8}
RATE, DECAY, SECONDS = 4e-3, 0.1, 120


def planned() -> Plan:
    """Return the plan of the small transformer."""
    return transfer(gpt.build, BASE, TARGET, "completep")


def fresh(plan: Plan) -> nn.Module:
    """Return the target as the plan starts it."""
    torch.manual_seed(0)
    model = gpt.build(**TARGET)
    plan.apply(model, initial=True)
    return model


def groups_of(plan: Plan, model: nn.Module) -> list[dict[str, Any]]:
    """Return the plan's groups at the learning rate and decay of the claim."""
    return plan.param_groups(model, lr=RATE, weight_decay=DECAY)


def loss_of(model: Any, step: int) -> torch.Tensor:
    """Return the loss of a step's batch, the same in every process."""
    x, y = gpt.batch(step)
    return nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


def alone(plan: Plan, steps: int) -> list[float]:
    """Return the losses of torch's AdamW with the plan's groups, without DeepSpeed."""
    model = fresh(plan)
    optimizer, losses = torch.optim.AdamW(groups_of(plan, model)), []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, step)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def _by_name(groups: Any) -> dict[str, tuple[float, ...]]:
    return {name: (g["lr"], g["weight_decay"], g["eps"]) for g in groups for name in g.get("param_names", ())}


def _engine(plan: Plan, stage: int, rate: float = RATE, **more: Any) -> tuple[Any, dict[str, tuple[float, ...]]]:
    """Return an engine on the plan's groups as they are, and the groups' numbers before it was made."""
    import deepspeed  # type: ignore[import-not-found]

    model = fresh(plan)
    groups = plan.param_groups(model, lr=rate, weight_decay=DECAY)
    config = {"train_micro_batch_size_per_gpu": gpt.SEQUENCES, "zero_optimization": {"stage": stage}, **more}
    config |= {"zero_allow_untested_optimizer": True, "gradient_clipping": 0.0}
    given = _by_name(groups)
    return deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(groups), config=config)[0], given


def _trained(engine: Any, steps: range) -> list[float]:
    losses = []
    for step in steps:
        loss = loss_of(engine, step)
        engine.backward(loss)
        engine.step()
        losses.append(float(loss.detach()))
    return losses


def _changed(engine: Any, given: dict[str, tuple[float, ...]]) -> int:
    now = _by_name(engine.optimizer.param_groups)
    return sum(now.get(name) != numbers for name, numbers in given.items())


def _worst_ratio(engine: Any, given: dict[str, tuple[float, ...]]) -> float:
    """Return the largest relative error of a learning rate over the first one, from the ratio that was given."""
    now = _by_name(engine.optimizer.param_groups)
    first = next(iter(given))
    errors = [now[n][0] / now[first][0] / (given[n][0] / given[first][0]) - 1 for n in given]
    return max(abs(error) for error in errors)


def stage(plan: Plan, number: int, steps: int, folder: Path) -> dict[str, Any]:
    """Return what one ZeRO stage does to the groups: when made, trained and resumed, and under WarmupLR."""
    engine, given = _engine(plan, number)
    made = _changed(engine, given)
    losses = _trained(engine, range(steps))
    trained = _changed(engine, given)
    engine.save_checkpoint(folder / f"stage-{number}", tag="end")
    other, _ = _engine(plan, number, rate=0.5)
    other.load_checkpoint(folder / f"stage-{number}", tag="end")
    found: dict[str, Any] = {
        "parameters": len(given),
        "made": made,
        "trained": trained,
        "resumed": _changed(other, given),
    }
    for name, bounds in (("warmup", {}), ("one maximum", {"warmup_max_lr": RATE})):
        params = {"warmup_num_steps": steps, "warmup_type": "linear", **bounds}
        engine, given = _engine(plan, number, scheduler={"type": "WarmupLR", "params": params})
        _trained(engine, range(2))
        found[name] = _worst_ratio(engine, given)
    return {**found, "losses": losses}


def main(folder: Path, rank: int, world: int, steps: int, stages: list[int]) -> None:
    """Train under every stage, and write what was found."""
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), LOCAL_SIZE=str(world))
    import deepspeed  # type: ignore[import-not-found]
    import torch.distributed as dist

    torch.set_num_threads(1)
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # else it is compiled, for hosts with many processes
    place = f"file://{folder / 'rendezvous'}"
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=world, timeout=timedelta(seconds=SECONDS))
    deepspeed.init_distributed("gloo")
    plan = Plan.load(folder / "plan.json")
    found = {str(number): stage(plan, number, steps, folder) for number in stages}
    if rank == 0:
        (folder / "found.json").write_text(json.dumps({"version": deepspeed.__version__, "stages": found}))
    dist.destroy_process_group()


if __name__ == "__main__":
    place, *rest = sys.argv[1:]
    rank, world, steps, *stages = (int(word) for word in rest)
    main(Path(place), rank, world, steps, stages)
