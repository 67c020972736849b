"""Square Gaussian matrices, drawn whole or only where vectors look at them."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Whole:
    """S matrices (n, n) of entries N(0, 1/n), drawn at once."""

    def __init__(self, networks: int, size: int, random: np.random.Generator):
        self.entries = random.standard_normal((networks, size, size)) / sqrt(size)

    def times(self, vectors: Array) -> Array:
        """Return W h, shape (S, n, k)."""
        return self.entries @ vectors

    def transposed_times(self, vectors: Array) -> Array:
        """Return W' a, shape (S, n, k)."""
        return self.entries.mT @ vectors


class Revealed:
    """S matrices (n, n) of entries N(0, 1/n), of which only images of given vectors are drawn, by their exact law.

    Given W R = Z and W' A = Y with orthonormal columns R and A, the image of a unit vector q orthogonal to R is
    A Y' q + (I - A A') g / sqrt(n), g ~ N(0, I). A network of width n costs O(n) numbers in place of n^2.

    Valid when: fewer than n vectors are looked at on either side, and none lies in the span of those before it.

    Source: derived (conditional law of a Gaussian matrix).

    Example:
        >>> random = np.random.default_rng(0)
        >>> W = Revealed(1, 100, random)
        >>> h, a = random.standard_normal((2, 1, 100, 1))
        >>> image = W.times(h)
        >>> np.allclose(a.mT @ image, W.transposed_times(a).mT @ h), np.allclose(W.times(2 * h), 2 * image)
        (True, True)
    """

    def __init__(self, networks: int, size: int, random: np.random.Generator):
        nothing = np.zeros((networks, size, 0))
        self.random = random
        self.right, self.images = nothing, nothing  # R and Z
        self.left, self.back = nothing, nothing  # A and Y

    def times(self, vectors: Array) -> Array:
        """Return W h, shape (S, n, k)."""
        found, self.right, self.images = self._image(vectors, self.right, self.images, self.left, self.back)
        return found

    def transposed_times(self, vectors: Array) -> Array:
        """Return W' a, shape (S, n, k)."""
        found, self.left, self.back = self._image(vectors, self.left, self.back, self.right, self.images)
        return found

    def _image(self, h: Array, basis: Array, images: Array, other: Array, back: Array) -> tuple[Array, Array, Array]:
        """Return the images of h, and basis and images with the new directions of h."""
        inside = basis.mT @ h
        rest = h - basis @ inside
        more = basis.mT @ rest  # a second time, against rounding
        rest, inside = rest - basis @ more, inside + more
        size = np.linalg.norm(rest, axis=1)
        new = size > NOTHING * np.linalg.norm(h, axis=1)
        if not new.any():
            return images @ inside, basis, images
        q, r = np.linalg.qr(rest)
        fresh = self.random.standard_normal(q.shape) / sqrt(q.shape[1])
        drawn = other @ (back.mT @ q) + fresh - other @ (other.mT @ fresh)
        return images @ inside + drawn @ r, np.concatenate([basis, q], -1), np.concatenate([images, drawn], -1)


NOTHING = 1e-10  # of a vector outside the span: it is inside
