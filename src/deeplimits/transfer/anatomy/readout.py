"""Tied readouts without a gain before them: the number that scales their logits."""

from __future__ import annotations

from collections.abc import Iterable

from deeplimits.errors import InputError
from deeplimits.transfer.anatomy.branches import Ends, last_gains
from deeplimits.transfer.anatomy.trial import Trial


def carriers(trial: Trial, tables: Iterable[str], width: float) -> tuple[Ends, dict[str, float]]:
    """Return what carries the factor 1/width of a tied readout: gains, or else a number that a module holds.

    Args:
        trial: of the base.
        tables: names of the tied tables.
        width: ratio of the readout's fan-in, target over base.

    Returns:
        the gains and biases of the last norm; else {"module.attribute": factor}, for a number that the output is
        proportional to, or inversely.

    Raises:
        InputError: neither is there.
    """
    try:
        return last_gains(trial, tables), {}
    except InputError:
        found = _number(trial, width)
        if not found:
            raise
        return {}, found


def _number(trial: Trial, width: float) -> dict[str, float]:
    once = trial.output()
    for path, module in trial.model.named_modules():
        for name, value in list(vars(module).items()):
            if not isinstance(value, float) or not value:
                continue
            with trial.held(module, name, 2 * value):
                twice = trial.output()
            for factor, expected in ((1 / width, 2 * once), (width, once / 2)):
                if trial.equal(twice, expected):
                    return {f"{path}.{name}".lstrip("."): factor}
    return {}
