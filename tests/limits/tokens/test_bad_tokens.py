"""Tokens that cannot be: each refusal quotes the value, says why and what to do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.errors import InputError
from deeplimits.limits.tokens.collapse import rank_collapse
from deeplimits.limits.tokens.equiangular import equiangular, merge_time
from deeplimits.limits.tokens.gaussian import gaussian_slope, gaussian_variance
from tests.limits.refusal import refused

X = np.eye(3)[:, :2] + 1.0


@pytest.mark.parametrize(
    ("kind", "time", "options", "words"),
    [
        ("sofmax", 1.0, {}, ("no kind 'sofmax'", "did you mean 'softmax'")),
        (3, 1.0, {}, ("kind=3 is not a name",)),
        ("softmax", 1.0, {"beta": 0.0}, ("beta=0.0 is not a positive number",)),
        ("softmax", 1.0, {"beta": -2}, ("beta=-2",)),
        ("softmax", 1.0, {"beta": np.nan}, ("beta=nan",)),
        ("softmax", 1.0, {"epsilon": 0.1}, ("epsilon=0.1 has no meaning for kind='softmax'",)),
        ("hardmax", 3, {"value": 1.0}, ("value=1.0 has no meaning for kind='hardmax'", "query_key, step, ties")),
        ("hardmax", 3, {"step": 0.0}, ("step=0.0",)),
        ("sinkhorn", 1.0, {"epsilon": -0.1}, ("epsilon=-0.1",)),
        ("sinkhorn", 1.0, {"epsilon": 0}, ("epsilon=0 ",)),
        ("sinkhorn", 1.0, {"iterations": 0}, ("iterations=0",)),
        ("softmax", 1.0, {"close": 0.0}, ("close=0.0",)),
        ("softmax", 1.0, {"accuracy": 0.0}, ("accuracy=0.0",)),
        ("softmax", 1.0, {"query_key": np.eye(3)}, ("query_key has shape (3, 3)", "2 coordinates")),
        ("softmax", 1.0, {"value": [1.0, 2.0]}, ("value has shape (2,)",)),
        ("softmax", 1.0, {"value": [[1.0], [2.0, 3.0]]}, ("value is not a matrix",)),
        ("softmax", 1.0, {"value": [[1.0, 0.0], [np.inf, 1.0]]}, ("value has inf at row 1, column 0",)),
        ("softmax", -1.0, {}, ("time 0 is -1",)),
        ("softmax", np.inf, {}, ("time 0 is inf",)),
        ("softmax", (0.0, np.nan), {}, ("time 1 is nan",)),
        ("softmax", (0.0, 2.0, 1.0), {}, ("times go backwards: 1 follows 2 at place 2",)),
        ("softmax", (0.0, 0.0), {}, ("times stand still: 0 follows 0",)),
        ("softmax", "soon", {}, ("time='soon'",)),
        ("softmax", (), {}, ("time=()",)),
        ("hardmax", (0, 1.5), {}, ("time 1 is 1.5: hardmax attention counts steps",)),
        ("unnormalised", 1.0, {"beta": 800.0}, ("unnormalised weights reach e^800", "kind='softmax'")),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused(kind, time, options, words):
    refused(lambda: dl.tokens(kind, X, time, **options), InputError, *words)


@pytest.mark.parametrize("kind", ["softmax", "hardmax", "sinkhorn"])
@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ([[1.0, np.nan]], "nan at row 0, column 1"),
        (np.ones(3), "has shape (3,)"),
        (np.ones((0, 2)), "is empty"),
        ([["a", "b"]], "holds 'a' at row 0"),
        (None, "is a NoneType"),
    ],
)
def test_tokens_that_are_none_are_refused(kind, tokens, words):
    refused(lambda: dl.tokens(kind, tokens, 1), InputError, words)


def test_tokens_without_direction_are_refused_on_the_sphere_only():
    zero = np.array([[1.0, 0.0], [0.0, 0.0]])
    error = refused(lambda: dl.tokens("softmax", zero, 1.0), InputError, "token 1 is zero", "no direction")
    assert "kind='hardmax' or 'sinkhorn'" in error.fix
    assert dl.tokens("hardmax", zero, 1).trajectory.shape == (2, 2, 2)


def test_torch_tensors_and_lists_are_tokens_too():
    given = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    found = dl.tokens("softmax", given, (0.0, 1.0), value=torch.eye(2))
    np.testing.assert_array_equal(
        found.trajectory, dl.tokens("softmax", given.tolist(), (0.0, 1.0), value=1).trajectory
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: equiangular(1, 1.0, 1.0), "count=1"),
        (lambda: equiangular(4, 1.0, 1.0, start=-0.4), "in (-0.333, 1)"),
        (lambda: equiangular(4, 1.0, (1.0, 0.5)), "times go backwards"),
        (lambda: merge_time(5.0, start=4.0), "start=4.0 is not a positive number below 3.14159"),
        (lambda: merge_time(5.0, start=1.0, end=1.0), "end=1.0"),
        (lambda: merge_time(1000.0, start=1.5), "the time is e^92"),
        (lambda: gaussian_slope(0.0, 0.1), "std=0.0"),
        (lambda: gaussian_slope(1.0, 0.1, "cosine"), "no kernel 'cosine'"),
        (lambda: gaussian_variance(1.0, 0.0, 1.5, value=1.0), "the variance reaches 0 at time 1"),
        (lambda: gaussian_variance(1.0, 0.1, 1.0, value=np.inf), "value=inf"),
        (lambda: rank_collapse(X, 0), "layers=0"),
        (lambda: rank_collapse(X, 2, skip=np.nan), "skip=nan"),
        (lambda: rank_collapse(X, 2, value=np.ones((3, 2, 2))), "value has 3 matrices for 2 layers"),
        (lambda: rank_collapse(X, 2, value=np.ones((2, 3, 3))), "value[0] has shape (3, 3)"),
    ],
)
def test_theory_refuses_what_it_cannot_answer(call, words):
    refused(call, InputError, words)
