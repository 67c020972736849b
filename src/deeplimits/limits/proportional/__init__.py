"""The diagonal: width and depth to infinity together, at a fixed ratio."""

from deeplimits.limits.proportional import rules
from deeplimits.limits.proportional.ask import proportional
from deeplimits.limits.proportional.motion import Motion
from deeplimits.limits.proportional.motion import proportional as question
from deeplimits.limits.proportional.record import Proportional

__all__ = ["Motion", "Proportional", "proportional", "question", "rules"]
