"""The march beside networks of finite width, beside the lazy limit, and beside itself by other solvers."""

import numpy as np
import pytest

import deeplimits as dl
from deeplimits.finite.train import Descent, train
from deeplimits.limits.training.mean_field.noise import Growing
from tests.limits.training.mean_field.networks import trained

X = np.random.default_rng(0).standard_normal((2, 5))
Y = np.array([1.0, -1.0])
HEADLINE = {"depth": 2, "gamma": 2.0, "steps": 29, "rate": 0.15}
UNEQUAL = np.random.default_rng(2).standard_normal((3, 4)) * np.array([[1.0], [0.5], [2.0]])
THREE = np.array([0.4, -0.8, 1.1])
ASIDE = np.random.default_rng(3).standard_normal((2, 4))


def rms(values):
    return float(np.sqrt(np.mean(np.square(values))))


@pytest.fixture(scope="module")
def headline():
    return dl.mean_field(dl.Mlp("tanh"), X, Y, **HEADLINE)


def test_outputs_and_kernels_are_those_of_wide_networks(headline):
    """The project's numbers: rms of f within 0.005, Phi at the end within 2 %, G within four standard errors."""
    nets = trained(X, Y, **HEADLINE, width=2000, count=3)
    assert rms(headline.outputs - nets.mean("outputs")) <= 0.005
    now = headline.features[:, -1, -1]
    size = np.sqrt(np.einsum("lpp,lqq->lpq", now, now))
    assert (np.abs(now - nets.mean("features")) / size).max() <= 0.02
    error = np.hypot(
        headline.standard_error.gradients[:, -1, -1], 0.36 / np.sqrt(3 * 2000) * headline.gradients[:, -1, -1]
    )
    assert (np.abs(headline.gradients[:, -1, -1] - nets.mean("gradients")) / error).max() <= 4
    assert headline.outputs_error.max() < 0.002


def test_lazy_training_and_training_without_responses_are_far_off(headline, monkeypatch):
    lazy = dl.gradient_flow(dl.Mlp("tanh"), X, Y, None, 2, list(range(30)), "gd", rate=0.15).mean
    assert rms(headline.outputs - lazy.reshape(30, 2)) >= 0.3
    monkeypatch.setattr(Growing, "slopes", lambda self, values, columns: np.zeros((len(values), columns)))
    assert rms(headline.outputs - dl.mean_field(dl.Mlp("tanh"), X, Y, **HEADLINE).outputs) >= 0.03


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_deep_linear_networks_are_exact(depth):
    asked = {"depth": depth, "gamma": 2.0, "steps": 39, "rate": 0.05}
    found = dl.mean_field(dl.Mlp("identity"), X, Y, **asked)
    assert found.solver == "exact" and not found.outputs_error.any()
    assert rms(found.outputs - trained(X, Y, **asked, width=128, count=16, linear=True).mean("outputs")) <= 0.012


@pytest.mark.parametrize(
    ("net", "depth", "outputs"),
    [
        (dl.Mlp("erf", weight_std=1.3, bias_std=0.5, readout_std=0.7, readout_bias_std=0.4), 2, 1),
        (dl.Mlp("identity", weight_std=1.2, bias_std=0.5, readout_std=0.7, readout_bias_std=0.4, outputs=2), 2, 2),
        (dl.Mlp("relu", readout_std=0.6), 1, 1),
        (dl.Mlp("tanh", bias_std=0.3, readout_std=1.2, outputs=2), 3, 2),
    ],
)
def test_every_variance_several_outputs_and_test_inputs_count_as_in_networks(net, depth, outputs):
    """Whole courses within four standard errors of the mean over networks (rms over times and inputs)."""
    y = np.stack([THREE, THREE[::-1]], axis=1)[:, :outputs]
    found = dl.mean_field(net, UNEQUAL, y, depth=depth, gamma=1.0, steps=12, rate=0.08, X_test=ASIDE)
    descent = Descent(0.08, 12, gamma=1.0)
    nets = train(net, UNEQUAL, y, ASIDE, 256, depth, 16, 0, descent, tuple(range(13))).outputs
    both = np.concatenate([found.outputs, found.test_outputs], axis=1)
    error = np.concatenate([found.outputs_error, found.test_outputs_error], axis=1)
    spread = nets.std(0, ddof=1) / 4
    assert rms(both - nets.mean(0)) <= 4 * rms(np.hypot(error, spread))
    assert rms(both) > 10 * rms(both - nets.mean(0))


@pytest.mark.parametrize(
    ("net", "depth"),
    [
        (dl.Mlp("tanh", weight_std=1.2, bias_std=0.3, readout_std=0.8, readout_bias_std=0.5), 2),
        (dl.Mlp("relu"), 1),
        (dl.Mlp("identity", bias_std=0.4), 3),
    ],
)
def test_training_is_lazy_as_gamma_goes_to_0(net, depth):
    asked = {"depth": depth, "steps": 15, "rate": 0.05, "X_test": ASIDE}
    points = np.concatenate([UNEQUAL, ASIDE])
    lazy = dl.gradient_flow(net, UNEQUAL, THREE, points, depth, list(range(16)), "gd", rate=0.05).mean.reshape(16, 5)

    def apart(gamma):
        found = dl.mean_field(net, UNEQUAL, THREE, gamma=gamma, **asked)
        both = np.concatenate([found.outputs, found.test_outputs], axis=1) - lazy
        return found, np.abs(both), np.concatenate([found.outputs_error, found.test_outputs_error], axis=1)

    found, gap, error = apart(1e-6)
    assert (gap <= 4 * error + 1e-8).all()
    ntk = dl.kernel(net, UNEQUAL, depth=depth, get="ntk")
    assert (np.abs(found.kernel[0, 0] - ntk) <= 5 * found.standard_error.kernel[0, 0] + 1e-12).all()
    if found.solver == "exact":  # features move by gamma^2
        assert 90 < apart(0.1)[1].max() / apart(0.01)[1].max() < 110


def test_responses_by_derivatives_agree(headline):
    other = dl.mean_field(dl.Mlp("tanh"), X, Y, **HEADLINE, solver="jacobian", samples=1600)
    error = np.hypot(headline.outputs_error, other.outputs_error)
    assert (np.abs(headline.outputs - other.outputs)[1:] <= 4.5 * error[1:]).all()
    found = [
        (np.einsum("tsij,srjk->trik", r.feature_responses[0], r.gradients[1]),
         np.einsum("tsij,srjk->trik", r.gradient_responses[0], r.features[0]))
        for r in (headline, other)
    ]  # fmt: skip
    for mine, theirs in zip(*found, strict=True):
        assert rms(mine - theirs) <= 0.1 * rms(theirs)


def test_closed_matrices_and_particles_agree():
    asked = {"depth": 3, "gamma": 1.5, "steps": 12, "rate": 0.06, "X_test": ASIDE}
    net = dl.Mlp("identity", bias_std=0.4)
    exact = dl.mean_field(net, UNEQUAL, THREE, **asked)
    stein = dl.mean_field(net, UNEQUAL, THREE, **asked, solver="stein", samples=1600)
    for name in ("outputs", "test_outputs", "features", "gradients", "kernel"):
        mine, error = getattr(exact.course, name), getattr(stein.standard_error, name)
        gap = np.abs(mine - getattr(stein.course, name))
        assert rms(gap) <= 3 * rms(error) + 1e-12, name
    jacobian = dl.mean_field(net, UNEQUAL, THREE, **asked, solver="jacobian", samples=1600)
    for name in ("feature_responses", "gradient_responses"):  # the paths of linear networks have one derivative
        assert rms(getattr(jacobian, name) - getattr(exact, name)) <= 0.1 * rms(getattr(exact, name)), name


def test_a_longer_run_begins_as_a_shorter_one_and_no_one_depends_on_company():
    asked = {"depth": 2, "gamma": 1.0, "rate": 0.05, "samples": 1600}
    net = dl.Mlp("relu", bias_std=0.2)
    short = dl.mean_field(net, UNEQUAL, THREE, steps=4, X_test=ASIDE[:1], **asked)
    long = dl.mean_field(net, UNEQUAL, THREE, steps=6, X_test=np.concatenate([ASIDE, UNEQUAL]), **asked)
    np.testing.assert_allclose(long.outputs[:5], short.outputs, atol=1e-12)
    np.testing.assert_allclose(long.test_outputs[:5, :1], short.test_outputs, atol=1e-12)
    np.testing.assert_allclose(long.test_outputs[:, 2:], long.outputs, atol=2e-3)
    np.testing.assert_allclose(long.kernel[:5, :5], short.kernel, atol=1e-10)


def test_a_chain_is_the_perceptron_that_it_spells():
    layer, act = dl.layer, dl.act
    asked = {"gamma": 1.0, "steps": 4, "rate": 0.05, "samples": 1600}
    chain = (
        layer.Dense(weight_std=2**0.5) >> act.Relu() >> layer.Dense(weight_std=2**0.5) >> act.Relu() >> layer.Dense(1)
    )
    one = dl.mean_field(chain, UNEQUAL, THREE, **asked)
    other = dl.mean_field(dl.Mlp("relu"), UNEQUAL, THREE, depth=2, **asked)
    assert np.array_equal(one.outputs, other.outputs)
    mixed = layer.Dense() >> act.Tanh() >> layer.Dense() >> act.Relu() >> layer.Dense(1)
    assert not np.allclose(dl.mean_field(mixed, UNEQUAL, THREE, **asked).outputs, other.outputs)


def test_rows_that_repeat_and_rows_of_zeros_are_inputs_as_any():
    rows = np.vstack([UNEQUAL[:1], UNEQUAL[:1], np.zeros((1, 4))])
    found = dl.mean_field(dl.Mlp("tanh"), rows, [1.0, 1.0, 0.5], depth=2, gamma=1.0, steps=10, rate=0.1)
    np.testing.assert_allclose(found.outputs[:, 0], found.outputs[:, 1], atol=1e-12)
    assert not found.outputs[:, 2].any() and np.isfinite(found.kernel).all()


def test_sharpness_says_when_steps_overshoot():
    found = dl.mean_field(dl.Mlp("identity"), np.eye(2), Y, depth=2, gamma=1.0, steps=20, rate=0.5)
    assert found.rate * found.sharpness[0] < 2 < found.rate * found.sharpness.max()
    assert "unstable" in found.describe()
    assert found.alignment[0] < found.alignment[-1] <= 1
