"""The front of the proportional limit: what is refused, the corner, steps and samples, single tokens and twins."""

from __future__ import annotations

from math import inf, nan, sqrt

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.architecture.compose import Serial
from deeplimits.errors import AccuracyWarning, DescriptionError, InputError, NoLimit, NoRule
from deeplimits.layer import DEPTH, Attention, Dense, Repeat, Residual, ShapedResNet, ShapedTransformer, WeightedSkip
from deeplimits.limits.proportional import Motion, solve
from deeplimits.limits.proportional.motion import _root
from tests.limits.refusal import refused

PAIR = np.array([[1.0, 0.0], [0.2, sqrt(0.96)]]) * sqrt(2)
NET = dl.ShapedMlp()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ratio": 0.0}, "ratio=0 is not positive"),
        ({"ratio": -0.5}, "ratio=-0.5 is not positive"),
        ({"ratio": inf}, "ratio=inf is not a finite number"),
        ({"ratio": "deep"}, "ratio='deep' is not a finite number"),
        ({"X": np.array([[1.0, nan], [0.0, 1.0]])}, "nan at row 0, column 1"),
        ({"X": np.ones(3)}, "not (N, d)"),
        ({"samples": 1}, "samples=1 is not a whole number >= 2"),
        ({"seed": -1}, "-1 is not a whole number"),
        ({"times": (0.5, 0.2)}, "do not rise from 0 to 1"),
        ({"times": (0.0,)}, "do not rise from 0 to 1"),
        ({"times": "late"}, "do not rise from 0 to 1"),
        ({"steps": 7}, "steps=7 is odd"),
        ({"steps": 0}, "steps=0 is not a whole number >= 1"),
        ({"ratio": True}, "ratio=True is not a finite number"),
    ],
)
def test_arguments_that_cannot_be(changes, words):
    given = {"net": NET, "X": PAIR, "ratio": 0.5, "samples": 4} | changes
    refused(lambda: dl.proportional(**given), InputError, words)


@pytest.mark.parametrize(
    ("net", "error", "words"),
    [
        ("relu", DescriptionError, "str is not a network description"),
        (Dense() >> Dense(1), DescriptionError, "0 blocks are repeated DEPTH times"),
        (Repeat(Dense()) >> dl.act.Relu() >> Dense(1), DescriptionError, "Relu after the block repeated DEPTH times"),
        (dl.layer.Transformer(), DescriptionError, "LayerNorm after the block repeated DEPTH times"),
        (Repeat(Repeat(Dense())) >> Dense(1), DescriptionError, "holds another one"),
        (dl.Mlp("tanh"), NoRule, "no rule for the proportional"),
        (dl.Mlp("relu", bias_std=0.1), NoLimit, "biases of standard deviation 0.1"),
        (dl.Mlp("relu", weights=dl.layer.Orthogonal()), NoRule, "Orthogonal weights"),
        (dl.ResNet("relu", scale=0.5), NoLimit, "brings all inputs together"),
        (Repeat(Dense(8)) >> Dense(1), DescriptionError, "features=8 does not grow with the width"),
        (Repeat(Dense(weight_std=0.0)) >> Dense(1), NoLimit, "multiplies covariances by 0"),
        (Repeat(Dense() >> dl.act.Relu() >> Dense()) >> Dense(1), NoLimit, "stands in a block with other layers"),
        (Repeat(Serial(dl.act.Relu(), dl.act.Relu())) >> Dense(1), DescriptionError, "two activations"),
        (Repeat(WeightedSkip(Dense() >> dl.act.ShapedRelu())) >> Dense(1), DescriptionError, "ends in ShapedRelu"),
        (Repeat(WeightedSkip(Serial())) >> Dense(1), DescriptionError, "ends in its own input"),
        (Repeat(Attention("softmax")) >> Dense(1), NoRule, "softmax attention is not close to the identity"),
        (
            Repeat(Attention("shaped", query_std=None, key_std=None)) >> Dense(1),
            NoRule,
            "without the matrix of query_std",
        ),
        (
            Repeat(Attention("shaped") >> Attention("shaped", causal=True)) >> Dense(1),
            DescriptionError,
            "mixes causal and unmasked",
        ),
        (
            Repeat(Residual(Dense(), DEPTH**-0.5) >> WeightedSkip(Residual(Dense(), DEPTH**-0.5) >> Dense()))
            >> Dense(),
            DescriptionError,
            "not a chain of Residual layers",
        ),
        (ShapedTransformer(0.5, skip=1.0), NoLimit, "and with them the logits of the attention"),
    ],
)
def test_networks_without_this_limit(net, error, words):
    refused(lambda: dl.proportional(net, PAIR, ratio=0.5, samples=4), error, words)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ShapedTransformer(temperature=0.0), "temperature=0 is not positive"),
        (lambda: ShapedTransformer(temperature=-1.0), "temperature=-1 is not positive"),
        (lambda: ShapedTransformer(branch_scale=1.5), "branch_scale=1.5 is above 1"),
        (lambda: ShapedResNet(branch_scale=-0.1), "branch_scale=-0.1 is out of range"),
        (lambda: ShapedResNet(skip=nan), "skip=nan is out of range"),
        (lambda: ShapedTransformer(mlp=1), "mlp=1"),
        (lambda: dl.ShapedMlp(c_plus=inf), "inf is out of range"),
        (lambda: WeightedSkip("branch"), "'branch' is not a layer"),
        (lambda: dl.act.ShapedRelu(-4.0, -4.0).at(16), "both slopes are zero at width 16"),
    ],
)
def test_descriptions_that_cannot_be(make, words):
    refused(make, DescriptionError, words)


def test_branches_scaled_with_the_depth_are_the_corner():
    net = dl.ResNet("relu")
    law = dl.proportional(net, PAIR, ratio=0.7, samples=5, times=(0.0, 0.5, 1.0))
    assert "deterministic" in law.describe() and law.steps == 0 and law.samples == 5
    np.testing.assert_array_equal(law.covariance[0], law.covariance[4])
    np.testing.assert_allclose(law.covariance[0], dl.kernel(net.body, PAIR, depth=inf, get="nngp"), rtol=1e-12)
    half = dl.kernel(dl.ResNet("relu", scale=sqrt(0.5) * DEPTH**-0.5).body, PAIR, depth=inf, get="nngp")
    np.testing.assert_allclose(law.path[1, 0], half, rtol=1e-12)
    np.testing.assert_allclose(law.path[0, 0], PAIR @ PAIR.T / 2, rtol=1e-12)
    decreasing = dl.proportional(dl.StableResNet("relu", "decreasing"), PAIR, ratio=0.7, samples=5)
    np.testing.assert_array_equal(decreasing.times, [0.0, 1.0])
    refused(
        lambda: dl.proportional(dl.StableResNet("relu", "decreasing"), PAIR, 0.7, times=(0.5,)), InputError, "two ends"
    )


def test_fewer_samples_are_the_first_of_more():
    for net in (NET, ShapedTransformer(0.5), dl.Mlp("relu")):
        few = dl.proportional(net, PAIR, ratio=0.3, samples=10, seed=4, steps=16)
        more = dl.proportional(net, PAIR, ratio=0.3, samples=30, seed=4, steps=16)
        np.testing.assert_allclose(few.path, more.path[:, :10], rtol=1e-9)
        assert np.isnan(few.step_error) and few.steps == (30 if net == dl.Mlp("relu") else 16)


def test_layers_before_the_block_give_the_start():
    net = Dense(weight_std=2.0) >> dl.act.Relu() >> Repeat(Dense() >> dl.act.ShapedRelu()) >> Dense(1)
    law = dl.proportional(net, PAIR, ratio=0.1, samples=4, steps=2)
    np.testing.assert_allclose(law.start, dl.kernel(net.layers[0] >> dl.act.Relu(), PAIR, depth=1, get="nngp"))
    np.testing.assert_allclose(law.path[0, 0], law.start)


def test_one_token_attends_to_itself_alone():
    law = dl.proportional(ShapedTransformer(0.6, mlp=False), PAIR[:1], ratio=0.5, samples=2000, seed=1, steps=64)
    plain = dl.proportional(Repeat(WeightedSkip(Dense(), scale=0.6)) >> Dense(1), PAIR[:1], 0.5, 2000, 1, steps=64)
    assert law.exploded == 0 and law.compare(plain.covariance)[0].pvalue > 0.01
    np.testing.assert_array_equal(law.correlation, 1.0)


def test_twins_opposites_and_zero():
    X = np.concatenate([PAIR, PAIR[:1], -PAIR[1:]])
    for net in (NET, ShapedTransformer(0.5)):
        law = dl.proportional(net, X, ratio=0.5, samples=200, seed=0, steps=64)
        np.testing.assert_allclose(law.correlation[:, 0, 2], 1.0, atol=1e-6)
    law = dl.proportional(dl.Mlp("relu"), X, ratio=0.5, samples=200, seed=0, steps=64)
    np.testing.assert_array_equal(law.angles[:, :, 0, 2], 0.0)
    assert (law.angles[-1][:, 1, 3] > 0).all()
    zero = np.concatenate([PAIR, np.zeros((1, 2))])
    for net in (NET, dl.Mlp("relu"), dl.ResNet("relu")):
        refused(lambda net=net: dl.proportional(net, zero, ratio=0.5, samples=4), InputError, "only zeros in row 2")
    for net in (dl.layer.Dense(bias_std=1.0) >> NET, dl.ResNet("cos")):  # biases, and phi(0), make it another input
        assert (dl.proportional(net, zero, ratio=0.5, samples=4, times=(1,), steps=4).log_norm[:, 2] > -inf).all()
    tokens = dl.proportional(ShapedTransformer(0.5), zero, ratio=0.2, samples=4, seed=0, steps=8)
    assert (tokens.covariance[:, 2] == 0).all() and "tokens [2] are zero and stay so" in tokens.describe()


def test_weights_written_with_a_few_digits_keep_the_variance():
    exact = dl.proportional(ShapedTransformer(0.5), PAIR, ratio=0.2, samples=20, steps=4)
    tensor = dl.proportional(ShapedTransformer(torch.tensor(0.5)), PAIR, ratio=0.2, samples=20, steps=4)
    rounded = dl.proportional(ShapedTransformer(0.5, skip=0.86603), PAIR, ratio=0.2, samples=20, steps=4)
    np.testing.assert_allclose(tensor.path, exact.path, rtol=1e-12)
    np.testing.assert_allclose(rounded.covariance, exact.covariance, rtol=1e-3, atol=1e-3)
    assert exact.gain == rounded.gain == 1.0


def test_more_tokens_than_features():
    X = np.random.default_rng(0).standard_normal((5, 2))
    law = dl.proportional(ShapedTransformer(0.3), X, ratio=0.2, samples=100, seed=0, steps=32)
    assert np.linalg.eigvalsh(law.covariance).min() > -1e-9


def test_a_negative_part_is_left_out_and_counted():
    V = torch.tensor(
        [[[1.0, 2.0], [2.0, 1.0]], [[2.0, 1.0], [1.0, 2.0]], [[1.0, 1.0], [1.0, 1.0]]], dtype=torch.float64
    )
    root, lost = _root(V)
    assert lost.tolist() == [True, False, False]
    np.testing.assert_allclose((root @ root.mT)[1:], V[1:], atol=1e-12)
    law = dl.proportional(dl.ShapedMlp(0.0, -60.0), np.eye(3), ratio=1.0, samples=50, seed=0, steps=2)
    assert law.repaired > 0 and f"{law.repaired} covariances of single steps lost" in law.describe()


def test_paths_that_all_explode_are_an_error():
    loud = 30 * np.eye(3)
    words = ("all 20 paths explode", "use a smaller ratio")
    refused(lambda: dl.proportional(ShapedTransformer(0.9), loud, ratio=3.0, samples=20, steps=64), NoLimit, *words)


def test_steps_that_are_too_few_are_told(monkeypatch):
    monkeypatch.setattr(solve, "MOST_STEPS", 64)
    monkeypatch.setattr(solve, "SHARE", 1e-3)
    monkeypatch.setattr("deeplimits.limits.proportional.ask.SHARE", 1e-3)
    with pytest.warns(AccuracyWarning, match="which still move a quantile by"):
        law = dl.proportional(NET, PAIR, ratio=0.5, samples=50)
    assert law.steps == 64 and law.step_error > 1e-3


def test_steps_are_halved_until_quantiles_stand(monkeypatch):
    monkeypatch.setattr(solve, "FIRST_STEPS", 2)
    law = dl.proportional(NET, PAIR, ratio=1.0, samples=1000)
    assert law.steps > 2 and law.step_error <= 1.0
    assert repr(law) == f"Proportional(1000 samples, 2 inputs, ratio=1, steps={law.steps}, exploded=0, seed=0)"


def test_what_a_record_refuses():
    law = dl.proportional(NET, PAIR, ratio=0.5, samples=20, steps=4)
    refused(lambda: law.quantiles("norm"), InputError, "ask for correlation, log_norm, covariance")
    refused(lambda: law.quantiles(levels=(0.0,)), InputError, "levels=(0.0,)")
    refused(lambda: law.compare(np.zeros((5, 3, 3))), InputError, "shape (5, 3, 3)")
    refused(lambda: law.angles_of(law.covariance, 5), InputError, "do not tend to one")
    unshaped = dl.proportional(dl.Mlp("relu"), PAIR, ratio=0.5, samples=20, steps=16)
    refused(lambda: unshaped.compare(law.covariance), InputError, "give depth=")
    assert unshaped.quantiles("angles")[0].shape == (3, 2, 2)


def test_motions_of_order_one_over_the_width_commute():
    one, other = Motion(dense=1.0, angle=2.0), Motion(gain=2.0, attention=1.0, first_order=1.0, causal=False)
    assert one.then(other).gain == other.then(one).gain and one.then(other).dense == other.then(one).dense
    assert other.then(other).attention == 1.0 + 4.0  # logits of covariance four times as large
