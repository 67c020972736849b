"""Networks driven by paths, built and sampled: layers written out, gradients, laws, paths that cannot be used."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

import deeplimits as dl
from deeplimits.numerics.seeds import generator

Net = dl.layer.ControlledResNet
STDS = {"initial_std": 0.8, "weight_std": 0.7, "bias_std": 0.5}
DOUBLE = {"dtype": torch.float64}


def paths(*lengths, channels=3, seed=0):
    rng = np.random.default_rng(seed)
    return [np.cumsum(rng.standard_normal((n, channels)), axis=0) / n for n in lengths]


def by_hand(module, path, depth, homogeneous):
    """The layers written out from the module's parameters, one neuron's sum at a time."""
    held = {name: value.numpy() for name, value in module.state_dict().items()}
    places = np.linspace(0, 1, depth + 1)
    looked = np.column_stack([np.interp(places, np.linspace(0, 1, len(path)), channel) for channel in path.T])
    steps = np.diff(looked, axis=0) * (1 if homogeneous else depth**0.5)
    state = 0.8 * held["hidden.initial"]
    width = len(state)
    for index, step in enumerate(steps):
        layer = 0 if homogeneous else index
        weight, bias = (held[f"hidden.fields.{layer}.{name}"] for name in ("weight", "bias"))
        moved = [0.7 / width**0.5 * weight[j] @ np.maximum(state, 0) + 0.5 * bias[j] for j in range(len(step))]
        state = state + sum(one * part for one, part in zip(moved, step, strict=True))
    return held["readout.weight"] @ state / width**0.5


@pytest.mark.parametrize("homogeneous", [True, False])
def test_module_is_the_layers_written_out(homogeneous):
    x = paths(5, 9)
    module = dl.build(Net("relu", homogeneous, **STDS), width=6, depth=7, seed=0, **DOUBLE)
    found = module(x).detach().numpy()
    expected = [by_hand(module, path, 7, homogeneous) for path in x]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(module(torch.tensor(x[1])[None]).detach().numpy(), found[1:], rtol=1e-12)


@pytest.mark.parametrize("homogeneous", [True, False])
def test_one_network_in_all_forms(homogeneous):
    net, x = Net("relu", homogeneous, **STDS), paths(5, 9)
    size = {"width": 6, "depth": 4}
    module = dl.build(net, **size, seed=0, **DOUBLE)
    found = module(x)
    for other in (
        dl.build(net, **size, seed=0, features_in=3, **DOUBLE),
        dl.build(net, **size, seed=0, parametrization="standard", **DOUBLE),
        pickle.loads(pickle.dumps(module)),
    ):
        torch.testing.assert_close(other(x), found, rtol=1e-12, atol=1e-12)
    fresh = dl.build(net, **size, seed=1, **DOUBLE)  # does not know the channels yet
    fresh.load_state_dict(module.state_dict())
    assert torch.equal(fresh(x), found)
    single = dl.build(net, **size, seed=0)(x)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), found, rtol=1e-5, atol=1e-5)


def test_what_is_zero_is_no_parameter():
    module = dl.build(Net("relu", initial_std=0.0, bias_std=0.0), width=4, depth=3, seed=0, features_in=2)
    assert [name for name, _ in module.named_parameters()] == ["hidden.fields.0.weight", "readout.weight"]
    assert not module([np.ones((2, 2)), np.ones((4, 2))]).any()


@pytest.mark.parametrize("options", [{}, {"homogeneous": False}, {"time": True}, {"clock": 0}])
def test_gradients(options):
    net = Net("tanh", **options, **STDS)
    module = dl.build(net, width=3, depth=5, seed=0, features_in=2, **DOUBLE)
    first = torch.tensor([[0.0, 0.3], [0.7, 1.1], [1.3, 0.2], [2.0, 0.4]], dtype=torch.float64, requires_grad=True)
    second = first.detach()[:3].clone().requires_grad_()

    def ends(one, two, *parameters):
        named = dict(zip(dict(module.named_parameters()), parameters, strict=True))
        return torch.func.functional_call(module, named, ([one, two],))

    assert torch.autograd.gradcheck(ends, (first, second, *module.parameters()))


def test_time_and_clock():
    x = paths(5, 9)
    timed = [np.column_stack([path, np.linspace(0, 1, len(path))]) for path in x]
    size = {"width": 8, "depth": 6, "seed": 0}
    found = dl.build(Net("relu", time=True), **size, **DOUBLE)(x)
    for net in (Net("relu"), Net("relu", clock=3), Net("relu", clock=-1)):
        torch.testing.assert_close(dl.build(net, **size, **DOUBLE)(timed), found, rtol=1e-12, atol=1e-12)
    late = timed[0].copy()
    late[:, 3] = late[:, 3] ** 2
    known = np.linspace(0, 1, 7)
    even = np.column_stack([np.interp(known, late[:, 3], channel) for channel in late.T])
    module = dl.build(Net("relu", clock=3), **size, **DOUBLE)
    torch.testing.assert_close(module([late]), module([even]), rtol=1e-12, atol=1e-12)
    assert (module([late]) - module(timed[:1])).abs().item() > 1e-3


@pytest.mark.parametrize("homogeneous", [True, False])
@pytest.mark.parametrize("name", ["identity", "relu"])
def test_sampled_networks_have_the_kernel_of_their_depth(name, homogeneous):
    net, x = Net(name, homogeneous, **STDS), paths(20, 30, seed=5)
    found = dl.sample(net, x, width=64, depth=20, networks=120, seed=0)
    kernel = dl.kernel(net, x, depth=20, get="nngp")
    score = (found.mean - kernel) / found.standard_error
    assert np.abs(score).max() < stats.t.isf(1e-4 / 24, 119)  # twelve entries, two sides: chance 1e-4


def test_rows_without_weights_have_the_law_of_whole_networks():
    """Means and covariances of Gram matrices; the whole networks are those that `build` makes."""
    net, x = Net("relu", homogeneous=False, **STDS), paths(6, 4)
    rows, grams = dl.sample(net, x, width=8, depth=5, networks=2000, seed=0), []
    for seed in range(300):
        states = dl.build(net, width=8, depth=5, seed=seed, features_in=3, **DOUBLE)[:-1](x).detach()
        grams.append((states @ states.T / 8).numpy())
    whole = replace(rows, gram=np.stack(grams))
    for one, other, errors in (
        (rows.mean, whole.mean, (rows.standard_error, whole.standard_error)),
        (rows.covariance, whole.covariance, (rows.covariance_error, whole.covariance_error)),
    ):
        assert np.abs((one - other) / np.hypot(*errors)).max() < 4.5  # at most nine different entries: chance 1e-4


def test_ntk_is_that_of_the_built_network():
    net, x = Net("relu", homogeneous=True, **STDS), paths(4, 4)
    found = dl.sample(net, x, width=6, depth=4, networks=2, seed=0, get="ntk")
    seed = int(generator(0, "network", 0).integers(2**63))
    module = dl.build(net, width=6, depth=4, seed=seed, features_in=3, **DOUBLE)
    rows = []
    for path in x:
        gradients = torch.autograd.grad(module([path]).sum(), list(module.parameters()))
        rows.append(torch.cat([one.flatten() for one in gradients]))
    jacobian = torch.stack(rows).numpy()
    np.testing.assert_allclose(found.ntk[0], jacobian @ jacobian.T, rtol=1e-10)
    np.testing.assert_allclose(dl.empirical_ntk(module, np.stack(x)), jacobian @ jacobian.T, rtol=1e-10)
    with pytest.raises(dl.errors.InputError, match="X1 is not numeric"):
        dl.empirical_ntk(module, paths(4, 5))


@pytest.mark.parametrize("homogeneous", [True, False])
def test_prefixes_and_equal_paths(homogeneous):
    net, x = Net("relu", homogeneous), paths(4, 7)
    many = dl.sample(net, [*x, x[0]], width=5, depth=6, networks=5, seed=0)
    few = dl.sample(net, x, width=5, depth=6, networks=3, seed=0)
    np.testing.assert_array_equal(few.gram, many.gram[:3, :2, :2])
    np.testing.assert_array_equal(many.gram[:, 0], many.gram[:, 2])


LINE = np.array([[0.0, 0.0], [1.0, 1.0]])
REFUSED = {
    "another dimension": ([LINE, LINE[:, :1]], {}, r"X\[1\] has 1 channels and X\[0\] has 2"),
    "a single point": ([LINE, LINE[:1]], {}, r"X\[1\] has 1 point.*a path is its steps"),
    "nan": ([LINE, LINE * np.nan], {}, r"X\[1\] has nan at point 0, channel 0"),
    "one path": (LINE, {}, r"X\[0\] has shape \(2,\), not \(points, d\)"),
    "nothing": ([], {}, "X holds no paths"),
    "time goes back": ([LINE, -LINE], {"clock": 0}, r"the times of X\[1\], channel 0, go backwards: -1 at point 1"),
    "time stands still": ([LINE, 0 * LINE], {"clock": 1}, r"X\[1\], channel 1, stand still: 0 at point 1 after 0"),
    "no such channel": ([LINE], {"clock": 2}, r"X\[0\] has 2 channels, none of them channel 2"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_paths(case):
    given, options, words = REFUSED[case]
    net = Net("relu", **options)
    with pytest.raises(dl.errors.InputError, match=f"sample: .*{words}"):
        dl.sample(net, given, width=4, depth=3, networks=2, seed=0)
    module = dl.build(net, width=4, depth=3, seed=0)
    with pytest.raises(dl.errors.InputError, match=words.replace("X", "paths")):
        module(given)
    if isinstance(given, list) and len({np.shape(path) for path in given}) == 1:
        with pytest.raises(dl.errors.InputError, match=words.replace("X", "paths")):
            module(torch.tensor(np.stack(given)))


def test_refusals():
    module = dl.build(Net("relu"), width=4, depth=3, seed=0, features_in=2)
    with pytest.raises(dl.errors.InputError, match=r"the paths have 1 channels.*, not 2"):
        module([LINE[:, :1]])
    long = [np.array([[0.0], [1e9]]), np.array([[0.0], [1.0]])]
    for homogeneous in (True, False):
        net = Net("identity", homogeneous)
        with pytest.raises(dl.errors.PrecisionError, match=r"state of path 0 .* weight_std = 1, length of the path"):
            dl.build(net, width=4, depth=60, seed=0)(long)
        with pytest.raises(dl.errors.PrecisionError, match=r"length of the path .* Fix: scale the paths or weight_std"):
            dl.sample(net, [100 * path * 1e9 for path in long], width=4, depth=60, networks=2, seed=0)
    with pytest.raises(dl.errors.InputError, match=r"depth=2\.5"):
        dl.sample(Net("relu"), [LINE], width=4, depth=2.5, networks=2, seed=0)
    with pytest.raises(dl.errors.InputError, match="networks=1"):
        dl.sample(Net("relu"), [LINE], width=4, depth=2, networks=1, seed=0)
