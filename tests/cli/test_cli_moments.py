"""Times as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.cli.printing import moment_of_text

NOW = datetime(2026, 11, 23, 15, 30, tzinfo=UTC).timestamp()
EAST = timezone(timedelta(hours=5))

READ = [
    ("now", datetime(2026, 11, 23, 15, 30, tzinfo=UTC)),
    (" NOW ", datetime(2026, 11, 23, 15, 30, tzinfo=UTC)),
    ("-7d", datetime(2026, 11, 16, 15, 30, tzinfo=UTC)),
    ("7d", datetime(2026, 11, 16, 15, 30, tzinfo=UTC)),
    ("-90m", datetime(2026, 11, 23, 14, 0, tzinfo=UTC)),
    ("-90min", datetime(2026, 11, 23, 14, 0, tzinfo=UTC)),
    ("-1.5h", datetime(2026, 11, 23, 14, 0, tzinfo=UTC)),
    ("-30s", datetime(2026, 11, 23, 15, 29, 30, tzinfo=UTC)),
    ("-2w", datetime(2026, 11, 9, 15, 30, tzinfo=UTC)),
    ("now-2weeks", datetime(2026, 11, 9, 15, 30, tzinfo=UTC)),
    ("now-90", datetime(2026, 11, 23, 15, 28, 30, tzinfo=UTC)),
    ("now-1hour", datetime(2026, 11, 23, 14, 30, tzinfo=UTC)),
    ("-1y", datetime(2025, 11, 23, 15, 30, tzinfo=UTC)),
    ("today", datetime(2026, 11, 23, tzinfo=EAST)),
    ("yesterday", datetime(2026, 11, 22, tzinfo=EAST)),
    ("2026-11", datetime(2026, 11, 1, tzinfo=EAST)),
    ("2026-11-01", datetime(2026, 11, 1, tzinfo=EAST)),
    ("2026-11-01T08:30", datetime(2026, 11, 1, 8, 30, tzinfo=EAST)),
    ("2026-11-01 08:30", datetime(2026, 11, 1, 8, 30, tzinfo=EAST)),
    ("2026-11-01T08:30:15Z", datetime(2026, 11, 1, 8, 30, 15, tzinfo=UTC)),
    ("2026-11-01t08:30:15+02:00", datetime(2026, 11, 1, 6, 30, 15, tzinfo=UTC)),
]


@pytest.mark.parametrize(("text", "expected"), READ)
def test_what_is_read(text: str, expected: datetime) -> None:
    assert moment_of_text(text, NOW, EAST) == expected.timestamp()


@pytest.mark.parametrize(
    "text", ["", "tomorrow", "7", "-7", "-7x", "--7d", "2026", "2026-13", "2026-11-31", "25:00", "-9999999999d", "1e5d"]
)
def test_what_is_not(text: str) -> None:
    with pytest.raises(ValueError, match="is no time: give now"):
        moment_of_text(text, NOW, EAST)


@given(st.text(max_size=30))
def test_nothing_else_is_raised(text: str) -> None:
    try:
        assert isinstance(moment_of_text(text, NOW, UTC), float)
    except ValueError as error:
        assert "is no time" in str(error)


def test_a_date_without_a_zone_is_of_this_machine() -> None:
    assert moment_of_text("2026-11-01", NOW) == datetime(2026, 11, 1).astimezone().timestamp()
