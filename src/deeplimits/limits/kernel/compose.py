"""The kernels of compositions."""

from __future__ import annotations

from math import inf

from deeplimits.architecture.compose import Parallel, Repeat, Residual, Serial
from deeplimits.architecture.layer import Power
from deeplimits.architecture.scale import alpha
from deeplimits.architecture.shaped import WeightedSkip
from deeplimits.errors import DescriptionError
from deeplimits.limits.kernel.lowering import Lowering, kernel
from deeplimits.limits.kernel.tape import Add, Affine, Copy


@kernel.rule(Serial, source="definition")
def serial(layer: Serial, state: Lowering) -> None:
    """One after the other."""
    for part in layer.layers:
        kernel(part, state)


@kernel.rule(Residual, source="hayou-2020-stable-resnet, sec. 2", valid="the branch ends in a Dense layer of its own")
def residual(layer: Residual, state: Lowering) -> None:
    """K' = K + alpha^2 K_branch(K), Theta' = Theta + alpha^2 Theta_branch: fresh weights make terms independent."""
    depth = int(state.depth) if state.depth != inf else 1
    if state.depth == inf and isinstance(layer.scale, Power):
        why = "a branch scale that depends on DEPTH stands outside Repeat(..., DEPTH)"
        raise DescriptionError("Residual", why, "put the Residual inside Repeat, or give its scale as a number")
    factor = alpha(layer.scale, state.index, state.repeats, depth) ** 2
    branch = _branch(layer.branch, state, "Residual")
    state.add(Add(state.register, branch, factor))
    state.release([branch])


@kernel.rule(WeightedSkip, source="definition", valid="the branch ends in a Dense layer of its own")
def weighted_skip(layer: WeightedSkip, state: Lowering) -> None:
    """K' = lambda^2 K + gamma^2 K_branch(K), Theta' = lambda^2 Theta + gamma^2 Theta_branch."""
    skip, scale = layer.mixing
    branch = _branch(layer.branch, state, "WeightedSkip")
    state.add(Affine(state.register, skip**2, 0.0, 0.0, 0.0))
    state.add(Add(state.register, branch, scale**2))
    state.release([branch])


@kernel.rule(
    Parallel,
    source="definition",
    valid="at most one branch passes its input on; the others end in Dense layers of their own",
)
def parallel(layer: Parallel, state: Lowering) -> None:
    """K' = sum of K_branch(K), Theta' = sum of Theta_branch(K)."""
    carriers = 0
    kept = state.register
    registers, endings = [], []
    for part in layer.branches:
        with state.branch() as fresh:
            state.add(Copy(fresh, kept))
            kernel(part, state)
            carriers += state.carried
            _check_ending(state, "Parallel")
            endings.append((state.features, state.gaussian, state.carried))
        registers.append(fresh)
    if carriers > 1:
        why = f"{carriers} branches pass the same input on, so their sum has cross terms"
        raise DescriptionError("Parallel", why, "keep one such branch and end the others in a Dense layer")
    state.add(Copy(kept, registers[0]))
    for fresh in registers[1:]:
        state.add(Add(kept, fresh, 1.0))
    state.release(registers)
    state.features = endings[0][0]
    state.gaussian = all(gaussian for _, gaussian, _ in endings)
    state.carried = state.carried and carriers == 1


def _branch(branch, state: Lowering, where: str) -> int:
    kept = state.register
    with state.branch() as fresh:
        state.add(Copy(fresh, kept))
        kernel(branch, state)
        check_branch(state, where)
        note_approximation(state)
    return fresh


def check_branch(state: Lowering, where: str) -> None:
    """Refuse a residual branch whose output is not independent of its input with zero mean."""
    if state.carried:
        why = "the branch passes its own input on, so that x and branch(x) have a cross term"
        raise DescriptionError(where, why, "end the branch in a Dense layer")
    _check_ending(state, where)


def note_approximation(state: Lowering) -> None:
    """Note that a sum of finitely many branches that are not Gaussian is not Gaussian."""
    from deeplimits.limits.flow.note import Note

    if state.gaussian or not state.centred:
        return
    text = f"the state, to which {state.holds} is added, is Gaussian only up to a term of order 1/depth"
    caution = f"kernel: {text}; so is the kernel, unless the blocks are scaled by DEPTH**-0.5 and depth is infinite"
    note = Note("approximate", True, True, text, caution)
    if note not in state.limits:
        state.limits.append(note)


def _check_ending(state: Lowering, where: str) -> None:
    if not (state.gaussian or state.carried or state.centred):
        why = "a branch ends in an activation, whose features have a mean that adds up with the skip"
        raise DescriptionError(where, why, "end the branch in a Dense layer")


@kernel.rule(Repeat, source="definition; depth infinity: hayou-yang-2023-commute, thm 1; hayou-2023-commute-ii")
def repeat(layer: Repeat, state: Lowering) -> None:
    """The block written out, or its limit at infinite depth."""
    if isinstance(layer.times, Power) and state.depth == inf:
        from deeplimits.limits.flow.segment import infinite

        infinite(layer.block, state)
        return
    times = int(state.depth) if isinstance(layer.times, Power) else layer.times
    outer = (state.index, state.repeats)
    for place in range(1, times + 1):
        state.index, state.repeats = place, times
        kernel(layer.block, state)
    state.index, state.repeats = outer
