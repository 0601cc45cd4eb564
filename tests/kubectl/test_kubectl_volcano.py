"""kubectl with Volcano's kinds."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from support.kubectl import Plane
from unisono.api.kinds import JOBS

pytestmark = pytest.mark.kubectl


def job(version: str = "v1alpha1", name: str = "j", **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "image": "busybox"}], "restartPolicy": "Never"}}
    return {
        "apiVersion": f"batch.volcano.sh/{version}",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"minAvailable": 2, "tasks": [{"name": "w", "replicas": 2, "template": template}], **spec},
    }


QUEUE = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "research"}}
GROUP = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "g"},
    "spec": {"minMember": 3, "queue": "research"},
}


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().splitlines()]


async def test_jobs_are_scaled(plane: Plane) -> None:
    await plane.apply(job())
    assert await plane.ok("scale", "vcjob/j", "--replicas=5") == "job.batch.volcano.sh/j scaled\n"
    assert await plane.ok("get", "vcjob", "j", "-o", "jsonpath={.spec.tasks[0].replicas} {.spec.replicas}") == "5 5"
    assert "'minAvailable' is greater than 'replicas'" in await plane.fails("scale", "vcjob/j", "--replicas=1")


async def test_jobs(plane: Plane) -> None:
    assert await plane.apply(job()) == "job.batch.volcano.sh/j created\n"
    status = {"state": {"phase": "Running"}, "minAvailable": 2, "running": 2}
    await plane.client.patch(JOBS, "j", {"status": status}, namespace="default", subresource="status")
    found = rows(await plane.ok("get", "vcjob"))
    assert found[0] == ["NAME", "STATUS", "MINAVAILABLE", "RUNNINGS", "AGE"]
    assert found[1][:4] == ["j", "Running", "2", "2"]
    assert rows(await plane.ok("get", "vj", "-o", "wide"))[1][-1] == "default"
    assert re.search(r"Min Available: +2", await plane.ok("describe", "vcjob", "j"))
    await plane.ok("wait", "vcjob/j", "--for=jsonpath={.status.state.phase}=Running", "--timeout=300s")
    await plane.ok("label", "vcjob", "j", "a=b")
    await plane.ok("patch", "vcjob", "j", "--type=merge", "-p", '{"spec":{"minAvailable":1}}')
    assert await plane.ok("get", "vcjob", "j", "-o", "jsonpath={.spec.minAvailable}") == "1"
    assert await plane.ok("get", "vcjob", "j", "-o", "jsonpath={.status.running}") == "2"
    assert "deleted" in await plane.ok("delete", "vcjob", "j")


async def test_the_other_version(plane: Plane) -> None:
    assert await plane.apply(job("v1beta1")) == "job.batch.volcano.sh/j created\n"
    beta = json.loads(await plane.ok("get", "jobs.v1beta1.batch.volcano.sh", "j", "-o", "json"))
    alpha = json.loads(await plane.ok("get", "vcjob", "j", "-o", "json"))
    assert (beta["apiVersion"], alpha["apiVersion"]) == ("batch.volcano.sh/v1beta1", "batch.volcano.sh/v1alpha1")
    assert beta["metadata"]["uid"] == alpha["metadata"]["uid"]
    assert "RUNNINGS" in await plane.ok("get", "jobs.v1beta1.batch.volcano.sh")


async def test_strategic_patches_are_refused_with_a_clear_text(plane: Plane) -> None:
    await plane.apply(job())
    text = await plane.fails("patch", "vcjob", "j", "-p", '{"spec":{"minAvailable":1}}')
    assert "strategic-merge-patch+json is not supported by batch.volcano.sh/v1alpha1" in text
    assert "application/merge-patch+json" in text


async def test_queues_and_groups(plane: Plane) -> None:
    await plane.apply(QUEUE, GROUP)
    headings = ["NAME", "PARENT", "STATE", "WEIGHT", "CPU", "MEMORY", "GPU", "AGE"]
    assert rows(await plane.ok("get", "queues"))[0] == headings
    assert {row[0] for row in rows(await plane.ok("get", "q"))[1:]} == {"default", "research", "root"}
    assert re.search(r"Weight: +1", await plane.ok("describe", "queue", "research"))
    found = rows(await plane.ok("get", "pg", "-o", "wide"))
    assert found[0] == ["NAME", "STATUS", "MINMEMBER", "RUNNINGS", "AGE", "QUEUE"]
    assert (found[1][0], found[1][-1]) == ("g", "research")
    assert re.search(r"Min Member: +3", await plane.ok("describe", "podgroup", "g"))
    await plane.ok("patch", "pg", "g", "--type=merge", "-p", '{"status":{"phase":"Inqueue"}}')
    assert rows(await plane.ok("get", "pg"))[1][1] == "Inqueue"
    assert "unchanged" in await plane.apply(QUEUE)


async def test_watch(plane: Plane) -> None:
    await plane.apply(job())
    async with plane.reading("get", "vcjob", "-w") as out:
        assert (await out.readline()).split()[0] == b"NAME"
        assert (await out.readline()).split()[0] == b"j"
        status = {"state": {"phase": "Completed"}}
        await plane.client.patch(JOBS, "j", {"status": status}, namespace="default", subresource="status")
        assert (await out.readline()).split()[:2] == [b"j", b"Completed"]


async def test_explain(plane: Plane) -> None:
    text = await plane.ok("explain", "vcjob.spec.tasks")
    assert "GROUP:      batch.volcano.sh" in text
    assert "minAvailable" in text
    assert "minMember" in await plane.ok("explain", "podgroup.spec", "--recursive")


BAD = [
    (job(bogus=1), 'unknown field "spec.bogus"'),
    (job(minAvailable=9), "minAvailable"),
    (job(queue="nowhere"), "nowhere"),
    (job(minAvailable="two"), "spec.minAvailable"),
    (job(tasks=[]), "task"),
    (job(tasks=job()["spec"]["tasks"] * 2), "w"),
]


@pytest.mark.parametrize(("obj", "text"), BAD, ids=range(len(BAD)))
async def test_bad_jobs_are_refused_and_not_stored(plane: Plane, obj: dict[str, Any], text: str) -> None:
    assert text in await plane.fails("create", "-f", "-", stdin=yaml.safe_dump(obj))
    assert await plane.ok("get", "vcjob", "-o", "name") == ""


async def test_definitions_are_established(plane: Plane) -> None:
    await plane.ok("wait", "crd/jobs.batch.volcano.sh", "--for=condition=Established", "--timeout=300s")
    assert "podgroups.scheduling.volcano.sh" in await plane.ok("get", "crd")
