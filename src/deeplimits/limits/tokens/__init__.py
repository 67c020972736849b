"""Tokens that attention moves: on the sphere, at temperature zero, and doubly stochastic."""

from deeplimits.limits.tokens.ask import tokens
from deeplimits.limits.tokens.record import Tokens

__all__ = ["Tokens", "tokens"]
