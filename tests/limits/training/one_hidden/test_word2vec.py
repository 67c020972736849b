"""word2vec at infinite width beside networks trained by autograd on the same windows, muP and kernel limit."""

import numpy as np
import pytest
import torch

from deeplimits.errors import DeepLimitsError, MemoryNeeded, NoLimit
from deeplimits.limits.training.one_hidden import embedding, start
from deeplimits.limits.training.one_hidden.word2vec import word2vec
from deeplimits.limits.training.one_hidden.words import ring_corpus, tokens_of, windows_of

CORPUS = ring_corpus(8, 600, seed=0)


def by_autograd(U, V, rule, rate, batches):
    """Embedding's Gram matrix, logits and losses of a network of n neurons, U (n, W), V (n, W), by autograd."""
    n = len(U)
    factor, speed = (1 / n, n) if rule == "mup" else (n**-0.5, 1)
    weights, losses = [torch.tensor(w, requires_grad=True) for w in (U, V)], []
    for contexts, ids in batches:
        middle = weights[0].T[torch.tensor(contexts)].mean(1)
        logits = factor * torch.einsum("bn,bkn->bk", middle, weights[1].T[torch.tensor(ids)])
        right = torch.zeros(logits.shape, dtype=torch.float64)
        right[:, 0] = 1
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, right, reduction="none").sum(1).mean()
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for w, g in zip(weights, gradients, strict=True):
                w -= rate * speed * g
    U, V = (w.detach().numpy() for w in weights)
    return U.T @ U / n, V.T @ V / n, factor * U.T @ V, np.array(losses)


@pytest.mark.parametrize("rule", ["mup", "ntk"])
def test_networks_are_those_of_autograd(rule):
    found = word2vec(CORPUS, 0.8, 25, rule=rule, width=16, networks=2, seed=4, window=1, negatives=3)
    weights = start.drawn(16, 8, 8, 2, 4)  # of no more neurons than 2 W, so that they are drawn as they are
    corpus = windows_of("here", *tokens_of("here", CORPUS, None), 1)
    for k in range(2):
        batches = corpus.batches(16, 3, 25, 4)
        expected = by_autograd(weights.U[k], weights.V[k], rule, 0.8, batches)
        for one, other in zip((found.context_grams, found.target_grams, found.logits), expected[:3], strict=True):
            np.testing.assert_allclose(one[k, -1], other, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.losses[k], expected[3], rtol=1e-12)


def test_infinite_width_is_what_wide_networks_tend_to():
    limit = word2vec(CORPUS, 1.0, 60, kept=3)
    gaps = []
    for width in (256, 16384):
        networks = word2vec(CORPUS, 1.0, 60, width=width, networks=40, kept=3)
        grams, logits = networks.context_grams - limit.context_grams, networks.logits - limit.logits
        gaps.append([np.sqrt(width * np.mean(gap[:, -1] ** 2)) for gap in (grams, logits)])
    ratios = np.divide(*gaps)
    assert np.all((ratios > 0.85) & (ratios < 1.18))
    assert networks.gram_error.max() < 0.01 and not limit.gram_error.any()


def test_the_embedding_learns_the_ring_and_the_kernel_limit_does_not():
    options = {"rate": 1.0, "steps": 300}
    mup, ntk = (word2vec(ring_corpus(12, 3000, seed=1), rule=rule, **options) for rule in ("mup", "ntk"))
    near, far = np.roll(np.eye(12), 2, axis=1) > 0, np.roll(np.eye(12), 6, axis=1) > 0
    assert mup.gram[-1][near].mean() > mup.gram[-1][far].mean() + 0.5
    assert mup.similarity[-1][near].min() > mup.similarity[-1][far].max()
    np.testing.assert_array_equal(ntk.gram[-1], np.eye(12))
    assert ntk.loss[-50:].mean() < ntk.loss[:50].mean() - 0.3


def test_the_kernel_limit_is_that_of_wide_networks():
    neurons = start.linear_drawn(10**6, 8, 8, 1, 2)
    wide = embedding.Embeddings.of(neurons, "ntk")
    frozen = embedding.Frozen(wide.logits())
    corpus = windows_of("here", *tokens_of("here", CORPUS, None), 2)
    for contexts, ids in corpus.batches(16, 5, 60, 0):
        wide.step(contexts, ids, 1.0)
        frozen.step(contexts, ids, 1.0)
    assert np.abs(wide.logits() - frozen.logits()).max() < 0.02
    assert np.abs(wide.grams()[0] - np.eye(8)).max() < 0.02


def test_the_ring_has_the_statistics_it_says():
    walk = ring_corpus(9, 20000, seed=3)
    steps = np.diff(walk) % 9
    counts = np.bincount(steps, minlength=9)
    assert set(np.flatnonzero(counts)) == {1, 2, 7, 8}
    assert np.all(np.abs(counts[[1, 2, 7, 8]] - 5000) < 5 * np.sqrt(20000 * 3 / 16))
    assert np.array_equal(walk[:5], ring_corpus(9, 20000, seed=3)[:5])


def test_sequences_may_be_given_in_many_ways():
    once = word2vec(CORPUS, 0.5, 5).gram
    for given in (CORPUS.tolist(), [CORPUS], torch.tensor(CORPUS), CORPUS.astype(np.int32), CORPUS[None]):
        np.testing.assert_array_equal(word2vec(given, 0.5, 5).gram, once)
    ragged = word2vec([[0, 1, 2, 0, 1, 2], [2, 1], [1, 1, 1, 1, 1]], 0.5, 5, vocabulary=5)
    np.testing.assert_array_equal(ragged.gram[-1, 3:], np.eye(5)[3:])


def test_divergence_keeps_what_was_computed():
    with pytest.raises(NoLimit, match="diverges at step") as told:
        word2vec(CORPUS, 1e4, 400)
    assert np.isfinite(told.value.record.loss).all() and len(told.value.record.gram) >= 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sequences": "a text"}, "not lists of token ids"),
        ({"sequences": []}, "not lists of token ids"),
        ({"sequences": [["a", "b"]]}, "sequence 0 is not a list of whole numbers"),
        ({"sequences": [0.5, 1.5, 2.0]}, "sequence 0 is not a list of whole numbers"),
        ({"sequences": [[0, 1, 2, 3, 4], []]}, "sequence 1 is not"),
        ({"sequences": [[0, 1, 2, -3, 4]]}, "holds -3 at place 3"),
        ({"sequences": [[0, 1, 2, 3]]}, "no sequence has the 5 tokens"),
        ({"sequences": [[0, 0, 0, 0, 0, 0]]}, "one token only"),
        ({"vocabulary": 4}, "hold the token 7, and vocabulary=4"),
        ({"rate": -1.0}, "rate=-1.0"),
        ({"steps": 0}, "steps=0"),
        ({"window": 0}, "window=0"),
        ({"negatives": 1.5}, "negatives=1.5"),
        ({"batch": 0}, "batch=0"),
        ({"rule": "sp"}, "use one of mup, ntk"),
        ({"networks": 2}, "no effect at infinite width"),
        ({"kept": 1}, "kept=1"),
        ({"seed": True}, "seed: True"),
    ],
)
def test_bad_input_is_refused(changes, message):
    with pytest.raises(DeepLimitsError, match=message):
        word2vec(**({"sequences": CORPUS, "rate": 0.5, "steps": 3} | changes))


def test_too_large_a_vocabulary_is_refused_first():
    with pytest.raises(MemoryNeeded, match="a vocabulary of 1000000 tokens"):
        word2vec(CORPUS, 0.5, 3, vocabulary=10**6)
    with pytest.raises(MemoryNeeded, match="a vocabulary of 1000000000001 tokens"):
        word2vec([0, 1, 2, 10**12, 1], 0.5, 3)


def test_a_ring_too_small_is_refused():
    with pytest.raises(DeepLimitsError, match="tokens=4 do not exceed 2 reach=4"):
        ring_corpus(4, 10, seed=0)
