"""A table of estimators on one data set: networks of infinite width beside scikit-learn's RBF kernels."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import inf, sqrt
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from deeplimits.architecture.layer import Layer
from deeplimits.errors import DescriptionError, InputError, NoLimit
from deeplimits.inference import laplace
from deeplimits.inference.classifier import NNGPClassifier, NTKClassifier
from deeplimits.inference.prior import Prior

DEPTHS = (3, 64, inf)
SIZES = (1.0, 3.0, 10.0, 30.0)  # standard deviations of the function, before the evidence chooses one
LENGTHS = (0.5, 1.0, 2.0)  # length scales in units of the median distance between training rows
COSTS = (1.0, 10.0, 100.0)
ROWS, NEW_ROWS, FOLDS = 300, 1000, 3
POOLED: dict[str, Any] = {"ensemble": False}


@dataclass(frozen=True)
class Entry:
    """One estimator on the data.

    Attributes:
        name: which.
        accuracy: share of new rows whose class is right.
        accuracy_error: its standard error over new rows.
        log_loss: mean of -log(probability of the true class) over new rows, in nats.
        log_loss_error: its standard error over new rows.
        seconds: choosing the settings, fitting and predicting.
        settings: what was chosen.
    """

    name: str
    accuracy: float
    accuracy_error: float
    log_loss: float
    log_loss_error: float
    seconds: float
    settings: str


@dataclass(frozen=True)
class Contest:
    """Estimators on the same rows of one data set.

    Attributes:
        data: which rows, in words.
        choice: how every estimator's settings were chosen, in words.
        entries: one for each estimator.
        notes: what could not take part, and why.
    """

    data: str
    choice: str
    entries: tuple[Entry, ...]
    notes: tuple[str, ...]

    def to_json(self) -> str:
        """Return the record as JSON."""
        return json.dumps(asdict(self), allow_nan=False)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return header and rows as text."""
        header = ["estimator", "accuracy", "log-loss", "seconds", "settings chosen"]
        rows = [
            [
                entry.name,
                f"{100 * entry.accuracy:.1f} ± {100 * entry.accuracy_error:.1f} %",
                f"{entry.log_loss:.3f} ± {entry.log_loss_error:.3f}",
                f"{entry.seconds:.2f}",
                entry.settings,
            ]
            for entry in self.entries
        ]
        return header, rows


@dataclass(frozen=True)
class Split:
    """Training rows and new rows of one data set."""

    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray


def contest(
    nets: Sequence[tuple[str, Layer]],
    X: Any,
    y: Any,
    data: str = "",
    seed: int = 0,
    depths: Sequence[float] = DEPTHS,
    progress: Callable[[str], None] | None = None,
) -> Contest:
    """Compare NNGP and NTK classifiers with scikit-learn's RBF Gaussian process and RBF support-vector machine.

    Every estimator sees the same rows. Gaussian processes take the standard deviation of the function with the largest
    evidence among four (RBF: jointly with one of three length scales); the support-vector machine takes cost and length
    scale by cross-validation.

    Args:
        nets: (name, description) of the networks.
        X: rows, shape (N, d).
        y: labels, shape (N,).
        data: where the rows come from, in words.
        seed: of the split.
        depths: depths of the networks.
        progress: called with the name of each estimator before its turn.

    Raises:
        InputError: fewer than eight rows of a class, or rows that cannot be used.

    Source: definition.

    Example:
        >>> from sklearn.datasets import load_wine
        >>> from deeplimits.architecture.zoo import ResNet
        >>> found = contest([("ResNet", ResNet("relu"))], *load_wine(return_X_y=True), depths=[3])
        >>> [entry.name for entry in found.entries]
        ['NNGP, ResNet, depth 3', 'NTK, ResNet, depth 3', 'RBF Gaussian process', 'RBF support-vector machine']
    """
    split = _split(np.asarray(X, dtype=np.float64), np.asarray(y), seed)
    entries, notes = [], []
    with threadpool_limits(1):  # matrices this small gain nothing from a second thread
        for name, run in _runs(nets, depths, split, seed):
            if progress is not None:
                progress(name)
            start = time.perf_counter()
            try:
                probabilities, settings = run()
            except NoLimit as error:
                notes.append(f"{name}: {error.why}")
                continue
            entries.append(_entry(name, split, probabilities, time.perf_counter() - start, settings))
    words = f"{data}; " if data else ""
    rows = f"{words}{len(split.X)} rows to fit, {len(split.X_new)} new ones, seed {seed}, classes in proportion"
    return Contest(rows, _choice(), tuple(entries), tuple(notes))


def _split(X: np.ndarray, y: np.ndarray, seed: int) -> Split:
    from sklearn.model_selection import train_test_split

    classes, counts = np.unique(y, return_counts=True)
    if counts.min() < 8:
        why = f"class {classes[counts.argmin()]!s} has {counts.min()} rows"
        raise InputError("contest", why, "give at least eight rows of each class: labels, not a continuous target")
    fit = min(ROWS, len(X) // 2)
    sizes: dict[str, Any] = {"train_size": fit, "test_size": min(NEW_ROWS, len(X) - fit)}
    parts: Any = train_test_split(X, y, **sizes, random_state=seed, stratify=y)
    return Split(parts[0], parts[2], parts[1], parts[3])


def _runs(
    nets: Sequence[tuple[str, Layer]], depths: Sequence[float], split: Split, seed: int
) -> Iterator[tuple[str, Callable[[], tuple[np.ndarray, str]]]]:
    for label, net in nets:
        for depth in depths:
            shown = "∞" if depth == inf else f"{depth:g}"
            for kind, maker in (("NNGP", NNGPClassifier), ("NTK", NTKClassifier)):
                yield f"{kind}, {label}, depth {shown}", lambda n=net, d=depth, m=maker: _network(n, d, m, split)
    yield "RBF Gaussian process", lambda: _process(split, seed)
    yield "RBF support-vector machine", lambda: _machine(split, seed)


def _network(net: Layer, depth: float, maker: Any, split: Split) -> tuple[np.ndarray, str]:
    path, kind = _readout(net), "nngp" if maker is NNGPClassifier else "ntk"
    kernel = Prior(net, depth).matrix(split.X, kind)
    size = max(SIZES, key=lambda size: _evidence(size**2 * kernel, split.y))
    at = size * float(net.hyperparameters()[path])
    model = maker(net.replace({path: at}), depth).fit(split.X, split.y)
    return model.predict_proba(split.X_new), f"{path} {at:g}"


def _evidence(kernel: np.ndarray, y: np.ndarray) -> float:
    """Return the evidence of a Gaussian process, summed over the binary problems."""
    classes = np.unique(y)
    targets = [(y == name).astype(float) for name in (classes if len(classes) > 2 else classes[1:])]
    return sum(laplace.mode("contest", kernel, target).evidence for target in targets)


def _readout(net: Layer) -> str:
    paths = [path for path in net.hyperparameters() if path.rpartition(".")[2] in ("readout_std", "weight_std")]
    if not paths:
        raise DescriptionError("contest", "a network without a Dense layer", "end it with a Dense readout")
    return next((path for path in paths if path.endswith("readout_std")), paths[-1])


def _process(split: Split, seed: int) -> tuple[np.ndarray, str]:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    middle, found = _median_distance(split.X), {}
    for factor in LENGTHS:
        kernel: Any = RBF(factor * middle)(split.X)
        found |= {(size, factor): _evidence(size**2 * kernel, split.y) for size in SIZES}
    size, factor = max(found, key=found.__getitem__)
    fixed: dict[str, Any] = {"optimizer": None}
    model = GaussianProcessClassifier(ConstantKernel(size**2) * RBF(factor * middle), **fixed)
    calibrated = CalibratedClassifierCV(model, method="temperature", cv=_folds(seed), **POOLED).fit(split.X, split.y)
    words = f"standard deviation {size:g}, length scale {factor:g} x median distance"
    return calibrated.predict_proba(split.X_new), words


def _machine(split: Split, seed: int) -> tuple[np.ndarray, str]:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    folds = _folds(seed)
    gammas = {0.5 / (factor * _median_distance(split.X)) ** 2: factor for factor in LENGTHS}
    search = GridSearchCV(SVC(), {"C": COSTS, "gamma": list(gammas)}, cv=folds).fit(split.X, split.y)
    model = CalibratedClassifierCV(search.best_estimator_, cv=folds, **POOLED).fit(split.X, split.y)
    factor = gammas[search.best_params_["gamma"]]
    words = f"C {search.best_params_['C']:g}, length scale {factor:g} x median distance"
    return model.predict_proba(split.X_new), words


def _folds(seed: int) -> Any:
    from sklearn.model_selection import StratifiedKFold

    return StratifiedKFold(FOLDS, shuffle=True, random_state=seed)


def _median_distance(X: np.ndarray) -> float:
    from scipy.spatial.distance import pdist

    return float(np.median(pdist(X)))


def _entry(name: str, split: Split, probabilities: np.ndarray, seconds: float, settings: str) -> Entry:
    classes, count = np.unique(split.y), len(split.y_new)
    place = np.searchsorted(classes, split.y_new)
    right = float((probabilities.argmax(axis=1) == place).mean())
    losses = -np.log(np.maximum(probabilities[np.arange(count), place], np.finfo(float).tiny))
    error = float(losses.std(ddof=1)) / sqrt(count)
    return Entry(name, right, sqrt(right * (1 - right) / count), float(losses.mean()), error, seconds, settings)


def _choice() -> str:
    sizes, lengths, costs = (", ".join(f"{value:g}" for value in grid) for grid in (SIZES, LENGTHS, COSTS))
    return (
        "Gaussian processes (Laplace's approximation, one class against the rest) take the standard deviation of the "
        f"function among {sizes} times its start by their evidence, RBF jointly with a length scale among {lengths} "
        f"times the median distance; the support-vector machine takes C among {costs} and the same length scales by "
        f"{FOLDS}-fold cross-validation. All probabilities are calibrated: networks by a temperature from the training "
        f"rows left out in turn, the RBF process by one from {FOLDS} folds, the machine by Platt's sigmoid on the same "
        "folds. Seconds hold the choice, the fit, the calibration and the prediction, on one thread"
    )
