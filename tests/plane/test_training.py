"""Trained networks beside the limit of training: what agrees, what differs, what is refused, and what is kept."""

import dataclasses
import json
import re

import numpy as np
import pytest

import deeplimits as dl
from deeplimits.errors import DescriptionError, InputError
from deeplimits.plane import training, training_check
from deeplimits.plane.training_check import Limit
from deeplimits.plane.training_record import Gap, TrainingComparison
from deeplimits.report.figures import training as figures
from deeplimits.training import Descent

rng = np.random.default_rng(3)
X, X_test = rng.normal(size=(4, 6)), rng.normal(size=(3, 6))
y = np.sign(rng.normal(size=4))
LAZY, RICH = Descent(0.15, 60), Descent(0.05, 40, gamma=1.5)


@pytest.fixture(scope="module")
def lazy():
    return dl.compare(dl.Mlp("relu"), X, [16, 128], [1], networks=1500, y=y, X_test=X_test, training=LAZY)


@pytest.fixture(scope="module")
def rich():
    return dl.compare(dl.Mlp("linear"), X, [16, 128], [1, 2], networks=80, y=y, X_test=X_test, training=RICH)


def made(**changes):
    """A place of four networks at two steps, two inputs with labels 3 and 4, and the limit it stands beside."""
    outputs = np.array([[[0, 0], [1, 2]], [[0, 2], [3, 2]], [[0, 0], [3, 4]], [[0, 2], [1, 4]]], dtype=float)
    zeros = np.zeros((2, 2))
    limit = Limit(np.array([[0.0, 1.0], [2.0, 8.0]]), zeros, zeros, zeros, np.array([9.0, 1.0]), "made up")
    place = training_check.place(8, 2, outputs, np.array([3.0, 4.0]), limit)
    return dataclasses.replace(place, **changes)


def test_the_numbers_of_a_place_are_those_of_the_definition():
    place = made()
    assert place.measured.mean == [[0.0, 1.0], [2.0, 3.0]]
    assert place.measured.spread[1] == pytest.approx([(4 / 3) ** 0.5] * 2)
    assert place.loss == pytest.approx([0.5 * (9 + (16 + 4 + 16 + 4) / 4), 0.5 * (4 + 0 + 0 + 4 + 4 + 4 + 0 + 0) / 4])
    scale = 12.5**0.5
    assert place.gaps[0].distance == pytest.approx(5 / 2 / scale)
    assert place.gaps[0].noise == pytest.approx((3 / 4 * 4 / 3 / 4) ** 0.5 / scale)
    assert place.gaps[1].distance == pytest.approx((3 / 4 * 4 / 3) ** 0.5 / scale)
    squares = np.array([1 + 1 + 36, 1 + 1 + 36, 1 + 1 + 16, 1 + 1 + 16]) / 4 / 12.5
    assert place.deviation == pytest.approx(squares.mean() ** 0.5)
    assert place.deviation_error == pytest.approx(squares.std(ddof=1) / 2 / (2 * place.deviation))


@pytest.mark.parametrize(
    ("gaps", "word", "reason"),
    [
        ([(0.3, 0.01), (0.05, 0.01)], "agrees", "0.050 away, at most 0.080"),
        ([(0.12, 0.01), (0.2, 0.01)], "differs", "0.200 away, at least 0.170"),
        ([(0.5, 0.01), (0.2, 0.01)], "undecided", "from 0.500 at width 8: take larger widths"),
        ([(0.5, 0.01), (0.08, 0.01)], "undecided", "at most 0.110: take larger widths"),
        ([(0.5, 0.01), (0.05, 0.03)], "undecided", "at most 0.140: take 32"),
    ],
)
def test_verdicts(gaps, word, reason):
    row = [made(gaps=[Gap("mean", *one)], networks=100) for one in gaps]
    found = training_check.verdict([row])
    assert found.word == word and reason in found.reason


def test_lazy_networks_follow_gradient_flow(lazy):
    assert lazy.verdict.word == "agrees", lazy.verdict.reason
    small, large = lazy.place(16, 1), lazy.place(128, 1)
    flow = dl.gradient_flow(dl.Mlp("relu"), X, y, X_test, depth=1, rule="gd", rate=0.15, time=60)
    np.testing.assert_allclose(large.predicted.mean[-1][4:], flow.mean.ravel(), rtol=1e-9)
    assert large.deviation > 0.3  # other networks learn other functions
    assert large.gaps[0].distance < small.gaps[0].distance + 3 * small.gaps[0].noise
    apart = np.abs(np.subtract(large.loss, large.predicted_loss))
    assert (apart < 5 * np.array(large.loss_error) + 10 / 128 * large.loss[0]).all()  # a bias of order 1/width is left


def test_networks_in_mean_field_scaling_become_one_function(rich):
    assert rich.verdict.word == "agrees", rich.verdict.reason
    ratio = [rich.place(16, depth).deviation / rich.place(128, depth).deviation for depth in (1, 2)]
    assert all(1.9 < one < 4.2 for one in ratio)  # n^(-1/2) is 2.83
    assert np.array(rich.place(128, 2).predicted.spread).max() == 0
    assert np.abs(np.array(rich.place(128, 2).measured.mean)[-1][:4] - y).max() < 0.3


def test_networks_that_diverge_are_counted_and_left_out():
    outputs = np.zeros((6, 2, 2))
    outputs[1, 1, 0], outputs[2, 1, 1] = np.nan, 1e9
    zeros = np.zeros((2, 2))
    place = training_check.place(8, 2, outputs, np.ones(2), Limit(zeros, zeros, zeros, zeros, np.ones(2), "made up"))
    assert (place.networks, place.diverged) == (6, 2)
    assert place.gaps[0].distance == 0 and training_check.half_width(place, place.gaps[0]) == 1 / 3
    found = dl.compare(dl.Mlp("linear"), X, [4], [2], networks=40, y=y, training=Descent(0.15, 60, gamma=1.5))
    lost = found.place(4, 2).diverged
    assert 0 < lost < 40 and any(f"at most {lost} of 40, at width 4, depth 2" in note for note in found.notes)
    outputs[:5] = np.inf
    with pytest.raises(InputError, match="5 of 6 networks diverge at width 8, depth 2"):
        training_check.place(8, 2, outputs, np.ones(2), Limit(zeros, zeros, zeros, zeros, np.ones(2), "made up"))


def test_another_limit_is_told_from_the_right_one(rich, monkeypatch):
    true = training.training_limit.mean_field

    def wrong(*at):
        limit = true(*at)
        return dataclasses.replace(limit, mean=limit.mean * 1.3)

    monkeypatch.setattr(training.training_limit, "mean_field", wrong)
    found = dl.compare(dl.Mlp("linear"), X, [16, 128], [1], networks=150, y=y, training=RICH)
    assert found.verdict.word == "differs"


def test_a_record_goes_through_json_and_rows(lazy):
    assert TrainingComparison.from_json(lazy.to_json()) == lazy
    rows = lazy.rows()
    assert len(rows) == 2 * len(lazy.times) and rows[-1]["step"] == 60
    assert rows[-1]["predicted_mean_6"] == lazy.places[-1].predicted.mean[-1][6]
    assert lazy.to_frame().shape[0] == len(rows)
    text = str(lazy)
    assert "VERDICT: AGREES (the predicted training)" in text and "training, lazy limit" in text
    assert max(map(len, text.splitlines())) <= 118


def test_finished_places_are_kept(tmp_path, monkeypatch):
    at = dict(widths=[8, 16], depths=[1], networks=3, y=y, training=RICH, store=tmp_path)
    first = dl.compare(dl.Mlp("linear"), X, **at)
    monkeypatch.setattr(training, "train", None)
    assert dl.compare(dl.Mlp("linear"), X, **at) == first
    with pytest.raises(TypeError):
        dl.compare(dl.Mlp("linear"), X, **{**at, "y": -y})


def test_figures_show_the_record(rich):
    panels = figures.panels_of(rich)
    loss, outputs, tests, gaps = (arguments[0] for _, arguments in panels)
    assert loss.depths == (1, 2) and loss.predicted[1] == tuple(rich.place(128, 2).predicted_loss)
    assert outputs.names == ("input 0", "input 1", "input 2", "input 3")
    assert tests.measured[-1, 1] == rich.place(128, 2).measured.mean[-1][5]
    assert gaps.distance[1][0][0] == rich.place(16, 2).gaps[0].distance
    assert all(data.describe() for data in (loss, outputs, tests, gaps))
    assert len(dl.plot(rich).axes) == 4


def test_the_page_tells_the_verdict_and_carries_the_record(rich, tmp_path):
    text = dl.html(rich, tmp_path / "training.html").read_text(encoding="utf-8")
    assert re.findall(r'aria-hidden="true">(.)<', text) == ["✓"]
    assert "training=dl.training.Descent(rate=0.05, steps=40, gamma=1.5)" in text
    held = json.loads(re.search(r'id="record">(.*?)</script>', text, re.DOTALL)[1])
    assert TrainingComparison.from_json(json.dumps(held["comparisons"][0])) == rich
    assert {file.name for file in tmp_path.glob("*.png")} == {"training-training0.png"}


def refuse(error, said, **changes):
    given = dict(net=dl.Mlp("linear"), X=X, widths=[8], depths=[1], networks=2, y=y, training=RICH)
    with pytest.raises(error, match=said):
        dl.compare(**{**given, **changes})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"y": None}, "training needs labels"),
        ({"training": None}, "training=None"),
        ({"training": 0.1}, "training=0.1"),
        ({"y": y[:3]}, r"y has shape \(3,\), X has 4 rows"),
        ({"y": np.ones((4, 1, 1))}, r"shape \(4, 1, 1\)"),
        ({"y": [1, 2, 3, float("nan")]}, "y has nan at row 3"),
        ({"y": ["a"] * 4}, "not an array of real numbers"),
        ({"y": np.zeros(4)}, "all labels are 0"),
        ({"X_test": X_test[:, :5]}, "X_test has 5 features and X 6"),
        ({"X_test": X_test * np.nan}, r"compare\(X_test\): X_test has nan at row 0"),
        ({"ratio": 0.5}, r"compare: ratio=0.5 beside labels"),
        ({"get": "ntk"}, r"compare: get='ntk' beside labels"),
        ({"depths": [1, float("inf")]}, "depths"),
        ({"depths": None}, "depths=None"),
        ({"networks": 1}, "networks=1"),
        ({"training": Descent(0.1, 5, momentum=0.5, gamma=1.0)}, "the mean-field limit has none"),
    ],
    ids=repr,
)
def test_bad_input_is_refused_before_any_training(changes, said, monkeypatch):
    monkeypatch.setattr(training, "train", None)
    refuse(InputError, said, **changes)


def test_a_readout_of_other_size_is_refused():
    refuse(DescriptionError, "y has 2 columns and the readout 1 outputs", y=np.ones((4, 2)), training=LAZY)
    refuse(DescriptionError, "not a description", net="mlp")
