"""Arrays in and out, precision, symmetry, and the two paths of the kernel question."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine

import deeplimits as dl
from deeplimits.limits.kernel import paths
from deeplimits.limits.kernel.lowering import lower
from deeplimits.numerics.arrays import check
from tests.limits.networks import CASES, NETS, X, both, relative


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


@pytest.mark.parametrize("depth", [2, 5, 12])
@pytest.mark.parametrize("name", ["relu, biases", "abs", "gelu", "erf"])
def test_float32_on_raw_data(name, depth):
    """Wine as it comes: norms of hundreds, angles of a few hundredths."""
    raw = load_wine().data.astype(np.float32)
    net = NETS[name][0] if name != "abs" else dl.Mlp("abs", bias_std=0.1)
    expected = both(net, raw.astype(np.float64), depth=depth)
    for kind, k in both(net, raw, depth=depth).items():
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
    half = dl.kernel(dl.Mlp("relu"), X.astype(np.float16), depth=2, get="nngp")
    assert half.dtype == np.float16
    np.testing.assert_allclose(half.astype(float), k, rtol=2e-3, atol=2e-3)
    brain = torch.from_numpy(X).to(torch.bfloat16)
    assert dl.kernel(dl.Mlp("relu"), brain, depth=2, get="nngp").dtype == torch.bfloat16


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


@pytest.mark.parametrize("power", [4, 6])
def test_powers_without_a_compiled_block(power):
    """At c = 0, E[u+^p v+^p] = (E[u+^p])^2; on the diagonal it is (2p - 1)!! q^p / 2."""
    X = np.sqrt(2) * np.eye(2)
    k = dl.kernel(dl.layer.Dense() >> dl.act.RectifiedMonomial(power), X, get="nngp")
    half = {4: 3 / 2, 6: 15 / 2}[power]
    double = {4: 105 / 2, 6: 10395 / 2}[power]
    np.testing.assert_allclose(k, [[double, half**2], [half**2, double]], rtol=1e-12)
