from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from scheduler_world import CONFIG, SlotEngine, fill, group, node, pod, queue, world

from support.memory import MemoryClient
from support.virtual_clock import settle
from unisono.api.kinds import NODES, POD_GROUPS, PODS, QUEUES
from unisono.cluster.snapshot import Snapshot
from unisono.engine.answers import Failure
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.decisions import Decisions, Violation
from unisono.errors import Unavailable


async def test_a_gang_that_fits_is_bound_whole() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 3})
    async with world(client) as it:
        await it.run()
        assert it.nodes_of() == {"a-0": "n0", "a-1": "n0", "a-2": "n1"}
        assert it.scheduler.statistics().binds == 3


async def test_a_gang_that_does_not_fit_starts_nothing_until_it_does() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 5})
    async with world(client) as it:
        await it.run()
        assert set(it.nodes_of().values()) == {None}
        client.put(NODES, node("n2"))
        await it.run()
        assert None not in it.nodes_of().values()


async def test_no_decision_before_every_list_is_handled() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 2})
    slow = {"podgroups", "nodes", "queues", "priorityclasses", "pods"}

    def refuse(operation: str, resource: str, *_: str) -> None:
        if operation == "list" and resource in slow:
            raise Unavailable("starting")

    client.interceptor = refuse
    async with world(client) as it:
        for resource in sorted(slow):
            await it.run(40)
            assert it.engine.calls == [] and not it.scheduler.ready.is_set()
            slow.discard(resource)
        await it.run(40)
        assert it.scheduler.ready.is_set()
        assert None not in it.nodes_of().values()


async def test_a_quiet_cluster_costs_no_cycle_but_is_looked_at_now_and_then() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 2})
    async with world(client) as it:
        await it.run(5)
        before = len(it.engine.calls)
        await it.run(20)
        assert len(it.engine.calls) == before
        assert it.scheduler.statistics().idle >= 15
        await it.run(40)
        assert len(it.engine.calls) > before


async def test_changes_that_come_together_are_one_cycle() -> None:
    client = MemoryClient()
    fill(client)
    async with world(client) as it:
        await it.run(3)
        before = len(it.engine.calls)
        for index in range(20):
            client.put(NODES, node(f"m{index}"))
        await it.run(0.5)
        assert len(it.engine.calls) == before + 1


@pytest.mark.parametrize(("queues", "waits"), [((), False), (("research", "teaching"), True)])
async def test_a_burst_is_awaited_where_queues_share(queues: tuple[str, ...], waits: bool) -> None:
    """Submissions a fifth of a second apart are one decision where it matters who else has come."""
    client = MemoryClient()
    fill(client)
    for name in queues:
        client.put(QUEUES, queue(name))
    async with world(client) as it:
        await it.run(3)
        before = len(it.engine.calls)
        for index in range(3):
            client.put(POD_GROUPS, group(f"late{index}", 1))
            await it.run(0.2)
        assert (len(it.engine.calls) == before) is waits
        await it.run(1)
        assert len(it.engine.calls) > before


async def test_a_new_configuration_is_used_though_nothing_else_changed() -> None:
    client = MemoryClient()
    fill(client)
    async with world(client) as it:
        await it.run(3)
        before = len(it.engine.calls)
        it.config.config = SchedulerConfig(actions=("allocate",), tiers=())
        await it.run(2)
        assert len(it.engine.calls) == before + 1
        it.config.config = CONFIG


async def test_a_broken_cycle_is_survived() -> None:
    class Broken(SlotEngine):
        def __call__(self, *args: object, **options: object) -> Decisions:
            if len(self.calls) < 2:
                self.calls.append(0)
                raise RuntimeError("engine")
            return super().__call__(*args, **options)  # type: ignore[arg-type]

    client = MemoryClient()
    fill(client, gangs={"a": 2})
    async with world(client, Broken()) as it:
        await it.run(10)
        assert None not in it.nodes_of().values()
        assert it.scheduler.statistics().failures == 2


async def test_changes_during_a_cycle_wait_for_its_end() -> None:
    """The engine reads the live state in a thread: applying an event meanwhile would be a race."""
    client = MemoryClient()
    fill(client, gangs={"a": 2})
    entered, leave = asyncio.Event(), asyncio.Event()
    versions: list[tuple[int, int]] = []

    async def slow(decide: Callable[[], Decisions]) -> Decisions:
        state = it.scheduler.feed.state
        before = state.version
        entered.set()
        await leave.wait()
        versions.append((before, state.version))
        return decide()

    async with world(client, runner=slow) as it:
        await it.run()
        assert entered.is_set()
        client.put(NODES, node("late"))
        client.put(PODS, pod("stranger", "other"))
        await settle()
        leave.set()
        await it.run()
        assert all(before == after for before, after in versions)
        assert "late" in it.scheduler.feed.nodes
        assert len(versions) >= 2


async def test_a_job_that_changed_during_the_cycle_is_not_bound_in_part() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 3, "b": 1})

    async def meanwhile(decide: Callable[[], Decisions]) -> Decisions:
        decisions = decide()
        if client.find(PODS, "team/a-1") is not None:
            client.remove(PODS, "team/a-1")
            await settle()
        return decisions

    async with world(client, runner=meanwhile) as it:
        await it.run()
        assert it.nodes_of("a") == {"a-0": None, "a-2": None}
        assert it.nodes_of("b") == {"b-0": "n1"}


async def test_a_node_that_vanished_during_the_cycle_gets_no_bind() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 1})

    async def meanwhile(decide: Callable[[], Decisions]) -> Decisions:
        decisions = decide()
        if client.find(NODES, "n0") is not None:
            client.remove(NODES, "n0")
            await settle()
        return decisions

    async with world(client, runner=meanwhile) as it:
        await it.run()
        assert it.writes("bind", "pods") == []
        assert it.nodes_of() == {"a-0": None}


async def test_violations_are_counted() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 1})
    engine = SlotEngine()
    engine.extra = lambda snapshot, decisions: decisions.violations.append(Violation("team/x", "over allocatable"))
    async with world(client, engine) as it:
        await it.run()
        value = it.scheduler.metrics.registry.get_sample_value("unisono_scheduler_violations_total")
        assert value is not None and value >= 1


async def test_failures_of_plugins_have_a_metric_of_their_own() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 1})
    engine = SlotEngine()
    failure = Failure("mine", "filter", "pods of job team/x", "RuntimeError: broken", closed=True)

    def fail(snapshot: Snapshot, decisions: Decisions) -> None:
        decisions.plugin_failures.append(failure)
        decisions.violations.append(Violation("plug-in mine", failure.message(), plugin="mine"))

    engine.extra = fail
    async with world(client, engine) as it:
        await it.run()
        sample = it.scheduler.metrics.registry.get_sample_value
        assert sample("unisono_scheduler_violations_total") == 0
        told = sample("unisono_scheduler_plugin_failures_total", {"plugin": "mine", "hook": "filter"})
        assert told is not None and told >= 1
