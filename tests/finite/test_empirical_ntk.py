import importlib

import numpy as np
import pytest
import torch
from torch import nn

import deeplimits as dl
from deeplimits.errors import DeepLimitsError
from deeplimits.finite import build, empirical_ntk
from deeplimits.finite.tangent import jacobian, layers, traces
from deeplimits.layer import BlockDiagonal, Gaussian, LowRank, Orthogonal, Sparse
from tests.finite.oracle import jacobian_kernel

FRONT = importlib.import_module("deeplimits.finite.empirical_ntk")
DRAW = torch.Generator().manual_seed(3)
TABLE = torch.randn(5, 7, generator=DRAW, dtype=torch.float64)
IMAGES = torch.randn(5, 3, 9, 9, generator=DRAW, dtype=torch.float64)
SERIES = torch.randn(4, 3, 8, generator=DRAW, dtype=torch.float64)


class Woven(nn.Module):
    """Parameters used in every way that hooks alone would miss."""

    def __init__(self):
        super().__init__()
        self.twice, self.shared, self.read = nn.Linear(7, 7), nn.Linear(7, 2), nn.Linear(2, 2)
        self.tied = nn.Linear(7, 2)
        self.tied.weight = self.shared.weight
        self.plain, self.gain = nn.Linear(7, 2), nn.Parameter(torch.ones(2))

    def forward(self, x):
        y = self.shared(self.twice(torch.tanh(self.twice(x))))
        return self.gain * y + self.tied(x) + self.plain(x) @ self.read.weight


def perceptron():
    return nn.Sequential(nn.Linear(7, 8), nn.ReLU(inplace=True), nn.LayerNorm(8), nn.Linear(8, 3))


def convolutional():
    module = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, dilation=2),
        nn.ReLU(inplace=True),
        nn.Conv2d(4, 6, 3, stride=2, padding=1, padding_mode="circular"),
        nn.BatchNorm2d(6),
        nn.GELU(),
        nn.Conv2d(6, 6, 3, groups=2),
        nn.Flatten(),
        nn.LazyLinear(3),
    )
    return module.eval()


def attention():
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)


def described(law):
    return build(dl.ResNet("relu", bias_std=0.1, weights=law, outputs=2), 16, 3, 0, features_in=7)


CASES = {
    "perceptron": (perceptron, TABLE),
    "convolutional": (convolutional, IMAGES),
    "attention": (attention, SERIES),
    "tokens": (lambda: nn.Sequential(nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 2), nn.Flatten()), SERIES),
    "woven": (Woven, TABLE),
    "gaussian": (lambda: described(Gaussian()), TABLE),
    "orthogonal": (lambda: described(Orthogonal()), TABLE),
    "low rank": (lambda: described(LowRank(0.5)), TABLE),
    "sparse": (lambda: described(Sparse(0.25)), TABLE),
    "blocks": (lambda: described(BlockDiagonal(0.3)), TABLE),
}


def relative(found, expected):
    return float((found - expected).abs().max() / expected.abs().max())


@pytest.fixture(params=CASES, ids=list(CASES))
def case(request):
    torch.manual_seed(0)
    return CASES[request.param]


def made(make, X):
    module = make().double()
    module(X)
    return module


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # the oracle's
@pytest.mark.parametrize("blocks", ["one block", "many blocks"])
def test_it_is_the_contraction_of_the_jacobians(case, blocks, monkeypatch):
    if blocks == "many blocks":
        monkeypatch.setattr(FRONT, "TRACE_BYTES", 1)
        monkeypatch.setattr(layers, "SLICE_BYTES", 2000)
        monkeypatch.setattr(jacobian, "JACOBIAN_BYTES", 2000)
    module, X = made(*case), case[1]
    other = X[:3] + 0.1
    full, square = jacobian_kernel(module, X, other), jacobian_kernel(module, X, X)
    assert relative(empirical_ntk(module, X, other, outputs="full"), full) <= 1e-12
    assert relative(empirical_ntk(module, X, outputs="full"), square) <= 1e-12
    assert relative(empirical_ntk(module, X, other), torch.einsum("ijaa->ij", full) / full.shape[-1]) <= 1e-12
    theta = empirical_ntk(module, X)
    assert relative(theta, torch.einsum("ijaa->ij", square) / full.shape[-1]) <= 1e-12
    assert torch.equal(theta, theta.mT)
    assert float(torch.linalg.eigvalsh(theta)[0]) >= -1e-10 * float(torch.linalg.eigvalsh(theta)[-1])


def test_single_precision_agrees_with_double(case):
    module, X = made(*case), case[1]
    double = empirical_ntk(module, X)
    single = empirical_ntk(module.float(), X.float())
    assert single.dtype == torch.float32
    assert relative(single.double(), double) <= 1e-5


def test_the_module_is_left_as_it_was(case):
    module, X = made(*case), case[1]
    before = {name: value.clone() for name, value in module.state_dict().items()}
    modes = [layer.training for layer in module.modules()]
    random = torch.get_rng_state()
    with torch.no_grad():
        empirical_ntk(module, X)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(p.grad is None for p in module.parameters())
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert [layer.training for layer in module.modules()] == modes
    assert not any(layer._forward_hooks for layer in module.modules())


def test_known_layers_need_no_jacobian(monkeypatch):
    def refuse(*args):
        raise AssertionError("a Jacobian was formed")

    monkeypatch.setattr(FRONT, "rest", refuse)
    monkeypatch.setattr(layers, "_local", refuse)
    module = described(LowRank(0.5)).double()
    assert empirical_ntk(module, TABLE).shape == (5, 5)
    convolution = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(196, 2)).double()
    assert empirical_ntk(convolution, IMAGES).shape == (5, 5)


def test_a_layer_used_twice_is_found_out():
    module = Woven().double()
    good = traces.faithful(module, TABLE[:3])
    assert good == [module.plain]


def test_frozen_parameters_do_not_count():
    module = perceptron().double()
    module[0].weight.requires_grad_(False)
    module[3].requires_grad_(False)
    expected = torch.einsum("ijaa->ij", jacobian_kernel(module, TABLE, TABLE)) / 3
    assert relative(empirical_ntk(module, TABLE), expected) <= 1e-12
    module.requires_grad_(False)
    assert torch.equal(empirical_ntk(module, TABLE), torch.zeros(5, 5, dtype=torch.float64))


def test_control_flow_that_torch_func_cannot_batch():
    class Branching(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(2, dtype=torch.float64))

        def forward(self, x):
            rows = [row[:2] * self.gain if float(row.sum()) > 0 else row[:2] * self.gain**3 for row in x.detach()]
            return torch.stack(rows)

    factor = torch.where(TABLE.sum(1) > 0, 1.0, 3.0)
    expected = torch.einsum("ia,ja->ij", TABLE[:, :2] * factor[:, None], TABLE[:, :2] * factor[:, None]) / 2
    assert relative(empirical_ntk(Branching(), TABLE), expected) <= 1e-12


def test_numpy_and_scalar_outputs():
    module = nn.Sequential(nn.Linear(7, 1), nn.Flatten(0)).double()
    theta = empirical_ntk(module, TABLE.numpy())
    assert isinstance(theta, np.ndarray)
    assert np.allclose(theta, (TABLE @ TABLE.mT + 1).numpy(), rtol=1e-13)
    assert empirical_ntk(module, TABLE, outputs="full").shape == (5, 5, 1, 1)


def test_both_parametrizations_of_one_dense_layer():
    net = dl.layer.Dense(3, 2.0, 0.5)
    gram = TABLE @ TABLE.mT
    ntk, standard = (build(net, 8, 1, 0, p, features_in=7, dtype=torch.float64) for p in ("ntk", "standard"))
    assert relative(empirical_ntk(ntk, TABLE), 4 * gram / 7 + 0.25) <= 1e-12
    assert relative(empirical_ntk(standard, TABLE), gram + 1) <= 1e-12


@pytest.mark.parametrize(
    ("module", "X", "words"),
    [
        (perceptron(), np.full((2, 7), np.nan), "nan"),
        (perceptron(), np.zeros((0, 7)), "empty"),
        (perceptron(), [["a"]], "numeric"),
        ("net", TABLE, "str"),
        (nn.Sequential(nn.Linear(7, 3), nn.BatchNorm1d(3)), TABLE, "BatchNorm1d"),
        (nn.Sequential(nn.Linear(7, 3), nn.Dropout()), TABLE, "Dropout"),
        (nn.Sequential(nn.Linear(7, 3), nn.Softmax(0)), TABLE, "other inputs"),
        (nn.LSTM(7, 3), SERIES[..., :7], "tuple"),
    ],
)
def test_bad_requests_say_where_why_and_how_to_mend(module, X, words):
    with pytest.raises(DeepLimitsError) as caught:
        empirical_ntk(module, X)
    assert words in str(caught.value) and "Fix:" in str(caught.value)


def test_bad_shapes_names_and_sizes():
    with pytest.raises(DeepLimitsError, match="same shape"):
        empirical_ntk(perceptron(), TABLE, TABLE[:, :6])
    with pytest.raises(DeepLimitsError, match="diagonal"):
        empirical_ntk(perceptron(), TABLE, outputs="diagonal")
    with pytest.raises(DeepLimitsError, match="bytes"):
        empirical_ntk(nn.Linear(1, 1), torch.zeros(10**6, 1))
