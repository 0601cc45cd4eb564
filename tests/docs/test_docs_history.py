"""What docs/history.md says of the history's bounds."""

from __future__ import annotations

from support.plane import REPOSITORY
from unisono.history.database import Bounds

PAGE = (REPOSITORY / "docs" / "history.md").read_text()


def test_the_page_says_how_much_is_kept() -> None:
    bounds = Bounds()
    assert f"{bounds.detail_days:.0f} days" in PAGE
    assert f"{bounds.days:.0f} days" in PAGE
    assert f"{bounds.most_bytes // 2**20} MiB" in PAGE
