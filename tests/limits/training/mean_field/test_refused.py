"""Everything that cannot be answered is refused before any work, with the offending value."""

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.errors import DescriptionError, InputError, MemoryNeeded, NoLimit, NoRule, PrecisionError

TANH = dl.Mlp("tanh")
X = np.array([[1.0, 0.5], [0.2, -1.0], [2.0, 0.0]])
Y = np.array([1.0, -1.0, 0.5])
ASKED = {"depth": 2, "gamma": 1.0, "steps": 3, "rate": 0.05}
layer, act = dl.layer, dl.act


def ask(net=TANH, X=X, y=Y, **options):
    return dl.mean_field(net, X, y, **{**ASKED, **options})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gamma": 0}, "gamma=0: no feature moves.*dl.gradient_flow"),
        ({"gamma": 0.0}, "dl.gradient_flow"),
        ({"gamma": 1e-9}, "dl.gradient_flow"),
        *(({"gamma": bad}, "gamma=.* is not a positive number") for bad in (-1.0, np.nan, np.inf, True, "2", None)),
        *(({"rate": bad}, "rate=.* is not a positive number") for bad in (0, -1.0, np.nan, np.inf, True, "2", None)),
        *(({"steps": bad}, "steps=.* is not a whole number") for bad in (0, -1, 2.5, True, None)),
        *(({"depth": bad}, "depth=.* is not a whole number") for bad in (0, -1, 2.5, True)),
        ({"depth": None}, "leaves DEPTH open"),
        *(({"samples": bad}, f"samples={bad} ") for bad in (0, 100, 1592, True)),
        ({"seed": -1}, "seed: -1"),
        ({"solver": "picard"}, "solver='picard' is not a solver"),
        ({"solver": "exact"}, "use stein or jacobian"),
        ({"net": dl.Mlp("relu"), "solver": "jacobian"}, "solver='jacobian' cannot answer"),
        ({"net": dl.Mlp("identity"), "samples": 1600}, "samples=1600 has no effect"),
        ({"rule": "ntk"}, "rule='ntk' .*dl.gradient_flow"),
        ({"y": [1.0, np.nan, 2.0]}, "y has nan at row 1"),
        ({"y": Y[:2]}, r"y has shape \(2,\) and X has 3 rows"),
        ({"y": Y.reshape(3, 1, 1)}, r"y has shape \(3, 1, 1\)"),
        ({"y": ["a", "b", "c"]}, "first entry is"),
        ({"y": None}, "y is None"),
        ({"X": np.full((3, 2), np.inf)}, "X has inf at row 0, column 0"),
        ({"X": np.empty((0, 2))}, "X is empty"),
        ({"X_test": X[:, :1]}, "X_test has 1 features and X has 2"),
        ({"X_test": np.full((1, 2), np.nan)}, "X_test has nan at row 0"),
        ({"store": 3}, "store=3 is not a folder"),
    ],
)
def test_bad_input_is_refused(options, said):
    with pytest.raises(InputError, match=said):
        ask(**options)


@pytest.mark.parametrize(
    ("net", "kind", "said"),
    [
        ("tanh", DescriptionError, "str is not a network description"),
        (dl.Mlp("tanh", outputs=3), DescriptionError, "has 3 outputs and y has 1"),
        (dl.Mlp("tanh", weight_std=torch.tensor(1.2)), DescriptionError, "is a tensor"),
        (dl.Mlp("tanh", weights=layer.Orthogonal()), NoRule, "Orthogonal: weights that are trained"),
        (layer.Dense() >> act.Tanh(), DescriptionError, "ends in Tanh"),
        (layer.Dense(1), NoRule, "no hidden layer"),
        (layer.Dense() >> act.Tanh() >> layer.LayerNorm() >> layer.Dense(1), NoRule, "LayerNorm"),
        (layer.Dense() >> layer.Dense() >> act.Tanh() >> layer.Dense(1), NoRule, "do not alternate"),
        (layer.Dense(0.5 * dl.WIDTH) >> act.Tanh() >> layer.Dense(1), NoRule, "features=Share"),
    ],
)
def test_networks_without_a_march_are_refused_by_name(net, kind, said):
    with pytest.raises(kind, match=said):
        ask(net)


def test_a_perceptron_of_infinite_depth_has_no_limit():
    with pytest.raises(NoLimit, match="infinite depth"):
        ask(depth=np.inf)


def test_a_rate_past_stability_is_predicted():
    most = 2 / np.linalg.eigvalsh(dl.kernel(TANH, X, depth=2, get="ntk"))[-1]
    with pytest.raises(InputError, match=f"rate=3 is past stability.*below {most:.4g}"):
        ask(rate=3.0)
    assert ask(rate=0.999 * most, steps=1).outputs.shape == (2, 3)


def test_divergence_keeps_what_was_computed():
    with pytest.raises(NoLimit, match="diverges at step 3") as caught:
        dl.mean_field(dl.Mlp("relu"), 1.4 * np.eye(2), [2.0, -2.0], depth=3, gamma=4.0, steps=40, rate=0.2)
    record = caught.value.record
    assert record.outputs.shape == (3, 2) and record.loss[1] < record.loss[0] < record.loss[2]
    assert np.isnan(record.outputs_error[1:]).all()  # one march has no standard error


def test_targets_beyond_float64_are_refused():
    with pytest.raises(PrecisionError, match="y reaches 1e"):
        ask(y=1e200 * Y)
    with pytest.raises(PrecisionError, match="y reaches only 1e-11"):
        ask(y=1e-11 * Y)
    assert np.abs(ask(y=0 * Y).outputs).max() < 1e-15


def test_too_much_memory_is_refused_with_ways_out():
    with pytest.raises(MemoryNeeded, match=r"bytes.*fewer inputs or steps.*fewer samples.*fewer layers"):
        ask(X=np.ones((2000, 2)) + np.eye(2000, 2), y=np.ones(2000), steps=1000)


def test_memory_is_said_and_enough():
    import tracemalloc

    rows = np.random.default_rng(0).standard_normal((8, 5))
    for net in (TANH, dl.Mlp("identity")):
        ask(net)
        tracemalloc.start()
        found = ask(net, X=rows, y=rows[:, 0], steps=24, rate=0.01)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        said = int(found.describe().split(" bytes")[0].split()[-1].replace(",", ""))
        assert 0.5 * said < peak < said


@pytest.mark.parametrize(
    ("X_given", "y_given"),
    [
        (X.astype(np.float32), Y.astype(np.float32)),
        (torch.tensor(X), torch.tensor(Y, requires_grad=True)),
        (X.tolist(), Y.tolist()),
    ],
)
def test_arrays_of_any_kind_give_the_same(X_given, y_given):
    np.testing.assert_allclose(ask(X=X_given, y=y_given, samples=1600).outputs, ask(samples=1600).outputs, atol=1e-5)


def test_targets_of_one_column_keep_their_axis():
    found = ask(y=Y[:, None], samples=1600, X_test=X[:1])
    assert found.outputs.shape == (4, 3, 1) and found.test_outputs.shape == (4, 1, 1)
    assert np.array_equal(found.outputs[..., 0], ask(samples=1600).outputs)
