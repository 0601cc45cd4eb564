"""A whole control plane on virtual time: trees of Kubernetes' groups, and Jobs that say how they are scheduled."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from unisono.kube.discovery import request_json

sys.path.append(str(Path(__file__).parents[2]))
case: Any = import_module("benchmarks.answers.case")
plane: Any = import_module("benchmarks.answers.plane")
virtual: Any = import_module("unisono.standalone.shadow")

_SECONDS = 60
_ALPHA, _BETA = "scheduling.k8s.io/v1alpha3", "scheduling.k8s.io/v1beta1"


def composite(name: str, minimum: int, parent: str | None = None) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "schedulingPolicy": {"gang": {"minGroupCount": minimum}},
        "workloadRef": {"workloadName": "train", "templateName": name},
    }
    if parent:
        spec["parentCompositePodGroupName"] = parent
    return {"apiVersion": _ALPHA, "kind": "CompositePodGroup", "metadata": {"name": name}, "spec": spec}


def group(name: str, minimum: int, parent: str) -> dict[str, Any]:
    spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}, "parentCompositePodGroupName": parent}
    return {"apiVersion": _BETA, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def job(name: str, pods: int, *, scheduling: dict[str, Any] | None = None) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "4"}}}
    inner: dict[str, Any] = {"schedulerName": "unisono", "restartPolicy": "Never", "containers": [container]}
    spec: dict[str, Any] = {"completions": pods, "parallelism": pods}
    if scheduling is None:
        inner["schedulingGroup"] = {"podGroupName": name}
    else:
        spec["scheduling"] = scheduling
    note = {"unisono.io/run-seconds": "100000"}
    spec["template"] = {"metadata": {"labels": {"part": name}, "annotations": note}, "spec": inner}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def nodes(number: int) -> list[dict[str, Any]]:
    return [{"name": f"n{index}", "capacity": {"cpu": "4", "memory": "8Gi"}} for index in range(number)]


TREE = [
    composite("train", 2),
    composite("actors", 1, "train"),
    group("learners", 2, "train"),
    group("actors-0", 2, "actors"),
    group("actors-1", 2, "actors"),
    *(job(name, 2) for name in ("learners", "actors-0", "actors-1")),
]
"""Three levels: learners, and one of two groups of actors, of two pods each."""


async def placed(made: Any) -> dict[str, int]:
    """Pods with a node, by the group that they are of."""
    pods = (await request_json(made.client, "GET", "/api/v1/namespaces/default/pods"))["items"]
    return dict(Counter(pod["metadata"]["labels"]["part"] for pod in pods if pod["spec"].get("nodeName")))


async def condition(made: Any, version: str, plural: str, name: str) -> tuple[str, str, str]:
    path = f"/apis/{version}/namespaces/default/{plural}/{name}"
    status = (await request_json(made.client, "GET", path)).get("status") or {}
    (first, *_) = status["conditions"]
    return first["status"], first["reason"], first["message"]


def on_a_plane(number: int, folder: Path, story: Callable[[Any], Awaitable[None]]) -> None:
    given = case.Case("groups", "", "namespace/default", [], [], [], nodes(number), "", [], [], [], 0, 0.0)

    async def run() -> None:
        async with plane.plane(given, folder, plane.unadvised) as made:
            await story(made)

    with asyncio.Runner(loop_factory=virtual.VirtualLoop) as runner:
        runner.run(run())


def test_a_tree_starts_whole_and_what_is_lost_comes_back(tmp_path: Path) -> None:
    async def story(made: Any) -> None:
        for body in TREE:
            await made.create(body)
        await asyncio.sleep(_SECONDS)
        assert await placed(made) == {}, "three nodes are not enough for any group that the tree needs"
        told = await condition(made, _ALPHA, "compositepodgroups", "train")
        assert told[:2] == ("False", "Unschedulable") and "refused" not in told[2], told
        answer = await made.explain("compositepodgroup/train", search=False)
        assert answer.verdicts and answer.verdicts[0].message
        inner = await made.explain("compositepodgroup/actors", search=False)
        assert [each.message for each in inner.verdicts] == [each.message for each in answer.verdicts]
        await made.add_nodes([{"name": "more", "count": 2, "capacity": {"cpu": "4", "memory": "8Gi"}}])
        await asyncio.sleep(_SECONDS)
        found = await placed(made)
        assert found.pop("learners") == 2 and sorted(found.values()) == [2], "the fifth node stays free"
        (actors,) = found
        for plural, name, version in (
            ("compositepodgroups", "train", _ALPHA),
            ("compositepodgroups", "actors", _ALPHA),
            ("podgroups", "learners", _BETA),
            ("podgroups", actors, _BETA),
        ):
            assert await condition(made, version, plural, name) == ("True", "Scheduled", "")
        ours = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups/train"
        before = (await request_json(made.client, "GET", ours))["metadata"]["generation"]
        await asyncio.sleep(_SECONDS)
        after = (await request_json(made.client, "GET", ours))["metadata"]["generation"]
        assert after == before, "what has been followed is not written again"
        lost = (await made.pods("job/learners"))[0]["metadata"]["name"]
        await made.delete(f"pod/{lost}", gone=False)
        await asyncio.sleep(_SECONDS)
        assert await placed(made) == {"learners": 2, actors: 2}

    on_a_plane(3, tmp_path, story)


def test_a_job_that_says_that_it_is_a_gang(tmp_path: Path) -> None:
    async def story(made: Any) -> None:
        await made.create(job("whole", 3, scheduling={"schedulingPolicy": {"gang": {}}}))
        await made.create(job("single", 1, scheduling={}))
        await asyncio.sleep(_SECONDS)
        assert await placed(made) == {"single": 1}
        answer = await made.explain("job/whole", search=False)
        assert answer.verdicts and answer.verdicts[0].message
        await made.add_nodes([{"name": "more", "count": 2, "capacity": {"cpu": "4", "memory": "8Gi"}}])
        await asyncio.sleep(_SECONDS)
        assert await placed(made) == {"single": 1, "whole": 3}

    on_a_plane(2, tmp_path, story)
