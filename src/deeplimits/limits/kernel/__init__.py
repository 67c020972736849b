"""The right edge of the plane: deterministic kernels at infinite width."""

from deeplimits.limits.kernel import activation, compose, dense, increment, norm
from deeplimits.limits.kernel.lowering import kernel, lower

__all__ = ["activation", "compose", "dense", "increment", "kernel", "lower", "norm"]
