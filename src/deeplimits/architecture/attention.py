"""Attention between the tokens of one sequence, and the Transformer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from deeplimits.architecture.activation import activation
from deeplimits.architecture.compose import Repeat, Residual, Serial
from deeplimits.architecture.dense import Dense, Gaussian, WeightLaw
from deeplimits.architecture.layer import DEPTH, WIDTH, Layer, as_float, number
from deeplimits.architecture.norm import LayerNorm
from deeplimits.architecture.scale import check_scale
from deeplimits.architecture.size import check_size, whole
from deeplimits.architecture.zoo import Network
from deeplimits.errors import DescriptionError, nearest

KINDS: Mapping[str, Mapping[str, Any]] = {
    "softmax": {"temperature": 1.0},
    "shaped": {"temperature": 1.0},
    "sinkhorn": {"temperature": 1.0, "iterations": 100, "tolerance": 1e-5},
    "relu-infinite": {"discount": 0.95, "terms": None},
    "hardmax": {"tolerance": 1e-6, "step": 1.0},
}
"""The options that each kind has beside those of all kinds, with their defaults."""

OPTIONS = ("temperature", "iterations", "tolerance", "discount", "terms", "step")


@dataclass(frozen=True)
class Attention(Layer):
    """Every token becomes a mixture of the values of all tokens: Y_h = A_h X W_h^V for each head h, side by side.

    With queries q = X W^Q, keys k = X W^K (scaled as a Dense layer's outputs), head features n_k, tokens m, width n:

    softmax: A = softmax_j(z), z_ij = <q_i, k_j> / (temperature sqrt(n_k));
    shaped: A = I + softmax_j(z / sqrt(n)) - 1/m, close to the identity at large width;
    sinkhorn: A = exp(z) with columns and rows made to sum to one in turn, rows last;
    relu-infinite: A = sum over k >= 1 of g^k R^k = (I - g R)^-1 - I, R = ReLU(q k^T) / |ReLU(q k^T)|_Frobenius;
    hardmax: A = (1 - step) I + step H, row i of H even over the j with the largest <q_i, k_j>.

    With causal=True token i sees the tokens up to i: 1/m becomes 1/i, and the Frobenius norm of row i is that of the
    rows up to i. The output projection of a multi-head attention is a Dense layer after this one.

    Args:
        kind: one of the five above.
        heads: number of heads; it divides the features.
        causal: whether a token sees only itself and those before it.
        temperature: softmax, shaped, sinkhorn: a number > 0.
        features: of the output, all heads together: WIDTH, a share of it or a number.
        key_features: of the queries and keys of one head; by default features / heads.
        query_std, key_std, value_std: of the weights; None leaves a matrix out (one head; queries and keys together).
        weights: law of the weights.
        iterations: sinkhorn: the most rounds of a column and a row step.
        tolerance: sinkhorn: rounds end where all column sums are within it of one; a warning tells if they never are.
            hardmax: logits within tolerance times the row's largest |logit| of its largest logit tie.
        discount: relu-infinite: g in (0, 1 / spectral radius of R); below 1 it always is.
        terms: relu-infinite: sum only k = 1..terms, with an error of at most g^(terms+1) / (1 - g); None is exact.
        step: hardmax: in (0, 1]; a / (1 + a) is the Frank-Wolfe step with parameter a.

    Raises:
        DescriptionError: an unknown kind, an option of another kind, a value out of range; sinkhorn with causal=True.

    Source: vaswani-2017-attention (softmax); noci-2023-shaped-transformer; sander-2021-sinkformers;
        roffo-2026-infinite-self-attention; alcalde-2025-hardmax-frank-wolfe.

    Example:
        >>> Attention("hardmax", heads=2, step=0.5)
        Attention('hardmax', heads=2, step=0.5)
    """

    kind: str = "softmax"
    heads: int = 1
    causal: bool = False
    temperature: Any = None
    features: Any = WIDTH
    key_features: Any = None
    query_std: Any = 1.0
    key_std: Any = 1.0
    value_std: Any = 1.0
    weights: WeightLaw = field(default_factory=Gaussian)
    iterations: int | None = None
    tolerance: float | None = None
    discount: Any = None
    terms: int | None = None
    step: Any = None

    tunable: ClassVar[tuple[str, ...]] = ("temperature", "query_std", "key_std", "value_std", "discount", "step")

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise DescriptionError("Attention", f"no kind {self.kind!r}", nearest(str(self.kind), KINDS))
        whole("Attention", "heads", self.heads)
        if not isinstance(self.causal, bool):
            raise DescriptionError("Attention", f"causal={self.causal!r}", "give True or False")
        if self.causal and self.kind == "sinkhorn":
            why = (
                "a doubly stochastic matrix without entries above its diagonal is the identity, so no token sees others"
            )
            raise DescriptionError("Attention('sinkhorn', causal=True)", why, "use another kind, or causal=False")
        self._check_options()
        self._check_sizes()
        if not isinstance(self.weights, WeightLaw):
            fix = "use a law of dl.layer such as Gaussian() or Orthogonal()"
            raise DescriptionError("Attention", f"weights={self.weights!r} is not a law of weights", fix)

    def _check_options(self) -> None:
        where, own = f"Attention({self.kind!r})", KINDS[self.kind]
        for name in OPTIONS:
            value = getattr(self, name)
            if value is None:
                object.__setattr__(self, name, own.get(name))
            elif name not in own:
                has = ", ".join(own)
                raise DescriptionError(where, f"{name}={value!r} has no effect", f"leave it out; this kind has {has}")
        if self.temperature is not None and as_float(number(where, "temperature", self.temperature)) == 0.0:
            raise DescriptionError(where, "temperature=0", "use kind='hardmax', the limit of temperature zero")
        if self.tolerance is not None:
            number(where, "tolerance", self.tolerance)
        for name in ("iterations", "terms"):
            if getattr(self, name) is not None:
                whole(where, name, getattr(self, name))
        if self.discount is not None and as_float(number(where, "discount", self.discount)) == 0.0:
            raise DescriptionError(where, "discount=0 lets nothing through", "give a number > 0, below 1 to be safe")
        if self.step is not None and not 0.0 < as_float(number(where, "step", self.step)) <= 1.0:
            raise DescriptionError(where, f"step={self.step!r} is out of range", "give a number in (0, 1]")

    def _check_sizes(self) -> None:
        check_size("Attention", "features", self.features)
        if self.key_features is not None:
            check_size("Attention", "key_features", self.key_features)
        if isinstance(self.features, int) and self.features % self.heads:
            why = f"heads={self.heads} do not divide features={self.features}"
            raise DescriptionError("Attention", why, "give a number of heads that divides the features")
        for name in ("query_std", "key_std", "value_std"):
            if getattr(self, name) is not None:
                number("Attention", name, getattr(self, name))
        if (self.query_std is None) != (self.key_std is None):
            why = "one of queries and keys has a matrix and the other none, so that their features differ"
            raise DescriptionError("Attention", why, "give both a standard deviation, or None to both")
        if self.heads > 1 and None in (self.query_std, self.value_std):
            why = f"heads={self.heads} with queries, keys or values that have no matrix would all be the same"
            raise DescriptionError("Attention", why, "use heads=1, or give each a standard deviation")

    def __repr__(self) -> str:
        usual = {each.name: KINDS[self.kind].get(each.name, each.default) for each in fields(self)} | {
            "weights": Gaussian()
        }
        given = {name: getattr(self, name) for name in usual if getattr(self, name) != usual[name]}
        told = [repr(self.kind), *(f"{name}={value!r}" for name, value in given.items() if name != "kind")]
        return f"Attention({', '.join(told)})"

    def hyperparameters(self) -> dict[str, Any]:
        """Return {path: value} of the numbers that this kind has."""
        return {name: value for name, value in super().hyperparameters().items() if value is not None}


@dataclass(frozen=True)
class Transformer(Network):
    """A Transformer on the tokens of one sequence, (m, d) to (m, outputs): DEPTH blocks between read-in and readout.

    A block adds scale * Dense(Attention(x)), then scale * Dense(phi(Dense(x))), each of the two to its own input.
    Pre-norm normalises what enters a branch, and the features once more before the readout; post-norm normalises
    each sum. Positions are the caller's: add their encoding to the tokens.

    Args:
        activation: phi, a name or an object of `dl.act`.
        attention: a kind, or an Attention with options of its own.
        heads, causal: of the attention, where it is given by its kind.
        norm: "pre", "post" or "none".
        normalisation: LayerNorm() or RMSNorm(), or another layer.
        scale: of both branches: a number, a power of DEPTH, or a sequence alpha(l, L) over the blocks.
        hidden: features between the two layers of the second branch: a share of WIDTH, or a number.
        output_std: of the last Dense layer of each branch.
        inner_std, bias_std: of the first Dense layer of the second branch, and of the biases of that branch.
        readin_std, readout_std: of the read-in and the readout.
        outputs: number of outputs of each token.

    Raises:
        DescriptionError: an option out of range; heads or causal given beside an Attention that has others.

    Source: vaswani-2017-attention; xiong-2020-layer-norm (pre- and post-norm).

    Example:
        >>> Transformer("relu", heads=4, causal=True).attention.heads
        4
    """

    activation: Any = "gelu"
    attention: Any = "softmax"
    heads: int | None = None
    causal: bool | None = None
    norm: str = "pre"
    normalisation: Layer = field(default_factory=LayerNorm)
    scale: Any = field(default_factory=lambda: DEPTH**-0.5)
    hidden: Any = field(default_factory=lambda: 4 * WIDTH)
    output_std: Any = 1.0
    inner_std: Any = 1.0
    bias_std: Any = 0.0
    readin_std: Any = 1.0
    readout_std: Any = 1.0
    outputs: int = 1

    tunable: ClassVar[tuple[str, ...]] = ("scale", "output_std", "inner_std", "bias_std", "readin_std", "readout_std")

    def __post_init__(self) -> None:
        object.__setattr__(self, "activation", activation(self.activation))
        object.__setattr__(self, "attention", self._attention())
        object.__setattr__(self, "heads", self.attention.heads)
        object.__setattr__(self, "causal", self.attention.causal)
        if self.norm not in ("pre", "post", "none"):
            raise DescriptionError("Transformer", f"norm={self.norm!r}", "use 'pre', 'post' or 'none'")
        if not isinstance(self.normalisation, Layer):
            fix = "use dl.layer.LayerNorm() or dl.layer.RMSNorm()"
            raise DescriptionError("Transformer", f"normalisation={self.normalisation!r} is not a layer", fix)
        check_scale("Transformer", self.scale)
        self.parts()

    def _attention(self) -> Attention:
        given = {name: getattr(self, name) for name in ("heads", "causal") if getattr(self, name) is not None}
        if isinstance(self.attention, str):
            return Attention(self.attention, **given)
        if not isinstance(self.attention, Attention):
            fix = "give a kind such as 'softmax', or dl.layer.Attention(...)"
            raise DescriptionError("Transformer", f"attention={self.attention!r} is not an attention", fix)
        for name, value in given.items():
            if value != getattr(self.attention, name):
                why = f"{name}={value!r} stands beside an Attention with {name}={getattr(self.attention, name)!r}"
                raise DescriptionError("Transformer", why, f"give {name} in the Attention alone")
        return self.attention

    def parts(self) -> Serial:
        """Return read-in >> Repeat(two residual branches with their norms) >> [norm] >> readout."""
        inner = Dense(self.hidden, self.inner_std, self.bias_std)
        branches = (
            Serial(self.attention, Dense(weight_std=self.output_std)),
            Serial(inner, self.activation, Dense(weight_std=self.output_std, bias_std=self.bias_std)),
        )
        before = (self.normalisation,) if self.norm == "pre" else ()
        after = (self.normalisation,) if self.norm == "post" else ()
        block = [
            layer for branch in branches for layer in (Residual(Serial(*before, *branch.layers), self.scale), *after)
        ]
        return Serial(
            Dense(weight_std=self.readin_std),
            Repeat(Serial(*block)),
            *before,
            Dense(self.outputs, self.readout_std),
        )

    def children(self) -> Any:
        """Yield the attention, whose hyperparameters are its own; the others are fields."""
        yield "attention", self.attention


def mixes_tokens(layer: Layer) -> bool:
    """Say whether a layer looks at several inputs together, as the tokens of one sequence.

    Example:
        >>> mixes_tokens(Transformer()), mixes_tokens(Dense())
        (True, False)
    """
    if isinstance(layer, Attention):
        return True
    simpler = layer.parts()
    held = [simpler] if simpler is not None else [child for _, child in layer.children()]
    return any(mixes_tokens(child) for child in held)
