"""When the NTK is positive definite, and which rows are named where it is not."""

import numpy as np
import pytest

import deeplimits as dl
from deeplimits.errors import AccuracyWarning, InputError
from tests.limits.refusal import refused

X = np.random.default_rng(4).standard_normal((6, 3))
TWICE, OPPOSITE = np.vstack([X, 2 * X[2]]), np.vstack([X, -X[2]])


def smallest(net, rows, depth):
    values = np.linalg.eigvalsh(dl.kernel(net, rows, depth=depth, get="ntk"))
    return float(values[0] / values[-1])


def test_definite_but_for_proportional_rows():
    """Singular for x and 2x under ReLU, and for x and -x under tanh, without biases; else above 1e-4 of the largest."""
    for activation, singular in (("relu", TWICE), ("tanh", OPPOSITE)):
        for depth in (1, 2):
            plain, biased = dl.Mlp(activation), dl.Mlp(activation, bias_std=0.3)
            for rows in (X, TWICE, OPPOSITE):
                found = smallest(plain, rows, depth)
                assert abs(found) < 7e-15 if rows is singular else found > 1e-4
                assert smallest(biased, rows, depth) > 1e-4


def ask(net, rows, **options):
    return lambda: dl.gradient_flow(net, rows, np.arange(len(rows)), depth=1, **options)


def test_rows_are_named():
    relu, tanh = dl.Mlp("relu"), dl.Mlp("tanh")
    refused(ask(relu, TWICE), InputError, "singular", "rows 2 and 6 are proportional, row 6 being 2 x row 2")
    refused(ask(tanh, OPPOSITE), InputError, "rows 2 and 6 are proportional, row 6 being -1 x row 2")
    refused(ask(tanh, X[[0, 1, 0, 1]]), InputError, "rows 0 and 2 are the same; rows 1 and 3 are the same")
    refused(ask(tanh, np.vstack([X, 0 * X[:1]])), InputError, "vanishes at row 6, which holds zeros only")
    refused(ask(tanh, np.vstack([X, 1e-9 * X[:1]])), InputError, "vanishes at row 6, which is small", "one size")
    refused(ask(dl.Mlp("tanh", readout_std=0.0), X), InputError, "vanishes at every row")
    refused(ask(tanh, X[[0, 0, 0, 0]]), InputError, "among others")
    refused(ask(dl.Mlp("tanh", bias_std=0.1), X[[0, 1, 1]]), InputError, "rows 1 and 2 are the same")
    refused(ask(dl.Mlp("erf"), np.vstack([X, X[0] + 1e-9])), InputError, "rows 0 and 6", "nearly the same")
    refused(ask(dl.Mlp("identity"), X), InputError, "3 above rounding", "spans few functions")


@pytest.mark.parametrize("options", [{"time": 5.0}, {"ridge": 0.1}, {"time": 9, "rule": "gd", "rate": 0.05}], ids=str)
def test_ways_out(options):
    for net, rows in ((dl.Mlp("relu"), TWICE), (dl.Mlp("tanh"), OPPOSITE), (dl.Mlp("identity"), X)):
        assert np.isfinite(ask(net, rows, **options)().mean).all()
    assert ask(dl.Mlp("relu", bias_std=0.1), TWICE)().mean == pytest.approx(np.arange(7), abs=1e-9)


def test_a_quadratic_activation_spans_all_quadratic_forms():
    rows = np.random.default_rng(5).standard_normal((12, 3))
    refused(ask(dl.Mlp(dl.act.Polynomial((0.0, 0.0, 1.0))), rows), InputError, "6 above rounding")


def test_times_that_rounding_hides():
    rows = X[[0, 1, 1]]
    net = dl.Mlp("relu", bias_std=0.1)
    with pytest.warns(AccuracyWarning, match="stop earlier"):
        ask(net, rows, time=1e12)()
    refused(ask(net, rows, time=1e16), InputError, "singular in float64 at time 1e+16", "rows 0, 1, 2")
