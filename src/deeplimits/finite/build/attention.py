"""Attention as a module."""

from __future__ import annotations

from torch import Tensor, nn

from deeplimits.architecture import attention as description
from deeplimits.architecture.dense import Dense
from deeplimits.errors import InputError
from deeplimits.finite.build.mixing import MATRICES, PRODUCTS
from deeplimits.finite.build.place import Place, building


class Attention(nn.Module):
    """Tokens (..., m, d) to (..., m, features): A_h X W_h^V of all heads side by side.

    queries, keys: to heads * n_k features; values: to `features`; None where the description leaves a matrix out.
    """

    def __init__(
        self, layer: description.Attention, queries: nn.Module | None, keys: nn.Module | None, values: nn.Module | None
    ):
        super().__init__()
        self.layer, self.queries, self.keys, self.values = layer, queries, keys, values

    def forward(self, x: Tensor) -> Tensor:
        """Return the mixed values of tokens x."""
        q, k = self._queries_and_keys(x)
        v = self._heads(self.values, x)
        product = PRODUCTS.get(self.layer.kind)
        if product is None:
            y = MATRICES[self.layer.kind](self.layer, q, k, x.shape[-1]) @ v
        else:
            y = product(self.layer, q, k, v, x.shape[-1])
        return y.transpose(-3, -2).flatten(-2)

    def matrix(self, x: Tensor) -> Tensor:
        """Return the matrices A, (..., heads, m, m)."""
        q, k = self._queries_and_keys(x)
        return MATRICES[self.layer.kind](self.layer, q, k, x.shape[-1])

    def _queries_and_keys(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if x.ndim < 2 or x.shape[-2] == 0:
            why = f"the input has shape {tuple(x.shape)}, not (..., tokens, features)"
            raise InputError("Attention", why, "give one or more tokens as rows; x[None] is a sequence of one")
        return self._heads(self.queries, x), self._heads(self.keys, x)

    def _heads(self, dense: nn.Module | None, x: Tensor) -> Tensor:
        y = x if dense is None else dense(x)
        return y.unflatten(-1, (self.layer.heads, -1)).transpose(-3, -2)

    def extra_repr(self) -> str:
        return f"{self.layer.kind}, heads={self.layer.heads}, causal={self.layer.causal}"


@building.rule(
    description.Attention,
    source="vaswani-2017-attention; noci-2023-shaped-transformer; sander-2021-sinkformers; "
    "roffo-2026-infinite-self-attention; alcalde-2025-hardmax-frank-wolfe",
)
def attention(layer: description.Attention, place: Place) -> tuple[nn.Module, int | None]:
    """Return the module with its dense layers, and its number of outputs.

    Raises:
        InputError: the heads do not divide the features.
    """
    features = place.size("features", layer.features)
    if features % layer.heads:
        why = f"heads={layer.heads} do not divide {features} features"
        raise InputError(f"build at {place.path or 'the network'}", why, "give a width that is a multiple of the heads")
    own = features // layer.heads if layer.key_features is None else place.size("key_features", layer.key_features)

    def dense(name: str, count: int, std: object) -> nn.Module | None:
        if std is None:
            return None
        return place.dense(Dense(count, std, weights=layer.weights), place.at(name, place.features), count)

    module = Attention(
        layer,
        dense("queries", layer.heads * own, layer.query_std),
        dense("keys", layer.heads * own, layer.key_std),
        dense("values", features, layer.value_std),
    )
    return module, place.features if layer.value_std is None else features
