"""Quantities: exact values, Kubernetes' rounding, canonical text."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.api.quantity import (
    MAX,
    QuantityError,
    canonical,
    format_bytes,
    format_milli,
    parse_quantity,
    to_int,
    to_milli,
)


@pytest.mark.parametrize(
    ("text", "milli", "whole", "shown"),
    [
        ("0", 0, 0, "0"),
        ("-0", 0, 0, "0"),
        ("100m", 100, 1, "100m"),
        ("0.1", 100, 1, "100m"),
        (".5", 500, 1, "500m"),
        ("5.", 5000, 5, "5"),
        ("+2", 2000, 2, "2"),
        ("-1.5", -1500, -2, "-1500m"),
        ("1000m", 1000, 1, "1"),
        ("1500m", 1500, 2, "1500m"),
        ("1k", 10**6, 1000, "1k"),
        ("1000k", 10**9, 10**6, "1M"),
        ("1.5G", 15 * 10**11, 15 * 10**8, "1500M"),
        ("100M", 10**11, 10**8, "100M"),
        ("2T", 2 * 10**15, 2 * 10**12, "2T"),
        ("1P", 10**18, 10**15, "1P"),
        ("1E", MAX, 10**18, "1E"),
        ("1Ki", 1024000, 1024, "1Ki"),
        ("1024Mi", 1024**3 * 1000, 1024**3, "1Gi"),
        ("0.5Gi", 512 * 1024**2 * 1000, 512 * 1024**2, "512Mi"),
        ("1.5Ki", 1536000, 1536, "1536"),
        ("0.1Gi", 107374182400, 107374183, "107374182400m"),
        ("512", 512000, 512, "512"),
        ("1e3", 10**6, 1000, "1e3"),
        ("1E3", 10**6, 1000, "1e3"),
        ("12e2", 1200000, 1200, "1200"),
        ("1e-3", 1, 1, "1e-3"),
        ("1n", 1, 1, "1n"),
        ("1u", 1, 1, "1u"),
        ("0.0000000001", 1, 1, "1n"),
        ("1e400", MAX, MAX, str(MAX)),
        ("1e-400", 1, 1, "1e-9"),
        ("1e99999999", MAX, MAX, str(MAX)),
        ("9223372036854775808", MAX, MAX, str(MAX)),
        (2, 2000, 2, "2"),
        (0.25, 250, 1, "250m"),
        (1e-05, 1, 1, "10e-6"),
        (10**30, MAX, MAX, str(MAX)),
    ],
)
def test_values(text: str | int | float, milli: int, whole: int, shown: str) -> None:
    assert (to_milli(text), to_int(text), canonical(text)) == (milli, whole, shown)


def test_a_fraction_of_binary_units_keeps_its_family() -> None:
    assert canonical("1536Ki") == "1536Ki"
    assert canonical("2048Ki") == "2Mi"
    assert canonical("1023Ki") == "1023Ki"
    # Below 1024 Kubernetes writes plain numbers.
    assert canonical("0.5Ki") == "512"


@pytest.mark.parametrize(
    "text",
    ["", " ", "1 Gi", "Gi", ".", "+", "1x", "1K", "1ki", "1mi", "1e", "1e+", "1e1.5", "--1", "0x10", "١", "1,5", "∞"],
)
def test_not_a_quantity(text: str) -> None:
    with pytest.raises(QuantityError, match="is not a quantity: write a number"):
        parse_quantity(text)


@pytest.mark.parametrize("value", [True, None, [], float("nan"), float("inf"), "9" * 1000, "1e" + "9" * 30])
def test_values_that_are_no_numbers(value: object) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(value)  # type: ignore[arg-type]


def test_formats() -> None:
    assert [format_milli(x) for x in (0, 1, 1500, 2000, 10**6)] == ["0", "1m", "1500m", "2", "1k"]
    assert [format_bytes(x) for x in (0, 1000, 1024, 1536, 3 * 1024**3, -2048)] == [
        "0",
        "1000",
        "1Ki",
        "1536",
        "3Gi",
        "-2Ki",
    ]


SUFFIXES = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": 1, "k": 10**3, "M": 10**6}
BINARY = {"Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}


@given(st.integers(-(10**9), 10**9), st.sampled_from(sorted(SUFFIXES | BINARY)))
def test_parsing_is_exact(number: int, suffix: str) -> None:
    assert parse_quantity(f"{number}{suffix}") == Fraction(number) * Fraction((SUFFIXES | BINARY)[suffix])


@given(st.decimals(-(10**9), 10**9, places=6), st.sampled_from(["", "k", "M", "Ki", "Mi", "e3", "E-3"]))
def test_canonical_round_trips(number: Decimal, suffix: str) -> None:
    text = f"{number:f}{suffix}"
    shown = canonical(text)
    assert parse_quantity(shown) == parse_quantity(text)
    assert canonical(shown) == shown


@given(st.fractions(min_value=-(10**6), max_value=10**6, max_denominator=10**6))
def test_rounding_is_away_from_zero(number: Fraction) -> None:
    nano = f"{int(number * 10**9)}n"
    exact = parse_quantity(nano)
    assert abs(to_int(nano)) >= abs(exact) > abs(to_int(nano)) - 1
    assert abs(to_milli(nano)) >= abs(exact * 1000) > abs(to_milli(nano)) - 1


@given(st.text())
def test_any_text_is_a_quantity_or_an_error(text: str) -> None:
    try:
        value = parse_quantity(text)
    except QuantityError:
        return
    assert abs(value) <= MAX


@given(st.integers(-(2**62), 2**62))
def test_formats_parse_back(value: int) -> None:
    assert to_int(format_bytes(value)) == value
    assert parse_quantity(format_milli(value)) == Fraction(value, 1000)
