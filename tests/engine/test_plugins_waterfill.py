"""Exact water filling: worked numbers, and properties against Volcano's rounds."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.engine.plugins.proportion.division import Share, fill

GPU = 1000

CASES = {
    "weights, a request that is met early, a capability (A1)": (
        10_000,
        [Share(1, 2_000), Share(3, 20_000), Share(1, 20_000, limit=1_000)],
        [2_000, 7_000, 1_000],
    ),
    "a guarantee is granted even unused (A2)": (
        10_000,
        [Share(1, 1_000, guarantee=4_000), Share(1, 20_000, limit=6_000)],
        [4_000, 6_000],
    ),
    "what one queue alone wants it gets whole (11c)": (8 * GPU, [Share(1, 0), Share(1, 8 * GPU)], [0, 8 * GPU]),
    "and when it wants less than there is": (64_000, [Share(1, 200_000), Share(1, 8_000)], [56_000, 8_000]),
    "nobody": (10_000, [], []),
    "nothing to share": (0, [Share(1, 10), Share(2, 10)], [0, 0]),
    "nothing asked for": (10_000, [Share(1, 0), Share(5, 0)], [0, 0]),
    "one to two": (9_000, [Share(1, 99_999), Share(2, 99_999)], [3_000, 6_000]),
    "thirds are rounded down": (10_000, [Share(1, 99_999)] * 3, [3_333] * 3),
    "a queue of weight 0 gets its guarantee only": (
        10_000,
        [Share(0, 5_000, guarantee=100), Share(1, 99_999, limit=9_900)],
        [100, 9_900],
    ),
    "all weights 0": (10_000, [Share(0, 5_000), Share(0, 5_000, guarantee=7)], [0, 7]),
    "guarantees beyond the total stand": (10, [Share(1, 50, guarantee=8), Share(1, 50, guarantee=8)], [8, 8]),
    "a guarantee is a head start": (
        9_000,
        [Share(1, 99_999, guarantee=4_000), Share(1, 1_000), Share(1, 99_999)],
        [4_500, 1_000, 3_500],
    ),
}


@pytest.mark.parametrize(("total", "shares", "deserved"), CASES.values(), ids=CASES)
def test_worked_numbers(total: int, shares: list[Share], deserved: list[int]) -> None:
    assert fill(total, shares) == deserved


def volcano_rounds(total: int, shares: list[Share]) -> list[float]:
    """The rounds of floating point numbers that the exact filling is the limit of, for one resource."""
    held = [0.0] * len(shares)
    met = [False] * len(shares)
    left = float(total)
    for _ in range(100_000):
        weight = sum(s.weight for s, done in zip(shares, met, strict=True) if not done)
        if weight == 0:
            break
        before, moved = left, 0.0
        for i, share in enumerate(shares):
            if met[i]:
                continue
            old = held[i]
            new = old + left * share.weight / weight
            new = min(new, share.limit if share.limit is not None else math.inf, share.request)
            held[i] = max(new, share.guarantee)
            met[i] = share.request <= held[i] or held[i] == old
            moved += held[i] - old
        left = max(left - moved, 0.0)
        if left < 1e-9 or left == before:
            break
    return held


SHARES = st.builds(
    Share,
    weight=st.integers(1, 10),
    request=st.integers(0, 5_000),
    limit=st.none() | st.integers(0, 5_000),
    guarantee=st.just(0) | st.integers(0, 1_000),
)


@given(st.integers(0, 20_000), st.lists(SHARES, max_size=8))
def test_it_is_the_limit_of_volcanos_rounds(total: int, shares: list[Share]) -> None:
    for exact, rounds in zip(fill(total, shares), volcano_rounds(total, shares), strict=True):
        assert rounds - 1.001 <= exact <= rounds + 1e-3


@given(st.integers(0, 20_000), st.lists(SHARES, max_size=8))
def test_limits_hold_and_nothing_is_left_over(total: int, shares: list[Share]) -> None:
    deserved = fill(total, shares)
    ceilings = [max(min(s.request, s.limit if s.limit is not None else s.request), s.guarantee) for s in shares]
    assert all(s.guarantee <= d <= c for s, d, c in zip(shares, deserved, ceilings, strict=True))
    guaranteed = sum(s.guarantee for s in shares)
    assert sum(deserved) <= total + guaranteed
    if not guaranteed:
        assert sum(deserved) <= total
    if sum(ceilings) <= total:
        assert deserved == ceilings
    elif shares:
        assert sum(deserved) > total - len(shares)


@given(st.integers(0, 20_000), st.lists(SHARES, max_size=8), st.randoms())
def test_order_does_not_matter(total: int, shares: list[Share], random: object) -> None:
    order = list(range(len(shares)))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = fill(total, [shares[i] for i in order])
    assert [shuffled[order.index(i)] for i in range(len(shares))] == fill(total, shares)
