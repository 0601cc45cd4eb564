"""Reservations on a whole control plane on virtual time: who waits, who leaves, and what objects say of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from benchmarks.answers.plane import unadvised

from unisono.agent.simulated.nodes import SimulatedNodes
from unisono.agent.simulated.specs import parse_specs
from unisono.api.annotations import EVICT_NOTICE, MAX_RUN_TIME, RESERVATION
from unisono.api.base import ObjectMeta
from unisono.api.decode import decode
from unisono.api.groups.batch import Job
from unisono.api.groups.calendar import Reservation, ReservationSpec
from unisono.api.groups.scheduling import Queue, QueueSpec
from unisono.api.kinds import EVENTS, JOBS, POD_GROUPS, PODS, QUEUES, RESERVATIONS
from unisono.api.times import rfc3339
from unisono.engine.config_file.reader import default_config
from unisono.errors import ApiError
from unisono.standalone.shadow import Shadow, VirtualLoop, opened

NOW = 1_700_000_000.0
HOUR = 1200.0  # twenty minutes stand for it


def a_job(name: str, queue: str = "default", **notes: str) -> Job:
    containers = [{"name": "main", "image": "any", "resources": {"requests": {"cpu": "6"}}}]
    template = {"metadata": {"annotations": notes}, "spec": {"containers": containers, "restartPolicy": "Never"}}
    spec = {
        "minAvailable": 1,
        "queue": queue,
        "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
        "tasks": [{"name": "work", "replicas": 1, "template": template}],
    }
    return decode(JOBS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec}).obj


def a_reservation(name: str, start: float, end: float, **spec: Any) -> Reservation:
    times = {"start": rfc3339(NOW + start), "end": rfc3339(NOW + end)}
    return Reservation(metadata=ObjectMeta(name=name), spec=ReservationSpec(**times, **spec))


async def until(shadow: Shadow, seconds: float) -> None:
    """Go on until so long after the beginning."""
    await asyncio.sleep(NOW + seconds - shadow.clock.time())


async def places(client: Any) -> dict[str, str]:
    pods = (await client.list(PODS)).items
    return {pod.metadata.name.partition("-")[0]: pod.spec.node_name or "" for pod in pods}


async def _story(folder: Path) -> None:
    async with opened(folder, now=NOW, decide=unadvised) as shadow:
        client = shadow.backend.client()
        shadow.start("controllers")
        specs = [{"name": name, "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"}} for name in ("a", "b")]
        nodes = SimulatedNodes(shadow.backend.client(), parse_specs(specs), shadow.clock)
        shadow.run("nodes", nodes.run())
        await nodes.ready.wait()
        shadow.start("scheduler", default_config())
        await client.create(QUEUES, Queue(metadata=ObjectMeta(name="team"), spec=QueueSpec(weight=1)))
        await client.create(JOBS, a_job("told", **{EVICT_NOTICE: "10m"}))
        await until(shadow, 30.0)
        assert await places(client) == {"told": "a"}

        # Maintenance is announced while the job runs, and a reservation of the other node for the team after it.
        with pytest.raises(ApiError, match="say who may use the nodes"):
            await client.create(RESERVATIONS, a_reservation("nobody", HOUR, 2 * HOUR, nodes=["b"]))
        await client.create(RESERVATIONS, a_reservation("down", HOUR, 2 * HOUR, nodes=["a"], purpose="Maintenance"))
        await client.create(RESERVATIONS, a_reservation("team", 2 * HOUR, 3 * HOUR, nodes=["a"], queues=["team"]))
        await client.create(JOBS, a_job("theirs", "team", **{RESERVATION: "team"}))
        await until(shadow, 60.0)
        down = await client.get(RESERVATIONS, "down")
        assert (down.status.phase, down.status.nodes, down.status.others) == ("Waiting", ["a"], 1)
        assert (down.status.window_start, down.status.window_end) == (rfc3339(NOW + HOUR), rfc3339(NOW + 2 * HOUR))
        (group,) = [one for one in (await client.list(POD_GROUPS)).items if one.metadata.name.startswith("theirs")]
        (said,) = [one for one in group.status.conditions if one.type == "Unschedulable"]
        assert f"wait for reservation team, which is from {rfc3339(NOW + 2 * HOUR)}" in said.message

        # It is told eleven minutes before, and has gone when the window begins; others get no place there meanwhile.
        await until(shadow, HOUR - 665.0)
        assert await places(client) == {"told": "a", "theirs": ""}
        assert not [one for one in (await client.list(EVENTS)).items if one.reason == "EvictionNotice"]
        await until(shadow, HOUR - 650.0)
        (notice,) = [one for one in (await client.list(EVENTS)).items if one.reason == "EvictionNotice"]
        assert f"because of maintenance down from {rfc3339(NOW + HOUR)} on" in notice.message
        await until(shadow, HOUR)
        assert await places(client) == {"told": "b", "theirs": ""}
        await until(shadow, HOUR + 5.0)
        down = await client.get(RESERVATIONS, "down")
        assert (down.status.phase, down.status.others) == ("Active", None)

        # The team's window begins, and its job with it.
        await until(shadow, 2 * HOUR - 5.0)
        assert await places(client) == {"told": "b", "theirs": ""}
        await until(shadow, 2 * HOUR + 5.0)
        assert await places(client) == {"told": "b", "theirs": "a"}
        phases = {one.metadata.name: one.status.phase for one in (await client.list(RESERVATIONS)).items}
        assert phases == {"down": "Over", "team": "Active"}


def test_a_node_is_emptied_for_maintenance_and_then_kept_for_a_team(tmp_path: Path) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(_story(tmp_path))


async def _limited(folder: Path) -> None:
    async with opened(folder, now=NOW, decide=unadvised) as shadow:
        client = shadow.backend.client()
        shadow.start("controllers")
        specs = [{"name": "a", "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"}}]
        nodes = SimulatedNodes(shadow.backend.client(), parse_specs(specs), shadow.clock)
        shadow.run("nodes", nodes.run())
        await nodes.ready.wait()
        shadow.start("scheduler", default_config())
        queue = Queue(metadata=ObjectMeta(name="team", annotations={MAX_RUN_TIME: "20m"}), spec=QueueSpec(weight=1))
        await client.create(QUEUES, queue)
        await client.create(JOBS, a_job("long", "team", **{EVICT_NOTICE: "1m", "volcano.sh/preemptable": "false"}))
        await until(shadow, 30.0)
        (first,) = (await client.list(PODS)).items
        await until(shadow, HOUR - 75.0)
        assert not [one for one in (await client.list(EVENTS)).items if one.reason == "EvictionNotice"]
        await until(shadow, HOUR + 60.0)
        told = [one for one in (await client.list(EVENTS)).items if one.reason in ("EvictionNotice", "Evict")]
        assert {one.reason for one in told} == {"EvictionNotice", "Evict"}
        why = f"because of the run-time limit 20m0s of queue team (annotation {MAX_RUN_TIME})"
        assert all(why in one.message for one in told)
        (second,) = (await client.list(PODS)).items
        assert second.metadata.uid != first.metadata.uid, "its policy starts it again"


def test_a_pod_is_told_and_ended_at_its_queues_limit(tmp_path: Path) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(_limited(tmp_path))
