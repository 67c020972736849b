import copy
import io
import math
import pickle

import numpy as np
import pytest
import torch
from scipy import special, stats

import deeplimits as dl
from deeplimits import act
from deeplimits.errors import DeepLimitsError
from deeplimits.finite import build
from deeplimits.finite.build.dense import Dense as DenseModule
from deeplimits.layer import (
    BlockDiagonal,
    Decreasing,
    Dense,
    Gaussian,
    LayerNorm,
    LowRank,
    Orthogonal,
    Parallel,
    Repeat,
    Residual,
    RMSNorm,
    Serial,
    Sparse,
)
from deeplimits.numerics.erfi import inverse_erfi

LAWS = [Gaussian(), Orthogonal(), LowRank(0.5), Sparse(0.25), BlockDiagonal(0.25), BlockDiagonal(0.3), BlockDiagonal(3)]
X = torch.randn(5, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def matrix(module, features):
    """The matrix that a dense module applies."""
    return module.product(torch.eye(features, dtype=module.weight.dtype)).mT.detach()


def test_names_follow_the_description():
    module = build(dl.ResNet("relu", branch_layers=2, bias_std=0.1, final_activation="erf"), 8, 2, 0, features_in=7)
    assert [name for name, _ in module.named_parameters()] == [
        "readin.weight",
        "blocks.0.branch.dense.weight",
        "blocks.0.branch.dense_2.weight",
        "blocks.0.branch.dense_2.bias",
        "blocks.1.branch.dense.weight",
        "blocks.1.branch.dense_2.weight",
        "blocks.1.branch.dense_2.bias",
        "readout.weight",
    ]
    assert [n for n, _ in build(dl.Mlp("relu"), 8, 2, 0).named_parameters()] == [
        "blocks.0.dense.weight",
        "blocks.1.dense.weight",
        "readout.weight",
    ]


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_lazy_eager_and_both_parametrizations_are_one_function(law):
    net = Dense(bias_std=0.1, weights=law) >> Repeat(Dense(weight_std=1.3, weights=law) >> act.Tanh()) >> Dense(2)
    lazy = build(net, 16, 3, 1, dtype=torch.float64)
    eager = build(net, 16, 3, 1, "standard", features_in=7, dtype=torch.float64)
    copied, pickled = copy.deepcopy(lazy), pickle.loads(pickle.dumps(lazy))
    expected = eager(X)
    for module in (lazy, copied, pickled, build(net, 16, 3, 1).double()):
        assert torch.allclose(module(X), expected, rtol=0, atol=1e-6 if module is not lazy else 1e-14)
    assert type(lazy.readin) is type(eager.readin)
    assert lazy.state_dict().keys() == eager.state_dict().keys()


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_a_saved_network_loads_into_a_fresh_lazy_one(law):
    net = dl.Mlp("relu", weights=law)
    trained = build(net, 16, 2, 3, dtype=torch.float64)
    before = trained(X).detach()
    optimizer = torch.optim.AdamW(trained.parameters(), lr=0.1)
    trained(X).square().sum().backward()
    optimizer.step()
    after = trained(X)
    assert not torch.allclose(before, after)
    store = io.BytesIO()
    torch.save(trained.state_dict(), store)
    store.seek(0)
    fresh = build(net, 16, 2, 4, dtype=torch.float64)
    fresh.load_state_dict(torch.load(store))
    assert torch.equal(fresh(X), after)
    assert torch.equal(pickle.loads(pickle.dumps(trained))(X), after)


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize(("rows", "columns"), [(48, 48), (40, 64), (64, 40)])
def test_weights_have_the_stated_variance(law, rows, columns):
    networks, std = 60, 1.5
    found = []
    for seed in range(networks):
        module = build(Dense(rows, std, weights=law), 64, 1, seed, features_in=columns, dtype=torch.float64)
        found.append(float((matrix(module, columns) ** 2).mean()) * columns)
    error = np.std(found, ddof=1) / math.sqrt(networks)
    assert abs(np.mean(found) - std**2) <= 4 * error + 1e-12


def test_structured_weights_have_their_structure():
    def made(law, rows, columns):
        return matrix(build(Dense(rows, 2.0, weights=law), 32, 1, 0, features_in=columns, dtype=torch.float64), columns)

    assert torch.allclose(made(Orthogonal(), 32, 32) @ made(Orthogonal(), 32, 32).mT, 4 * torch.eye(32).double())
    assert torch.allclose(made(Orthogonal(), 16, 32) @ made(Orthogonal(), 16, 32).mT, 4 * torch.eye(16).double())
    assert torch.allclose(made(Orthogonal(), 32, 16).mT @ made(Orthogonal(), 32, 16), 8 * torch.eye(16).double())
    assert torch.linalg.matrix_rank(made(LowRank(0.25), 32, 32)) == 8
    assert torch.linalg.matrix_rank(made(LowRank(5), 32, 32)) == 5
    assert ((made(Sparse(0.25), 32, 32) != 0).sum(1) == 8).all()
    blocks = made(BlockDiagonal(0.25), 32, 32) != 0
    assert (blocks.sum(0) == 8).all() and (blocks.sum(1) == 8).all()
    assert torch.linalg.matrix_rank(blocks.double()) == 4
    assert not blocks[:8, :8].all()
    uneven = made(BlockDiagonal(10), 32, 32) != 0
    assert set(uneven.sum(1).tolist()) <= {10, 11} and torch.linalg.matrix_rank(uneven.double()) == 3


def test_haar_frames_have_no_preferred_sign():
    corner = [
        float(matrix(build(Dense(2, weights=Orthogonal()), 2, 1, s, features_in=2, dtype=torch.float64), 2)[0, 0])
        for s in range(400)
    ]
    angle = np.arccos(np.clip(corner, -1, 1)) / math.pi  # uniform for a Haar matrix of O(2)
    assert stats.kstest(angle, "uniform").pvalue > 1e-4


DEFINITIONS = [
    (act.Identity(), lambda x: x),
    (act.Relu(), lambda x: np.maximum(x, 0)),
    (act.LeakyRelu(0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
    (act.AbRelu(-0.5, 2.0), lambda x: np.where(x > 0, 2 * x, -0.5 * x)),
    (act.Abs(), np.abs),
    (act.Sign(), np.sign),
    (act.Step(), lambda x: (x > 0) * 1.0),
    (act.RectifiedMonomial(0), lambda x: (x > 0) * 1.0),
    (act.RectifiedMonomial(3), lambda x: np.maximum(x, 0) ** 3),
    (act.Erf(2.0, 0.7, 0.1), lambda x: 2 * special.erf(0.7 * x) + 0.1),
    (act.Sin(2.0, 0.7, 0.1), lambda x: 2 * np.sin(0.7 * x + 0.1)),
    (act.Cos(2.0, 0.7, 0.1), lambda x: 2 * np.cos(0.7 * x + 0.1)),
    (act.Exp(2.0, 0.7), lambda x: 2 * np.exp(0.7 * x)),
    (act.GaussianBump(0.7), lambda x: np.exp(-0.7 * x * x)),
    (act.Probit(), stats.norm.cdf),
    (act.Gelu(), lambda x: x * stats.norm.cdf(x)),
    (act.Polynomial((1.0, 2.0, 3.0)), lambda x: 1 + 2 * x + 3 * x * x),
    (act.Hermite(4), lambda x: (x**4 - 6 * x**2 + 3) / math.sqrt(24)),
    (act.Tanh(), np.tanh),
    (act.Sigmoid(), special.expit),
    (act.Softplus(), lambda x: np.logaddexp(x, 0)),
    (act.Silu(), lambda x: x * special.expit(x)),
    (act.OrnsteinUhlenbeck(-0.5, 0.3), lambda x: np.exp(inverse_erfi(0.3 - 0.5 * x) ** 2)),
    (act.Custom(torch.atan), np.arctan),
]


@pytest.mark.parametrize(("layer", "definition"), DEFINITIONS, ids=lambda v: type(v).__name__)
def test_activations_are_their_definitions(layer, definition):
    x = np.linspace(-4, 30, 69)
    found = build(layer, 8, 1, 0)(torch.from_numpy(x)).numpy()
    assert np.allclose(found, definition(x), rtol=1e-13, atol=1e-13)


def test_a_given_derivative_is_used():
    module = build(act.Custom(torch.sign, derivative=lambda x: torch.exp(-x * x)), 8, 1, 0)
    x = torch.tensor([-1.0, 0.5], requires_grad=True)
    (gradient,) = torch.autograd.grad(module(x).sum(), x)
    assert torch.allclose(gradient, torch.exp(-(x.detach() ** 2)))


def test_norms_are_their_definitions_and_zero_stays_zero():
    layer, rms = build(LayerNorm(), 8, 1, 0), build(RMSNorm(1e-3), 8, 1, 0)
    expected = torch.nn.functional.layer_norm(X, (7,), eps=0.0)
    assert torch.allclose(layer(X), expected, atol=1e-13)
    assert torch.allclose(rms(X), torch.nn.functional.rms_norm(X, (7,), eps=1e-3), atol=1e-13)
    zero = torch.zeros(1, 7, dtype=torch.float64, requires_grad=True)
    assert torch.equal(layer(zero), torch.zeros_like(zero))
    (gradient,) = torch.autograd.grad(layer(zero).sum(), zero)
    assert torch.isfinite(gradient).all()


def test_branch_scales_are_those_of_the_description():
    def scales(scale):
        module = build(dl.ResNet("relu", scale=scale), 4, 4, 0)
        return [block.scale for block in module.blocks]

    assert scales(2 * dl.DEPTH**-0.5) == [1.0] * 4
    assert scales(Decreasing(2.0, 3.0)) == [3.0, 3 / 4, 3 / 9, 3 / 16]
    assert scales(lambda l, L: l / L) == [0.25, 0.5, 0.75, 1.0]


def test_parallel_and_residual_add_up():
    net = Serial(Dense(6), Parallel(Dense(6) >> act.Relu(), Serial()), Residual(Dense(6), 0.5))
    module = build(net, 6, 1, 0, features_in=7, dtype=torch.float64)
    first = module.readin(X)
    second = module.parallel.branches[0](first) + first
    assert torch.allclose(module(X), second + 0.5 * module.residual.branch(second))


def test_dtypes_agree_and_the_global_generator_is_left_alone():
    state = torch.get_rng_state()
    net = dl.ResNet("tanh", bias_std=0.3)
    single, double = build(net, 32, 4, 5), build(net, 32, 4, 5, dtype=torch.float64)
    assert torch.equal(torch.get_rng_state(), state)
    assert single(X.float()).dtype == torch.float32
    assert torch.allclose(single(X.float()).double(), double(X), atol=1e-5)
    other = build(net, 32, 4, 6, dtype=torch.float64)
    assert not torch.allclose(other(X), double(X), atol=1e-2)


def test_parametrizations_hold_their_scales_where_they_say():
    net = Dense(400, 3.0, 0.5)
    ntk, standard = (build(net, 8, 1, 0, p, features_in=100, dtype=torch.float64) for p in ("ntk", "standard"))
    for module, weight, bias in ((ntk, 1.0, 1.0), (standard, 0.3, 0.5)):
        assert isinstance(module, DenseModule)
        assert float(module.weight.detach().std()) == pytest.approx(weight, rel=4 / math.sqrt(2 * 40000))
        assert float(module.bias.detach().std()) == pytest.approx(bias, rel=4 / math.sqrt(2 * 400))
    assert (ntk.weight_scale, ntk.bias_scale, standard.weight_scale) == (pytest.approx(0.3), 0.5, 1.0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"width": 0}, "width=0"),
        ({"width": 2.5}, "width=2.5"),
        ({"depth": 0}, "depth=0"),
        ({"depth": math.inf}, "depth=inf"),
        ({"parametrization": "mup"}, "mup"),
        ({"features_in": -1}, "features_in=-1"),
        ({"seed": -1}, "-1"),
        ({"seed": 0.5}, "0.5"),
        ({"net": "resnet"}, "resnet"),
        ({"net": Dense(4) >> Residual(Dense(5))}, "4 features"),
        ({"net": Parallel(Dense(4), Dense(5))}, "5"),
        ({"net": Dense(weights=LowRank(100))}, "rank=100"),
    ],
)
def test_bad_requests_say_where_why_and_how_to_mend(change, words):
    given = {"net": dl.ResNet("relu"), "width": 8, "depth": 2, "seed": 0, "features_in": 7} | change
    with pytest.raises(DeepLimitsError) as caught:
        build(**given)
    assert words in str(caught.value) and "Fix:" in str(caught.value)
