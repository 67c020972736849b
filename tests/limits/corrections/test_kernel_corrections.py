"""`dl.kernel(..., corrections=True)` beside sampled networks, its conventions, and what it refuses."""

from math import inf

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.errors import AccuracyWarning, DescriptionError, InputError, NoLimit, NoRule, PrecisionError
from deeplimits.limits.corrections.single import DenseLayer, single
from deeplimits.limits.kernel.activation import family

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 5)) * np.array([[1.0], [0.7], [1.2]])
GENERAL = {"weight_std": 1.2, "bias_std": 0.3, "readout_std": 0.7, "readout_bias_std": 0.5}
UPPER = np.triu_indices(3)


@pytest.mark.parametrize(
    ("net", "width", "depth"),
    [
        (dl.Mlp("tanh", **GENERAL), 48, 3),
        (dl.Mlp("relu", readout_std=0.5), 64, 2),
        (dl.Mlp("leaky_relu", weight_std=1.1, bias_std=0.4), 64, 2),
        (dl.Mlp("gelu", weight_std=1.5), 64, 1),
    ],
    ids=["tanh with biases", "relu", "leaky relu with biases", "gelu, one layer"],
)
def test_means_and_variances_of_sampled_networks(net, width, depth):
    """Means within 4.5 standard errors (48 numbers: chance 3e-4); variances within 25 %, their next order in 1/n."""
    found = dl.kernel(net, X, depth=depth, corrections=True)
    sample = dl.sample(net, X, width=width, depth=depth, networks=4000, seed=2, get=("nngp", "ntk"))
    readout, level = net.readout_std**2, net.readout_bias_std**2
    gram = readout * sample.gram + level
    expected = found.at(width)
    assert np.all(np.abs(gram.mean(0) - expected.nngp) < 4.5 * readout * sample.standard_error + 1e-12)
    assert np.all(np.abs(sample.ntk_mean - expected.ntk) < 4.5 * sample.ntk_standard_error + 1e-12)
    for measured, predicted in ((gram, found.nngp_variance), (sample.ntk, found.ntk_variance)):
        assert width * measured.var(0)[UPPER] == pytest.approx(predicted[UPPER], rel=0.25)
    assert found.spread(width).ntk == pytest.approx((found.ntk_variance / width) ** 0.5)


@pytest.mark.parametrize("name", ["tanh", "relu", "identity", "sin", "abs"])
def test_limits_and_diagonals_are_those_of_the_recursions(name):
    net = dl.Mlp(name, weight_std=1.3, bias_std=0.2, readout_std=0.9)
    plain, found = dl.kernel(net, X, depth=3), dl.kernel(net, X, depth=3, corrections=True)
    assert np.array_equal(plain.nngp, found.nngp) and np.array_equal(plain.ntk, found.ntk)
    dense = [DenseLayer(1.3**2, 0.04)] * 3 + [DenseLayer(0.81)]
    end = single(family(net.activation), dense, (X**2).sum(1) / 5)[-1]
    assert end.k == pytest.approx(np.diag(plain.nngp), rel=1e-8)
    assert end.h == pytest.approx(np.diag(plain.ntk), rel=1e-8)
    assert np.diag(found.ntk_variance) == pytest.approx(end.a + 2 * end.b)
    assert np.array_equal(found.nngp_shift, found.nngp_shift.T)


def test_a_correction_does_not_depend_on_who_else_is_asked():
    net = dl.Mlp("tanh", **GENERAL)
    every = dl.kernel(net, X, depth=2, corrections=True)
    two = dl.kernel(net, X[:1], X[1:2], depth=2, corrections=True)
    repeated = dl.kernel(net, X[[0, 1, 0]], depth=2, corrections=True)
    for name in ("nngp_shift", "ntk_shift", "nngp_variance", "ntk_variance"):
        assert getattr(two, name)[0, 0] == pytest.approx(getattr(every, name)[0, 1], rel=1e-12)
        assert getattr(repeated, name)[0, 2] == pytest.approx(getattr(every, name)[0, 0], rel=1e-12)
        assert getattr(repeated, name)[1, 2] == pytest.approx(getattr(every, name)[0, 1], rel=1e-12)


@pytest.mark.parametrize("name", ["relu", "tanh", "abs"])
def test_near_inputs_tend_to_the_same_input(name):
    near = np.stack([X[0], X[0] * (1 + 1e-9) + 1e-9 * X[1]])
    found = dl.kernel(dl.Mlp(name, bias_std=0.1), near, depth=3, corrections=True)
    for matrix in (found.nngp_variance, found.ntk_variance, found.nngp_shift, found.ntk_shift):
        assert matrix[0, 1] == pytest.approx(matrix[0, 0], rel=2e-3, abs=2e-3 * found.ntk[0, 0])


def test_relu_on_the_diagonal_and_its_range():
    found = dl.kernel(dl.Mlp("relu"), X, depth=4, corrections=True)
    assert np.diag(found.nngp_shift) == pytest.approx(0.0, abs=1e-12)
    assert np.diag(found.ntk_shift) == pytest.approx(0.0, abs=1e-12)
    assert found.fluctuation == pytest.approx(20.0) and found.strength(40) == pytest.approx(0.5)
    with pytest.warns(AccuracyWarning, match="V/\\(n K\\^2\\)"):
        found.at(19)
    found.at(21)  # a warning would be an error


def test_kinds_of_arrays():
    net = dl.Mlp("erf")
    full = dl.kernel(net, X, depth=2, corrections=True)
    one = dl.kernel(net, X.astype(np.float32), depth=2, corrections=True, get="ntk")
    assert one.nngp is None and one.nngp_shift is None and one.at(10).nngp is None
    assert one.ntk_shift.dtype == np.float32 and one.ntk_shift == pytest.approx(full.ntk_shift, rel=1e-4)
    tensor = dl.kernel(net, torch.from_numpy(X), depth=2, corrections=True)
    assert torch.is_tensor(tensor.ntk_shift) and tensor.ntk_shift.numpy() == pytest.approx(full.ntk_shift)
    assert torch.is_tensor(tensor.spread(10).ntk)
    whole = dl.kernel(net, np.eye(2, dtype=int), depth=2, corrections=True)
    assert whole.nngp_shift.dtype == np.float64
    changed = dl.kernel(net, X, depth=2, corrections=True, hyper={"bias_std": 0.5})
    assert np.array_equal(
        changed.ntk_shift, dl.kernel(dl.Mlp("erf", bias_std=0.5), X, depth=2, corrections=True).ntk_shift
    )


REFUSED = [
    (dl.Mlp("tanh"), {"depth": inf}, NoLimit, "infinite depth"),
    (dl.Mlp("tanh"), {"parametrization": "standard"}, DescriptionError, "parametrization"),
    (dl.Mlp("tanh"), {"corrections": 1}, DescriptionError, "True or False"),
    (dl.Mlp("tanh", weights=dl.layer.Sparse()), {}, DescriptionError, "Sparse"),
    (dl.Mlp(dl.act.ShapedRelu()), {}, DescriptionError, "ShapedRelu"),
    (dl.Mlp("tanh"), {"hyper": {"weight_std": torch.tensor(1.0)}}, DescriptionError, "tensors"),
    (dl.layer.Dense() >> dl.act.Tanh() >> dl.layer.Dense(1), {}, NoRule, "Serial"),
    (dl.ResNet("tanh", branch_layers=2), {"get": "nngp"}, NoRule, "branch"),
    (dl.ResNet("tanh"), {}, NoRule, "get='nngp'"),
    (dl.ResNet("tanh"), {"get": "nngp", "X": X}, NoRule, "one row"),
]


@pytest.mark.parametrize(("net", "options", "error", "text"), REFUSED)
def test_what_has_no_corrections_is_refused_by_name(net, options, error, text):
    given = {"X": X[:1], "depth": 2, "corrections": True, **options}
    with pytest.raises(error, match=text):
        dl.kernel(net, given.pop("X"), **given)


def test_bad_data_are_refused():
    net = dl.Mlp("tanh")
    with pytest.raises(InputError, match="row of zeros"):
        dl.kernel(net, np.zeros((1, 3)), depth=2, corrections=True)
    with pytest.raises(InputError, match="row 0, column 1"):
        dl.kernel(net, [[1.0, np.nan]], depth=2, corrections=True)
    found = dl.kernel(net, X, depth=2, corrections=True)
    for width in (0, -3, 2.5, True, "4", None):
        with pytest.raises(InputError, match="width"):
            found.at(width)
    orthogonal = dl.kernel(dl.Mlp("tanh", weights=dl.layer.Orthogonal()), X, depth=2, corrections=True)
    with pytest.raises(InputError, match="below the 5 features"):
        orthogonal.spread(4)


def test_a_series_that_is_too_short_warns():
    near = np.stack([X[0], X[0] + 1e-3])
    with pytest.warns(AccuracyWarning, match="Hermite series"):
        dl.kernel(dl.Mlp("tanh", weight_std=9.0), near, depth=2, corrections=True)


@pytest.mark.parametrize(("scale", "options"), [(1e-100, {}), (1e90, {}), (1.0, {"weight_std": 3.0})])
def test_numbers_whose_squares_leave_float64_are_refused(scale, options):
    with pytest.raises(PrecisionError, match="square leaves"):
        dl.kernel(dl.Mlp("relu", **options), X * scale, depth=300, corrections=True)
    net = dl.ResNet("relu", scale=2.0 if scale == 1.0 else 0.1)
    with pytest.raises(PrecisionError, match="square leaves"):
        dl.kernel(net, X[:1] * scale, depth=300 if scale == 1.0 else 3, get="nngp", corrections=True)


def test_the_strength_sees_the_ntk_where_it_was_asked_for():
    net = dl.Mlp("erf", weight_std=1.5)
    both, one = (dl.kernel(net, X, depth=3, get=get, corrections=True) for get in (("nngp", "ntk"), "nngp"))
    relative = (np.diag(both.ntk_variance) / np.diag(both.ntk) ** 2).max()
    assert relative > 3 * both.fluctuation
    assert both.strength(24) == pytest.approx(relative / 24) and one.strength(24) == one.fluctuation / 24
    with pytest.warns(AccuracyWarning, match="Var\\(NTK\\)/NTK\\^2"):
        both.at(max(1, int(relative)))
