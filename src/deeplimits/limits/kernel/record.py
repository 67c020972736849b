"""What a kernel question returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deeplimits.limits.flow.describe import Description


@dataclass(frozen=True)
class Kernel:
    """Kernels of a network at infinite width.

    Attributes:
        nngp: covariance of the outputs at initialisation, shape (N, M), or None if not asked for.
        ntk: neural tangent kernel of one output, shape (N, M), or None if not asked for.
        description: which limit was taken and why it exists.
    """

    nngp: Any
    ntk: Any
    description: Description

    def describe(self) -> str:
        """Say which limit was taken and why it exists."""
        return str(self.description)
