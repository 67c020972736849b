"""`deeplimits transfer check`: do activations, updates and logits keep their size as the model grows?"""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter


def check(
    target: str,
    /,
    *,
    width: str | None = None,
    depth: str | None = None,
    rule: str = "completep",
    against: str | None = None,
    optimizer: str = "adamw",
    alpha: float | None = None,
    lr: float = 4e-3,
    steps: int = 4,
    seeds: int = 4,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Train small copies for a few steps and fit how each module's updates scale in width and in depth.

    Exit code 1: an exponent of the rule lies outside its margin.

    Parameters
    ----------
    target
        module:function or file.py:function that builds the model from width and depth; or mlp, resnet, vit, gpt.
    width
        Sizes of the width axis, at the smallest depth; 32,64,128 by default, one number for no such axis.
    depth
        Sizes of the depth axis, at the smallest width; 4,8,16 by default for rules with a depth part.
    rule
        Parametrization: sp, ntp, mup, depth_mup, completep and others (deeplimits transfer rules).
    against
        Rules to set beside it, as sp,mup.
    optimizer
        A name of torch.optim: adamw, adam, sgd and others.
    alpha
        Another exponent of residual branches, which are scaled by depth^-alpha.
    lr
        Learning rate of the base.
    steps
        Of training.
    seeds
        Number of initial values.
    json
        Print one JSON document on stdout and nothing else.
    """
    from deeplimits.cli import console
    from deeplimits.cli.transfer import options
    from deeplimits.cli.transfer import target as found

    model = found.read(target, optimizer=optimizer)
    rules = options.chosen(rule, against, alpha)
    grid = model.grid(width, depth, options.deep(rule, alpha))
    settings = {"optimizer": optimizer, "lr": lr, "steps": steps, "seeds": seeds}
    with options.told():
        checks = measured(model, grid, rules, settings)
    if json:
        console.document({"target": target, "checks": options.plain(checks)})
    else:
        print("\n\n".join(map(str, checks)))
    return int(checks[0].verdict == "fail")


def measured(
    model: Any, grid: dict[str, list[int]], rules: list[tuple[str, float | None]], settings: dict[str, Any]
) -> list[Any]:
    """Return a coordinate check of each rule.

    Args:
        model: a Target.
        grid: widths and depths; an axis of one size is kept.
        rules: (name, alpha).
        settings: of the check.
    """
    from deeplimits.transfer.evidence.coordinates import coordinate_check

    wide, tall = axes(grid, settings)
    base = {name: min(values) for name, values in grid.items()}
    model.check([{**base, name: size} for name, values in grid.items() for size in values])
    return [
        coordinate_check(model.build, name, wide, tall, base, batch=model.batch, alpha=alpha, **settings)
        for name, alpha in rules
    ]


def axes(grid: dict[str, list[int]], settings: dict[str, Any]) -> tuple[list[int], list[int]]:
    """Return widths and depths of a check, empty for an axis of one size.

    Args:
        grid: widths and depths.
        settings: of the check.

    Raises:
        InputError: too few sizes, steps or seeds.
    """
    from deeplimits.errors import InputError
    from deeplimits.transfer.evidence.coordinates import suffices

    found = (sorted(set(grid.get(name, []))) for name in ("width", "depth"))
    wide, tall = (sizes if len(sizes) > 1 else [] for sizes in found)
    if not wide and not tall:
        raise InputError("--width and --depth", "both axes have one size", "give three or more widths, or depths")
    suffices(wide, tall, settings["steps"], settings["seeds"])
    return wide, tall
