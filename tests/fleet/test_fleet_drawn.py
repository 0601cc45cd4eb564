"""Drawn fleets: each size from 1 GPU to all of them starts in time, and nothing is lost, doubled, stuck or left."""

from __future__ import annotations

import pytest
from drawn_fleets import calm, troubled


@pytest.mark.parametrize("seed", range(8))
async def test_every_size_starts_in_time_and_leaves_its_room(seed):
    await calm(seed)


@pytest.mark.parametrize("seed", [1, 2, 3, 7, 9, 10, 15, 29])
async def test_members_that_come_go_grow_and_lie_lose_and_double_nothing(seed):
    await troubled(seed)


@pytest.mark.parametrize("seed", [0, 3, 4, 5])
async def test_training_jobs_of_every_size_start_in_time_where_pods_have_names(seed):
    await calm(seed, named=True)


@pytest.mark.more
@pytest.mark.parametrize("seed", range(100, 130))
async def test_more_fleets_whose_pods_have_names(seed):
    await calm(seed, named=True)
    await troubled(seed, named=True)


@pytest.mark.more
@pytest.mark.parametrize("seed", range(100, 140))
async def test_more_sizes_start_in_time_and_leave_their_room(seed):
    await calm(seed)


@pytest.mark.more
@pytest.mark.parametrize("seed", range(100, 130))
async def test_more_troubles_lose_and_double_nothing(seed):
    await troubled(seed)
