"""Life on a cluster with real processes: killed, frozen, cut off, of two versions, with a wrong clock or no server.

To restart the API server and its store in the midst of work, name a command that does so in ``UNISONO_TEST_RESTART``.
The version before is the last release; ``UNISONO_TEST_PREVIOUS`` names the words that start another one, such as
``/opt/unisono-0.1/bin/unisono``.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from integration_processes import crowd

from support import previous
from support.clocks import wrong_clock
from unisono.kube.kubeconfig import ClusterConfig

pytestmark = [pytest.mark.more, pytest.mark.processes]
RESTART = "UNISONO_TEST_RESTART"
LEASE_SECONDS = 15.0


async def test_nothing_is_lost_or_twice_when_components_are_killed(config: ClusterConfig, tmp_path: Path) -> None:
    rng = random.Random(16)
    async with crowd(config, tmp_path) as it:
        for component in ("controllers", "scheduler", "agent"):
            it.start(component)
        await it.holder("scheduler")
        names = [f"job-{number}" for number in range(12)]
        await it.submit(names[:6], seconds=2.0)
        for _ in range(6):
            await asyncio.sleep(rng.random() * 3)
            process = it.processes[rng.choice(sorted(it.processes))]
            process.note()
            process.kill()
            await asyncio.sleep(rng.random())
            process.start()
        await it.submit(names[6:])
        await it.completed(names)
        it.held(names)


@pytest.mark.parametrize("component", ["scheduler", "controllers"])
async def test_a_leader_that_is_frozen_beyond_its_lease_wakes_as_one_of_many(
    config: ClusterConfig, tmp_path: Path, component: str
) -> None:
    async with crowd(config, tmp_path) as it:
        for each in ("controllers", "scheduler", "agent"):
            it.start(each)
        first = await it.holder(component)
        await it.holder("scheduler")
        it.start(component, "second")
        names = [f"job-{number}" for number in range(4)]
        await it.submit(names[:2], seconds=1.0)
        frozen = it.processes[component]
        frozen.send(signal.SIGSTOP)
        await it.submit(names[2:])
        await it.completed(names)
        assert await it.holder(component) != first, "another one leads"
        frozen.send(signal.SIGCONT)
        last = ["late-0", "late-1"]
        await it.submit(last)
        await it.completed(last)
        while "leader.lost" not in frozen.said():
            await asyncio.sleep(0.2)
        assert await it.holder(component) != first
        it.held([*names, *last])


@pytest.mark.parametrize("seconds", [120, -120])
def test_a_wrong_clock_is_wrong_and_its_steady_clock_right(tmp_path: Path, seconds: int) -> None:
    program = "import datetime as d, time; print(time.time(), d.datetime.now().timestamp(), time.monotonic())"
    before = time.time(), time.time(), time.monotonic()
    words = [*wrong_clock(tmp_path, seconds), sys.executable, "-c", program]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    after = time.time(), time.time(), time.monotonic()
    wrong = (seconds, seconds, 0)
    for start, shown, end, ahead in zip(before, map(float, said.split()), after, wrong, strict=True):
        assert start + ahead - 1 < shown < end + ahead + 1


async def test_clocks_that_differ_by_two_minutes(config: ClusterConfig, tmp_path: Path) -> None:
    """Deadlines are measured by each process's own steady clock; what wall clocks say is only told."""
    async with crowd(config, tmp_path) as it:
        it.start("controllers", before=wrong_clock(tmp_path, 120))
        it.start("scheduler", before=wrong_clock(tmp_path, -120))
        it.start("agent")
        names = [f"job-{number}" for number in range(6)]
        await it.submit(names)
        await it.completed(names)
        it.held(names)


@pytest.mark.skipif(RESTART not in os.environ, reason=f"{RESTART} names no command")
async def test_work_goes_on_when_the_api_server_and_its_store_are_restarted(
    request: pytest.FixtureRequest, config: ClusterConfig, tmp_path: Path
) -> None:
    if "cluster" not in request.node.callspec.id:
        pytest.skip("the command restarts the server of a cluster")
    async with crowd(config, tmp_path) as it:
        for component in ("controllers", "scheduler", "agent"):
            it.start(component)
        await it.holder("scheduler")
        names = [f"job-{number}" for number in range(10)]
        await it.submit(names, seconds=2.0)
        for _ in range(2):
            await asyncio.sleep(2)
            await asyncio.to_thread(subprocess.run, os.environ[RESTART], shell=True, check=True)
        await it.completed(names)
        it.held(names)


@pytest.mark.parametrize("component", ["scheduler", "controllers", "agent"])
async def test_a_component_without_its_network_for_longer_than_its_lease(
    config: ClusterConfig, tmp_path: Path, component: str
) -> None:
    async with crowd(config, tmp_path) as it, it.link(component) as link:
        for each in ("controllers", "scheduler", "agent"):
            it.start(each)
        await it.holder("scheduler")
        names = [f"job-{number}" for number in range(6)]
        await it.submit(names[:3], seconds=1.0)
        await it.ledger.until(lambda: bool(it.ledger.bound_to))
        link.cut()
        await it.submit(names[3:])
        await asyncio.sleep(LEASE_SECONDS + 5)
        link.mend()
        await it.completed(names)
        it.held(names)


async def test_a_gang_whose_scheduler_is_cut_off_between_two_of_its_bindings(
    config: ClusterConfig, tmp_path: Path
) -> None:
    async with crowd(config, tmp_path) as it, it.link("scheduler") as link:
        for each in ("controllers", "scheduler", "agent"):
            it.start(each)
        await it.holder("scheduler")
        await it.submit(["wide"], pods=28)
        await it.ledger.until(lambda: bool(it.ledger.bound_to))
        link.cut()
        before = it.ledger.now
        await asyncio.sleep(LEASE_SECONDS + 5)
        assert it.ledger.now - before < LEASE_SECONDS, "nobody could have bound the others meanwhile"
        link.mend()
        await it.completed(["wide"])
        it.held(["wide"], pods=28)


async def test_another_one_leads_while_the_leader_has_no_network(config: ClusterConfig, tmp_path: Path) -> None:
    async with crowd(config, tmp_path) as it:
        async with it.link("scheduler") as link:
            it.start("controllers")
            it.start("agent")
            first = it.start("scheduler", "first")
            holder = await it.holder("scheduler")
            names = [f"job-{number}" for number in range(6)]
            await it.submit(names[:2], seconds=1.0)
            link.cut()
            it.start("scheduler", "second", linked=False)
            await it.submit(names[2:4])
            await it.completed(names[:4])
            assert await it.holder("scheduler") != holder
            link.mend()
            await it.submit(names[4:])
            await it.completed(names)
            while "leader.lost" not in first.said():
                await asyncio.sleep(0.2)
            it.held(names)


async def test_an_upgrade_under_load_and_the_way_back(config: ClusterConfig, tmp_path: Path) -> None:
    """Each component in turn, as a rollout replaces it; jobs come all the time, and some are older than the change."""
    other = previous.program(tmp_path)
    parts = ("controllers", "scheduler", "agent")
    async with crowd(config, tmp_path) as it:
        for component in parts:
            it.start(component, program=other)
        await it.holder("scheduler")
        names: list[str] = []
        for program in ((), other):
            for component in parts:
                more = [f"job-{len(names) + number}" for number in range(4)]
                names += more
                await it.submit(more, seconds=2.0)
                await asyncio.sleep(1)
                process = it.processes[component]
                process.note()
                await asyncio.to_thread(process.stop)
                process.program = program
                process.start()
        await it.completed(names)
        it.held(names)


async def test_two_versions_of_the_scheduler_side_by_side(config: ClusterConfig, tmp_path: Path) -> None:
    """One of them leads; when it ends, the other version goes on with what it finds, and then the first one again."""
    other = previous.program(tmp_path)
    async with crowd(config, tmp_path) as it:
        it.start("controllers")
        it.start("agent")
        it.start("scheduler", "old", program=other)
        first = await it.holder("scheduler")
        it.start("scheduler", "new")
        names = [f"job-{number}" for number in range(12)]
        await it.submit(names[:4], seconds=1.0)
        for number, name in enumerate(("old", "new"), 1):
            process = it.processes[name]
            process.note()
            process.kill()
            await it.submit(names[4 * number : 4 * number + 4], seconds=1.0)
            first = await it.holder("scheduler", other_than=first)
            process.start()
        await it.completed(names)
        it.held(names)
