"""Laws in closed form: found by the program, and those of the sampled states; the states themselves."""

from math import exp, inf, log, pi, sqrt

import numpy as np
import pytest
from scipy import stats

import deeplimits as dl
from deeplimits.errors import InputError, MemoryNeeded
from deeplimits.layer import DEPTH, Decreasing, Dense, Repeat, Residual
from deeplimits.limits.diffusion import closed_form, task

ONE = np.ones((1, 4))
OU = dl.act.OrnsteinUhlenbeck(1.0, 0.3)


def law(net, X=ONE, width=1, depth=inf, samples=2, **options):
    return dl.diffusion(net, X, width=width, depth=depth, samples=samples, seed=0, accuracy=10.0, **options)


def test_states_are_those_whose_gram_matrices_are_given():
    X = np.array([[1.0, 0.0], [0.5, 1.0]])
    net = dl.ResNet("tanh", final_activation="relu")
    found = dl.diffusion(net, X, width=3, depth=4, samples=300, seed=0, times=(0.0, 0.5, 1.0), states=True)
    assert found.states.shape == (3, 300, 2, 3)
    np.testing.assert_allclose(found.states @ found.states.swapaxes(2, 3) / 3, found.path, rtol=1e-12)
    np.testing.assert_allclose(found.state, np.maximum(found.states[-1], 0))
    np.testing.assert_allclose(found.state @ found.state.swapaxes(1, 2) / 3, found.gram, rtol=1e-12, atol=1e-15)
    plain = dl.diffusion(net, X, width=3, depth=4, samples=300, seed=0)
    assert plain.state is None and plain.states is None
    np.testing.assert_array_equal(plain.gram, found.gram)


def test_states_that_do_not_fit_are_refused_before_any_work(monkeypatch):
    monkeypatch.setattr("deeplimits.numerics.arrays.available_bytes", lambda: 10**6)
    with pytest.raises(MemoryNeeded, match=r"Gram matrices and states of all samples needs 2,448,000 bytes"):
        dl.diffusion(dl.ResNet("relu"), ONE, width=50, samples=1000, seed=0, times=(0, 0.2, 0.4, 0.6, 1), states=True)
    dl.diffusion(dl.ResNet("relu"), ONE, width=50, depth=1, samples=1000, seed=0)


def test_relu_is_geometric_brownian_motion_above_zero_and_frozen_below():
    found = law(dl.ResNet("relu", 1.5, scale=0.5 * DEPTH**-0.5))
    form = found.closed_form
    assert (form.mean, form.start_std, form.length) == (0.0, 1.0, 1.5**2 * 0.25)
    assert "closed form: log|X_t| is Gaussian" in found.describe()
    variance = form.length * 0.4
    middle, spread = form.at(0.4).gaussian(2.0)
    np.testing.assert_allclose([middle, spread], [log(2.0) - variance / 2, variance], rtol=1e-14)
    x = np.array([0.5, 1.0, 3.0])
    expected = stats.norm.cdf((np.log(x / 2.0) + variance / 2) / sqrt(variance))
    np.testing.assert_allclose(form.at(0.4).given(2.0).cdf(x), expected, rtol=1e-12)
    assert form.given(-0.7).cdf(np.array([-0.71, -0.69])).tolist() == [0.0, 1.0]
    assert form.given(0.0).cdf(np.array([-0.1, 0.0, 0.1])).tolist() == [0.0, 1.0, 1.0]
    assert form.given(-0.7).quantile(0.3) == pytest.approx(-0.7, rel=1e-9)
    assert form.given(2.0).variance == pytest.approx(4 * (exp(form.length) - 1), rel=1e-12)


@pytest.mark.parametrize(
    ("net", "kind", "steps"),
    [
        (dl.ResNet("relu"), closed_form.TwoSlopes, 64),
        (dl.ResNet(dl.act.AbRelu(-0.5, 0.8)), closed_form.TwoSlopes, 64),
        (dl.ResNet(OU, 0.7), closed_form.OrnsteinUhlenbeck, 64),
    ],
    ids=["relu", "two slopes", "ornstein-uhlenbeck"],
)
def test_sampled_states_follow_the_closed_form(net, kind, steps):
    found = law(net, samples=2000, states=True, times=(0.0, 0.5, 1.0))
    form = found.closed_form
    assert isinstance(form, kind) and found.steps == steps
    for index, time in enumerate(found.times):
        assert stats.kstest(found.states[index, :, 0, 0], form.at(time).cdf).pvalue > 1e-3
    assert stats.kstest(np.log(found.gram[:, 0, 0]), form.cdf_log_square).pvalue > 1e-3
    start, middle = (found.states[i, :, 0, 0] for i in (0, 1))
    rank = np.array([float(form.at(0.5).given(a).cdf(b)) for a, b in zip(start[:300], middle[:300], strict=True)])
    moved = rank[(rank > 0) & (rank < 1)]
    assert stats.kstest(moved, "uniform").pvalue > 1e-3


def test_quantiles_and_moments_agree_with_the_distribution_function():
    for form in (law(dl.ResNet("leaky-relu")).closed_form, law(dl.ResNet(OU, 0.3)).closed_form):
        for p in (0.02, 0.3, 0.9):
            assert float(form.cdf(form.quantile(p))) == pytest.approx(p, abs=1e-8)
        x = np.linspace(-80, 80, 8001)
        below = form.cdf(x)
        mean = float(np.sum((1 - below)[x > 0]) - np.sum(below[x < 0])) * 0.02
        square = float(np.sum(2 * x[x > 0] * (1 - below)[x > 0]) - np.sum(2 * x[x < 0] * below[x < 0])) * 0.02
        assert mean == pytest.approx(form.mean, abs=0.02)
        assert square - mean**2 == pytest.approx(form.variance, rel=0.01)


def test_ornstein_uhlenbeck_forgets_at_its_rate():
    form = law(dl.ResNet(OU, 0.5)).closed_form
    rate = pi / 4 * 0.5**2
    start = closed_form.inverse_erfi(0.5 + 0.3)
    middle, spread = form.gaussian(0.5)
    np.testing.assert_allclose([middle, spread], [start * exp(-rate), (1 - exp(-2 * rate)) / 2], rtol=1e-13)
    assert form.given(0.5).mean == 0.5
    long = law(dl.ResNet(OU, 1.0), samples=4)
    assert long.closed_form.variance == inf and not form.infinite_variance
    assert "mean of log q (that of q is infinite)" in long.describe()


def test_the_start_is_the_input_where_nothing_reads_it_in():
    net = Repeat(Residual(dl.act.Relu() >> Dense(), DEPTH**-0.5))
    found = law(net, np.array([[1.5], [-0.4]]))
    assert [(f.mean, f.start_std) for f in found.closed_forms] == [(1.5, 0.0), (-0.4, 0.0)]
    np.testing.assert_array_equal(found.gram[:, 1, 1], np.full(2, 0.4**2))


@pytest.mark.parametrize(
    ("net", "changes", "words"),
    [
        (dl.ResNet("relu"), {"width": 2}, "known are of width 1, not 2"),
        (dl.ResNet("relu"), {"depth": 8}, "known are of infinite depth"),
        (dl.ResNet("relu", bias_std=0.1), {}, r"biases \(bias_std=0.1\)"),
        (dl.ResNet("tanh"), {}, r"none is known for Tanh\(\)"),
        (dl.ResNet("relu", branch_layers=2), {}, "an activation and a Dense layer"),
        (dl.ResNet("relu", scale=Decreasing()), {}, "one residual layer with scales that vanish"),
    ],
)
def test_without_a_closed_form_the_reason_is_told(net, changes, words):
    found = law(net, **changes)
    assert found.closed_form is None and found.closed_forms == ()
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(found.describe())


def test_states_must_be_asked_with_sizes_that_can_be():
    with pytest.raises(InputError, match="samples=1"):
        task.prepare(dl.ResNet("relu"), ONE, 4, inf, 1, 0, (0.0, 1.0), states=True)
