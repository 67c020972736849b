"""The front of the one-hidden-layer question: data, a learning rate and an activation in, a record of training out."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from deeplimits.architecture.activation import ShapedRelu
from deeplimits.architecture.activation import activation as activation_named
from deeplimits.architecture.size import whole
from deeplimits.errors import InputError, NoLimit
from deeplimits.limits.kernel.activation import family
from deeplimits.limits.training.one_hidden import start as starts
from deeplimits.limits.training.one_hidden.course import Course, Diverged
from deeplimits.limits.training.one_hidden.descent import descend
from deeplimits.limits.training.one_hidden.record import OneHidden
from deeplimits.limits.training.one_hidden.start import Neurons
from deeplimits.limits.training.one_hidden.task import SMALLER, Task, choice, prepare, size_of
from deeplimits.numerics.arrays import check_memory
from deeplimits.numerics.gaussian import Family, Linear
from deeplimits.progress import Bar

WHERE = "one_hidden"
REPLICATES = 8
SAMPLES = 8192
SAMPLINGS = ("sobol", "plain")


def one_hidden(
    X: Any,
    y: Any,
    rate: float,
    steps: int,
    *,
    activation: Any = "identity",
    loss: str = "square",
    momentum: float = 0.0,
    batch: int | None = None,
    gamma: float = 1.0,
    readout: str = "normal",
    width: float = inf,
    networks: int | None = None,
    samples: int | None = None,
    sampling: str | None = None,
    seed: int = 0,
    kept: int = 9,
    X_test: Any = None,
) -> OneHidden:
    """Return training of one hidden layer in which features move (muP), at infinite width or at a finite one.

    f(x) = sum over neurons of v phi(u . x / sqrt(d)) / (gamma n); standard normal weights move by rate gamma^2 n times
    the gradient: dl.mean_field at depth=1 and standard deviations 1 (a weight_std multiplies X).

    With the identity, [U, V] stays [U_0, V_0] M, and the same code run on U_0 = [I; 0], V_0 = [0; I], each neuron
    counted with weight 1, is infinite width, exactly and for any number of steps. Other activations take particles:
    `samples` neurons as one network, with standard errors by its 8 independent eighths. A finite width takes drawn
    weights. The start is all that differs.

    Args:
        X: training inputs, shape (P, d); numpy or torch.
        y: targets, shape (P,), or (P, C) for C outputs.
        rate: learning rate, in the units of dl.mean_field and dl.gradient_flow.
        steps: of gradient descent.
        activation: a name or an activation of dl.act; the identity is solved exactly.
        loss: "square" (sum of (f - y)^2 / 2), "logistic" (y = -1 or 1) or "softmax" (rows of probabilities).
        momentum: of the heavy ball.
        batch: rows a step, in an order drawn from the seed, the same at every width; None for all rows.
        gamma: strength of feature learning.
        readout: "normal", or "zero" for V_0 = 0.
        width: infinity, or neurons.
        networks: at a finite width, how many; their outputs stand in `runs`.
        samples: particles over all replicates, 8 times a power of two (16 times, in pairs, for a normal readout).
        sampling: of particles, "sobol" or "plain".
        seed: of whatever is drawn.
        kept: times at which kernels are kept, evenly spaced.
        X_test: inputs to predict at, which are not trained on, shape (M, d).

    Memory: about 8 (samples (8 (r + C) + 6 (P + M)) + steps (P + M) C + 3 kept (P^2 + (P C)^2)) bytes, r <= d the
    number of directions that inputs span, r + C in place of samples for the identity; refused before any work where it
    does not fit.

    Valid when: width to infinity first, at any fixed steps; algorithms that are built from gradients.

    Raises:
        InputError: data or options that cannot be used; a rate that is unstable at the start, with the largest stable
            one (full batches, squared error).
        NoLimit: training diverges; the error's `record` holds the steps before.
        MemoryNeeded: the record or the particles are too large.

    Source: yang-hu-2020-tp4; mei-2018-mean-field for particles.

    Example:
        >>> found = one_hidden(np.eye(2), [1.0, -1.0], rate=0.3, steps=60)
        >>> found.outputs[-1].round(3), found.movement[-1].round(2)
        (array([ 1., -1.]), np.float64(0.83))
        >>> wide = one_hidden(np.eye(2), [1.0, -1.0], rate=0.3, steps=60, width=10**6, networks=50)
        >>> bool(np.abs(wide.runs[:, 10] - found.runs[:, 10]).max() < 0.01)
        True
    """
    width, count = size_of(WHERE, width, networks)
    phi = activation_family(WHERE, activation)
    exact = width == inf and isinstance(phi, Linear)
    choice(WHERE, "readout", readout, ("normal", "zero"))
    zero = readout == "zero"
    samples, sampling = _sampled(samples, sampling, width, exact, zero)
    task = prepare(WHERE, X, y, X_test, loss, rate, steps, momentum, gamma, batch, kept, seed)
    runs, neurons = _size(task, phi, width, exact, count, samples)
    several = width == inf and not exact
    needed = max(task.needed(runs, neurons), task.needed(1, samples) if several else 0)
    check_memory(WHERE, needed, f"{len(task.X)} inputs over {task.steps} steps on {runs * neurons} neurons", SMALLER)
    _stable(task, phi, loss, zero)
    start = _start(task, phi, width, exact, (runs, samples, sampling), seed, zero)
    about = _words(width, exact, runs, samples, sampling, needed)

    def record(course: Course, joint: Course | None) -> OneHidden:
        return _record(task, course, joint, activation, width, exact, about)

    joint = None
    with Bar((1 + several) * (task.steps + 1), description=f"one hidden layer, {needed / 2**20:,.0f} MiB") as bar:
        try:
            if several:
                joint = descend(task, starts.together(start), phi, lambda time: bar.reach(time + 1))
            return record(
                descend(task, start, phi, lambda time: bar.reach(several * (task.steps + 1) + time + 1)), joint
            )
        except Diverged as error:
            raise _diverged(error, joint, record) from None


def activation_family(where: str, activation: Any) -> Family:
    """Return the function of an activation and its Gaussian expectations.

    Raises:
        DescriptionError: an unknown activation.
        InputError: one that is another function at every width.
    """
    layer = activation_named(activation)
    if isinstance(layer, ShapedRelu):
        fix = "give its activation at one width, dl.act.ShapedRelu(...).at(width), or 'identity'"
        raise InputError(where, "ShapedRelu is another function at every width, the identity in the limit", fix)
    return family(layer)


def _sampled(samples: Any, sampling: Any, width: float, exact: bool, zero: bool) -> tuple[int, str]:
    """Return the number of particles and how they are drawn; refuse both where there are none."""
    if exact or width != inf:
        for name, value in (("samples", samples), ("sampling", sampling)):
            if value is not None:
                what = "nothing is sampled" if exact else "networks of a finite width are drawn as they are"
                raise InputError(WHERE, f"{name}={value!r} has no effect: {what}", f"leave {name} out")
    sampling = "sobol" if sampling is None else choice(WHERE, "sampling", sampling, SAMPLINGS)
    count = SAMPLES if samples is None else whole(WHERE, "samples", samples)
    unit = REPLICATES * (1 if zero else 2)
    each = count // unit
    if count % unit or each < 1 or (sampling == "sobol" and each & (each - 1)):
        times = "a power of two" if sampling == "sobol" else "a whole number"
        why = f"samples={count} do not split into {REPLICATES} replicates" + ("" if zero else " of pairs")
        raise InputError(WHERE, why, f"give {unit} times {times}, e.g. samples={SAMPLES}")
    return count, sampling


def _size(task: Task, phi: Family, width: float, exact: bool, networks: int, samples: int) -> tuple[int, int]:
    """Return how many runs there are, and neurons in each."""
    root = task.X.shape[1] + task.y.shape[1]
    if exact:
        return 1, root
    if width == inf:
        return REPLICATES, samples // REPLICATES
    return networks, min(int(width), root) if isinstance(phi, Linear) else int(width)


def _start(
    task: Task, phi: Family, width: float, exact: bool, how: tuple[int, int, str], seed: int, zero: bool
) -> Neurons:
    runs, samples, sampling = how
    sizes = task.X.shape[1], task.y.shape[1]
    if exact:
        return starts.basis(*sizes, zero=zero)
    if width == inf:
        return starts.particles(samples, runs, *sizes, seed=seed, sampling=sampling, zero=zero)
    draw = starts.linear_drawn if isinstance(phi, Linear) else starts.drawn
    return draw(int(width), *sizes, networks=runs, seed=seed, zero=zero)


def _stable(task: Task, phi: Family, loss: str, zero: bool) -> None:
    """Refuse a rate at which errors grow from the first step: those of the NTK at initialisation."""
    if loss != "square" or task.batches is not None:
        return
    ntk = initial_kernel(task.X, phi, zero)
    largest = max(float(np.linalg.eigvalsh(ntk)[-1]), np.finfo(np.float64).tiny)
    most = 2 * (1 + task.momentum) / largest
    if task.rate > most:
        why = f"rate={task.rate:g} is past stability: at the start, errors along one direction grow at every step"
        above = "2" if task.momentum == 0 else "2 (1 + momentum)"
        fix = f"give a rate below {most:.4g} = {above} / (largest eigenvalue of the NTK)"
        raise InputError(WHERE, why, fix)


def initial_kernel(X: np.ndarray, phi: Family, zero: bool) -> np.ndarray:
    """Return E[phi phi] + <x, x'> E[phi' phi'] of one output at the start, the second term unless V_0 = 0."""
    if isinstance(phi, Linear):
        return (1 if zero else 2) * X @ X.T
    import torch

    k = torch.as_tensor(X @ X.T)
    q = torch.diagonal(k)
    value, slope = phi.pair(k, q[:, None], q[None, :])
    return (value if zero else value + k * slope).numpy()


def _words(width: float, exact: bool, runs: int, samples: int, sampling: str, needed: int) -> str:
    if exact:
        how = "infinite width, exact: nothing is sampled"
    elif width == inf:
        points = "scrambled Sobol points" if sampling == "sobol" else "plain sampling"
        how = f"infinite width by {samples} particles in {runs} replicates, {points}"
    else:
        how = f"{runs} network{'s' if runs > 1 else ''} of width {width}"
    return f"{how}; {needed:,} bytes"


def _diverged(error: Diverged, joint: Course | None, record: Any) -> NoLimit:
    why = f"training diverges at step {error.time}: the loss is more than a million times that of zero outputs"
    refusal = NoLimit(WHERE, why, "use a smaller rate or gamma; this error's `record` holds the steps before")
    whole = None if joint is None else joint.cut(error.time)
    refusal.record = record(error.course, whole) if error.time else None  # type: ignore[attr-defined]
    return refusal


def _record(
    task: Task, course: Course, joint: Course | None, activation: Any, width: float, exact: bool, how: str
) -> OneHidden:
    named = activation if isinstance(activation, str) else type(activation).__name__
    text = (
        f"one hidden layer, {named}, gamma {task.gamma:g}, rate {task.rate:g}: {course.losses.shape[1] - 1} steps on "
        f"{len(task.X)} inputs; {how}"
    )
    return OneHidden(
        course, joint, task.X @ task.X.T, task.basis, named, width, task.gamma, task.rate, task.momentum, exact, text,
        task.several,
    )  # fmt: skip
