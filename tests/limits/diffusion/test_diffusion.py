"""States of fixed width: known laws at infinite depth, sampled networks at finite depth, the accuracy of the steps."""

from __future__ import annotations

from math import e, exp, inf, sqrt

import numpy as np
import pytest
from scipy import stats

import deeplimits as dl
from deeplimits.errors import AccuracyWarning, DescriptionError, InputError, NoLimit
from deeplimits.layer import DEPTH, Decreasing, Dense, Orthogonal, Repeat, Residual, RMSNorm
from deeplimits.limits.diffusion import ask

ONE = np.ones((1, 4))
PAIR = np.array([[1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, -1.0]])


def z(found, expected, error):
    return float(np.abs((found - expected) / error).max())


@pytest.mark.parametrize(
    "net", [dl.ResNet("tanh", bias_std=0.4), dl.ResNet("relu", branch_layers=2)], ids=["one", "two"]
)
def test_a_finite_depth_is_the_sampled_network_in_law(net):
    found = dl.diffusion(net, PAIR, width=16, depth=6, samples=2000, seed=1)
    sampled = dl.sample(net, PAIR, width=16, depth=6, networks=2000, seed=2)
    assert found.steps == 6 and found.step_error == 0.0
    assert z(found.mean, sampled.mean, np.hypot(found.standard_error, sampled.standard_error)) < 4.5
    error = np.hypot(found.log_variance_error, sampled.log_variance_error)
    assert z(found.log_variance, sampled.log_variance, error) < 4.5


@pytest.mark.parametrize(("width", "samples"), [(64, 2000), (256, 500)])
def test_fluctuations_of_relu_fall_with_the_width_by_the_central_limit_theorem(width, samples):
    law = dl.diffusion(dl.ResNet("relu"), ONE, width=width, samples=samples, seed=0)
    assert z(law.mean, exp(0.5), law.standard_error) < 4.0
    q = law.gram[:, 0, 0]
    measured = sqrt(width) * q.std(ddof=1)
    kurtosis = float(np.mean((q - q.mean()) ** 4) / q.var() ** 2)
    assert abs(measured - 3.565) < 4 * measured * sqrt((kurtosis - 1) / (4 * samples))


def test_width_one_is_geometric_brownian_motion():
    law = dl.diffusion(dl.ResNet("relu"), ONE, width=1, samples=3000, seed=0, accuracy=0.05)
    rise = 0.5 * np.log(law.path[1] / law.path[0])[:, 0, 0]
    frozen = rise == 0  # started at or below zero
    assert abs(frozen.mean() - 0.5) < 4 * 0.5 / sqrt(3000)
    assert stats.kstest(rise[~frozen], stats.norm(-0.5, 1.0).cdf).pvalue > 1e-4


@pytest.mark.slow  # 10000 paths for each width; covers the change of sign of the drift of log|relu(X)|
@pytest.mark.parametrize(("width", "expected"), [(3, -0.0495), (4, 0.0146)])
def test_the_sign_of_the_drift_changes_between_widths_three_and_four(width, expected):
    net, still = dl.ResNet("relu", final_activation="relu"), dl.ResNet("relu", final_activation="relu", scale=0.0)
    end = dl.diffusion(net, ONE, width=width, samples=10000, seed=3, accuracy=0.02)
    start = dl.diffusion(still, ONE, width=width, samples=10000, seed=3)
    alive = start.gram[:, 0, 0] > 0
    rise = 0.5 * np.log(end.gram[alive, 0, 0] / start.gram[alive, 0, 0])
    steps = 1 / end.steps  # weak order 1
    assert abs(rise.mean() - expected) < 4 * rise.std() / sqrt(len(rise)) + steps


def test_decreasing_scales_tend_to_the_infinite_product():
    law = dl.diffusion(dl.StableResNet(sequence="decreasing"), ONE, width=32, samples=600, seed=0)
    assert z(law.mean, 2.050957, law.standard_error) < 4.0


def test_the_path_is_seen_at_the_times_asked_for():
    law = dl.diffusion(dl.ResNet("relu"), PAIR, width=128, samples=500, seed=0, times=(0.0, 0.5, 1.0))
    assert law.path.shape == (3, 500, 2, 2)
    np.testing.assert_array_equal(law.path[-1], law.gram)
    expected = np.exp(0.5 * law.times)
    assert z(law.path_mean[:, 0, 0], expected, law.path_error[:, 0, 0]) < 4.0
    apart = law.path_mean[:, 0, 1] / law.path_mean[:, 0, 0]
    assert apart[0] < apart[1] < apart[2]


def test_twice_the_width_halves_the_bias_and_the_wide_limit_is_the_flow():
    laws = [dl.diffusion(dl.ResNet("tanh"), ONE, width=width, samples=1500, seed=width) for width in (16, 32)]
    assert z(2 * laws[1].mean - laws[0].mean, 1.42790, np.hypot(2 * laws[1].standard_error, laws[0].standard_error)) < 4


def test_normalised_branches_and_activations_at_the_end():
    net = Dense() >> Repeat(Residual(RMSNorm() >> dl.act.Relu() >> Dense(), DEPTH**-0.5)) >> dl.act.Tanh() >> Dense(1)
    found = dl.diffusion(net, PAIR, width=12, depth=4, samples=2000, seed=0)
    sampled = dl.sample(net, PAIR, width=12, depth=4, networks=2000, seed=1)
    assert z(found.mean, sampled.mean, np.hypot(found.standard_error, sampled.standard_error)) < 4.5


def test_fewer_samples_are_the_first_of_more():
    few = dl.diffusion(dl.ResNet("tanh"), PAIR, width=8, depth=3, samples=10, seed=0)
    more = dl.diffusion(dl.ResNet("tanh"), PAIR, width=8, depth=3, samples=300, seed=0)
    np.testing.assert_allclose(few.gram, more.gram[:10], rtol=1e-12)
    assert not np.allclose(more.gram[:44], more.gram[256:300])


def test_inputs_that_coincide_stay_together():
    law = dl.diffusion(dl.ResNet("relu"), np.concatenate([ONE, ONE, -ONE]), width=8, samples=50, seed=0)
    np.testing.assert_allclose(law.gram[:, 0, 1], law.gram[:, 0, 0], rtol=1e-9)


def test_steps_that_are_too_few_are_told(monkeypatch):
    monkeypatch.setattr(ask, "MOST_STEPS", 64)
    with pytest.warns(AccuracyWarning, match="Euler-Maruyama steps; the steps move the mean by at most"):
        law = dl.diffusion(dl.ResNet("relu"), ONE, width=4, samples=50, seed=0, accuracy=1e-9)
    assert law.steps == 64 and law.step_error > 1e-9
    assert "64 Euler-Maruyama steps" in law.describe()


def test_an_explicit_accuracy_is_reached():
    law = dl.diffusion(dl.ResNet("relu"), ONE, width=32, samples=400, seed=0, accuracy=2e-3)
    assert law.step_error <= 2e-3 and law.steps >= 64
    assert repr(law) == f"Diffusion(400 samples, 1 inputs, width=32, depth=inf, steps={law.steps}, seed=0)"


def test_blocks_that_vanish_leave_the_state():
    law = dl.diffusion(dl.ResNet("relu", scale=DEPTH**-1.0), ONE, width=8, samples=20, seed=0)
    np.testing.assert_array_equal(law.path[0], law.path[1])


@pytest.mark.parametrize(
    ("net", "error", "words"),
    [
        (dl.Mlp("relu"), NoLimit, "without skips has no diffusion limit"),
        (dl.ResNet("relu", scale=1.0), NoLimit, "diverges"),
        (dl.ResNet("relu", weights=Orthogonal()), DescriptionError, "use Gaussian weights"),
        (Dense() >> Repeat(Residual(Dense() >> dl.act.Relu(), DEPTH**-0.5)), DescriptionError, "ends in Relu"),
        (Dense() >> Residual(Dense(), DEPTH**-0.5), DescriptionError, "put the Residual inside Repeat"),
        ("relu", DescriptionError, "str is not a network description"),
    ],
)
def test_no_diffusion(net, error, words):
    with pytest.raises(error, match=words):
        dl.diffusion(net, ONE, width=4, samples=4, seed=0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"width": 0}, "width=0 is not a whole number >= 1"),
        ({"samples": 1}, "samples=1 is not a whole number >= 2"),
        ({"depth": 2.5}, "depth=2.5 is not a whole number"),
        ({"times": (0.5, 0.2)}, "do not rise from 0 to 1"),
        ({"times": (0.0, 2.0)}, "do not rise from 0 to 1"),
        ({"times": ()}, "do not rise from 0 to 1"),
        ({"accuracy": 0.0}, "accuracy=0.0 is not a positive number"),
        ({"seed": -1}, "-1 is not a whole number"),
        ({"X": np.full((1, 2), np.nan)}, "nan at row 0"),
    ],
)
def test_bad_input(changes, words):
    given = {"X": ONE, "width": 4, "samples": 4, "seed": 0} | changes
    with pytest.raises(InputError, match=words):
        dl.diffusion(dl.ResNet("relu"), **given)


def test_times_inside_need_one_flow():
    net = dl.StableResNet(sequence="decreasing")
    with pytest.raises(InputError, match="give times="):
        dl.diffusion(net, ONE, width=4, samples=4, seed=0, times=(0.0, 0.5))
    law = dl.diffusion(net, ONE, width=4, depth=4, samples=4, seed=0, times=(0.0, 0.5))
    assert law.path.shape == (2, 4, 1, 1)


def test_an_overflow_is_told():
    net = dl.ResNet("relu", scale=1e200)
    with pytest.raises(InputError, match="overflows at depth 4"):
        dl.diffusion(net, ONE, width=4, depth=4, samples=4, seed=0)


def test_scale_is_a_change_of_time():
    law = dl.diffusion(dl.ResNet("relu", scale=sqrt(2) * DEPTH**-0.5), ONE, width=64, samples=1000, seed=0)
    assert z(law.mean, e, law.standard_error) < 4.0
    assert Decreasing().exponent == 1.0 and law.depth == inf


def test_inputs_of_zeros_are_told():
    """They stay zero without biases, as the covariance and the words say; with biases they are inputs as others."""
    zero = np.array([[1.0, 2.0], [0.0, 0.0]])
    law = dl.diffusion(dl.ResNet("relu"), zero, width=8, samples=20, seed=0)
    assert (law.gram[:, 1] == 0).all() and (law.log_mean == -np.inf).tolist() == [False, True]
    assert "all samples of inputs [1] are zero" in law.describe()
    law = dl.diffusion(dl.ResNet("relu", bias_std=1.0), zero, width=8, samples=20, seed=0)
    assert np.isfinite(law.log_mean).all() and np.isfinite(law.log_variance).all()
    assert "are zero" not in law.describe()
