"""The printed table of every rule, role by role, against the tables of the papers."""

from __future__ import annotations

import pytest

import deeplimits as dl
from deeplimits.transfer.role_table import COLUMNS, table
from deeplimits.transfer.rule import rules
from tests.transfer.models import Mlp

VECTOR = ("none", "none", "none")
# initial std, LR of SGD, Adam, orthogonal steps, eps, decay of SGD, AdamW, Muon, SAM's perturbation:
# Tensor Programs V, Table 3, and the spectral condition; eps and decay of CompleteP's Table 1, readout folded
MUP = {
    "input": ("1", "m", "1", "m^1/2", "m^-1", "m^-1", "1", "m^-1/2", "1"),
    "embedding": ("1", "m", "1", "m^1/2", "m^-1", "m^-1", "1", "m^-1/2", "1"),
    "hidden": ("m^-1/2", "1", "m^-1", "1", "m^-1", "1", "m", "1", "1"),
    "readout": ("m^-1", "m^-1", "m^-1", "m^-1/2", "1", "m", "m", "m^1/2", "1"),
    "bias": ("1", "m", "1", "m^1/2", "m^-1", *VECTOR, "1"),
    "gain": ("1", "m", "1", "m^1/2", "m^-1", *VECTOR, "1"),
}
FIXED = ("1", "1", "1", "1", "1", "1", "1", "1", "1")
GOLDEN = {
    "mup": MUP,
    "spectral": MUP,
    "completep": MUP
    | {
        "in a block, times": ("1", "m_L", "1", "1", "m_L^-1", "1", "1", "1", "1"),
        "ending a branch, times": ("m_L^-1", "m_L^-1", "m_L^-1", "m_L^-1", "1", "m_L^2", "m_L", "m_L", "1"),
    },
    "depth_mup": MUP
    | {
        "in a block, times": ("1", "1", "m_L^-1/2", "m_L^-1/2", "m_L^-1/2", "1", "1", "1", "1"),
        "ending a branch, times": ("m_L^-1/2", "m_L^-1", "m_L^-1", "m_L^-1", "1", "m_L", "m_L^1/2", "m_L^1/2", "1"),
    },
    "sp": {
        "input": FIXED,
        "hidden": ("m^-1/2", *FIXED[1:]),
        "readout": ("m^-1/2", *FIXED[1:]),
        "bias": (*FIXED[:5], *VECTOR, "1"),
    },
    "ntp": {"input": FIXED, "hidden": ("m^-1/2", "m^-1", "m^-1/2", "m^-1/2", "1", "m", "m^1/2", "m^1/2", "1")},
    "mean_field": {"input": ("1", "m", "1", "m^1/2", "1", "m^-1", "1", "m^-1/2", "1"), "readout": MUP["readout"]},
    "sp_layerwise": {"readout": ("m^-1/2", *MUP["readout"][1:]), "input": ("1", "m^1/2", "1", "m^1/2", "1", "m^-1/2")},
    "mup2_sam": {
        role: (*cells[:-1], {"hidden": "1", "readout": "m^-1/2"}.get(role, "m^1/2")) for role, cells in MUP.items()
    },
}


@pytest.mark.parametrize(("rule", "role"), [(rule, role) for rule in GOLDEN for role in GOLDEN[rule]])
def test_golden_table(rule, role):
    expected = GOLDEN[rule][role]
    assert table(rule)[role][: len(expected)] == expected


def test_every_rule_has_a_golden_table():
    assert set(GOLDEN) == set(rules())


@pytest.mark.parametrize("rule", GOLDEN)
def test_printed(rule):
    """What is printed is the table, with the rule's sources."""
    text = dl.transfer.explain(rule)
    assert all(key in text for key in rules()[rule].source)
    lines = {line[: line.index("  ")]: line.split("  ") for line in text.splitlines() if "  " in line}
    assert [cell.strip() for cell in lines["role"] if cell][1:] == list(COLUMNS)
    for role, cells in table(rule).items():
        assert [cell.strip() for cell in lines[role] if cell][1:] == list(cells)


def test_plans_follow_the_table():
    """A plan's numbers at 4 times the width are the printed powers of 4."""
    plan = dl.transfer(Mlp, base={"width": 32, "depth": 4}, target={"width": 128, "depth": 4}, rule="completep")
    names = {
        "input": "read_in.weight",
        "hidden": "blocks.1.up.weight",
        "readout": "head.weight",
        "bias": "read_in.bias",
    }
    powers = {"none": 1, "1": 1, "m": 4, "m^-1": 1 / 4, "m^-1/2": 1 / 2}
    for role, name in names.items():
        cells = dict(zip(COLUMNS, table("completep")[role], strict=True))
        row = plan[name]
        found = (row.init_ratio, row.lr_mult, row.eps_mult)
        assert found == pytest.approx([powers[cells[c]] for c in ("init std", "LR Adam", "eps")])


def test_any_alpha():
    cells = table("completep", alpha=0.75)["in a block, times"]
    assert cells[:5] == ("1", "m_L^1/2", "m_L^-1/4", "m_L^-1/4", "m_L^-3/4")
    assert "depth^-0.75" in dl.transfer.explain("completep", alpha=0.75)


def test_refused():
    with pytest.raises(dl.DeepLimitsError, match="did you mean 'completep'"):
        dl.transfer.explain("complete-p")
