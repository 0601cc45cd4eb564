"""The pause of the garbage collector: afterwards it works as before, and finds what is garbage."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from unisono.gc_pauses import collector_paused


class Thing:
    """Something that can point to itself."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    gc.enable()
    yield
    gc.unfreeze()
    gc.enable()


def test_the_collector_is_off_inside_and_on_again_even_after_a_failure() -> None:
    with pytest.raises(RuntimeError), collector_paused():
        assert not gc.isenabled()
        raise RuntimeError
    assert gc.isenabled()


def test_somebody_else_may_have_switched_it_off() -> None:
    gc.disable()
    with collector_paused():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_what_was_made_inside_is_old_and_still_found_when_it_is_garbage() -> None:
    with collector_paused():
        thing = Thing()
        seen = weakref.ref(thing)
    assert any(one is thing for one in gc.get_objects(generation=2))
    del thing
    gc.collect()
    assert seen() is None
