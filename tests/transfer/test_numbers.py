"""What every role gets, against the tables of the papers."""

from __future__ import annotations

import pytest

import deeplimits as dl
from deeplimits.transfer.rule import family, get, rules
from tests.transfer.models import ConvNet, Gpt, Mlp

WIDE = {"base": {"width": 32, "depth": 4}, "target": {"width": 128, "depth": 4}}
DEEP = {"base": {"width": 32, "depth": 4}, "target": {"width": 32, "depth": 16}}
BOTH = {"base": {"width": 32, "depth": 4}, "target": {"width": 128, "depth": 64}}
NAMES = {"input": "read_in.weight", "bias": "read_in.bias", "hidden": "blocks.1.up.weight", "output": "head.weight"}
# exponents of the width in (initial std, SGD, Adam, orthogonal steps): Tensor Programs V Table 3 and others
TABLES = {
    "sp": {"input": (0, 0, 0, 0), "bias": (0, 0, 0, 0), "hidden": (-0.5, 0, 0, 0), "output": (-0.5, 0, 0, 0)},
    "ntp": {
        "input": (0, 0, 0, 0),
        "bias": (0, 0, 0, 0),
        "hidden": (-0.5, -1, -0.5, -0.5),
        "output": (-0.5, -1, -0.5, -0.5),
    },
    "mup": {"input": (0, 1, 0, 0.5), "bias": (0, 1, 0, 0.5), "hidden": (-0.5, 0, -1, 0), "output": (-1, -1, -1, -0.5)},
    "sp_layerwise": {
        "input": (0, 0.5, 0, 0.5),
        "bias": (0, 0.5, 0, 0.5),
        "hidden": (-0.5, -0.5, -1, 0),
        "output": (-0.5, -1, -1, -0.5),
    },
}
TABLES["spectral"] = TABLES["mup2_sam"] = TABLES["mup"]


@pytest.mark.parametrize("role", NAMES)
@pytest.mark.parametrize("rule", TABLES)
def test_width_tables(rule, role):
    for place, optimizer in enumerate(["sgd", "adamw", "spectral"]):
        row = dl.transfer(Mlp, **WIDE, rule=rule, optimizer=optimizer)[NAMES[role]]
        expected = TABLES[rule][role]
        assert row.init_ratio == pytest.approx(4 ** expected[0])
        assert row.lr_mult == pytest.approx(4 ** expected[1 + place])


def test_mean_field_is_mup_for_one_hidden_layer():
    for kind in ("sgd", "entrywise"):
        for ratios in ((1.0, 4.0), (4.0, 1.0)):
            assert get("mean_field").lr[kind](*ratios) == get("mup").lr[kind](*ratios)
            assert get("mean_field").init(*ratios) == get("mup").init(*ratios)


@pytest.mark.parametrize(("rule", "alpha"), [("depth_mup", 0.5), ("completep", 1.0)])
def test_depth_table(rule, alpha):
    """CompleteP, Table 1, with the branch's multiplier folded into the layer that ends it."""
    plan, m = dl.transfer(Mlp, **BOTH, rule=rule), 16.0
    up, down, bias, gain = (plan[f"blocks.9.{name}"] for name in ("up.weight", "down.weight", "up.bias", "norm.weight"))
    assert up.lr_mult == pytest.approx(m ** (alpha - 1) / 4)
    assert (bias.lr_mult, gain.lr_mult) == pytest.approx((m ** (alpha - 1),) * 2)
    assert down.lr_mult == pytest.approx(m**-alpha * m ** (alpha - 1) / 4)
    assert (up.init_ratio, down.init_ratio) == pytest.approx((0.5, 0.5 * m**-alpha))
    assert (up.decay_mult, down.decay_mult) == pytest.approx((4, 4 * m**alpha))
    assert up.eps_mult == pytest.approx(m**-alpha / 4)
    assert down.eps_mult == pytest.approx(1 / 4)
    for name in ("read_in.weight", "norm.weight"):
        assert plan[name].lr_mult == 1
        assert plan[name].eps_mult == pytest.approx(1 / 4)
    assert (plan["head.weight"].lr_mult, plan["head.weight"].eps_mult) == (1 / 4, 1)
    assert {row.name for row in plan.rows if row.branch_output} == {
        f"blocks.{place}.down.{kind}" for place in range(64) for kind in ("weight", "bias")
    }


def test_sgd_in_depth():
    for alpha in (0.5, 1.0):
        plan = dl.transfer(Mlp, **DEEP, rule="completep", alpha=alpha, optimizer="sgd")
        assert plan["blocks.3.up.weight"].lr_mult == pytest.approx(4 ** (2 * alpha - 1))
        assert plan["blocks.3.down.weight"].lr_mult == pytest.approx(1 / 4)


def test_independent_decay_stays():
    assert {row.decay_mult for row in dl.transfer(Mlp, **WIDE, rule="mup", decay="independent").rows} == {1.0}


def test_unequal_ratios_without_role_names():
    """Grouped heads, experts, routers and positions follow from their own fan-in and fan-out."""
    plan = dl.transfer(Gpt, **WIDE, rule="mup")
    roles = {name: plan[name].role for name in ("words.weight", "places", "layers.0.router.weight", "head.weight")}
    assert roles == {
        "words.weight": "input",
        "places": "gain or bias",
        "layers.0.router.weight": "output",
        "head.weight": "output",
    }
    for name in ("layers.0.rise", "layers.0.fall", "layers.0.both.weight"):
        assert (plan[name].fan_in_ratio, plan[name].fan_out_ratio, plan[name].lr_mult) == (4, 4, 1 / 4)
    assert plan["layers.0.router.weight"].lr_mult == 1 / 4
    ends = {row.name for row in dl.transfer(Gpt, **DEEP).rows if row.branch_output and ".2." in row.name}
    assert ends == {"layers.2.mix.weight", "layers.2.mix.bias", "layers.2.fall"}


def test_convolutional_readout():
    plan = dl.transfer(ConvNet, base={"width": 16}, target={"width": 64}, rule="mup")
    assert [plan[name].role for name in ("stem.weight", "body.0.weight", "head.weight")] == [
        "input",
        "hidden",
        "output",
    ]
    assert [plan[name].lr_mult for name in ("stem.weight", "body.0.weight", "head.weight")] == [1, 1 / 4, 1 / 4]


def test_tied_readout_puts_its_multiplier_into_the_last_gain():
    def build(width, depth):
        return Gpt(width, depth, tied=True)

    plan = dl.transfer(build, **WIDE, rule="mup")
    assert (plan["words.weight"].lr_mult, plan["words.weight"].init_ratio) == (1, 1)
    for name in ("norm.weight", "norm.bias"):
        assert (plan[name].lr_mult, plan[name].init_ratio) == (1 / 4, 1 / 4)
    assert "head.weight" not in {row.name for row in plan.rows}


def test_families_and_names():
    assert [family(name) for name in ("SGD", "Lion", "Adam", "Muon")] == ["sgd", "entrywise", "entrywise", "spectral"]
    with pytest.raises(dl.DeepLimitsError, match="of no known family"):
        family("sophia")
    with pytest.raises(dl.DeepLimitsError, match="did you mean 'completep'"):
        get("complete-p")
    for rule in rules().values():
        assert rule.source and rule.words and rule.valid


def test_rules_name_known_references():
    import importlib.resources

    text = importlib.resources.files("deeplimits").joinpath("references.bib").read_text()
    for rule in rules().values():
        for key in rule.source:
            assert f"{{{key}," in text
