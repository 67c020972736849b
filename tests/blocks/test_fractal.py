"""FractalNet: its counts, its columns, and both kinds of drop-path."""

import pytest
import torch
from torch import nn

from deeplimits.blocks import Fractal, FractalNet
from deeplimits.errors import InputError

WIDTH = 8


class Double(nn.Module):
    """Twice its input: a path through k units multiplies by 2^k."""

    def forward(self, z):
        return 2 * z


def dense(first):
    return nn.Sequential(nn.Linear(4 if first else WIDTH, WIDTH), nn.Tanh())


@pytest.mark.parametrize(("columns", "paths"), [(1, 1), (2, 2), (3, 5), (4, 26), (5, 677)])
def test_counts(columns, paths, monkeypatch):
    block = Fractal(lambda first: nn.Identity(), columns).eval()
    assert sum(len(column) for column in block.units) == 2**columns - 1
    assert (block.depth, block.paths) == (2 ** (columns - 1), paths)
    monkeypatch.setattr(torch.Tensor, "mean", torch.Tensor.sum)  # joins that add count every path once
    assert block(torch.ones(1, dtype=torch.float64)).item() == paths


def test_joins_are_means_over_all_columns_that_end_there():
    """C = 3: columns of 1, 2 and 4 units; joins of two after 2 and of three after 4."""
    block = Fractal(lambda first: Double(), 3).eval()
    middle = (2.0 + 4.0) / 2
    assert block(torch.ones(1)).item() == pytest.approx((2.0 + 2 * middle + 4 * middle) / 3)


def test_two_columns_are_the_recursive_rule():
    block = Fractal(dense_same, 2).eval()
    short, deep = block.units
    z = torch.randn(3, WIDTH)
    torch.testing.assert_close(block(z), (short[0](z) + deep[1](deep[0](z))) / 2)


def dense_same(first):
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())


@pytest.mark.parametrize("column", [0, 1, 2])
def test_a_column_alone_is_a_plain_network(column):
    block = Fractal(dense, 3)
    z = torch.randn(3, 4)
    plain = nn.Sequential(*block.units[column])
    assert len(plain) == 2**column
    torch.testing.assert_close(block(z, column=column), plain(z))


def test_drop_path_only_in_training():
    block = Fractal(lambda first: Double(), 3, drop=0.5)
    assert len({block(torch.ones(1)).item() for _ in range(20)}) > 1
    block.eval()
    assert len({block(torch.ones(1)).item() for _ in range(20)}) == 1


def test_local_drop_keeps_one_input_and_drops_at_its_rate():
    block = Fractal(lambda first: Double(), 2, drop=0.4)
    # inputs of the last join: 2 (short) and 4 (deep); kept alone with chance 0.24 + half of 0.16 each, both with 0.36
    found = [block(torch.ones(1)).item() for _ in range(2000)]
    for value, chance in ((2.0, 0.32), (4.0, 0.32), (3.0, 0.36)):
        assert found.count(value) / 2000 == pytest.approx(chance, abs=5 * (chance * (1 - chance) / 2000) ** 0.5)


def test_global_drop_draws_one_column_for_all_blocks():
    net = FractalNet([Fractal(lambda first: Double(), 3), Fractal(lambda first: Double(), 3)], whole=1.0)
    assert {net(torch.ones(1)).item() for _ in range(60)} == {4.0, 16.0, 256.0}
    net.eval()
    assert net(torch.ones(1), column=2).item() == 256.0


@pytest.mark.parametrize(
    ("columns", "drop", "words"), [(0, 0.1, "columns=0"), (2.0, 0.1, "columns=2.0"), (2, 1.0, "drop=1.0")]
)
def test_fractal_refuses(columns, drop, words):
    with pytest.raises(InputError, match=words):
        Fractal(dense, columns, drop)


def test_columns_that_are_not_there():
    with pytest.raises(InputError, match="column=3"):
        Fractal(dense, 3)(torch.randn(2, 4), column=3)
    with pytest.raises(InputError, match=r"\[2, 3\]"):
        FractalNet([Fractal(dense, 2), Fractal(dense_same, 3)])
    with pytest.raises(InputError, match="no fractal block"):
        FractalNet([nn.Identity()])
