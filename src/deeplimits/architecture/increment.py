"""The increment of a block of the user's own: the covariance of its output, written once in averages over neurons."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from deeplimits.architecture.dense import Dense, Gaussian
from deeplimits.architecture.layer import Layer
from deeplimits.architecture.question import Question
from deeplimits.errors import DescriptionError

Covariance = Callable[[Any, Any, Callable[[Any], Any]], Any]

increment = Question(
    "increment", otherwise="write the block with the parts of dl.layer, or use it only where it has rules of its own"
)


@dataclass(frozen=True)
class Increment:
    """What a block adds to the hidden state: n outputs with zero mean, alike and independent given the state.

    covariance(u, v, mean) = E[b_i(x) b_i(y) | state], u and v the values of the state's neurons under two inputs x, y
    (torch tensors), mean(...) the average over neurons, which keeps its dimension so that it can enter another average.

    Attributes:
        covariance: the function above; symmetric in (u, v).
        learned: likewise, the sum over the block's own parameters p of E[db_i(x)/dp db_i(y)/dp], in the NTK
            parametrization. None: the covariance itself, right for a block linear in its parameters (one layer of
            weights, biases included); W f(u) * V g(u) has twice its covariance.
        gaussian: whether the outputs are Gaussian given the state, as after a last layer of Gaussian weights. If not,
            kernels at finite depth are right up to a term of order 1/depth, and in the limit.

    Example:
        >>> Increment(lambda u, v, mean: mean(u * v)).gaussian
        True
    """

    covariance: Covariance
    learned: Covariance | None = None
    gaussian: bool = True


def increment_of(layer: Layer) -> Increment:
    """Return the increment of a layer; a rule may return the covariance alone.

    Raises:
        NoRule: the layer has no rule.
        DescriptionError: the rule returns neither a function nor an Increment.
    """
    found = increment(layer)
    if isinstance(found, Increment):
        return found
    if callable(found):
        return Increment(found)
    why = f"the increment's rule returned a {type(found).__name__}"
    fix = "return covariance(u, v, mean), e.g. lambda u, v, mean: mean(u * v), or an Increment"
    raise DescriptionError(type(layer).__name__, why, fix)


def checked(layer: Layer, value: Any, shape: tuple[int, ...]) -> Any:
    """Return the value of a covariance, expanded to a shape where it is a tensor.

    Raises:
        DescriptionError: another shape, as where a neuron's value is used outside mean(...); a value not finite.
    """
    where = f"increment of {type(layer).__name__}"
    try:
        found = value.expand(shape) if hasattr(value, "expand") else float(value)
    except (RuntimeError, TypeError, ValueError) as error:
        shown = f"shape {tuple(value.shape)}" if hasattr(value, "shape") else f"a {type(value).__name__}"
        why = f"the covariance returned {shown}, not one number for each pair of inputs"
        raise DescriptionError(where, why, "put every use of u and v inside mean(...)") from error
    if not bool((found * 0.0 == 0.0) if isinstance(found, float) else found.isfinite().all()):  # pyright: ignore
        why = "the covariance returned a number that is not finite"
        raise DescriptionError(where, why, "make it finite for every real state, zero included")
    return found


def given_by_increment(layer: Layer) -> Iterator[Layer]:
    """Yield every block of the user's own in a description: layers that have an increment and are no Dense layer.

    Example:
        >>> list(given_by_increment(Dense()))
        []
    """
    if type(layer) in increment.rules and not isinstance(layer, Dense):
        yield layer
        return
    simpler = layer.parts()
    for child in [simpler] if simpler is not None else [child for _, child in layer.children()]:
        yield from given_by_increment(child)


@increment.rule(Dense, source="lee-2018-deep, eq. 5", valid="Gaussian weights")
def dense(layer: Dense) -> Increment:
    """E[(W u + b)(W v + b)] = weight_std**2 mean(u v) + bias_std**2."""
    if not isinstance(layer.weights, Gaussian):
        why = f"the outputs of {type(layer.weights).__name__} weights are not Gaussian and independent given the state"
        raise DescriptionError("Dense", why, "use Gaussian weights, or sample it with dl.sample(...)")
    weight, bias = layer.weight_std**2, layer.bias_std**2
    return Increment(lambda u, v, mean: weight * mean(u * v) + bias)
