"""Reports of users of other tools on roles, readouts, initial values and what is printed, asked of this one."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest
import torch
from torch import nn

import deeplimits as dl
from tests.transfer.models import ConvNet, Gpt, Mlp

BASE, WIDE = {"width": 32, "depth": 4}, {"width": 128, "depth": 4}


def rms(tensor):
    return float(tensor.detach().double().square().mean().sqrt())


@pytest.fixture(scope="module")
def mup():
    return {name: dl.transfer(Mlp, base=BASE, target=WIDE, rule="mup", optimizer=name) for name in ("adamw", "sgd")}


def small_tied(width, depth):
    model = Gpt(width, depth, tied=True)
    nn.init.normal_(model.words.weight, std=0.02)
    return model


def test_report_01_tied_embeddings_keep_their_size():
    """microsoft/mup#55: a tied embedding was multiplied by the square root of the width multiplier."""
    plan, ids = dl.transfer(small_tied, base=BASE, target=WIDE, rule="mup"), torch.arange(136).reshape(17, 8) % 17
    torch.manual_seed(0)
    model = small_tied(**WIDE)
    before = model.words.weight.detach().clone()
    plan.apply(model, initial=True)
    torch.testing.assert_close(model.words.weight.detach(), before, rtol=0, atol=0)
    assert plan["words.weight"].init_ratio == plan["words.weight"].lr_mult == 1
    with torch.no_grad():
        logits = model(ids)
        start = float(nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten()))
    size = 0.02 * sqrt(128) / 4  # of a logit: the table's, the width's, the factor 1/4 in the last gain
    assert start == pytest.approx(log(17), abs=size**2 / 2 + 5 * size * ids.numel() ** -0.5)


def test_report_04_the_form_of_the_table_is_said():
    """microsoft/mup#7: the readout's learning rate looked unlike the paper's table, and was another form of it."""
    text = dl.transfer.explain("mup")
    assert "Table 3" in text and "Table 8" in text and "the same training" in text
    assert "folded into initial values and learning rates" in text


def test_report_05_biases_and_readouts_as_in_the_table(mup):
    """microsoft/mup#57: scales of biases and of the readout seemed to contradict Table 8. Golden: Table 3, m = 4."""
    golden = {
        "read_in.weight": (1, 1, 4),
        "read_in.bias": (1, 1, 4),
        "norm.weight": (1, 1, 4),
        "blocks.0.up.weight": (1 / 2, 1 / 4, 1),
        "blocks.0.up.bias": (1, 1, 4),
        "head.weight": (1 / 4, 1 / 4, 1 / 4),
        "head.bias": (1, 1, 1),
    }
    for name, (init, adam, sgd) in golden.items():
        assert mup["adamw"][name].init_ratio == init
        assert (mup["adamw"][name].lr_mult, mup["sgd"][name].lr_mult) == (adam, sgd)


class Conv1d(nn.Module):
    """A convolutional network in time whose readout is a convolution of width one."""

    def __init__(self, width):
        super().__init__()
        self.stem, self.body = nn.Conv1d(3, width, 3, padding=1), nn.Conv1d(width, width, 3, padding=1)
        self.head = nn.Conv1d(width, 5, 1)

    def forward(self, x):
        return self.head(torch.relu(self.body(torch.relu(self.stem(x))))).mean(2)


@pytest.mark.parametrize("build", [Conv1d, ConvNet])
def test_report_12_readouts_that_are_convolutions(build):
    """microsoft/mup#14, #23: a Conv1d readout went unnoticed, and blew up."""
    plan = dl.transfer(build, base={"width": 32}, target={"width": 128}, rule="mup")
    row = plan["head.weight"]
    assert (row.role, row.init_ratio, row.lr_mult, row.eps_mult) == ("output", 1 / 4, 1 / 4, 1)
    assert plan["stem.weight"].role == "input"


class Channels(nn.Module):
    """Attention between channels: logits sum over places, whose number stays, and no head grows."""

    def __init__(self, width):
        super().__init__()
        self.stem, self.query, self.key = (nn.Linear(a, width) for a in (12, width, width))
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        h = self.stem(x)
        mixed = (self.query(h).mT @ self.key(h) / sqrt(h.shape[1])).softmax(-1)
        return self.head(h @ mixed)


def test_report_13_heads_that_grow_and_heads_that_become_more():
    """microsoft/mup#17, #18: whether n_head or d_head grows decides the logits' scale; attention between channels."""
    grown = dl.transfer(Gpt, base=BASE, target=WIDE, rule="mup")
    more = dl.transfer(lambda width, depth: Gpt(width, depth, heads=width // 8), base=BASE, target=WIDE, rule="mup")
    assert "attention: 4 heads of 8 become 4 of 32" in grown.notes
    assert "attention: 4 heads of 8 become 16 of 8" in more.notes
    for name, factor in (("layers.0.query.weight", 1 / 2), ("layers.0.mix.weight", 1)):
        assert grown[name].init_ratio == factor * more[name].init_ratio
        assert grown[name].lr_mult == factor * more[name].lr_mult
    over = {"base": {"width": 32}, "target": {"width": 128}, "rule": "mup", "inputs": torch.randn(2, 6, 12)}
    assert not any("heads" in note for note in dl.transfer(Channels, **over).notes)


class Odd(nn.Module):
    """A branch of layers that nobody foresaw, and that do not grow."""

    def __init__(self, width):
        super().__init__()
        self.stem, self.pair, self.head = nn.Linear(12, width), nn.Bilinear(12, 12, 6), nn.Linear(width + 6, 3)
        self.gain = nn.Parameter(torch.ones(6))

    def forward(self, x):
        return self.head(torch.cat([self.stem(x), self.gain * self.pair(x, x)], -1))


def test_report_14_layers_nobody_foresaw():
    """microsoft/mup#62: an assertion fired on unexpected layers; what does not grow is left as it is, and said."""
    plan = dl.transfer(Odd, base={"width": 64}, target={"width": 256}, rule="mup", inputs=torch.randn(2, 12))
    for name in ("pair.weight", "pair.bias", "gain"):
        assert (plan[name].lr_mult, plan[name].init_ratio, plan[name].reason) == (1, 1, "does not grow")
    assert plan["head.weight"].fan_in_ratio == pytest.approx(262 / 70)
    assert any("% of the parameters" in note for note in plan.notes)


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_report_15_gains_and_biases_of_norms(alpha):
    """microsoft/mup#28: multipliers of LayerNorm's gain and bias were unclear."""
    plan = dl.transfer(Mlp, base=BASE, target={"width": 128, "depth": 16}, alpha=alpha)
    for kind in ("weight", "bias"):
        assert plan[f"norm.{kind}"].lr_mult == 1
        assert plan[f"blocks.7.norm.{kind}"].lr_mult == pytest.approx(4 ** (alpha - 1))
        assert plan[f"blocks.7.norm.{kind}"].init_ratio == 1


def test_report_20_standard_deviations_fall_as_the_root():
    """EleutherAI/gpt-neox#1087: the standard deviation was divided by m, not by its square root."""
    widths, found = (64, 128, 256), {"blocks.0.up.weight": [], "head.weight": [], "read_in.weight": []}
    for width in widths:
        torch.manual_seed(0)
        model = Mlp(width, 4)
        dl.transfer(Mlp, base=BASE, target={"width": width, "depth": 4}, rule="mup").apply(model, initial=True)
        for name in found:
            found[name].append(rms(model.get_parameter(name)))
    slopes = {name: np.polyfit(np.log(widths), np.log(values), 1)[0] for name, values in found.items()}
    error = 5 * (3 * 64) ** -0.5 / log(4)  # of the smallest tensor, the readout's
    assert slopes == pytest.approx({"blocks.0.up.weight": -0.5, "head.weight": -1, "read_in.weight": 0}, abs=error)


def test_report_21_multipliers_are_found_and_printed(mup):
    """EleutherAI/nanoGPT-mup#8: why must a user type the multiplier, and what is a base of 256?"""
    row = mup["adamw"]["blocks.2.down.weight"]
    assert (row.fan_in_ratio, row.fan_out_ratio) == (4, 4)
    text = mup["adamw"].explain()
    line = next(line for line in text.splitlines() if line.startswith("blocks.2.down.weight"))
    assert "128x256" in line and "0.25" in line and "LR m_in^-1" in line


def test_report_22_learning_rates_by_family_of_optimizer(mup):
    """graphcore/unit-scaling#73: why a learning rate rises under SGD and falls under Adam."""
    bias, hidden = "read_in.bias", "blocks.0.up.weight"
    assert (mup["sgd"][bias].lr_mult, mup["adamw"][bias].lr_mult) == (4, 1)
    assert (mup["sgd"][hidden].lr_mult, mup["adamw"][hidden].lr_mult) == (1, 1 / 4)
    with pytest.raises(dl.DeepLimitsError, match="name the family: sgd"):
        dl.transfer(Mlp, base=BASE, target=WIDE, rule="mup", optimizer="sophia")


class Expanded(nn.Module):
    """A perceptron whose inner width is its own size."""

    def __init__(self, width, inner):
        super().__init__()
        self.stem, self.up, self.down = nn.Linear(12, width), nn.Linear(width, inner), nn.Linear(inner, width)
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        h = self.stem(x)
        return self.head(h + self.down(torch.relu(self.up(h))))


def test_report_23_an_expansion_factor_is_the_width_of_the_inner_layer_only():
    """graphcore/unit-scaling#70: gradients scaled with the expansion factor of the feed-forward layer."""
    sizes = {"base": {"width": 64, "inner": 256}, "target": {"width": 64, "inner": 512}}
    plan = dl.transfer(Expanded, **sizes, rule="mup")
    ratios = {row.name: (row.fan_in_ratio, row.fan_out_ratio) for row in plan.rows}
    assert ratios["up.weight"] == ratios["up.bias"] == (1, 2)
    assert ratios["down.weight"] == (2, 1)
    assert {ratios[name] for name in ("stem.weight", "down.bias", "head.weight")} == {(1, 1)}
    assert [plan[name].lr_mult for name in ("up.weight", "down.weight", "stem.weight")] == [1, 1 / 2, 1]


def test_report_24_effective_learning_rates_are_shown(mup):
    """graphcore/unit-scaling#88: a model did not learn; which learning rate its vectors had was not to be seen."""
    model = Mlp(**WIDE)
    groups = mup["adamw"].param_groups(model, lr=2e-3)
    shown = {name: group["lr"] for group in groups for name in group["param_names"]}
    assert set(shown) == {name for name, _ in model.named_parameters()}
    vectors = {rate for name, rate in shown.items() if model.get_parameter(name).dim() == 1}
    assert vectors == {2e-3}
    optimizer = torch.optim.AdamW(groups)
    assert {n: g["lr"] for g in optimizer.param_groups for n in g["param_names"]} == shown


class Inner(nn.Module):
    """A block that mixes pieces of 16 entries, however wide it is."""

    def __init__(self, width, scale=1.0):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(width), nn.Linear(16, 16)

    def forward(self, h):
        return h + self.mix(self.norm(h).unflatten(-1, (-1, 16))).flatten(-2)


def test_report_31_matrices_that_are_left_out_are_refused():
    """datamol-io/graphium#206, #494: attention layers were silently left out of the base shapes."""
    with pytest.raises(dl.DeepLimitsError, match=r"do not grow while the model does: blocks\.0\.mix\.weight"):
        dl.transfer(lambda width, depth: Mlp(width, depth, block=Inner), base=BASE, target=WIDE, rule="mup")
    plan = dl.transfer(Mlp, base=BASE, target=WIDE, rule="mup")
    assert "100.0 % of the parameters" in plan.notes[0]


def test_report_33_grouped_heads_without_role_names():
    """marin-community/levanter#1231: the roles of query and key were disputed when the number of heads grows."""
    plan = dl.transfer(lambda width, depth: Gpt(width, depth, heads=width // 8), base=BASE, target=WIDE, rule="mup")
    for part in ("query", "both", "mix"):
        row = plan[f"layers.1.{part}.weight"]
        assert (row.role, row.fan_in_ratio, row.fan_out_ratio, row.lr_mult) == ("hidden", 4, 4, 1 / 4)


def test_report_36_no_line_of_a_library_model_changes(tmp_path):
    """huggingface/transformers#16157: it was thought that every file of models must be touched."""
    transformers = pytest.importorskip("transformers")
    from tests.transfer.test_hugging_face import SIZES, build

    plan = dl.transfer(build("Llama"), **SIZES)
    torch.manual_seed(0)
    model, ids = build("Llama")(**SIZES["target"]), torch.arange(12).reshape(2, 6)
    before = set(model.state_dict())
    plan.apply(model, initial=True)
    assert type(model) is transformers.LlamaForCausalLM
    assert set(model.state_dict()) == before
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    model.save_pretrained(tmp_path)
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    with torch.no_grad():
        torch.testing.assert_close(again(ids).logits, model(ids).logits, rtol=1e-5, atol=1e-6)
