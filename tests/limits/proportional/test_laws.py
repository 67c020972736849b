"""Terminal laws beside sampled networks, which share no code with the limit."""

from __future__ import annotations

from math import log, pi, sqrt

import numpy as np
import pytest
from scipy import stats

import deeplimits as dl
from deeplimits.layer import Attention, Dense, Repeat, ShapedResNet, ShapedTransformer, WeightedSkip
from deeplimits.limits.proportional.chi_square import log_norm_law
from deeplimits.limits.proportional.collapse import Collapse
from deeplimits.numerics.moments import variance

CHANCE = 0.01


def tokens(count, correlation=0.2):
    C = np.full((count, count), correlation) + (1 - correlation) * np.eye(count)
    return np.linalg.cholesky(C) * sqrt(count)


def agree(net, X, width, depth, networks, samples=2000, chance=CHANCE, **options):
    law = dl.proportional(net, X, ratio=depth / width, samples=samples, seed=0, **options)
    sampled = dl.sample(net, X, width=width, depth=depth, networks=networks, seed=1, get="nngp")
    worst = min(law.compare(sampled), key=lambda test: test.pvalue)
    assert worst.pvalue > chance, worst
    return law, sampled


@pytest.mark.slow  # 1000 networks of width 200 and depth 100: the terminal law of shaped attention, exploded paths
def test_attention_alone():
    law, _ = agree(ShapedTransformer(sqrt(0.5), mlp=False), tokens(2), 200, 100, 1000)
    assert 0 < law.exploded < 30  # 0.43 % of paths were measured to
    assert law.samples == 2000 - law.exploded
    assert f"{law.exploded} of 2000 paths exploded and are left out" in law.describe()
    assert law.log_moments is None


@pytest.mark.slow  # 400 networks of width 200 and depth 100: the terminal law of attention with a perceptron
def test_the_full_block():
    agree(ShapedTransformer(0.5, c_plus=1.0, c_minus=-1.0), tokens(3), 200, 100, 400)


def test_masked_attention_of_two_heads():
    block = WeightedSkip(Attention("shaped", heads=2, causal=True, temperature=0.7) >> Dense(), scale=0.8)
    agree(Dense() >> Repeat(block) >> Dense(1), tokens(3), 120, 30, 300)


def test_shaped_perceptron():
    law, sampled = agree(dl.ShapedMlp(0.0, -2.0), tokens(2), 200, 100, 1000)
    assert law.log_moments == (-0.5, 1.0)
    assert stats.kstest(law.log_norm[:, 0], stats.norm(-0.5, 1.0).cdf).pvalue > CHANCE
    q = np.log(sampled.gram[:, 0, 0])
    exact = log_norm_law(dl.ShapedMlp(0.0, -2.0), 200, 100)
    assert abs(q.mean() - exact.mean) < 3 * q.std(ddof=1) / sqrt(len(q))
    wide = log_norm_law(dl.ShapedMlp(0.0, -2.0), 20_000, 10_000)
    np.testing.assert_allclose([wide.mean, wide.variance], law.log_moments, rtol=1e-3)


def test_correlations_of_the_shaped_perceptron_at_ratio_one():
    law = dl.proportional(dl.ShapedMlp(), tokens(2), ratio=1.0, samples=2000, seed=3)
    value, error = law.quantiles("correlation", (0.1, 0.5, 0.9))
    golden = np.array([-0.661, 0.439, 0.955])  # of 2000 paths or so; networks of n = L = 128 gave -.653, .438, .955
    assert (np.abs(value[:, 0, 1] - golden) < 4 * sqrt(2) * error[:, 0, 1] + 0.002).all()
    assert law.step_error <= 1.0


def test_residual_network_with_skips_that_lose_the_normalisation():
    net = ShapedResNet(0.7, 1.0, -2.0, skip=0.8)
    with pytest.warns(dl.errors.NormalisationWarning, match="grow by a factor 1.13 a layer"):
        law = dl.proportional(net, tokens(2), ratio=0.5, samples=2000, seed=0)
    assert law.gain == pytest.approx(1.13)
    sampled = dl.sample(net, tokens(2), width=100, depth=50, networks=600, seed=1, get="nngp")
    assert min(test.pvalue for test in law.compare(sampled.gram / law.gain**50)) > CHANCE


def test_skips_that_shrink_leave_attention_nothing_to_do():
    block = ShapedTransformer(0.6, skip=0.7, mlp=False)
    with pytest.warns(dl.errors.NormalisationWarning, match="the logits vanish with them"):
        law = dl.proportional(block, tokens(2), ratio=0.5, samples=200, seed=0, steps=32)
    gain = 0.6**2 + 0.7**2
    assert law.gain == pytest.approx(gain) and law.exploded == 0
    spread = (0.6**4 + 2 * 0.6**2 * 0.7**2) / gain**2
    assert law.log_moments == pytest.approx((-spread / 2, spread))


def test_log_norm_of_the_unshaped_perceptron():
    net, X = dl.Mlp("relu"), tokens(2)
    law, sampled = agree(net, X, 128, 128, 1000, chance=1e-3)  # the law's mean is off by 1.3 % at this width
    exact = log_norm_law(net, 128, 128)
    q = np.log(sampled.gram[:, 0, 0])
    assert abs(q.mean() - exact.mean) < 3 * q.std(ddof=1) / sqrt(len(q))
    value, error = variance(q[:, None])
    assert abs(value[0] - exact.variance) < 3 * error[0]
    assert law.log_moments == (-2.5, 5.0)
    assert stats.kstest(law.log_norm[:, 0], stats.norm(-2.5, sqrt(5.0)).cdf).pvalue > CHANCE
    np.testing.assert_allclose(law.correlation, 1.0, rtol=1e-12)
    rho = sampled.gram[:, 0, 1] / np.sqrt(sampled.gram[:, 0, 0] * sampled.gram[:, 1, 1])
    joint = np.corrcoef(law.log_norm[:, 0], np.log(law.angles[-1, :, 0, 1]))[0, 1]
    assert abs(joint - np.corrcoef(q, np.log(1 - rho))[0, 1]) < 4 * sqrt(1 / 1000 + 1 / 2000)


def test_the_angles_start_where_infinite_width_brings_them():
    relu = Collapse(1.0, 0.0)
    assert relu.start == pytest.approx(9 * pi**2 / 2)
    depth = 20_000
    found = float(relu.edge(np.array(0.3), depth)) * depth**2
    assert found == pytest.approx(relu.start, rel=6 * log(depth) / depth)
    exact = dl.kernel(dl.Mlp("relu").body, tokens(2, 0.3), depth=50, get="nngp")
    assert float(relu.edge(np.array(0.3), 50)) == pytest.approx(1 - exact[0, 1], rel=1e-9)


def test_two_slopes_with_their_own_constants():
    net = dl.Mlp(dl.act.LeakyRelu(0.3), weight_std=sqrt(2 / 1.09))
    law, _ = agree(net, tokens(2), 200, 60, 800, samples=1500)
    k = 2 * (1 + 0.3**4) / 1.09**2
    assert law.log_moments == pytest.approx((-(3 * k - 1) / 2 * 0.3, (3 * k - 1) * 0.3))
