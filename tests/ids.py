"""Names of parametrised cases that are the same in every process."""

import re


def plain(value: object) -> str:
    """Return str(value) without memory addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))
