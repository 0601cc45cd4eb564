"""Score formulas against numbers computed by hand and against a scalar transcription."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.engine.plugins.common import formulas

GI = 1 << 30


def column(*amounts: int) -> np.ndarray:
    return np.array(amounts, dtype=np.int64)[:, None]


ALLOCATABLE = column(64_000, 256 * GI, 8_000)
USED = column(16_000, 64 * GI, 4_000)
POD = column(8_000, 32 * GI, 2_000)


def test_balanced_allocation_of_the_worked_example() -> None:
    assert formulas.balance(USED, ALLOCATABLE).tolist() == [88]
    assert formulas.balance(USED + POD, ALLOCATABLE).tolist() == [82]
    assert formulas.balanced_allocation(USED, USED + POD, ALLOCATABLE).tolist() == [72]


def test_least_allocated_of_the_worked_example() -> None:
    assert formulas.least_allocated((USED + POD)[:2], ALLOCATABLE[:2], np.array([50, 50])).tolist() == [62]


def test_balance_that_does_not_change_is_75() -> None:
    empty = column(0, 0)
    assert formulas.balanced_allocation(empty, column(100, 100), column(1000, 1000)).tolist() == [75]


@pytest.mark.parametrize(
    ("requested", "allocatable", "least", "most"),
    [
        ((0, 0), (1000, 1000), 100, 0),
        ((500, 250), (1000, 1000), 62, 37),
        ((333, 333), (1000, 1000), 66, 33),
        ((1001, 0), (1000, 1000), 50, 50),  # more than there is: nothing free, all used
        ((0, 500), (0, 1000), 50, 50),  # no cpu on the node: left out
        ((0, 0), (0, 0), 0, 0),
    ],
)
def test_least_and_most(requested: tuple[int, int], allocatable: tuple[int, int], least: int, most: int) -> None:
    weights = np.array([1, 1])
    assert formulas.least_allocated(column(*requested), column(*allocatable), weights).tolist() == [least]
    assert formulas.most_allocated(column(*requested), column(*allocatable), weights).tolist() == [most]


def test_binpack_of_the_worked_example() -> None:
    request, weights = POD[:, 0], np.array([5, 1, 2])
    assert formulas.binpack(request, USED, ALLOCATABLE, weights)[0] * 10 == pytest.approx(468.75)
    other = column(8_000, 32 * GI, 2_000)
    assert formulas.binpack(request, other, ALLOCATABLE, weights)[0] * 10 == pytest.approx(312.5)
    assert formulas.binpack(request[:2], USED[:2], ALLOCATABLE[:2], np.array([1, 1]))[0] == pytest.approx(37.5)


def test_binpack_overflow_missing_resource_and_no_weight() -> None:
    request = np.array([500, 500])
    assert formulas.binpack(request, column(600, 0), column(1000, 1000), np.array([1, 1])).tolist() == [0.0]
    assert formulas.binpack(request, column(0, 0), column(1000, 0), np.array([1, 1])).tolist() == [25.0]
    assert formulas.binpack(request, column(0, 0), column(1000, 1000), np.array([0, 0])).tolist() == [0.0]


AMOUNTS = st.integers(0, 10_000)


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=4))
def test_balance_is_the_deviation_of_fractions(pairs: list[tuple[int, int]]) -> None:
    fractions = [min(1.0, used / has) for used, has in pairs if has]
    if len(fractions) == 2:
        deviation = abs(fractions[0] - fractions[1]) / 2
    else:
        deviation = statistics.pstdev(fractions) if len(fractions) > 2 else 0.0
    expected = (1 - deviation) * 100
    got = formulas.balance(column(*(p[0] for p in pairs)), column(*(p[1] for p in pairs)))[0]
    assert got in {math.floor(expected - 1e-9), math.floor(expected), math.floor(expected + 1e-9)}


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS), min_size=2, max_size=20))
def test_a_node_scores_the_same_alone_and_in_company(nodes: list[tuple[int, int, int]]) -> None:
    used = np.array([[n[0], n[1]] for n in nodes], dtype=np.int64).T
    has = np.array([[n[2], n[0] + n[2]] for n in nodes], dtype=np.int64).T
    request = column(100, 50)
    together = formulas.balanced_allocation(used, used + request, has)
    for i in range(len(nodes)):
        alone = formulas.balanced_allocation(used[:, i : i + 1], used[:, i : i + 1] + request, has[:, i : i + 1])
        assert alone[0] == together[i]
