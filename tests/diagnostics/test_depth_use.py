"""Depth use: null curves, known networks, found blocks, Hugging Face models, and what is refused."""

import math

import pytest
import torch
from torch import nn

import deeplimits as dl
from deeplimits.diagnostics import depth_score, depth_use, null_contribution, null_skip
from deeplimits.errors import InputError
from tests.diagnostics.models import Add, Mean, Residual

AT = (0, 1, 3, 7, 15, 31, 62)


def test_null_curves_of_an_untrained_network():
    """The issue's 15 % at d=256, L=64, where theory 2 item 7 reads the curves."""
    torch.manual_seed(0)
    use = depth_use(nn.Sequential(*(Residual(256) for _ in range(64))), torch.randn(64, 256), skips="mean", lens=False)
    for place in AT:
        assert use.contribution[place] == pytest.approx(use.null[place], rel=0.15)
        assert use.skips.next_block[place] == pytest.approx(use.skips.null[place], rel=0.15)
        assert abs(use.cosine[place]) < 0.1
    assert use.matched_null == pytest.approx(use.null, rel=0.05)
    assert use.half() == pytest.approx(use.null_half(), rel=0.15)


def test_nulls():
    assert null_contribution(64)[::9] == pytest.approx([(l + 1) ** -0.5 for l in range(0, 64, 9)])
    assert null_contribution(2, math.inf) == [math.inf, 1.0]
    assert null_skip(3) == pytest.approx([2**-0.5, 3**-0.5])


def test_known_updates():
    """Blocks that write twice the stream, erase half of it, and write across it."""
    h = torch.tensor([[3.0, 4.0]])
    model = nn.Sequential(Add(2 * h[0]), Add(-1.5 * h[0]), Add(torch.tensor([-4.0, 3.0])))
    use = depth_use(model, h, logits=False)
    assert use.contribution == pytest.approx((2.0, 0.5, 5 / 7.5))
    assert use.cosine == pytest.approx((1.0, -1.0, 0.0), abs=1e-7)
    assert use.sizes[0] == pytest.approx((25 / 2) ** 0.5)
    assert use.skips.updates == ((0.0,) * 3,) * 3
    final = float((h + 0.5 * h + torch.tensor([-4.0, 3.0])).norm())
    assert use.skips.output == pytest.approx([10.0 / final, 7.5 / final, 5.0 / final])
    assert use.lens is None
    assert use.score == pytest.approx((7.5 + 2 * 5.0) / 22.5)


def test_skips_are_what_a_second_pass_gives():
    blocks = [Residual(16) for _ in range(4)]
    model, x = nn.Sequential(*blocks, nn.Linear(16, 5)), torch.randn(7, 16)
    use = depth_use(model, x)
    with torch.no_grad():
        h = blocks[0](x)
        plain, other = blocks[2](blocks[1](h)) - blocks[1](h), blocks[2](h) - h
        change = (plain - other).norm(dim=-1) / plain.norm(dim=-1)
        answers = model(x).softmax(-1), model[4](blocks[3](blocks[2](h))).softmax(-1)
    assert use.skips.updates[1][2] == pytest.approx(float(change.max()), rel=1e-5)
    assert use.skips.output[1] == pytest.approx(float((answers[0] - answers[1]).norm(dim=-1).max()), rel=1e-4)
    assert depth_use(model, x, skips="mean").skips.updates[1][2] == pytest.approx(float(change.mean()), rel=1e-5)


def test_lens_is_the_readout_of_each_layer():
    blocks = [Residual(16) for _ in range(3)]
    model, x = nn.Sequential(*blocks, nn.LayerNorm(16), nn.Linear(16, 8)), torch.randn(7, 16)
    lens = depth_use(model, x, top=2, skips=None).lens
    with torch.no_grad():
        h, final = x, model(x).log_softmax(-1)
        for layer in range(4):
            own = model[3:](h).log_softmax(-1)
            assert lens.divergence[layer] == pytest.approx(
                float((final.exp() * (final - own)).sum(-1).mean()), abs=1e-6
            )
            both = [set(a) & set(b) for a, b in zip(final.topk(2)[1].tolist(), own.topk(2)[1].tolist(), strict=True)]
            assert lens.overlap[layer] == pytest.approx(sum(map(len, both)) / 14)
            h = blocks[layer](h) if layer < 3 else h
    assert (lens.divergence[-1], lens.overlap[-1]) == (0.0, 1.0)


def test_future_only_sees_what_crosses_places():
    x = torch.randn(2, 6, 8)
    apart = depth_use(nn.Sequential(*(Residual(8) for _ in range(3))), x, future=2, logits=False)
    assert max(max(row) for row in apart.skips.updates) == max(apart.skips.output) == 0.0
    mixing = depth_use(nn.Sequential(Mean(), Mean(), Mean()), x, future=2, logits=False)
    assert min(mixing.skips.updates[0][1:]) > 0 and mixing.skips.output[2] == 0.0
    assert mixing.skips.output[0] > 0


def test_features_of_images():
    class Conv(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(4, 4, 3, padding=1)

        def forward(self, h):
            return h + self.conv(h)

    model = nn.Sequential(Conv(), Conv(), nn.Flatten(), nn.Linear(4 * 25, 3))
    x = torch.randn(2, 4, 5, 5)
    use = depth_use(model, x, features=1)
    with torch.no_grad():
        ratio = model[0].conv(x).norm(dim=1) / x.norm(dim=1)
    assert use.contribution[0] == pytest.approx(float(ratio.mean()), rel=1e-5)
    assert use.places == 50


def test_the_model_is_left_as_it_was():
    model = nn.Sequential(Residual(8), Residual(8), nn.Dropout(0.5), nn.Linear(8, 3))
    model[2].eval()
    depth_use(model, torch.randn(4, 8))
    assert [module.training for module in model] == [True, True, False, True]
    assert all("forward" not in vars(module) and not module._forward_hooks for module in model.modules())


def test_blocks_that_write_on_what_they_read():
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(0.5))

        def forward(self, h):
            h += self.scale * h
            return h

    use = depth_use(nn.Sequential(InPlace(), InPlace(), InPlace()), torch.randn(4, 8), logits=False)
    assert use.contribution == pytest.approx((0.5, 0.5, 0.5))
    assert use.skips.updates[0][1:] == pytest.approx((1 / 3, 1 / 3))


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_hugging_face(family):
    transformers = pytest.importorskip("transformers")
    common = {"vocab_size": 50, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    configs = {
        "gpt2": lambda: transformers.GPT2Config(n_embd=32, n_head=2, n_layer=3, n_positions=32, **common),
        "llama": lambda: transformers.LlamaConfig(
            hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, num_hidden_layers=3,
            **common,
        ),
    }  # fmt: skip
    model = transformers.AutoModelForCausalLM.from_config(configs[family]())
    words = torch.arange(24).reshape(2, 12)
    use = depth_use(model, {"input_ids": words}, future=5)
    parts = {"gpt2": ("attn", "mlp"), "llama": ("self_attn", "mlp")}[family]
    assert tuple(part.name for part in use.sublayers) == parts
    with torch.no_grad():
        states = model.eval()(words, output_hidden_states=True).hidden_states
    kept = states[0].norm(dim=-1) > 0  # the embedding of padding is zero
    ratio = ((states[1] - states[0]).norm(dim=-1) / states[0].norm(dim=-1))[kept]
    assert use.contribution[0] == pytest.approx(float(ratio.mean()), rel=1e-4)
    assert use.lens.overlap[-1] == 1.0 and min(use.skips.updates[0][1:]) > 0
    assert len(dl.plot(use).axes) >= 5


def test_blocks_by_name():
    net = nn.Sequential()
    net.layers, net.other = nn.Sequential(*(Residual(8) for _ in range(3))), nn.Sequential(Add(torch.ones(8)))
    names = ("layers.0", "layers.1", "layers.2")
    for blocks in ("layers", names, list(net.layers), None):
        assert depth_use(net, torch.randn(3, 8), blocks, lens=False).names == names


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"blocks": "layer"}, "no module 'layer'"),
        ({"blocks": []}, "no blocks"),
        ({"blocks": ["0", "2"]}, "2 does not read what 0 gives"),
        ({"blocks": ["3"]}, r"3 reads \(4, 8\) and gives \(4, 5\)"),
        ({"blocks": [nn.Identity()]}, "Identity that is not in the model"),
        ({"skips": "min"}, "skips='min'"),
        ({"top": 0}, "top=0"),
        ({"future": 1}, "has 0 places"),
        ({"sublayers": ("up", "down")}, "miss its update"),
        ({"sublayers": ("attn",)}, "has no module 'attn'"),
    ],
)
def test_refusals(change, words):
    model = nn.Sequential(Residual(8), Residual(8), Residual(8), nn.Linear(8, 5))
    with pytest.raises(InputError, match=words):
        depth_use(model, torch.randn(4, 8), **change)


def test_values_that_are_not_finite():
    x = torch.randn(4, 8)
    x[2, 3] = torch.nan
    with pytest.raises(InputError, match=r"0 reads nan at \(2, 3\)"):
        depth_use(nn.Sequential(Residual(8), Residual(8)), x)


def test_outputs_that_are_no_tensor():
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(Residual(8), Residual(8))

        def forward(self, x):
            return {"answer": self.layers(x)}

    with pytest.raises(InputError, match="Words returns no tensor"):
        depth_use(Words(), torch.randn(4, 8))


def test_models_without_a_chain():
    with pytest.raises(InputError, match="no chain of equal modules"):
        depth_use(nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 8)), torch.randn(4, 8))


@pytest.mark.parametrize(
    ("effects", "words"), [([1.0, -1.0], "block 1"), ([0.0, 0.0], "no block"), ([math.nan], "nan")]
)
def test_scores_refused(effects, words):
    with pytest.raises(InputError, match=words):
        depth_score(effects)


def test_sublayers_are_those_that_are_added():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.unused = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, h):
            h = h + self.first(h)
            return h + self.second(h) + 0 * self.unused(h)

    model, x = nn.Sequential(Two(), Two()), torch.randn(5, 8)
    first, second = depth_use(model, x).sublayers
    assert (first.name, second.name) == ("first", "second")
    with torch.no_grad():
        h = x + model[0].first(x)
        ratio = (model[0].second(h).norm(dim=-1) / h.norm(dim=-1)).mean()
    assert second.contribution[0] == pytest.approx(float(ratio), rel=1e-5)


def test_a_name_is_no_model():
    with pytest.raises(InputError, match=r"'gpt2' is no torch\.nn\.Module"):
        depth_use("gpt2", torch.ones(2, 3))
