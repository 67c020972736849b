"""The conformance suite of a block: one increment, and all that follows from it, beside sampled networks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from deeplimits.architecture.compose import Repeat, Residual, depends_on_depth
from deeplimits.architecture.dense import Dense
from deeplimits.architecture.increment import given_by_increment, increment_of
from deeplimits.architecture.layer import DEPTH, Layer
from deeplimits.architecture.question import shorten
from deeplimits.architecture.size import whole
from deeplimits.errors import AccuracyWarning, DescriptionError
from deeplimits.finite import sample
from deeplimits.finite.build import building
from deeplimits.limits.diffusion import diffusion
from deeplimits.limits.kernel.ask import kernel
from deeplimits.numerics.seeds import generator
from deeplimits.testing import module, structure
from deeplimits.testing.agreement import agree, bound, extrapolated, law, matrix, tangent
from deeplimits.testing.record import Log, Report

INPUTS = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, -1.0], [1.0, -1.0, -1.0, 1.0]])
DEPTHS = (8, 16, 32)
MODULES = 200
SLOPES = (-1.25, -0.8)


def check_limit(
    layer: Layer,
    X: Any = None,
    width: int = 32,
    depth: int = 8,
    networks: int = 400,
    seed: int = 0,
    chance: float = 1e-4,
) -> Report:
    """Check a block against itself and against sampled networks, and return what was checked with numbers.

    In order: the description is a frozen layer; its rule has a source; the covariance is one, whatever the order of
    inputs and neurons; kernels of depth L tend to the flow like 1/L; sampled networks agree with the kernel; the
    diffusion agrees with networks of its width in law; a wide diffusion tends to the flow; where the block has a module
    of its own, so does the NTK. Deviations of order 1/width are taken out by comparing widths n and 2n, those of order
    1/depth (blocks whose outputs are not Gaussian) by comparing depths L and 2L.

    Args:
        layer: a block, put into Dense() >> Repeat(Residual(layer, DEPTH**-0.5)) >> Dense(1); or a whole network.
        X: inputs, shape (k, d); three by default.
        width: the smaller of the two widths.
        depth: of the networks.
        networks: how many at each place.
        seed: of everything drawn.
        chance: largest chance that a right block fails, shared among all numbers compared.

    Raises:
        CheckFailed: a part does not hold; names it, says by how much and where to look.
        DeepLimitsError: the block cannot be asked at all.

    Source: definition; hayou-yang-2023-commute (rates).

    Example:
        >>> from deeplimits.architecture.zoo import ResNet
        >>> report = check_limit(ResNet("erf"), networks=100)
        >>> report["kernel tends to the flow"].high
        -0.8
    """
    _sizes(layer, width, depth, networks, chance)
    log = Log("check_limit", shorten(layer), chance)
    net = layer if depends_on_depth(layer) else Dense() >> Repeat(Residual(layer, DEPTH**-0.5)) >> Dense(features=1)
    own = {type(block).__name__: block for block in given_by_increment(net)}
    structure.description(layer, log)
    if not own and net is not layer:
        structure.rule(layer, log)
    for block in own.values():
        structure.rule(block, log)
        structure.covariances(block, seed, log)
    shared = [name for name, block in own.items() if type(block) not in building.rules]
    if shared:
        names = ", ".join(shared)
        log.note(f"{names} has no module of its own: the sampled networks share its increment and cannot contradict it")
    get = ("nngp",) if shared else ("nngp", "ntk")
    plan = _Plan(net, INPUTS if X is None else np.asarray(X), width, depth, networks, seed, get)
    loose = any(not increment_of(block).gaussian for block in own.values())
    count = len(plan.X) * (len(plan.X) + 1) // 2
    direct = [block for block in own.values() if type(block) in building.rules]
    limit = bound(chance, 4 * count + 2 * len(plan.X) + len(direct) * module.NUMBERS)
    with _remembered(log):
        for block in direct:
            module.compare(block, width, min(networks, MODULES), seed, limit, log)
        _compare(plan, loose, limit, log)
    return log.report()


@dataclass(frozen=True)
class _Plan:
    net: Layer
    X: Any
    width: int
    depth: int
    networks: int
    seed: int
    get: tuple[str, ...]
    kernels: dict[float, Any] = field(default_factory=dict)

    def kernel(self, depth: float, get: str = "nngp") -> Any:
        if depth not in self.kernels:
            self.kernels[depth] = kernel(self.net, self.X, depth=depth, get=self.get)
        return np.asarray(getattr(self.kernels[depth], get))

    def sample(self, width: int, depth: int, get: tuple[str, ...]) -> Any:
        seed = self._seed("networks", width, depth)
        return sample(self.net, self.X, width=width, depth=depth, networks=self.networks, seed=seed, get=get)

    def diffusion(self, width: int, depth: float) -> Any:
        seed = self._seed("diffusion", width, str(depth))
        return diffusion(self.net, self.X, width=width, depth=depth, samples=self.networks, seed=seed)

    def _seed(self, *names: str | int) -> int:
        return int(generator(self.seed, "check", *names).integers(2**62))


def _sizes(layer: Any, width: Any, depth: Any, networks: Any, chance: Any) -> None:
    where = "check_limit"
    if not isinstance(layer, Layer):
        raise DescriptionError(where, f"{layer!r} is not a layer", "give a frozen dataclass that inherits from Layer")
    whole(where, "width", width, minimum=2)
    whole(where, "depth", depth)
    whole(where, "networks", networks, minimum=20)
    if not (isinstance(chance, float) and 0 < chance < 1):
        raise DescriptionError(where, f"chance={chance!r} is not between 0 and 1", "give e.g. chance=1e-4")


@contextmanager
def _remembered(log: Log) -> Iterator[None]:
    """Turn warnings of accuracy into notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AccuracyWarning)
        yield
    for warning in caught:
        log.note(str(warning.message))


def _compare(plan: _Plan, loose: bool, limit: float, log: Log) -> None:
    flow = plan.kernel(inf)
    _rate(plan, flow, log)
    deep = 2 * plan.depth if loose else plan.depth
    narrow, wide = plan.sample(plan.width, plan.depth, plan.get), plan.sample(2 * plan.width, deep, plan.get)
    places = ((narrow, plan.depth), (wide, deep))
    gaps = [matrix(found, plan.kernel(depth)) for found, depth in places]
    fix = "compare the increment with the module: factors, biases and cross terms"
    agree("networks and kernel", extrapolated(*gaps), "sampled networks less the kernel", fix, limit, log)
    _diffusion(plan, narrow, loose, limit, log)
    _wide(plan, flow, limit, log)
    if "ntk" in plan.get:
        gaps = [tangent(found, plan.kernel(depth, "ntk")) for found, depth in places]
        fix = "check the covariance; where layers of weights multiply, each adds its own term: Increment(learned=...)"
        agree("tangent kernel", extrapolated(*gaps), "empirical NTK less the kernel's", fix, limit, log)


def _rate(plan: _Plan, flow: Any, log: Log) -> None:
    size = np.linalg.norm(flow)
    gaps = np.array([np.linalg.norm(plan.kernel(depth) - flow) / size for depth in DEPTHS])
    if gaps.max() <= 1e-10:
        log.note("the kernel is the same at every depth")
        return
    slope = float(np.log(gaps[-1] / gaps[-2]) / np.log(DEPTHS[-1] / DEPTHS[-2]))
    words = f"|K(L) - K(inf)| / |K(inf)| = {gaps[-1]:.2g} at L = {DEPTHS[-1]}, falls like L^{slope:.3f}"
    fix = "the covariance must be a continuous function of the state; ask a network with other scales at other depths"
    log.check("kernel tends to the flow", slope, *SLOPES, words, fix)


def _diffusion(plan: _Plan, narrow: Any, loose: bool, limit: float, log: Log) -> None:
    gap = law(plan.diffusion(plan.width, plan.depth)).minus(law(narrow))
    if loose:
        twice = plan.diffusion(plan.width, 2 * plan.depth), plan.sample(plan.width, 2 * plan.depth, ("nngp",))
        gap = extrapolated(gap, law(twice[0]).minus(law(twice[1])))
    fix = "the increment's covariance at finite width differs from the module's: check averages inside averages"
    what = "diffusion less sampled networks (mean Gram, mean and variance of log q)"
    agree("diffusion and networks", gap, what, fix, limit, log)


def _wide(plan: _Plan, flow: Any, limit: float, log: Log) -> None:
    size = float(np.abs(flow).max())
    gaps = []
    for width in (plan.width, 2 * plan.width):
        law_of = plan.diffusion(width, inf)
        found = matrix(law_of, flow)
        gaps.append(type(found)(found.value, found.error, law_of.step_error * size))
    fix = "averages over neurons and Gaussian expectations of the increment differ: use no number but mean(...) of them"
    agree("wide diffusion and flow", extrapolated(*gaps), "diffusion less the flow", fix, limit, log)
