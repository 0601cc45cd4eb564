"""Sub-groups that fill their domains to the last place: where they fit together in any way, all of them start."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_groups_of_groups import bound, leaf, tree
from topology_world import racks


def starts(rooms: list[int], sizes: list[int]) -> bool:
    names = [f"g{number}" for number in range(len(sizes))]
    policies = [leaf(name, size, tier=1) for name, size in zip(names, sizes, strict=True)]
    pods = dict(zip(names, sizes, strict=True))
    found = bound(racks({f"r{at}": room for at, room in enumerate(rooms)}), tree(policies, pods, sum(sizes)))
    assert found in ({}, pods)  # all of them or none
    return bool(found)


@pytest.mark.parametrize(
    ("rooms", "sizes"),
    [
        ([4, 2], [2, 4]),
        ([12, 10], [1, 10, 9, 2]),
        ([8, 9, 2], [9, 2, 8]),
        ([6, 6], [3, 3, 2, 2, 2]),
        ([5, 4], [3, 2, 4]),
    ],
)
def test_the_only_way_to_share_domains_is_found(rooms, sizes):
    assert starts(rooms, sizes)


@pytest.mark.parametrize(("rooms", "sizes"), [([5, 5], [4, 4, 2]), ([6, 6], [4, 4, 4])])
def test_what_cannot_be_shared_does_not_start(rooms, sizes):
    assert not starts(rooms, sizes)


@given(data=st.data())
def test_whatever_is_cut_from_domains_fits_into_them(data):
    rooms = data.draw(st.lists(st.integers(1, 6), min_size=2, max_size=4))
    sizes = []
    for room in rooms:
        left = room
        while left:
            sizes.append(data.draw(st.integers(1, left)))
            left -= sizes[-1]
    assert starts(rooms, data.draw(st.permutations(sizes)))
