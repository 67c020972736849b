"""What two sizes of a model tell: fans, blocks, residual branches, readouts, attention, initial values."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from deeplimits.errors import InputError
from deeplimits.transfer.anatomy import branches, checks, depth_factors, initial, width_factors
from deeplimits.transfer.anatomy.branches import Ends
from deeplimits.transfer.anatomy.copies import Copies, copies
from deeplimits.transfer.anatomy.inputs import example
from deeplimits.transfer.anatomy.logits import Mended, factors, mend, open_ends, unseen
from deeplimits.transfer.anatomy.matching import listed
from deeplimits.transfer.anatomy.names import bare, starred
from deeplimits.transfer.anatomy.pairs import Pairs, matched, told
from deeplimits.transfer.anatomy.products import Product, fused
from deeplimits.transfer.anatomy.readout import carriers
from deeplimits.transfer.anatomy.seen import Seen, bare_meta, seen, tried
from deeplimits.transfer.anatomy.survey import Parameter, survey
from deeplimits.transfer.anatomy.trial import Trial
from deeplimits.transfer.anatomy.width_factors import Found, Wider
from deeplimits.transfer.rule import Rule

_UNSEEN_WIDTH = "two instances: a factor of the width that forward computes is not seen; a build function shows it"
_NEEDS_VALUES = "it needs values, or other inputs; plan with a build function or real models, and pass inputs="
_UNSEEN = "two instances: a factor of the depth that forward computes itself is not seen; a build function shows it"
_SILENT = "not counted: a factor of the depth, if the forward pass has one, in the branches that end in"


@dataclass
class Reading:
    """What two sizes of a model tell.

    Attributes:
        rows: one record a parameter of the target.
        ends: parameters of the base that residual branches are linear in.
        gains: those that a tied readout's input is linear in.
        tied_width: ratio of the width of a tied readout; 1 without one.
        done: {what ends a branch: power of the depth that the forward pass divides the branch by}.
        logits: what carries the factor of attention logits.
        widths: what carries factors of the width that the forward pass brings itself.
        own: {name: size of the target's own initial values over the base's}; None where only `apply` can tell.
        first: {name: size of the base's initial values}.
        remarks: {parameter: what is not claimed of it}.
        fused: {parameter: parts of its outputs that are query, key and value, where it gives several}.
        notes: what a user should know.
    """

    rows: list[Parameter]
    ends: Ends = field(default_factory=dict)
    gains: Ends = field(default_factory=dict)
    tied_width: float = 1.0
    done: dict[str, float] = field(default_factory=dict)
    logits: Mended = field(default_factory=Mended)
    widths: Found = field(default_factory=Found)
    own: dict[str, float | None] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)
    fused: dict[str, tuple[float, ...]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def of(self, row: Parameter) -> dict[str, Any]:
        """Return what `numbers.row` needs to know of a parameter."""
        name = row.base_name
        return {
            "init": self.own.get(row.name),
            "branch_output": name in self.ends,
            "parts": tuple(round(share * row.target.fan_out) for share in self.fused.get(row.name, ())),
            "forward_alpha": self.done.get(name, 0.0),
            "tied_width": self.tied_width if name in self.gains else 1.0,
            "logits_factor": self.logits.folded.get(name, 1.0),
            "width_factor": self.widths.factors.get(name, 1.0),
            "shifted": (self.ends | self.gains).get(name, 0.0) != 0.0
            or name in self.logits.shifts | self.widths.shifts,
            "remark": "; ".join(filter(None, [self.logits.remarks.get(name), self.remarks.get(row.name)])),
        }

    def scales(self, target: nn.Module) -> dict[str, float]:
        """Return {"module.attribute" of the target: its value}, for numbers that carry a factor of logits.

        Args:
            target: the model that will be trained.
        """
        found = {}
        for place, factor in self.logits.attributes.items():
            path, _, attribute = place.rpartition(".")
            held = [row for row in self.rows if path and row.base_name.startswith(f"{path}.")]
            for own in {row.name[: len(row.name) - len(row.base_name) + len(path)] for row in held} or {path}:
                found[f"{own}.{attribute}".lstrip(".")] = getattr(target.get_submodule(own), attribute) * factor
        return found


def read(
    build: Callable[..., nn.Module] | None,
    small: nn.Module,
    large: nn.Module,
    sizes: tuple[dict[str, int], dict[str, int]] | None,
    rule: Rule,
    inputs: Any,
    seed: int,
    fixed: Iterable[str],
) -> Reading:
    """Compare two models of one family.

    Args:
        build: makes the model from its sizes; None for two instances.
        small: the base (on the meta device where it can be built).
        large: the target, likewise.
        sizes: of base and target.
        rule: the parametrization: branches are proved for those with a depth part, readouts for those that scale them.
        inputs: what the model takes; None: made from its first layer.
        seed: of the small copies that are tried.
        fixed: patterns of names of matrices inside blocks that are meant to stay.

    Raises:
        InputError: the models cannot be read, or a plan would be wrong for them.
    """
    for model in (small, large):
        checks.readable(model)
    inputs = example(small, inputs)
    base, target = seen(small, inputs), seen(large, inputs)
    checks.same_uses(survey(small, large, base.watch), base.watch, target.watch)
    family = None if build is None or sizes is None else copies(build, *sizes, small, inputs)
    real = small if family is None else family.real(seed)
    if base.watch is None:
        base = seen(small, inputs, real)
    if target.watch is None and family is None and not bare_meta(large):
        target = tried(large, inputs)
    rows = survey(small, large, base.watch)
    checks.adapters(rows, (bare(name) for name, p in small.named_parameters() if not p.requires_grad))
    checks.fixed_matrices(rows, fixed)
    _check_depth(rule, rows)
    if rule.alpha is not None:
        checks.blocks(rows, (bare(path) for path, _ in small.named_modules()))
    pairs = _pairs(rows, base, target, family, inputs, seed)
    found = Reading(rows, remarks=checks.unclaimed(rows, pairs.base, pairs.target))
    found.notes = [*_notes(rows, base, target, pairs, family), *dict.fromkeys(found.remarks.values())]
    found.notes += _sums(base, target, family, inputs, seed)
    whole = target.products if target.watch is not None else ()
    shares = {bare(name): parts for name, parts in fused(whole or base.products).items()}
    found.fused = {row.name: shares.get(row.name if whole else row.base_name, ()) for row in rows}
    if family is not None:
        found.own, found.first = family.laws(rows, seed)
    elif not bare_meta(real):
        sized = initial.sizes(real)
        found.first = {row.name: sized[row.base_name][0] for row in rows}
        own = {} if bare_meta(large) else initial.sizes(large)
        found.own = {name: size / found.first[name] for name, (size, _) in own.items() if size and found.first[name]}
    _prove(found, _Needs(rule, rows, base, pairs), family, (real, large), base.products, inputs, seed)
    _widths(found, family, (real, large), base, inputs, seed)
    return found


def _pairs(rows: Sequence[Parameter], base: Seen, target: Seen, family: Copies | None, inputs: Any, seed: int) -> Pairs:
    """Return the products of activations in base and target; from copies where the target cannot be seen whole."""
    names = {row.name: row.base_name for row in rows}
    if target.watch is None and base.watch is not None and family is not None:
        return told(family.pairs(inputs, seed), target.products, names)
    whole = target.products if target.watch is not None else ()
    return Pairs(base.products, matched(base.products, whole, names))


def _sums(base: Seen, target: Seen, family: Copies | None, inputs: Any, seed: int) -> list[str]:
    """Return what is summed over a size that grows without weights, in words."""
    small, large = base.watch, target.watch
    if large is None and family is not None and (wide := family.wider(seed)) is not None:
        small, large = (tried(model, inputs).watch for model in (family.real(seed), wide))
    return [] if small is None or large is None else checks.sums(small, large)


def _widths(
    found: Reading, family: Copies | None, models: tuple[nn.Module, nn.Module], base: Seen, inputs: Any, seed: int
) -> None:
    """Find the factors of the width that the forward pass brings itself, by running copies."""
    real, large = models
    same = all(row.depth_ratio == 1 for row in found.rows)
    wide = (large if same else None) if family is None else family.wider(seed)
    said = [] if wide is None else checks.numbers(real, wide, base.products)
    if family is not None:
        wider = family.widths(seed)
    elif same and not bare_meta(real) and not bare_meta(large):
        wider = [Wider(lambda times: copy.deepcopy(large), found.rows)]
    else:
        found.notes += [*said, _UNSEEN_WIDTH]
        return
    tied = set() if base.watch is None else base.watch.twice
    found.widths = width_factors.of_sizes(real, inputs, seed, wider, base.products, tied)
    found.notes += found.widths.notes
    found.notes += said if found.widths.notes else []


def _prove(
    found: Reading,
    needs: _Needs,
    family: Copies | None,
    models: tuple[nn.Module, nn.Module],
    products: Sequence[Product],
    inputs: Any,
    seed: int,
) -> None:
    """Find what carries the factors of branches, attention logits and tied readouts, by running the base."""
    real, large = models
    if not any((needs.blocks, needs.tied, needs.lacking)):
        return
    if bare_meta(real):
        why = "the base is on the meta device, and residual branches and tied readouts are proved by running it"
        raise InputError("transfer", why, "build the base on the CPU; the target may stay on the meta device")
    trial = Trial(real, inputs, seed)
    if needs.blocks:
        found.rows = branches.counted(trial, found.rows)
        needs.blocks = _deeper(found.rows)
    found.ends, outer = branches.outputs(trial, needs.blocks)
    found.logits = mend(trial, needs.lacking, products)
    if needs.tied:
        ratios = (float(row.fan_out_ratio) for row in found.rows if row.base_name in needs.tied)
        found.tied_width = max(ratios, default=1.0)
        found.gains, numbers = carriers(trial, needs.tied, found.tied_width)
        found.logits.attributes |= numbers
    found.notes += found.logits.notes
    if family is not None and needs.blocks:
        args = family.build, family.tried, family.doubled, trial, found.ends, outer, needs.blocks
        found.done = depth_factors.of_build(*args, seed)
    elif needs.blocks:
        found.done = depth_factors.of_numbers(trial, large, found.rows, found.ends, outer)
        found.notes.append(_UNSEEN)
    if silent := [name for name in found.ends if name not in found.done]:
        found.notes.append(f"{_SILENT} {listed(list(dict.fromkeys(map(starred, silent))), 3)}")


class _Needs:
    """What must be proved by running the base: branches, tied readouts, attention logits."""

    def __init__(self, rule: Rule, rows: Sequence[Parameter], base: Seen, pairs: Pairs):
        self.blocks = [] if rule.alpha is None else _deeper(rows)
        self.tied = _tied(rows, base) if rule.readout_multiplier else set()
        self.lacking = factors(pairs.base, pairs.target) if rule.readout_multiplier else {}


def _tied(rows: Sequence[Parameter], base: Seen) -> set[str]:
    """Return the tables that are readouts as well, summed over a size that grows."""
    grows = {row.base_name for row in rows if row.fan_in_ratio != 1 or row.fan_out_ratio != 1}
    return set() if base.watch is None else {name for name in base.watch.twice if bare(name) in grows}


def _deeper(rows: Sequence[Parameter]) -> list[str]:
    return list(dict.fromkeys(row.block for row in rows if row.block is not None and row.depth_ratio != 1))


def _check_depth(rule: Rule, rows: Sequence[Parameter]) -> None:
    changed = next((row for row in rows if row.depth_ratio != 1), None)
    if changed is not None and rule.alpha is None and not rule.any_depth:
        long, short = checks.lengths(rows, changed.stack)
        times = f"{changed.stack} is {long / short:g} times as long"
        why = f"the depth changes ({times}) and rule {rule.name!r} has no depth part"
        raise InputError("transfer", why, "use rule='completep' or 'depth_mup', or keep the depth of the base")


def _notes(rows: Sequence[Parameter], base: Seen, target: Seen, pairs: Pairs, family: Copies | None) -> list[str]:
    notes = [checks.share(rows)]
    if base.watch is None:
        notes.append(f"the forward pass was not seen, and layers are read by their types: {_NEEDS_VALUES}")
    elif target.watch is None:
        where = "on the base alone" if family is None else "on small copies"
        notes.append(f"the forward pass cannot be followed without values: seen {where}")
    if base.watch is not None and (unused := [r.name for r in rows if r.base_name not in base.watch.order]):
        notes.append(f"not used in the forward pass that was tried: {listed(unused, 3)}")
    for old, new in zip(pairs.base[:1], pairs.target[:1], strict=True):
        if new is not None and old.softmax and (old.heads, old.size) != (new.heads, new.size):
            notes.append(f"attention: {old.heads} heads of {old.size} become {new.heads} of {new.size}")
    notes += [*open_ends(pairs.base, pairs.target), *unseen(pairs.base, pairs.target, target.failed)]
    if base.choices and target.choices and base.choices[0] != target.choices[0]:
        notes.append(f"not claimed: top-{base.choices[0]} choices become top-{target.choices[0]}")
    return notes
