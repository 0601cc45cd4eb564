"""Life on a cluster with real processes: killed, frozen beyond their lease, with a wrong clock, without their server.

To restart the API server and its store in the midst of work, name a command that does so in ``UNISONO_TEST_RESTART``.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from integration_processes import crowd

from unisono.kube.kubeconfig import ClusterConfig

pytestmark = [pytest.mark.more, pytest.mark.processes]
RESTART = "UNISONO_TEST_RESTART"


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


@pytest.mark.skipif(shutil.which("faketime") is None, reason="there is no faketime here (Debian: apt install faketime)")
async def test_clocks_that_differ_by_two_minutes(config: ClusterConfig, tmp_path: Path) -> None:
    """Deadlines are measured by each process's own steady clock; what wall clocks say is only told."""
    async with crowd(config, tmp_path) as it:
        steady = ("env", "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1", "faketime", "-f")
        it.start("controllers", before=(*steady, "+120s"))
        it.start("scheduler", before=(*steady, "-120s"))
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
