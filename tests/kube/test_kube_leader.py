from __future__ import annotations

import asyncio

import pytest

from support.memory import MemoryClient
from support.things import THINGS, thing
from support.virtual_clock import VirtualClock, settle
from unisono.api.kinds import LEASES
from unisono.errors import Unavailable
from unisono.kube.client import Client
from unisono.kube.leader import LeaderElector, LeadershipLost


def elector(client: Client, identity: str, clock: VirtualClock) -> LeaderElector:
    return LeaderElector(client, "scheduler", "kube-system", identity, clock=clock)


class Work:
    """Leads until told to stop; remembers the fenced client."""

    def __init__(self) -> None:
        self.client: Client | None = None
        self.stop = asyncio.Event()
        self.cancelled = False

    async def __call__(self, client: Client) -> None:
        self.client = client
        try:
            await self.stop.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def test_one_leads_the_other_waits_and_follows_at_once_after_a_release() -> None:
    clock = VirtualClock()
    client = MemoryClient(clock)
    first, second = Work(), Work()
    tasks = [
        asyncio.create_task(elector(client, name, clock).run(work)) for name, work in (("a", first), ("b", second))
    ]
    await clock.advance(60)
    assert first.client is not None and second.client is None
    first.stop.set()
    await clock.advance(2)
    assert second.client is not None
    lease = client.find(LEASES, "kube-system/scheduler")
    assert lease is not None
    assert (lease.spec.holder_identity, lease.spec.lease_transitions) == ("b", 1)
    second.stop.set()
    await clock.advance(2)
    await asyncio.gather(*tasks)


class Partition:
    """The API server as one process sees it; can be cut off."""

    def __init__(self, client: MemoryClient) -> None:
        self.client, self.cut = client, False

    def __getattr__(self, name: str) -> object:
        method = getattr(self.client, name)

        async def call(*args: object, **options: object) -> object:
            if self.cut:
                raise Unavailable("cut off")
            return await method(*args, **options)

        return call


async def test_a_leader_that_cannot_renew_stops_before_another_starts() -> None:
    clock = VirtualClock()
    client = MemoryClient(clock)
    cut = Partition(client)
    first, second = Work(), Work()
    leader = elector(cut, "a", clock)  # type: ignore[arg-type]
    leading = asyncio.create_task(leader.run(first))
    await clock.advance(5)
    waiting = asyncio.create_task(elector(client, "b", clock).run(second))
    await clock.advance(5)
    cut.cut = True
    overlap = False
    for _ in range(200):
        await clock.advance(0.1)
        overlap = overlap or (not first.cancelled and second.client is not None)
    assert not overlap
    assert first.cancelled and second.client is not None
    with pytest.raises(LeadershipLost, match="could not be renewed"):
        await leading
    cut.cut = False
    assert first.client is not None
    with pytest.raises(LeadershipLost, match="must not write"):
        await first.client.create(THINGS, thing("late"))
    await second.client.create(THINGS, thing("fine"))
    second.stop.set()
    await settle()
    await waiting


async def test_a_renew_that_hangs_does_not_keep_the_leader_alive() -> None:
    clock = VirtualClock()
    client = MemoryClient(clock)

    class Hanging(Partition):
        def __getattr__(self, name: str) -> object:
            method = getattr(self.client, name)

            async def call(*args: object, **options: object) -> object:
                if self.cut:
                    await asyncio.Event().wait()
                return await method(*args, **options)

            return call

    hanging, work = Hanging(client), Work()
    leading = asyncio.create_task(elector(hanging, "a", clock).run(work))  # type: ignore[arg-type]
    await clock.advance(3)
    hanging.cut = True
    await clock.advance(10.1)
    assert work.cancelled
    with pytest.raises(LeadershipLost):
        await leading


async def test_a_leader_that_wakes_after_its_lease_says_so_and_not_what_its_work_made_of_it() -> None:
    """A process that was frozen: no timer of its own ran, and its work is the first to notice."""
    clock = VirtualClock()

    async def work(client: Client) -> None:
        await settle()
        clock._elapsed += 60.0
        async with asyncio.TaskGroup() as group:
            group.create_task(client.create(THINGS, thing("late")))

    with pytest.raises(LeadershipLost, match="could not be renewed"):
        await elector(MemoryClient(clock), "a", clock).run(work)


async def test_the_error_of_the_work_is_the_error_of_run() -> None:
    clock = VirtualClock()

    async def fail(_: Client) -> None:
        raise RuntimeError("work")

    with pytest.raises(RuntimeError, match="work"):
        await elector(MemoryClient(clock), "a", clock).run(fail)


def test_times_must_leave_a_gap() -> None:
    with pytest.raises(ValueError, match="renew_deadline < lease_seconds"):
        LeaderElector(MemoryClient(), "n", "ns", "a", lease_seconds=10, renew_deadline=10)
