"""A list of indexes is as large as its text, however many indexes it names."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.api.groups.batch_v1 import SuccessPolicy, SuccessPolicyRule, format_indexes, parse_indexes
from unisono.controllers.pod_facts import fulfilled_rule

HUGE = "0-2147483646"


def test_a_range_of_two_thousand_million_costs_nothing() -> None:
    tracemalloc.start()
    try:
        found = parse_indexes(HUGE, below=2**31 - 1)
        assert found.total == 2**31 - 1
        assert 2**31 - 2 in found
        assert 2**31 - 1 not in found
        policy = SuccessPolicy(rules=[SuccessPolicyRule(succeeded_indexes=HUGE, succeeded_count=2)])
        assert fulfilled_rule(policy, {7}) is None
        assert fulfilled_rule(policy, {7, 8}) == 0
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", ["9" * 11, f"0-{'9' * 5000}"])
def test_numbers_that_are_no_indexes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="too large index"):
        parse_indexes(text)


@given(st.sets(st.integers(0, 60)))
def test_what_is_written_is_read_again(indexes: set[int]) -> None:
    found = parse_indexes(format_indexes(indexes))
    assert set(found) == indexes
    assert found.total == len(indexes)
    assert {index for index in range(-1, 62) if index in found} == indexes
