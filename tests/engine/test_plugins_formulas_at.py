"""The formulas for one node give what the array formulas give for that node."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from unisono.engine.plugins.common import formulas

amount = st.one_of(st.integers(0, 40), st.integers(0, 2**42))
wholes = st.one_of(st.just(0), st.integers(1, 40), st.integers(1, 2**42))


@st.composite
def nodes(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]], list[list[int]], list[int]]:
    """Amounts before and after, and allocatable, as ``[resource][node]``; weights by resource."""
    resources, size = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    rows = st.lists(st.lists(amount, min_size=size, max_size=size), min_size=resources, max_size=resources)
    limits = st.lists(st.lists(wholes, min_size=size, max_size=size), min_size=resources, max_size=resources)
    weights = st.lists(st.integers(0, 5), min_size=resources, max_size=resources)
    return draw(rows), draw(rows), draw(limits), draw(weights)


def of(rows: list[list[int]], column: int) -> list[int]:
    return [row[column] for row in rows]


@settings(max_examples=examples(300), deadline=None)
@given(nodes())
def test_one_node_is_as_in_the_array(given_: Any) -> None:
    before, after, whole, weights = given_
    b, a, w = (np.array(part, dtype=np.int64) for part in (before, after, whole))
    each = np.array(weights, dtype=np.int64)
    request = np.array(of(after, 0), dtype=np.int64)
    vectors = (
        formulas.least_allocated(a, w, each),
        formulas.most_allocated(a, w, each),
        formulas.balance(a, w),
        formulas.balanced_allocation(b, a, w),
        formulas.binpack(request, b, w, each),
    )
    for column in range(b.shape[1]):
        one_before, one_after, one_whole = of(before, column), of(after, column), of(whole, column)
        single = (
            formulas.least_allocated_at(one_after, one_whole, weights),
            formulas.most_allocated_at(one_after, one_whole, weights),
            formulas.balance_at(one_after, one_whole),
            formulas.balanced_allocation_at(one_before, one_after, one_whole),
            formulas.binpack_at(of(after, 0), one_before, one_whole, weights),
        )
        assert [vector[column] for vector in vectors] == list(single)
