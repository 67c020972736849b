"""Arrays in and out, precision, symmetry, gradients, and the two paths of the kernel question."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.limits.kernel import paths
from deeplimits.limits.kernel.lowering import lower
from deeplimits.numerics.arrays import check

act, layer, DEPTH = dl.act, dl.layer, dl.DEPTH
Dense, Residual, Repeat = layer.Dense, layer.Residual, layer.Repeat


def inputs(count=24, features=7, seed=0):
    """Rows of norms over two decades: a duplicate, an opposite, a multiple, a near pair, and zero in the last place."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((count, features)) * np.exp(rng.uniform(-1.5, 1.5, (count, 1)))
    X[1], X[3], X[5] = X[0], -X[2], 3 * X[4]
    X[7] = X[6] * (1 + 1e-4) + 1e-5 * X[8]
    X[-1] = 0
    return X


X = inputs()
_norm = (
    Dense(weight_std=1.3) >> Repeat(layer.RMSNorm(1e-3) >> act.Erf() >> Dense(weight_std=1.2, bias_std=0.1)) >> Dense(1)
)
NETS = {
    "relu": (dl.Mlp("relu"), (1, 3, 64)),
    "relu, biases": (dl.Mlp("relu", 1.3, 0.3, 0.9, 0.1), (3, 20)),
    "leaky": (dl.Mlp(act.LeakyRelu(0.2)), (5,)),
    "abs": (dl.Mlp("abs"), (3, 20)),
    "abrelu": (dl.Mlp(act.AbRelu(-0.3, 1.2), 1.1, 0.1), (5,)),
    "sign": (dl.Mlp("sign", 1.2, 0.1), (1, 2)),
    "step": (dl.Mlp("step", 1.2, 0.1), (2,)),
    "rectified square": (dl.Mlp(act.RectifiedMonomial(2), 0.5, 0.1), (1, 2)),
    "erf": (dl.Mlp("erf", 1.3, 0.2), (1, 3, 20)),
    "erf, chaotic": (dl.Mlp("erf", 1.5, 0.1), (10, 64)),
    "erf, chaotic, no biases": (dl.Mlp("erf", 2.0), (12,)),
    "gelu": (dl.Mlp("gelu", 1.4, 0.1), (1, 10)),
    "probit": (dl.Mlp("probit", 1.4, 0.1), (4,)),
    "sin": (dl.Mlp("sin", 1.2, 0.1), (3,)),
    "cos": (dl.Mlp("cos", 1.2, 0.1), (3,)),
    "exp": (dl.Mlp(act.Exp(0.5, 0.1), 1.0, 0.1), (2,)),
    "bump": (dl.Mlp("gaussian", 1.2, 0.1), (3,)),
    "tanh": (dl.Mlp("tanh", 1.3, 0.2), (2, 10)),
    "silu": (dl.Mlp("silu", 1.3, 0.2), (5,)),
    "softplus": (dl.Mlp("softplus", 1.0, 0.2), (3,)),
    "polynomial": (dl.Mlp(act.Polynomial((0.2, 0.5, 0.1)), 0.7, 0.1), (2,)),
    "resnet": (dl.ResNet("relu"), (1, 32, inf)),
    "resnet, erf": (dl.ResNet("erf", 1.2, 0.3, readin_bias_std=0.1), (16,)),
    "resnet, two layers": (dl.ResNet("relu", 1.0, 0.1, branch_layers=2, final_activation="erf"), (8,)),
    "stable": (dl.StableResNet("relu", "decreasing"), (16, inf)),
    "rms norm": (_norm, (1, 5)),
}
CASES = [(name, depth) for name, (_, depths) in NETS.items() for depth in depths]
SMOOTH = [case for case in CASES if case[0] not in ("sign", "step")]


def both(net, X1, X2=None, **options):
    k = dl.kernel(net, X1, X2, **options)
    return {"nngp": k.nngp, "ntk": k.ntk}


def relative(found, expected, diagonal1=None, diagonal2=None):
    """Largest difference relative to the diagonal, sqrt(K(x, x) K(x', x'))."""
    one = np.diag(expected) if diagonal1 is None else diagonal1
    two = one if diagonal2 is None else diagonal2
    scale = np.sqrt(np.outer(one, two))
    wrong = np.abs(np.asarray(found, dtype=np.float64) - expected)
    assert np.all(wrong[scale == 0] <= 1e-30)
    return float((wrong / np.where(scale > 0, scale, 1)).max())


@pytest.mark.parametrize(("name", "depth"), CASES)
def test_symmetric_and_positive(name, depth):
    for kind, k in both(NETS[name][0], X, depth=depth).items():
        assert np.isfinite(k).all(), kind
        np.testing.assert_array_equal(k, k.T)
        spectrum = np.linalg.eigvalsh(k)
        assert spectrum[0] >= -1e-10 * spectrum[-1], kind


@pytest.mark.parametrize(("name", "depth"), CASES)
def test_float32(name, depth):
    """float32 in, float32 out, within 5e-6 of float64 on the same rows."""
    X32 = X.astype(np.float32)
    expected = both(NETS[name][0], X32.astype(np.float64), depth=depth)
    for kind, k in both(NETS[name][0], X32, depth=depth).items():
        assert k.dtype == np.float32
        assert relative(k, expected[kind]) <= 5e-6, kind


@pytest.mark.parametrize(("name", "depth"), CASES)
def test_two_sets_of_inputs(name, depth):
    """K(X1, X2) is the block of K on both, in float64 and in float32."""
    net = NETS[name][0]
    whole, block = both(net, X, depth=depth), both(net, X[:9], X[5:], depth=depth)
    block32 = both(net, X[:9].astype(np.float32), X[5:].astype(np.float32), depth=depth)
    rounded = both(net, X.astype(np.float32).astype(np.float64), depth=depth)
    for kind, k in block.items():
        one, two = np.diag(whole[kind])[:9], np.diag(whole[kind])[5:]
        assert k.shape == (9, len(X) - 5)
        assert relative(k, whole[kind][:9, 5:], one, two) <= 1e-10, kind
        assert relative(block32[kind], rounded[kind][:9, 5:], one, two) <= 5e-6, kind


@pytest.mark.parametrize(("name", "depth"), CASES)
def test_plain_path_agrees(name, depth):
    """The differentiable path and the tile engine read the same tape: 1e-10 of the diagonal."""
    for X2 in (None, X[3:17]):
        given = check("test", X, X2)
        probe = np.unique(paths.squares(X)[paths.squares(X) > 0])[[0, len(X) // 2, -1]]
        tape = lower(NETS[name][0], depth, X.shape[1], probe=probe).tape()
        plain, fast = (path(tape, given, ("nngp", "ntk")) for path in (paths.plain, paths.fast))
        diagonals = [np.diag(k) for k in paths.fast(tape, check("test", X), ("nngp", "ntk"))]
        for a, b, one in zip(plain, fast, diagonals, strict=True):
            assert relative(np.asarray(a), b, one, None if X2 is None else one[3:17]) <= 1e-10


def test_duplicates_have_the_diagonal():
    for name, depth in CASES:
        for k in both(NETS[name][0], X, depth=depth).values():
            assert k[0, 1] == pytest.approx(k[0, 0], rel=1e-12)
            assert k[0, 0] == pytest.approx(k[1, 1], rel=1e-14)


def test_opposite_inputs():
    """Odd networks without biases are odd; a ReLU network of depth 1 gives nothing."""
    for net in (dl.Mlp("erf", 1.3), dl.Mlp("tanh", 1.3), dl.ResNet("erf")):
        k = dl.kernel(net, X, depth=3)
        assert k.nngp[2, 3] == pytest.approx(-k.nngp[2, 2], rel=1e-12)
        assert k.ntk[2, 3] == pytest.approx(-k.ntk[2, 2], rel=1e-12)
    assert dl.kernel(dl.Mlp("relu"), X, depth=1, get="nngp")[2, 3] == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_torch_in_torch_out(dtype):
    given = torch.from_numpy(X).to(dtype)
    expected = both(dl.ResNet("relu"), given.numpy(), depth=4)
    for kind, k in both(dl.ResNet("relu"), given, depth=4).items():
        assert isinstance(k, torch.Tensor)
        assert k.dtype == dtype
        assert k.device == given.device
        np.testing.assert_array_equal(k.numpy(), expected[kind])
    k = dl.kernel(dl.ResNet("relu"), given, given[:3], depth=4, get="ntk")
    assert isinstance(k, torch.Tensor) and k.shape == (len(X), 3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", ["relu", "erf", "tanh", "resnet"])
def test_cuda_inputs_run_there(name):
    net, depths = NETS[name]
    given = torch.from_numpy(X).cuda()
    expected = both(net, X, depth=depths[-1])
    for kind, k in both(net, given, depth=depths[-1]).items():
        assert k.device == given.device
        assert relative(k.cpu().numpy(), expected[kind]) <= 1e-10
    single = dl.kernel(net, given.float(), depth=depths[-1], get="ntk")
    assert single.dtype == torch.float32 and single.device == given.device


def test_numpy_in_numpy_out():
    k = dl.kernel(dl.ResNet("relu"), X, depth=4)
    assert type(k.nngp) is np.ndarray and k.nngp.dtype == np.float64
    k = dl.kernel(dl.ResNet("relu"), X.astype(np.float32), depth=4)
    assert k.ntk.dtype == np.float32


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int8, bool])
def test_whole_numbers_become_float64(dtype):
    whole = np.arange(12).reshape(4, 3).astype(dtype)
    k = dl.kernel(dl.Mlp("relu"), whole, depth=2, get="nngp")
    assert k.dtype == np.float64
    np.testing.assert_array_equal(k, dl.kernel(dl.Mlp("relu"), whole.astype(np.float64), depth=2, get="nngp"))
    k = dl.kernel(dl.Mlp("relu"), torch.from_numpy(whole), depth=2, get="nngp")
    assert k.dtype == torch.float64


def test_lists_and_half_precision():
    k = dl.kernel(dl.Mlp("relu"), X.tolist(), depth=2, get="nngp")
    np.testing.assert_array_equal(k, dl.kernel(dl.Mlp("relu"), X, depth=2, get="nngp"))
    assert dl.kernel(dl.Mlp("relu"), X.astype(np.float16), depth=2, get="nngp").dtype == np.float32


@pytest.mark.parametrize("given", [np.float64, np.float32])
@pytest.mark.parametrize("asked", ["float32", "float64", np.float32, np.float64, np.dtype("float32"), torch.float64])
def test_dtype(given, asked):
    k = dl.kernel(dl.Mlp("erf", 1.2, 0.1), X.astype(given), depth=3, get="ntk", dtype=asked)
    assert k.dtype == np.dtype(str(np.dtype(asked).name if not isinstance(asked, torch.dtype) else "float64"))
    expected = dl.kernel(dl.Mlp("erf", 1.2, 0.1), X.astype(given).astype(np.float64), depth=3, get="ntk")
    assert relative(k, expected) <= (5e-6 if k.dtype == np.float32 else 1e-12)


def test_get():
    net, kinds = dl.ResNet("relu"), ("nngp", "ntk")
    k = dl.kernel(net, X, depth=3)
    for kind in kinds:
        alone = dl.kernel(net, X, depth=3, get=kind)
        np.testing.assert_array_equal(alone, getattr(k, kind))
        record = dl.kernel(net, X, depth=3, get=(kind,))
        np.testing.assert_array_equal(getattr(record, kind), alone)
        assert getattr(record, kinds[1 - kinds.index(kind)]) is None
    np.testing.assert_array_equal(dl.kernel(net, X, depth=3, get=["ntk", "nngp"]).ntk, k.ntk)


def test_inputs_are_left_alone_and_any_layout_is_read():
    kept = X.copy()
    expected = dl.kernel(dl.Mlp("erf", 1.2, 0.1), X, depth=3, get="nngp")
    np.testing.assert_array_equal(X, kept)
    for view in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X[::-1][::-1]):
        np.testing.assert_allclose(dl.kernel(dl.Mlp("erf", 1.2, 0.1), view, depth=3, get="nngp"), expected, rtol=1e-13)
    frozen = X.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(dl.kernel(dl.Mlp("erf", 1.2, 0.1), frozen, depth=3, get="nngp"), expected)


def test_one_row_and_one_column():
    k = dl.kernel(dl.Mlp("relu", 1.3, 0.2), X[:1], depth=3)
    np.testing.assert_allclose(k.nngp, dl.kernel(dl.Mlp("relu", 1.3, 0.2), X[:2], depth=3).nngp[:1, :1], rtol=1e-13)
    assert dl.kernel(dl.Mlp("relu"), np.array([[2.0], [-3.0]]), depth=1, get="nngp")[0, 1] == pytest.approx(
        0, abs=1e-15
    )


def test_body_is_the_covariance_of_features():
    for net in (dl.Mlp("erf", 1.2, 0.1, 0.7, 0.3), dl.ResNet("relu", readout_std=0.7, readout_bias_std=0.3)):
        whole, body = dl.kernel(net, X, depth=3), dl.kernel(net.body, X, depth=3)
        np.testing.assert_allclose(whole.nngp, 0.49 * body.nngp + 0.09, rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(whole.ntk, 0.49 * (body.ntk + body.nngp) + 0.09, rtol=1e-12, atol=1e-14)


SPECIAL = np.array(
    [[1.0, 0.5, -0.2], [1.0, 0.5, -0.2], [-1.0, -0.5, 0.2], [2.0, 1.0, -0.4], [0, 0, 0], [0, 0, 0], [0.3, -1, 2]]
)


@pytest.mark.parametrize(("name", "depth"), SMOOTH)
def test_special_inputs_have_finite_gradients(name, depth):
    """Identical, opposite, parallel and zero rows."""
    given = torch.from_numpy(SPECIAL).requires_grad_()
    for kind, k in both(NETS[name][0], given, depth=depth).items():
        assert bool(k.isfinite().all()), kind
        (gradient,) = torch.autograd.grad(k.sum(), given, retain_graph=True)
        assert bool(gradient.isfinite().all()), kind


@pytest.mark.parametrize(
    "name", ["relu, biases", "erf", "gelu", "tanh", "sin", "resnet", "resnet, two layers", "rms norm"]
)
def test_gradients_in_the_inputs(name):
    """Against central differences of the float64 kernel, at generic rows."""
    net, generic = NETS[name][0], np.random.default_rng(1).standard_normal((3, 4))
    weights = np.random.default_rng(2).standard_normal((3, 3))

    def value(at):
        k = both(net, at, depth=3)
        return sum((weights * k[kind]).sum() for kind in k)

    given = torch.from_numpy(generic).requires_grad_()
    k = both(net, given, depth=3)
    total = sum((torch.from_numpy(weights) * k[kind]).sum() for kind in k)
    (gradient,) = torch.autograd.grad(total, given)
    h = 1e-5
    for row in range(3):
        for column in range(4):
            up, down = generic.copy(), generic.copy()
            up[row, column] += h
            down[row, column] -= h
            expected = (value(up) - value(down)) / (2 * h)
            assert float(gradient[row, column]) == pytest.approx(expected, rel=2e-6, abs=1e-7)


@pytest.mark.parametrize("depth", [3, inf])
def test_gradients_in_every_hyperparameter(depth):
    branch = {"branch_layers": 2, "inner_std": 1.2, "inner_bias_std": 0.4} if depth == 3 else {}
    net = dl.ResNet("erf", 1.1, 0.3, 0.9, 0.2, 0.8, 0.1, scale=0.7 * DEPTH**-0.5, **branch)
    paths_known, generic = net.hyperparameters(), X[2:5:2]
    assert set(paths_known) >= {"weight_std", "bias_std", "readin_std", "readout_bias_std", "inner_std", "scale"}
    hyper = {
        path: torch.tensor(float(value), dtype=torch.float64, requires_grad=True) for path, value in paths_known.items()
    }
    k = dl.kernel(net, torch.from_numpy(generic), depth=depth, hyper=hyper)
    total = k.nngp.sum() + 0.5 * k.ntk.sum()
    gradients = torch.autograd.grad(total, list(hyper.values()), allow_unused=True, materialize_grads=True)
    h = 1e-4
    for (path, value), gradient in zip(paths_known.items(), gradients, strict=True):
        if path.startswith("inner") and not branch:
            assert float(gradient) == 0
            continue
        ends = []
        for at in (value + h, value - h):
            k = dl.kernel(net, generic, depth=depth, hyper={path: at})
            ends.append(k.nngp.sum() + 0.5 * k.ntk.sum())
        assert float(gradient) == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5), path


def test_values_with_hyper_are_those_of_the_replaced_network():
    net = dl.Mlp("erf", 1.2, 0.1)
    found = dl.kernel(net, X, depth=3, hyper={"weight_std": 0.9}, get="ntk")
    np.testing.assert_array_equal(found, dl.kernel(dl.Mlp("erf", 0.9, 0.1), X, depth=3, get="ntk"))
    tensor = torch.tensor(0.9, dtype=torch.float64, requires_grad=True)
    found = dl.kernel(net, X, depth=3, hyper={"weight_std": tensor}, get="ntk")
    assert found.requires_grad
    assert relative(found.detach().numpy(), dl.kernel(dl.Mlp("erf", 0.9, 0.1), X, depth=3, get="ntk")) <= 1e-10


def test_hyperparameters_of_a_hand_made_network():
    net = Dense(weight_std=1.2) >> Repeat(Residual(act.Erf() >> Dense(bias_std=0.3), 0.5), 2) >> Dense(1)
    path = next(path for path in net.hyperparameters() if path.endswith("scale"))
    scale = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    k = dl.kernel(net, torch.from_numpy(X[:3]), hyper={path: scale}, get="nngp")
    (gradient,) = torch.autograd.grad(k.sum(), scale)
    ends = [dl.kernel(net, X[:3], hyper={path: 0.5 + h}, get="nngp").sum() for h in (1e-5, -1e-5)]
    assert float(gradient) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-7)
