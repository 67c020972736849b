"""Two sets of multivariate time series, classified with signature kernels, ours beside pySigLib's.

    pip install sktime pysiglib==4.0.0        # the series come with sktime's wheel, nothing is downloaded
    python benchmarks/series_classification.py [--folds 5]

BasicMotions (accelerometer and gyroscope, 4 movements, 40 series for training and 40 for testing, 6 channels, 100
points) and JapaneseVowels (9 speakers, 270 and 370, 12 channels, 7 to 29 points: ragged), with their own splits.
Channels are standardised on the training series, each path starts at 0 and has the time as a channel, and lengths are
divided by their mean over the training series, so that weight_std is the mean length that the kernel sees.

Every kernel is divided by the root of its diagonals and given to the same SVM (SVC(kernel="precomputed")), with
weight_std and C chosen by the same stratified folds of the training series. `seconds` are of the processor, for all
matrices of one kernel, after a first call that compiles; pySigLib with its polynomial method of order 8. The last row
is `dl.learn.NeuralSignatureClassifier` with the weight_std of the row of ReLU, and initial_std, the amplitude of the
function, of the largest evidence: probabilities in place of margins, `seconds` of all fits and of the prediction.
"""

from __future__ import annotations

import argparse
import importlib
import time
from itertools import product
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import deeplimits as dl

STDS, COSTS, AMPLITUDES = (1.0, 2.0, 4.0, 8.0), (1.0, 10.0, 100.0, 1000.0), (1.0, 10.0, 100.0)
RELU = "neural signature kernel, ReLU"
Series = list[np.ndarray]


def motions(split: str) -> tuple[Series, np.ndarray]:
    from sktime.datasets import load_basic_motions

    X, y = load_basic_motions(split=split, return_type="numpy3D")
    return [series.T for series in X], np.asarray(y)


def vowels(split: str) -> tuple[Series, np.ndarray]:
    from sktime.datasets import load_japanese_vowels

    X, y = load_japanese_vowels(split=split, return_type="df-list")
    return [np.asarray(series, dtype=float) for series in X], np.asarray(y)


def prepared(train: Series, test: Series) -> tuple[Series, Series]:
    """Return paths that start at 0, with the time as last channel, of mean length 1 over the training series."""
    points = np.concatenate(train)
    mean, std = points.mean(0), points.std(0)

    def path(series: np.ndarray) -> np.ndarray:
        started = np.vstack([np.zeros(len(mean)), (series - mean) / std])
        return np.column_stack([started, np.linspace(0, 1, len(started))])

    found = [[path(series) for series in part] for part in (train, test)]
    scale = np.mean([np.linalg.norm(np.diff(one, axis=0), axis=1).sum() for one in found[0]])
    return [one / scale for one in found[0]], [one / scale for one in found[1]]


def ours(name: str):
    """Return a function of (weight_std, training, test) to the kernel of all, (N + M, N + M)."""

    def kernel(std: float, paths: Series) -> np.ndarray:
        return dl.kernel(dl.layer.ControlledResNet(name, weight_std=std), paths, get="nngp")

    return kernel


def peers(peer: Any):
    """Return the same of pySigLib; paths are filled up with their last points, which leaves the kernel as it is."""

    def kernel(std: float, paths: Series) -> np.ndarray:
        longest = max(map(len, paths))
        filled = np.stack([np.pad(path, ((0, longest - len(path)), (0, 0)), mode="edge") for path in paths])
        scaled = np.ascontiguousarray(std * filled)
        return peer.sig_kernel_gram(scaled, scaled.copy(), method="polynomial", order=8, n_jobs=1)

    return kernel


def score(kernel: Any, train: Series, test: Series, y: np.ndarray, truth: np.ndarray, folds: Any) -> tuple[Any, ...]:
    """Return weight_std; then accuracy in the folds and on the test series, the values chosen, and seconds."""
    kernel(1.0, train[:2])
    held, seconds = {}, 0.0
    for std in STDS:
        start = time.process_time()
        found = np.asarray(kernel(std, [*train, *test]), dtype=float)
        seconds += time.process_time() - start
        root = np.sqrt(found.diagonal())
        held[std] = found / np.outer(root, root)
    count = len(train)
    rated = {
        (std, cost): cross_val_score(SVC(kernel="precomputed", C=cost), held[std][:count, :count], y, cv=folds).mean()
        for std, cost in product(STDS, COSTS)
    }
    std, cost = max(rated, key=lambda at: (rated[at], -at[0], -at[1]))
    machine = SVC(kernel="precomputed", C=cost).fit(held[std][:count, :count], y)
    accuracy = np.mean(machine.predict(held[std][count:, :count]) == truth)
    return std, f"{rated[std, cost]:.3f}", f"{accuracy:.3f}", f"weight_std {std:g}, C {cost:g}", f"{seconds:.2f}"


def bayesian(std: float, train: Series, test: Series, y: np.ndarray, truth: np.ndarray) -> tuple[str, ...]:
    """Return the same of the estimator, with the log loss on the test series among the values."""
    start = time.process_time()
    nets = [dl.layer.ControlledResNet("relu", weight_std=std, initial_std=amplitude) for amplitude in AMPLITUDES]
    models = [dl.learn.NeuralSignatureClassifier(net).fit(train, y) for net in nets]
    model = max(models, key=lambda one: one.log_marginal_likelihood())
    probabilities = model.predict_proba(test)
    seconds = time.process_time() - start
    said = probabilities[np.arange(len(test)), np.searchsorted(model.classes_, truth)]
    accuracy = np.mean(model.classes_[probabilities.argmax(1)] == truth)
    chosen = f"initial_std {model.net_.initial_std:g}, log loss {-np.log(said).mean():.3f}"
    return "-", f"{accuracy:.3f}", chosen, f"{seconds:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folds", type=int, default=5)
    folds = StratifiedKFold(parser.parse_args().folds, shuffle=True, random_state=0)
    kernels: dict[str, Any] = {"signature kernel": ours("identity"), RELU: ours("relu")}
    try:
        kernels["pySigLib's signature kernel"] = peers(importlib.import_module("pysiglib"))
    except ImportError:
        print("pySigLib is not installed: our own kernels only")
    print("| series | kernel | accuracy in folds | accuracy on test series | chosen | seconds |\n" + "| --- " * 6 + "|")
    with threadpool_limits(1):
        for name, load in {"BasicMotions": motions, "JapaneseVowels": vowels}.items():
            (X, y), (new, truth) = load("train"), load("test")
            train, test = prepared(X, new)
            chosen = {}
            for label, kernel in kernels.items():
                chosen[label], *cells = score(kernel, train, test, y, truth, folds)
                print("|", " | ".join((name, label, *cells)), "|", flush=True)
            cells = bayesian(chosen[RELU], train, test, y, truth)
            print("|", " | ".join((name, "`NeuralSignatureClassifier`, ReLU", *cells)), "|", flush=True)


if __name__ == "__main__":
    main()
