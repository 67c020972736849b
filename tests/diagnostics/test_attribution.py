"""Integrated gradients, linear maps and ranks."""

import pytest
import torch
from torch import nn

from deeplimits.diagnostics import effective_rank, integrated_gradients, linear_maps, stable_rank
from deeplimits.errors import InputError
from tests.diagnostics.models import Add, Mean, Residual


def test_attributions_are_complete():
    model, x = (
        nn.Sequential(*(Residual(16, 0.5) for _ in range(4)), nn.LayerNorm(16), nn.Linear(16, 6)),
        torch.randn(9, 16),
    )
    answers = torch.randint(6, (9,))
    due = integrated_gradients(model.double(), x.double(), answers, points=32)
    with torch.no_grad():
        log = [net(x.double()).log_softmax(-1)[range(9), answers].sum() for net in (model, model[4:])]
    assert due.total == pytest.approx(float(log[0] - log[1]), rel=1e-9)
    assert sum(due.blocks) == pytest.approx(due.total, abs=0.02 * abs(due.total) + 0.02)
    assert due.gap == pytest.approx(sum(due.blocks) - due.total)


def test_linear_logits_are_attributed_exactly():
    """Two outputs, answers' log-odds linear in the stream: each block's share is its own logit's change, on average."""
    first, second = torch.tensor([[3.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    due = integrated_gradients(
        nn.Sequential(Add(first), Add(second)), torch.zeros(1, 2, dtype=torch.float64), torch.tensor([0])
    )
    assert due.blocks[0] / due.blocks[1] == pytest.approx(3.0, rel=1e-6)
    assert abs(due.gap) < 1e-9
    assert due.score == pytest.approx(0.25, rel=1e-6)


def test_answers_that_are_not_asked():
    x, answers = torch.randn(1, 6, 8), torch.full((1, 6), -100)
    answers[0, 3] = 1
    due = integrated_gradients(nn.Sequential(Mean(), Mean()), x, answers)
    assert bool((due.values[0, 0, :4] != 0).all()) and bool(due.values[1, 0, 3] != 0)
    assert bool((due.values[:, 0, 4:] == 0).all())  # later places cannot matter
    assert bool((due.values[1, 0, :3] == 0).all())  # the last block's outputs elsewhere neither


@pytest.mark.parametrize(
    ("targets", "points", "words"),
    [
        (torch.zeros(3, dtype=torch.long), 4, r"shape \(3,\)"),
        (torch.full((5,), 8), 4, r"target 8 at \(0,\)"),
        (None, 0, "points=0"),
    ],
)
def test_attributions_refused(targets, points, words):
    with pytest.raises(InputError, match=words):
        integrated_gradients(nn.Sequential(Residual(8), Residual(8)), torch.randn(5, 8), targets, points=points)


def test_stretched_networks_map_to_each_other():
    """The deep network is the shallow one with every block halved: layers at equal relative depth map best."""
    torch.manual_seed(1)
    shallow = nn.Sequential(*(Residual(12) for _ in range(3)))
    deep = nn.Sequential(*(Half(block, late) for block in shallow for late in (False, True)))
    maps = linear_maps(shallow, deep, torch.randn(600, 12))
    assert [maps.best[place] for place in (1, 3, 5)] == [0, 1, 2]
    assert max(maps.error[place][2 * place + 1] for place in range(3)) < 1e-6
    assert maps.spearman > 0.9
    assert (maps.trained, maps.held_out) == (300, 300)


class Half(nn.Module):
    """Half of a block's update; the second half is that of the same input, found by inverting the first."""

    def __init__(self, block, late):
        super().__init__()
        self.block, self.late = [block], late
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, h):
        block = self.block[0]
        if not self.late:
            self.block[0].held = h
            return h + self.scale * (block(h) - h)
        return h + self.scale * (block(block.held) - block.held)


def test_maps_generalise_or_say_so():
    noise = nn.Sequential(Residual(8), Residual(8))
    maps = linear_maps(noise, nn.Sequential(Fresh(), Fresh()), torch.randn(100, 8))
    assert all(0.7 < error < 2.0 for row in maps.error for error in row)


class Fresh(nn.Module):
    """Random features that have nothing to do with the stream."""

    def __init__(self):
        super().__init__()
        self.seed = nn.Parameter(torch.zeros(()))

    def forward(self, h):
        return torch.randn(h.shape, generator=torch.Generator().manual_seed(0)) if h.std() < 5 else h


@pytest.mark.parametrize(("rows", "held", "words"), [(10, 0.5, "5 places"), (100, 1.0, "held_out=1.0")])
def test_maps_refused(rows, held, words):
    model = nn.Sequential(Residual(8), Residual(8))
    with pytest.raises(InputError, match=words):
        linear_maps(model, model, torch.randn(rows, 8), held_out=held)


def test_effective_rank():
    values = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)
    q, _ = torch.linalg.qr(torch.randn(6, 3, dtype=torch.float64))
    r, _ = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64))
    matrix = q @ torch.diag(values) @ r
    assert float(effective_rank(7 * matrix)) == pytest.approx(2**1.5)  # entropy 1.5 bits
    assert float(stable_rank(7 * matrix)) == pytest.approx(1.5)
    assert effective_rank(torch.zeros(2, 3, 3)).tolist() == stable_rank(torch.zeros(2, 3, 3)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("rank", [effective_rank, stable_rank])
def test_ranks_refused(rank):
    with pytest.raises(InputError, match=r"shape \(3,\)"):
        rank(torch.ones(3))
    with pytest.raises(InputError, match=r"nan at \(1, 0\)"):
        rank(torch.tensor([[1.0, 2.0], [torch.nan, 1.0]]))
