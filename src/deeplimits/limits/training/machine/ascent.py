"""Compiled sweeps of dual coordinate ascent: each weight in turn to its best value, within its limits."""

from __future__ import annotations

from math import exp, inf

from numba import njit

NEWTON = 60  # steps within a bracket, which halves at worst


@njit(cache=True, error_model="numpy")
def sweep_plain(kernel, target, threshold, shift, low, high, weights, outputs, sweeps):
    """Move each weight to the maximum of a parabola less a kink at zero; `outputs` = kernel @ weights follows."""
    for _ in range(sweeps):
        for i in range(len(weights)):
            curve = kernel[i, i] + shift
            pull = target[i] - outputs[i] + kernel[i, i] * weights[i]
            best = 0.0
            if pull > threshold:
                best = min((pull - threshold) / curve if curve > 0 else inf, high[i])
            elif pull < -threshold:
                best = max((pull + threshold) / curve if curve > 0 else -inf, low[i])
            best = min(max(best, low[i]), high[i])
            step = best - weights[i]
            if step != 0.0:
                weights[i] = best
                for j in range(len(weights)):
                    outputs[j] += step * kernel[i, j]


@njit(cache=True, error_model="numpy")
def _logit(offset, rise):
    """Return the root z of z + rise s(z) + offset, s the logistic function: Newton's steps within a bracket."""
    left, right = -offset - rise, -offset
    z = min(max(0.0, left), right)
    for _ in range(NEWTON):
        share = 1 / (1 + exp(-z)) if z >= 0 else exp(z) / (1 + exp(z))
        height = z + rise * share + offset
        if height > 0:
            right = z
        else:
            left = z
        new = z - height / (1 + rise * share * (1 - share))
        if not left < new < right:
            new = (left + right) / 2
        if abs(new - z) <= 1e-15 * abs(z):
            return new
        z = new
    return z


@njit(cache=True, error_model="numpy")
def sweep_logistic(kernel, most, signs, weights, outputs, sweeps):
    """Move each |weight| = most s(z) to its maximum, where z + y f = 0; `outputs` = kernel @ weights follows."""
    for _ in range(sweeps):
        for i in range(len(weights)):
            rest = signs[i] * outputs[i] - kernel[i, i] * abs(weights[i])
            z = _logit(rest, kernel[i, i] * most)
            share = 1 / (1 + exp(-z)) if z >= 0 else exp(z) / (1 + exp(z))
            step = signs[i] * most * share - weights[i]
            if step != 0.0:
                weights[i] += step
                for j in range(len(weights)):
                    outputs[j] += step * kernel[i, j]
