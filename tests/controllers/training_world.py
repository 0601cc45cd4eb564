"""A cluster in memory for tests of training jobs: the controllers of all frameworks, virtual time."""

from __future__ import annotations

from typing import Any

from controller_world import ControllerWorld, at_once

from unisono.api.base import Object
from unisono.api.core import Pod, PodCondition
from unisono.api.decode import decode
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kind import Kind
from unisono.api.kinds import POD_GROUPS, PODS, SERVICES, find
from unisono.controllers.training.registry import training_controllers
from unisono.kube.controller import Controller


def template(container: str = "main", **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": container, "image": "img", "command": ["train"]}], **spec}}


def roles(container: str, **counts: Any) -> dict[str, Any]:
    """``roles("pytorch", Master=1, Worker=(2, "Never"))``: replica specs with or without a restart policy."""
    made = {}
    for name, count in counts.items():
        number, policy = count if isinstance(count, tuple) else (count, None)
        made[name] = {"replicas": number, "template": template(container)} | (
            {"restartPolicy": policy} if policy else {}
        )
    return made


def manifest(kind: str, name: str = "j", api_version: str = "kubeflow.org/v1", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "ns"}, "spec": spec}


def pytorch(workers: Any = 2, master: Any = 1, **spec: Any) -> dict[str, Any]:
    counts = ({"Master": master} if master else {}) | ({"Worker": workers} if workers else {})
    return manifest("PyTorchJob", pytorchReplicaSpecs=roles("pytorch", **counts), **spec)


class TrainingWorld(ControllerWorld):
    """One API server with the training controllers on it, and one job that most tests are about."""

    namespace = "ns"

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.kind: Kind[Any] | None = None
        self.name = ""

    def make_controllers(self) -> list[Controller]:
        return training_controllers(self.recorder, at_once)

    # --- user -------------------------------------------------------------------------------------------------

    async def submit(self, value: dict[str, Any], *, admit: bool = True) -> None:
        kind = find(value["apiVersion"], value["kind"])
        assert kind is not None
        decoded = decode(kind, value)
        assert not decoded.unknown_fields
        assert not decoded.type_errors
        self.kind, self.name = kind, value["metadata"]["name"]
        with self.client.hands():
            await self.client.create(kind, decoded.obj)
        await self.settle()
        if admit:
            await self.admit()

    async def change(self, **spec: Any) -> None:
        assert self.kind is not None
        with self.client.hands():
            await self.client.patch(self.kind, self.name, {"spec": spec}, namespace=self.namespace)
        await self.settle()

    # --- scheduler --------------------------------------------------------------------------------------------

    def group(self, name: str = "") -> PodGroup | None:
        return self.client.find(POD_GROUPS, f"{self.namespace}/{name or self.name}")

    async def admit(self, name: str = "", phase: str = "Inqueue") -> None:
        group = self.group(name)
        if group is not None:
            await self.set_group_phase(group, phase)

    # --- kubelet ----------------------------------------------------------------------------------------------

    def services(self) -> list[str]:
        return [service.metadata.name for service in self.client.objects(SERVICES)]

    def conditions(self, phase: str) -> list[PodCondition]:
        return [PodCondition(type="Ready", status="True" if phase == "Running" else "False")]

    def set_pod(self, pod: Pod, phase: str, code: int | None = None, *, disrupted: bool = False, **fields: Any) -> None:
        super().set_pod(pod, phase, code, **fields)
        if disrupted:
            pod.status.conditions = [
                *(pod.status.conditions or ()),
                PodCondition(type="DisruptionTarget", status="True"),
            ]
            self.client.put(PODS, pod)

    async def all_pods(self, phase: str) -> None:
        """Every pod that has not ended."""
        for pod in self.pods():
            if not pod.metadata.deletion_timestamp and pod.status.phase not in ("Succeeded", "Failed"):
                self.set_pod(pod, phase)
        await self.settle()

    async def evict(self, name: str) -> None:
        """Somebody takes a running pod's place away: it ends within its grace period."""
        with self.client.hands():
            await self.client.delete(PODS, name, self.namespace)
        await self.settle()

    # --- reading ----------------------------------------------------------------------------------------------

    @property
    def job(self) -> Any:
        assert self.kind is not None
        found: Object | None = self.client.find(self.kind, f"{self.namespace}/{self.name}")
        assert found is not None
        return found

    def state(self) -> str:
        """What the column State shows."""
        conditions = self.job.status.conditions
        return conditions[-1].type if conditions else ""

    def condition(self, type: str) -> Any:
        return next((each for each in self.job.status.conditions or () if each.type == type), None)

    def holding(self) -> set[str]:
        return {each.type for each in self.job.status.conditions or () if each.status == "True"}

    def env(self, pod: str, container: int = 0) -> dict[str, str | None]:
        return {each.name: each.value for each in (self.find_pod(pod).spec.containers or [])[container].env or ()}

    def created_pods(self) -> int:
        return sum(write.operation == "create" and write.resource == "pods" for write in self.client.writes)
