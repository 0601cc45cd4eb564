"""Every case that is known to differ is explained in the documentation, and there are few of them."""

from __future__ import annotations

from pathlib import Path

from conformance_cases import KNOWN_DIFFERENCES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "differences-from-volcano.md"


def test_known_differences_are_documented() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"`{case}`" in text for case in KNOWN_DIFFERENCES)
    assert len(KNOWN_DIFFERENCES) <= 10
