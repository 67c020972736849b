"""Every claim at reduced size: it runs, nothing it finds contradicts theory, and its numbers fit its record.

Verdicts at this size are mostly undecided; the full ones stand in docs/claims.json.
"""

from math import isfinite
from pathlib import Path

import pytest

from deeplimits.claims.agreement import LEVEL
from deeplimits.claims.claim import NOT_CONFIRMED, from_json, to_json
from deeplimits.claims.registry import keys
from deeplimits.claims.run import run

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("key", keys())
def test_claim(key):
    (found,) = run([key], size="reduced")
    assert [part.name for part in found.parts if part.verdict == NOT_CONFIRMED] == []
    assert found.verdict in ("confirmed", "undecided")
    names = [part.name for part in found.parts]
    assert len(names) == len(set(names))
    assert found.headline in names
    for part in found.parts:
        assert isfinite(part.measured), part.name
        assert isfinite(part.predicted), part.name
        assert part.standard_error is None or part.standard_error >= 0, part.name
    assert found.panels
    for panel in found.panels:
        for curve in panel.curves:
            lengths = {len(values) for values in (curve.measured, curve.error, curve.predicted) if values is not None}
            assert lengths == {len(curve.x)}, (panel.title, curve.name)
    assert from_json(to_json([found])) == [found]


def test_a_claim_fails_a_right_program_with_chance_below_one_in_ten_thousand():
    record = from_json((ROOT / "docs" / "claims.json").read_text(encoding="utf-8"))
    sampled = [sum(part.standard_error != 0 for part in one.parts) for one in record]
    assert sum(sampled) > len(record)
    assert max(sampled) <= 1e-4 / LEVEL
