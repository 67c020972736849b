"""Hermite series in the tile engine against the plain torch path."""

from __future__ import annotations

import numpy as np
import pytest

from deeplimits.limits.kernel.tape import Affine, Dual, Tape
from deeplimits.limits.kernel.tile import engine, mehler, tables
from deeplimits.numerics.gaussian.erf import Erf
from deeplimits.numerics.gaussian.polynomial import PolynomialFamily
from deeplimits.numerics.gaussian.series import Series
from tests.limits.test_tile_engine import error, inputs, layers, reference, request, residual

TANH = Series(np.tanh, lambda x: 1 - np.tanh(x) ** 2, "tanh")
SOFTPLUS = Series(lambda x: np.logaddexp(0, x), None, "softplus")
CUBIC = PolynomialFamily((0.1, 0.5, 0.0, 0.05))


@pytest.mark.parametrize("family", [TANH, SOFTPLUS, CUBIC], ids=["tanh", "softplus", "cubic"])
@pytest.mark.parametrize("build", [lambda family: layers(family, 3), residual], ids=["layers", "residual"])
@pytest.mark.parametrize("rows", [20, 301])
def test_series_agree_with_the_plain_path(family, build, rows):
    tape, x1, x2 = build(family), inputs(0, rows, 9), inputs(1, 45, 9)
    found, right = engine.evaluate(request(tape, x1, x2)), reference(tape, x1, x2)
    assert error(found["nngp"], right["nngp"]) < 1e-11
    assert error(found["ntk"], right["ntk"]) < 1e-11


def test_symmetric_series():
    tape, x = layers(TANH, 3), inputs(2, 263, 12)
    found, right = engine.evaluate(request(tape, x)), reference(tape, x)
    for kind in ("nngp", "ntk"):
        np.testing.assert_array_equal(found[kind], found[kind].T)
        assert error(found[kind], right[kind], off_diagonal=True) < 1e-11


def test_series_and_closed_forms_on_one_tape():
    steps = [
        step
        for family in (TANH, Erf(1.0, 1.0, 0.0), CUBIC)
        for step in (Affine(0, 1.3, 0.2, 1.3, 0.2), Dual(0, family))
    ]
    tape, x1, x2 = Tape(tuple(steps), 1), inputs(3, 130, 7), inputs(4, 300, 7)
    found, right = engine.evaluate(request(tape, x1, x2)), reference(tape, x1, x2)
    assert error(found["ntk"], right["ntk"]) < 1e-11


def test_float32_results_of_series_are_computed_in_float64():
    tape, x = layers(TANH, 3), inputs(5, 140, 9, np.float32)
    found, right = engine.evaluate(request(tape, x)), reference(tape, x)
    assert found["ntk"].dtype == np.float32
    assert error(found["ntk"], right["ntk"], off_diagonal=True) < 1e-7


def test_interpolated_coefficients_equal_the_exact_ones():
    variances = np.exp(np.random.default_rng(0).uniform(-3, 2.5, 900))
    table = tables.build(TANH, [variances])
    assert table.stencil == tables.STENCIL
    position = table.position(variances[:50])
    node = np.floor(position).astype(int) - (tables.STENCIL // 2 - 1)
    assert node.min() >= 0 and node.max() + tables.STENCIL <= len(table.values)
    found = [
        tables.weights(p - n - (tables.STENCIL // 2 - 1)) @ table.values[n : n + tables.STENCIL]
        for p, n in zip(position, node, strict=True)
    ]
    kept = int(table.values[:, table.even :].any(axis=0).sum())
    exact = TANH.coefficients(variances[:50], 2 * kept).T[:, 1::2]
    gap = np.abs(np.array(found)[:, table.even : table.even + kept] - exact)
    assert gap.max() < 1e-12 * np.sqrt((exact**2).sum(axis=1)).min()


def test_fewer_coefficients_serve_smaller_cosines():
    table = tables.build(SOFTPLUS, [np.geomspace(0.2, 5, 40)])
    assert np.all(np.diff(table.orders) >= 0)
    half = table.orders[np.searchsorted(tables.LEVELS, 0.5)]
    assert half < table.orders[-1] / 2
    assert table.odd == mehler.UNROLL, "softplus is x/2 and an even function"
    assert not table.values[:, table.even + 1 :].any()
