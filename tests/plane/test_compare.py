import json

import numpy as np
import pytest

import deeplimits as dl
from deeplimits.errors import DeepLimitsError
from deeplimits.plane import compare as module

SIZES = (16, 32, 64)


def inputs(count=3, features=6):
    """Unit inputs |x|^2/d = 1 on an arc."""
    angles = np.linspace(0, 2, count)
    table = np.zeros((count, features))
    table[:, 0], table[:, 1] = np.cos(angles), np.sin(angles)
    return table * np.sqrt(features)


@pytest.fixture(scope="module")
def resnet():
    return dl.compare(dl.ResNet("relu"), inputs(), SIZES, SIZES, networks=200, seed=0)


@pytest.fixture(scope="module")
def mlp():
    return dl.compare(dl.Mlp("relu"), inputs(), SIZES, SIZES, networks=200, seed=0, get="nngp")


def test_the_residual_network_commutes(resnet):
    assert resnet.verdict.word == "commutes"
    assert -1.3 <= resnet.verdict.slope.low <= resnet.verdict.slope.high <= -0.7


def test_the_unscaled_perceptron_does_not_commute(mlp):
    assert mlp.verdict.word == "does not commute"
    assert -0.3 <= mlp.verdict.slope.low <= mlp.verdict.slope.high <= 0.3


def test_the_perceptron_has_its_exact_law_at_every_place(mlp):
    for place in mlp.places:
        if place.width < 32:
            continue
        assert abs(place.log_variance.value - place.log_variance_predicted) < 4 * place.log_variance.error
        assert abs(place.log_mean.value - place.log_mean_predicted) < 4 * place.log_mean.error
    diagonal = next(ray for ray in mlp.rays if ray.kind == "diagonal" and ray.statistic == "var(log q)")
    assert diagonal.predicted == pytest.approx([5.3, 5.3, 5.3], rel=0.3)


def test_the_residual_networks_means_agree_with_the_right_edge(resnet):
    for place in resnet.places:
        assert place.nngp.z_rms < 4
        assert place.ntk.z_rms < 4
        assert place.nngp.entries == 6
    assert resnet.place(64, 16).nngp.predicted[0][0] == pytest.approx((1 + 1 / 32) ** 16, rel=1e-12)


def test_the_corner_is_the_flow(resnet):
    assert resnet.corner_nngp[0][0] == pytest.approx(np.exp(0.5), rel=1e-9)
    assert resnet.corner_ntk[0][0] == pytest.approx(2.5 * np.exp(0.5), rel=1e-9)
    assert "ODE" in resnet.corner


def test_the_rates_in_width_and_depth(resnet):
    for rate in resnet.depth_rates:
        assert rate.slope.value == pytest.approx(-1, abs=0.02)
        assert rate.depths == [8, 16, 32, 64, 128, 256]
    nngp = resnet.width_rates[0]
    assert nngp.slope.low < -0.5 < nngp.slope.high
    assert nngp.rate.a.high > 2


def test_the_width_needed_follows_from_the_rms(resnet):
    needed = {(n.kernel, n.depth, n.ensemble): n for n in resnet.widths_needed}
    one, ten = needed["nngp", 64, 1], needed["nngp", 64, 10]
    rms = resnet.place(64, 64).nngp.rms.value
    assert one.width == pytest.approx(64 * (rms / 0.05) ** 2, rel=0.3)
    assert ten.width == pytest.approx(one.width / 10)
    assert one.low < one.width < one.high
    assert "outside the widths measured" in one.reading


def test_the_perceptron_has_no_width_to_extrapolate_from(mlp):
    deep = next(n for n in mlp.widths_needed if n.depth == 64)
    assert deep.width is None
    assert "nothing to extrapolate from" in deep.reading
    assert any("rare networks" in note for note in mlp.notes)


def test_the_record_survives_json(resnet, mlp):
    for record in (resnet, mlp):
        assert dl.Comparison.from_json(record.to_json()) == record
        json.loads(record.to_json(), parse_constant=lambda name: pytest.fail(name))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', '{"format": 99, "network": ""}', "nonsense"])
def test_another_text_is_no_record(text):
    with pytest.raises(DeepLimitsError, match="not a comparison"):
        dl.Comparison.from_json(text)


def test_the_frame_has_one_row_a_place(resnet):
    frame = resnet.to_frame()
    assert len(frame) == 9
    assert {"width", "depth", "nngp_predicted", "ntk_z_rms", "log_variance", "log_variance_error"} <= set(frame.columns)
    with pytest.raises(DeepLimitsError, match="pip install"):
        resnet.to_frame("no-such-library")


def test_the_summary_states_numbers_and_verdict(resnet, mlp):
    assert "VERDICT: COMMUTES" in str(resnet)
    text = mlp.summary()
    assert "VERDICT: DOES NOT COMMUTE" in text
    assert "exact" in text
    assert max(map(len, text.splitlines())) <= 140


def test_an_unknown_place_is_refused(resnet):
    with pytest.raises(DeepLimitsError, match=r"widths \[16, 32, 64\]"):
        resnet.place(3, 3)


def test_places_do_not_depend_on_the_rest_of_the_grid():
    large = dl.compare(dl.ResNet("relu"), inputs(), [8, 16], [2, 4], networks=20, get="nngp")
    small = dl.compare(dl.ResNet("relu"), inputs(), [16], [4], networks=20, get="nngp")
    assert small.places[0] == large.place(16, 4)
    assert large.place(16, 4).log_mean != large.place(16, 2).log_mean


def test_an_interrupted_comparison_resumes(tmp_path, monkeypatch):
    question = dict(net=dl.ResNet("relu"), X=inputs(), widths=[4, 8], depths=[2, 3], networks=20, get="nngp")
    whole, seen, sampled = dl.compare(**question), [], []

    def interrupt(place):
        seen.append(place)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dl.compare(**question, store=tmp_path, progress=interrupt)
    original = module._place
    monkeypatch.setattr(module, "_place", lambda *at: sampled.append(at[2:]) or original(*at))
    next(iter(sorted(tmp_path.iterdir()))).write_text("cut sho")
    assert dl.compare(**question, store=tmp_path) == whole
    assert len(sampled) == 2
    sampled.clear()
    assert dl.compare(**question, store=tmp_path) == whole
    assert not sampled
    dl.compare(**{**question, "networks": 21}, store=tmp_path)
    assert len(sampled) == 4


def test_progress_stays_silent_off_a_terminal(capsys):
    dl.compare(dl.ResNet("relu"), inputs(), [4], [2], networks=3, get="nngp", progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == ""


def test_a_network_without_limits_is_still_measured():
    net = dl.ResNet("relu", weights=dl.layer.LowRank(rank=3))
    table = dl.compare(net, inputs(), [8, 16], [2], networks=10, get="nngp")
    assert table.places[0].nngp.predicted is None
    assert table.places[0].log_variance is not None
    assert table.places[0].log_rms is None
    assert table.verdict.word == "undecided"
    assert any("rank=3" in note for note in table.notes)
    assert "undecided" in table.summary().lower()


def test_one_input_has_no_correlations_and_two_networks_no_error_of_the_variance():
    table = dl.compare(dl.ResNet("relu"), inputs(1), [8], [2], networks=2)
    assert table.places[0].correlation_mean is None
    assert table.places[0].log_variance.error == np.inf
    assert dl.Comparison.from_json(table.to_json()) == table


def test_identical_opposite_and_zero_inputs():
    x = inputs(1)
    table = dl.compare(dl.ResNet("relu"), np.concatenate([x, x, -x, 0 * x]), [16], [4], networks=30)
    place = table.places[0]
    assert np.isfinite(place.log_variance.value)
    assert np.isfinite(place.nngp.z_rms)
    assert -1 <= place.correlation_mean.value <= 1
