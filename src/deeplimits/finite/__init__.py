"""What the machine does: real networks of a described family, and what is measured on them."""

from deeplimits.finite.build import build
from deeplimits.finite.empirical_ntk import empirical_ntk
from deeplimits.finite.record import Sample
from deeplimits.finite.sample import sample

__all__ = ["Sample", "build", "empirical_ntk", "sample"]
