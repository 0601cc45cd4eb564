"""Where gangs stand in relation to others, by annotations of jobs and of pods: a control plane on virtual time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from benchmarks.answers.plane import unadvised

from unisono.agent.simulated.nodes import SimulatedNodes
from unisono.agent.simulated.specs import parse_specs
from unisono.api.annotations import APART, NEAR, RUN_SECONDS, SPREAD, TIER
from unisono.api.core import Pod
from unisono.api.decode import decode
from unisono.api.groups.batch import Job
from unisono.api.kind import Kind
from unisono.api.kind_families import DEPLOYMENTS
from unisono.api.kinds import HYPER_NODES, JOBS, POD_GROUPS, PODS
from unisono.engine.config_file.reader import load_config
from unisono.errors import ApiError
from unisono.standalone.shadow import VirtualLoop, opened

NOW = 1_700_000_000.0
RACKS = "abc"
CONFIG = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}, {name: network-topology-aware}]
"""


def template(app: str, **notes: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": "4"}}
    return {
        "metadata": {"labels": {"app": app}, "annotations": {RUN_SECONDS: "3600", **notes}},
        "spec": {"containers": [{"name": "main", "image": "any", "resources": resources}], "schedulerName": "unisono"},
    }


def a_job(name: str, app: str, size: int = 2, *, hard: bool = True, **notes: str) -> Job:
    spec = {
        "minAvailable": size,
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1} if hard else None,
        "tasks": [{"name": "work", "replicas": size, "template": template(app)}],
    }
    meta = {"name": name, "namespace": "default", "annotations": notes}
    return decode(JOBS, {"metadata": meta, "spec": spec}).obj


def an(kind: Kind[Any], body: dict[str, Any]) -> Any:
    return decode(kind, body).obj


async def racks_of(client: Any, prefix: str) -> list[str]:
    found = [pod for pod in (await client.list(PODS)).items if pod.metadata.name.startswith(f"{prefix}-")]
    return sorted((pod.spec.node_name or "").partition("-")[0] for pod in found)


async def _story(folder: Path) -> None:
    async with opened(folder, now=NOW, decide=unadvised) as shadow:
        client = shadow.backend.client()
        shadow.start("controllers")
        specs = [
            {"name": f"{rack}-{at}", "capacity": {"cpu": "4", "memory": "64Gi", "pods": "110"}}
            for rack in RACKS
            for at in range(4)
        ]
        nodes = SimulatedNodes(shadow.backend.client(), parse_specs(specs), shadow.clock)
        shadow.run("nodes", nodes.run())
        await nodes.ready.wait()
        for rack in RACKS:
            members = [{"type": "Node", "selector": {"regexMatch": {"pattern": f"^{rack}-"}}}]
            spec = {"tier": 1, "tierName": "rack", "members": members}
            await client.create(HYPER_NODES, an(HYPER_NODES, {"metadata": {"name": rack}, "spec": spec}))
        shadow.start("scheduler", load_config(CONFIG, "test"))
        with pytest.raises(ApiError, match="names no domain behind an @"):
            await client.create(JOBS, a_job("wrong", "wrong", **{NEAR: "app=prefill"}))

        await client.create(JOBS, a_job("prefill", "prefill"))
        await asyncio.sleep(20.0)
        (rack,) = set(await racks_of(client, "prefill"))

        await client.create(JOBS, a_job("decode", "decode", **{NEAR: "app=prefill@tier-1"}))
        await asyncio.sleep(20.0)
        assert await racks_of(client, "decode") == [rack, rack]

        # That rack is full now: who must be there waits, and is told why.
        await client.create(JOBS, a_job("more", "decode", **{NEAR: "app=prefill@rack"}))
        await asyncio.sleep(20.0)
        assert await racks_of(client, "more") == ["", ""]
        (group,) = [one for one in (await client.list(POD_GROUPS)).items if one.metadata.name.startswith("more")]
        (said,) = [one for one in group.status.conditions if one.type == "Unschedulable"]
        assert f"nnotation {NEAR} asks for the same HyperNode of rack as pods with app=prefill" in said.message
        assert f"in {rack}" in said.message

        # What the job says may be changed while it waits.
        patch = {"metadata": {"annotations": {NEAR: "app=prefill@rack:preferred"}}}
        await client.patch(JOBS, "more", patch, namespace="default")
        await asyncio.sleep(20.0)
        elsewhere = await racks_of(client, "more")
        assert len(set(elsewhere)) == 1
        assert not {rack, ""} & set(elsewhere)
        await client.delete(JOBS, "more", namespace="default")
        await asyncio.sleep(20.0)

        # Two replicas apart from one another, each packed.
        for name in ("one", "two"):
            await client.create(JOBS, a_job(f"replica-{name}", "replica", **{APART: "app=replica@rack"}))
        await asyncio.sleep(20.0)
        others = [other for other in RACKS if other != rack]
        one, two = await racks_of(client, "replica-one"), await racks_of(client, "replica-two")
        assert sorted((*set(one), *set(two))) == others
        assert (len(set(one)), len(set(two))) == (1, 1)

        # On a Deployment, and on the template of its pods; and terms of Kubernetes' own, as its API server stores them.
        body = {
            "metadata": {"name": "web", "namespace": "default", "annotations": {SPREAD: "app=web@rack"}},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "web"}},
                "template": template("web", **{APART: "app=prefill@rack"}),
            },
        }
        await client.create(DEPLOYMENTS, an(DEPLOYMENTS, body))
        await asyncio.sleep(20.0)
        assert await racks_of(client, "web") == others
        term = {
            "labelSelector": {"matchLabels": {"app": "web"}},
            "mismatchLabelKeys": ["app"],
            "topologyKey": f"{TIER}rack",
        }
        alone = template("alone")
        alone["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        alone["metadata"] |= {"name": "alone", "namespace": "default"}
        made: Pod = await client.create(PODS, an(PODS, alone))
        affinity = made.spec.affinity
        assert affinity is not None
        assert affinity.pod_anti_affinity is not None
        (stored,) = affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution or ()
        assert stored.label_selector is not None
        (added,) = stored.label_selector.match_expressions or ()
        assert (added.key, added.operator, added.values) == ("app", "NotIn", ["alone"])


def test_gangs_stand_where_jobs_say(tmp_path: Path) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(_story(tmp_path))
