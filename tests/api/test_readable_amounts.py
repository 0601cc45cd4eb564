"""Amounts for people: short, and never off by more than the last digit that is shown."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.api.quantity import parse_quantity
from unisono.api.resources import readable

GI = 1 << 30


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("memory", 30331802419, "28.25Gi"),
        ("memory", 4 * GI, "4Gi"),
        ("memory", 4000 << 20, "4000Mi"),
        ("memory", 29621877 << 10, "28.25Gi"),
        ("memory", GI + GI // 2 + 1, "1.5Gi"),
        ("memory", 1000, "1000"),
        ("memory", 0, "0"),
        ("requests.memory", (1 << 40) + 1, "1Ti"),
        ("ephemeral-storage", 123456789, "117.74Mi"),
        ("cpu", 500, "500m"),
        ("cpu", -500, "-500m"),
        ("cpu", 1500, "1.5"),
        ("cpu", -1500, "-1.5"),
        ("nvidia.com/gpu", 16344, "16.344"),
        ("nvidia.com/gpu", 16004, "16.004"),
        ("cpu", 1_000_000, "1000"),
        ("nvidia.com/gpu", 8000, "8"),
        ("nvidia.com/gpu", 500, "500m"),
        ("nvidia.com/gpu", 739_142, "739"),
        ("cpu", 739_142, "739.142"),
        ("pods", 110, "110"),
    ],
)
def test_amounts_are_short(name: str, amount: int, text: str) -> None:
    assert readable({name: amount}) == {name: text}


def test_a_limit_is_rounded_to_the_safe_side() -> None:
    assert readable({"memory": 30331802419}, "down") == {"memory": "28.24Gi"}
    assert readable({"memory": 30331802419}, "up") == {"memory": "28.25Gi"}
    assert readable({"nvidia.com/gpu": 739_142}, "down") == {"nvidia.com/gpu": "739"}
    assert readable({"nvidia.com/gpu": 739_142}, "up") == {"nvidia.com/gpu": "740"}


@given(st.integers(0, 2**62))
def test_bytes_keep_their_size(amount: int) -> None:
    near, up, down = (parse_quantity(readable({"memory": amount}, way)["memory"]) for way in ("nearest", "up", "down"))
    assert down <= amount <= up
    assert down <= near <= up
    assert abs(near - amount) <= Fraction(amount, 100)
