"""The top edge of the plane: a hidden state of fixed width as depth goes to infinity."""

from deeplimits.limits.diffusion import compose, layers
from deeplimits.limits.diffusion.ask import diffusion
from deeplimits.limits.diffusion.record import Diffusion
from deeplimits.limits.diffusion.setting import diffusion as question

__all__ = ["Diffusion", "compose", "diffusion", "layers", "question"]
