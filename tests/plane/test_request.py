import numpy as np
import pytest

import deeplimits as dl
from deeplimits.errors import DeepLimitsError, MemoryNeeded
from deeplimits.numerics import arrays
from deeplimits.plane import request as module

GOOD = dict(net=dl.Mlp("relu"), X=np.ones((2, 3)), widths=[4, 8], depths=[2], networks=5, seed=0, get=("nngp",))


def ask(**changes):
    return module.request(**{**GOOD, "function": None, **changes})


def with_nan():
    table = np.ones((3, 4))
    table[1, 2] = np.nan
    return table


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"net": "resnet"}, "'resnet' is not a description"),
        ({"X": with_nan()}, "nan at row 1, column 2"),
        ({"X": np.full((1, 1), -np.inf)}, "-inf at row 0, column 0"),
        ({"X": np.ones(3)}, "shape (3,)"),
        ({"X": np.ones((0, 3))}, "empty"),
        ({"X": np.ones((3, 0))}, "empty"),
        ({"X": [["a", "b"]]}, "not a matrix of real numbers"),
        ({"X": np.ones((1, 2), complex)}, "complex"),
        ({"X": [[1.0, 2.0], [3.0]]}, "not a matrix"),
        ({"X": np.ones((257, 2))}, "X[::2]"),
        ({"widths": [0]}, "widths=0"),
        ({"widths": [2.5]}, "widths=2.5"),
        ({"widths": [8, 4, 8]}, "widths holds 8 twice"),
        ({"widths": []}, "widths is empty"),
        ({"widths": 64}, "widths=64 is not a list"),
        ({"depths": [-1]}, "depths=-1"),
        ({"depths": [np.inf]}, "depths=inf"),
        ({"depths": "12"}, "not a list of sizes"),
        ({"networks": 1}, "networks=1"),
        ({"networks": True}, "networks=True"),
        ({"seed": -3}, "-3"),
        ({"get": ("nngpp",)}, "did you mean 'nngp'"),
        ({"get": ()}, "nothing to compare"),
        ({"function": 3}, "cannot be called"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(changes, words):
    with pytest.raises(DeepLimitsError) as caught:
        ask(**changes)
    assert words in str(caught.value)
    assert "Fix:" in str(caught.value)


def test_too_many_numbers_for_the_memory_are_refused(monkeypatch):
    monkeypatch.setattr(arrays, "available_bytes", lambda: 1_000_000)
    with pytest.raises(MemoryNeeded) as caught:
        ask(X=np.ones((100, 2)), networks=1000)
    assert "320,000,000 bytes" in str(caught.value)
    assert "fewer inputs, fewer networks, or one kernel" in str(caught.value)


def test_sizes_are_sorted_and_whole_floats_taken():
    asked = ask(widths=[8, 4.0, np.int64(6)], depths=(3, 1))
    assert asked.widths == (4, 6, 8)
    assert asked.depths == (1, 3)
    assert asked.places()[0] == (4, 1)


def test_places_have_different_seeds():
    asked = ask(widths=[4, 8, 16], depths=[2, 4])
    assert len({asked.place_seed(*at) for at in asked.places()}) == 6


def test_tensors_and_integers_are_taken():
    torch = pytest.importorskip("torch")
    assert ask(X=torch.ones(2, 3, dtype=torch.float32)).inputs.dtype == np.float64
    assert ask(X=np.eye(2, dtype=int)).inputs.tolist() == [[1.0, 0.0], [0.0, 1.0]]
