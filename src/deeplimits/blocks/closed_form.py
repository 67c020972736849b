"""Recurrent cells of continuous time without a solver: liquid time constants, and their closed-form successors."""

from __future__ import annotations

from numbers import Real

import torch
from torch import Tensor, nn

from deeplimits.architecture.size import whole
from deeplimits.blocks import given
from deeplimits.errors import InputError


def liquid(state: Tensor, time: Tensor | float, leak: Tensor, rate: Tensor, target: Tensor) -> Tensor:
    """Return x(t) of x' = -(w + f) x + A f for constant f: x* + (x(0) - x*) e^(-(w+f) t), x* = A f/(w + f).

    Args:
        state: x(0).
        time: t >= 0.
        leak: w > 0, inverse of the time constant without input.
        rate: f >= 0.
        target: A.

    Source: hasani-2021-ltc (the equation); the solution: derived.

    Example:
        >>> one = torch.ones(1, dtype=torch.float64)
        >>> round(float(liquid(0 * one, 50.0, one, one, 3 * one)), 6)  # A f/(w + f)
        1.5
    """
    speed = leak + rate
    rest = target * rate / speed
    return torch.lerp(state, rest, -torch.expm1(-speed * time))


def liquid_approximation(state: Tensor, time: Tensor | float, leak: Tensor, drive: Tensor, target: Tensor) -> Tensor:
    """Return (x(0) - A) e^(-(w + f(I)) t) f(-I) + A, the closed form that CfC networks grew from, f = sigmoid(drive).

    It is no solution of x' = -(w + f) x + A f: at t = 0 it is x(0) f(-I) + A f(I) instead of x(0), and at t = infinity
    A instead of A f/(w + f). For w = 0 its error is at most |x(0) - A|; use `liquid` for numbers.

    Args:
        state: x(0).
        time: t >= 0.
        leak: w >= 0.
        drive: what the sigmoid f is taken of, such that f(-I) = sigmoid(-drive).
        target: A.

    Source: hasani-2021-cfc, theorem 1 (as recalled, not read again); the two ends and the bound: derived.

    Example:
        >>> one = torch.ones(1)
        >>> float(liquid_approximation(one, 0.0, one, 0 * one, 3 * one))  # not x(0) = 1
        2.0
    """
    rate = torch.sigmoid(drive)
    return (state - target) * torch.exp(-(leak + rate) * time) * (1 - rate) + target


class Cell(nn.Module):
    """A recurrent cell of continuous time: the part that checks; `advance` is what a subclass adds.

    Args:
        features_in: of the input I.
        features: of the state x.

    Raises:
        InputError: a number of features below 1.

    Source: definition.

    Example:
        >>> class Leak(Cell):
        ...     def advance(self, state, inputs, elapsed):
        ...         return state * torch.exp(-elapsed) + inputs.mean(dim=-1, keepdim=True)
        >>> Leak(3, 8)(torch.ones(5, 8), torch.zeros(5, 3), 0.5).shape
        torch.Size([5, 8])
    """

    def __init__(self, features_in: int, features: int):
        super().__init__()
        self.features_in = whole(type(self).__name__, "features_in", features_in)
        self.features = whole(type(self).__name__, "features", features)

    def advance(self, state: Tensor, inputs: Tensor, elapsed: Tensor) -> Tensor:
        """Return the state after `elapsed`, (batch, 1), without checks."""
        raise NotImplementedError

    def forward(self, state: Tensor, inputs: Tensor, time: Tensor | float) -> Tensor:
        """Return x(t), (batch, features), of x(0), I, (batch, features_in), and t, a number or (batch,).

        Raises:
            InputError: another shape, NaN, or a negative time.
        """
        name = type(self).__name__
        given.tensor(name, "inputs", inputs, features=self.features_in, dimensions=2)
        given.tensor(name, "state", state, features=self.features, dimensions=2)
        _alike(name, inputs, state)
        if not isinstance(time, Tensor | Real) or isinstance(time, bool):
            raise InputError(name, f"time is a {type(time).__name__}", "give a number or a tensor")
        elapsed = passed(name, "time", torch.as_tensor(time, dtype=inputs.dtype, device=inputs.device))
        if len(state) != len(inputs) or elapsed.shape not in ((), (len(inputs),)):
            shapes = f"state {tuple(state.shape)}, inputs {tuple(inputs.shape)}, time {tuple(elapsed.shape)}"
            why = f"{shapes} differ in their batch"
            raise InputError(name, why, "give (batch, features), (batch, features_in) and a number or (batch,)")
        return self._advanced(name, state, inputs, elapsed.expand(len(inputs))[:, None])

    def _advanced(self, where: str, state: Tensor, inputs: Tensor, elapsed: Tensor) -> Tensor:
        return given.applied(where, "the cell", self.advance, state=state, inputs=inputs, elapsed=elapsed)


def _alike(where: str, inputs: Tensor, state: Tensor) -> None:
    if state.dtype != inputs.dtype:
        why = f"state is a {state.dtype} tensor and inputs a {inputs.dtype} one"
        raise InputError(where, why, f"give both as {inputs.dtype}")


def passed(where: str, name: str, time: Tensor) -> Tensor:
    """Return times elapsed if they are finite and not negative.

    Raises:
        InputError: otherwise.
    """
    given.tensor(where, name, time)
    if bool((time < 0).any()):
        raise InputError(where, f"{name} is as small as {float(time.min()):g}", "give times elapsed, >= 0")
    return time


class LTCCell(Cell):
    """A layer of liquid time-constant neurons, solved exactly between observations: see `liquid`.

    x' = -(w + f) x + A f, f = sigmoid(B I + C x + c), w = exp(log_leak). The input I is constant between observations.
    Without recurrence, C = 0, the update is the exact solution; with it f is held at the interval's start, which makes
    an error of first order in the interval.

    Args:
        features_in: of I.
        features: of x.
        recurrent: whether f sees x.

    Valid when: times are >= 0. Invariant: every x stays between the smallest and largest of x(0), 0 and A.

    Raises:
        InputError: sizes, times, inputs or states that cannot be.

    Source: hasani-2021-ltc.

    Example:
        >>> cell = LTCCell(3, 8)
        >>> x = cell(torch.randn(5, 8), torch.randn(5, 3), 0.0)  # no time passes, nothing changes
        >>> cell(x, torch.randn(5, 3), 0.5).shape
        torch.Size([5, 8])
    """

    def __init__(self, features_in: int, features: int, recurrent: bool = False):
        super().__init__(features_in, features)
        self.recurrent = recurrent
        self.drive = nn.Linear(features_in + (features if recurrent else 0), features)
        self.log_leak = nn.Parameter(torch.zeros(features))
        self.target = nn.Parameter(torch.randn(features))

    def advance(self, state: Tensor, inputs: Tensor, elapsed: Tensor) -> Tensor:
        """Return x(t) of x(0), I and t, without checks."""
        seen = torch.cat([inputs, state], dim=-1) if self.recurrent else inputs
        return liquid(state, elapsed, self.log_leak.exp(), torch.sigmoid(self.drive(seen)), self.target)


class CfCCell(Cell):
    """A closed-form continuous-time cell: x(t) = s(-f t) g + (1 - s(-f t)) h, s the sigmoid.

    f, g and h are heads on one hidden layer of (x(0), I), g and h within (-1, 1). Time is a gate between g and h, and
    no solver is needed: one evaluation an observation, however long the interval.

    Args:
        features_in: of I.
        features: of x.
        hidden: width of the hidden layer.

    Valid when: times are >= 0. Pitfall: at t = 0 the gate is 1/2, so that x(0+) = (g + h)/2 and not x(0): the cell
    is no flow, and two intervals of t/2 are not one of t. Invariant: x(t) lies between g and h, within (-1, 1); at
    t = infinity it is h where f > 0 and g where f < 0.

    Raises:
        InputError: sizes, times, inputs or states that cannot be.

    Source: hasani-2021-cfc.

    Example:
        >>> cell = CfCCell(3, 8)
        >>> x, inputs = torch.zeros(5, 8), torch.randn(5, 3)
        >>> f, g, h = cell.heads(x, inputs)
        >>> bool(torch.allclose(cell(x, inputs, 0.0), (g + h) / 2))
        True
    """

    def __init__(self, features_in: int, features: int, hidden: int = 64):
        super().__init__(features_in, features)
        self.backbone = nn.Linear(features_in + features, whole("CfCCell", "hidden", hidden))
        self.rate, self.early, self.late = (nn.Linear(hidden, features) for _ in range(3))

    def heads(self, state: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return f, g and h, (batch, features) each."""
        hidden = torch.tanh(self.backbone(torch.cat([inputs, state], dim=-1)))
        return self.rate(hidden), torch.tanh(self.early(hidden)), torch.tanh(self.late(hidden))

    def advance(self, state: Tensor, inputs: Tensor, elapsed: Tensor) -> Tensor:
        """Return x(t) of x(0), I and t, without checks."""
        rate, early, late = self.heads(state, inputs)
        return torch.lerp(late, early, torch.sigmoid(-rate * elapsed))


class TimedSequence(nn.Module):
    """A cell of continuous time along sequences observed at any times.

    Args:
        cell: a `CfCCell`, an `LTCCell`, or another `Cell`.

    Valid when: gaps are the times from one observation to the next update, >= 0.

    Raises:
        InputError: inputs or gaps of other shapes, NaN, or a negative gap.

    Source: hasani-2021-cfc.

    Example:
        >>> model = TimedSequence(CfCCell(3, 8))
        >>> states = model(torch.randn(5, 20, 3), gaps=torch.rand(5, 20))
        >>> states.shape
        torch.Size([5, 20, 8])
    """

    def __init__(self, cell: Cell):
        super().__init__()
        if not isinstance(cell, Cell):
            why = f"cell is a {type(cell).__name__}"
            raise InputError("TimedSequence", why, "give a CfCCell, an LTCCell or another Cell")
        self.cell = cell

    def forward(self, inputs: Tensor, gaps: Tensor, state: Tensor | None = None) -> Tensor:
        """Return the states, (batch, steps, features), of inputs, (batch, steps, features_in).

        gaps: (batch, steps) or (steps,), how long each input acts; state: (batch, features), 0 by default.
        """
        name, cell = "TimedSequence", self.cell
        given.tensor(name, "inputs", inputs, features=cell.features_in, dimensions=3)
        if passed(name, "gaps", gaps).shape not in (inputs.shape[:2], inputs.shape[1:2]):
            why = f"gaps have shape {tuple(gaps.shape)}, inputs {tuple(inputs.shape)}"
            raise InputError(name, why, f"give {tuple(inputs.shape[:2])} or {tuple(inputs.shape[1:2])}")
        states, x = [], inputs.new_zeros(len(inputs), cell.features) if state is None else state
        given.tensor(name, "state", x)
        if x.shape != (len(inputs), cell.features):
            raise InputError(name, f"state has shape {tuple(x.shape)}", f"give {(len(inputs), cell.features)}")
        _alike(name, inputs, x)
        for index, gap in enumerate(gaps.to(inputs).expand(inputs.shape[:2]).unbind(1)):
            x = cell._advanced(name, x, inputs[:, index], gap[:, None])
            states.append(x)
        return torch.stack(states, dim=1) if states else inputs.new_zeros(len(inputs), 0, cell.features)
