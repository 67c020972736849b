"""Places kept on disk as they are finished, so that an interrupted comparison resumes."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from deeplimits.errors import InputError
from deeplimits.numerics.fingerprint import fingerprint
from deeplimits.plane.record import FORMAT, Place, decode, encode


class Store:
    """One JSON file per finished place under a folder, written whole or not at all; a place cut short is redone.

    Args:
        folder: where, or None to keep nothing.
        question: everything that a place depends on.
        kind: the type of a place.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, *question: Any, kind: type[Any] = Place):
        self.kind = kind
        self.folder = None if folder is None else Path(folder)
        self.question = fingerprint(FORMAT, *question)
        if self.folder is not None:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError("store", f"{str(folder)!r} is not a folder ({error})", "name a folder") from error

    def get(self, width: int, depth: int) -> Any:
        """Return the stored place, None where there is none or its file cannot be read."""
        path = self._path(width, depth)
        if path is None or not path.exists():
            return None
        try:
            data = json.loads(path.read_text())
            return decode(self.kind, data["place"]) if data["question"] == self.question else None
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def put(self, place: Any) -> None:
        """Write the place."""
        path = self._path(place.width, place.depth)
        if path is None:
            return
        write_whole(path, json.dumps({"question": self.question, "place": encode(place)}, allow_nan=False))

    def _path(self, width: int, depth: int) -> Path | None:
        if self.folder is None:
            return None
        return self.folder / f"{self.question}-width{width}-depth{depth}.json"


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all: into a temporary file beside it first, then renamed."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
