"""Clusters after Kueue's documented examples, converted and run: what Kueue documents as admitted runs, and no more.

Where Kueue admits other jobs than run here, the row says which, and the words by which the converter told of it.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.plane import REPOSITORY
from support.shapes import case, plane, virtual
from unisono.api.yaml import load_all
from unisono.cli.migrate import kueue
from unisono.cli.migrate.written import Written
from unisono.errors import ApiError
from unisono.kube.discovery import request_json

EXAMPLES: list[dict[str, Any]] = [
    each.value for each in load_all((REPOSITORY / "tests" / "manifests" / "kueue" / "clusters.yaml").read_text())
]
PAGE = (REPOSITORY / "docs" / "migrating.md").read_text()
API = "kueue.x-k8s.io/v1beta2"
_QUEUE, _PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
_PATIENCE = 60
# Topologies are read once a minute.
_UNTIL_TOPOLOGIES_ARE_READ = 70
NODES = [{"name": "n", "count": 3, "capacity": {"cpu": "64", "memory": "256Gi", "pods": "200"}}]


def given(example: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects of Kueue, and nodes' labels by flavor."""
    found = []
    for obj in example["kueue"]:
        kind, spec = next(iter(obj.items()))
        meta = {"name": spec.pop("name"), **({"namespace": spec.pop("in", "default")} if kind == "LocalQueue" else {})}
        body = {"value": spec["value"]} if kind == "WorkloadPriorityClass" else {"spec": spec}
        if kind == "ClusterQueue":
            spec.setdefault("namespaceSelector", {})
        if spec.get("namespaceSelector") == "none":
            del spec["namespaceSelector"]
        if quotas := spec.pop("quotas", None):
            spec["resourceGroups"] = [_group(each) for each in quotas]
        found.append({"apiVersion": API, "kind": kind, "metadata": meta, **body})
    return found


def _group(flavors: dict[str, dict[str, str]]) -> dict[str, Any]:
    """`{FLAVOR: {RESOURCE: "NOMINAL +BORROWED -LENT"}}` as a resource group."""
    names = {"+": "borrowingLimit", "-": "lendingLimit"}
    return {
        "coveredResources": list(next(iter(flavors.values()))),
        "flavors": [
            {
                "name": flavor,
                "resources": [
                    {
                        "name": resource,
                        **{names.get(one[0], "nominalQuota"): one.lstrip("+-") for one in str(text).split()},
                    }
                    for resource, text in resources.items()
                ],
            }
            for flavor, resources in flavors.items()
        ],
    }


def jobs(step: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Whole objects as they are; `{job: NAME, queue: LOCAL, pods: 2, RESOURCE: ...}` as a suspended Job."""
    for row in step:
        if "apiVersion" in row:
            yield row
            continue
        row = dict(row)
        labels = {_QUEUE: row.pop("queue")}
        if "priority" in row:
            labels[_PRIORITY] = row.pop("priority")
        name, pods, space = row.pop("job"), row.pop("pods", 1), row.pop("in", "default")
        notes, note, select = row.pop("notes", {}), row.pop("note", {}), row.pop("select", {})
        requests = {key: str(value) for key, value in row.items()}
        resources = {"requests": requests, "limits": {key: value for key, value in requests.items() if "/" in key}}
        container = {"name": "main", "image": "busybox", "resources": resources}
        pod = {"restartPolicy": "Never", "containers": [container], "nodeSelector": select}
        yield {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": space, "labels": labels, "annotations": notes},
            "spec": {
                "parallelism": pods,
                "completions": pods,
                "suspend": True,
                "template": {"metadata": {"annotations": note}, "spec": pod},
            },
        }


def configuration(done: Written) -> str:
    """What the converter tells to configure: its actions, and the plug-ins of the page."""
    (told,) = [each for each in done.changes if "actions:" in each]
    actions = told.partition("actions: ")[2].partition(", plug-ins")[0]
    plugins = PAGE.partition("## Configuration for queues of Kueue")[2].partition("tiers:")[2].partition("```")[0]
    return f"actions: {actions}\ntiers:{plugins}"


def grouped(nodes: list[dict[str, Any]], done: Written) -> list[dict[str, Any]]:
    """The nodes after the commands by which the converter tells to label them."""
    nodes = copy.deepcopy(nodes)
    for told in (each for each in done.changes if "kubectl label nodes -l " in each):
        labels, _, group = told.rpartition("-l ")[2].replace(" volcano.sh", "|volcano.sh").partition("|")
        wanted = dict(one.split("=") for one in labels.split(","))
        for node in nodes:
            have = node.setdefault("labels", {})
            if wanted.items() <= have.items():
                have.setdefault("volcano.sh/nodegroup-name", group.rpartition("=")[2])
    return nodes


def test_the_page_counts_them() -> None:
    equal = [each for each in EXAMPLES if "differs" not in each]
    assert f"{len(EXAMPLES)} clusters after" in PAGE
    assert f"In {len(equal)} of them" in PAGE


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each["of"])
def test_what_kueue_admits_runs_and_no_more(example: dict[str, Any], tmp_path: Path) -> None:
    example = copy.deepcopy(example)
    steps = [list(jobs(step)) for step in example["jobs"]]
    spaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        for name, labels in example.get("namespaces", {}).items()
    ]
    done = kueue.convert([*given(example), *spaces, *(job for step in steps for job in step)])
    objects = done.objects()
    names = {(job["kind"], job["metadata"]["name"]): number for number, step in enumerate(steps) for job in step}
    batches: list[list[dict[str, Any]]] = [[] for _ in steps]
    first: list[dict[str, Any]] = []
    for obj in objects:
        number = names.get((obj["kind"], obj["metadata"]["name"]))
        (first if number is None else batches[number]).append(obj)
    running = _run(
        tmp_path,
        grouped(example.get("nodes") or NODES, done),
        configuration(done),
        first,
        batches,
    )
    differs = example.get("differs", {})
    expected = (set(example["admitted"]) | set(differs.get("runs", ()))) - set(differs.get("waits", ()))
    told = [*done.lost, *done.changes]
    assert running == expected, (running, told)
    for words in differs.get("told", ()):
        assert any(words in each for each in told), told
    assert not differs or differs["told"]


def _run(
    folder: Path,
    nodes: list[dict[str, Any]],
    config: str,
    first: list[dict[str, Any]],
    batches: list[list[dict[str, Any]]],
) -> set[str]:
    """The jobs of which pods run at the end, and none is missing."""
    told: set[str] = set()

    async def story() -> None:
        name = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
        some = case.Case("kueue", "", "namespace/default", [], [], [name], nodes, config, [], [], [], 0, 0.0)
        async with plane.plane(some, folder, plane.unadvised) as made:
            for obj in first:
                await made.create(obj)
            await asyncio.sleep(_UNTIL_TOPOLOGIES_ARE_READ if any(obj["kind"] == "ConfigMap" for obj in first) else 3)
            for batch in batches:
                for obj in batch:
                    try:
                        await made.create(obj)
                    except ApiError as error:
                        if error.code != 403:
                            raise
                await asyncio.sleep(_PATIENCE)
            pods = (await request_json(made.client, "GET", "/api/v1/pods"))["items"]
            for obj in (obj for batch in batches for obj in batch):
                name = obj["metadata"]["name"]
                mine = [
                    pod
                    for pod in pods
                    if pod["metadata"]["name"] == name or pod["metadata"]["name"].startswith(f"{name}-")
                ]
                phases = {pod["status"].get("phase") for pod in mine}
                if mine and phases <= {"Running", "Succeeded"}:
                    told.add(name)
                elif "Running" in phases:
                    told.add(f"{name} in part")

    with asyncio.Runner(loop_factory=virtual.VirtualLoop) as runner:
        runner.run(story())
    return told
