"""Networks of one hidden layer under muP beside their limit: plain gradient descent, MAML and word2vec."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from deeplimits.claims import agreement
from deeplimits.claims.claim import Curve, Measured, Panel, Part
from deeplimits.claims.one_thread import one_thread
from deeplimits.limits.training.one_hidden.ask import one_hidden
from deeplimits.limits.training.one_hidden.maml import maml
from deeplimits.limits.training.one_hidden.word2vec import word2vec
from deeplimits.limits.training.one_hidden.words import ring_corpus, tokens_of, windows_of
from deeplimits.numerics.seeds import generator
from deeplimits.plane import measure
from deeplimits.plane.record import Estimate

Array = NDArray[np.float64]
BAND = 0.1
RATE, STEPS = 0.2, 20
INNER_RATE, OUTER_RATE, OUTER_STEPS = 0.2, 0.1, 10
TOKENS, WORD_RATE, BATCHES, BATCH, WINDOW, NEGATIVES = 8, 1.0, 60, 16, 2, 5


@dataclass(frozen=True)
class Algorithm:
    """An algorithm at infinite width, (entries,), and as networks of a width, (networks, entries).

    `drawn(width, networks)` takes the program's own networks, a root of the Gram matrix of their weights; `plain(U, V)`
    trains one network of drawn weights U (n, r), V (n, c) with torch's gradients, neuron by neuron.
    """

    limit: Array
    drawn: Callable[[int, int], Array]
    plain: Callable[[torch.Tensor, torch.Tensor], Array]
    sizes: tuple[int, int]


def data() -> tuple[Array, Array]:
    """Return four inputs in three dimensions, of length sqrt(3) or so, and their targets."""
    rng = generator(0, "one hidden layer")
    return rng.standard_normal((4, 3)), rng.standard_normal((4, 1))


def tasks() -> list[tuple[Array, Array, Array, Array]]:
    """Return three tasks: linear functions along one direction, of three support rows and four queries each."""
    rng, found = generator(0, "tasks"), []
    for slope in (-1.0, 0.5, 1.5):
        x, z = rng.standard_normal((3, 3)), rng.standard_normal((4, 3))
        direction = slope * np.array([[1.0], [0.5], [0.0]])
        found.append((x, x @ direction, z, z @ direction))
    return found


def algorithms() -> dict[str, Algorithm]:
    """Return the algorithms by name."""
    (X, y), corpus = data(), ring_corpus(TOKENS, 600, seed=0)
    words = {"rate": WORD_RATE, "steps": BATCHES, "window": WINDOW, "negatives": NEGATIVES, "batch": BATCH, "kept": 2}

    def descent(**size: Any) -> Array:
        return _rows(one_hidden(X, y, RATE, STEPS, kept=0, **size).runs)

    def meta(**size: Any) -> Array:
        return _rows(maml(tasks(), INNER_RATE, OUTER_RATE, OUTER_STEPS, **size).runs)

    def grams(**size: Any) -> Array:
        return _rows(word2vec(corpus, **words, **size).context_grams[:, -1])

    made = (("gradient descent", descent, _descent, (3, 1)), ("second-order MAML", meta, _maml, (3, 1)))
    made += (("word2vec", grams, _word2vec, (TOKENS, TOKENS)),)
    return {
        name: Algorithm(ask()[0], lambda width, networks, ask=ask: ask(width=width, networks=networks), plain, sizes)
        for name, ask, plain, sizes in made
    }


def _rows(values: Array) -> Array:
    return values.reshape(len(values), -1)


def squares(algorithm: Algorithm, widths: tuple[int, ...], networks: int) -> Array:
    """Return n times the mean square distance of every network to the limit, (networks, widths).

    Networks of one row share their random numbers, so that widths are compared pair by pair.
    """
    return np.stack(
        [n * np.mean((algorithm.drawn(n, networks) - algorithm.limit) ** 2, axis=1) for n in widths], axis=1
    )


def limits(widths: tuple[int, ...], networks: int, plain: tuple[int, int]) -> Measured:
    """Measure the distance of networks to the limit over widths; `plain` is (width, networks) of plain ones."""
    parts, curves = [], []
    for name, algorithm in algorithms().items():
        found = squares(algorithm, widths, networks)
        roots = [measure.root(measure.average(column[:, None])) for column in found.T]
        middle = float(np.mean([one.value for one in roots]))
        parts += [_constant(name, found, widths), _plain(name, algorithm, plain, middle)]
        curves.append(_curve(name, widths, roots, middle))
    title = "One hidden layer, to its limit as 1/√n"
    panel = Panel(title, "width n", "distance to the limit; line: 1/√n", curves, y_scale="log")
    return Measured([*parts, _learned()], [panel])


def _curve(name: str, widths: tuple[int, ...], roots: list[Estimate], middle: float) -> Curve:
    at = [n**0.5 for n in widths]
    means = [one.value / root for one, root in zip(roots, at, strict=True)]
    errors = [one.error / root for one, root in zip(roots, at, strict=True)]
    return Curve(name, [float(n) for n in widths], means, errors, [middle / root for root in at])


def _constant(name: str, found: Array, widths: tuple[int, ...]) -> Part:
    """Judge the width whose ratio to the mean over widths strays furthest from 1; its error by the jackknife."""
    networks = len(found)
    ratios, left = _ratios(found.mean(axis=0)), _ratios((found.sum(axis=0) - found) / (networks - 1))
    errors = np.sqrt((networks - 1) / networks * np.sum((left - left.mean(axis=0)) ** 2, axis=0))
    worst = int(np.argmax(np.abs(ratios - 1)))
    return agreement.between(
        f"distance to the limit times sqrt(n) over its mean over widths, {name}, where it strays furthest", 1.0,
        Estimate(float(ratios[worst]), float(errors[worst])), 1 - BAND, 1 + BAND, networks=networks, paper=False,
        note=f"width {widths[worst]}; the paper proves the limit, the rate 1/sqrt(n) is derived; data are synthetic",
    )  # fmt: skip


def _ratios(squares: Array) -> Array:
    roots = np.sqrt(squares)
    return roots / roots.mean(axis=-1, keepdims=True)


@one_thread()
def _plain(name: str, algorithm: Algorithm, plain: tuple[int, int], middle: float) -> Part:
    width, networks = plain
    gaps = []
    for seed in range(networks):
        rng = generator(seed, "plain", name)
        U, V = (torch.from_numpy(rng.standard_normal((width, size))) for size in algorithm.sizes)
        gaps.append(algorithm.plain(U, V) - algorithm.limit)
    found = measure.root(measure.average(width * np.stack(gaps) ** 2))
    return agreement.near(
        f"distance to the limit times sqrt(n), {name}, networks trained neuron by neuron", middle, found, 0.5 * middle,
        bias=BAND / 2 * middle, because="half the band", networks=networks, paper=False,
        note=f"width {width}, gradients of torch; predicted: the mean over widths of the program's own networks",
    )  # fmt: skip


def _learned() -> Part:
    """Judge what the embedding learned at infinite width, where the kernel limit learns nothing."""
    found = word2vec(ring_corpus(12, 3000, seed=1), rate=WORD_RATE, steps=300).gram[-1]
    near, far = np.roll(np.eye(12), 2, axis=1) > 0, np.roll(np.eye(12), 6, axis=1) > 0
    return agreement.above(
        "word2vec at infinite width: Gram entries of tokens 2 apart on a ring less those 6 apart", 0.25,
        Estimate(float(found[near].mean() - found[far].mean()), 0.0), paper=False,
        note="0 at the start, and for ever in the kernel limit",
    )  # fmt: skip


def _descent(U: torch.Tensor, V: torch.Tensor) -> Array:
    X, y = (torch.from_numpy(one) for one in data())
    weights, found = [U.requires_grad_(), V.requires_grad_()], []
    for _ in range(STEPS + 1):
        f = X / 3**0.5 @ weights[0].T @ weights[1] / len(U)
        found.append(f.detach())
        weights = _moved(weights, (f - y).square().sum() / 2, RATE * len(U))
    return torch.stack(found).numpy().reshape(-1)


def _maml(U: torch.Tensor, V: torch.Tensor) -> Array:
    known = [tuple(torch.from_numpy(one) for one in task) for task in tasks()]
    weights, found = [U.requires_grad_(), V.requires_grad_()], []
    for _ in range(OUTER_STEPS + 1):
        total, answers = torch.zeros(()), []
        for x, y, z, target in known:
            loss = (x / 3**0.5 @ weights[0].T @ weights[1] / len(U) - y).square().sum() / 2
            adapted = _moved(weights, loss, INNER_RATE * len(U), through=True)
            answers.append(z / 3**0.5 @ adapted[0].T @ adapted[1] / len(U))
            total = total + (answers[-1] - target).square().sum() / (2 * len(known))
        found.append(torch.stack(answers).detach())
        weights = _moved(weights, total, OUTER_RATE * len(U))
    return torch.stack(found).numpy().reshape(-1)


def _word2vec(U: torch.Tensor, V: torch.Tensor) -> Array:
    corpus = windows_of("word2vec", *tokens_of("word2vec", ring_corpus(TOKENS, 600, seed=0), TOKENS), WINDOW)
    weights = [U.requires_grad_(), V.requires_grad_()]
    for contexts, ids in corpus.batches(BATCH, NEGATIVES, BATCHES, seed=0):
        middle = weights[0].T[torch.from_numpy(contexts)].mean(1)
        logits = torch.einsum("bn,bkn->bk", middle, weights[1].T[torch.from_numpy(ids)]) / len(U)
        signs = torch.ones(ids.shape[1], dtype=torch.float64)
        signs[0] = -1
        weights = _moved(weights, torch.nn.functional.softplus(signs * logits).sum(1).mean(), WORD_RATE * len(U))
    gram = weights[0].T @ weights[0] / len(U)
    return gram.detach().numpy().reshape(-1)


def _moved(weights: list[torch.Tensor], loss: torch.Tensor, rate: float, through: bool = False) -> list[torch.Tensor]:
    gradients = torch.autograd.grad(loss, weights, create_graph=through)
    moved = [w - rate * g for w, g in zip(weights, gradients, strict=True)]
    return moved if through else [w.detach().requires_grad_() for w in moved]
