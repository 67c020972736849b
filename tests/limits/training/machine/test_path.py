"""Training with decay ends at kernel machines: of the NTK, or of the NNGP kernel, by the place of the decay."""

import numpy as np
import pytest

import deeplimits as dl
from deeplimits.errors import DescriptionError, InputError, PrecisionError

RNG = np.random.default_rng(0)
X, NEW = RNG.standard_normal((8, 3)), RNG.standard_normal((5, 3))
Y, NET = np.sign(X[:, 0]), dl.Mlp("relu", bias_std=0.3, readout_std=0.8)
path = dl.training.decay_path


@pytest.mark.parametrize(("towards", "kind"), [("start", "ntk"), ("readout", "nngp")])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "huber", "squared"])
def test_the_end_is_the_machine(towards, kind, loss):
    """Smooth losses: no jitter. At decay x time 30 what is left of the start is e^-30."""
    found = path(NET, X, Y, NEW, 2, loss, 1.0, towards, 0.02, [1500])
    kernel = dl.kernel(NET, np.concatenate([X, NEW]), X, depth=2, get=kind)
    end = dl.training.kernel_machine(kernel[:8], Y, loss, tol=1e-13)
    assert found.train_outputs[0] == pytest.approx(end.outputs, abs=1e-6)
    assert found.outputs[0] == pytest.approx(end.predict(kernel[8:]), abs=1e-6)
    assert found.hidden_share[0] == (1.0 if towards == "start" else pytest.approx(0.98**3000))


def test_steps_are_those_of_the_equation():
    both = dl.kernel(NET, X, depth=2)
    f, expected = np.zeros(8), []
    for step in range(4):
        expected.append(f)
        moving = both.nngp + 0.9 ** (2 * step) * (both.ntk - both.nngp)
        f = f - 0.1 * (f + moving @ np.where(Y * f < 1, -Y, 0.0))
    found = path(NET, X, Y, depth=2, decay=1.0, towards="readout", rate=0.1, steps=[0, 1, 3])
    assert found.outputs == pytest.approx(np.array(expected)[[0, 1, 3]])
    assert found.time.tolist() == pytest.approx([0.0, 0.1, 0.3])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"towards": "zero"}, "towards='zero'"),
        ({"loss": "l2"}, "loss='l2'"),
        ({"decay": 0.0}, r"decay=0\.0"),
        ({"rate": -1.0}, r"rate=-1\.0"),
        ({"rate": 2.0}, "rate \\* decay = 2 is not below 1"),
        ({"steps": [5, 5]}, "rising"),
        ({"steps": []}, "rising"),
        ({"steps": 1.5}, "steps"),
        ({"y": [0.5] * 8}, "one -1 or 1 a row"),
        ({"y": np.ones((8, 2))}, r"y of shape \(8, 2\)"),
        ({"X_test": np.ones((2, 4))}, "X_test has 4 features and X has 3"),
        ({"net": dl.act.Relu()}, "no|ends in"),
    ],
)
def test_refusals(options, text):
    given = {"net": NET, "X": X, "y": Y, "depth": 2} | options
    with pytest.raises((InputError, DescriptionError), match=text):
        path(**given)


def test_a_rate_that_diverges_is_told():
    with pytest.raises(PrecisionError, match=r"diverge at rate=0\.9"), np.errstate(all="ignore"):
        path(NET, X, Y, depth=2, loss="squared", rate=0.9, steps=5000)
