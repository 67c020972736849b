"""Trained networks: each as if it were trained alone, by the book."""

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.finite.train import Descent, train
from deeplimits.numerics.seeds import generator

rng = np.random.default_rng(5)
X, X_test = rng.normal(size=(3, 4)), rng.normal(size=(2, 4))
Y = rng.normal(size=(3, 2))
NETS = {
    "mlp": dl.Mlp("tanh", weight_std=1.3, bias_std=0.2, readout_std=0.7, outputs=2),
    "resnet": dl.ResNet("relu", branch_layers=2, outputs=2),
    "sparse": dl.Mlp("relu", weights=dl.layer.Sparse(density=0.5), outputs=2),
}


def alone(net, index, descent, seed, width=12, depth=2):
    """The outputs of one network after every step, by torch.optim."""
    own = int(generator(seed, "network", index).integers(2**63))
    module = dl.build(net, width, depth, own, features_in=4, dtype=torch.float64)
    scale = 1.0 if descent.gamma is None else 1 / (descent.gamma * width**0.5)
    rate = descent.rate if descent.gamma is None else descent.rate * descent.gamma**2 * width
    optimizer = torch.optim.SGD(module.parameters(), rate, descent.momentum)
    inputs, labels = torch.from_numpy(np.concatenate([X, X_test])), torch.from_numpy(Y)
    found = []
    for _ in range(descent.steps + 1):
        outputs = module(inputs) * scale
        found.append(outputs.detach().numpy())
        optimizer.zero_grad()
        (0.5 * (outputs[:3] - labels) ** 2).sum().backward()
        optimizer.step()
    return np.stack(found)


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize(
    "descent", [Descent(0.1, 7), Descent(0.05, 7, momentum=0.6), Descent(0.1, 7, gamma=1.5)], ids=repr
)
def test_every_network_is_trained_as_if_alone(name, descent):
    done = train(NETS[name], X, Y, X_test, 12, 2, 3, 9, descent, (0, 4, 7))
    for index in range(3):
        expected = alone(NETS[name], index, descent, 9)
        np.testing.assert_allclose(done.outputs[index], expected[[0, 4, 7]], rtol=1e-9, atol=1e-11)


def test_fewer_networks_are_the_first_ones():
    descent = Descent(0.1, 3)
    few = train(NETS["mlp"], X, Y, None, 8, 1, 2, 0, descent, (3,))
    many = train(NETS["mlp"], X, Y, None, 8, 1, 5, 0, descent, (3,))
    np.testing.assert_allclose(many.outputs[:2], few.outputs, rtol=1e-12)


def test_chunks_do_not_matter(monkeypatch):
    whole = train(NETS["mlp"], X, Y, None, 8, 1, 4, 0, Descent(0.1, 3), (0, 3))
    monkeypatch.setattr("deeplimits.finite.train.CHUNK_BYTES", 1)
    seen = []
    parts = train(NETS["mlp"], X, Y, None, 8, 1, 4, 0, Descent(0.1, 3), (0, 3), lambda *done: seen.append(done))
    np.testing.assert_allclose(parts.outputs, whole.outputs, rtol=1e-12)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_network_that_diverges_leaves_the_others_alone():
    net, descent = dl.Mlp("linear"), Descent(0.5, 60, gamma=1.0)
    done = train(net, X, Y[:, :1], None, 4, 2, 40, 0, descent, (0, 60))
    lost = ~np.isfinite(done.outputs).all((1, 2, 3))
    assert 0 < lost.sum() < 40
    index = int(np.flatnonzero(~lost)[-1])
    assert index > np.flatnonzero(lost)[0]
    one = Y[:, :1]
    own = int(generator(0, "network", index).integers(2**63))
    module = dl.build(net, 4, 2, own, features_in=4, dtype=torch.float64)
    optimizer = torch.optim.SGD(module.parameters(), 0.5 * 4)
    for _ in range(60):
        optimizer.zero_grad()
        (0.5 * (module(torch.from_numpy(X)) / 2 - torch.from_numpy(one)) ** 2).sum().backward()
        optimizer.step()
    np.testing.assert_allclose(done.outputs[index, 1], module(torch.from_numpy(X)).detach().numpy() / 2, atol=1e-6)


def test_labels_must_fit_the_readout():
    with pytest.raises(dl.errors.DescriptionError, match="y has 1 columns and the readout 2 outputs"):
        train(NETS["mlp"], X, Y[:, :1], None, 8, 2, 2, 0, Descent(0.1, 1), (0, 1))
    with pytest.raises(dl.errors.DescriptionError, match="no Dense readout"):
        train(NETS["mlp"].body, X, Y, None, 8, 2, 2, 0, Descent(0.1, 1), (0, 1))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rate": 0}, "rate=0"),
        ({"rate": -0.1}, "rate=-0.1"),
        ({"rate": float("nan")}, "rate=nan"),
        ({"rate": float("inf")}, "rate=inf"),
        ({"rate": True}, "rate=True"),
        ({"rate": "0.1"}, "rate='0.1'"),
        ({"steps": 0}, "steps=0"),
        ({"steps": 1.5}, "steps=1.5"),
        ({"momentum": 1.0}, "momentum=1.0"),
        ({"momentum": -0.1}, "momentum=-0.1"),
        ({"gamma": 0.0}, "gamma=0.0.*lazy limit"),
        ({"gamma": float("inf")}, "gamma=inf"),
    ],
    ids=repr,
)
def test_numbers_out_of_range_are_refused(given, said):
    with pytest.raises(dl.errors.InputError, match=said):
        Descent(**{"rate": 0.1, "steps": 10, **given})


def test_steps_given_as_a_float_are_whole():
    assert repr(Descent(0.1, 3.0)) == repr(Descent(0.1, 3))
