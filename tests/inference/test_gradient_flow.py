"""GradientFlowRegressor: at the end it is the other regressors, before it `dl.gradient_flow`; bad input is told."""

from math import inf

import numpy as np
import pytest

import deeplimits as dl
from deeplimits.errors import DescriptionError, InputError
from deeplimits.inference import prior
from tests.inference.problems import DEPTH, NET, NEW, OUTPUTS, X, Y
from tests.limits.refusal import refused

Regressor = dl.learn.GradientFlowRegressor


def same(one, two, scale=1.0):
    for found, expected in zip(one.predict(NEW, return_cov=True), two.predict(NEW, return_cov=True), strict=True):
        assert found == pytest.approx(expected, abs=1e-10 * scale)
    for found, expected in zip(one.predict(NEW, return_std=True), two.predict(NEW, return_std=True), strict=True):
        assert found == pytest.approx(expected, abs=1e-9 * scale)


def test_the_readout_trained_to_the_end_is_the_bayesian_posterior():
    same(
        Regressor(NET, DEPTH, train="readout", ridge=0.0).fit(X, Y),
        dl.learn.NNGPRegressor(NET, DEPTH, noise=0.0).fit(X, Y),
    )


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_trained_to_the_end_it_is_the_ensemble(noise):
    for y in (Y, OUTPUTS):
        ours = Regressor(NET, DEPTH, ridge=noise, normalize_y=True).fit(X, y)
        same(ours, dl.learn.NTKRegressor(NET, DEPTH, noise=noise, normalize_y=True).fit(X, y), 10)


@pytest.mark.parametrize("train", ["all", "readout"])
def test_at_any_time_it_is_the_flow(train, monkeypatch):
    model = Regressor(NET, DEPTH, time=2.0, train=train, ridge=0.1).fit(X, OUTPUTS)
    monkeypatch.setattr(prior, "BLOCK_BYTES", 8 * 40 * 3 * 4)
    for time in (2.0, 0.0, 30.0, inf):
        flow = dl.gradient_flow(NET, X, OUTPUTS, NEW, DEPTH, time, train=train, ridge=0.1, covariance="full")
        mean, std = model.predict(NEW, return_std=True, time=time)
        assert mean == pytest.approx(flow.mean, abs=1e-12) and std[:, 1] == pytest.approx(flow.std, abs=1e-7)
        assert model.predict(NEW, return_cov=True, time=time)[1][..., 0] == pytest.approx(flow.covariance, abs=1e-12)
    assert model.predict(NEW).tolist() == model.predict(NEW, time=2.0).tolist()
    assert model.eigenvalues_.tolist() == flow.eigenvalues.tolist()


def test_steps_of_a_heavy_ball():
    rate = 0.05
    model = Regressor(NET, DEPTH, time=40, rule="momentum", rate=rate, momentum=0.8, ridge=0.0).fit(X, Y)
    flow = dl.gradient_flow(NET, X, Y, NEW, DEPTH, 40, "momentum", rate=rate, momentum=0.8)
    assert model.predict(NEW) == pytest.approx(flow.mean, abs=1e-12)
    drawn = model.sample_y(NEW, 4000, random_state=1)
    assert drawn.std(1) == pytest.approx(flow.std, rel=0.1, abs=1e-12)


def test_refused():
    twice = np.concatenate([X, X[:1]])
    y = np.append(Y, 0.0)
    refused(lambda: Regressor(NET, DEPTH, ridge=0.0).fit(twice, y), InputError, "rows 0 and 40 are the same")
    early = Regressor(NET, DEPTH, ridge=0.0, time=5.0).fit(twice, y)
    refused(lambda: early.predict(NEW, time=inf), InputError, "GradientFlowRegressor.fit", "singular")
    refused(lambda: early.predict(NEW, time=[1.0, 2.0]), InputError, "time=[1.0, 2.0] is not one time")
    refused(lambda: early.predict(NEW, time=-1.0), InputError, "time=-1.0")
    refused(lambda: Regressor(NET, DEPTH, rule="gd", rate=9.0).fit(X, Y), InputError, "rate=9", "largest stable")
    refused(lambda: Regressor(NET, DEPTH, rate=0.1).fit(X, Y), DescriptionError, "rate=0.1 has no effect")
    refused(lambda: Regressor(NET, DEPTH, train="body").fit(X, Y), DescriptionError, "train='body'")
    refused(lambda: Regressor(NET, DEPTH, ridge=-1).fit(X, Y), InputError, "ridge=-1")
    refused(lambda: Regressor(NET.body, DEPTH).fit(X, Y), DescriptionError, "not Gaussian")
    refused(lambda: Regressor(dl.layer.ControlledResNet("relu")).fit(X, Y), DescriptionError, "paths")


def test_searches_reach_time_and_the_network():
    from sklearn.model_selection import GridSearchCV

    grid = {"time": [0.3, inf], "net__weight_std": [0.5, 1.0]}
    search = GridSearchCV(Regressor(NET, DEPTH, ridge=0.0), grid, cv=2).fit(X, Y)
    assert set(search.best_params_) == set(grid)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
