"""Network families by name, written with the parts of the other files."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from deeplimits.architecture.activation import Activation, Relu, activation
from deeplimits.architecture.compose import Repeat, Residual, Serial, body
from deeplimits.architecture.dense import Dense, Gaussian, WeightLaw
from deeplimits.architecture.layer import DEPTH, Layer
from deeplimits.architecture.scale import Decreasing, check_scale
from deeplimits.errors import DescriptionError, nearest


@dataclass(frozen=True)
class Network(Layer):
    """A whole network family, its width and depth left open."""

    @property
    def body(self) -> Layer:
        """The network without its readout: the features that enter it."""
        return body(self)


@dataclass(frozen=True)
class Mlp(Network):
    """A multilayer perceptron: DEPTH times (Dense, activation), then a readout.

    Depth counts hidden activations. `weight_std` defaults to sqrt(2) for ReLU (He) and to 1 otherwise.

    Args:
        activation: a name or an object of `dl.act`.
        weight_std, bias_std: of the hidden layers.
        readout_std, readout_bias_std: of the readout.
        weights: law of the hidden weight matrices.
        outputs: number of outputs.

    Example:
        >>> Mlp("relu").weight_std
        1.4142135623730951
    """

    activation: Any = "relu"
    weight_std: Any = None
    bias_std: Any = 0.0
    readout_std: Any = 1.0
    readout_bias_std: Any = 0.0
    weights: WeightLaw = field(default_factory=Gaussian)
    outputs: int = 1

    tunable: ClassVar[tuple[str, ...]] = ("weight_std", "bias_std", "readout_std", "readout_bias_std")

    def __post_init__(self) -> None:
        object.__setattr__(self, "activation", activation(self.activation))
        if self.weight_std is None:
            object.__setattr__(self, "weight_std", 2**0.5 if isinstance(self.activation, Relu) else 1.0)
        self.parts()

    def parts(self) -> Serial:
        """Return Repeat(Dense >> activation) >> Dense."""
        hidden = Dense(weight_std=self.weight_std, bias_std=self.bias_std, weights=self.weights)
        readout = Dense(self.outputs, self.readout_std, self.readout_bias_std)
        return Serial(Repeat(Serial(hidden, self.activation)), readout)

    def children(self) -> Any:
        """Yield nothing: the hyperparameters are the fields themselves."""
        return iter(())


@dataclass(frozen=True)
class ResNet(Network):
    """A residual network x_l = x_{l-1} + scale * branch(x_{l-1}), l = 1..DEPTH, between a read-in and a readout.

    Depth counts branches. At |x|^2/d = 1 and depth infinity the defaults give NNGP e^(1/2) and NTK e^(1/2) (2 + 1/2)
    for ReLU (every layer trained).

    Args:
        activation: a name or an object of `dl.act`.
        weight_std, bias_std: of the branch's last dense layer.
        readin_std, readin_bias_std: of the read-in.
        readout_std, readout_bias_std: of the readout.
        branch_layers: 1 (activation, dense) or 2 (activation, dense, activation, dense).
        inner_std, inner_bias_std: of the first dense layer of a two-layer branch.
        scale: a number, a power of DEPTH, or a sequence alpha(l, L).
        final_activation: applied before the readout, or None.
        weights: law of the branch matrices.
        outputs: number of outputs.

    Source: hayou-yang-2023-commute; hayou-2023-commute-ii.

    Example:
        >>> ResNet("erf").scale
        Power(exponent=-0.5, factor=1.0)
    """

    activation: Any = "relu"
    weight_std: Any = 1.0
    bias_std: Any = 0.0
    readin_std: Any = 1.0
    readin_bias_std: Any = 0.0
    readout_std: Any = 1.0
    readout_bias_std: Any = 0.0
    branch_layers: int = 1
    inner_std: Any = 1.0
    inner_bias_std: Any = 0.0
    scale: Any = field(default_factory=lambda: DEPTH**-0.5)
    final_activation: Any = None
    weights: WeightLaw = field(default_factory=Gaussian)
    outputs: int = 1

    tunable: ClassVar[tuple[str, ...]] = (
        *("weight_std", "bias_std", "readin_std", "readin_bias_std", "readout_std", "readout_bias_std"),
        *("inner_std", "inner_bias_std", "scale"),
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "activation", activation(self.activation))
        if self.final_activation is not None:
            object.__setattr__(self, "final_activation", activation(self.final_activation))
        if self.branch_layers not in (1, 2):
            why = f"branch_layers={self.branch_layers!r}"
            raise DescriptionError(type(self).__name__, why, "use 1 or 2, or write the branch with dl.layer.Residual")
        check_scale(type(self).__name__, self.scale)
        self.parts()

    def parts(self) -> Serial:
        """Return read-in >> Repeat(Residual(branch, scale)) >> [final activation] >> readout."""
        last = Dense(weight_std=self.weight_std, bias_std=self.bias_std, weights=self.weights)
        branch: tuple[Layer, ...] = (self.activation, last)
        if self.branch_layers == 2:
            inner = Dense(weight_std=self.inner_std, bias_std=self.inner_bias_std, weights=self.weights)
            branch = (self.activation, inner, *branch)
        final = () if self.final_activation is None else (self.final_activation,)
        return Serial(
            Dense(weight_std=self.readin_std, bias_std=self.readin_bias_std),
            Repeat(Residual(Serial(*branch), self.scale)),
            *final,
            Dense(self.outputs, self.readout_std, self.readout_bias_std),
        )

    def children(self) -> Any:
        """Yield nothing: the hyperparameters are the fields themselves."""
        return iter(())


def StableResNet(activation: Any = "relu", sequence: str = "uniform", **options: Any) -> ResNet:
    """Return a ResNet whose branch scales have a bounded sum of squares.

    Args:
        activation: a name or an object of `dl.act`.
        sequence: "uniform" (1/sqrt(DEPTH)) or "decreasing" (1/l).
        options: further options of ResNet.

    Source: hayou-2020-stable-resnet.

    Example:
        >>> StableResNet(sequence="decreasing").scale
        Decreasing(exponent=1.0, factor=1.0)
    """
    sequences = {"uniform": DEPTH**-0.5, "decreasing": Decreasing()}
    if sequence not in sequences:
        raise DescriptionError("StableResNet", f"no sequence {sequence!r}", nearest(str(sequence), sequences))
    return ResNet(activation, scale=sequences[sequence], **options)


NETWORKS: dict[str, Any] = {"mlp": Mlp, "resnet": ResNet, "stable-resnet": StableResNet}


def network(name: str, **options: Any) -> Network:
    """Return the network family of that name.

    Raises:
        DescriptionError: an unknown name or option (the nearest are offered).

    Example:
        >>> network("mlp", activation="erf").activation
        Erf(amplitude=1.0, frequency=1.0, shift=0.0)
    """
    maker = NETWORKS.get(name.lower().replace("_", "-"))
    if maker is None:
        raise DescriptionError("network", f"no network named {name!r}", nearest(name, NETWORKS))
    known = {f.name for f in fields(Mlp if maker is Mlp else ResNet)} | (
        {"sequence"} if maker is StableResNet else set()
    )
    for option in options:
        if option not in known:
            raise DescriptionError(f"network({name!r})", f"no option {option!r}", nearest(option, known))
    return maker(**options)


__all__ = ["NETWORKS", "Activation", "Mlp", "Network", "ResNet", "StableResNet", "network"]
