"""The table of estimators: the same rows for all, probabilities scored as by hand, limits that do not exist noted."""

import json
from math import inf

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split

import deeplimits as dl
from deeplimits.inference.contest import contest


@pytest.fixture(scope="module")
def found():
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    nets = [("ResNet", dl.ResNet("relu")), ("MLP", dl.Mlp("relu"))]
    return X, y, contest(nets, X, y, "wine", seed=3, depths=[3, inf])


def test_who_takes_part(found):
    record = found[2]
    assert [entry.name for entry in record.entries] == [
        *("NNGP, ResNet, depth 3", "NTK, ResNet, depth 3", "NNGP, ResNet, depth ∞", "NTK, ResNet, depth ∞"),
        *("NNGP, MLP, depth 3", "NTK, MLP, depth 3", "NNGP, MLP, depth ∞"),
        *("RBF Gaussian process", "RBF support-vector machine"),
    ]
    assert len(record.notes) == 1
    assert record.notes[0].startswith("NTK, MLP, depth ∞: ") and "there is no NTK at infinite depth" in record.notes[0]
    assert record.data == "wine; 89 rows to fit, 89 new ones, seed 3, classes in proportion"


def test_scores_are_those_of_scikit_learn(found):
    X, y, record = found
    rows, new, labels, true = train_test_split(X, y, train_size=89, test_size=89, random_state=3, stratify=y)
    for entry in record.entries[:2]:
        size = float(entry.settings.split()[-1])
        kind = dl.learn.NNGPClassifier if entry.name.startswith("NNGP") else dl.learn.NTKClassifier
        probabilities = kind(dl.ResNet("relu", readout_std=size), 3).fit(rows, labels).predict_proba(new)
        assert entry.accuracy == pytest.approx(accuracy_score(true, probabilities.argmax(1)))
        assert entry.log_loss == pytest.approx(log_loss(true, probabilities))
        assert entry.accuracy_error == pytest.approx(np.sqrt(entry.accuracy * (1 - entry.accuracy) / 89))
    good = [entry for entry in record.entries if entry.name != "NNGP, MLP, depth ∞"]
    assert min(entry.accuracy for entry in good) > 0.85


def test_record_is_plain(found):
    record = found[2]
    read = json.loads(record.to_json())
    assert [entry["seconds"] > 0 for entry in read["entries"]] == [True] * 9
    header, rows = record.table()
    assert all(len(row) == len(header) for row in rows)
    assert rows[0][1].endswith(" %")


def test_a_network_written_by_hand(found):
    X, y, _ = found
    net = dl.layer.Dense(bias_std=0.3) >> dl.act.Erf() >> dl.layer.Dense(1)
    record = contest([("by hand", net)], X, y, depths=[1])
    assert record.entries[0].settings.startswith("2.weight_std")
    assert record.entries[0].accuracy > 0.85


def test_continuous_targets_are_refused():
    with pytest.raises(dl.errors.InputError, match="not a continuous target"):
        contest([("ResNet", dl.ResNet("relu"))], np.eye(20), np.linspace(0, 1, 20))
