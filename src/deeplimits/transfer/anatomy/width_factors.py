"""Factors of the width that a model's own forward pass brings, so that no plan counts them twice."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, log
from typing import Any

import torch
from torch import nn

from deeplimits.errors import InputError
from deeplimits.transfer.anatomy.branches import last_gains
from deeplimits.transfer.anatomy.inputs import call
from deeplimits.transfer.anatomy.multiples import ALIKE, Numbers, Scaled, differing, numbers
from deeplimits.transfer.anatomy.names import bare
from deeplimits.transfer.anatomy.products import Product, Products
from deeplimits.transfer.anatomy.survey import Parameter
from deeplimits.transfer.anatomy.trial import Readouts, Trial
from deeplimits.transfer.anatomy.uses import Watch

_NEAR = 0.4  # of a power: sizes of activations of another width are equal only up to their fluctuations
_ERROR = 0.1
_BATCH, _DRAWS = 8, 1024
_REACH = 4


@dataclass
class Found:
    """What carries the factors of the width.

    Attributes:
        factors: {parameter of the base: factor that the target's forward pass gives it over the base's}.
        shifts: those of them that a norm reads as 1 + w.
        notes: what could not be measured, in words.
    """

    factors: dict[str, float] = field(default_factory=dict)
    shifts: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Wider:
    """Copies of one family at another width.

    Attributes:
        make: returns the model at so many times the width, with values.
        rows: one record a parameter of the model at twice the width, or of the target.
        power: of what four times the width brings, for the target over the base; None where `make` returns the target.
    """

    make: Callable[[int], nn.Module]
    rows: Sequence[Parameter]
    power: float | None = None


def measured(trial: Trial, draws: Sequence[Draws], places: Iterable[int]) -> dict[int, float]:
    """Return {place: factor by which a product differs between two widths}.

    A number that only makes good for a sum over the width (the root mean square of a norm that is written by hand)
    leaves the size of what comes out as it is, and is no factor.

    Args:
        trial: of the base.
        draws: of the base and of a wider copy.
        places: of products whose number differs.

    Raises:
        InputError: what comes out changes neither like the number nor not at all.
    """
    undone: dict[int, float] = {}
    found = {}
    for place in places:
        old, new = (of.product(place) for of in draws)
        ratio, squares = abs(new.number / old.number), ([], [])
        power, error = 0.5, inf
        while error > _ERROR and len(squares[0]) < _DRAWS:
            for of, changed, sizes in zip(draws, ({}, undone), squares, strict=True):
                sizes += [of.size(place, seed, changed) ** 2 for seed in range(len(sizes), len(sizes) + _BATCH)]
            power, error = _power(squares, ratio)
        if error <= _ERROR and abs(power - 1) < _NEAR:
            found[place], undone[place] = ratio, 1 / ratio
        elif error > _ERROR or abs(power) > _NEAR:
            raise _refusal(trial, old, new.number, "what it scales changes with the width as well")
    return found


def _power(squares: tuple[list[float], list[float]], ratio: float) -> tuple[float, float]:
    """Return the power of a ratio by which root mean squares differ, and its standard error."""
    small, large = (torch.tensor(side, dtype=torch.float64) for side in squares)
    if not bool(small.any() and large.any()):
        return 0.5, inf
    error = sum(float(side.var() / side.mean() ** 2) / len(side) for side in (small, large)) ** 0.5
    return float((large.mean() / small.mean()).log()) / 2 / log(ratio), error / 2 / abs(log(ratio))


class Draws:
    """A model whose entries are drawn from those of the base, over the root of how the fan-in grows.

    Activations keep their size so, whatever the layout of heads and fused matrices.

    Args:
        trial: of the base.
        model: the base or a wider copy; its values are replaced.
        rows: one record a parameter of a wider copy.
        power: of the ratios in `rows`, for this model; 0 for the base.
        tied: tables that are readouts as well: what they give as readouts is divided, not the table.
    """

    def __init__(self, trial: Trial, model: nn.Module, rows: Sequence[Parameter], power: float, tied: Iterable[str]):
        self.trial, self.model = trial, model.to(trial.dtype).eval()
        own = {bare(name): (p, trial.null[name]) for name, p in trial.own.items()}
        self.sources = {row.name: (*own[row.base_name], float(row.fan_in_ratio) ** (-power / 2)) for row in rows}
        wide = {row.name: float(row.fan_out_ratio) ** (-power / 2) for row in rows if row.base_name in set(tied)}
        self.tables = {p: wide[bare(name)] for name, p in self.model.named_parameters() if bare(name) in wide}

    def product(self, place: int) -> Scaled:
        """Return a product with a number, at the values that are there."""
        return numbers(self.model, self.trial.inputs)[place]

    def size(self, place: int, seed: int, changed: Mapping[int, float]) -> float:
        """Return the size of a product's result at fresh values.

        Args:
            place: of the product.
            seed: of the values.
            changed: {place of a product: number that its result is multiplied with}.
        """
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, p in self.model.named_parameters():
                source, null, share = self.sources[bare(name)]
                drawn = torch.randint(source.numel(), tuple(p.shape), generator=generator)
                p.copy_(null + share * (source.detach().flatten()[drawn] - null))
        with Readouts(self.tables):
            return numbers(self.model, self.trial.inputs, changed)[place].size


def idle(trial: Trial, place: int, products: Sequence[Product]) -> bool:
    """Say whether a product has no effect, or scales the logits of attention, which are counted there.

    Args:
        trial: of the base.
        place: of the product.
        products: of two activations, in the base.
    """
    once = trial.output()
    if trial.equal(_output(trial, place), once):
        return True
    for number, product in enumerate(products):
        if product.softmax:
            with torch.no_grad(), Products(trial.model, {number: 2.0}):
                if trial.equal(_output(trial, place), once):
                    return True
    return False


def carried(trial: Trial, place: int, tied: Iterable[str]) -> dict[str, float]:
    """Return {parameter: 1, or -1 for what its inverse is in}: half of them and twice the product change nothing.

    Args:
        trial: of the base.
        place: of the product.
        tied: names of tables that are readouts as well: the gains before the readout take the inverse.

    Raises:
        InputError: no parameters carry it.
    """
    once = trial.output()
    this = numbers(trial.model, trial.inputs)[place]
    for names in _candidates(trial, this.used):
        powers = dict.fromkeys(names, 1.0)
        if set(names) & set(tied):
            powers |= dict.fromkeys(_gains(trial, tied), -1.0)
        values = {
            name: trial.null[name] + (trial.own[name].detach() - trial.null[name]) * 2.0**-power
            for name, power in powers.items()
        }
        with trial.set(values):
            if trial.equal(_output(trial, place), once):
                return powers
    raise _refusal(trial, this, None, "no parameter carries it alone")


def _gains(trial: Trial, tied: Iterable[str]) -> list[str]:
    """Return the gains that a tied readout's input is linear in, if there are any."""
    try:
        found = last_gains(trial, tied)
    except InputError:
        return []
    return [name for name in trial.own if bare(name) in found]


def _output(trial: Trial, place: int) -> torch.Tensor:
    with torch.no_grad(), Watch(trial.model) as watch, Numbers(watch, {place: 2.0}):
        return call(trial.model, trial.inputs)


def _candidates(trial: Trial, used: int) -> Iterator[list[str]]:
    """Sets of parameters that may carry a factor: what was used just before, just after, all of the last few."""
    before, after = trial.order[:used][::-1], trial.order[used:]
    modules = list(dict.fromkeys(name.rpartition(".")[0] for name in before))[:_REACH]
    groups: list[list[str]] = [[name for name in before if name.rpartition(".")[0] == module] for module in modules]
    yield from (names for names in (*groups[:1], before[:1], after[:1]) if names)
    yield from ([name for group in groups[:count] for name in group] for count in range(2, len(groups) + 1))


def _after(trial: Trial, this: Scaled) -> str:
    return f"after {trial.order[this.used - 1]}" if this.used else "before any parameter"


def _refusal(trial: Trial, this: Scaled, other: float | None, because: str) -> InputError:
    change = "" if other is None else f" ({this.number:.4g} to {other:.4g})"
    why = (
        f"the forward pass scales by a number that changes with the width{change} {_after(trial, this)}, and {because}"
    )
    return InputError("transfer", why, "take the factor out of the forward pass: the plan brings its own")


def of_sizes(
    real: nn.Module,
    inputs: Any,
    seed: int,
    wider: Iterable[Wider],
    products: Sequence[Product],
    tied: Iterable[str],
) -> Found:
    """Measure the factors on copies, one size at a time.

    Args:
        real: the base, with values.
        inputs: what it takes.
        seed: of the trial.
        wider: the copies.
        products: of two activations, in the base.
        tied: names of tables that are readouts as well.

    Raises:
        InputError: a factor is no power of the width, or no parameter carries it.
    """
    found = Found()
    for copies in wider:
        places = differing(real, copies.make(2), inputs)
        if places is None:
            found.notes.append("not counted: factors of the width, if any: forward passes of two widths are not alike")
        if not places:
            continue
        trial = Trial(real, inputs, seed)
        places = [place for place in places if not idle(trial, place, products)]
        large = copies.make(4)
        power = 1.0 if copies.power is None else 2.0
        sides = ((copy.deepcopy(trial.model), 0.0), (large, power))
        draws = [Draws(trial, model, copies.rows, of, tied) for model, of in sides]
        for place, factor in measured(trial, draws, places).items():
            if copies.power is not None:
                _check_power(trial, place, [copies.make(2), large])
            for name, power in carried(trial, place, tied).items():
                power *= 1.0 if copies.power is None else copies.power
                whole = found.factors.get(bare(name), 1.0) * factor**power
                found.factors[bare(name)] = float(f"{whole:.12g}")
                found.shifts |= {bare(name)} if trial.null[name] else set()
    return found


def _check_power(trial: Trial, place: int, wider: Sequence[nn.Module]) -> None:
    old = numbers(trial.model, trial.inputs)[place]
    two, four = (numbers(model.to(trial.dtype).eval(), trial.inputs)[place].number for model in wider)
    if abs(four * old.number - two**2) > ALIKE * two**2:
        raise _refusal(trial, old, four, "it is no power of the width")
