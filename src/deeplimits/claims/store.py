"""Steps of claims kept on disk as they are finished, so that an interrupted claim resumes."""

from __future__ import annotations

import hashlib
import json
import os
import re
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from deeplimits.claims.claim import FORMAT, Timed
from deeplimits.errors import InputError
from deeplimits.numerics.fingerprint import fingerprint
from deeplimits.plane.record import decode, encode
from deeplimits.plane.store import write_whole

ROOMS = ("architecture", "numerics", "limits", "finite", "plane", "inference", "transfer", "claims")


class Store:
    """One JSON file per finished step; a step cut short, or found by other code or at other sizes, is redone."""

    def __init__(self, folder: str | os.PathLike[str] | None):
        self.folder = None if folder is None else Path(folder)
        if self.folder is not None:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError("store", f"{str(folder)!r} is not a folder ({error})", "name a folder") from error

    def get(self, key: str, step: str, sizes: Any) -> Timed | None:
        """Return the stored step, None where there is none, its file cannot be read, or it answers something else."""
        path = self._path(key, step)
        if path is None or not path.exists():
            return None
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return decode(Timed, data["found"]) if data["question"] == question(key, step, sizes) else None
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def put(self, key: str, sizes: Any, found: Timed) -> None:
        """Write a step."""
        path = self._path(key, found.step)
        if path is not None:
            asked = question(key, found.step, sizes)
            write_whole(path, json.dumps({"question": asked, "found": encode(found)}, allow_nan=False))

    def _path(self, key: str, step: str) -> Path | None:
        return None if self.folder is None else self.folder / f"{key}--{re.sub('[^a-z0-9]+', '-', step)}.json"


def question(key: str, step: str, sizes: Any) -> str:
    """Return a digest of what a step asks, and of the code that answers it."""
    return fingerprint(FORMAT, key, step, sizes, program())


@cache
def program() -> str:
    """Return a digest of the program's source, drawing and command line left out, and of numpy's and torch's versions.

    Example:
        >>> len(program())
        32
    """
    import deeplimits

    home = Path(deeplimits.__path__[0])
    digest = hashlib.blake2b(digest_size=16)
    for room in ROOMS:
        for path in sorted(path for kind in ("*.py", "*.toml") for path in (home / room).rglob(kind)):
            digest.update(path.relative_to(home).as_posix().encode() + path.read_bytes())
    digest.update(f"{metadata.version('numpy')} {metadata.version('torch')}".encode())
    return digest.hexdigest()
