"""What DeepSpeed does to parameter groups, without DeepSpeed: flat parameters, rates of a scheduler, groups rebuilt."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import torch

SCHEDULERS = {"WarmupLR": "warmup_max_lr", "OneCycle": "cycle_max_lr"}


def initialize(model, config, optimizer=None, model_parameters=None):
    """Groups keep their numbers and names, their parameters become one flat part of each; a number of the scheduler is
    given to every group, a list one by one; Muon of the configuration keeps rates and forgets names."""
    if optimizer is None:
        given = list(model.parameters() if model_parameters is None else model_parameters)
        params = {key: value for key, value in config["optimizer"]["params"].items() if key in ("lr", "eps")}
        optimizer = torch.optim.AdamW(given, **params)
    for group in optimizer.param_groups:
        group["params"] = [torch.cat([p.detach().flatten() for p in group["params"]])[::2]]
        if config.get("optimizer", {}).get("type") == "Muon" or config.get("forget"):
            group.pop("param_names", None)
        group.update(config.get("overwrite", {}))
    if "scheduler" in config:
        top = config["scheduler"]["params"].get(SCHEDULERS[config["scheduler"]["type"]])
        for place, group in enumerate(optimizer.param_groups):
            rate = group["lr"] if top is None else top[place] if isinstance(top, list) else top
            group["lr"] = rate
    return SimpleNamespace(module=model, optimizer=optimizer), optimizer, None, None


def partitioned(model):
    """Every parameter holds nothing, and knows its shape and where its values are."""
    for parameter in model.parameters():
        parameter.ds_shape, parameter.held = parameter.shape, parameter.data
        parameter.data = torch.empty(0)
    return model


@contextmanager
def gathered(parameters, modifier_rank=None):
    for parameter in parameters:
        parameter.data = parameter.held
    yield
    for parameter in parameters:
        if modifier_rank is not None:
            parameter.held = parameter.data
        parameter.data = torch.empty(0)


def module():
    return SimpleNamespace(initialize=initialize, zero=SimpleNamespace(GatheredParameters=gathered))
