"""Descriptions of attention: options by kind, what is refused, and what stands in a Transformer."""

import pickle

import pytest

import deeplimits as dl
from deeplimits.architecture.attention import KINDS, mixes_tokens
from deeplimits.architecture.compose import expand
from deeplimits.errors import DescriptionError
from deeplimits.layer import DEPTH, WIDTH, Attention, Dense, LayerNorm, Orthogonal, Residual, RMSNorm, Transformer


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_its_own_options_filled_in(kind):
    layer = Attention(kind)
    assert {name: getattr(layer, name) for name in KINDS[kind]} == dict(KINDS[kind])
    assert pickle.loads(pickle.dumps(layer)) == layer
    assert hash(layer) == hash(Attention(kind))
    assert None not in layer.hyperparameters().values()
    assert repr(layer) == f"Attention({kind!r})"
    own = Attention(kind, heads=2, value_std=0.5, weights=Orthogonal())
    assert eval(repr(own), {"Attention": Attention, "Orthogonal": Orthogonal}) == own


def test_hyperparameters_are_changed_by_path():
    net = Transformer(attention="sinkhorn", scale=2 * DEPTH**-1)
    changed = net.replace({"attention.temperature": 0.5, "scale": 3.0})
    assert changed.attention == Attention("sinkhorn", temperature=0.5)
    assert changed.scale == 3 * DEPTH**-1
    assert "attention.discount" not in net.hyperparameters()


@pytest.mark.parametrize("norm", ["pre", "post", "none"])
def test_a_transformer_is_two_residual_branches_a_block(norm):
    layers = expand(Transformer("relu", norm=norm, heads=2), 3).layers
    branches = [layer for layer in layers if isinstance(layer, Residual)]
    assert len(branches) == 6
    assert {layer.scale for layer in branches} == {3**-0.5}
    norms = [layer for layer in layers if isinstance(layer, LayerNorm)]
    inside = [part for branch in branches for part in branch.branch.layers if isinstance(part, LayerNorm)]
    assert (len(norms), len(inside)) == {"pre": (1, 6), "post": (6, 0), "none": (0, 0)}[norm]
    assert branches[1].branch.layers[-3].features == 4 * WIDTH


def test_an_attention_of_its_own_brings_heads_and_mask():
    own = Attention("shaped", heads=4, causal=True, weights=Orthogonal())
    net = Transformer(attention=own, normalisation=RMSNorm(1e-6))
    assert (net.heads, net.causal, net.attention) == (4, True, own)


def test_what_mixes_tokens_is_known():
    assert mixes_tokens(Dense() >> Residual(Attention()))
    assert not mixes_tokens(dl.ResNet())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Attention("softmx"), "did you mean 'softmax'"),
        (lambda: Attention(None), "no kind None"),
        (lambda: Attention(heads=0), "heads=0 is not a whole number >= 1"),
        (lambda: Attention(heads=3, features=8), "heads=3 do not divide features=8"),
        (lambda: Attention(causal=1), "causal=1"),
        (lambda: Attention("sinkhorn", causal=True), "is the identity"),
        (lambda: Attention(temperature=0.0), "temperature=0.*kind='hardmax', the limit of temperature zero"),
        (lambda: Attention(temperature=-1.0), "temperature=-1.0 is out of range"),
        (lambda: Attention("shaped", temperature=float("nan")), "temperature=nan is out of range"),
        (lambda: Attention("hardmax", temperature=1.0), "temperature=1.0 has no effect.*tolerance, step"),
        (lambda: Attention(iterations=5), "iterations=5 has no effect"),
        (lambda: Attention("sinkhorn", iterations=0), "iterations=0 is not a whole number"),
        (lambda: Attention("sinkhorn", tolerance=-1e-3), "tolerance=-0.001 is out of range"),
        (lambda: Attention("relu-infinite", discount=0.0), "discount=0 lets nothing through"),
        (lambda: Attention("relu-infinite", terms=0), "terms=0 is not a whole number"),
        (lambda: Attention("hardmax", step=0.0), "step=0.0 is out of range"),
        (lambda: Attention("hardmax", step=1.5), r"step=1.5.*\(0, 1\]"),
        (lambda: Attention(features=0), "not a size"),
        (lambda: Attention(key_features=0), "not a size"),
        (lambda: Attention(weights="gaussian"), "not a law of weights"),
        (lambda: Attention(value_std=-1.0), "value_std=-1.0 is out of range"),
        (lambda: Attention(query_std=None), "their features differ"),
        (lambda: Attention(heads=2, value_std=None), "would all be the same"),
        (lambda: Transformer(norm="both"), "norm='both'"),
        (lambda: Transformer(normalisation="layer"), "normalisation='layer' is not a layer"),
        (lambda: Transformer(attention=3), "attention=3 is not an attention"),
        (lambda: Transformer(attention=Attention(heads=2), heads=4), "give heads in the Attention alone"),
        (lambda: Transformer(scale="big"), "not a branch scale"),
        (lambda: Transformer(hidden=-1 * WIDTH), r"not a share in \(0, inf\)"),
        (lambda: Transformer("rleu"), "relu"),
    ],
)
def test_what_cannot_be_is_refused(make, words):
    with pytest.raises(dl.DeepLimitsError, match=words) as caught:
        make()
    assert caught.value.where
    assert caught.value.fix


def test_a_share_stays_below_one_where_it_picks_among_the_width():
    with pytest.raises(DescriptionError, match=r"not a share in \(0, 1\]"):
        dl.layer.LowRank(2 * WIDTH)
    with pytest.raises(DescriptionError, match=r"not a share in \(0, 1\]"):
        Dense(2.5)
