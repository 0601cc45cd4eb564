"""Kinds of nodes on a whole control plane on virtual time: which one a gang gets, what its pods ask for there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from benchmarks.answers.plane import unadvised

from unisono.agent.simulated.nodes import SimulatedNodes
from unisono.agent.simulated.specs import parse_specs
from unisono.api.annotations import GOT, ONE_OF, RUN_SECONDS
from unisono.api.core import Pod
from unisono.api.decode import decode
from unisono.api.groups.batch import Job
from unisono.api.kinds import JOBS, POD_GROUPS, PODS
from unisono.engine.config_file.reader import default_config
from unisono.errors import ApiError
from unisono.standalone.shadow import VirtualLoop, opened

NOW = 1_700_000_000.0
KEY = "node.example.com/gpu"
GPU = "nvidia.com/gpu"
TEXT = f"{KEY}=h100, {KEY}=a100*2"


def a_job(name: str, text: str = TEXT, **notes: str) -> Job:
    resources = {"requests": {GPU: "2"}, "limits": {GPU: "2"}}
    containers = [{"name": "main", "image": "any", "resources": resources}]
    template = {"metadata": {"annotations": notes}, "spec": {"containers": containers, "restartPolicy": "Never"}}
    spec = {
        "minAvailable": 2,
        "policies": [{"event": "PodEvicted", "action": "RestartJob"}, {"event": "PodFailed", "action": "AbortJob"}],
        "tasks": [{"name": "work", "replicas": 2, "template": template}],
    }
    meta = {"name": name, "namespace": "default", "annotations": {ONE_OF: text}}
    return decode(JOBS, {"metadata": meta, "spec": spec}).obj


def asked(pod: Pod) -> Any:
    return (pod.spec.containers or [])[0].resources.requests[GPU]  # type: ignore[index]


async def shape(client: Any, name: str) -> set[tuple[str, Any, str]]:
    """Kind of node, GPUs and what it was told, of the pods of a job."""
    pods = [pod for pod in (await client.list(PODS)).items if pod.metadata.name.startswith(f"{name}-")]
    return {
        ((pod.spec.node_name or "").rpartition("-")[0], asked(pod), (pod.metadata.annotations or {}).get(GOT, ""))
        for pod in pods
    }


async def _story(folder: Path) -> None:
    async with opened(folder, now=NOW, decide=unadvised) as shadow:
        client = shadow.backend.client()
        shadow.start("controllers")
        specs = [
            {
                "name": f"{kind}-{number}",
                "labels": {KEY: kind},
                "capacity": {"cpu": "32", "memory": "64Gi", "pods": "110", GPU: "4"},
            }
            for kind, count in (("h100", 1), ("a100", 3))
            for number in range(count)
        ]
        nodes = SimulatedNodes(shadow.backend.client(), parse_specs(specs), shadow.clock)
        shadow.run("nodes", nodes.run())
        await nodes.ready.wait()
        shadow.start("scheduler", default_config())
        with pytest.raises(ApiError, match="is no label of nodes"):
            await client.create(JOBS, a_job("wrong", "h100, a100"))

        await client.create(JOBS, a_job("first", **{RUN_SECONDS: "600"}))
        await asyncio.sleep(20.0)
        assert await shape(client, "first") == {("h100", "2", f"{KEY}=h100")}

        # The second one takes twice as many GPUs on nodes of the other kind: its pods are made again without a retry.
        await client.create(JOBS, a_job("second", **{RUN_SECONDS: "600"}))
        await asyncio.sleep(30.0)
        assert await shape(client, "second") == {("a100", "4", f"{KEY}=a100*2")}
        second = await client.get(JOBS, "second", "default")
        assert (second.status.state.phase, second.status.retry_count or 0) == ("Running", 0)
        groups = {one.metadata.name.partition("-")[0]: one for one in (await client.list(POD_GROUPS)).items}
        told = {name: (one.metadata.annotations or {}).get(GOT) for name, one in groups.items()}
        assert told == {"first": f"{KEY}=h100", "second": f"{KEY}=a100*2"}
        assert groups["second"].spec.min_resources[f"requests.{GPU}"] == "8"

        # The third one waits, and is told what each kind lacks; it gets what is free first.
        await client.create(JOBS, a_job("third", **{RUN_SECONDS: "60"}))
        await asyncio.sleep(30.0)
        (third,) = [one for one in (await client.list(POD_GROUPS)).items if one.metadata.name.startswith("third")]
        (said,) = [one for one in third.status.conditions if one.type == "Unschedulable"]
        assert f"one kind of nodes would be enough: {KEY}=h100: 0 of 2 pods find room on 1 node" in said.message
        assert f"{KEY}=a100*2: 1 of 2 pods find room on 3 nodes (too little {GPU})" in said.message
        await asyncio.sleep(560.0)
        assert await shape(client, "third") == {("h100", "2", f"{KEY}=h100")}
        await asyncio.sleep(120.0)
        phases = {one.metadata.name: one.status.state.phase for one in (await client.list(JOBS)).items}
        assert phases == {"first": "Completed", "second": "Completed", "third": "Completed"}


def test_gangs_get_one_kind_and_pods_are_made_again_where_they_take_more(tmp_path: Path) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(_story(tmp_path))
