"""Homogeneous networks as one function of the angle, against the layer-by-layer interpreter and extended precision."""

from __future__ import annotations

import numpy as np
import pytest

from deeplimits.limits.kernel import diagonal, near
from deeplimits.limits.kernel.tape import Add, Affine, Copy, Dual, Normalise, Tape
from deeplimits.limits.kernel.tile import engine, univariate
from deeplimits.numerics.gaussian.erf import Erf
from deeplimits.numerics.gaussian.linear import Linear
from deeplimits.numerics.gaussian.rectified import RectifiedPower
from tests.limits.test_tile_engine import inputs, layers, request

RELU = RectifiedPower(1, 1.0, 0.0)


def mlp(family, depth, weight=2.0):
    steps = [step for _ in range(depth) for step in (Affine(0, weight, 0.0, weight, 0.0), Dual(0, family))]
    return Tape((*steps, Affine(0, 1.0, 0.0, 1.0, 0.0)), 1)


def resnet(family, depth):
    branch = [Copy(1, 0), Dual(1, family), Affine(1, 1.0, 0.0, 1.0, 0.0), Add(0, 1, 1 / depth)]
    return Tape((Affine(0, 1.0, 0.0, 1.0, 0.0), *(branch * depth), Affine(0, 1.1, 0.0, 0.0, 0.0)), 2)


@pytest.fixture(autouse=True)
def _fitted_at_any_size(monkeypatch):
    monkeypatch.setattr(engine, "FITTED_ENTRIES", 0)


TAPES = {
    "relu 3": mlp(RELU, 3),
    "relu 64": mlp(RELU, 64),
    "relu 256": mlp(RELU, 256),
    "leaky 20": mlp(RectifiedPower(1, 1.0, -0.2), 20, 1.9),
    "abs 10": mlp(RectifiedPower(1, 1.0, 1.0), 10, 1.0),
    "residual 32": resnet(RELU, 32),
}


@pytest.mark.parametrize("name", TAPES)
def test_the_series_is_right_between_its_nodes(name):
    tape = TAPES[name]
    planned = univariate.plan(tape, np.float64)
    angles = np.linspace(0, np.pi, 301).astype(np.longdouble)
    exact = near.run(tape, near.from_angles(angles))
    found = univariate._evaluate(planned.fit, angles)
    for value, right in zip(found, (exact.k, exact.theta), strict=True):
        assert np.abs(value - right).max() <= 3e-14 * right[0]


@pytest.mark.parametrize("name", ["relu 64", "abs 10", "residual 32"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_both_ways_agree(name, symmetric, monkeypatch):
    tape, x1 = TAPES[name], inputs(0, 150, 11)
    x2 = None if symmetric else inputs(1, 90, 11)
    fitted = engine.evaluate(request(tape, x1, x2))
    monkeypatch.setattr(univariate, "homogeneous", lambda tape: False)
    layered = engine.evaluate(request(tape, x1, x2))
    rows, columns = (diagonal.run(tape, (x**2).sum(1) / 11) for x in (x1, x1 if symmetric else x2))
    for kind, left, right in (("nngp", rows.k, columns.k), ("ntk", rows.theta, columns.theta)):
        assert np.abs((fitted[kind] - layered[kind]) / np.sqrt(left[:, None] * right)).max() < 1e-13


@pytest.mark.parametrize("name", TAPES)
def test_float32(name):
    tape, x = TAPES[name], inputs(2, 260, 40)
    x[130:] = 0.9 * x[:130] + 0.1 * inputs(3, 130, 40)
    x[200:] = -0.98 * x[:60] + 0.02 * inputs(4, 60, 40)
    x = x.astype(np.float32)
    exact = diagonal.run(tape, (x.astype(np.float64) ** 2).sum(1) / 40)
    low, high = engine.evaluate(request(tape, x)), engine.evaluate(request(tape, x.astype(np.float64)))
    for kind, scale in (("nngp", exact.k), ("ntk", exact.theta)):
        assert low[kind].dtype == np.float32
        gap = np.abs(low[kind] - high[kind]) / np.sqrt(scale[:, None] * scale)
        assert gap.max() < 5e-6


def test_what_is_homogeneous():
    assert univariate.homogeneous(resnet(RELU, 4))
    assert univariate.homogeneous(mlp(Linear(), 4))
    assert not univariate.homogeneous(layers(RELU, 3))
    assert not univariate.homogeneous(mlp(Erf(1.0, 1.0, 0.0), 4))
    assert not univariate.homogeneous(mlp(RectifiedPower(2, 1.0, 0.0), 4))
    assert not univariate.homogeneous(Tape((Normalise(0, 0.0),), 1))


def test_deeper_is_not_longer():
    lengths = [len(univariate.plan(TAPES[f"relu {depth}"], np.float64).fit.nngp) for depth in (3, 64, 256)]
    assert lengths[0] <= 32 and lengths[1] <= 48 and lengths[2] <= 64
