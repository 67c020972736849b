"""Networks shaped by their width: activations and attention near the identity, skips of fixed weight."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar

from deeplimits.architecture.activation import ShapedRelu
from deeplimits.architecture.attention import Attention
from deeplimits.architecture.compose import Repeat, Serial
from deeplimits.architecture.dense import Dense
from deeplimits.architecture.layer import Layer, as_float, number
from deeplimits.architecture.size import whole
from deeplimits.architecture.zoo import Network
from deeplimits.errors import DescriptionError


@dataclass(frozen=True)
class WeightedSkip(Layer):
    """skip * x + scale * branch(x), both weights plain numbers.

    Args:
        branch: the branch.
        skip: lambda, at least 0; by default sqrt(1 - scale^2), which keeps the variance of a branch of variance one.
        scale: gamma, at least 0.

    Raises:
        DescriptionError: a weight below 0 or not finite; a scale above 1 where no skip is given.

    Example:
        >>> round(WeightedSkip(Dense(), scale=0.6).mixing[0], 12)
        0.8
    """

    branch: Layer
    skip: Any = None
    scale: Any = sqrt(0.5)

    tunable: ClassVar[tuple[str, ...]] = ("skip", "scale")

    def __post_init__(self) -> None:
        if not isinstance(self.branch, Layer):
            raise DescriptionError("WeightedSkip", f"{self.branch!r} is not a layer", "give e.g. dl.layer.Dense()")
        _check_weights("WeightedSkip", "scale", self.skip, self.scale)

    @property
    def mixing(self) -> tuple[Any, Any]:
        """The weights (lambda, gamma) of the skip and of the branch."""
        return (1.0 - self.scale**2) ** 0.5 if self.skip is None else self.skip, self.scale


@dataclass(frozen=True)
class ShapedMlp(Network):
    """A perceptron whose ReLU is shaped by the width: DEPTH times (Dense, ShapedRelu), then a readout.

    At depth proportional to width its covariance is a diffusion in which correlations neither collapse nor freeze:
    `dl.proportional`. Depth counts hidden activations.

    Args:
        c_plus, c_minus: slopes 1 + c/sqrt(width) above and below zero.
        readout_std: of the readout.
        outputs: number of outputs.

    Source: li-nica-roy-2022.

    Example:
        >>> ShapedMlp(c_plus=0.0, c_minus=-1.0).body.layers[0].block.layers[1]
        ShapedRelu(plus=0.0, minus=-1.0)
    """

    c_plus: Any = 0.0
    c_minus: Any = -1.0
    readout_std: Any = 1.0
    outputs: int = 1

    tunable: ClassVar[tuple[str, ...]] = ("c_plus", "c_minus", "readout_std")

    def __post_init__(self) -> None:
        self.parts()

    def parts(self) -> Serial:
        """Return Repeat(Dense >> ShapedRelu) >> Dense."""
        block = Serial(Dense(), ShapedRelu(self.c_plus, self.c_minus))
        return Serial(Repeat(block), Dense(self.outputs, self.readout_std))


@dataclass(frozen=True)
class ShapedResNet(Network):
    """A residual network of fixed weights: X <- lambda X + gamma Dense(ShapedRelu(Dense(X))), DEPTH times.

    The blocks stand between a read-in and a readout.

    Args:
        branch_scale: gamma.
        c_plus, c_minus: slopes 1 + c/sqrt(width) of the activation above and below zero.
        skip: lambda; by default sqrt(1 - gamma^2), which keeps the variance.
        readin_std, readout_std: of the read-in and the readout.
        outputs: number of outputs.

    Raises:
        DescriptionError: weights below 0 or not finite; gamma above 1 where no skip is given.

    Source: noci-2023-shaped-transformer.

    Example:
        >>> ShapedResNet(branch_scale=0.6).body.layers[1].block.mixing
        (0.8, 0.6)
    """

    branch_scale: Any = sqrt(0.5)
    c_plus: Any = 0.0
    c_minus: Any = -1.0
    skip: Any = None
    readin_std: Any = 1.0
    readout_std: Any = 1.0
    outputs: int = 1

    tunable: ClassVar[tuple[str, ...]] = ("branch_scale", "c_plus", "c_minus", "skip", "readin_std", "readout_std")

    def __post_init__(self) -> None:
        _check_weights("ShapedResNet", "branch_scale", self.skip, self.branch_scale)
        self.parts()

    def parts(self) -> Serial:
        """Return read-in >> Repeat(WeightedSkip(Dense >> ShapedRelu >> Dense)) >> readout."""
        block = WeightedSkip(_perceptron(self.c_plus, self.c_minus), self.skip, self.branch_scale)
        return Serial(Dense(weight_std=self.readin_std), Repeat(block), Dense(self.outputs, self.readout_std))


@dataclass(frozen=True)
class ShapedTransformer(Network):
    """A Transformer whose attention and activation are shaped by the width: DEPTH times, on the m tokens of a sequence,

    X <- lambda X + gamma A X W / sqrt(n), A = I + softmax(logits / (temperature sqrt(n))) - 1/m, then
    X <- lambda X + gamma Dense(ShapedRelu(Dense(X))), between a read-in and a readout. One layer of depth is both.

    Args:
        branch_scale: gamma.
        temperature: tau_0 > 0 of the attention.
        skip: lambda; by default sqrt(1 - gamma^2), which keeps the variance.
        c_plus, c_minus: slopes 1 + c/sqrt(width) of the activation above and below zero.
        mlp: whether the second block is there.
        heads: number of heads; more than one are mixed by a Dense layer.
        causal: whether a token sees only itself and those before it.
        readin_std, readout_std: of the read-in and the readout.
        outputs: number of outputs of each token.

    Raises:
        DescriptionError: a temperature that is not positive; weights below 0 or not finite; gamma above 1 where no
            skip is given.

    Source: noci-2023-shaped-transformer.

    Example:
        >>> ShapedTransformer(branch_scale=0.6, mlp=False).body.layers[1].block.branch.kind
        'shaped'
    """

    branch_scale: Any = 0.5
    temperature: Any = 1.0
    skip: Any = None
    c_plus: Any = 0.0
    c_minus: Any = -1.0
    mlp: bool = True
    heads: int = 1
    causal: bool = False
    readin_std: Any = 1.0
    readout_std: Any = 1.0
    outputs: int = 1

    tunable: ClassVar[tuple[str, ...]] = (
        *("branch_scale", "temperature", "skip", "c_plus", "c_minus", "readin_std", "readout_std"),
    )

    def __post_init__(self) -> None:
        _check_weights("ShapedTransformer", "branch_scale", self.skip, self.branch_scale)
        temperature = as_float(number("ShapedTransformer", "temperature", self.temperature, minimum=None))
        if temperature <= 0:
            why = f"temperature={temperature:g} is not positive"
            raise DescriptionError("ShapedTransformer", why, "give a positive number, such as temperature=1.0")
        if not isinstance(self.mlp, bool):
            raise DescriptionError("ShapedTransformer", f"mlp={self.mlp!r}", "give True or False")
        whole("ShapedTransformer", "heads", self.heads)
        self.parts()

    def parts(self) -> Serial:
        """Return read-in >> Repeat(WeightedSkip(attention) [>> WeightedSkip(perceptron)]) >> readout."""
        attention: Layer = Attention("shaped", self.heads, self.causal, self.temperature)
        if self.heads > 1:
            attention = Serial(attention, Dense())
        blocks: list[Layer] = [WeightedSkip(attention, self.skip, self.branch_scale)]
        if self.mlp:
            blocks.append(WeightedSkip(_perceptron(self.c_plus, self.c_minus), self.skip, self.branch_scale))
        block = Serial(*blocks) if self.mlp else blocks[0]
        return Serial(Dense(weight_std=self.readin_std), Repeat(block), Dense(self.outputs, self.readout_std))


def _perceptron(plus: Any, minus: Any) -> Serial:
    return Serial(Dense(), ShapedRelu(plus, minus), Dense())


def _check_weights(where: str, name: str, skip: Any, scale: Any) -> None:
    gamma = as_float(number(where, name, scale))
    if skip is not None:
        number(where, "skip", skip)
    elif gamma > 1:
        why = f"{name}={gamma:g} is above 1, so that no skip keeps the variance"
        raise DescriptionError(where, why, f"give {name} in [0, 1], or say the weight of the skip: skip=1.0")
