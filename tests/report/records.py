"""Comparisons made up from the laws of theory plus seeded noise, without sampling a network."""

import math

import numpy as np

from deeplimits.numerics.fit import Coefficient, Rate, slope
from deeplimits.plane.record import (
    Comparison,
    DepthRate,
    Estimate,
    KernelCheck,
    Place,
    Ray,
    Verdict,
    WidthNeeded,
    WidthRate,
)

WIDTHS, DEPTHS, NETWORKS = [32, 64, 128, 256], [16, 32, 64, 128], 200


def _check(rng, depth, rms):
    predicted = np.array([[1.0, 0.3], [0.3, 1.0]]) * (1 + 0.5 / depth) ** depth
    error = np.full((2, 2), rms / math.sqrt(NETWORKS))
    noise = rng.standard_normal((2, 2)) * error
    noise = (noise + noise.T) / 2
    z = np.abs(noise / error).max()
    return KernelCheck(
        (predicted + noise).tolist(), error.tolist(), predicted.tolist(), float(z), float(z) / 2, 3,
        Estimate(rms, 0.05 * rms), Estimate(rms, 0.05 * rms),
    )  # fmt: skip


def _place(rng, width, depth, commutes):
    variance = 4.675 / width if commutes else 5 * depth / width
    noisy = variance * (1 + 0.07 * rng.standard_normal())
    mean = -variance / 2
    check = _check(rng, depth if commutes else 1e9, math.sqrt(variance))
    return Place(
        width, depth, NETWORKS, 0, check, check,
        Estimate(mean, math.sqrt(variance / NETWORKS)), None if commutes else mean,
        Estimate(noisy, 0.1 * noisy), None if commutes else variance,
        Estimate(math.sqrt(noisy + mean**2), 0.05), Estimate(0.3, 0.01), Estimate(0.1 / math.sqrt(width), 0.01), 0.3,
    )  # fmt: skip


def comparison(commutes=True, seed=0):
    """A comparison of a ResNet that commutes, or of an MLP that does not."""
    rng = np.random.default_rng(seed)
    places = [_place(rng, width, depth, commutes) for depth in DEPTHS for width in WIDTHS]
    diagonal = [p for p in places if 2 * p.depth == p.width]
    widths = [p.width for p in diagonal]
    values, errors = [p.log_variance.value for p in diagonal], [p.log_variance.error for p in diagonal]
    fit = slope(widths, values, errors)
    predicted = None if commutes else [p.log_variance_predicted for p in diagonal]
    word = "commutes" if commutes else "does not commute"
    ray = Ray("diagonal", 0.5, "var(log q)", widths, [p.depth for p in diagonal], values, errors, predicted, fit, word)
    far = [8, 16, 32, 64, 128, 256, 512, 1024]
    gaps = [0.125 / depth for depth in far]
    a, b = Coefficient(2.16, 2.0, 2.3, 0.05), Coefficient(0.2, 0.0, 0.4, 0.1)
    rate = Rate(a, b, 10.0, 14, 0.99)
    return Comparison(
        network="ResNet(activation=Relu())" if commutes else "Mlp(activation=Relu())",
        inputs=2, features=64, networks=NETWORKS, seed=seed, get=["nngp", "ntk"], widths=WIDTHS, depths=DEPTHS,
        places=places, rays=[ray], verdict=Verdict(word, f"var(log q) ~ width^{fit.value:.2f}", "test", fit),
        corner="the flow" if commutes else "there is no limit: <NTK> grows as L & does not stop",
        corner_nngp=[[1.6487, 0.5], [0.5, 1.6487]] if commutes else None, corner_ntk=None,
        depth_rates=[DepthRate("nngp", far, gaps, slope(far, gaps), "falls as L^-1")] if commutes else [],
        width_rates=[WidthRate("nngp", 128, None, rate if commutes else None, "a = 2.16")],
        widths_needed=[WidthNeeded("nngp", 128, 1, 0.05, 1866.0 if commutes else None, 1700.0, 2000.0, "beyond reach")],
        function=None, notes=[], version="0.1.0",
    )  # fmt: skip
