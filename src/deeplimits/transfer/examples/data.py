"""Data that is on the disk already: scikit-learn's digits, and the help topics that ship with Python."""

from __future__ import annotations

from functools import cache

import torch


@cache
def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Return 1797 handwritten digits, standardised pixels divided by 8 (1797, 64), so |x| is about 1, and labels.

    Example:
        >>> x, y = digits()
        >>> x.shape, y.shape, round(float(x.square().sum(1).mean()), 2)
        (torch.Size([1797, 64]), torch.Size([1797]), 0.95)
    """
    from sklearn.datasets import load_digits
    from sklearn.preprocessing import StandardScaler

    found = load_digits()
    pixels = StandardScaler().fit_transform(found.data) / 8  # type: ignore[attr-defined]
    return torch.tensor(pixels, dtype=torch.float32), torch.tensor(found.target)  # type: ignore[attr-defined]


@cache
def images(every: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the digits, or one of every few, as images (N, 1, 8, 8) of mean 0 and variance 1, and labels."""
    from sklearn.datasets import load_digits

    found = load_digits()
    pixels = torch.tensor(found.images, dtype=torch.float32)[:, None]  # type: ignore[attr-defined]
    labels = torch.tensor(found.target)  # type: ignore[attr-defined]
    return ((pixels - pixels.mean()) / pixels.std())[::every], labels[::every]


@cache
def text() -> tuple[torch.Tensor, int]:
    """Return the characters of Python's help topics as numbers, and how many different ones there are.

    Example:
        >>> characters, kinds = text()
        >>> len(characters) > 100_000, int(characters.max()) + 1 == kinds
        (True, True)
    """
    from pydoc_data.topics import topics

    joined = "\n".join(topics[name] for name in sorted(topics))
    kinds = sorted(set(joined))
    place = {kind: number for number, kind in enumerate(kinds)}
    return torch.tensor([place[character] for character in joined], device="cpu"), len(kinds)  # a model may be on meta


def windows(count: int, length: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return pieces of the text and, for each of their characters, the next one; both (count, length)."""
    characters, _ = text()
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(len(characters) - length - 1, (count, 1), generator=generator)
    places = starts + torch.arange(length)
    return characters[places], characters[places + 1]
