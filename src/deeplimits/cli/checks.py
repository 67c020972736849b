"""The self test of `deeplimits doctor`: known numbers, each computed two ways."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from math import exp, inf, sqrt
from typing import Any


def checks() -> Iterator[dict[str, Any]]:
    """Run every check; a check that raises has failed with the error as what it found."""
    for name, check in CHECKS.items():
        start = time.perf_counter()
        try:
            passed, found = check()
        except Exception as error:
            passed, found = False, f"{type(error).__name__}: {error}"
        yield {"name": name, "passed": passed, "found": found, "seconds": time.perf_counter() - start}


def _precision() -> tuple[bool, str]:
    import torch

    step = torch.finfo(torch.float64).eps
    kept = float(torch.tensor(1.0, dtype=torch.float64) + step) > 1.0
    return kept, f"float64 step {step:.1e}"


def _finite_depth() -> tuple[bool, str]:
    import numpy as np

    import deeplimits as dl

    found = dl.kernel(dl.ResNet("relu").body, np.ones((2, 5)), depth=64, get="nngp")
    return _close(float(np.asarray(found)[0, 0]), (1 + 1 / 128) ** 64, 1e-12)


def _corner() -> tuple[bool, str]:
    import numpy as np

    import deeplimits as dl

    found = dl.kernel(dl.ResNet("relu"), np.ones((2, 5)), depth=inf, get="ntk")
    return _close(float(np.asarray(found)[0, 0]), 2.5 * exp(0.5), 1e-9)


def _sampled() -> tuple[bool, str]:
    import numpy as np

    import deeplimits as dl

    width, depth, networks = 256, 16, 200
    mean = dl.sample(dl.ResNet("relu"), np.ones((1, 5)), width, depth, networks, seed=1).mean
    score = (float(np.asarray(mean)[0, 0]) - (1 + 1 / 32) ** 16) / (3.565 / sqrt(width * networks))
    return abs(score) < 4.0, f"{score:+.1f} standard errors from its prediction"


def _close(found: float, expected: float, tolerance: float) -> tuple[bool, str]:
    error = abs(found / expected - 1)
    return error <= tolerance, f"{found:.12g}, relative error {error:.0e}"


CHECKS: dict[str, Callable[[], tuple[bool, str]]] = {
    "double precision": _precision,
    "NNGP of a ResNet, depth 64": _finite_depth,
    "NTK of a ResNet, depth infinity": _corner,
    "200 sampled networks": _sampled,
}
