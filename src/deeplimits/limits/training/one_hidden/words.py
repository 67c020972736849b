"""word2vec's sequences and samples: contexts, targets, negatives, and a corpus whose statistics are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.architecture.size import whole
from deeplimits.errors import InputError
from deeplimits.numerics.arrays import is_tensor
from deeplimits.numerics.seeds import generator

Ids = NDArray[np.int64]
POWER = 0.75
"""Negatives are drawn in proportion to counts^POWER."""


def ring_corpus(tokens: int, length: int, seed: int, reach: int = 2) -> Ids:
    """Return a walk on a ring of tokens: each next token is 1 .. `reach` places away, either side, all alike.

    A Markov chain with a uniform stationary law, from which it starts: tokens share contexts with their neighbours on
    the ring, and with no other.

    Args:
        tokens: on the ring, more than 2 reach.
        length: of the walk.
        seed: of the walk.
        reach: the longest step.

    Raises:
        InputError: sizes that cannot be.

    Source: definition.

    Example:
        >>> ring_corpus(10, 6, seed=1)
        array([1, 0, 8, 0, 1, 3])
    """
    where = "ring_corpus"
    tokens, length, reach = (
        whole(where, name, value) for name, value in (("tokens", tokens), ("length", length), ("reach", reach))
    )
    if tokens <= 2 * reach:
        raise InputError(where, f"tokens={tokens} do not exceed 2 reach={2 * reach}", "give more tokens")
    random = generator(seed, "ring")
    steps = random.integers(1, reach + 1, length) * random.choice([-1, 1], length)
    steps[0] = random.integers(tokens)
    return np.cumsum(steps) % tokens


@dataclass(frozen=True, eq=False)
class Corpus:
    """All windows of a corpus: contexts (N, 2 window), targets (N,), and what negatives are drawn from.

    Attributes:
        contexts: tokens around a target.
        targets: the token in the middle.
        cumulative: distribution function of negatives over the vocabulary.
    """

    contexts: Ids
    targets: Ids
    cumulative: NDArray[np.float64]

    def batches(self, batch: int, negatives: int, steps: int, seed: int) -> Iterator[tuple[Ids, Ids]]:
        """Yield contexts (B, 2 window) and ids (B, 1 + negatives), the target first: the same at every width."""
        random = generator(seed, "samples")
        for _ in range(steps):
            rows = random.integers(len(self.targets), size=batch)
            drawn = np.searchsorted(self.cumulative, random.random((batch, negatives)), side="right")
            yield self.contexts[rows], np.concatenate([self.targets[rows, None], drawn], axis=1)


def tokens_of(where: str, sequences: Any, vocabulary: Any) -> tuple[list[Ids], int]:
    """Return sequences of token ids, and the size of the vocabulary.

    Raises:
        InputError: no sequences of whole numbers, ids outside the vocabulary, or one token only.
    """
    found = [_ids(where, number, one) for number, one in enumerate(_listed(where, sequences))]
    most = max(int(one.max(initial=0)) for one in found)
    size = most + 1 if vocabulary is None else whole(where, "vocabulary", vocabulary)
    if most >= size:
        why = f"the sequences hold the token {most}, and vocabulary={size} ends at {size - 1}"
        raise InputError(where, why, f"give vocabulary={most + 1} or more")
    if size < 2:
        raise InputError(where, "the sequences hold one token only", "give a corpus of at least two tokens")
    return found, size


def windows_of(where: str, sequences: list[Ids], size: int, window: int) -> Corpus:
    """Return the windows of sequences over a vocabulary.

    Raises:
        InputError: all sequences are shorter than a window.
    """
    span = 2 * window + 1
    long = [np.lib.stride_tricks.sliding_window_view(one, span) for one in sequences if len(one) >= span]
    if not long:
        longest = max(len(one) for one in sequences)
        why = f"no sequence has the {span} tokens of a window, the longest {longest}"
        raise InputError(where, why, "give longer sequences or a smaller window")
    windows = np.concatenate(long)
    weights = np.bincount(np.concatenate(sequences), minlength=size) ** POWER
    cumulative = np.cumsum(weights) / weights.sum()
    cumulative[cumulative >= cumulative[-1]] = 1.0
    return Corpus(np.delete(windows, window, axis=1), windows[:, window], cumulative)


def _listed(where: str, sequences: Any) -> list[Any]:
    fix = "give token ids 0, 1, ...: one sequence, or a list of them"
    if is_tensor(sequences):
        sequences = sequences.detach().cpu().numpy()
    if isinstance(sequences, np.ndarray) and sequences.ndim in (1, 2):
        sequences = [sequences] if sequences.ndim == 1 else list(sequences)
    if not isinstance(sequences, Sequence) or isinstance(sequences, str) or not len(sequences):
        raise InputError(where, f"sequences are not lists of token ids: {sequences!r:.60}", fix)
    inner = isinstance(sequences[0], Sequence | np.ndarray) or is_tensor(sequences[0])
    return list(sequences) if inner and not isinstance(sequences[0], str) else [sequences]


def _ids(where: str, number: int, one: Any) -> Ids:
    fix = "give token ids 0, 1, ...: one sequence, or a list of them"
    try:
        values = np.asarray(one.detach().cpu() if is_tensor(one) else one)
    except (TypeError, ValueError):
        values = np.empty(0, dtype=object)
    if values.ndim != 1 or not len(values) or values.dtype.kind not in "iu":
        what = f"shape {values.shape} and dtype {values.dtype}"
        raise InputError(where, f"sequence {number} is not a list of whole numbers: {what}", fix)
    values = values.astype(np.int64)
    if values.min() < 0:
        place = int(np.argmax(values < 0))
        raise InputError(where, f"sequence {number} holds {values[place]} at place {place}", fix)
    return values
