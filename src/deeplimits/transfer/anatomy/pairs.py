"""Products of activations in base and target, pair by pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from deeplimits.transfer.anatomy.names import bare
from deeplimits.transfer.anatomy.products import Product

_ALIKE = 1e-6
Found = Sequence[Product | None]


@dataclass(frozen=True)
class Pairs:
    """Products of the base, in the order of its forward pass, and what each is in the target.

    Attributes:
        base: the products.
        target: likewise; None where it was not seen.
    """

    base: Sequence[Product]
    target: Found


def matched(small: Sequence[Product], large: Sequence[Product], names: Mapping[str, str]) -> list[Product | None]:
    """Return the counterpart of each product: that of the same matrices, after as many of its kind.

    Args:
        small: products of the base.
        large: of the target.
        names: {matrix of the target: that of the base}.

    Example:
        >>> query = lambda name, size: Product(size, 4, 1, 1.0, True, name, "key")
        >>> [other and other.size for other in matched([query("a", 8), query("b", 8)], [query("c", 32)], {"c": "b"})]
        [None, 32]
    """

    def of(product: Product, to: Mapping[str, str]) -> tuple[str | None, ...]:
        own = [None if name is None else bare(name) for name in (product.query, product.key)]
        return tuple(None if name is None else to.get(name, name) for name in own)

    left: dict[tuple[str | None, ...], list[Product]] = {}
    for product in large:
        left.setdefault(of(product, names), []).append(product)
    return [others.pop(0) if (others := left.get(of(product, {}))) else None for product in small]


def grown(product: Product, copies: Sequence[Product | None], power: float) -> Product | None:
    """Return what a product becomes at 2**power times a size; None where its numbers are no powers of the size.

    Args:
        product: to start from.
        copies: what it is at one, two and four times the size.
        power: log2 of how many times.

    Example:
        >>> query = lambda size: Product(size, 4, 1, size**-0.5, True, "query", "key")
        >>> found = grown(query(8), [query(8), query(16), query(32)], 4)
        >>> found.size, found.heads, round(found.scale, 4)
        (128, 4, 0.0884)
        >>> grown(query(8), [query(8), query(8), query(16)], 4)
    """
    one, two, four = copies
    if one is None or two is None or four is None:
        return None
    found: dict[str, float | None] = {}
    for key in ("size", "heads", "repeated", "scale"):
        a, b, c = (getattr(copy, key) for copy in (one, two, four))
        if key == "scale" and None in (a, b, c):
            found[key] = None
        elif not a or abs(a * c - b**2) > _ALIKE * b**2:
            return None
        else:
            value = getattr(product, key) * (b / a) ** power
            found[key] = value if key == "scale" else round(value)
    return replace(product, **found)


def told(pairs: Pairs, seen: Sequence[Product], names: Mapping[str, str]) -> Pairs:
    """Return the pairs, without counterparts where the target is seen to have others.

    Args:
        pairs: by the powers of sizes.
        seen: products of the target, as far as it was seen.
        names: {matrix of the target: that of the base}.
    """
    there = matched(pairs.base, seen, names)
    both = [(a, b) for a, b in zip(pairs.target, there, strict=True) if a is not None and b is not None]
    same = all((a.size, a.heads) == (b.size, b.heads) for a, b in both)
    return pairs if same else replace(pairs, target=[None] * len(pairs.base))
