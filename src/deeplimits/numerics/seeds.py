"""Named random streams: the same numbers in any order, on any worker."""

from __future__ import annotations

import hashlib
import operator
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np

from deeplimits.errors import InputError

if TYPE_CHECKING:
    import torch


def sequence(seed: SupportsIndex, *names: str | int) -> np.random.SeedSequence:
    """Return the seed sequence of the stream `names` under `seed`.

    entropy = (seed, BLAKE2b-128 of the names), so a stream depends on its own name alone and never on which
    streams were opened before it.

    Valid when: seed is a whole number >= 0 and every name is text or a whole number.

    Raises:
        InputError: otherwise.
    """
    words = np.frombuffer(hashlib.blake2b(_encoded(names), digest_size=16).digest(), dtype="<u4")
    return np.random.SeedSequence([_whole(seed), *(int(word) for word in words)])


def generator(seed: SupportsIndex, *names: str | int) -> np.random.Generator:
    """Return numpy's generator of the stream `names` under `seed`.

    Example:
        >>> int(generator(0, "network", 7).integers(100)) == int(generator(0, "network", 7).integers(100))
        True
    """
    return np.random.Generator(np.random.PCG64(sequence(seed, *names)))


def torch_generator(seed: SupportsIndex, *names: str | int, device: str = "cpu") -> torch.Generator:
    """Return torch's generator of the stream `names` under `seed`, on `device`."""
    import torch

    state = int(sequence(seed, *names).generate_state(1, np.uint64)[0])
    return torch.Generator(device=device).manual_seed(state & (2**63 - 1))


def _encoded(names: tuple[str | int, ...]) -> bytes:
    parts = []
    for name in names:
        if isinstance(name, str):
            kind, body = b"s", name.encode()
        else:
            kind, body = b"i", str(_whole(name, negative=True)).encode()
        parts.append(kind + str(len(body)).encode() + b":" + body)
    return b"".join(parts)


def _whole(value: SupportsIndex, negative: bool = False) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or (number < 0 and not negative):
        raise InputError(
            where="seed",
            why=f"{value!r} is not a whole number" + ("" if negative else " >= 0"),
            fix="give a whole number such as seed=0; streams are told apart by name, not by fractional seeds",
        )
    return number
