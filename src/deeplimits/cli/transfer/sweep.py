"""`deeplimits transfer sweep`: where the best learning rate lies at each size, and whether it moves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

STORE = "out/transfer/sweep.sqlite"


def sweep(
    target: str,
    /,
    *,
    width: str | None = None,
    depth: str | None = None,
    lr: str = "2^-12..2^-4",
    rule: str = "completep",
    against: str | None = None,
    train: str | None = None,
    optimizer: str = "adamw",
    alpha: float | None = None,
    weight_decay: float = 0.0,
    seeds: int = 5,
    margin: float = 0.75,
    store: str = STORE,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Train every size at every learning rate and seed, and say whether the best learning rate transfers.

    Every run finished is stored at once; after an interruption the same command goes on where it stopped, and other
    processes or machines that name the same store share the runs. Exit code 1: the best learning rate drifts.

    Parameters
    ----------
    target
        module:function or file.py:function that builds the model from width and depth; or mlp, resnet, vit, gpt.
    width
        Widths, the base's first; 32,64,128 by default.
    depth
        Depths beside the widths, 4,8,16 by default for rules with a depth part; one number is kept.
    lr
        Learning rates of the base: 2^-12..2^-4 doubles from one to the other; or a list as 0.001,0.003,0.01.
    rule
        Parametrization: sp, ntp, mup, depth_mup, completep and others (deeplimits transfer rules).
    against
        Rules to set beside it, as sp,mup.
    train
        module:function that trains, train(model, groups, seed); by default the one beside TARGET.
    optimizer
        Name or family of the optimizer that train makes.
    alpha
        Another exponent of residual branches, which are scaled by depth^-alpha.
    weight_decay
        Of the base.
    seeds
        Of initial values and data.
    margin
        Drift in octaves that still counts as transfer.
    store
        An SQLite file, or a database URL, as postgresql://user@host/runs.
    json
        Print one JSON document on stdout and nothing else.
    """
    from deeplimits.cli import console, read
    from deeplimits.cli.transfer import options
    from deeplimits.cli.transfer import target as found

    model = found.read(target, train, optimizer)
    rules = options.chosen(rule, against, alpha)
    sizes = options.joined(model.grid(width, depth, options.deep(rule, alpha)))
    settings = {"seeds": seeds, "optimizer": optimizer, "weight_decay": weight_decay, "margin": margin}
    try:
        with options.told():
            transfers = measured(model, sizes, read.rates("--lr", lr), rules, store, settings | {"progress": not json})
    except KeyboardInterrupt:
        console.say(f"\ninterrupted; finished runs are kept in {store}: the same command goes on from there")
        return 130
    if json:
        console.document({"target": target, "store": store, "transfers": options.plain(transfers)})
    else:
        print("\n\n".join(map(str, transfers)))
    return int(transfers[0].verdict == "drifts")


def measured(
    model: Any,
    sizes: list[dict[str, int]],
    rates: list[float],
    rules: list[tuple[str, float | None]],
    store: str,
    settings: dict[str, Any],
) -> list[Any]:
    """Return the learning-rate curves of each rule; those set beside the first have studies of their own in the store.

    Args:
        model: a Target.
        sizes: the base first.
        rates: learning rates of the base.
        rules: (name, alpha).
        store: a file or a database URL.
        settings: of the sweep.
    """
    from deeplimits.cli import imports

    imports.whole("deeplimits.transfer.evidence.sweep", "optuna")
    from deeplimits.errors import InputError
    from deeplimits.transfer.evidence.sweep import STUDY, lr_transfer, suffices

    suffices(sizes, rates, settings["seeds"])
    if model.train is None:
        why = f"there is no train beside {model.words}, and the model takes neither the bundled digits nor text"
        fix = "write batch(seed), which returns (inputs, labels), or train(model, groups, seed), beside it; or --train"
        raise InputError("--train", why, fix)
    model.check(sizes)
    if "://" not in store:
        _folder(Path(store).parent)
    return [
        lr_transfer(
            model.build, model.train, name, sizes, rates, store=store, alpha=alpha, inputs=model.inputs,
            study=STUDY if place == 0 else f"{STUDY} {name}", **settings,
        )
        for place, (name, alpha) in enumerate(rules)
    ]  # fmt: skip


def _folder(path: Path) -> None:
    from deeplimits.errors import InputError

    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fix = "name a file in a folder you can write to"
        raise InputError("--store", f"{str(path)!r} cannot be written ({error})", fix) from None
