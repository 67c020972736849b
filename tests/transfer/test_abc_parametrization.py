"""The classification of abc-parametrizations against tables, symmetries and one step of training."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.transfer.exponents.abc_parametrization import abc

SP = ([0, 0, 0], [0, 0.5, 0.5])
NTP = ([0, 0.5, 0.5], [0, 0, 0])
MUP = ([-0.5, 0, 0.5], [0.5, 0.5, 0.5])
# parametrization: (a, b, c), r, regime
TABLE = {
    "sp, 1/n": (*SP, 1.0, 0.5, "kernel"),
    "sp, n^-1/2": (*SP, 0.5, 0.0, "unstable"),
    "sp, 1": (*SP, 0.0, -1.0, "unstable"),
    "ntp": (*NTP, 0.0, 0.5, "kernel"),
    "ntp, n^-1/2": (*NTP, 0.5, 1.0, "trivial"),
    "mup": (*MUP, 0.0, 0.0, "feature learning"),
    "mup without the input's correction": ([0, 0, 0.5], [0, 0.5, 0.5], 0.0, 0.0, "feature learning"),
}


@pytest.mark.parametrize("name", TABLE)
def test_table(name):
    a, b, c, r, regime = TABLE[name]
    found = abc(a, b, c)
    assert (found.r, found.regime) == (r, regime)


def test_named():
    assert [abc(name).regime for name in ("sp", "ntp", "mup")] == ["kernel", "kernel", "feature learning"]
    assert dl.transfer.abc("mean_field").regime == "feature learning"
    for hidden in (1, 2, 5):
        assert set(abc("mup", hidden=hidden).r_layers) == {0.0}
    assert abc(*TABLE["mup without the input's correction"][:3]).r_layers == (1.0, 0.0)


@pytest.mark.parametrize("shift", [-0.3, 0.5])
@pytest.mark.parametrize("name", TABLE)
def test_symmetry(name, shift):
    """A + s, b - s, c - 2 s is the same training."""
    a, b, c, r, regime = TABLE[name]
    found = abc([x + shift for x in a], [x - shift for x in b], c - 2 * shift)
    assert found.regime == regime
    assert found.r == pytest.approx(r)


def change(a, b, c, width, seed, steps=1):
    """Root mean square of what SGD changes in the last hidden layer of tanh perceptrons."""
    torch.manual_seed(seed)
    x, y = torch.randn(8, 10, dtype=torch.float64), torch.randn(8, 1, dtype=torch.float64)
    shapes = [(width, 10), (width, width), (1, width)]
    w = [torch.randn(s, dtype=torch.float64) * width ** -float(p) for s, p in zip(shapes, b, strict=True)]
    w[0] /= 10**0.5
    w = [p.requires_grad_() for p in w]

    def hidden():
        h = x
        for p, power in zip(w[:-1], a[:-1], strict=True):
            h = torch.tanh(h @ p.T * width ** -float(power))
        return h

    before = hidden().detach()
    for _ in range(steps):
        loss = ((hidden() @ w[-1].T * width ** -float(a[-1]) - y) ** 2).mean()
        for p, g in zip(w, torch.autograd.grad(loss, w), strict=True):
            p.data -= 0.1 * width ** -float(c) * g
    return float((hidden().detach() - before).square().mean().sqrt())


MEASURED = ["sp, 1/n", "sp, n^-1/2", "ntp", "ntp, n^-1/2", "mup", "mup without the input's correction"]


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASURED)
def test_one_step_moves_features_as_classified(name):
    """Exponents over widths 128 to 2048 within 0.12 of -r; the mean of three networks each."""
    a, b, c, r, _ = TABLE[name]
    widths = [128, 256, 512, 1024, 2048]
    sizes = [np.mean([np.log(change(a, b, c, width, seed)) for seed in range(3)]) for width in widths]
    slope = np.polyfit(np.log(widths), sizes, 1)[0]
    assert slope == pytest.approx(-r, abs=0.12)


def gelu_changes(width, seed, steps=2):
    """Root mean square of what each step of SGD changes in the last hidden layer, in SP with learning rate 1.

    The activation does not saturate and the loss, -y f, has a derivative of 1 whatever f is, so that nothing but the
    parametrization makes a change large.
    """
    torch.manual_seed(seed)
    x, y = torch.randn(8, 10, dtype=torch.float64), torch.randn(8, 1, dtype=torch.float64).sign()
    shapes = [(width, 10), (width, width), (1, width)]
    w = [torch.randn(s, dtype=torch.float64) * s[1] ** -0.5 for s in shapes]
    w = [p.requires_grad_() for p in w]
    gelu = torch.nn.functional.gelu

    def hidden():
        return gelu(gelu(x @ w[0].T) @ w[1].T)

    found = []
    for _ in range(steps):
        before = hidden().detach()
        loss = -(y * (hidden() @ w[-1].T)).mean()
        for p, g in zip(w, torch.autograd.grad(loss, w), strict=True):
            p.data -= g
        found.append(float((hidden().detach() - before).square().mean().sqrt()))
    return found


@pytest.mark.slow
def test_sp_with_a_constant_rate_is_worse_from_the_second_step():
    """n^(1/2) at the first step, while the readout is still of size n^(-1/2); n^(-r) = n from the second; 0.12."""
    widths = [128, 256, 512, 1024, 2048]
    sizes = np.array([np.mean([np.log(gelu_changes(width, seed)) for seed in range(3)], axis=0) for width in widths])
    first, second = (np.polyfit(np.log(widths), sizes[:, step], 1)[0] for step in (0, 1))
    assert first == pytest.approx(0.5, abs=0.12)
    assert second == pytest.approx(-abc(*TABLE["sp, 1"][:3]).r, abs=0.12)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("mupp",), "did you mean 'mup'"),
        (([0, 0], [0]), "2 exponents a and 1"),
        (([0], [0]), "L \\+ 1"),
        (([0, 0], [0, 0], [1, 1, 1]), "3 exponents c"),
    ],
)
def test_refused(given, words):
    with pytest.raises(dl.DeepLimitsError, match=words):
        abc(*given)
