"""Each row of docs/differences-from-volcano.md names a reason and a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "differences-from-volcano.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip().strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("|") and not line.startswith(("| behaviour", "|---"))
]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_row_is_complete_and_its_test_exists(row: list[str]) -> None:
    assert len(row) == 5
    assert all(row)
    found = re.fullmatch(r"`(tests/[\w/]+\.py)::(\w+)`", row[4])
    assert found is not None, row[4]
    assert f"def {found.group(2)}(" in (ROOT / found.group(1)).read_text(encoding="utf-8")
