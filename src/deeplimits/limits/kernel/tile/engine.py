"""The fast kernel: the Gram matrix, then a tape on its tiles by compiled code, on all cores, in place."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from deeplimits.limits.kernel.tape import Tape
from deeplimits.limits.kernel.tile import interpreter
from deeplimits.limits.kernel.tile.encode import Diagonals, encode

Near = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
CHUNK = 20_000


@dataclass(frozen=True)
class Request:
    """What the engine is asked for.

    Attributes:
        tape: the steps.
        x1, x2: inputs, shapes (N, d) and (M, d), same dtype (float32 or float64); x2 None: x1 against itself.
        before1, before2: {step: q} before each step of `Tape.needs`, shapes (N,) and (M,).
        near: (rows of x1, rows of x2) -> (k, theta) for pairs that are nearly parallel or opposite.
        diagonal: (k, theta), each (N,), written on the diagonal where x2 is None.
        nngp, ntk: which results are wanted.
        wide: compute in float64, whatever the dtype of the inputs and results.
        close: pairs with |cosine| > 1 - close go to `near`; None: 1e-3 in float64, 5e-3 in float32.
        threads: number of threads; None: one for each core.
    """

    tape: Tape
    x1: np.ndarray
    x2: np.ndarray | None
    before1: Diagonals
    before2: Diagonals | None
    near: Near
    diagonal: tuple[np.ndarray, np.ndarray]
    nngp: bool = True
    ntk: bool = True
    wide: bool = False
    close: float | None = None
    threads: int | None = None
