"""The front of the diffusion question: arrays in, a record out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.architecture.increment import given_by_increment, increment_of
from deeplimits.architecture.layer import Layer
from deeplimits.errors import AccuracyWarning, InputError
from deeplimits.limits.diffusion.closed_form import closed_forms
from deeplimits.limits.diffusion.record import Diffusion
from deeplimits.limits.diffusion.simulate import Run, simulate
from deeplimits.limits.diffusion.task import WHERE, Task, prepare

FIRST_STEPS, MOST_STEPS = 32, 4096
SHARE = 0.5


def diffusion(
    net: Layer,
    X: Any,
    width: int,
    depth: float = inf,
    samples: int = 1000,
    seed: int = 0,
    times: Sequence[float] = (0.0, 1.0),
    accuracy: float | None = None,
    states: bool = False,
) -> Diffusion:
    """Return samples of a network of fixed width at infinite depth: a stochastic differential equation of its state.

    For residual blocks x + DEPTH**-0.5 branch(x): the rows of the state X (n x k) move by dX = C(X)^(1/2) dB, without
    drift, C(X) (k x k) the covariance of the branch's output given the state, averages over neurons; a network of depth
    L is the scheme of Euler and Maruyama with L steps, and depth=L simulates that. The number of steps is doubled, on
    the same Brownian paths, until the mean Gram matrix stops moving (the mean of log q, where that of q is known to be
    infinite).

    Args:
        net: the description; a trailing Dense is the readout, whose input is looked at.
        X: inputs, shape (k, d); numpy or torch.
        width: number n that WIDTH stands for.
        depth: infinity, or a whole number.
        samples: how many, at least 2; the first 100 of 200 are those of a run of 100 with the same steps.
        seed: of all of them.
        times: fractions of the layer time in [0, 1] at which the hidden state is looked at.
        accuracy: largest error by the steps, relative to the largest entry of the mean Gram matrix; by default half a
            standard error of the mean.
        states: whether to keep the hidden states themselves, at the same times, beside their Gram matrices.

    Memory: (len(times) + 1) * samples * k^2 numbers, and 256 states of n * k; states=True keeps
    (len(times) + 1) * samples * k * n numbers more. Refused before any work where it does not fit.

    Valid when: Gaussian weights; branches that end in a Dense layer or in a block with an increment.

    Raises:
        InputError: data, sizes, times, accuracy or seed that cannot be used.
        NoLimit: there is none at infinite depth; says why.
        NoRule: a layer has neither a rule nor an increment.
        DescriptionError: an increment that is no covariance; weights that are not Gaussian.

    Source: hayou-2022-infinite-depth; hayou-2023-commute-ii (other sequences of scales).

    Example:
        >>> from deeplimits.architecture.zoo import ResNet
        >>> law = diffusion(ResNet("relu"), np.ones((1, 4)), width=16, samples=200, seed=0)
        >>> bool(abs(law.mean[0, 0] - np.exp(0.5)) < 4 * law.standard_error[0, 0])
        True
    """
    task = prepare(net, X, width, depth, samples, seed, times, states)
    if accuracy is not None and not (isinstance(accuracy, float | int) and 0 < accuracy < inf):
        raise InputError(WHERE, f"accuracy={accuracy!r} is not a positive number", "give e.g. accuracy=0.01, or None")
    if depth != inf:
        run = simulate(task, int(depth))
        text = f"width {task.width}, depth {depth}: each block drawn given the state before it, exact in law"
        return _record(task, run, int(depth), 0.0, text + _approximate(task))
    steps, infinite = FIRST_STEPS, any(law.infinite_variance for law in closed_forms(task)[0])
    while True:
        run = simulate(task, 2 * steps)
        fine, coarse = run.gram, simulate(replace(task, states=False), 2 * steps, coarse=True).gram
        error, wanted = _moved(_logs(fine), _logs(coarse), accuracy) if infinite else _moved(fine, coarse, accuracy)
        if error <= wanted or 2 * steps >= MOST_STEPS:
            break
        steps *= 2
    text = (
        f"width {task.width}, infinite depth: the state's rows are a diffusion without drift, solved with {2 * steps} "
        f"Euler-Maruyama steps; the steps move the mean {'of log q (that of q is infinite) ' if infinite else ''}by at "
        f"most {error:.1e} of its largest entry"
    )
    if error > wanted:
        warnings.warn(f"diffusion: {text}, more than the {wanted:.1e} asked for", AccuracyWarning, stacklevel=2)
    return _record(task, run, 2 * steps, error, text)


def _moved(fine: NDArray[np.float64], coarse: NDArray[np.float64], accuracy: float | None) -> tuple[float, float]:
    """Return how far halving the steps moved the mean (weak order 1: the error left), and how far it may."""
    size = max(float(np.abs(fine.mean(0)).max()), 1e-300)
    apart = fine - coarse
    count = np.sqrt(len(fine))
    error = np.abs(apart.mean(0)) + 2 * apart.std(0, ddof=1) / count
    statistical = float((fine.std(0, ddof=1) / count).max())
    return float(error.max()) / size, SHARE * statistical / size if accuracy is None else accuracy


def _logs(gram: NDArray[np.float64]) -> NDArray[np.float64]:
    q = np.diagonal(gram, axis1=1, axis2=2)
    return np.log(np.maximum(q, np.finfo(np.float64).tiny))


def _approximate(task: Task) -> str:
    """Return, and warn of, what finite depth does to blocks whose outputs are not Gaussian."""
    names = sorted({type(b).__name__ for b in given_by_increment(task.body) if not increment_of(b).gaussian})
    if not names:
        return ""
    text = f"the outputs of {', '.join(names)} are not Gaussian given their input: the law is right up to order 1/depth"
    warnings.warn(f"diffusion: {text}, and in the limit", AccuracyWarning, stacklevel=3)
    return f"; {text}"


def _record(task: Task, run: Run, steps: int, error: float, text: str) -> Diffusion:
    laws, words = closed_forms(task)
    zero = np.flatnonzero((np.diagonal(run.gram, axis1=1, axis2=2) == 0).all(0)).tolist()
    if zero:
        words += f"; all samples of inputs {zero} are zero: log q is minus infinity and has no variance"
    return Diffusion(
        width=task.width,
        depth=task.depth,
        seed=task.seed,
        gram=run.gram,
        times=task.times,
        path=run.path,
        steps=steps,
        step_error=error,
        text=f"{text}; {words}",
        state=run.state,
        states=run.states,
        closed_forms=laws,
    )
