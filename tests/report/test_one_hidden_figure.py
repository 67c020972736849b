"""The figures of one hidden layer: what they draw, and what they say in words."""

import numpy as np
import pytest

import deeplimits as dl
from deeplimits.report.figures.one_hidden import panels_of

X, Y = np.eye(3), [1.0, -1.0, 0.5]
TASKS = [(X, s * X[:, 0], X, s * X[:, 0]) for s in (-1.0, 2.0)]
CORPUS = dl.training.ring_corpus(6, 200, seed=0)

RECORDS = {
    "exact": (lambda: dl.training.one_hidden(X, Y, 0.3, 20), ["Training at infinite width", "Features move"]),
    "networks": (lambda: dl.training.one_hidden(X, Y, 0.3, 5, width=50, kept=0), ["Training at width 50"]),
    "particles": (
        lambda: dl.training.one_hidden(X, Y, 0.3, 5, activation="erf", samples=64),
        ["Training at infinite width", "Features move"],
    ),
    "pi-limit": (lambda: dl.training.projected(X, Y, 0.3, 5), ["Training in the π-limit", "Features move"]),
    "maml": (lambda: dl.training.maml(TASKS, 0.3, 0.1, 5, test_tasks=TASKS), ["Meta-learning at infinite width"]),
    "word2vec": (
        lambda: dl.training.word2vec(CORPUS, 0.5, 20),
        [
            "Embedding after 0 steps",
            "Embedding after 10 steps",
            "Embedding after 20 steps",
            "Learning at infinite width",
        ],
    ),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_drawn(name):
    make, titles = RECORDS[name]
    record = make()
    panels = panels_of(record)
    assert [data.title for _, (data,) in panels] == titles
    for _, (data,) in panels:
        assert "nan" not in data.describe()
    if name not in ("maml", "word2vec"):  # the others are drawn by the same two functions
        return
    figure = dl.plot(record)
    assert [axes.get_title(loc="left") for axes in figure.axes if axes.get_title(loc="left")] == titles


def test_words_carry_the_numbers():
    record = dl.training.one_hidden(X, Y, 0.3, 20)
    (_, (loss,)), _ = panels_of(record)
    assert loss.describe().startswith("loss over steps of training. from 1.12 to ")
    grams = panels_of(dl.training.word2vec(CORPUS, 0.5, 20))
    assert grams[0][1][0].describe() == ("Embedding after 0 steps: 6 tokens, diagonal 1 to 1, other entries 0 to 0.")
    tasks = panels_of(dl.training.maml(TASKS, 0.3, 0.1, 5, test_tasks=TASKS))[0][1][0]
    assert "new tasks, after: from" in tasks.describe()
