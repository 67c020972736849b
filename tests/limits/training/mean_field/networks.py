"""Perceptrons of finite width in mean-field scaling, trained step by step with hand-written gradients."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np


@dataclass
class Networks:
    """Outputs (networks, T, P); features and gradients of every layer at the last time, (networks, layers, P, P)."""

    outputs: np.ndarray
    features: np.ndarray
    gradients: np.ndarray

    def mean(self, name):
        return getattr(self, name).mean(0)

    def error(self, name):
        values = getattr(self, name)
        return values.std(0, ddof=1) / len(values) ** 0.5


def trained(X, y, depth, gamma, steps, rate, width, count, linear=False):
    """h1 = W0 x / sqrt(d), h = W phi / sqrt(n), f = w phi / (gamma n); every weight moves by rate gamma^2 n -dL/dw."""
    phi, slope = (lambda h: h, np.ones_like) if linear else (np.tanh, lambda h: 1 - np.tanh(h) ** 2)
    made = [_one(X, y, depth, gamma, steps, rate, width, seed, phi, slope) for seed in range(count)]
    return Networks(*(np.array(part) for part in zip(*made, strict=True)))


def _one(X, y, depth, gamma, steps, rate, width, seed, phi, slope):
    rng = np.random.default_rng(seed)
    sizes = [X.shape[1], *[width] * depth]
    weights = [rng.standard_normal((b, a)) / a**0.5 for a, b in pairwise(sizes)]
    readout = rng.standard_normal(width)
    outputs = []
    for t in range(steps + 1):
        before, features = [], [X.T]
        for weight in weights:
            before.append(weight @ features[-1])
            features.append(phi(before[-1]))
        f = readout @ features[-1] / (gamma * width)
        outputs.append(f)
        gradients = [slope(before[-1]) * readout[:, None]]
        for weight, h in zip(weights[:0:-1], before[-2::-1], strict=True):
            gradients.insert(0, slope(h) * (weight.T @ gradients[0]))
        if t == steps:
            break
        for layer, gradient in enumerate(gradients):
            weights[layer] += rate * gamma / sizes[layer] * (gradient * (y - f)) @ features[layer].T
        readout = readout + rate * gamma * features[-1] @ (y - f)
    return outputs, [p.T @ p / width for p in features[1:]], [g.T @ g / width for g in gradients]
