"""A whole control plane on virtual time: a gang that can never be placed keeps nothing from a neighbour that fits."""

from __future__ import annotations

import asyncio
import copy
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from support import impossible
from support.impossible import KINDS, Impossible
from unisono.kube.discovery import request_json

sys.path.append(str(Path(__file__).parents[2]))
case: Any = import_module("benchmarks.answers.case")
plane: Any = import_module("benchmarks.answers.plane")
virtual: Any = import_module("unisono.standalone.shadow")

# A gang whose pods do not come is given a minute.
_SECONDS = 120
# Pods of other schedulers are not even looked at here.
_OFTEN = ("volume claim missing", "anti-affinity to itself", "host port taken", "pods of a user")


def _posted(body: Any) -> Any:
    """The object as a user creates it."""
    body = copy.deepcopy(body)
    body.pop("status", None)
    for field in ("uid", "creationTimestamp"):
        body["metadata"].pop(field, None)
    if body["kind"] == "PersistentVolume":
        body["spec"]["claimRef"].pop("uid")
    return body


def _nodes(kind: Impossible) -> tuple[list[Any], list[Any]]:
    """Specs of simulated nodes, and everything else."""
    made, others = [], []
    for body in kind.bodies():
        if body["kind"] != "Node":
            others.append(body)
            continue
        meta = body["metadata"]
        spec = {"name": meta["name"], "capacity": body["status"]["capacity"], "labels": meta["labels"]}
        made.append(spec | ({"taints": body["spec"]["taints"]} if body["spec"].get("taints") else {}))
    return made, others


def _notes(kind: Impossible) -> dict[str, Any]:
    """Annotations of nodes, which device plugins write."""
    nodes = [body["metadata"] for body in kind.bodies() if body["kind"] == "Node"]
    return {meta["name"]: meta["annotations"] for meta in nodes if meta["annotations"]}


async def _placed(kind: Impossible, folder: Path) -> tuple[int, int]:
    """Pods of the neighbour and of the gang that have a node, two minutes after the neighbour came."""
    nodes, objects = _nodes(kind)
    given = case.Case(
        "impossible", "", f"namespace/{impossible.GANG[0]}", [], [], [], nodes, kind.config, [], [], [], 0, 0.0
    )
    async with plane.plane(given, folder, plane.unadvised) as made:
        for name in (impossible.GANG[0], impossible.NEIGHBOUR[0]):
            await made.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for name, notes in _notes(kind).items():
            await made.patch(f"node/{name}", {"metadata": {"annotations": notes}})
        for body in objects:
            await made.create(_posted(body))
        await made.settle()
        for body in kind.beside():
            await made.create(_posted(body))
        await asyncio.sleep(_SECONDS)
        counts = []
        for namespace, name in (impossible.NEIGHBOUR, impossible.GANG):
            pods = (await request_json(made.client, "GET", f"/api/v1/namespaces/{namespace}/pods"))["items"]
            own = [pod for pod in pods if pod["metadata"].get("labels", {}).get("app") == name]
            counts.append(sum(1 for pod in own if pod["spec"].get("nodeName")))
    return counts[0], counts[1]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[
                *([] if name in _OFTEN else [pytest.mark.more]),
            ],
        )
        for name, kind in KINDS.items()
        if not kind.later
    ],
)
def test_nobody_waits_for_a_gang_that_can_never_be_placed(name: str, tmp_path: Path) -> None:
    with asyncio.Runner(loop_factory=virtual.VirtualLoop) as runner:
        assert runner.run(_placed(KINDS[name], tmp_path)) == (impossible.NEIGHBOUR_PODS, 0)
