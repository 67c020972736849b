"""Convolutions, patches, class tokens, stages of blocks: roles and residual branches of vision models."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import deeplimits as dl
from tests.transfer.vision_models import BasicBlock, ResNet, Vit

BOTH = {"base": {"width": 32, "depth": 2}, "target": {"width": 64, "depth": 4}}


def roles(plan):
    return {row.name: row.role for row in plan.rows}


def ends(plan):
    return {row.name for row in plan.rows if row.branch_output}


def test_vit():
    plan = dl.transfer(Vit, **BOTH)
    found = roles(plan)
    assert found["patch_embed.weight"] == "input" and found["head.weight"] == "output"
    assert found["pos_embed"] == found["cls_token"] == found["norm.weight"] == "gain or bias"
    assert {plan[name].lr_mult for name in ("patch_embed.weight", "pos_embed", "cls_token", "head.bias")} == {1.0}
    hidden = {"attn.qkv", "attn.proj", "mlp.0", "mlp.2"}
    assert {name for name, role in found.items() if role == "hidden"} == {
        f"blocks.{n}.{p}.weight" for n in range(4) for p in hidden
    }
    assert ends(plan) == {
        f"blocks.{n}.{p}.{k}" for n in range(4) for p in ("attn.proj", "mlp.2") for k in ("weight", "bias")
    }
    assert plan["blocks.3.attn.qkv.weight"].lr_mult == plan["head.weight"].lr_mult == 1 / 2
    assert plan["blocks.3.mlp.2.weight"].lr_mult == 1 / 2 / 2


def test_vit_with_gains_on_its_branches():
    plan = dl.transfer(lambda width, depth: Vit(width, depth, layer_scale=True), **BOTH)
    assert ends(plan) == {f"blocks.{n}.gains.{p}" for n in range(4) for p in (0, 1)}
    assert plan["blocks.0.gains.1"].init_mult == pytest.approx(1 / 2)


def test_vit_with_larger_heads_scales_its_logits():
    plan = dl.transfer(lambda width, depth: Vit(width, depth, heads=4), **BOTH)
    assert plan.scales == pytest.approx({f"blocks.{n}.attn.scale": 8**0.5 / 16 for n in range(4)})


def test_resnet_in_width():
    plan = dl.transfer(
        lambda width: ResNet(width, 2, BasicBlock), base={"width": 32}, target={"width": 128}, rule="mup"
    )
    found = roles(plan)
    assert {name for name, role in found.items() if role == "input"} == {"stem.weight"}
    assert {name for name, role in found.items() if role == "output"} == {"fc.weight"}
    hidden = {name for name, role in found.items() if role == "hidden"}
    assert {"layer1.0.conv1.weight", "layer2.0.downsample.0.weight", "layer3.1.conv2.weight"} <= hidden
    assert {plan[name].lr_mult for name in hidden} == {1 / 4}
    assert {plan[name].init_ratio for name in hidden} == {1 / 2}  # of a standard deviation in 1/sqrt(fan-in)
    assert found["layer2.1.bn2.weight"] == "gain or bias" and plan["layer2.1.bn2.weight"].lr_mult == 1


def test_resnet_whose_stream_passes_an_activation_is_refused_in_depth():
    with pytest.raises(dl.DeepLimitsError, match="an activation follows the sum of"):
        dl.transfer(lambda width, depth: ResNet(width, depth, BasicBlock), **BOTH)


def test_resnet_in_stages():
    """Stages of their own width; the first block of a stage has no identity path, and its number stays."""
    plan = dl.transfer(ResNet, base={"width": 32, "depth": 2}, target={"width": 64, "depth": 5})
    blocks = {f"layer1.{n}" for n in range(5)} | {f"layer{s}.{n}" for s in (2, 3) for n in range(1, 5)}
    assert ends(plan) == {f"{block}.conv2.weight" for block in blocks}
    ratios = {
        row.name.rpartition(".conv")[0]: row.depth_ratio for row in plan.rows if row.name.endswith("conv1.weight")
    }
    assert ratios == {f"layer1.{n}": 2.5 for n in range(5)} | {
        f"layer{s}.{n}": 1.0 if n == 0 else 4.0 for s in (2, 3) for n in range(5)
    }
    for name in ("layer2.0.conv1.weight", "layer3.4.conv1.weight", "layer3.0.downsample.0.weight"):
        assert (plan[name].fan_in_ratio, plan[name].fan_out_ratio, plan[name].lr_mult) == (2, 2, 1 / 2)
    assert plan["layer3.4.conv2.weight"].init_ratio == pytest.approx(2**-0.5 / 4)
    model = ResNet(64, 5)
    plan.apply(model, initial=True)
    assert model(torch.randn(2, 3, 32, 32)).isfinite().all()


def test_stages_without_a_block_to_repeat_are_refused():
    with pytest.raises(dl.DeepLimitsError, match="layer2 has blocks of 2 kinds in the target and of 1 in the base"):
        dl.transfer(ResNet, base={"width": 32, "depth": 1}, target={"width": 64, "depth": 3})


def test_depthwise_and_transposed_convolutions():
    """A depthwise kernel sums over its own pixels only; a transposed one is stored (in, out)."""

    class Net(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.stem, self.deep = nn.Conv2d(3, width, 1), nn.Conv2d(width, width, 3, groups=width)
            self.up, self.out = nn.ConvTranspose2d(width, 2 * width, 2), nn.ConvTranspose2d(2 * width, 3, 2)

        def forward(self, x):
            return self.out(self.up(self.deep(self.stem(x)).relu()).relu())

    plan = dl.transfer(Net, base={"width": 32}, target={"width": 96}, rule="mup")
    fans = {
        name: (plan[f"{name}.weight"].fan_in_ratio, plan[f"{name}.weight"].fan_out_ratio)
        for name in ("deep", "up", "out")
    }
    assert fans == {"deep": (1, 3), "up": (3, 3), "out": (3, 1)}
