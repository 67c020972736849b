import subprocess
import sys
from functools import partial

import numpy as np
import pytest

import deeplimits as dl
from deeplimits.errors import DeepLimitsError
from deeplimits.numerics.fingerprint import fingerprint
from deeplimits.plane.record import Estimate, Place
from deeplimits.plane.store import Store


def one(module, X):
    return module(X) + 1


def made(factor):
    return lambda module, X: factor * module(X)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (dl.Mlp("relu"), dl.Mlp("erf")),
        (dl.ResNet("relu"), dl.ResNet("relu", scale=dl.DEPTH**-0.4)),
        (np.ones(3), np.ones((3, 1))),
        (np.ones(3), np.ones(3, np.float32)),
        (1, 1.0),
        ("12", ("1", "2")),
        (made(1), made(2)),
        (one, made(1)),
        (partial(one, X=1), partial(one, X=2)),
        (None, ()),
    ],
)
def test_different_questions_have_different_digests(left, right):
    assert fingerprint(left) != fingerprint(right)


def test_the_same_question_has_the_same_digest():
    assert fingerprint(dl.Mlp("relu"), np.ones(3), one) == fingerprint(dl.Mlp("relu"), np.ones(3), one)
    assert fingerprint(made(2)) == fingerprint(made(2))


def test_a_function_that_calls_itself_has_a_digest():
    def factorial(n):
        return 1 if n < 2 else n * factorial(n - 1)

    assert fingerprint(factorial) == fingerprint(factorial)


def test_digests_are_the_same_in_another_process():
    line = "import deeplimits as dl; from deeplimits.numerics.fingerprint import fingerprint as f; "
    line += "print(f(dl.ResNet('tanh'), (1, 'a')))"
    runs = {
        subprocess.run(
            [sys.executable, "-c", line], capture_output=True, text=True, check=True, env={"PYTHONPATH": "src"}
        ).stdout.strip()
        for _ in range(2)
    }
    assert runs == {fingerprint(dl.ResNet("tanh"), (1, "a"))}


def test_what_was_put_is_got(tmp_path):
    place = Place(8, 4, 20, dead=1, log_variance=Estimate(0.25, float("inf")))
    Store(tmp_path, "question").put(place)
    assert Store(tmp_path, "question").get(8, 4) == place
    assert Store(tmp_path, "another").get(8, 4) is None
    assert Store(tmp_path, "question").get(8, 5) is None
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"question": 1}', '{"question": "x", "place": {"width": 1}}'])
def test_a_file_cut_short_counts_as_absent(tmp_path, text):
    store = Store(tmp_path, "question")
    store.put(Place(8, 4, 20))
    next(tmp_path.iterdir()).write_text(text)
    assert store.get(8, 4) is None


def test_without_a_folder_nothing_is_kept():
    store = Store(None, "question")
    store.put(Place(8, 4, 20))
    assert store.get(8, 4) is None


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(DeepLimitsError, match="is not a folder"):
        Store(tmp_path / "taken", "question")
