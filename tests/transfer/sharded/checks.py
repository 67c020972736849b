"""What must hold when two processes share a planned model; each function raises where it does not."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from deeplimits.errors import DeepLimitsError
from tests.transfer.models import Gpt, Mlp

__all__ = [
    "averaged_before_sharding",
    "checkpoint_distributed",
    "checkpoint_full",
    "clipped_and_watched_as_one_process",
    "data_parallel",
    "initial_values",
    "initial_values_measured_at_apply",
    "materialised_from_meta",
    "parts_of_sharded_matrices_are_refused",
    "report_02_rates_by_name",
    "report_30_tied_table_in_one_group",
    "trains_as_one_process",
    "two_optimizers",
]

TARGET = {"width": 64, "depth": 8}
RATE, DECAY = 2e-3, 0.1


def fresh(seed=0):
    torch.manual_seed(seed)
    return Mlp(**TARGET)


def sharded(model):
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def values(model):
    return {name: whole(p.detach()).clone() for name, p in model.named_parameters()}


def adamw(plan, model):
    return torch.optim.AdamW(plan.param_groups(model, lr=RATE, weight_decay=DECAY))


def numbers(optimizer):
    """{name: (learning rate, decay, epsilon)}."""
    return {
        name: (group["lr"], group["weight_decay"], group["eps"])
        for group in optimizer.param_groups
        for name in group["param_names"]
    }


def losses(model, optimizers, steps):
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(20, 12, generator=generator), torch.randint(3, (20,), generator=generator)
    found = []
    for _ in range(steps):
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        found.append(loss.detach())
    return torch.stack(found)


def refused(words, work):
    with pytest.raises(DeepLimitsError, match=words):
        work()


def report_02_rates_by_name(plans, folder):
    """microsoft/mup#59, #72: sharding lost what hung on parameters."""
    plan = plans["mlp"]
    one = numbers(adamw(plan, fresh()))
    assert len(set(one.values())) == 8
    assert numbers(adamw(plan, sharded(fresh()))) == one
    assert numbers(adamw(plan, DistributedDataParallel(fresh()))) == one


def initial_values(plans, folder):
    plan, one, two = plans["mlp"], fresh(), sharded(fresh())
    plan.apply(one, initial=True)
    plan.apply(two, initial=True)
    torch.testing.assert_close(values(two), values(one), rtol=0, atol=0)
    assert all(isinstance(p, DTensor) for p in two.parameters())
    refused("already have the planned", lambda: plan.apply(two, initial=True))


def initial_values_measured_at_apply(plans, folder):
    """A plan from two instances multiplies by what it measures: over all shards, or else each would be its own."""
    plan, one, two = plans["instances"], fresh(), sharded(fresh())
    first, second = plan.apply(one, initial=True), plan.apply(two, initial=True)
    for row in first.rows:
        assert abs(second[row.name].init_mult / row.init_mult - 1) < 1e-6
    torch.testing.assert_close(values(two), values(one), rtol=1e-6, atol=0)
    refused("already have the planned", lambda: first.apply(two, initial=True))


def trains_as_one_process(plans, folder):
    plan, one, two = plans["mlp"], fresh(), sharded(fresh())
    for model in (one, two):
        plan.apply(model, initial=True)
    first, second = (losses(model, [adamw(plan, model)], 5) for model in (one, two))
    assert first[-1] < first[0]
    torch.testing.assert_close(second, first, rtol=1e-4, atol=0)


def data_parallel(plans, folder):
    plan, one, two = plans["mlp"], fresh(), DistributedDataParallel(fresh())
    for model in (one, two):
        plan.apply(model, initial=True)
    torch.testing.assert_close(values(two.module), values(one), rtol=0, atol=0)
    refused("already have the planned", lambda: plan.apply(two, initial=True))
    first, second = (losses(model, [adamw(plan, model)], 5) for model in (one, two))
    torch.testing.assert_close(second, first, rtol=1e-4, atol=0)


def _resumed(plan, save, load):
    """Five steps on end against three, a checkpoint, and two from it by other weights and another learning rate."""
    model = sharded(fresh())
    plan.apply(model, initial=True)
    optimizer = adamw(plan, model)
    losses(model, [optimizer], 3)
    save(model, optimizer)
    expected = losses(model, [optimizer], 2)
    again = sharded(fresh(seed=5))
    later = torch.optim.AdamW(plan.param_groups(again, lr=0.7, weight_decay=0.3))
    load(again, later)
    plan.guard(later)
    assert numbers(later) == numbers(optimizer)
    torch.testing.assert_close(losses(again, [later], 2), expected, rtol=0, atol=0)


def checkpoint_distributed(plans, folder):
    def state(model, optimizer):
        held = get_state_dict(model, optimizer)
        return {"model": held[0], "optimizer": held[1]}

    def load(model, optimizer):
        held = state(model, optimizer)
        dcp.load(held, checkpoint_id=folder / "distributed")
        set_state_dict(model, optimizer, model_state_dict=held["model"], optim_state_dict=held["optimizer"])

    _resumed(plans["mlp"], lambda m, o: dcp.save(state(m, o), checkpoint_id=folder / "distributed"), load)


def checkpoint_full(plans, folder):
    """Whole tensors in one file of torch.save, as a single process would write it."""
    options, path = StateDictOptions(full_state_dict=True, cpu_offload=True), folder / "full.pt"

    def save(model, optimizer):
        held = get_state_dict(model, optimizer, options=options)
        if dist.get_rank() == 0:
            torch.save(held, path)
        dist.barrier()

    def load(model, optimizer):
        weights, state = torch.load(path, weights_only=True)
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state, options=options)

    _resumed(plans["mlp"], save, load)
    weights, _ = torch.load(path, weights_only=True)
    assert set(weights) == {name for name, _ in fresh().named_parameters()}
    fresh().load_state_dict(weights)


def report_30_tied_table_in_one_group(plans, folder):
    """huggingface/accelerate#4171: tied parameters across groups were rejected. Table, last norm and readout as one."""
    plan, ids = plans["tied"], torch.arange(12).reshape(2, 6)

    def build():
        torch.manual_seed(0)
        return Gpt(**TARGET, tied=True)

    one, two = build(), build()
    for layer in two.layers:
        fully_shard(layer)
    fully_shard([two.words, two.norm, two.head])
    fully_shard(two)
    found = []
    for model in (one, two):
        plan.apply(model, initial=True)
        optimizer = adamw(plan, model)
        for _ in range(3):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
            loss.backward()
            optimizer.step()
        found.append((numbers(optimizer), loss.detach()))
    assert found[0][0] == found[1][0]
    torch.testing.assert_close(found[1][1], found[0][1], rtol=1e-4, atol=0)
    assert two.words.weight is two.head.weight


def two_optimizers(plans, folder):
    plan, rates = plans["mlp"], {"muon": 0.02, "adamw": 1e-3}
    found = []
    for model in (fresh(), sharded(fresh())):
        plan.apply(model, initial=True)
        pair = plan.optimizers(model, lr=rates, weight_decay=DECAY)
        groups = [group for optimizer in pair.values() for group in optimizer.param_groups]
        names = {name: (group["lr"], group["weight_decay"]) for group in groups for name in group["param_names"]}
        found.append((names, losses(model, pair.values(), 3)))
    assert found[0][0] == found[1][0]
    assert found[0][1][-1] < found[0][1][0]
    torch.testing.assert_close(found[1][1], found[0][1], rtol=1e-3, atol=0)


def parts_of_sharded_matrices_are_refused(plans, folder):
    """Key and value side by side lie in parts on several processes: refused at the first step, with a way out."""
    plan = plans["tied"]
    torch.manual_seed(0)
    model = Gpt(**TARGET, tied=True)
    fully_shard(model)
    pair = plan.optimizers(model, lr={"muon": 0.02, "adamw": 1e-3}, split={"both": 2})
    ids = torch.arange(12).reshape(2, 6)
    model(ids).square().mean().backward()
    refused("is sharded: its parts lie on several processes", pair["muon"].step)
    pair["adamw"].step()


def clipped_and_watched_as_one_process(plans, folder):
    plan, found = plans["mlp"], []
    for model in (fresh(), sharded(fresh())):
        plan.apply(model, initial=True)
        optimizer, samples = adamw(plan, model), []
        with plan.watch(optimizer, every=1, to=samples.extend):
            generator = torch.Generator().manual_seed(1)
            x, y = torch.randn(20, 12, generator=generator), torch.randint(3, (20,), generator=generator)
            nn.functional.cross_entropy(model(x), y).backward()
            norm = plan.clip_grad_norm(model, 0.1)
            again = plan.clip_grad_norm(model, 0.1)
            optimizer.step()
        found.append((norm, again, samples))
    assert found[0][0] > 0.1
    for place in (0, 1):
        torch.testing.assert_close(found[1][place], found[0][place], rtol=1e-5, atol=0)
    torch.testing.assert_close(found[1][1], torch.tensor(0.1), rtol=1e-4, atol=0)
    measured = {(s.what, s.name): s.measured for s in found[0][2]}
    if dist.get_rank() == 0:  # the first process writes for all
        assert len(measured) > 10
        assert {(s.what, s.name) for s in found[1][2]} == set(measured)
        for s in found[1][2]:
            assert abs(s.measured / measured[s.what, s.name] - 1) < 1e-3


def averaged_before_sharding(plans, folder):
    """A sharded module cannot be copied (torch's own limit): the average is made first, and sharded beside it."""
    plan, model = plans["mlp"], fresh()
    plan.apply(model, initial=True)
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5))
    sharded(model), sharded(average.module)
    optimizer = adamw(plan, model)
    before = values(average.module)["head.weight"]
    average.update_parameters(model)
    losses(model, [optimizer], 1)
    average.update_parameters(model)
    halfway = (before + values(model)["head.weight"]) / 2
    torch.testing.assert_close(values(average.module)["head.weight"], halfway, rtol=1e-6, atol=1e-9)
    assert numbers(adamw(plan, average)) == numbers(optimizer)


def materialised_from_meta(plans, folder):
    plan = plans["mlp"]
    with torch.device("meta"):
        model = Mlp(**TARGET)
    sharded(model)
    refused("meta device", lambda: plan.apply(model, initial=True))
    model.to_empty(device="cpu")
    torch.manual_seed(0)
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    before = values(model)
    plan.apply(model, initial=True)
    for name, after in values(model).items():
        torch.testing.assert_close(after, before[name] * plan[name].init_mult, rtol=1e-6, atol=0)
    refused("already have the planned", lambda: plan.apply(model, initial=True))
