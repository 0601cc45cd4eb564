"""What is remembered from cycle to cycle, and copies of it in which something is tried."""

from __future__ import annotations

from unisono.cluster.interning import Memory, SharedObjects
from unisono.engine.plugins.fair_share import UsageBook


class Cache:
    """Can be found out again."""


def test_copies_begin_with_what_is_remembered_and_change_nothing_of_it() -> None:
    real = SharedObjects()
    book = real.of(UsageBook, UsageBook)
    book.look({("q", "alice"): 1.0}, 0.0, 3600.0)
    for tried in (SharedObjects(real), SharedObjects(real, real), SharedObjects(SharedObjects(real))):
        tried.of(UsageBook, UsageBook).look({("q", "bob"): 1.0}, 100.0, 3600.0)
        assert tried.of(UsageBook, UsageBook).kept(100.0)["q"]["alice"].seconds > 90.0
        assert {name: use.held for name, use in book.kept(100.0)["q"].items()} == {"alice": 1.0}


def test_what_is_remembered_first_in_a_copy_stays_there() -> None:
    real = SharedObjects()
    assert isinstance(SharedObjects(real, real).of(UsageBook, UsageBook), Memory)
    assert real.find(UsageBook) is None


def test_all_else_is_had_in_common_where_it_holds_for_the_copy() -> None:
    real = SharedObjects()
    found = SharedObjects(real, real).of(Cache, Cache)
    assert real.find(Cache) is found
    assert SharedObjects(real).find(Cache) is None
