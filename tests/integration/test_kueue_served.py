"""Annotation ``unisono.io/serve: kueue`` of a namespace: jobs with Kueue's labels are released by their queue."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from support.shapes import case, plane, virtual
from unisono.cli.explaining import explain, explanation_lines
from unisono.cli.migrate import kueue
from unisono.kube.discovery import request_json

NODES = [{"name": "m", "capacity": {"cpu": "64", "memory": "256Gi", "pods": "200"}}]
CONFIG = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: conformance
- plugins:
  - name: gang
  - name: predicates
  - name: capacity
"""
LABEL, LEAST = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/job-min-parallelism"
SPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {
        "name": "lab",
        "annotations": {"unisono.io/serve": "kueue", "unisono.io/local-queues": "team=research, night=spare"},
    },
}


def queue(name: str, cpu: int, **spec: Any) -> dict[str, Any]:
    amounts = {"cpu": str(cpu)}
    body = {"deserved": amounts, "capability": amounts, **spec}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": body}


def template(cpu: int = 1, **more: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": str(cpu)}}}
    return {"spec": {"containers": [container], **more}}


def meta(name: str, local: str = "team", **labels: str) -> dict[str, Any]:
    marked = {LABEL: local, **{f"kueue.x-k8s.io/{key}": value for key, value in labels.items()}}
    return {"name": name, "namespace": "lab", "labels": marked}


def job(name: str, pods: int, local: str = "team", *, suspend: bool = True, **labels: str) -> dict[str, Any]:
    spec = {"parallelism": pods, "completions": pods, "suspend": suspend, "template": template(restartPolicy="Never")}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta(name, local, **labels), "spec": spec}


def torch(name: str, **spec: Any) -> dict[str, Any]:
    pod = {"spec": {"containers": [{**template()["spec"]["containers"][0], "name": "pytorch"}]}}
    replicas = {"Master": {"replicas": 1, "template": pod}, "Worker": {"replicas": 2, "template": pod}}
    body = {"runPolicy": {"suspend": True}, "pytorchReplicaSpecs": replicas, **spec}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": meta(name), "spec": body}


def job_set(name: str) -> dict[str, Any]:
    inner = {"parallelism": 3, "completions": 3, "template": template(restartPolicy="Never")}
    spec = {"suspend": True, "replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": inner}}]}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": meta(name), "spec": spec}


def ray(name: str) -> dict[str, Any]:
    head = {"rayStartParams": {}, "template": template()}
    workers = {"groupName": "w", "replicas": 2, "minReplicas": 2, "maxReplicas": 2, **head}
    spec = {"suspend": True, "headGroupSpec": head, "workerGroupSpecs": [workers]}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": meta(name), "spec": spec}


def train(name: str) -> dict[str, Any]:
    trainer = {"image": "torch", "numNodes": 3, "resourcesPerNode": {"requests": {"cpu": "1"}}}
    spec = {"suspend": True, "runtimeRef": {"name": "torch-distributed"}, "trainer": trainer}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": meta(name), "spec": spec}


class Lab:
    """A plane with one served namespace."""

    def __init__(self, made: Any) -> None:
        self.made = made

    async def create(self, *objects: dict[str, Any]) -> None:
        for obj in objects:
            await self.made.create(obj)
        await asyncio.sleep(40)

    async def get(self, title: str) -> dict[str, Any]:
        kind, _, name = title.partition("/")
        return await self.made.get(f"{kind}/lab/{name}")

    async def running(self) -> dict[str, int]:
        """Pods that run, by the beginning of their names."""
        found: dict[str, int] = {}
        for pod in (await request_json(self.made.client, "GET", "/api/v1/namespaces/lab/pods"))["items"]:
            name = pod["metadata"]["name"].partition("-")[0]
            found[name] = found.get(name, 0) + (pod["status"].get("phase") == "Running")
        return found

    async def groups(self) -> list[dict[str, Any]]:
        path = "/apis/scheduling.volcano.sh/v1beta1/namespaces/lab/podgroups"
        return (await request_json(self.made.client, "GET", path))["items"]


def told(folder: Path, story: Callable[[Lab], Awaitable[None]], *objects: dict[str, Any]) -> None:
    async def tell() -> None:
        begun = [SPACE, queue("research", 4), queue("spare", 2), *objects]
        some = case.Case("served", "", "namespace/default", [], [], begun, NODES, CONFIG, [], [], [], 0, 0.0)
        async with plane.plane(some, folder) as made:
            await story(Lab(made))

    with asyncio.Runner(loop_factory=virtual.VirtualLoop) as runner:
        runner.run(tell())


def test_a_job_is_released_when_its_queue_admits_it_and_no_sooner(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        await lab.create(job("a", 3), job("b", 3), job("c", 2, "night"), job("d", 1, "nobody"))
        assert await lab.running() == {"a": 3, "c": 2}
        waits = await lab.get("job.batch/b")
        assert waits["spec"]["suspend"] is True
        assert "annotations" not in waits["spec"]["template"].get("metadata", {})
        phases = sorted((group["spec"]["queue"], group["status"]["phase"]) for group in await lab.groups())
        assert phases == [("research", "Pending"), ("research", "Running"), ("spare", "Running")]
        assert (await lab.get("job.batch/d"))["spec"]["suspend"] is True
        await lab.made.delete("job.batch/lab/a")
        await asyncio.sleep(40)
        assert (await lab.running())["b"] == 3
        assert (await lab.get("job.batch/b"))["spec"]["suspend"] is False

    told(tmp_path, story)


@pytest.mark.parametrize("make", [None, torch, job_set, ray, train], ids=["job", "torch", "jobset", "ray", "train"])
def test_a_queue_for_some_users_lets_in_whom_admission_has_let_use_it(
    make: Callable[[str], dict[str, Any]] | None, tmp_path: Path
) -> None:
    async def story(lab: Lab) -> None:
        notes = {"metadata": {"annotations": {"unisono.io/users": "group:research"}}}
        await lab.made.patch("queue/research", notes)
        await lab.create(make("one") if make is not None else job("one", 3))
        assert (await lab.running()).get("one") == 3, await lab.groups()

    told(tmp_path, story)


@pytest.mark.parametrize(
    ("make", "title"),
    [(torch, "pytorchjob"), (job_set, "jobset"), (ray, "raycluster"), (train, "trainjob")],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_each_kind_is_released_one_after_the_other(
    make: Callable[[str], dict[str, Any]], title: str, tmp_path: Path
) -> None:
    async def story(lab: Lab) -> None:
        await lab.create(make("one"))
        await lab.create(make("two"))
        found = await lab.running()
        assert found.get("one") == 3, (found, await lab.groups())
        assert not found.get("two")
        await lab.made.delete(f"{title}/lab/one")
        await asyncio.sleep(60)
        assert (await lab.running()).get("two") == 3, await lab.groups()

    told(tmp_path, story)


def test_an_evicted_job_is_suspended_and_released_again(tmp_path: Path) -> None:
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("low", 10), ("high", 1000))
    ]

    async def story(lab: Lab) -> None:
        await lab.create(job("a", 4, **{"priority-class": "low"}))
        assert await lab.running() == {"a": 4}
        await lab.create(job("b", 4, **{"priority-class": "high"}))
        await asyncio.sleep(60)
        assert (await lab.running()) == {"b": 4}, await lab.groups()
        assert (await lab.get("job.batch/a"))["spec"]["suspend"] is True
        await lab.made.delete("job.batch/lab/b")
        await asyncio.sleep(60)
        assert await lab.running() == {"a": 4}
        assert (await lab.get("job.batch/a"))["spec"]["suspend"] is False

    told(tmp_path, story, *classes)


def test_a_gang_that_loses_a_pod_gets_another_one_and_is_not_suspended(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        await lab.create(job("a", 2), job("b", 3))
        for _ in range(2):
            pods = (await request_json(lab.made.client, "GET", "/api/v1/namespaces/lab/pods"))["items"]
            lost = next(pod for pod in pods if pod["metadata"]["name"].startswith("a-"))
            await lab.made.delete(f"pod/lab/{lost['metadata']['name']}")
            await asyncio.sleep(40)
            assert (await lab.running())["a"] == 2
        assert (await lab.get("job.batch/a"))["metadata"]["generation"] == 2  # made, and released once

    told(tmp_path, story)


def test_a_job_that_is_not_suspended_is_suspended_first(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        await lab.create(job("a", 4))
        await lab.create(job("b", 1, suspend=False))
        assert await lab.running() == {"a": 4}
        assert (await lab.get("job.batch/b"))["spec"]["suspend"] is True

    told(tmp_path, story)


def test_a_job_that_may_start_with_fewer_pods_does(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        body = job("a", 9)
        body["metadata"]["annotations"] = {LEAST: "3"}
        await lab.create(body)
        assert await lab.running() == {"a": 4}

    told(tmp_path, story)


def test_a_job_without_the_label_is_left_alone(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        mine, other = job("a", 2), job("b", 2, suspend=False)
        del mine["metadata"]["labels"], other["metadata"]["labels"]
        await lab.create(mine, other)
        assert (await lab.get("job.batch/a"))["spec"]["suspend"] is True
        assert await lab.running() == {"b": 2}

    told(tmp_path, story)


def test_pods_of_workloads_go_to_the_queue_behind_their_label(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        spec = {"replicas": 6, "selector": {"matchLabels": {"app": "web"}}}
        pod = {**template(), "metadata": {"labels": {"app": "web"}}}
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta("web"),
            "spec": {**spec, "template": pod},
        }
        await lab.create(body)
        assert await lab.running() == {"web": 4}

    told(tmp_path, story)


def test_a_job_that_waits_says_for_what_and_has_no_warning(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        await lab.create(job("a", 4), job("b", 4, **{"priority-class": "none"}), job("c", 4))
        said = explanation_lines(await explain(lab.made.client, ["job.batch/c"], "lab", search=False))
        assert said[0].startswith("job.batch/c waits in queue research: queue research has capability cpu 4"), said
        assert not [line for line in said if "warning" in line or "suspend" in line], said
        events = (await request_json(lab.made.client, "GET", "/api/v1/namespaces/lab/events"))["items"]
        assert any(each["reason"] == "NotAdmitted" and "PriorityClass none" in each["message"] for each in events)

    told(tmp_path, story)


def test_a_job_starts_when_what_it_names_comes(tmp_path: Path) -> None:
    late = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "late"}, "value": 10}

    async def story(lab: Lab) -> None:
        await lab.create(job("a", 1, **{"priority-class": "late"}), job("b", 1, "other"))
        assert await lab.running() == {}
        await lab.create(late)
        assert await lab.running() == {"a": 1}
        mapped = {"metadata": {"annotations": {"unisono.io/local-queues": "team=research, other=spare"}}}
        await lab.made.patch("namespace/lab", mapped)
        await asyncio.sleep(40)
        assert await lab.running() == {"a": 1, "b": 1}

    told(tmp_path, story)


def test_a_running_job_stays_when_its_namespace_is_served(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        mine = job("a", 2, suspend=False)
        mine["spec"]["template"]["metadata"] = {"annotations": {"scheduling.volcano.sh/queue-name": "research"}}
        for each in (mine, job("b", 2, suspend=False)):
            each["metadata"]["namespace"] = "hall"
            await lab.made.create(each)
        await asyncio.sleep(40)
        served = {"metadata": {"annotations": SPACE["metadata"]["annotations"]}}
        await lab.made.patch("namespace/hall", served)
        await asyncio.sleep(60)
        path = "/apis/batch/v1/namespaces/hall/jobs"
        found = (await request_json(lab.made.client, "GET", path))["items"]
        assert {each["metadata"]["name"]: each["status"].get("active") for each in found} == {"a": 2, "b": 2}
        notes = {each["metadata"]["name"]: each["metadata"].get("annotations", {}) for each in found}
        assert all(each["unisono.io/released"] == "research" for each in notes.values())

    hall = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hall"}}
    told(tmp_path, story, hall)


def test_what_the_converter_writes_in_place_serves_the_jobs_of_the_dump(tmp_path: Path) -> None:
    api = "kueue.x-k8s.io/v1beta2"
    resources = [{"name": "cpu", "nominalQuota": 4}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": resources}]}
    spec = {"namespaceSelector": {}, "resourceGroups": [group]}
    dump = [
        {"apiVersion": api, "kind": "ClusterQueue", "metadata": {"name": "whole"}, "spec": spec},
        {
            "apiVersion": api,
            "kind": "LocalQueue",
            "metadata": {"name": "mine", "namespace": "lab"},
            "spec": {"clusterQueue": "whole"},
        },
    ]
    body = job("a", 4, "mine")
    objects = kueue.convert([*dump, body], in_place=True).objects()
    assert objects[-1] is body

    async def story(lab: Lab) -> None:
        for obj in objects[:-1]:
            if obj["kind"] == "Namespace":
                await lab.made.patch("namespace/lab", obj)
            else:
                await lab.made.create(obj)
        await lab.create(body, job("b", 1, "mine"), job("c", 1))
        assert await lab.running() == {"a": 4}

    told(tmp_path, story)
