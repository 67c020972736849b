"""Networks, sizes and names as they are written on a command line."""

from math import inf

import pytest

import deeplimits as dl
from deeplimits.cli import read
from deeplimits.errors import DeepLimitsError
from deeplimits.layer import BlockDiagonal, Decreasing, LowRank, Orthogonal, Sparse


def test_family_with_options():
    net = read.network("resnet:weight_std=1.2,branch-layers=2,final_activation=relu,readin_std=0.5", "erf")
    assert net == dl.ResNet("erf", weight_std=1.2, branch_layers=2, final_activation="relu", readin_std=0.5)


def test_activation_in_the_spec_wins():
    assert read.network("mlp:activation=erf", "relu") == dl.Mlp("erf")


@pytest.mark.parametrize(
    ("text", "scale"),
    [
        ("0.5", 0.5),
        ("depth^-0.5", dl.DEPTH**-0.5),
        ("0.3*depth**-1", 0.3 * dl.DEPTH**-1.0),
        ("l^-1", Decreasing()),
        ("2*l^-0.75", Decreasing(0.75, 2.0)),
    ],
)
def test_scales(text, scale):
    assert read.network(f"resnet:scale={text}").scale == scale


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("orthogonal", Orthogonal()),
        ("low-rank(0.25)", LowRank(0.25 * dl.WIDTH)),
        ("sparse(0.1)", Sparse(0.1)),
        ("block(0.25)", BlockDiagonal(0.25 * dl.WIDTH)),
    ],
)
def test_weight_laws(text, law):
    assert read.network(f"mlp:weights={text}").weights == law


def test_description_of_a_module(tmp_path, monkeypatch):
    (tmp_path / "my_networks.py").write_text("import deeplimits as dl\nnet = dl.Mlp('erf')\ndef make(): return net\n")
    monkeypatch.chdir(tmp_path)
    assert read.network("my_networks:net") == dl.Mlp("erf")
    assert read.network("my_networks:make") == dl.Mlp("erf")
    with pytest.raises(DeepLimitsError, match="cannot be imported"):
        read.network("my_networks:nothing")
    with pytest.raises(DeepLimitsError, match="is a module"):
        read.network("my_networks:dl")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("resnt", "did you mean 'resnet'"),
        ("mlp:activation=rleu", "did you mean 'relu'"),
        ("mlp:weight_sdt=1", "did you mean 'weight_std'"),
        ("mlp:weight_std=1,2", "'2' is not an option"),
        ("mlp:weight_std=wide", "'wide' is not a number"),
        ("resnet:scale=width^-1", "is not a branch scale"),
        ("mlp:weights=spars(0.1)", "did you mean 'sparse'"),
        ("mlp:weights=sparse", "wrong number of sizes"),
    ],
)
def test_refusals(spec, words):
    with pytest.raises(DeepLimitsError, match=words):
        read.network(spec)


def test_numbers():
    assert read.numbers("--widths", "64, 128,256") == [64, 128, 256]
    assert read.numbers("--depth", "inf", infinite=True) == [inf]
    for bad in ("0", "-1", "1.5", "x", "", "4,,8", "inf"):
        with pytest.raises(DeepLimitsError, match="is not a whole number of at least 1"):
            read.numbers("--widths", bad)


def test_names():
    assert read.names("--get", "NNGP, ntk", ("nngp", "ntk")) == ("nngp", "ntk")
    with pytest.raises(DeepLimitsError, match="did you mean 'nngp'"):
        read.names("--get", "nnpg", ("nngp", "ntk"))
