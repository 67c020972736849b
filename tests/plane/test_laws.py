"""Laws over networks beside a random limit: what agrees, what differs, what is refused, and what is kept."""

import dataclasses
import json
from math import inf

import numpy as np
import pytest
from scipy import stats

import deeplimits as dl
from deeplimits.architecture.shaped import ShapedMlp
from deeplimits.errors import DescriptionError, InputError, MemoryNeeded, NoLimit
from deeplimits.plane import law_check, law_limit, laws
from deeplimits.plane.law_record import LEVELS, LawCheck, LawComparison, LawPlace

X = np.array([[1.0, 0.0], [0.6, 0.8]]) * 2**0.5


def place(width, depth, distances, networks=2000):
    zero = [0.0] * len(LEVELS)
    checks = [LawCheck(f"law {i}", d, 0.5, zero, zero, zero, zero) for i, d in enumerate(distances)]
    return LawPlace(width, depth, networks, 4 * networks, 0, 0, 0, checks, "made up")


@pytest.fixture(scope="module")
def diagonal():
    return dl.compare(ShapedMlp(), X, widths=[8, 64], ratio=0.5, networks=1200, seed=1)


def test_the_distance_is_that_of_the_two_distribution_functions():
    rng = np.random.default_rng(0)
    check = law_check.law_check("x", rng.standard_normal(2000), rng.standard_normal(8000) + 0.5)
    exact = 2 * stats.norm.cdf(0.25) - 1
    assert abs(check.distance - exact) < law_check.half_width(2000, 8000, 1)
    z = stats.norm.ppf(LEVELS)
    assert np.abs((check.measured - z) / check.measured_error).max() < 4
    assert np.abs((check.predicted - z - 0.5) / check.predicted_error).max() < 4
    assert check.p_value < 1e-20


def test_the_interval_of_a_distance_covers_it():
    rng, missed = np.random.default_rng(1), 0
    half = law_check.half_width(200, 800, 1)
    exact = 2 * stats.norm.cdf(0.15) - 1
    for _ in range(300):
        found = stats.ks_2samp(rng.standard_normal(200), rng.standard_normal(800) + 0.3, method="asymp")
        missed += abs(found.statistic - exact) > half
    assert missed <= 9  # P(more than 9 of 300 at 1 %) = 1e-3; the bound is cautious


@pytest.mark.parametrize(
    ("rows", "word", "reason"),
    [
        ([[place(8, 4, [0.3, 0.02]), place(64, 32, [0.02, 0.01])]], "agrees", "0.020 away, at most 0.06"),
        ([[place(8, 4, [0.02]), place(64, 32, [0.3])]], "differs", "0.300 away, at least 0.2"),
        (
            [[place(8, 4, [0.6]), place(64, 32, [0.3])]],
            "undecided",
            "from 0.600 at width 8, depth 4: take larger sizes",
        ),
        ([[place(8, 4, [0.02], 200)]], "undecided", "take 1325 networks"),
        ([[place(8, 4, [0.08])]], "undecided", "take larger sizes, or more networks"),
        ([[place(1, 64, [0.01])], [place(2, 64, [0.4])]], "differs", "at width 2, depth 64"),
    ],
)
def test_the_verdict_is_that_of_the_stated_test(rows, word, reason):
    found = law_check.verdict(rows, 4)
    assert (found.word, found.margin) == (word, 0.1)
    assert reason in found.reason
    assert "below 0.1 agree" in found.test


def test_paths_that_exploded_widen_the_interval():
    whole = place(8, 4, [0.02])
    torn = dataclasses.replace(whole, exploded=400, samples=7600)
    assert law_check.interval(torn, 1) == pytest.approx(law_check.half_width(2000, 7600, 1) + 0.05)
    assert law_check.verdict([[torn]], 4).word == "undecided"


def test_shaped_networks_approach_the_diffusion_of_their_covariance(diagonal):
    assert (diagonal.kind, diagonal.ratio, diagonal.depths) == ("diagonal", 0.5, [4, 32])
    assert [law.statistic for law in diagonal.places[0].laws] == ["log q[0]", "log q[1]", "c[0,1]"]
    assert diagonal.verdict.word == "agrees"
    assert "moved by fresh weights and shaped activations" in diagonal.notes[0]
    for law in diagonal.place(64, 32).laws:
        assert law.p_value > 1e-4


def test_networks_of_growing_depth_approach_the_top_edge():
    found = dl.compare(dl.ResNet("relu"), X[:1], widths=[3], depths=[1, 64, inf], networks=1000, seed=0)
    assert (found.kind, found.ratio, found.depths, found.samples) == ("top edge", None, [1, 64], 4000)
    assert found.verdict.word == "agrees"
    assert found.place(3, 1).laws[0].distance > found.place(3, 64).laws[0].distance
    assert "width 3, infinite depth" in found.notes[0]


def test_a_wrong_law_is_found(monkeypatch):
    right = law_limit.diagonal
    monkeypatch.setattr(law_limit, "diagonal", lambda net, x, ratio, *rest: right(net, x, 3 * ratio, *rest))
    found = dl.compare(ShapedMlp(), X, widths=[64], ratio=0.5, networks=300)
    assert found.verdict.word == "differs"


def test_correlations_that_tend_to_one_are_compared_by_their_distance_from_it():
    found = dl.compare(dl.Mlp("relu"), X, widths=[64], ratio=0.5, networks=600)
    assert [law.statistic for law in found.places[0].laws] == ["log q[0]", "log q[1]", "log L^2(1-c[0,1])"]
    for law in found.places[0].laws[:2]:
        assert law.p_value > 1e-4
    assert found.places[0].laws[2].distance < 0.05 + law_check.half_width(600, 2400, 3)  # its start-up is slow


def test_the_record_survives_json_and_gives_rows(diagonal):
    assert LawComparison.from_json(diagonal.to_json()) == diagonal
    json.loads(diagonal.to_json(), parse_constant=lambda name: pytest.fail(name))
    frame = diagonal.to_frame()
    assert len(frame) == 6
    assert {"width", "depth", "statistic", "distance", "measured_0.5", "predicted_0.95_error"} <= set(frame.columns)
    with pytest.raises(InputError, match="not a comparison"):
        LawComparison.from_json("{}")
    with pytest.raises(InputError, match=r"choose from \(8, 4\), \(64, 32\)"):
        diagonal.place(3, 3)


def test_the_summary_states_numbers_and_verdict(diagonal):
    text = str(diagonal)
    assert "VERDICT: AGREES (the predicted law)" in text
    assert "diagonal, depth = 0.5 width: 2 inputs of 2 features, 1200 networks a place, 4800 samples" in text
    assert max(map(len, text.splitlines())) <= 140


def test_an_interrupted_comparison_resumes(tmp_path, monkeypatch):
    question = dict(net=ShapedMlp(), X=X, widths=[4, 8], ratio=0.5, networks=40)
    whole, seen = dl.compare(**question), []

    def interrupt(place):
        seen.append((place.width, place.depth))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dl.compare(**question, store=tmp_path, progress=interrupt)
    again = dl.compare(**question, store=tmp_path, progress=lambda place: seen.append((place.width, place.depth)))
    assert again == whole and seen == [(4, 2), (4, 2), (8, 4)]
    monkeypatch.setattr(laws, "_limit", lambda *_: pytest.fail("sampled again"))
    assert dl.compare(**question, store=tmp_path) == whole
    with pytest.raises(pytest.fail.Exception):
        dl.compare(**{**question, "ratio": 1.0}, store=tmp_path)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"ratio": 0}, InputError, "ratio=0 is not a positive number"),
        ({"ratio": -0.5}, InputError, "ratio=-0.5"),
        ({"ratio": inf}, InputError, "ratio=inf"),
        ({"ratio": "half"}, InputError, "ratio='half'"),
        ({"ratio": True}, InputError, "ratio=True"),
        ({"ratio": 0.75}, InputError, "ratio=0.75 times width=6 is 4.5, no depth"),
        ({"ratio": 1e-3}, InputError, "no depth"),
        ({"depths": [4]}, InputError, "both depths"),
        ({"ratio": None}, InputError, "neither depths nor ratio"),
        ({"ratio": None, "depths": [inf]}, InputError, "depths=[inf] holds no finite depth"),
        ({"net": dl.layer.ControlledResNet("relu")}, DescriptionError, "networks driven by paths are not compared"),
        ({"X": np.array([[1.0, 1.0], [0.0, 0.0]])}, InputError, "only zeros in row 1"),
        ({"ratio": None, "depths": [2.5, inf]}, InputError, "depths=2.5"),
        ({"ratio": None, "depths": [2, inf], "get": "ntk"}, InputError, "the laws of features are compared"),
        ({"function": lambda module, x: module(x)}, InputError, "the laws of features are compared"),
        ({"networks": 1}, InputError, "networks=1"),
        ({"X": np.ones((17, 2))}, InputError, "at most 16"),
        ({"X": np.array([[np.nan, 1.0]])}, InputError, "nan at row 0, column 0"),
        ({"net": "mlp"}, DescriptionError, "'mlp' is not a description"),
        ({"net": dl.ResNet("relu"), "widths": [4], "networks": 4}, NoLimit, "no random law: depth/width 0.5: determin"),
        ({"net": dl.Mlp("relu"), "ratio": None, "depths": [2, inf]}, NoLimit, "without skips"),
    ],
)
def test_what_cannot_be_is_refused_before_networks_are_sampled(changes, error, words, monkeypatch):
    monkeypatch.setattr(laws, "_place", lambda *_: pytest.fail("sampled"))
    given = {"net": ShapedMlp(), "X": X, "widths": [4, 6], "ratio": 0.5, "networks": 4} | changes
    with pytest.raises(error) as caught:
        dl.compare(**given)
    assert words in str(caught.value)
    assert "Fix:" in str(caught.value)


def test_matrices_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr("deeplimits.numerics.arrays.available_bytes", lambda: 10**6)
    with pytest.raises(MemoryNeeded, match="2000 networks and 8000 limits on 4 inputs"):
        dl.compare(ShapedMlp(), np.eye(4), widths=[4], ratio=0.5)


def test_inputs_of_zeros_leave_nothing_to_compare():
    with pytest.raises(InputError, match="input 1 of X has only zeros, and so have its features"):
        dl.compare(dl.ResNet("relu"), np.array([[1.0, 1.0], [0.0, 0.0]]), widths=[2], depths=[2, inf], networks=4)
    found = dl.compare(dl.ResNet("sigmoid"), np.zeros((1, 2)), widths=[8], depths=[2, inf], networks=50)
    assert np.isfinite(found.places[0].laws[0].distance)  # phi(0) makes features of it
