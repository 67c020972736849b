"""What each layer adds to the motion of a covariance."""

from __future__ import annotations

from math import sqrt

from deeplimits.architecture.activation import AbRelu, Abs, Activation, Identity, LeakyRelu, Relu, ShapedRelu
from deeplimits.architecture.attention import Attention
from deeplimits.architecture.compose import Repeat, Residual, Serial, written_out
from deeplimits.architecture.dense import Dense, Gaussian, WeightLaw
from deeplimits.architecture.layer import Layer, Power, Share, as_float
from deeplimits.architecture.scale import is_sequence
from deeplimits.architecture.shaped import WeightedSkip
from deeplimits.errors import DescriptionError, NoLimit, NoRule
from deeplimits.limits.proportional.motion import Motion, proportional

WHERE = "proportional"


@proportional.rule(Serial, source="definition")
def serial(layer: Serial) -> Motion:
    """One after the other: moves of order 1/n add up."""
    motion = Motion()
    for part in layer.layers:
        motion = motion.then(proportional(part))
    return motion


@proportional.rule(Repeat, source="definition")
def repeat(layer: Repeat) -> Motion:
    """A fixed number of blocks, one after the other."""
    if isinstance(layer.times, Power):
        raise DescriptionError(WHERE, "a block repeated DEPTH times holds another one", "repeat one block DEPTH times")
    return serial(Serial(layers=(layer.block,) * layer.times))


@proportional.rule(Dense, source="li-nica-roy-2022; definition (Wishart)", valid="Gaussian weights, no bias")
def dense(layer: Dense) -> Motion:
    """V' = weight_std^2 Z Z^T / n', rows of Z drawn from N(0, V) in n' features."""
    _gaussian("Dense", layer.weights)
    if as_float(layer.bias_std) != 0.0:
        why = f"biases of standard deviation {as_float(layer.bias_std):g} in every layer add up as depth grows"
        raise NoLimit(WHERE, why, "leave the biases out, or sample the network with dl.sample")
    return Motion(gain=_gain("Dense", as_float(layer.weight_std) ** 2), dense=1 / _share("Dense", layer.features))


@proportional.rule(ShapedRelu, source="li-nica-roy-2022", valid="Gaussian input: weights or a skip before it")
def shaped_relu(layer: ShapedRelu) -> Motion:
    """(c_plus - c_minus)^2 sqrt(V_aa V_bb) (sqrt(1 - rho^2) - rho arccos rho) / (2 pi).

    Straight after a skip, whose sum is Gaussian in the limit only, corrections in the width are larger.
    """
    return Motion(angle=(as_float(layer.plus) - as_float(layer.minus)) ** 2)


@proportional.rule(Identity, source="definition")
def identity(_: Identity) -> Motion:
    """Nothing moves."""
    return Motion()


@proportional.rule(Relu, Abs, LeakyRelu, AbRelu, source="hanin-nica-2019", valid="no skip")
def two_slopes(layer: Activation) -> Motion:
    """V is multiplied by the mean of the squared slopes, and its correlations move towards one in every layer."""
    match layer:
        case Relu():
            slopes = (1.0, 0.0)
        case Abs():
            slopes = (1.0, -1.0)
        case LeakyRelu(slope=slope):
            slopes = (1.0, float(slope))
        case AbRelu(negative=negative, positive=positive):
            slopes = (float(positive), float(negative))
        case _:
            raise proportional.missing(layer)
    gain = _gain(type(layer).__name__, (slopes[0] ** 2 + slopes[1] ** 2) / 2)
    return Motion(gain) if slopes[0] == slopes[1] else Motion(gain, slopes=slopes)


@proportional.rule(
    Attention, source="noci-2023-shaped-transformer; derived (masks and heads)", valid="Gaussian weights"
)
def attention(layer: Attention) -> Motion:
    """A V A^T with A = I + A_1/sqrt(n) + A_2/n, then the value matrix; A_1 is an average over heads."""
    if layer.kind != "shaped":
        why = (
            f"{layer.kind} attention is not close to the identity, so that depth acts long before it reaches the width"
        )
        raise NoRule(WHERE, why, "use Attention('shaped', ...), or sample with dl.sample")
    _gaussian("Attention", layer.weights)
    for name in ("query_std", "key_std", "value_std"):
        if getattr(layer, name) is None:
            raise NoRule(WHERE, f"attention without the matrix of {name}=None has another law", f"give {name}=1.0")
    temperature = 1.0 if layer.temperature is None else as_float(layer.temperature)
    strength = (as_float(layer.query_std) * as_float(layer.key_std) / temperature) ** 2
    return Motion(
        gain=_gain("Attention", as_float(layer.value_std) ** 2),
        dense=1 / _share("Attention", layer.features),
        attention=strength,
        first_order=strength / layer.heads,
        causal=layer.causal,
    )


@proportional.rule(
    WeightedSkip, source="noci-2023-shaped-transformer", valid="the branch ends in fresh Gaussian weights"
)
def weighted_skip(layer: WeightedSkip) -> Motion:
    """skip * x + scale * branch(x)."""
    scale = as_float(layer.scale)
    return _beside_skip(layer.branch, sqrt(1 - scale**2) if layer.skip is None else as_float(layer.skip), scale)


@proportional.rule(Residual, source="noci-2023-shaped-transformer", valid="the branch ends in fresh Gaussian weights")
def residual(layer: Residual) -> Motion:
    """x + scale * branch(x), a number as scale."""
    if is_sequence(layer.scale):
        why = "a block has a branch whose scale depends on DEPTH and one whose scale does not"
        raise DescriptionError(WHERE, why, "give all branches of the block the same kind of scale")
    return _beside_skip(layer.branch, 1.0, as_float(layer.scale))


def _beside_skip(branch: Layer, skip: float, scale: float) -> Motion:
    motion = proportional(branch)
    if motion.slopes is not None:
        why = (
            f"an activation of slopes {motion.slopes[0]:g} and {motion.slopes[1]:g} in a branch of fixed scale brings "
            "all inputs together in a number of layers that does not grow with the width"
        )
        raise NoLimit(WHERE, why, "shape it, dl.act.ShapedRelu(...), or scale the branch by DEPTH**-0.5")
    ending = written_out(branch).layers[-1:]  # type: ignore[attr-defined]
    if not ending or not isinstance(ending[0], Dense | Attention):
        why = f"a branch ends in {type(ending[0]).__name__ if ending else 'its own input'}, whose mean adds to the skip"
        raise DescriptionError(WHERE, why, "end the branch in a Dense layer or in attention")
    _gain("WeightedSkip", skip**2 + scale**2)
    return motion.beside_skip(skip, scale)


def _gaussian(where: str, law: WeightLaw) -> None:
    if not isinstance(law, Gaussian):
        raise NoRule(
            f"{WHERE}: {where}", f"the law of {type(law).__name__} weights is not known here", "use Gaussian()"
        )


def _share(where: str, features: object) -> float:
    if not isinstance(features, Share):
        why = f"features={features!r} does not grow with the width"
        raise DescriptionError(f"{WHERE}: {where}", why, "give features=WIDTH or a multiple of it")
    return features.fraction


def _gain(where: str, gain: float) -> float:
    if not 0.0 < gain < float("inf"):
        raise NoLimit(f"{WHERE}: {where}", f"the layer multiplies covariances by {gain:g}", "give a positive scale")
    return gain
