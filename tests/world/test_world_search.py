"""Fixed seeds: what must never be is not, and each deliberate fault is found by the world that is known to find it."""

from __future__ import annotations

import pytest
from world_faults import FAULTS, Fault, faulty, hunted
from world_plane import lived
from world_story import story

# With make test; the others with make test-more.
_FIRST = (4, 8)
_MORE = (0, 1, 2, 3, 5, 6, 1001, 2000, 2004)


@pytest.mark.parametrize("seed", _FIRST)
def test_nothing_happens_that_must_never_be(seed: int) -> None:
    assert lived(story(seed, short=True)).found == []


@pytest.mark.more
@pytest.mark.parametrize("seed", _MORE)
def test_nothing_happens_that_must_never_be_in_more_worlds(seed: int) -> None:
    assert lived(story(seed, short=True)).found == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_deliberate_fault_changes_the_source_as_it_is(fault: Fault) -> None:
    compile(faulty(fault), fault.module, "exec")


@pytest.mark.more
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.seed is not None], ids=lambda fault: fault.name)
def test_a_deliberate_fault_is_found(fault: Fault) -> None:
    assert fault.seed is not None
    seed, what = hunted(fault, [fault.seed])

    assert seed == fault.seed, what
