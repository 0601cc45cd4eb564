"""A cluster in memory with the controllers of Kubernetes' own workloads, and hands that play kubelet and kubectl."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from controller_world import ControllerWorld

from unisono.api.base import Object
from unisono.api.core import Pod, PodCondition
from unisono.api.decode import decode
from unisono.api.defaulting import apply_defaults
from unisono.api.kind import Kind
from unisono.api.kinds import PODS
from unisono.api.times import rfc3339
from unisono.controllers.builtin import builtin_controllers
from unisono.controllers.nodes import NodeLifecycleController
from unisono.kube.controller import Controller

LABELS = {"app": "web"}


def template(image: str = "busybox:1", labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": image, "command": ["sleep", "1000"]}
    return {"metadata": {"labels": labels or LABELS}, "spec": {"containers": [container]} | spec}


def build(kind: Kind[Any], name: str = "web", *, metadata: dict[str, Any] | None = None, **spec: Any) -> Any:
    """An object of ``kind`` in namespace ``default``, with Kubernetes' defaults."""
    value = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": "default"} | (metadata or {}),
        "spec": copy.deepcopy(spec),
    }
    obj = decode(kind, value).obj
    apply_defaults(kind, obj)
    return obj


def workload(kind: Kind[Any], name: str = "web", *, image: str = "busybox:1", **spec: Any) -> Any:
    """A workload of ``apps/v1`` with label ``app=web``."""
    return build(kind, name, **{"selector": {"matchLabels": LABELS}, "template": template(image)} | spec)


def _workloads(recorder: Any) -> list[Any]:
    """The built-in controllers but that of nodes: those of this world have no heartbeat, and would count as silent."""
    return [each for each in builtin_controllers(recorder) if not isinstance(each, NodeLifecycleController)]


class WorkloadWorld(ControllerWorld):
    """One API server with the built-in controllers of workloads."""

    controllers: Callable[..., list[Any]] = staticmethod(_workloads)

    def make_controllers(self) -> list[Controller]:
        return self.controllers(self.recorder)

    async def make(self, kind: Kind[Any], obj: Object) -> Any:
        made = await self.client.create(kind, obj)
        await self.settle()
        return made

    async def edit(self, kind: Kind[Any], name: str, **spec: Any) -> None:
        """A user changes the specification; the server counts the generation."""
        value = copy.deepcopy(self.client.raw(kind, f"default/{name}"))
        value["spec"] |= copy.deepcopy(spec)
        value["metadata"]["generation"] = (value["metadata"].get("generation") or 0) + 1
        obj = decode(kind, value).obj
        apply_defaults(kind, obj)
        self.client.put(kind, obj)
        await self.settle()

    def one(self, kind: Kind[Any], name: str = "web") -> Any:
        found = self.client.find(kind, f"default/{name}")
        assert found is not None, f"{kind.kind} {name}"
        return found

    # --- kubelet ------------------------------------------------------------------------------------------------

    async def ready(self, *names: str, node: str = "node-0") -> None:
        """These pods (all pending ones when none is named) run and are ready."""
        for pod in self.pods(deleting=False):
            if pod.metadata.name in names or (not names and pod.status.phase in (None, "Pending")):
                self.make_ready(pod, node)
        await self.settle()

    def make_ready(self, pod: Pod, node: str = "node-0") -> None:
        self.set_pod(pod, "Running")
        found = self.client.find(PODS, pod.key)
        assert found is not None
        found.spec.node_name = node
        stamp = rfc3339(self.clock.time())
        found.status.conditions = [PodCondition(type="Ready", status="True", last_transition_time=stamp)]
        self.client.put(PODS, found)

    async def roll(self, rounds: int = 40) -> None:
        """The kubelet starts what is to start and ends what is to end until nothing changes."""
        for _ in range(rounds):
            writes = len(self.client.writes)
            await self.ready()
            await self.finish_deletions()
            # A write that lost a race is tried again a moment later.
            await self.advance(2)
            if writes == len(self.client.writes):
                return
        raise AssertionError("it never comes to rest")

    def by_image(self) -> dict[str, int]:
        """Pods that are not being deleted, by image."""
        counts: dict[str, int] = {}
        for pod in self.pods(deleting=False):
            image = (pod.spec.containers or [])[0].image or ""
            counts[image] = counts.get(image, 0) + 1
        return counts

    def condition(self, kind: Kind[Any], name: str, type: str) -> tuple[str, str] | None:
        for each in self.one(kind, name).status.conditions or ():
            if each.type == type:
                return each.status, each.reason
        return None
