import numpy as np
import pytest

import deeplimits as dl
from deeplimits.errors import DeepLimitsError
from deeplimits.numerics.seeds import generator
from deeplimits.plane import neural_function
from deeplimits.plane.record import Estimate, FunctionCheck, Place

GRID = (8, 16, 32, 64)
GROWING = [3, 2, 1]


def q(module, X):
    return module[:-1](X).square().mean(-1)


def output(module, X):
    return module(X)


def inputs():
    return np.array([[1.0, 0.0], [0.6, 0.8]]) * 2**0.5


def sampled(net, networks):
    """The plane of q as a function, its values drawn by the fast sampler instead of full networks."""
    places = []
    for n in (16, 32, 64, 128):
        for depth in (8, 16, 32, 64):
            gram = dl.sample(net, inputs(), n, depth, networks, seed=1000 * n + depth).gram
            check = neural_function.check(np.diagonal(gram, axis1=1, axis2=2))
            places.append(Place(n, depth, networks, function=check))
    return places


def test_q_of_the_residual_network_commutes():
    places = sampled(dl.ResNet("relu"), 400)
    found = neural_function.verdict(places, neural_function.rays(places))
    assert found.word == "commutes", found.reason
    assert found.slope.low < -0.95 < found.slope.high


def test_q_of_full_residual_networks_is_not_refuted():
    table = dl.compare(dl.ResNet("relu"), inputs(), [16, 32, 64], [4, 8, 16], 50, get=(), function=q)
    assert table.verdict.word != "does not commute", table.verdict.reason
    assert table.function == "q"
    assert table.places[0].nngp is None
    assert dl.Comparison.from_json(table.to_json()) == table
    assert "the law of q" in table.summary()


def test_q_of_the_sampled_perceptron_does_not_commute():
    places = sampled(dl.Mlp("relu"), 200)
    found = neural_function.verdict(places, neural_function.rays(places))
    assert found.word == "does not commute", found.reason


def test_q_of_the_unscaled_perceptron_does_not_commute():
    table = dl.compare(dl.Mlp("relu"), inputs(), [16, 32, 64], [8, 16, 32], 100, get=(), function=q)
    assert table.verdict.word == "does not commute", table.verdict.reason


def test_the_law_of_q_equals_that_of_the_sampled_gram():
    table = dl.compare(dl.ResNet("relu"), inputs(), [16], [4], 200, get="nngp", function=q)
    place = table.places[0]
    gap = np.array(place.function.mean) - np.diag(place.nngp.mean)
    error = np.hypot(place.function.error, np.sqrt(np.diag(place.nngp.error) ** 2))
    assert (np.abs(gap) < 4 * error).all()
    spread = np.hypot(place.function.spread.error, place.log_variance.error)
    assert abs(place.function.spread.value - place.log_variance.value) < 4 * spread


def test_the_law_of_a_function_of_either_sign_is_its_own():
    place = dl.compare(dl.ResNet("relu"), inputs(), [16], [2], 50, get=(), function=output).places[0]
    assert not place.function.positive
    assert abs(place.function.spread.value - 1.25**2) < 4 * place.function.spread.error
    assert place.function.center == place.function.mean


def test_values_without_sign_and_with_zeros():
    draws = np.exp(generator(0, "values").standard_normal((100, 2)))
    one_dead = draws.copy()
    one_dead[3, 1] = 0.0
    found = neural_function.check(one_dead)
    assert found.positive
    assert found.dead == 1
    assert found.center[0] == pytest.approx(np.log(np.delete(draws, 3, 0))[:, 0].mean())
    many_dead = draws.copy()
    many_dead[:20, 0] = 0.0
    assert not neural_function.check(many_dead).positive


def synthetic(center, spread, positive=True, noise=0.01, error=0.1):
    draws = generator(0, "places")
    places = []
    for n in GRID:
        for depth in GRID:
            s = spread(n, depth)
            middle = [center(n, depth) + noise * z for z in draws.standard_normal(2)]
            law = dict(center=middle, center_error=[noise] * 2, spread=Estimate(s, error * s), scale=1.0)
            check = FunctionCheck(middle, [noise] * 2, [s] * 2, positive=positive, dead=0, **law)
            places.append(Place(n, depth, 100, function=check))
    return places


def decide(*arguments, **options):
    places = synthetic(*arguments, **options)
    return neural_function.verdict(places, neural_function.rays(places))


def test_the_same_limit_in_both_orders_commutes():
    found = decide(lambda n, depth: 0.5 + 0.3 / n - 0.2 / depth, lambda n, depth: 1 / n, noise=0.03)
    assert found.word == "commutes"
    assert found.width_first.low < 0.5 < found.width_first.high


def test_different_limits_do_not_commute():
    found = decide(lambda n, depth: 1.0 if depth > n else 0.2, lambda n, depth: 4 / n)
    assert found.word == "does not commute"
    assert "differ" in found.reason


def test_a_spread_that_depends_on_the_ratio_does_not_commute():
    assert decide(lambda n, depth: 0.0, lambda n, depth: 5 * depth / n).word == "does not commute"


def test_a_law_that_stays_random_in_both_orders_commutes():
    assert decide(lambda n, depth: 0.0, lambda n, depth: 1.0, positive=False, error=0.02).word == "commutes"


def test_too_much_noise_is_undecided():
    found = decide(lambda n, depth: 0.5, lambda n, depth: 4 / n, noise=0.3)
    assert found.word == "undecided"
    assert found.add


def test_too_small_a_grid_is_undecided():
    places = [place for place in synthetic(lambda n, depth: 0.5, lambda n, depth: 4 / n) if place.depth == 8]
    assert neural_function.verdict(places, neural_function.rays(places)).word == "undecided"


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda module, X: "text", "it returned str"),
        (lambda module, X: float("nan"), "network 0 at width 4, depth 2"),
        (lambda module, X: np.zeros(0), "empty"),
        (lambda module, X: np.ones(GROWING.pop()), "equally many"),
    ],
)
def test_a_function_that_gives_no_numbers_is_refused(function, words):
    with pytest.raises(DeepLimitsError) as caught:
        dl.compare(dl.ResNet("relu"), inputs(), [4], [2], 3, get=(), function=function)
    assert words in str(caught.value)
