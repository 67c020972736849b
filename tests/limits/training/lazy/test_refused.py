"""Bad input of dl.gradient_flow: refused before any work, with the value in the words."""

from math import inf, nan

import numpy as np
import pytest

import deeplimits as dl
from deeplimits.errors import DescriptionError, InputError, MemoryNeeded, NoLimit, PrecisionError
from tests.limits.refusal import refused
from tests.limits.training.lazy.problems import DEPTH, NET, NEW, X, Y

GD = {"rule": "gd", "rate": 0.1, "time": 3}
BALL = GD | {"rule": "momentum", "momentum": 0.5}


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch):
    def work(*_, **__):
        raise AssertionError("work began")

    monkeypatch.setattr("deeplimits.limits.training.lazy.ask.kernel", work)


def ask(**options):
    given = {"net": NET, "X": X, "y": Y, "X_test": NEW, "depth": DEPTH} | options
    return lambda: dl.gradient_flow(**given)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"time": -1.0}, InputError, "time=-1.0"),
        ({"time": nan}, InputError, "time=nan"),
        ({"time": "late"}, InputError, "time='late'"),
        ({"time": True}, InputError, "time=True"),
        ({"time": [1.0, None]}, InputError, "time=None"),
        ({"time": []}, InputError, "time is empty"),
        ({"time": [[1.0]]}, InputError, "time=[1.0]"),
        (GD | {"time": 2.5}, InputError, "time=2.5 is not a whole number >= 0"),
        (GD | {"rate": None}, DescriptionError, "without a rate"),
        (GD | {"rate": 0.0}, InputError, "rate=0.0"),
        (GD | {"rate": nan}, InputError, "rate=nan"),
        (GD | {"rate": inf}, InputError, "rate=inf"),
        (GD | {"rate": "0.1"}, InputError, "rate='0.1'"),
        (GD | {"momentum": 0.5}, DescriptionError, "momentum=0.5 has no effect on rule='gd'"),
        ({"rate": 0.1}, DescriptionError, "rate=0.1 has no effect on rule='flow'"),
        (BALL | {"momentum": None}, DescriptionError, "without a momentum"),
        (BALL | {"momentum": 1.0}, InputError, "momentum=1.0"),
        (BALL | {"momentum": -0.1}, InputError, "momentum=-0.1"),
        ({"ridge": -1e-3}, InputError, "ridge=-0.001"),
        ({"ridge": inf}, InputError, "ridge=inf"),
        ({"rule": "adam"}, DescriptionError, "rule='adam'"),
        ({"train": "last"}, DescriptionError, "train='last'"),
        ({"covariance": True}, DescriptionError, "covariance=True"),
        ({"y": Y[:-1]}, InputError, "y has shape (8, 2) and X has 9 rows"),
        ({"y": Y.T}, InputError, "y has shape (2, 9) and X has 9 rows"),
        ({"y": Y[:, :0]}, InputError, "y has shape (9, 0)"),
        ({"y": Y[None]}, InputError, "y has shape (1, 9, 2)"),
        ({"y": 1.0}, InputError, "y has shape ()"),
        ({"y": None}, InputError, "y is None"),
        ({"y": ["a"] * 9}, InputError, "y has dtype <U1"),
        ({"y": [[1.0], [1.0, 2.0]]}, InputError, "y is a list that makes no array"),
        ({"y": np.array(["1"] * 9, dtype=object)}, InputError, "y holds '1', which is no number"),
        ({"y": np.ma.masked_array(Y, Y[2, 1] == Y)}, InputError, "y is masked at row 2"),
        ({"y": Y + 1j}, InputError, "y has dtype complex128"),
        ({"y": np.where(Y[3, 1] == Y, nan, Y)}, InputError, "y has nan at row 3, column 1"),
        ({"X": np.where(X[2, 0] == X, inf, X)}, InputError, "X has inf at row 2, column 0"),
        ({"X": X[0]}, InputError, "X has shape (4,)"),
        ({"X": X[:0], "y": Y[:0]}, InputError, "X is empty"),
        ({"X_test": NEW[:, :3]}, InputError, "X_test has 3 features and X has 4"),
        ({"X_test": NEW * nan}, InputError, "X_test has nan at row 0"),
        ({"net": "relu"}, DescriptionError, "str is not a network description"),
        ({"net": NET.body}, DescriptionError, "not Gaussian"),
        ({"net": dl.layer.ControlledResNet("relu")}, DescriptionError, "paths"),
        ({"net": dl.Mlp("relu", outputs=3)}, DescriptionError, "3 outputs and y has 2"),
    ],
    ids=str,
)
def test_refused(options, kind, words):
    refused(ask(**options), kind, words)


def test_times_out_of_range():
    refused(ask(time=10**400), InputError, "is not a number >= 0 or infinity")
    refused(ask(**GD | {"time": 10**400}), InputError, "leaves the range of float64")


def test_too_large(monkeypatch):
    monkeypatch.setattr("deeplimits.numerics.arrays.available_bytes", lambda: 1000)
    refused(ask(), MemoryNeeded, "9 rows and 5 points at 1 times")


def test_what_the_kernel_refuses(monkeypatch):
    monkeypatch.undo()
    refused(ask(net=dl.ResNet("relu"), depth=None), InputError, "DEPTH open")
    refused(ask(net=dl.Mlp("relu"), depth=inf), NoLimit)


def test_numbers_out_of_range(monkeypatch):
    monkeypatch.undo()
    refused(ask(y=Y * 1e200), PrecisionError, "range of float64")
