import numpy as np
import pytest

import deeplimits as dl
from deeplimits.limits.training.mean_field import perceptron

X, Y = np.eye(2), [1.0, -1.0]
ASKED = {"depth": 2, "gamma": 1.0, "steps": 4, "rate": 0.1, "samples": 1600}


def test_an_interrupted_question_goes_on_bit_for_bit(tmp_path, monkeypatch):
    whole, march, asked = dl.mean_field(dl.Mlp("tanh"), X, Y, **ASKED), perceptron.march, []

    def interrupted(task, number, report):
        asked.append(number)
        if asked == [0, 1, 2] and not list(tmp_path.glob("*march2*")):
            raise KeyboardInterrupt
        return march(task, number, report)

    monkeypatch.setattr(perceptron, "march", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dl.mean_field(dl.Mlp("tanh"), X, Y, **ASKED, store=tmp_path)
    found = dl.mean_field(dl.Mlp("tanh"), X, Y, **ASKED, store=tmp_path)
    assert asked == [0, 1, 2, 2, 3, 4, 5, 6, 7]
    for name in ("outputs", "features", "gradients", "kernel", "feature_responses"):
        assert np.array_equal(getattr(found.course, name), getattr(whole.course, name))
        assert np.array_equal(getattr(found.standard_error, name), getattr(whole.standard_error, name))
    assert np.array_equal(found.loss_error, whole.loss_error)

    asked.clear()
    dl.mean_field(dl.Mlp("tanh"), X, Y, **ASKED, store=tmp_path)
    assert asked == []
    dl.mean_field(dl.Mlp("erf"), X, Y, **ASKED, store=tmp_path)
    assert len(asked) == 8 and len(list(tmp_path.iterdir())) == 16


def test_a_damaged_file_is_redone(tmp_path):
    first = dl.mean_field(dl.Mlp("tanh"), X, Y, **ASKED, store=tmp_path)
    damaged, empty, *_ = sorted(tmp_path.iterdir())
    damaged.write_bytes(damaged.read_bytes()[:-300])
    empty.write_bytes(b"")
    second = dl.mean_field(dl.Mlp("tanh"), X, Y, **ASKED, store=tmp_path)
    assert np.array_equal(first.outputs, second.outputs)
