"""Finished marches kept on disk, so that an interrupted question resumes."""

from __future__ import annotations

import os
import tempfile
from dataclasses import fields
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from deeplimits.errors import InputError
from deeplimits.limits.training.mean_field.record import Course
from deeplimits.limits.training.mean_field.task import WHERE, Task
from deeplimits.numerics.fingerprint import fingerprint

FORMAT = 1


class Store:
    """One file per finished march under a folder, written whole or not at all; a march cut short is redone.

    Args:
        folder: where, made where there is none; None keeps nothing.
        task: everything that a march depends on; another question has other files.

    Raises:
        InputError: not a folder.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, task: Task):
        self.folder = None
        if folder is None:
            return
        try:
            self.folder = Path(folder)
            self.folder.mkdir(parents=True, exist_ok=True)
        except (OSError, TypeError) as error:
            raise InputError(WHERE, f"store={folder!r} is not a folder ({error})", "name a folder") from None
        self.question = fingerprint(FORMAT, task)

    def get(self, number: int) -> Course | None:
        """Return a finished march, None where there is none or its file cannot be read."""
        if self.folder is None:
            return None
        try:
            with np.load(self._path(number), allow_pickle=False) as held:
                return Course(**{field.name: held[field.name] for field in fields(Course)})
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None

    def put(self, number: int, course: Course) -> None:
        """Write a finished march: into a temporary file beside it first, then renamed."""
        if self.folder is None:
            return
        handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=self.question, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, **{field.name: getattr(course, field.name) for field in fields(Course)})
            os.replace(temporary, self._path(number))
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _path(self, number: int) -> Path:
        assert self.folder is not None
        return self.folder / f"{self.question}-march{number}.npz"
