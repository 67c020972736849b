"""What bad input gets: an error that says where, why and how to mend it, before any work."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

import deeplimits as dl
from tests.limits.refusal import NET, X, kernel, refused

act, layer, errors = dl.act, dl.layer, dl.errors
Dense, Residual, Parallel, Serial, Repeat = layer.Dense, layer.Residual, layer.Parallel, layer.Serial, layer.Repeat
T = torch.from_numpy(X)


def spoilt(value, row, column):
    copy = X.copy()
    copy[row, column] = value
    return copy


ARRAYS = {
    "nan": (kernel(spoilt(nan, 2, 3)), "X1 has nan at row 2, column 3"),
    "infinity in X2": (kernel(X, spoilt(-inf, 1, 0)), "X2 has -inf at row 1, column 0"),
    "nan in a tensor": (kernel(torch.from_numpy(spoilt(nan, 3, 5))), "X1 has nan at row 3, column 5"),
    "mixed dtypes": (kernel(X, X.astype(np.float32)), "X1 is float64 and X2 is float32"),
    "mixed tensors": (kernel(T, T.float()), "X1 is torch.float64 and X2 is torch.float32"),
    "numpy and torch": (kernel(X, T), "mix numpy and torch"),
    "torch and numpy": (kernel(T, X), "mix numpy and torch"),
    "one row": (kernel(X[0]), "shape (6,), not (N, d)"),
    "rank 3": (kernel(X[None]), "shape (1, 4, 6), not (N, d)"),
    "rank of X2": (kernel(X, X[0]), "X2 has shape (6,)"),
    "a number": (kernel(3.0), "shape (), not (N, d)"),
    "feature counts": (kernel(X, X[:, :5]), "X1 has 6 features and X2 has 5"),
    "no rows": (kernel(X[:0]), "X1 is empty: shape (0, 6)"),
    "no columns": (kernel(X[:, :0]), "X1 is empty: shape (4, 0)"),
    "empty X2": (kernel(X, X[:0]), "X2 is empty"),
    "ragged": (kernel([[1.0, 2.0], [3.0]]), "X1 is not an array", "rows of equal length"),
    "text": (kernel(np.array([["1.0", "red"], ["2", "3"]])), "column 1 holds 'red' at row 0"),
    "objects": (kernel(np.array([[1.0, 2.0], [3.0, None]], dtype=object)), "column 1 holds None at row 1"),
    "dates": (kernel(np.array([["2020-01-01"]], dtype="datetime64[D]")), "datetime64[D]", "column 0"),
    "complex": (kernel(X + 1j), "complex"),
    "complex tensor": (kernel(T + 1j), "complex"),
    "sparse": (kernel(csr_matrix(X)), "csr_matrix", "X.toarray()"),
    "sparse tensor": (kernel(T.to_sparse()), "X.to_dense()"),
    "nothing": (kernel(None), "NoneType"),
    "a name": (kernel("digits"), "X1 is a str"),
    "dtype": (kernel(X, dtype="float16"), "float32 or float64"),
    "dtype of integers": (kernel(X, dtype=int), "float32 or float64"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays(name):
    call, *words = ARRAYS[name]
    refused(call, errors.InputError, *words)


def test_numbers_held_as_objects_are_numbers():
    k = dl.kernel(NET, X.astype(object), depth=2, get="nngp")
    np.testing.assert_array_equal(k, dl.kernel(NET, X, depth=2, get="nngp"))


@pytest.mark.parametrize("get", ["nngp", ("nngp", "ntk")])
def test_too_large_for_memory(get):
    """Bytes and three ways out, before any work; a second array counts too."""
    rows, kinds = 2_000_000, 1 if get == "nngp" else 2
    many = np.broadcast_to(np.ones((1, 1)), (rows, 1))
    error = refused(kernel(many, get=get), errors.MemoryNeeded, f"{rows**2 * 8 * kinds:,} bytes")
    assert isinstance(error, MemoryError)
    for way in ("float32", "get='nngp'", "X[a:b]"):
        assert way in error.fix
    refused(kernel(many, many[:1_000_000], get=get), errors.MemoryNeeded, f"{rows * 1_000_000 * 8 * kinds:,} bytes")


SIZES = {
    "zero": 0,
    "negative": -1,
    "half": 2.5,
    "nan": nan,
    "minus infinity": -inf,
    "text": "64",
    "truth": True,
    "complex": 3j,
}


@pytest.mark.parametrize("name", SIZES)
def test_depth(name):
    refused(kernel(X, depth=SIZES[name]), errors.InputError, "depth=", "whole number >= 1 or infinity")
    refused(lambda: dl.describe(NET, SIZES[name]), errors.InputError, "depth=")


@pytest.mark.parametrize("name", SIZES)
def test_width(name):
    refused(lambda: dl.build(NET, SIZES[name], 2, 0), errors.InputError, "width=")
    refused(lambda: dl.sample(NET, X, SIZES[name], 2, 3, 0), errors.InputError, "width=")
    refused(lambda: dl.sample(NET, X, 8, SIZES[name], 3, 0), errors.InputError, "depth=")
    refused(kernel(X, parametrization="standard", widths=SIZES[name]), errors.InputError, "widths=")


def test_whole_numbers_of_any_type_are_sizes():
    expected = dl.kernel(NET, X, depth=3, get="nngp")
    for depth in (3.0, np.int64(3), np.float32(3)):
        np.testing.assert_array_equal(dl.kernel(NET, X, depth=depth, get="nngp"), expected)


def test_depth_left_open():
    refused(lambda: dl.kernel(NET, X), errors.InputError, "leaves DEPTH open", "depth=64 or depth=inf")


SCALES = {
    "text": "big",
    "nan": nan,
    "infinity": inf,
    "nothing": None,
    "width": dl.WIDTH,
    "complex": 1j,
    "list": [1.0, 0.5],
    "power with nan": dl.DEPTH**-0.5 * nan,
}


@pytest.mark.parametrize("name", SCALES)
def test_scales(name):
    refused(lambda: dl.ResNet("relu", scale=SCALES[name]), errors.DescriptionError, "scale")
    refused(lambda: Residual(Dense(), SCALES[name]), errors.DescriptionError, "scale")


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        (lambda place, depth: nan, "l=1, L=3"),
        (lambda place, depth: "x", "l=1, L=3"),
        (lambda place, depth: 1 / (place - 2), "alpha(2, 3) raised ZeroDivisionError"),
        (lambda place: place, "alpha(1, 3) raised TypeError"),
    ],
    ids=["nan", "text", "raises", "one argument"],
)
def test_sequences(scale, words):
    error = refused(kernel(X, net=dl.ResNet("relu", scale=scale)), errors.DescriptionError, words)
    assert any("Residual" in note for note in error.__notes__)


def test_a_sequence_needs_a_repeat():
    net = Dense() >> Residual(act.Relu() >> Dense(), lambda place, depth: 0.5) >> Dense(1)
    refused(kernel(X, net=net), errors.DescriptionError, "blocks to count", "inside Repeat")


@pytest.mark.parametrize(
    ("name", "near"), [("rleu", "'relu'"), ("tahn", "'tanh'"), ("geluu", "'gelu'"), ("xyzzy", "Known: ")]
)
def test_activation_names(name, near):
    for maker in (dl.Mlp, dl.ResNet, dl.StableResNet):
        refused(lambda maker=maker: maker(name), errors.DescriptionError, repr(name), near)


@pytest.mark.parametrize(
    "given", [None, act.Relu, torch.relu, 3, Dense()], ids=["none", "class", "function", "number", "layer"]
)
def test_things_that_are_no_activation(given):
    refused(lambda: dl.Mlp(given), errors.DescriptionError, "is not an activation", "dl.act.Custom")


DESCRIPTIONS = {
    "negative std": (lambda: dl.Mlp("relu", -1.0), "weight_std=-1.0"),
    "nan std": (lambda: dl.Mlp("relu", nan), "weight_std=nan"),
    "text std": (lambda: dl.Mlp("relu", "1"), "weight_std='1'"),
    "negative bias": (lambda: dl.ResNet("relu", bias_std=-0.1), "bias_std=-0.1"),
    "no features": (lambda: Dense(0), "features=0"),
    "half a feature": (lambda: Dense(2.5), "features=2.5"),
    "law of weights": (lambda: Dense(weights="orthogonal"), "Orthogonal()"),
    "large share": (lambda: layer.LowRank(1.5 * dl.WIDTH), "not a share in (0, 1]"),
    "no share": (lambda: layer.Sparse(0.0), "not a share in (0, 1]"),
    "branch layers": (lambda: dl.ResNet("relu", branch_layers=3), "use 1 or 2"),
    "name in a chain": (lambda: Dense() >> "relu", "'relu' is not a layer"),
    "name in a list": (lambda: Serial(Dense(), "relu"), "'relu' is not a layer"),
    "no branches": (lambda: Parallel(), "no branches"),
    "half of DEPTH": (lambda: Repeat(Dense(), 0.5 * dl.DEPTH), "times=DEPTH"),
    "a module": (kernel(X, net=torch.nn.Linear(6, 1)), "Linear is not a network description"),
    "arguments swapped": (lambda: dl.kernel(X, NET, depth=2), "ndarray is not a network description"),
    "a class": (kernel(X, net=dl.ResNet), "is not a network description"),
    "get": (kernel(X, get="nnpg"), "'nngp'"),
    "nothing to get": (kernel(X, get=()), "'nngp'"),
    "a number to get": (kernel(X, get=3), "nngp"),
    "the same twice": (kernel(X, get=("ntk", "ntk")), "'ntk'"),
    "parametrization": (kernel(X, parametrization="mup"), "use 'ntk' or 'standard'"),
    "open widths": (kernel(X, parametrization="standard"), "pass widths="),
    "too few widths": (kernel(X, parametrization="standard", widths=[3]), "widths has 1 entries"),
    "too many widths": (kernel(X, parametrization="standard", widths=[3] * 9), "widths has 9 entries"),
    "widths without effect": (kernel(X, widths=64), "parametrization='standard'"),
    "hyper path": (kernel(X, hyper={"weigth_std": 1.0}), "'weight_std'"),
    "hyper value": (kernel(X, hyper={"weight_std": -1.0}), "weight_std=-1.0"),
    "hyper vector": (kernel(X, hyper={"weight_std": torch.ones(3)}), "is not a number"),
}


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_descriptions(name):
    call, *words = DESCRIPTIONS[name]
    refused(call, errors.DescriptionError, *words)


def test_times():
    refused(lambda: Repeat(Dense(), 0), errors.InputError, "times=0")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_out_of_range(dtype):
    """Never an infinity: a depth or inputs that overflow are refused."""
    deep = dl.ResNet("relu", scale=1.0)
    refused(kernel(X.astype(dtype), net=deep, depth=3000), errors.PrecisionError, np.dtype(dtype).name)
    huge = (X * (1e25 if dtype == np.float32 else 1e200)).astype(dtype)
    refused(kernel(huge), errors.PrecisionError, np.dtype(dtype).name)


def test_values_below_the_range():
    """Never a silent zero: cubes of small inputs, layer after layer, leave the range of float32 downwards."""
    net = dl.Mlp(dl.act.RectifiedMonomial(3))
    small = (X * 1e-3).astype(np.float32)
    refused(kernel(small, net=net, depth=3), errors.PrecisionError, "below the smallest number of float32")
    assert dl.kernel(net, small.astype(np.float64), depth=3, get="nngp").diagonal().min() > 0
    refused(kernel(small.astype(np.float64), net=net, depth=4), errors.PrecisionError, "number of float64")
    assert not dl.kernel(dl.Mlp("relu", 0.0), X, depth=3).nngp.any()


def test_refused_before_any_work(monkeypatch):
    """Bad arrays and sizes are found before the network is looked at."""
    from deeplimits.limits.kernel import ask

    monkeypatch.setattr(ask, "lower", lambda *_: pytest.fail("work began"))
    for call in (*(ARRAYS[name][0] for name in ARRAYS), kernel(X, depth=0), kernel(X, get="nnpg")):
        with pytest.raises(dl.DeepLimitsError):
            call()
