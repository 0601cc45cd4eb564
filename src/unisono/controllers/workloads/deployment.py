"""Deployments: equal pods that are replaced step by step when their template changes."""

from __future__ import annotations

from typing import Any

from unisono.api.core import Pod
from unisono.api.groups.apps import Deployment, ReplicaSet
from unisono.api.kind_families import DEPLOYMENTS, REPLICA_SETS
from unisono.api.kinds import PODS
from unisono.api.pod_states import has_ended
from unisono.controllers import owners
from unisono.controllers.indexing import index
from unisono.controllers.recorder import Recorder
from unisono.controllers.statuses import LastWritten, write_status
from unisono.controllers.workloads.dependents import Dependents, raise_first
from unisono.controllers.workloads.deployment_decide import Change, DeploymentPlan, decide
from unisono.controllers.workloads.deployment_sets import REVISION, find_new, size
from unisono.controllers.workloads.deployment_status import deadline, status_of
from unisono.errors import AlreadyExists, NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller

_POD_INDEX = "controller-uid"


class DeploymentController(Controller):
    """Runs Deployments."""

    name = "deployment-controller"

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._written: LastWritten[Deployment] = LastWritten()
        self._written_sets: LastWritten[ReplicaSet] = LastWritten()

    def setup(self, context: Context) -> None:
        """Watch Deployments, their ReplicaSets and, for those that recreate, the end of pods."""
        self._client, self._clock, self._context = context.client, context.clock, context
        self._deployments = context.watch(DEPLOYMENTS)
        self._sets: Dependents[Deployment, ReplicaSet] = Dependents(
            context, DEPLOYMENTS, REPLICA_SETS, lambda deployment: deployment.spec.selector
        )
        self._pods = context.informer(PODS)
        index(self._pods, _POD_INDEX, owners.controller_keys)
        self._pods.on_change(self._pod_changed)

    async def reconcile(self, key: str) -> float | None:
        """Take the next step, then tell how far the Deployment is."""
        deployment = self._written.newest(key, self._deployments.get(key))
        if deployment is None:
            return None
        claimed = await self._sets.claim(deployment)
        sets = [found for each in claimed if (found := self._written_sets.newest(each.key, each)) is not None]
        if not self._sets.settled(deployment):
            return 1.0
        plan = decide(deployment, sets, old_pods=self._old_pods(deployment, sets))
        now = self._clock.time()
        errors = await self._carry_out(deployment, sets, plan)
        status = status_of(deployment, sets, plan, now)
        if any(isinstance(error, AlreadyExists) for error in errors):
            # The name is taken by another template with the same hash: the next look makes another name.
            status.collision_count = (status.collision_count or 0) + 1
            errors = []
        if not await self._tell(deployment, status, plan):
            return None
        raise_first(errors)
        return deadline(deployment, status, now)

    async def _carry_out(self, deployment: Deployment, sets: list[ReplicaSet], plan: DeploymentPlan) -> list[Exception]:
        by_name = {each.metadata.name: each for each in sets}
        for name, change in plan.changes.items():
            await self._change(deployment, by_name[name], change)
        await self._sets.delete(deployment, plan.delete)
        if plan.create is None:
            return []
        errors = await self._sets.create(deployment, [plan.create])
        if not errors:
            self._scaled(deployment, plan.create, 0, size(plan.create))
        return errors

    async def _change(self, deployment: Deployment, replica_set: ReplicaSet, change: Change) -> None:
        meta = replica_set.metadata
        metadata: dict[str, Any] = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        spec: dict[str, Any] = {}
        if change.annotations:
            metadata["annotations"] = change.annotations
        if change.replicas is not None:
            spec["replicas"] = change.replicas
        if change.min_ready_seconds is not None:
            spec["minReadySeconds"] = change.min_ready_seconds
        patch = {"metadata": metadata, "spec": spec} if spec else {"metadata": metadata}
        try:
            written = await self._client.patch(REPLICA_SETS, meta.name, patch, namespace=meta.namespace)
        except NotFound:
            return
        self._written_sets.keep(written)
        if change.replicas is not None:
            self._scaled(deployment, replica_set, size(replica_set), change.replicas)

    async def _tell(self, deployment: Deployment, status: Any, plan: DeploymentPlan) -> bool:
        """Write revision and status; False when the Deployment is gone."""
        meta = deployment.metadata
        try:
            if plan.revision and (meta.annotations or {}).get(REVISION) != plan.revision:
                patch = {
                    "metadata": {"resourceVersion": meta.resource_version, "annotations": {REVISION: plan.revision}}
                }
                deployment = await self._client.patch(DEPLOYMENTS, meta.name, patch, namespace=meta.namespace)
                self._written.keep(deployment)
            self._written.keep(await write_status(self._client, DEPLOYMENTS, deployment, status))
        except NotFound:
            return False
        return True

    def _scaled(self, deployment: Deployment, replica_set: ReplicaSet, before: int, after: int) -> None:
        way = "up" if after > before else "down"
        text = f"Scaled {way} replica set {replica_set.metadata.name} from {before} to {after}"
        self._recorder.event(deployment, "Normal", "ScalingReplicaSet", text)

    def _old_pods(self, deployment: Deployment, sets: list[ReplicaSet]) -> bool:
        """Whether pods of another template than the present one have not ended."""
        new = find_new(deployment, sets)
        return any(
            not has_ended(pod)
            for each in sets
            if each is not new
            for pod in self._pods.by_index(_POD_INDEX, owners.family(each))
        )

    def _pod_changed(self, event_type: EventType, pod: Pod, _old: Pod | None) -> None:
        """The last old pod of a Deployment that recreates has gone: the new ones may start."""
        if event_type != "DELETED" and not has_ended(pod):
            return
        for name in owners.keys_of(REPLICA_SETS, pod):
            replica_set = self._sets.informer.get(name)
            for key in owners.keys_of(DEPLOYMENTS, replica_set) if replica_set is not None else ():
                deployment = self._deployments.get(key)
                if deployment is not None and deployment.spec.strategy.type == "Recreate":
                    self._context.enqueue(key)
