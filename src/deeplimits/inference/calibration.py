"""Probabilities as sure as they are right: one temperature, from the training rows with each left out in turn."""

from __future__ import annotations

from math import exp, log

import numpy as np
from scipy.optimize import minimize_scalar

COLDEST, HOTTEST = 1e-4, 1e2


def temper(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Return p_c^(1/T), divided by their sum over classes; the order of classes stays.

    Args:
        probabilities: shape (N, C).
        temperature: T; below 1 sharpens, 1 leaves as it is.

    Source: guo-2017-calibration, section 4.2.

    Example:
        >>> temper(np.array([[0.6, 0.4]]), 0.5).round(4)
        array([[0.6923, 0.3077]])
    """
    logarithms = np.log(np.maximum(probabilities, np.finfo(float).tiny)) / temperature
    powers = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def temperature(probabilities: np.ndarray, place: np.ndarray) -> float:
    """Return the T under which labels are most probable, each row judged by a model that did not see it.

    A label is taken to be another with chance 1/(N + 2), shared by the other classes, which is what N right answers
    in a row leave open: T stays above zero where every row is classified right.

    Args:
        probabilities: of the N rows left out in turn, shape (N, C).
        place: index of each row's class, shape (N,).

    Valid when: rows are exchangeable with the new ones; `probabilities` do not know their own labels.

    Source: guo-2017-calibration, section 4.2; the softened labels as platt-1999.

    Example:
        >>> said = np.array([[0.6, 0.4]] * 90 + [[0.4, 0.6]] * 10)       # 60 % sure, 90 % right
        >>> bool(abs(temper(said, temperature(said, np.zeros(100, int)))[0, 0] - 0.9) < 0.01)
        True
    """
    count, classes = probabilities.shape
    softened = np.full(probabilities.shape, 1 / ((count + 2) * (classes - 1)))
    softened[np.arange(count), place] = 1 - 1 / (count + 2)

    def loss(logarithm: float) -> float:
        found = temper(probabilities, exp(logarithm))
        return -float((softened * np.log(np.maximum(found, np.finfo(float).tiny))).sum())

    found = minimize_scalar(loss, bounds=(log(COLDEST), log(HOTTEST)), method="bounded", options={"xatol": 1e-8})
    return exp(found.x)  # type: ignore[attr-defined]
