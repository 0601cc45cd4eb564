"""Checks of nodes on a whole control plane on virtual time: what has not passed since its last use takes no job."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.answers.plane import unadvised

from unisono.agent.simulated.nodes import SimulatedNodes
from unisono.agent.simulated.specs import parse_specs
from unisono.api.annotations import EXIT_CODE, NODE_CHECK, RUN_SECONDS
from unisono.api.decode import decode
from unisono.api.groups.batch import Job
from unisono.api.kinds import EVENTS, JOBS, NODE_CHECKS, NODES, POD_GROUPS, PODS
from unisono.api.node_checks import PASSED, book_of, lifting, quarantined_by
from unisono.api.pod_states import has_ended
from unisono.engine.config_file.reader import default_config
from unisono.standalone.shadow import Shadow, VirtualLoop, opened

NOW = 1_700_000_000.0
GPU = "nvidia.com/gpu"


def a_job(name: str, seconds: int, gpus: int, *, code: int = 0, pods: int = 1) -> Job:
    containers = [{"name": "main", "image": "any", "resources": {"limits": {GPU: str(gpus)}}}]
    notes = {RUN_SECONDS: str(seconds), EXIT_CODE: str(code)}
    template = {"metadata": {"annotations": notes}, "spec": {"containers": containers, "restartPolicy": "Never"}}
    spec = {"minAvailable": pods, "tasks": [{"name": "work", "replicas": pods, "template": template}]}
    return decode(JOBS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec}).obj


def a_check(**spec: Any) -> Any:
    value = {"metadata": {"name": "gpus"}, "spec": {"nodes": ["*"], "command": ["true"], "retries": 0, **spec}}
    return decode(NODE_CHECKS, value).obj


class Gate:
    """Looks again and again who is where, and whether the node had passed when it got work after none."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._ended: dict[str, float] = {}
        self._busy: set[str] = set()
        self.passed: dict[str, float] = {}
        self.starts = 0
        self.broken: list[str] = []

    async def watch(self, shadow: Shadow) -> None:
        while True:
            await self.look(shadow.clock.time())
            await asyncio.sleep(0.4)

    async def look(self, now: float) -> None:
        # Pods first: what they were placed by is on the nodes by then.
        busy = {one.spec.node_name or "" for one in (await self._client.list(PODS)).items if _works(one)}
        for node in (await self._client.list(NODES)).items:
            mark = book_of(node.metadata.annotations).get("gpus")
            if mark is not None and mark.state == PASSED:
                self.passed[node.metadata.name] = mark.since
        for name in busy - self._busy:
            self.starts += 1
            if self.passed.get(name, -1.0) < self._ended.get(name, 0.0) - 1.0:
                self.broken.append(f"{name} at {now - NOW:g}")
        self._ended.update(dict.fromkeys(self._busy - busy, now))
        self._busy = busy


def _works(pod: Any) -> bool:
    return bool(pod.spec.node_name) and not has_ended(pod) and NODE_CHECK not in (pod.metadata.labels or {})


def jobs() -> Iterator[Job]:
    for number in range(12):
        size = (4, 2, 4, 1)[number % 4]
        yield a_job(f"j{number}", (5, 12, 1, 9, 20)[number % 5], size, code=int(number % 7 == 3))


async def _story(folder: Path) -> None:
    async with opened(folder, now=NOW, decide=unadvised) as shadow:
        client = shadow.backend.client()
        shadow.start("controllers")
        capacity = {"cpu": "8", "memory": "32Gi", "pods": "110", GPU: "4"}
        specs = [{"name": name, "capacity": capacity} for name in ("a", "b", "c")]
        nodes = SimulatedNodes(shadow.backend.client(), parse_specs(specs), shadow.clock)
        await client.create(NODE_CHECKS, a_check(maxConcurrent="100%"))
        shadow.run("nodes", nodes.run())
        await nodes.ready.wait()
        shadow.start("scheduler", default_config())
        gate = Gate(client)
        shadow.run("gate", gate.watch(shadow))
        for job in jobs():
            await client.create(JOBS, job)
        await asyncio.sleep(120.0)
        assert gate.broken == []
        assert gate.starts >= 6
        assert {one.status.state.phase for one in (await client.list(JOBS)).items} == {"Completed", "Failed"}

        # One node breaks: it leaves after its next job, and the gang that needs all is told.
        await client.patch(NODES, "b", {"metadata": {"annotations": {EXIT_CODE: "9"}}})
        await client.create(JOBS, a_job("all", 5, 4, pods=3))
        await asyncio.sleep(30.0)
        broken = await client.get(NODES, "b")
        assert quarantined_by(broken.spec.taints) == "gpus"
        assert [
            one.metadata.name for one in (await client.list(PODS)).items if NODE_CHECK in (one.metadata.labels or {})
        ]
        await client.create(JOBS, a_job("again", 5, 4, pods=3))
        await asyncio.sleep(30.0)
        (group,) = [one for one in (await client.list(POD_GROUPS)).items if one.metadata.name.startswith("again")]
        told = next(one.message for one in group.status.conditions or () if one.type == "Unschedulable")
        assert "in quarantine" in told
        assert "exit code 9" in told

        # Lifted, it takes the gang at once.
        await client.patch(NODES, "b", lifting(await client.get(NODES, "b"), shadow.clock.time(), check=False))
        await asyncio.sleep(3.0)
        assert sum(_works(one) for one in (await client.list(PODS)).items) == 3
        await asyncio.sleep(3.0)
        events = [one.reason for one in (await client.list(EVENTS)).items if one.involved_object.name == "b"]
        assert "NodeQuarantined" in events


def test_no_job_starts_on_a_node_that_has_not_passed_since_its_last_use(tmp_path: Path) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(_story(tmp_path))
