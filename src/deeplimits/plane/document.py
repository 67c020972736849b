"""What every record of the plane can do: rows, data frames, JSON and words."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import Any, Self, get_args, get_origin, get_type_hints

from deeplimits.errors import InputError, MissingExtra

FORMAT = 1


class Document:
    """A record of places, as rows, as a data frame, as JSON and as text."""

    places: Any

    def _at(self, width: int, depth: int, known: str) -> Any:
        for place in self.places:
            if (place.width, place.depth) == (width, depth):
                return place
        why = f"no place at width {width}, depth {depth}"
        raise InputError(f"{type(self).__name__}.place", why, f"choose from {known}")

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat {column: number} per place, matrices left out."""
        raise NotImplementedError

    def to_frame(self, backend: str = "pandas") -> Any:
        """Return `rows` as a data frame of the named library ("pandas", "polars", "pyarrow").

        Raises:
            MissingExtra: the library is not installed.
        """
        rows = self.rows()
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        try:
            import narwhals

            return narwhals.from_dict(columns, backend=backend).to_native()  # type: ignore[arg-type]
        except (ImportError, ValueError) as error:
            fix = f"pip install narwhals {backend}, or use rows() or to_json(), which need nothing"
            raise MissingExtra(f"{type(self).__name__}.to_frame", str(error).partition("\n")[0], fix) from error

    def to_json(self) -> str:
        """Return the record as one JSON document; numbers that JSON lacks are the texts "inf", "-inf", "nan"."""
        return json.dumps({"format": FORMAT, **encode(self)}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the record that `to_json` wrote.

        Raises:
            InputError: the text is not such a document.
        """
        try:
            data = json.loads(text)
            if data.pop("format") != FORMAT:
                raise ValueError("another format number")
            return decode(cls, data)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            why = f"not a comparison written by to_json ({error})"
            raise InputError(f"{cls.__name__}.from_json", why, "give the text that to_json returned") from error

    def summary(self) -> str:
        """Return the table of places and the verdict in words."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.summary()


def encode(value: Any) -> Any:
    """Return a record as nested dicts, lists, numbers and text that JSON can hold."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return str(float(value))
    return value


def decode(kind: Any, data: Any) -> Any:
    """Return the record of type `kind` that `encode` turned into `data`."""
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{name: decode(hints[name], value) for name, value in data.items()})  # type: ignore[operator]
    options = [option for option in get_args(kind) if option is not type(None)]
    if get_origin(kind) is list:
        return [decode(options[0], item) for item in data]
    if data is None or not options:
        return float(data) if kind is float and data is not None else data
    return decode(options[0], data)
