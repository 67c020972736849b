"""What the machine does: real networks of a described family, and what is measured on them."""

from deeplimits.finite.build import build

__all__ = ["build"]
