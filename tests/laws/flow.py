"""Inputs with a given correlation, and the dual of erf, for the tests of the flow."""

from __future__ import annotations

from math import pi, sqrt

import numpy as np


def pair(c, q1=1.0, q2=1.0):
    """Two inputs in the plane with |x|^2/d = q1, q2 and correlation c."""
    return np.sqrt(2) * np.array([[sqrt(q1), 0.0], [c * sqrt(q2), sqrt(1 - c * c) * sqrt(q2)]])


def erf_dual(q1, q2, k):
    a, b = 1 + 2 * q1, 1 + 2 * q2
    return 2 / pi * np.arcsin(2 * k / np.sqrt(a * b)), 4 / pi / np.sqrt(a * b - 4 * k * k)
