"""One thread a worker, and every test starts from the same random state."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "agg")
os.environ.setdefault("NO_COLOR", "1")

import random
import sys

import numpy as np
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

threadpool_limits(1)  # a plugin may have loaded numpy before the variable above was set
settings.register_profile("deeplimits", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("deeplimits")


@pytest.fixture(autouse=True)
def fixed_random_state():
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - also for code that a test brings along
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
