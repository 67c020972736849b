"""Which claims there are: one file each in this folder, imported only when it is asked for."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Sequence

from deeplimits.claims.claim import Claim
from deeplimits.errors import InputError, nearest

_FILE = re.compile(r"[a-z]+(_[a-z]+)*_(19|20)\d\d(_[a-z0-9]+)*")


def keys() -> list[str]:
    """Return the keys of all claims, by year and name, from the names of their files.

    Example:
        >>> "jacot-2018-ntk" in keys()
        True
    """
    import deeplimits.claims as room

    names = [module.name for module in pkgutil.iter_modules(room.__path__) if _FILE.fullmatch(module.name)]
    found = [name.replace("_", "-") for name in names]
    return sorted(found, key=lambda key: (re.findall(r"\d{4}", key)[0], key))


def chosen(asked: Sequence[str]) -> list[str]:
    """Return the keys asked for, all of them if none is.

    Raises:
        InputError: an unknown key (the nearest are offered).
    """
    known = keys()
    for key in asked:
        if key not in known:
            raise InputError("claims", f"no claim {key!r}", nearest(key, known))
    return [key for key in known if key in asked] or known


def claim(key: str) -> Claim:
    """Return one claim.

    Raises:
        InputError: an unknown key (the nearest are offered).
    """
    (found,) = chosen([key])
    return importlib.import_module(f"deeplimits.claims.{found.replace('-', '_')}").CLAIM
