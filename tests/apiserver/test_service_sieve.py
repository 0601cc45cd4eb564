"""Long selections let others run in between, and one goes on at a time."""

from __future__ import annotations

import asyncio

from unisono.apiserver.flow_control import CALLER
from unisono.apiserver.operations.context import SLICE_SECONDS, Sieve
from unisono.apiserver.storage.objects import StoredEntry

ENTRIES = [StoredEntry("things", "ns", f"n{number}", number, b"{}") for number in range(100)]


class Slow:
    """A selector that takes a fifth of a slice for each object, by a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked: list[str] = []

    def clock(self) -> float:
        return self.now

    def matches(self, name: str) -> object:
        def even(entry: StoredEntry) -> bool:
            self.now += SLICE_SECONDS / 5
            self.asked.append(name)
            return entry.revision % 2 == 0

        return even


async def test_others_run_between_the_slices_of_a_long_selection() -> None:
    slow = Slow()
    sieve = Sieve(slow.clock)
    turns: list[int] = []

    async def other() -> None:
        while True:
            turns.append(len(slow.asked))
            await asyncio.sleep(0)

    watching = asyncio.create_task(other())
    found = await sieve.select(ENTRIES, slow.matches("a"))  # type: ignore[arg-type]
    watching.cancel()
    assert [entry.revision for entry in found] == list(range(0, 100, 2))
    steps = [after - before for before, after in zip([0, *turns], [*turns, len(slow.asked)], strict=True)]
    assert max(steps) <= 6


async def test_long_selections_go_on_one_after_the_other() -> None:
    slow = Slow()
    sieve = Sieve(slow.clock)
    names = "abcd"
    found = await asyncio.gather(*(sieve.select(ENTRIES, slow.matches(name)) for name in names))  # type: ignore[arg-type]
    assert [len(each) for each in found] == [50] * len(names)
    changes = sum(one != other for one, other in zip(slow.asked, slow.asked[1:], strict=False))
    assert changes <= 2 * len(names)


async def test_another_tenants_selection_waits_for_slices_and_not_for_a_crowd() -> None:
    slow = Slow()
    sieve = Sieve(slow.clock)

    async def select(user: str, tenant: str) -> None:
        CALLER.set((user, tenant))
        await sieve.select(ENTRIES, slow.matches(tenant))  # type: ignore[arg-type]

    async with asyncio.TaskGroup() as group:
        for number in range(50):
            group.create_task(select(str(number), "crowd"))
        group.create_task(select("bob", "bob"))
    last = max(index for index, name in enumerate(slow.asked) if name == "bob")
    # The first slice of each of the crowd is looked at without waiting.
    assert slow.asked[:last].count("crowd") <= 50 * 6 + 2 * len(ENTRIES)
