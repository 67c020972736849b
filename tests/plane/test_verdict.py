import pytest

from deeplimits.numerics.seeds import generator
from deeplimits.plane.record import Estimate, Place
from deeplimits.plane.verdict import fullest_diagonal, rays, verdict


def plane(
    law, widths=(16, 32, 64, 128), depths=(16, 32, 64, 128), noise=0.1, correlation=lambda n, depth: 1 / n, drift=None
):
    """Places whose var(log q) is law(n, L), measured with relative error `noise`."""
    draws = generator(0, "synthetic")
    places = []
    for n in widths:
        for depth in depths:
            value = law(n, depth) * (1 + noise * draws.standard_normal())
            rms = (value + (0 if drift is None else drift(n, depth)) ** 2) ** 0.5
            sd = correlation(n, depth) ** 0.5
            estimates = dict(
                log_variance=Estimate(value, noise * value),
                log_rms=Estimate(rms, noise * rms / 2),
                correlation_sd=Estimate(sd, noise * sd / 2),
            )
            places.append(Place(n, depth, 200, **estimates))
    return places


def decide(*arguments, **options):
    return verdict(rays(plane(*arguments, **options)))


def test_fluctuations_that_fall_as_one_over_width_commute():
    found = decide(lambda n, depth: 4.7 / n)
    assert found.word == "commutes"
    assert found.slope.low < -1 < found.slope.high


def test_fluctuations_that_depend_on_the_ratio_do_not_commute():
    found = decide(lambda n, depth: 5 * depth / n)
    assert found.word == "does not commute"
    assert found.slope.low < 0 < found.slope.high


def test_an_exponent_between_is_undecided_and_says_what_to_add():
    found = decide(lambda n, depth: n**-0.5)
    assert found.word == "undecided"
    assert found.add == ["width 256 at depth 256"]


def test_a_wide_interval_is_undecided():
    assert decide(lambda n, depth: 4.7 / n, widths=(16, 24, 32), depths=(16, 24, 32), noise=0.3).word == "undecided"


def test_a_grid_without_three_places_on_a_diagonal_is_undecided():
    found = decide(lambda n, depth: 1 / n, widths=(16, 32), depths=(8, 100))
    assert found.word == "undecided"
    assert found.add and "add width" in found.reason


def test_a_drift_of_the_mean_overrides_concentration():
    found = decide(lambda n, depth: 1 / n, drift=lambda n, depth: 2 * depth / n)
    assert found.word == "does not commute"
    assert "mean square" in found.reason


def test_correlations_that_stay_random_override_concentration():
    found = decide(lambda n, depth: 1 / n, correlation=lambda n, depth: 0.1 * depth / n)
    assert found.word == "does not commute"
    assert "var(c)" in found.reason


def test_without_fluctuations_of_q_the_correlations_decide():
    assert decide(lambda n, depth: 0.0, correlation=lambda n, depth: 1 / n).word == "commutes"
    assert decide(lambda n, depth: 0.0, correlation=lambda n, depth: depth / n).word == "does not commute"


def test_without_any_fluctuation_nothing_is_decided():
    found = verdict(rays([Place(n, n, 50, log_variance=Estimate(0.0, 0.0)) for n in (8, 16, 32)]))
    assert found.word == "undecided"
    assert "zero" in found.reason


def test_the_fullest_diagonal_is_taken():
    places = plane(lambda n, depth: 1.0, widths=(64, 256, 1024), depths=(4, 16, 64))
    ratio, chosen = fullest_diagonal(places)
    assert ratio == pytest.approx(1 / 16)
    assert [(p.width, p.depth) for p in chosen] == [(64, 4), (256, 16), (1024, 64)]


def test_three_rays_with_their_exponents():
    found = {(ray.kind, ray.statistic): ray for ray in rays(plane(lambda n, depth: 5 * depth / n))}
    assert {kind for kind, _ in found} == {"width fixed", "diagonal", "depth fixed"}
    fixed_width, fixed_depth = found["width fixed", "var(log q)"], found["depth fixed", "var(log q)"]
    assert fixed_width.slope.low < 1 < fixed_width.slope.high
    assert "grows with depth" in fixed_width.reading
    assert fixed_depth.slope.low < -1 < fixed_depth.slope.high
    assert "falls with width" in fixed_depth.reading
    assert fixed_width.widths == [16] * 4
    assert fixed_depth.depths == [128] * 4


def test_the_chance_of_a_wrong_verdict_is_small():
    words = []
    for trial in range(200):
        noise = generator(1, "trial", trial).standard_normal(4)
        places = [
            Place(n, n, 200, log_variance=Estimate(v := 4.7 / n * (1 + 0.1 * z), 0.1 * v))
            for n, z in zip((16, 32, 64, 128), noise, strict=True)
        ]
        words.append(verdict(rays(places)).word)
    assert "does not commute" not in words
    assert words.count("commutes") > 150
