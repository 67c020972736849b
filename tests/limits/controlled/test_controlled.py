"""Networks driven by paths: golden values, layer recursions written out, order of the schemes, sampled networks."""

from math import inf

import numpy as np
import pytest
import torch
from scipy.special import i0, j0

import deeplimits as dl
from deeplimits.architecture.activation import activation
from deeplimits.limits.controlled import kink, solve
from deeplimits.limits.kernel.activation import family
from deeplimits.limits.kernel.ask import variances
from deeplimits.numerics.path import at

Net = dl.layer.ControlledResNet
STDS = {"initial_std": 0.8, "weight_std": 0.7, "bias_std": 0.5}


@pytest.fixture
def accurate(monkeypatch):
    monkeypatch.setattr(solve, "ACCURACY", 1e-7)


def paths(*lengths, channels=3, seed=0):
    rng = np.random.default_rng(seed)
    return [np.cumsum(rng.standard_normal((n, channels)), axis=0) / n for n in lengths]


@pytest.mark.parametrize("product", [1.0, -1.0, 4.0, 20.0, -400.0])
def test_lines(product):
    """Two lines: I_0(2 sqrt c), or J_0 where the product is negative."""
    kernel = dl.kernel(Net("identity"), [np.array([[0.0], [1.0]])], [np.array([[1.0], [1.0 + product]])], get="nngp")
    exact = i0(2 * product**0.5) if product > 0 else j0(2 * (-product) ** 0.5)
    scale = max(1.0, i0(2 * abs(product) ** 0.5) * 1e-3)  # terms of the alternating series are that large
    assert kernel[0, 0] == pytest.approx(exact, abs=1e-12 * scale, rel=1e-12)


def gauss(name, q1, q2, k):
    value, _ = family(activation(name)).pair(*(torch.tensor([v], dtype=torch.float64) for v in (k, q1, q2)))
    return float(value)


def recursion(name, x, y):
    """Euler's scheme for two paths, corner by corner; variances from each path against itself."""
    start, weight, bias = (std**2 for std in STDS.values())

    def grid(dx, dy, vx, vy):
        k = np.full((len(dx) + 1, len(dy) + 1), start)
        for i in range(len(dx)):
            for j in range(len(dy)):
                growth = weight * gauss(name, vx[i], vy[j], k[i, j]) + bias
                k[i + 1, j + 1] = k[i + 1, j] + k[i, j + 1] - k[i, j] + growth * (dx[i] @ dy[j])
        return k

    def own(dx):
        k = np.full((len(dx) + 1,) * 2, start)
        for i in range(len(dx)):
            for j in range(i + 1):
                growth = weight * gauss(name, k[i, i], k[j, j], k[i, j]) + bias
                k[i + 1, j + 1] = k[j + 1, i + 1] = k[i + 1, j] + k[i, j + 1] - k[i, j] + growth * (dx[i] @ dx[j])
        return k.diagonal()

    return grid(x, y, own(x), own(y))[-1, -1]


@pytest.mark.parametrize("name", ["identity", "relu", "abs", "leaky_relu", "erf"])
def test_finite_depth_is_the_recursion_of_layers(name):
    x, y = paths(5, 9)
    times = np.linspace(0, 1, 7)
    expected = recursion(name, np.diff(at(x, times), axis=0), np.diff(at(y, times), axis=0))
    found = dl.kernel(Net(name, **STDS), [x], [y], depth=6, get="nngp")[0, 0]
    assert found == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("name", ["relu", "erf", "tanh"])
def test_finite_depth_with_weights_of_each_layer(name):
    x, y = paths(5, 9)
    start, weight, bias = (std**2 for std in STDS.values())
    dx, dy = (np.diff(at(path, np.linspace(0, 1, 7)), axis=0) for path in (x, y))
    k = q1 = q2 = start
    for a, b in zip(dx, dy, strict=True):
        rates = [weight * gauss(name, *given) + bias for given in ((q1, q2, k), (q1, q1, q1), (q2, q2, q2))]
        k, q1, q2 = k + 6 * rates[0] * (a @ b), q1 + 6 * rates[1] * (a @ a), q2 + 6 * rates[2] * (b @ b)
    found = dl.kernel(Net(name, homogeneous=False, **STDS), [x], [y], depth=6, get="nngp")[0, 0]
    assert found == pytest.approx(k, rel=1e-12)


def law(name):
    return solve.Law(family(activation(name)), True, *(std**2 for std in STDS.values()))


@pytest.mark.parametrize(("name", "finest"), [("relu", 6), ("abs", 6), ("erf", 3)])
def test_second_order(name, finest):
    steps = [np.diff(path, axis=0) for path in paths(6, 5, seed=3)]
    found = []
    for level in range(finest + 1):
        x, y = ([np.repeat(step, 2**level, axis=0) / 2**level] for step in steps)
        found.append(solve.grid(law(name), x, y, kink.SECOND)[0, 0])
    falls = np.abs(np.diff(found))
    assert falls[-2] / falls[-1] == pytest.approx(4.0, abs=0.2)


@pytest.mark.parametrize("homogeneous", [True, False])
@pytest.mark.parametrize("name", ["identity", "relu"])
@pytest.mark.usefixtures("accurate")
def test_depth_infinity_is_the_limit_of_depths(name, homogeneous):
    x = paths(4, 7, 4)
    net = Net(name, homogeneous, **STDS)
    deep = [dl.kernel(net, x, depth=depth, get="nngp") for depth in (600, 1200)]  # multiples of all steps
    np.testing.assert_allclose(dl.kernel(net, x, depth=inf, get="nngp"), 2 * deep[1] - deep[0], rtol=3e-5)


def sampled(net, x, y, width, depth, runs):
    """<S(x), S(x)>/n, <S(y), S(y)>/n and <S(x), S(y)>/n of networks, shape (runs, 3)."""
    rng, found = np.random.default_rng(0), []
    function = (lambda s: np.maximum(s, 0)) if net.activation == dl.act.Relu() else (lambda s: s)
    steps = np.stack([np.diff(at(path, np.linspace(0, 1, depth + 1)), axis=0) for path in (x, y)], axis=2)
    steps = steps if net.homogeneous else steps * depth**0.5

    def layer():
        weights = rng.normal(0, net.weight_std / width**0.5, (len(x[0]), width, width))
        return weights, rng.normal(0, net.bias_std, (len(x[0]), width, 1))

    for _ in range(runs):
        state = np.repeat(rng.normal(0, net.initial_std, (width, 1)), 2, axis=1)
        weights, biases = layer()
        for step in steps:
            state = state + ((weights @ function(state) + biases) * step[:, None]).sum(0)
            if not net.homogeneous:
                weights, biases = layer()
        found.append([state[:, 0] @ state[:, 0], state[:, 1] @ state[:, 1], state[:, 0] @ state[:, 1]])
    return np.array(found) / width


@pytest.mark.parametrize("homogeneous", [True, False])
@pytest.mark.parametrize("name", ["identity", "relu"])
def test_sampled_networks(name, homogeneous):
    """At the networks' own depth, so that width alone is finite; its bias, of order 1/n, is below a standard error."""
    x, y = paths(20, 30, seed=5)
    net = Net(name, homogeneous, **STDS)
    samples = sampled(net, x, y, 100, 20, 60)
    kernel = dl.kernel(net, [x, y], depth=20, get="nngp")
    errors = samples.std(0, ddof=1) / 60**0.5
    score = (samples.mean(0) - [kernel[0, 0], kernel[1, 1], kernel[0, 1]]) / errors
    assert np.abs(score).max() < 4  # twelve of them: chance 2e-3 with Student's law


@pytest.mark.parametrize("depth", [inf, 7])
@pytest.mark.parametrize("homogeneous", [True, False])
@pytest.mark.parametrize("name", ["identity", "relu", "erf"])
@pytest.mark.usefixtures("accurate")
def test_matrix_of_ragged_paths(name, homogeneous, depth):
    x, net = paths(3, 6, 2, 5, 3, 4), Net(name, homogeneous, **STDS)
    if name == "erf" and homogeneous and depth == inf:  # solved through torch: fewer and shorter paths
        x = [path / 2 for path in x[2:5]]
    full = dl.kernel(net, x, depth=depth, get="nngp")
    assert (full == full.T).all()
    assert np.linalg.eigvalsh(full)[0] > -1e-4 * np.trace(full)
    close = 2e-6 if depth == inf and name != "identity" else 1e-12  # the schemes are good to 1e-7 of the diagonal
    np.testing.assert_allclose(dl.kernel(net, x[:2], x, depth=depth, get="nngp"), full[:2], rtol=close)
    np.testing.assert_allclose(variances(net, x, depth), full.diagonal(), rtol=close)


@pytest.mark.parametrize(("name", "close"), [("identity", 1e-13), ("relu", 1e-6)])
@pytest.mark.usefixtures("accurate")
def test_speed_does_not_matter_where_layers_share_weights(name, close):
    x, y = paths(5, 4)
    slow = np.repeat(x, 2, axis=0)  # every point twice: a path that waits
    slow[1:-1:2] = 0.7 * x[:-1] + 0.3 * x[1:]
    net = Net(name, **STDS)
    np.testing.assert_allclose(
        dl.kernel(net, [slow], [y], get="nngp"), dl.kernel(net, [x], [y], get="nngp"), rtol=close
    )
    fresh = Net(name, homogeneous=False, **STDS)
    assert abs(dl.kernel(fresh, [slow], get="nngp") / dl.kernel(fresh, [x], get="nngp") - 1) > 1e-3


def test_without_weights():
    x = paths(4, 6)
    ends = np.array([path[-1] - path[0] for path in x])
    for name in ("identity", "relu"):
        found = dl.kernel(Net(name, initial_std=0.5, weight_std=0.0, bias_std=2.0), x, get="nngp")
        np.testing.assert_allclose(found, 0.25 + 4 * ends @ ends.T, rtol=1e-12)
        small = dl.kernel(Net(name, initial_std=0.0, weight_std=1e-9, bias_std=2.0), x, get="nngp")
        np.testing.assert_allclose(small, 4 * ends @ ends.T, rtol=1e-12)


def test_long_steps_are_cut():
    """Cells with products of 900: I_0(60) to rounding of its own condition."""
    kernel = dl.kernel(Net("identity"), [np.array([[0.0], [30.0]])], get="nngp")[0, 0]
    assert kernel == pytest.approx(i0(60.0), rel=1e-12)


def test_time_as_a_channel():
    x = paths(4, 6)
    timed = [np.column_stack([path, np.linspace(0, 1, len(path))]) for path in x]
    np.testing.assert_array_equal(
        dl.kernel(Net("identity", time=True), x, get="nngp"), dl.kernel(Net("identity"), timed, get="nngp")
    )


def test_times_in_a_channel():
    """With a clock, places and speeds are those of the times; the same path looked at evenly says the same."""
    known = np.array([0.0, 0.1, 0.4, 0.5, 1.0])
    late, other = (np.column_stack([path, 3 + 2 * known]) for path in paths(5, 5))
    even = [at(path, np.linspace(0, 1, 11), 3) for path in (late, other)]
    for homogeneous in (True, False):
        clocked, plain = (Net("relu", homogeneous, clock=clock, **STDS) for clock in (3, None))
        for depth, close in ((4, 1e-9), (10, 1e-9), (inf, 1e-3 if homogeneous else 2e-6)):  # as they promise
            found = dl.kernel(clocked, [late], [other], depth=depth, get="nngp")
            expected = dl.kernel(plain, even[:1], even[1:], depth=depth, get="nngp")
            np.testing.assert_allclose(found, expected, rtol=close)
            if depth == 4 or not homogeneous:
                assert abs(found / dl.kernel(plain, [late], [other], depth=depth, get="nngp") - 1) > 1e-3
    with pytest.raises(dl.errors.InputError, match=r"X2\[0\], channel 3, go backwards: 4 at point 1 after 5"):
        dl.kernel(Net("relu", clock=3), [late], [late[::-1]])
    with pytest.raises(dl.errors.InputError, match="none of them channel 4"):
        dl.kernel(Net("relu", clock=4), [late])
    with pytest.raises(dl.errors.DescriptionError, match="clock='time' is no channel"):
        Net("relu", clock="time")
    with pytest.raises(dl.errors.DescriptionError, match="time=True beside clock=0"):
        Net("relu", time=True, clock=0)


def test_arrays_in_and_out():
    x = np.stack(paths(5, 5))
    record = dl.kernel(Net("relu"), x)
    assert record.ntk is None and "neural signature kernel" in record.describe()
    found = dl.kernel(Net("relu"), torch.tensor(x, dtype=torch.float32), get="nngp")
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), record.nngp, rtol=1e-6)
    assert dl.kernel(Net("relu"), list(x), get="nngp", dtype="float32").dtype == np.float32
    changed = dl.kernel(Net("relu"), x, get="nngp", hyper={"weight_std": 0.5})
    np.testing.assert_array_equal(changed, dl.kernel(Net("relu", weight_std=0.5), x, get="nngp"))


LINE = np.array([[0.0, 0.0], [1.0, 1.0]])
REFUSED = {
    "another dimension": ([LINE, LINE[:, :1]], r"X1\[1\] has 1 channels and X1\[0\] has 2"),
    "a single point": ([LINE, LINE[:1]], r"X1\[1\] has 1 point.*a path is its steps"),
    "nan": ([LINE, LINE * np.nan], r"X1\[1\] has nan at point 0, channel 0"),
    "one array of rows": (LINE, r"X1\[0\] has shape \(2,\), not \(points, d\)"),
    "nothing": ([], "X1 holds no paths"),
    "text": ("paths", "X1 is a str, not paths"),
    "words": ([[["a", "b"], ["c", "d"]]], r"X1\[0\] is not an array of numbers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_paths(case):
    given, words = REFUSED[case]
    with pytest.raises(dl.errors.InputError, match=words):
        dl.kernel(Net("relu"), given)


@pytest.mark.parametrize("name", ["identity", "relu"])
@pytest.mark.parametrize("length", [1e3, 1e9, 1e60, 1e200])
def test_long_paths_are_told(name, length):
    """Never a number that is wrong in silence: the size is said, or how far the value can be trusted."""
    line, other = np.array([[0.0], [length]]), np.array([[0.0], [1.0]])
    for given in ([line], [line, other]):
        with pytest.raises(
            (dl.errors.PrecisionError, dl.errors.AccuracyWarning), match="scale the paths or weight_std"
        ):
            dl.kernel(Net(name, weight_std=2.0), given, get="nngp")


def test_refusals():
    with pytest.raises(dl.errors.InputError, match="X1 has 2 channels and X2 has 1"):
        dl.kernel(Net("relu"), [LINE], [LINE[:, :1]])
    with pytest.raises(dl.errors.PrecisionError, match=r"entry \(0, 0\).*lengths of the paths 400 and 400"):
        dl.kernel(Net("identity"), [np.array([[0.0], [400.0]])])
    with pytest.raises(dl.errors.NoRule, match="no NTK"):
        dl.kernel(Net("relu"), [LINE], get="ntk")
    with pytest.raises(dl.errors.DescriptionError, match="no part of another network"):
        dl.kernel(Net("relu") >> dl.layer.Dense(1), np.ones((2, 2)), depth=3)
    with pytest.raises(dl.errors.DescriptionError, match="homogeneous='yes'"):
        Net("relu", homogeneous="yes")
    with pytest.raises(dl.errors.DescriptionError, match="weight_std=-1"):
        Net("relu", weight_std=-1)
