"""The tile engine against the plain torch path and the near executor."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from deeplimits.limits.kernel import diagonal, near, plain
from deeplimits.limits.kernel.tape import Add, Affine, Copy, Dual, Normalise, Tape
from deeplimits.limits.kernel.tile import engine, interpreter
from deeplimits.numerics.gaussian.erf import Erf
from deeplimits.numerics.gaussian.gelu import Gelu
from deeplimits.numerics.gaussian.linear import Linear
from deeplimits.numerics.gaussian.rectified import RectifiedPower
from deeplimits.numerics.gaussian.trigonometric import Bump, Exponential, Sine

FAMILIES = [
    RectifiedPower(1, 1.0, 0.0),
    RectifiedPower(1, 1.0, -0.2),
    RectifiedPower(1, 1.0, 1.0),
    RectifiedPower(0, 1.0, -1.0),
    RectifiedPower(0, 1.0, 0.0),
    RectifiedPower(2, 1.0, 0.5),
    RectifiedPower(3, 1.0, -0.3),
    Erf(1.3, 0.8, 0.2),
    Sine(1.1, 0.9, 0.4),
    Exponential(0.4, 0.3),
    Bump(0.7),
    Gelu(),
    Linear(),
]


def layers(family, depth, weight=1.3, bias=0.2):
    steps = []
    for _ in range(depth):
        steps += [Affine(0, weight, bias, weight, bias), Dual(0, family)]
    return Tape((*steps, Affine(0, 1.0, 0.1, 1.0, 0.1)), 1)


def residual(family):
    branch = [Copy(1, 0), Normalise(1, 0.1), Dual(1, family), Affine(1, 0.7, 0.1, 0.7, 0.1), Add(0, 1, 0.3)]
    return Tape((Affine(0, 1.0, 0.3, 1.0, 0.3), *(3 * branch), Affine(0, 0.9, 0.0, 0.0, 0.0)), 2)


def inputs(seed, n, d, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, d)) * np.exp(rng.uniform(-0.7, 0.7, (n, 1)))).astype(dtype)


def request(tape, x1, x2=None, **options):
    q1, q2 = (None if x is None else (x.astype(np.float64) ** 2).sum(1) / x.shape[1] for x in (x1, x2))
    exact = diagonal.run(tape, q1)

    def close(i, j):
        end = near.run(tape, near.from_vectors(x1[i], (x1 if x2 is None else x2)[j]))
        return end.k, end.theta

    before2 = None if x2 is None else diagonal.run(tape, q2).before
    return engine.Request(tape, x1, x2, exact.before, before2, close, (exact.k, exact.theta), **options)


def reference(tape, x1, x2=None):
    a, b = (torch.from_numpy(x.astype(np.float64)) for x in (x1, x1 if x2 is None else x2))
    return dict(zip(("nngp", "ntk"), (value.numpy() for value in plain.run(tape, a, b)), strict=True))


def error(found, right, off_diagonal=False):
    gap = np.abs(found - right)
    if off_diagonal:
        np.fill_diagonal(gap, 0)
    return gap.max() / np.abs(right).max()


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.parametrize("build", [lambda family: layers(family, 3), residual], ids=["layers", "residual"])
def test_every_family_agrees_with_the_plain_path(family, build):
    tape, x1, x2 = build(family), inputs(0, 70, 9), inputs(1, 45, 9)
    found, right = engine.evaluate(request(tape, x1, x2)), reference(tape, x1, x2)
    assert error(found["nngp"], right["nngp"]) < 1e-12
    assert error(found["ntk"], right["ntk"]) < 1e-12


@pytest.mark.parametrize("n", [1, 2, 63, 65, 300, 530])
def test_symmetric_results_of_every_size(n):
    tape, x = layers(RectifiedPower(1, 1.0, 0.0), 2), inputs(2, n, 12)
    found, right = engine.evaluate(request(tape, x)), reference(tape, x)
    for kind in ("nngp", "ntk"):
        np.testing.assert_array_equal(found[kind], found[kind].T)
        assert error(found[kind], right[kind], off_diagonal=True) < 1e-12
    exact = diagonal.run(tape, (x**2).sum(1) / 12)
    np.testing.assert_array_equal(np.diag(found["nngp"]), exact.k)
    np.testing.assert_array_equal(np.diag(found["ntk"]), exact.theta)


@pytest.mark.parametrize("names", [("nngp",), ("ntk",)])
@pytest.mark.parametrize("wide", [False, True])
def test_one_result_equals_the_same_of_both(names, wide):
    tape, x = residual(Erf(1.0, 1.0, 0.0)), inputs(3, 150, 6, np.float32)
    both = engine.evaluate(request(tape, x, wide=wide))
    one = engine.evaluate(request(tape, x, wide=wide, nngp="nngp" in names, ntk="ntk" in names))
    assert set(one) == set(names)
    np.testing.assert_array_equal(one[names[0]], both[names[0]])


@pytest.mark.parametrize(
    "family", [RectifiedPower(1, 1.0, 0.0), Erf(1.0, 1.0, 0.0), Gelu(), Sine(1.0, 1.0, 0.0)], ids=str
)
def test_float32(family):
    tape, x = layers(family, 3), inputs(4, 330, 30, np.float32)
    right = reference(tape, x)
    for wide, tolerance in ((False, 5e-6), (True, 1e-7)):
        found = engine.evaluate(request(tape, x, wide=wide))
        assert found["nngp"].dtype == np.float32
        assert error(found["nngp"], right["nngp"], off_diagonal=True) < tolerance
        assert error(found["ntk"], right["ntk"], off_diagonal=True) < tolerance


@pytest.mark.parametrize("symmetric", [True, False])
def test_near_pairs_are_found_and_replaced(symmetric, monkeypatch):
    monkeypatch.setattr(engine, "CHUNK", 100)
    tape, x = layers(RectifiedPower(1, 1.0, 0.0), 3), inputs(5, 200, 5)
    x[100:] = -x[:100] * (1 + 1e-9 * inputs(6, 100, 5))
    x[180:] = x[3] * np.linspace(1, 2, 20)[:, None]
    asked = []
    spied = request(tape, x, None if symmetric else x.copy())
    inner = spied.near

    def near_and_note(i, j):
        asked.extend(zip(i.tolist(), j.tolist(), strict=True))
        return inner(i, j)

    found = engine.evaluate(engine.Request(**{**vars(spied), "near": near_and_note}))
    norms = np.linalg.norm(x, axis=1)
    cosines = np.abs(x @ x.T / norms[:, None] / norms)
    i, j = np.nonzero(np.tril(cosines > 1 - 1e-3, -1) if symmetric else cosines > 1 - 1e-3)
    assert set(asked) == set(zip(i.tolist(), j.tolist(), strict=True))
    assert len(asked) == len(set(asked)) > 100
    k, theta = inner(i, j)
    np.testing.assert_array_equal(found["nngp"][i, j], k)
    np.testing.assert_array_equal(found["ntk"][i, j], theta)


def test_zero_inputs_stay_finite():
    x = inputs(7, 40, 5)
    x[::7] = 0
    for family in FAMILIES:
        for tape in (layers(family, 2), layers(family, 2, bias=0.0)):
            found = engine.evaluate(request(tape, x))
            assert np.isfinite(found["nngp"]).all() and np.isfinite(found["ntk"]).all()


def test_one_thread_and_many_agree():
    tape, x = residual(Gelu()), inputs(8, 400, 8)
    one, many = (engine.evaluate(request(tape, x, threads=count)) for count in (1, 3))
    np.testing.assert_array_equal(one["ntk"], many["ntk"])


def test_strips_resume_where_the_list_of_pairs_is_full():
    x = np.tile(inputs(9, 1, 4), (600, 1))
    tape = layers(Linear(), 1)
    assert 2 * interpreter.ROWS * interpreter.COLUMNS < 600 * 599 // 2
    found = engine.evaluate(request(tape, x, threads=1))
    np.testing.assert_allclose(found["nngp"], found["nngp"][0, 0], rtol=1e-14)
