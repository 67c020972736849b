"""Models put together unusually: PyTorch's own transformer, blocks under names, functional calls, warm starts."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import deeplimits as dl
from tests.transfer.models import Block, Gpt, Mlp
from tests.transfer.test_gains import sandwiches

BASE, TARGET = {"width": 32, "depth": 4}, {"width": 64, "depth": 8}
X = torch.linspace(-1, 1, 60).reshape(5, 12)


class Encoder(nn.Module):
    """torch.nn's transformer, norms first."""

    def __init__(self, width, depth, first=True):
        super().__init__()
        self.read_in, self.head = nn.Linear(12, width), nn.Linear(width, 3)
        layer = nn.TransformerEncoderLayer(width, width // 8, 2 * width, 0.0, batch_first=True, norm_first=first)
        self.encoder = nn.TransformerEncoder(layer, depth, nn.LayerNorm(width), enable_nested_tensor=False)

    def forward(self, x):
        return self.head(self.encoder(self.read_in(x)[None])[0])


def test_pytorchs_own_transformer():
    plan = dl.transfer(Encoder, base=BASE, target=TARGET)
    inner = {row.name.split("layers.3.")[1]: row for row in plan.rows if "layers.3." in row.name}
    assert {name for name, row in inner.items() if row.branch_output} == {
        f"{layer}.{kind}" for layer in ("self_attn.out_proj", "linear2") for kind in ("weight", "bias")
    }
    packed = inner["self_attn.in_proj_weight"]
    assert (packed.role, packed.fan_in_ratio, packed.fan_out_ratio, packed.lr_mult) == ("hidden", 2, 2, 1 / 2)
    assert "attention: 4 heads of 8 become 8 of 8" in plan.notes
    assert not any("not used" in note for note in plan.notes)
    with pytest.raises(dl.DeepLimitsError, match="not the identity"):
        dl.transfer(lambda width, depth: Encoder(width, depth, first=False), base=BASE, target=TARGET)


class ByName(nn.Module):
    """Blocks in a dictionary, `block_0` and on, or as attributes; counted from `start`."""

    def __init__(self, width, depth, start=0, attributes=False):
        super().__init__()
        self.read_in, self.head = nn.Linear(12, width), nn.Linear(width, 3)
        blocks = {f"block_{n}": Block(width) for n in range(start, start + depth)}
        self.blocks = nn.ModuleDict({} if attributes else blocks)
        for name, block in blocks.items() if attributes else ():
            setattr(self, name, block)
        self.names = list(blocks)

    def forward(self, x):
        h = self.read_in(x)
        for name in self.names:
            h = (self.blocks[name] if name in self.blocks else getattr(self, name))(h)
        return self.head(h)


@pytest.mark.parametrize("attributes", [False, True])
def test_blocks_under_names(attributes):
    plan = dl.transfer(lambda width, depth: ByName(width, depth, 1, attributes), base=BASE, target=TARGET)
    head = "" if attributes else "blocks."
    assert {row.name for row in plan.rows if row.branch_output} == {
        f"{head}block_{n}.down.{kind}" for n in range(1, 9) for kind in ("weight", "bias")
    }
    assert {row.depth_ratio for row in plan.rows} == {1.0, 2.0}


class Spare(Mlp):
    """A branch that training does not use, and buffers."""

    def __init__(self, width, depth):
        super().__init__(width, depth)
        self.spare = nn.Linear(width, width)
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("seen", torch.tensor(0), persistent=False)

    def forward(self, x):
        self.seen += 1
        return super().forward(x)


def test_unused_parameters_are_named_and_buffers_are_left_alone():
    plan = dl.transfer(Spare, base=BASE, target=TARGET)
    assert "not used in the forward pass that was tried: spare.weight, spare.bias" in plan.notes
    assert {"mean", "seen"}.isdisjoint(row.name for row in plan.rows)
    torch.manual_seed(0)
    model = Spare(**TARGET)
    plan.apply(model, initial=True)
    assert not model.mean.any() and plan["spare.weight"].role == "hidden"


def test_functional_calls_train_alike():
    plan = dl.transfer(Mlp, base=BASE, target=TARGET)
    torch.manual_seed(0)
    model = Mlp(**TARGET)
    plan.apply(model, initial=True)
    held = dict(model.named_parameters())
    direct = torch.autograd.grad(model(X).square().sum(), list(held.values()))
    called = torch.autograd.grad(torch.func.functional_call(model, held, X).square().sum(), list(held.values()))
    assert all(torch.equal(a, b) for a, b in zip(direct, called, strict=True))

    class Calling(nn.Module):
        """A model that calls another by its parameters."""

        def __init__(self, width, depth):
            super().__init__()
            self.inner = Mlp(width, depth)

        def forward(self, x):
            return torch.func.functional_call(self.inner, dict(self.inner.named_parameters()), x)

    other = dl.transfer(Calling, base=BASE, target=TARGET)
    assert [row.lr_mult for row in other.rows] == [row.lr_mult for row in plan.rows]
    assert [row.branch_output for row in other.rows] == [row.branch_output for row in plan.rows]


def test_warm_starts_keep_their_weights():
    """Trained weights of the target go on with the groups alone; nothing is rescaled."""
    plan = dl.transfer(Mlp, base=BASE, target=TARGET)
    torch.manual_seed(0)
    model = Mlp(**TARGET)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(3)
    before = {name: p.clone() for name, p in model.named_parameters()}
    groups = plan.param_groups(model, lr=1e-3)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert {name: g["lr"] for g in groups for name in g["param_names"]}["head.weight"] == pytest.approx(1e-3 / 2)
    with pytest.raises(dl.DeepLimitsError, match="do not have the size of initial values"):
        plan.apply(model, initial=True)


def test_a_tied_readout_without_a_norm_is_refused():
    class Bare(Gpt):
        def forward(self, x):
            h = self.words(x)
            for layer in self.layers:
                h = layer(h)
            return self.head(h)

    with pytest.raises(dl.DeepLimitsError, match="no norm before it can carry its factor") as caught:
        dl.transfer(lambda width, depth: Bare(width, depth, tied=True), base=BASE, target=TARGET)
    assert "untie the readout" in caught.value.fix


class Scaled(Gpt):
    """A tied readout whose logits are divided by a number, without a gain before it."""

    def __init__(self, width, depth):
        super().__init__(width, depth, tied=True, heads=width // 8)
        self.norm, self.logits_scaling = nn.LayerNorm(width, elementwise_affine=False), 2.0

    def forward(self, x):
        return super().forward(x) / self.logits_scaling


def test_a_tied_readout_may_be_scaled_by_a_number():
    """Tensor Programs V, Table 8: the table is an input, and the readout has 1/m in the forward pass."""
    plan = dl.transfer(Scaled, base=BASE, target=TARGET)
    assert plan.scales == {"logits_scaling": 4.0}
    assert (plan["words.weight"].role, plan["words.weight"].lr_mult, plan["words.weight"].init_mult) == ("input", 1, 1)
    model = Scaled(**TARGET)
    plan.apply(model, initial=True)
    assert model.logits_scaling == 4.0


def draw(width, depth, law):
    model = Mlp(width, depth)
    for name, p in model.named_parameters():
        if p.dim() > 1:
            std = {
                "constant": 0.02,
                "fan-in": p.shape[1] ** -0.5,
                "gpt-2": 0.02 / (2 * depth if "down" in name else 1) ** 0.5,
            }
            nn.init.normal_(p, std=std[law])
    return model


@pytest.mark.parametrize("instances", [False, True])
@pytest.mark.parametrize("law", ["constant", "fan-in", "gpt-2"])
def test_every_law_of_initial_values_ends_at_the_same_sizes(law, instances):
    """Measured: base's standard deviation times m_in^-1/2 (readout 1/m_in), in branches' ends times 1/m_L as well."""
    torch.manual_seed(3)
    base, target = draw(**BASE, law=law), draw(**TARGET, law=law)
    if instances:
        with torch.device("meta"):
            empty = Mlp(**TARGET)
        plan = dl.transfer(empty, base=base)
    else:
        plan = dl.transfer(lambda width, depth: draw(width, depth, law), base=BASE, target=TARGET)
    plan.apply(target, initial=True)
    expected = {"read_in": 1, "blocks.5.up": 2**-0.5, "blocks.5.down": 2**-0.5 / 2, "head": 1 / 2}
    own = dict(base.named_parameters())
    for name, ratio in expected.items():
        old, new = own[f"{name.replace('5', '2')}.weight"], target.get_parameter(f"{name}.weight")
        error = 5 * (0.5 / old.numel() + 0.5 / new.numel()) ** 0.5 * (1 if instances else 2)
        assert float((new.std() / old.std()).detach()) == pytest.approx(ratio, rel=error)


def test_two_instances_are_applied_once():
    """With values on both sides the target's own sizes are known to the plan; gains 1 + w are shifted once."""
    plan = dl.transfer(draw(**TARGET, law="constant"), base=draw(**BASE, law="constant"))
    row = plan["blocks.5.up.weight"]
    assert row.init_mult == pytest.approx(2**-0.5, rel=5 * (0.5 / 2048 + 0.5 / 8192) ** 0.5)
    model = draw(**TARGET, law="constant")
    plan.apply(model, initial=True)
    with pytest.raises(dl.DeepLimitsError, match="already have the planned initial size"):
        plan.apply(model, initial=True)
    deep = {"base": sandwiches(False)(32, 4), "target": sandwiches(False)(32, 8)}
    with torch.device("meta"):
        empty = sandwiches(False)(32, 8)
    other = dl.transfer(empty, base=deep["base"])
    other.apply(deep["target"], initial=True)
    assert deep["target"].blocks[3].after.weight.detach().unique().tolist() == [-1 / 2]
    with pytest.raises(dl.DeepLimitsError, match="already have the planned initial size"):
        other.apply(deep["target"], initial=True)


def test_a_base_without_values_has_no_sizes():
    with torch.device("meta"):
        small, large = Mlp(32, 4), Mlp(64, 4)
    plan = dl.transfer(large, base=small, rule="mup")
    model = Mlp(64, 4)
    assert {g["lr"] for g in plan.param_groups(model, lr=1.0)} == {1.0, 0.5}
    with pytest.raises(dl.DeepLimitsError, match="the base was on the meta device"):
        plan.apply(model, initial=True)
