"""word2vec at infinite width: the front and its record."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.architecture.size import whole
from deeplimits.errors import NoLimit
from deeplimits.limits.training.one_hidden import embedding
from deeplimits.limits.training.one_hidden import start as starts
from deeplimits.limits.training.one_hidden.record import standard_error
from deeplimits.limits.training.one_hidden.task import EXPLODED, choice, positive, size_of
from deeplimits.limits.training.one_hidden.words import Corpus, tokens_of, windows_of
from deeplimits.numerics.arrays import check_memory
from deeplimits.numerics.seeds import generator
from deeplimits.progress import Bar

Array = NDArray[np.float64]
WHERE = "word2vec"
SMALLER = "use a smaller vocabulary (state grows with its square), fewer networks, or a smaller kept"


@dataclass(frozen=True, eq=False)
class Word2vec:
    """Embeddings while they are learned; W tokens, R networks (one at infinite width), K kept times.

    Attributes:
        kept: numbers of steps taken at kept times, shape (K,).
        context_grams: <e_i e_j> / n of the vectors of tokens in contexts (the embedding), shape (R, K, W, W).
        target_grams: of the vectors of tokens as targets, likewise.
        logits: of target j in the context of token i alone, at kept times, shape (R, K, W, W).
        losses: of every batch before its step, shape (R, steps).
        rule: "mup", or "ntk", in which embeddings stay random.
        width: infinity, or neurons.
        text: what was solved, how, and in how much memory.
    """

    kept: NDArray[np.int64]
    context_grams: Array
    target_grams: Array
    logits: Array
    losses: Array
    rule: str
    width: float
    text: str

    @property
    def times(self) -> NDArray[np.int64]:
        """Numbers of steps taken before every batch, (steps,)."""
        return np.arange(self.losses.shape[1])

    @property
    def gram(self) -> Array:
        """Mean Gram matrix of the embedding, (K, W, W)."""
        return self.context_grams.mean(axis=0)

    @property
    def gram_error(self) -> Array:
        """Standard error of `gram` over networks: zeros at infinite width, NaN of a single network."""
        return standard_error(self.context_grams, self.width == inf)

    @property
    def similarity(self) -> Array:
        """Cosines of the embedding, (K, W, W)."""
        size = np.sqrt(np.einsum("kii->ki", self.gram))
        return self.gram / (size[:, :, None] * size[:, None, :])

    @property
    def loss(self) -> Array:
        """Mean loss of every batch, (steps,)."""
        return self.losses.mean(axis=0)

    def describe(self) -> str:
        """Say what was solved, how, and in how much memory."""
        return self.text

    def __repr__(self) -> str:
        width = "infinite" if self.width == inf else f"{self.width:.0f}"
        return f"Word2vec({self.gram.shape[1]} tokens, width {width}, rule {self.rule!r}, {len(self.loss)} steps)"


def word2vec(
    sequences: Any,
    rate: float,
    steps: int,
    *,
    window: int = 2,
    negatives: int = 5,
    batch: int = 16,
    vocabulary: int | None = None,
    rule: str = "mup",
    width: float = inf,
    networks: int | None = None,
    seed: int = 0,
    kept: int = 5,
) -> Word2vec:
    """Return the embeddings of word2vec (CBOW, negative sampling) at infinite width, exactly, or at a finite one.

    logit = <mean of the context's vectors, target's vector> / n; each step descends, by rate n times the gradient, the
    batch's mean of -log sigmoid(right target) - sum over negatives of log sigmoid(-wrong target). Under rule="ntk"
    logits have 1/sqrt(n) and the rate no n: logits learn, but the Gram matrix of the embedding stays the identity.

    Args:
        sequences: token ids 0, 1, ...: one sequence, or a list of them; dl.training.ring_corpus makes one.
        rate: learning rate.
        steps: batches of windows drawn with replacement.
        window: tokens of context either side of the target.
        negatives: wrong targets for each right one, drawn in proportion to counts^0.75, itself among them.
        batch: windows a step.
        vocabulary: number of tokens W, by default the largest id + 1.
        rule: "mup" or "ntk".
        width: infinity, or the embedding's dimension.
        networks: at a finite width, how many.
        seed: of windows, negatives (the same at every width) and weights.
        kept: times at which Gram matrices and logits are kept, evenly spaced, at least the first and the last.

    Memory: about 48 networks (W min(n, 2 W) + kept W^2) bytes, and the windows; at infinite width n is 2 W.

    Valid when: width to infinity at a fixed number of steps.

    Raises:
        InputError: sequences or options that cannot be used.
        NoLimit: training diverges; the error's `record` holds the kept times before.
        MemoryNeeded: the vocabulary is too large.

    Source: yang-hu-2020-tp4; mikolov-2013-negative-sampling.

    Example:
        >>> from deeplimits.limits.training.one_hidden.words import ring_corpus
        >>> corpus = ring_corpus(12, 4000, seed=0)
        >>> found = word2vec(corpus, rate=1.0, steps=300)
        >>> found.gram[0, 0, [0, 2, 6]], bool(found.gram[-1, 0, 2] > found.gram[-1, 0, 6] + 0.5)
        (array([1., 0., 0.]), True)
    """
    width, count = size_of(WHERE, width, networks)
    rate, steps = positive(WHERE, "rate", rate), whole(WHERE, "steps", steps)
    negatives, batch = whole(WHERE, "negatives", negatives), whole(WHERE, "batch", batch)
    kept, window = whole(WHERE, "kept", kept, minimum=2), whole(WHERE, "window", window)
    choice(WHERE, "rule", rule, ("mup", "ntk"))
    generator(seed, "checked")
    tokens, size = tokens_of(WHERE, sequences, vocabulary)
    neurons = min(2 * size, width)
    times = np.unique(np.linspace(0, steps, min(kept, steps + 1)).round().astype(np.int64))
    needed = int(8 * count * (6 * size * neurons + 6 * len(times) * size**2 + steps))
    needed += 24 * (2 * window + 1) * sum(len(one) for one in tokens)
    check_memory(WHERE, needed, f"a vocabulary of {size} tokens and {count} networks", SMALLER)
    corpus = windows_of(WHERE, tokens, size, window)
    model = _model(size, rule, width, count, seed)
    how = "infinite width, exact" if width == inf else f"{count} networks of width {width}"
    data = f"{size} tokens, {len(corpus.targets)} windows, {steps} batches of {batch}"
    text = f"word2vec, {data}, {rule}: {how}; {needed:,} bytes"
    return _learn(model, corpus, (rate, steps, negatives, batch, seed), times, (rule, width, text))


def _model(size: int, rule: str, width: float, networks: int, seed: int) -> embedding.Embeddings | embedding.Frozen:
    if width == inf and rule == "ntk":
        return embedding.Frozen(generator(seed, "logits").standard_normal((1, size, size)))
    start = starts.basis(size, size) if width == inf else starts.linear_drawn(int(width), size, size, networks, seed)
    return embedding.Embeddings.of(start, rule)


def _learn(model: Any, corpus: Corpus, how: Any, times: NDArray[np.int64], about: Any) -> Word2vec:
    rate, steps, negatives, batch, seed = how
    rule, width, text = about
    snapshots, losses = [(*model.grams(), model.logits())], []

    def record() -> Word2vec:
        contexts, targets, logits = (np.stack(one, axis=1) for one in zip(*snapshots, strict=True))
        found = np.array(losses).reshape(-1, len(contexts)).T
        return Word2vec(times[: len(snapshots)], contexts, targets, logits, found, rule, width, text)

    with np.errstate(over="ignore", invalid="ignore"), Bar(steps, description=WHERE) as bar:
        for number, (contexts, ids) in enumerate(corpus.batches(batch, negatives, steps, seed)):
            found = embedding.loss(model.step(contexts, ids, rate))
            if not np.all(found <= EXPLODED * (1 + negatives)):
                why = f"training diverges at step {number}: the loss is more than a million times that of zero logits"
                refusal = NoLimit(WHERE, why, "use a smaller rate; this error's `record` holds the kept times before")
                refusal.record = record()  # type: ignore[attr-defined]
                raise refusal
            losses.append(found)
            if number + 1 == times[min(len(snapshots), len(times) - 1)]:
                snapshots.append((*model.grams(), model.logits()))
            bar.reach(number + 1)
    return record()
