"""Drawn fleets: every size from 1 GPU to all of them starts in time, and what is deleted leaves its room."""

from __future__ import annotations

import pytest
from drawn_fleets import calm


@pytest.mark.parametrize("seed", range(20))
async def test_every_size_starts_in_time_and_leaves_its_room(seed):
    await calm(seed)


@pytest.mark.more
@pytest.mark.parametrize("seed", range(100, 140))
async def test_more_sizes_start_in_time_and_leave_their_room(seed):
    await calm(seed)
