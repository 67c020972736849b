"""Liquid time-constant neurons in closed form: exact for constant input, approximate in the paper, and far cheaper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deeplimits.claims import agreement
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.claims.one_thread import one_thread
from deeplimits.plane.record import Estimate

if TYPE_CHECKING:
    from torch import Tensor

HEADLINE = "evaluations of the network by an adaptive solver over those by the closed form, tolerance 1e-3"
END, FASTER = 10.0, 10.0  # last time looked at; the gate of ten times


@dataclass(frozen=True)
class Sizes:
    """Random neurons and times of the exact solution; batch, features and observations of sequences."""

    neurons: int
    times: int
    batch: int
    features: int
    observations: int


def _neurons(sizes: Sizes) -> dict[str, Tensor]:
    """Return random neurons: state and target of both signs, leak w in (0, 2), drive of the sigmoid N(0, 4)."""
    import torch

    from deeplimits.numerics.seeds import torch_generator

    draw = torch_generator(0, "claims", "liquid neurons")
    state, drive, target = (torch.randn(sizes.neurons, generator=draw, dtype=torch.float64) for _ in range(3))
    leak = 2 * torch.rand(sizes.neurons, generator=draw, dtype=torch.float64)
    return {"state": state, "leak": leak, "drive": 2 * drive, "target": target}


def _steps(one: dict[str, Tensor], time: float, steps: int) -> Tensor:
    """Return x(time) of x' = -(w + f) x + A f by the classical Runge-Kutta method of order 4."""
    import torch

    rate, h, x = torch.sigmoid(one["drive"]), time / steps, one["state"]
    for _ in range(steps):
        a = _slope(one, rate, x)
        b = _slope(one, rate, x + h / 2 * a)
        c = _slope(one, rate, x + h / 2 * b)
        d = _slope(one, rate, x + h * c)
        x = x + h / 6 * (a + 2 * b + 2 * c + d)
    return x


def _slope(one: dict[str, Tensor], rate: Tensor, x: Tensor) -> Tensor:
    return -(one["leak"] + rate) * x + one["target"] * rate


@one_thread()
def solution(sizes: Sizes) -> Measured:
    """Compare the exact closed form with Runge-Kutta steps, and the paper's approximation with the exact one."""
    import torch

    from deeplimits.blocks import liquid, liquid_approximation

    one = _neurons(sizes)
    rate, zero = torch.sigmoid(one["drive"]), torch.zeros(1, dtype=torch.float64)
    times = [END * (index + 1) / sizes.times for index in range(sizes.times)]
    exact, dry, wet = [], [], []
    for time in [0.0, *times]:
        closed = liquid(one["state"], time, one["leak"], rate, one["target"])
        if time:
            exact.append(float((closed - _steps(one, time, int(40 * time) + 40)).abs().max()))
        wet.append(liquid_approximation(one["state"], time, one["leak"], one["drive"], one["target"]) - closed)
        alone = liquid(one["state"], time, zero, rate, one["target"])
        dry.append(liquid_approximation(one["state"], time, zero, one["drive"], one["target"]) - alone)
    distance = (one["state"] - one["target"]).abs()
    relative = [float((error.abs() / distance).max()) for error in dry]
    rest = (one["target"] * one["leak"] / (one["leak"] + rate)).abs().max()
    parts = [
        agreement.equal(
            f"largest error of the exact closed form to Runge-Kutta steps, {sizes.neurons} neurons", 0.0, max(exact),
            1e-6, "(h (w + f))^5/120 a step with h (w + f) <= 3/40, 400 steps", paper=False,
        ),
        agreement.between(
            "largest error of the paper's approximation over its bound |x(0) - A|, w = 0", 1.0,
            Estimate(max(relative), 0.0), 0.0, 1.0, paper=False,
            note="constant input; the bound is nearly reached, at t = 0, where the ratio is f(I)",
        ),
        agreement.equal(
            "largest error of the paper's approximation at time 10, w > 0", float(rest),
            float(wet[-1].abs().max()), 0.2 * float(rest), "A w/(w + f), its limit: it ends at A", paper=False,
            counts=False, note="the approximation drops the leak's pull: for numbers, use the exact form",
        ),
    ]  # fmt: skip
    curves = [
        Curve("approximation, w = 0", [0.0, *times], [float(error.abs().max()) for error in dry]),
        Curve("approximation, w > 0", [0.0, *times], [float(error.abs().max()) for error in wet]),
        Curve("exact form, beside Runge-Kutta", times, exact),
    ]
    title = "Largest error over random neurons"
    return Measured(parts, [Panel(title, "time", "largest error", curves, x_scale="linear", y_scale="log")])


@one_thread()
def work(sizes: Sizes) -> Measured:
    """Count evaluations of the network along sequences: closed-form cells beside solvers of the same equation."""
    import torch

    from deeplimits.blocks import CfCCell, LTCCell, TimedSequence
    from deeplimits.blocks.runge_kutta import adaptive, within
    from deeplimits.numerics.seeds import torch_generator

    draw, double = torch_generator(1, "claims", "liquid sequences"), torch.float64
    torch.manual_seed(1)
    cell = LTCCell(3, sizes.features, recurrent=True).double()
    seen = torch.randn(sizes.batch, sizes.observations, 3, generator=draw, dtype=double)
    gaps = torch.rand(sizes.observations, generator=draw, dtype=double)
    passes = _counted(TimedSequence(CfCCell(3, sizes.features).double()), "backbone", seen, gaps)
    frozen = _counted(TimedSequence(cell), "drive", seen, gaps)
    states, ratios, tolerances = [], [], [1e-3, 1e-6, 1e-9]
    for tolerance in tolerances:
        x, spent, states = torch.zeros(sizes.batch, sizes.features, dtype=double), 0, []
        for index in range(sizes.observations):

            def field(time: float, z: Tensor, index: int = index) -> Tensor:
                rate = torch.sigmoid(cell.drive(torch.cat([seen[:, index], z], dim=-1)))
                return -(cell.log_leak.exp() + rate) * z + cell.target * rate

            with torch.no_grad():
                path = adaptive(field, x, 0.0, float(gaps[index]), within(tolerance))
            x, spent = path.state, spent + path.evaluations
            states.append(x)
        ratios.append(spent / frozen)
    with torch.no_grad():
        held = float((TimedSequence(cell)(seen, gaps) - torch.stack(states, dim=1)).abs().max())
    note = (
        "evaluations an observation, intervals uniform on (0, 1), Dormand-Prince steps that start anew at each; the "
        "paper's one to five powers of ten are times"
    )
    parts = [
        agreement.above(HEADLINE, FASTER, Estimate(ratios[0], 0.0), paper=False, note=note),
        agreement.above("the same, tolerance 1e-9", FASTER, Estimate(ratios[-1], 0.0), paper=False),
        agreement.equal(
            "evaluations an observation of the CfC cell", 1.0, passes / sizes.observations, 0.0, "one, counted",
        ),
        agreement.equal(
            "largest error of the liquid cell with f held over an interval", 0.0, held, 0.2,
            "first order in intervals up to 1; the price of one evaluation where f sees x", paper=False, counts=False,
        ),
    ]  # fmt: skip
    curve = Curve("solver / closed form", tolerances, ratios)
    panel = Panel("Evaluations saved", "tolerance of the solver", "ratio", [curve], x_scale="log", y_scale="log")
    return Measured(parts, [panel])


def _counted(model: Any, name: str, seen: Tensor, gaps: Tensor) -> int:
    """Return how often a model evaluates the layer of that name in its cell."""
    import torch

    calls = []
    handle = getattr(model.cell, name).register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        model(seen, gaps)
    handle.remove()
    return len(calls)


CLAIM = Claim(
    key="hasani-2021-cfc",
    statement=(
        "Liquid time-constant neurons have a closed form, bounded in its error, that replaces a solver's many "
        "evaluations by one."
    ),
    source="hasani-2021-cfc; hasani-2021-ltc (the equation)",
    headline=HEADLINE,
    steps=(Step("solution", solution, 2.0), Step("work", work, 3.0)),
    full=Sizes(neurons=2000, times=40, batch=32, features=32, observations=50),
    reduced=Sizes(neurons=100, times=4, batch=4, features=8, observations=10),
)
