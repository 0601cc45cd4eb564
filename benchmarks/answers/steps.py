"""What happens to a cluster, as written in cases.

::

    - create: {apiVersion: ..., kind: ..., ...}
    - patch: node/a                      # with `merge` or `json`, and `status: true` for the status
      merge: {spec: {unschedulable: true}}
    - delete: pod/x                      # with what it owns; `gone: false`: do not wait until it has gone
    - recreate: job/train                # as written in the case, with `json` applied to it
      json: [{op: replace, path: /spec/minAvailable, value: 2}]
    - nodes: [{name: more, capacity: {cpu: 8, memory: 32Gi}}]
    - command: OpenQueue                 # or AbortJob, ResumeJob, ...
      to: queue/q
    - kill: scheduler                    # or controllers
    - start: scheduler
    - wait: 60                           # virtual seconds
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterable
from typing import Any

from benchmarks.answers.case import Case, Step
from benchmarks.answers.plane import Plane
from unisono.api.documents import apply_json_patch

BUS = "bus.volcano.sh/v1alpha1"


async def play(plane: Plane, case: Case, steps: Iterable[Step]) -> None:
    """Carry out the steps, one after the other, and wait until the cluster has settled."""
    for step in steps:
        await _play(plane, case, step)
    await plane.settle()


async def _play(plane: Plane, case: Case, step: Step) -> None:
    match step:
        case {"create": body}:
            await plane.create(body)
        case {"patch": title, "merge": patch}:
            await plane.patch(title, patch, subresource="status" if step.get("status") else "")
        case {"patch": title, "json": patch}:
            await plane.patch(title, patch, how="json", subresource="status" if step.get("status") else "")
        case {"delete": title}:
            await plane.delete(title, gone=step.get("gone", True))
        case {"recreate": title, "json": patch}:
            await plane.recreate(title, apply_json_patch(written(plane, case, title), patch))
        case {"nodes": specs}:
            await plane.add_nodes(specs)
        case {"command": action, "to": title}:
            await command(plane, action, title)
        case {"kill": name}:
            await plane.kill(name)
        case {"start": name}:
            plane.start(name)
        case {"wait": seconds}:
            await asyncio.sleep(seconds)
        case _:
            raise ValueError(f"unknown step {step}")


async def command(plane: Plane, action: str, title: str) -> None:
    """Send a command to a queue or a job, as the command line does."""
    found = await plane.get(title)
    meta = found["metadata"]
    target = {"apiVersion": found["apiVersion"], "kind": found["kind"], "name": meta["name"], "uid": meta["uid"]}
    metadata = {"name": f"{action}-{meta['name']}".lower(), "namespace": meta.get("namespace", "default")}
    body = {"apiVersion": BUS, "kind": "Command", "metadata": metadata, "action": action}
    await plane.create({**body, "target": {**target, "controller": True}})


def written(plane: Plane, case: Case, title: str) -> dict[str, Any]:
    """The object of the case that ``title`` names."""
    resource, name, _ = plane.target(title)
    made = [step["create"] for step in case.steps if "create" in step]
    for body in [*case.objects, *made]:
        if body["kind"] == resource.kind and body["metadata"]["name"] == name:
            return copy.deepcopy(body)
    raise ValueError(f"case {case.name} has no object {title}")
