"""Features on their way to collapse: layer by layer, beyond zero error, and pulled from features that are given."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.claims.one_thread import one_thread

HEADLINE = "log of the variability within classes, last layer, at the end of training over that at zero error"
HIDDEN, BATCH, RATE, DECAY, MOMENTUM = 4, 100, 0.05, 5e-4, 0.9
SET_UP = "perceptrons on 500 digits; the source trains convolutional networks on images"
DECAYS = ((1e-3, 1e-3), (1e-2, 1e-2), (0.1, 1e-2), (1e-2, 0.1))


@dataclass(frozen=True)
class Sizes:
    """Networks trained at once, their width, epochs; digits; pulls and pairs of decays; steps of the flow."""

    networks: int
    width: int
    epochs: int
    digits: int
    pulls: tuple[float, ...]
    decays: int
    flow: int


def _digits(count: int) -> tuple[Any, Any]:
    """Return standardised digits and labels, in one random order."""
    import torch

    from deeplimits.transfer.examples.data import digits

    x, y = digits()
    rows = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))[:count]
    return 8 * x[rows], y[rows].long()


class Perceptrons:
    """Many perceptrons of one shape, trained side by side on cross-entropy with weight decay."""

    def __init__(self, sizes: Sizes):
        import torch

        from deeplimits.numerics.seeds import torch_generator

        self.stream = torch_generator(0, "claims", "collapse")
        shape = [64, *[sizes.width] * HIDDEN, 10]
        self.weights = [
            (torch.randn(sizes.networks, a, b, generator=self.stream) * (2 / a) ** 0.5).requires_grad_()
            for a, b in pairwise(shape)
        ]
        self.biases = [torch.zeros(sizes.networks, 1, b, requires_grad=True) for b in shape[1:]]
        parameters = self.weights + self.biases
        self.optimizer = torch.optim.SGD(parameters, lr=RATE, momentum=MOMENTUM, weight_decay=DECAY)

    def layers(self, x: Any) -> tuple[list[Any], Any]:
        """Return the inputs and what every hidden layer gives, (networks, N, n) each, and the logits."""
        import torch

        h = x.expand(len(self.weights[0]), *x.shape)
        found = [h]
        for w, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            h = torch.relu(torch.baddbmm(b, h, w))
            found.append(h)
        return found, torch.baddbmm(self.biases[-1], h, self.weights[-1])

    def epoch(self, x: Any, y: Any) -> None:
        """Train on every row once."""
        import torch

        for rows in torch.randperm(len(y), generator=self.stream).split(BATCH):
            self.optimizer.zero_grad()
            logits = self.layers(x[rows])[1].transpose(1, 2)
            labels = y[rows].expand(len(logits), -1)
            (torch.nn.functional.cross_entropy(logits, labels, reduction="sum") / len(rows)).backward()
            self.optimizer.step()


def _measured(nets: Perceptrons, x: Any, y: Any) -> tuple[float, np.ndarray]:
    """Return the largest training error of a network and log tr S_W / tr S_B by network and layer."""
    import torch

    from deeplimits.diagnostics.collapse import neural_collapse

    with torch.no_grad():
        layers, logits = nets.layers(x)
    error = float((logits.argmax(-1) != y).double().mean(1).max())
    ratios = [[neural_collapse(h[k], y).trace_ratio for h in layers] for k in range(len(logits))]
    return error, np.log(ratios)


@one_thread()
def training(sizes: Sizes) -> Measured:
    """Measure variability within classes by layer and epoch."""
    x, y = _digits(sizes.digits)
    nets, logs, zero = Perceptrons(sizes), {}, None
    marks = {0, sizes.epochs, *(sizes.epochs // 2**k for k in range(1, 7))}
    for epoch in range(sizes.epochs + 1):
        if epoch in marks or zero is None:
            error, found = _measured(nets, x, y)
            if error == 0 and zero is None:
                zero = epoch
            if epoch in marks or zero == epoch:
                logs[epoch] = found
        nets.epoch(x, y)
    last, reached = logs[sizes.epochs], sizes.epochs if zero is None else zero
    options: dict[str, Any] = {"networks": sizes.networks, "paper": False}
    note = f"zero error of all networks after {zero} of {sizes.epochs} epochs; {SET_UP}"
    parts = [
        _below(HEADLINE, last[:, -1] - logs[reached][:, -1], note=note, **options),
        *(_below(f"the same, hidden layer {k}", last[:, k] - logs[reached][:, k], **options) for k in range(1, HIDDEN)),
        *(
            _below(
                f"log of the variability of layer {k + 1} over that of layer {k}",
                last[:, k + 1] - last[:, k],
                **options,
            )
            for k in range(HIDDEN)
        ),
    ]
    return Measured(parts, [_depth(logs, reached), _time(logs)])


def _below(name: str, values: np.ndarray, **options: Any) -> Any:
    """Judge that logs of ratios are below 0, and no lower than their own scale."""
    return agreement.between(name, 0.0, agreement.average(values), -20.0, 0.0, **options)


def _depth(logs: dict[int, np.ndarray], reached: int) -> Panel:
    curves = []
    for epoch in (0, reached, max(logs)):
        means = [agreement.average(np.exp(one)) for one in logs[epoch].T]
        name = "untrained" if epoch == 0 else f"{epoch} epochs{': zero error' if epoch == reached else ''}"
        places = [float(k) for k in range(HIDDEN + 1)]
        curves.append(Curve(name, places, [m.value for m in means], [m.error for m in means]))
    return Panel("Variability within classes by depth", "layer (0: digits)", "tr S_W / tr S_B", curves, "linear", "log")


def _time(logs: dict[int, np.ndarray]) -> Panel:
    epochs = sorted(epoch for epoch in logs if epoch > 0)
    curves = []
    for layer in range(1, HIDDEN + 1):
        means = [agreement.average(np.exp(logs[epoch][:, layer])) for epoch in epochs]
        x = [float(epoch) for epoch in epochs]
        curves.append(Curve(f"hidden layer {layer}", x, [m.value for m in means], [m.error for m in means]))
    return Panel("It falls on beyond zero error", "epochs", "tr S_W / tr S_B", curves, "log", "log")


def _features(sizes: Sizes) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return features to start from, rows of length about 1 around their mean: digits, random ReLU layers, clouds."""
    from deeplimits.numerics.seeds import generator

    x, labels = (one.numpy() for one in _digits(sizes.digits))
    x, labels, stream = x.astype(float), labels, generator(0, "claims", "features")
    counts = np.bincount(labels)
    rows = np.concatenate([np.flatnonzero(labels == c)[: counts.min()] for c in range(10)])
    x, labels = x[rows], labels[rows]
    relu = np.maximum(x @ stream.standard_normal((64, 64)) / 8, 0)
    sets = {
        "digits": x,
        "a random ReLU layer": relu,
        "a second one": np.maximum(relu @ stream.standard_normal((64, 64)), 0),
    }
    for name, noise in (("clouds that overlap", 3.0), ("clouds apart", 0.5)):
        sets[name] = stream.standard_normal((10, 32))[labels] + noise * stream.standard_normal((len(labels), 32))
    return {name: (_scaled(h), np.eye(10)[labels]) for name, h in sets.items()}


def _scaled(h: np.ndarray) -> np.ndarray:
    h = h - h.mean(0)
    return h / np.sqrt(np.mean(np.sum(h**2, axis=1)))


def _readout(h: np.ndarray, y: np.ndarray, decay: float) -> np.ndarray:
    """Return W (C, d) of least |H W^T - Y|^2/2N + decay |W|^2/2."""
    return np.linalg.solve(h.T @ h / len(h) + decay * np.eye(h.shape[1]), h.T @ y / len(h)).T


def optimised(h0: np.ndarray, y: np.ndarray, pull: float, decays: tuple[float, float], rounds: int = 200) -> np.ndarray:
    """Minimise |H W^T - Y|^2/2N + a |W|^2/2 + b |H|^2/2N + pull |H - H_0|^2/2N over W and H by turns, each exactly."""
    h, (a, b) = h0, decays
    for _ in range(rounds):
        w = _readout(h, y, a)
        h, before = (y @ w + pull * h0) @ np.linalg.inv(w.T @ w + (b + pull) * np.eye(h0.shape[1])), h
        if np.linalg.norm(h - before) <= 1e-6 * np.linalg.norm(h0):
            break
    return h


def flow(
    h0: np.ndarray, y: np.ndarray, decays: tuple[float, float], steps: int, step: float = 0.05
) -> list[np.ndarray]:
    """Follow the gradient flow of the features with the best readout at every time: H at every step."""
    path, (a, b) = [h0], decays
    for _ in range(steps):
        h = path[-1]
        w = _readout(h, y, a)
        path.append(h - step * ((h @ w.T - y) @ w + b * h))
    return path


def _ratio(h: np.ndarray, y: np.ndarray) -> float:
    from deeplimits.diagnostics.collapse import neural_collapse

    return neural_collapse(h, y.argmax(1)).trace_ratio


@one_thread()
def features(sizes: Sizes) -> Measured:
    """Compute the variability of optimised features beside that of the features they are pulled to."""
    higher, cases, rising, steps, curves, paths = 0, 0, 0, 0, [], []
    for name, (h0, y) in _features(sizes).items():
        start = _ratio(h0, y)
        rows = np.array(
            [
                [_ratio(optimised(h0, y, pull, decays), y) / start for pull in sizes.pulls]
                for decays in DECAYS[: sizes.decays]
            ]
        )
        higher, cases = higher + int((rows >= 1).sum()), cases + rows.size
        curves.append(Curve(name, list(sizes.pulls), rows.max(0).tolist()))
        ratios = np.array([_ratio(h, y) for h in flow(h0, y, DECAYS[1], sizes.flow)])
        rising, steps = rising + int((np.diff(ratios) >= 0).sum()), steps + sizes.flow
        paths.append(Curve(name, [float(k) for k in range(len(ratios))], (ratios / ratios[0]).tolist()))
    parts = [
        agreement.equal(
            f"of {cases} optimised feature matrices, those that vary no less within classes than those given",
            0.0, float(higher), 0.0, "none", note="pulls, decays and features of the claim's own choice", paper=False,
        ),
        agreement.equal(
            f"of {steps} steps along gradient flow with the best readout, those that do not lower the variability", 0.0,
            float(rising), 0.0, "none", note="steps small enough to stand for the flow", paper=False,
        ),
    ]  # fmt: skip
    return Measured(parts, [
        Panel("Optimised over given features", "pull to those given", "ratio of tr S_W / tr S_B", curves, "log", "log"),
        Panel("Features that follow their gradient", "step", "tr S_W / tr S_B over its start", paths, "linear", "log"),
    ])  # fmt: skip


CLAIM = Claim(
    key="tirer-2022-perturbation-neural-collapse",
    statement=(
        "Variability within classes falls from layer to layer and on beyond zero training error; features that are "
        "optimised near given ones vary less within classes than those."
    ),
    source="tirer-2022-perturbation-neural-collapse",
    headline=HEADLINE,
    steps=(Step("training", training, 12.0), Step("features", features, 10.0)),
    full=Sizes(networks=12, width=64, epochs=320, digits=500, pulls=(1e-3, 1e-2, 0.1, 1.0, 10.0), decays=4, flow=40),
    reduced=Sizes(networks=2, width=32, epochs=40, digits=200, pulls=(0.1, 1.0), decays=1, flow=5),
)
