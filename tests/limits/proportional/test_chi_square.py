import numpy as np
import pytest

import deeplimits as dl
from deeplimits.architecture.activation import AbRelu, Abs
from deeplimits.architecture.compose import Repeat
from deeplimits.architecture.dense import Dense
from deeplimits.errors import NoRule
from deeplimits.limits.proportional.chi_square import Walk, _from_laplace, increment, log_norm, log_norm_law
from deeplimits.numerics.seeds import generator

HE = 2**0.5


@pytest.mark.parametrize(("width", "depth", "mean", "variance"), [(128, 128, -2.533, 5.15), (64, 256, -10.27, 21.25)])
def test_golden_numbers(width, depth, mean, variance):
    law = log_norm_law(HE, width, depth)
    assert law.mean == pytest.approx(mean, abs=0.005)
    assert law.variance == pytest.approx(variance, abs=0.005)


def test_the_diagonal_tends_to_the_limit_law():
    law = log_norm_law(HE, 20_000, 10_000)
    assert law.mean == pytest.approx(-1.25, rel=1e-3)
    assert law.variance == pytest.approx(2.5, rel=1e-3)
    assert law.edge == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "abs", AbRelu(-0.5, 1.2)])
@pytest.mark.parametrize(("width", "depth"), [(7, 3), (40, 5)])
def test_law_against_simulation(activation, width, depth):
    networks, net = 20_000, dl.Mlp(activation, weight_std=1.3)
    draws = generator(0, "chi-square", str(activation), width)
    total = np.zeros(networks)
    slopes = {"relu": (1, 0), "leaky_relu": (1, 0.01), "abs": (1, 1)}.get(str(activation), (1.2, -0.5))
    for _ in range(depth):
        z = draws.standard_normal((networks, width))
        features = slopes[0] * np.maximum(z, 0) + slopes[1] * np.minimum(z, 0)
        total += np.log(
            1.3**2 / width * np.sum(features**2, axis=1), where=features.any(axis=1), out=np.full(networks, np.nan)
        )
    total = total[np.isfinite(total)]
    law = log_norm_law(net, width, depth)
    assert abs(total.mean() - law.mean) < 4 * total.std() / np.sqrt(len(total))
    fourth = np.mean((total - total.mean()) ** 4)
    assert abs(total.var() - law.variance) < 4 * np.sqrt((fourth - total.var() ** 2) / len(total))


@pytest.mark.parametrize("features", [1, 3, 64, 1000])
def test_both_ways_of_computing_the_increment_agree(features):
    assert _from_laplace(features, 1.0, 1.0) == pytest.approx(increment(features, 1.0, 1.0), rel=1e-9, abs=1e-12)


def test_layers_of_other_widths_and_gains_add_up():
    wide = Dense(weight_std=HE) >> dl.act.Relu()
    net = Dense(weight_std=0.7) >> Repeat(Dense(0.5 * dl.WIDTH, weight_std=2.0) >> Abs(), 3) >> wide >> Dense(1)
    law = log_norm_law(net, 32, 1)
    parts = [increment(32, 1.0, 1.0), *3 * [increment(16, 1.0, 1.0)], increment(32, 1.0, 0.0)]
    gains = [0.7**2, 4.0, 4.0, 4.0, 2.0]
    assert law.mean == pytest.approx(sum(m + np.log(g) for (m, _), g in zip(parts, gains, strict=True)), rel=1e-12)
    assert law.variance == pytest.approx(sum(v for _, v in parts), rel=1e-12)


@pytest.mark.parametrize(
    "net",
    [
        dl.ResNet("relu"),
        dl.Mlp("tanh"),
        dl.Mlp("relu", bias_std=0.1),
        dl.Mlp("relu", weights=dl.layer.Orthogonal()),
        dl.act.Relu() >> Dense(1),
        Dense() >> AbRelu(0.0, 0.0) >> Dense(1),
    ],
    ids=str,
)
def test_a_network_without_this_law_is_refused(net):
    with pytest.raises(NoRule):
        log_norm_law(net, 8, 2)


def test_an_empty_network_has_no_fluctuation():
    walk = Walk(8)
    log_norm(dl.layer.Serial(), walk)
    assert not walk.factors
