"""Elastic jobs on a whole control plane grow as far as every limit has room, and have no pod that waits in vain."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from unisono.api.kinds import JOBS, PODS

sys.path.append(str(Path(__file__).parents[2]))
elastic: Any = import_module("benchmarks.elastic")
planes: Any = import_module("benchmarks.answers.plane")

NODES = {"name": "n", "count": 4, "capacity": {"cpu": 16, "memory": "64Gi", "pods": 40}}
CPU = 64
USER_LIMITS = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: user-limits
  - name: predicates
  - name: capacity
"""


def job(name: str = "train", most: int = 30, queue: str = "team", least: int = 2, **fields: Any) -> dict[str, Any]:
    """Pods of one CPU each; ``most`` of 0 makes a job that is not elastic."""
    notes = {"unisono.io/elastic": "true", "unisono.io/max-replicas": str(most), "unisono.io/elastic-cool-down": "30s"}
    resources = {"requests": {"cpu": "1", "memory": "64Mi"}}
    spec = {"containers": [{"name": "main", "image": "i", "resources": resources}], "restartPolicy": "Never", **fields}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "annotations": notes if most else {}},
        "spec": {
            "schedulerName": "volcano",
            "queue": queue,
            "minAvailable": least,
            "tasks": [{"name": "w", "replicas": least, "template": {"spec": spec}}],
        },
    }


def queue(name: str = "team", cpu: int | None = None, **more: Any) -> dict[str, Any]:
    notes = {"unisono.io/user-limits": more.pop("users")} if "users" in more else {}
    spec = {**more, **({"capability": {"cpu": cpu}} if cpu else {})}
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    return {**kind, "metadata": {"name": name, "annotations": notes}, "spec": spec}


def quota(scopes: list[str] | None = None, **hard: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"hard": {name.replace("__", "."): str(value) for name, value in hard.items()}}
    meta = {"name": "q", "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": meta,
        "spec": spec | ({"scopes": scopes} if scopes else {}),
    }


def grow(tmp_path: Path, objects: list[dict[str, Any]], later: list[Any], scheduler: str = "") -> Counter[str]:
    """Pods by what they do after ten minutes, and how many jobs ask for; ``later`` comes in the middle."""

    async def run() -> Counter[str]:
        case = elastic.Case("grows", "", "job/none", [], [], [], [NODES], scheduler, [], [], [], 0, 0.0)
        async with planes.plane(case, tmp_path, planes.unadvised) as it:
            for each in objects:
                await it.create(each)
            await asyncio.sleep(300)
            for each in later:
                await (it.patch(*each) if isinstance(each, tuple) else it.create(each))
            await asyncio.sleep(300)
            pods = (await it.client.list(PODS)).items
            found = Counter(f"{pod.metadata.name.rsplit('-', 2)[0]} {pod.status.phase}" for pod in pods)
            for each in (await it.client.list(JOBS)).items:
                found[f"{each.metadata.name} asked"] = each.spec.tasks[-1].replicas
            return found

    with asyncio.Runner(loop_factory=elastic.VirtualLoop) as runner:
        return runner.run(run())


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([queue(), job()], 30),
        ([queue(cpu=5), job()], 5),
        ([queue("parent", 6), queue(parent="parent"), job()], 6),
        (
            [
                queue("parent", 9),
                queue(parent="parent"),
                queue("other", parent="parent"),
                job("fixed", 0, "other", 4),
                job(),
            ],
            5,
        ),
        (
            [
                queue("parent", 9, guarantee={"resource": {"cpu": "4"}}),
                queue(parent="parent"),
                queue("other", parent="parent", guarantee={"resource": {"cpu": "4"}}),
                job("fixed", 0, "other", 1),
                job(),
            ],
            5,
        ),
        ([queue(), quota(requests__cpu=7), job()], 7),
        ([queue(), quota(pods=4), job()], 4),
        ([queue(), quota(["Terminating"], pods=4), job()], 30),
        ([queue(), quota(["Terminating"], pods=4), job(activeDeadlineSeconds=100_000)], 4),
        ([queue(cpu=9), quota(cpu=8, memory="1Gi"), job()], 8),
        ([queue(cpu=5), job(least=5)], 5),
    ],
)
def test_a_job_grows_as_far_as_every_limit_has_room(tmp_path: Path, objects: list[Any], expected: int) -> None:
    assert {name: count for name, count in grow(tmp_path, objects, []).items() if name.startswith("train")} == {
        "train asked": expected,
        "train Running": expected,
    }


def test_users_have_limits_too(tmp_path: Path) -> None:
    found = grow(tmp_path, [queue(users="cpu=6"), job("fixed", 0, least=2), job()], [], USER_LIMITS)
    assert found == {"fixed asked": 2, "fixed Running": 2, "train asked": 4, "train Running": 4}


def test_two_jobs_share_what_a_queue_may_have(tmp_path: Path) -> None:
    found = grow(tmp_path, [queue(cpu=12), job("a"), job("b")], [])
    assert found == {"a asked": 6, "a Running": 6, "b asked": 6, "b Running": 6}


def test_what_a_lowered_limit_keeps_out_is_given_up(tmp_path: Path) -> None:
    """Replicas that were asked for by hand stand in for those that another version asked for beyond the limit."""
    found = grow(tmp_path, [queue(cpu=5), job()], [("job/train", {"spec": {"replicas": 20}})])
    assert found == {"train asked": 5, "train Running": 5}
