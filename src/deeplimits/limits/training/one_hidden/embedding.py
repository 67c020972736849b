"""Embeddings that word2vec's steps move: neurons of any width, or the kernel limit, in which they do not move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit

from deeplimits.limits.training.one_hidden.start import Neurons
from deeplimits.limits.training.one_hidden.words import Ids

Array = NDArray[np.float64]


def _gathered(ids: Ids, values: Array) -> tuple[Ids, Array]:
    """Return distinct ids, and the sums of the rows of values, (..., m) with one row an id, that belong to each."""
    rows = values.reshape(ids.size, -1)
    distinct, where = np.unique(ids, return_inverse=True)
    places = where.reshape(-1), np.arange(ids.size)
    sums = csr_array((np.ones(ids.size), places), shape=(len(distinct), ids.size)) @ rows
    return distinct, sums.reshape(len(distinct), *values.shape[ids.ndim :])


@dataclass(eq=False)
class Embeddings:
    """Vectors of tokens in contexts (W, R, m) and as targets (W, R, m); logit = factor <context, target>.

    A step moves each by -rate * speed * the derivative of the loss in the logit * the other vector.
    """

    contexts: Array
    targets: Array
    factor: float
    speed: float
    weight: float

    @classmethod
    def of(cls, neurons: Neurons, rule: str) -> Embeddings:
        """Return the vectors of neurons: muP has logits of weight 1/n and steps of n/n, NTK of 1/sqrt(n) both."""
        contexts, targets = (np.ascontiguousarray(np.moveaxis(w, -1, 0)) for w in (neurons.U, neurons.V))
        factor, speed = (neurons.weight, 1.0) if rule == "mup" else (neurons.weight**0.5,) * 2
        return cls(contexts, targets, factor, speed, neurons.weight)

    def step(self, contexts: Ids, ids: Ids, rate: float) -> Array:
        """Take one step on a batch, contexts (B, w) and ids (B, 1 + k) of which the first is right; return its logits.

        Returns:
            logits before the step, shape (R, B, 1 + k).
        """
        middle = self.contexts[contexts].mean(axis=1)
        against = self.targets[ids]
        logits = self.factor * np.einsum("brm,bkrm->bkr", middle, against)
        chi = rate * self.speed / len(ids) * error(logits)
        there, up = _gathered(ids, chi[..., None] * middle[:, None])
        back = np.einsum("bkr,bkrm->brm", chi, against) / contexts.shape[1]
        here, down = _gathered(contexts, np.broadcast_to(back[:, None], (*contexts.shape, *back.shape[1:])))
        self.targets[there] -= up
        self.contexts[here] -= down
        return np.moveaxis(logits, -1, 0)

    def grams(self) -> tuple[Array, Array]:
        """Return the Gram matrices of both kinds of vectors over the width, each (R, W, W)."""
        both = (np.moveaxis(w, 0, 1) for w in (self.contexts, self.targets))
        first, second = (self.weight * w @ w.swapaxes(-1, -2) for w in both)
        return first, second

    def logits(self) -> Array:
        """Return the logit of every target in the context of every single token, (R, W, W)."""
        return self.factor * np.moveaxis(self.contexts, 0, 1) @ np.moveaxis(self.targets, 0, -1)


@dataclass(eq=False)
class Frozen:
    """The kernel (NTK) limit: Gram matrices stay the identity, and only logits (1, W, W) move, from N(0, 1) entries."""

    table: Array

    def step(self, contexts: Ids, ids: Ids, rate: float) -> Array:
        """Take one step on a batch; both kinds of vectors move a logit alike, hence the 2."""
        size = contexts.shape[1]
        logits = self.table[:, contexts[:, :, None], ids[:, None, :]].mean(axis=2)
        chi = 2 * rate / (len(ids) * size) * error(np.moveaxis(logits, 0, -1))
        places = np.broadcast_arrays(contexts[:, :, None], ids[:, None, :])
        np.subtract.at(self.table[0], tuple(places), np.broadcast_to(chi[:, None, :, 0], places[0].shape))
        return logits

    def grams(self) -> tuple[Array, Array]:
        """Return the identity, twice, (1, W, W)."""
        one = np.eye(self.table.shape[1])[None]
        return one, one.copy()

    def logits(self) -> Array:
        """Return the logit of every target in the context of every single token, (1, W, W)."""
        return self.table.copy()


def error(logits: Array) -> Array:
    """Return the derivative of the loss in logits (B, 1 + k, R): sigmoid, less 1 for the right one, the first."""
    found = expit(logits)
    found[:, 0] -= 1
    return found


def loss(logits: Array) -> Array:
    """Return the mean over a batch of -log sigmoid(right) - sum of log sigmoid(-wrong), logits (R, B, 1 + k)."""
    signs = np.ones(logits.shape[-1])
    signs[0] = -1
    return np.logaddexp(0, signs * logits).sum(axis=-1).mean(axis=-1)
