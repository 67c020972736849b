"""The top edge of the plane: a hidden state of fixed width as depth goes to infinity."""

from deeplimits.limits.diffusion import compose, layers
from deeplimits.limits.diffusion.angle import WidthTwo, width_two
from deeplimits.limits.diffusion.ask import diffusion
from deeplimits.limits.diffusion.closed_form import ClosedForm
from deeplimits.limits.diffusion.record import Diffusion
from deeplimits.limits.diffusion.regime import Regime, late_drift, regime, small_time_drift
from deeplimits.limits.diffusion.setting import diffusion as question

__all__ = [
    "ClosedForm",
    "Diffusion",
    "Regime",
    "WidthTwo",
    "compose",
    "diffusion",
    "late_drift",
    "layers",
    "question",
    "regime",
    "small_time_drift",
    "width_two",
]
