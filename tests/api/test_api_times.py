"""Times and durations on the wire."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.api.times import duration_or_none, is_time, parse_duration, parse_time, rfc3339, rfc3339_micro, time_or


def test_formats() -> None:
    assert rfc3339(0) == "1970-01-01T00:00:00Z"
    assert rfc3339(1_795_192_430.999) == "2026-11-20T16:33:50Z"
    assert rfc3339_micro(1_795_192_430.25) == "2026-11-20T16:33:50.250000Z"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("1970-01-01T01:00:00+01:00", 0.0),
        ("1970-01-01T00:00:00.5Z", 0.5),
        ("1970-01-01T00:00:00.123456789Z", 0.123456),
    ],
)
def test_parsing(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "now", "2026-11-20", "2026-11-20T16:33:50", "2026-11-20 16:33:50Z"])
def test_not_a_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"RFC 3339|isoformat"):
        parse_time(text)


# What metav1.Time reads: Go's time.Parse(time.RFC3339, text).
@pytest.mark.parametrize(
    ("text", "readable"),
    [
        ("2026-12-31T23:59:59Z", True),
        ("2026-12-31T23:59:59.999999999Z", True),
        ("2026-12-31T23:59:59+05:30", True),
        ("2028-02-29T00:00:00Z", True),
        ("2026-12-31T23:59:60Z", False),
        ("2026-12-31T24:00:00Z", False),
        ("2026-02-29T00:00:00Z", False),
        ("2026-12-31t23:59:59z", False),
        ("2026-12-31 23:59:59Z", False),
        ("2026-12-31T23:59:59", False),
        ("2026-12-31T23:59Z", False),
        ("20261231T235959Z", False),
        ("2026-W01-1T00:00:00Z", False),
        ("2026-12-31T23:59:59+24:00", False),
        ("\N{ARABIC-INDIC DIGIT TWO}026-12-31T23:59:59Z", False),
        ("", False),
    ],
)
def test_times_that_kubernetes_reads(text: str, readable: bool) -> None:
    assert is_time(text) is readable


@given(st.integers(0, 253402300799 * 10**6))
def test_microseconds_round_trip(micro: int) -> None:
    assert parse_time(rfc3339_micro(micro / 10**6)) == pytest.approx(micro / 10**6, abs=1e-4)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("90s", 90), ("1h30m", 5400), ("1.5h", 5400), ("100ms", 0.1), ("-5m", -300), ("1h1m1s1ms", 3661.001)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


MANY = 300_000


@pytest.mark.parametrize("text", ["", "5", "1d", "m", "1h 30m", "h1", "1h30", "--1s", "-", "+", ".s", "2562048h"])
def test_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match="invalid duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["1" * MANY, "1" * MANY + "s", "." * MANY, "1." * MANY, "1s" * MANY + "1", "0" * MANY])
def test_long_texts_are_refused_in_few_words(text: str) -> None:
    # Read in more than one way, each of these would take minutes: the time grows with the square of the length.
    with pytest.raises(ValueError, match=r'invalid duration "[0-9.s]{64}\.\.\."$'):
        parse_duration(text)


def test_annotations_of_many_units_are_not_read() -> None:
    assert duration_or_none("1h" * 100) == 360_000
    assert duration_or_none("1h" * 100_000) is None


def test_leading_zeros_do_not_count() -> None:
    assert parse_duration("0" * MANY + "5s") == 5


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:01:00Z", 60.0),
        ("1970-01-01T01:01:00+01:00", 60.0),
        ("", 7.0),
        (None, 7.0),
        ("soon", 7.0),
        ("1970-01-01T00:01:00", 7.0),
    ],
)
def test_a_time_that_an_object_does_not_say_readably_is_the_default(text: str | None, seconds: float) -> None:
    assert time_or(text, 7.0) == seconds
