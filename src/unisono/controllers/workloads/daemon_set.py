"""DaemonSets: one pod on every node that the template fits."""

from __future__ import annotations

import random

from unisono.api.core import Node, Pod
from unisono.api.groups.apps import ControllerRevision, DaemonSet
from unisono.api.kind_families import CONTROLLER_REVISIONS, DAEMON_SETS
from unisono.api.kinds import NODES, PODS
from unisono.controllers.objects import PATIENCE_SECONDS, LastWritten, write_status
from unisono.controllers.recorder import Recorder
from unisono.controllers.workloads.daemon_decide import DaemonPlan, daemon_spec, decide, hash_of
from unisono.controllers.workloads.dependents import Dependents, raise_first
from unisono.controllers.workloads.templates import (
    HASH_LABEL,
    REVISION_LABEL,
    bring_to_server,
    generated_name,
    pod_from,
    revise,
)
from unisono.errors import NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller, sooner


class DaemonSetController(Controller):
    """Runs DaemonSets."""

    name = "daemonset-controller"

    def __init__(self, recorder: Recorder, source: random.Random | None = None) -> None:
        """``source`` makes the ends of pods' names."""
        self._recorder, self._random = recorder, source or random.Random()  # noqa: S311  # nosec B311 # no secret
        self._written: LastWritten[DaemonSet] = LastWritten()

    def setup(self, context: Context) -> None:
        """Watch DaemonSets, their pods and revisions, and the nodes."""
        self._client, self._clock, self._context = context.client, context.clock, context
        self._sets = context.watch(DAEMON_SETS)
        self._pods: Dependents[DaemonSet, Pod] = Dependents(
            context, DAEMON_SETS, PODS, lambda daemon_set: daemon_set.spec.selector
        )
        self._revisions: Dependents[DaemonSet, ControllerRevision] = Dependents(
            context, DAEMON_SETS, CONTROLLER_REVISIONS, lambda daemon_set: daemon_set.spec.selector
        )
        self._nodes = context.informer(NODES)
        self._nodes.on_change(self._node_changed)

    async def reconcile(self, key: str) -> float | None:
        """Take the next step, then tell on how many nodes there are pods."""
        daemon_set = self._written.newest(key, self._sets.get(key))
        if daemon_set is None:
            return None
        pods = await self._pods.claim(daemon_set)
        revisions = await self._revisions.claim(daemon_set)
        if not self._revisions.settled(daemon_set):
            return 1.0
        marks = {hash_of(pod) for pod in pods}
        used = {each.metadata.name for each in revisions if (each.metadata.labels or {}).get(HASH_LABEL) in marks}
        revised = revise(DAEMON_SETS, daemon_set, revisions, used)
        if not daemon_set.metadata.deletion_timestamp:
            await bring_to_server(self._client, self._revisions, daemon_set, revised)
        update = (revised.update.metadata.labels or {})[HASH_LABEL]
        plan = decide(daemon_set, self._nodes.items(), pods, update, self._clock.time())
        errors: list[Exception] = []
        if self._pods.settled(daemon_set):
            errors = await self._carry_out(daemon_set, plan, update)
        try:
            self._written.keep(await write_status(self._client, DAEMON_SETS, daemon_set, plan.status))
        except NotFound:
            return None
        raise_first(errors)
        return sooner(plan.requeue_after, None if self._pods.settled(daemon_set) else PATIENCE_SECONDS)

    async def _carry_out(self, daemon_set: DaemonSet, plan: DaemonPlan, update: str) -> list[Exception]:
        fresh = [self._pod(daemon_set, node, update) for node in plan.create]
        errors = await self._pods.create(daemon_set, fresh)
        for pod in fresh[:5] if not errors else ():
            self._recorder.event(daemon_set, "Normal", "SuccessfulCreate", f"Created pod: {pod.metadata.name}")
        if errors:
            self._recorder.event(daemon_set, "Warning", "FailedCreate", f"Error creating: {errors[0]}")
        errors += await self._pods.delete(daemon_set, plan.delete)
        for pod in plan.delete[:5]:
            self._recorder.event(daemon_set, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")
        return errors

    def _pod(self, daemon_set: DaemonSet, node: str, update: str) -> Pod:
        made = pod_from(
            daemon_set.spec.template,
            DAEMON_SETS,
            daemon_set,
            generated_name(daemon_set.metadata.name, self._random),
            labels={REVISION_LABEL: update},
        )
        made.spec = daemon_spec(made.spec, node)
        return made

    def _node_changed(self, event_type: EventType, new: Node, old: Node | None) -> None:
        """Only labels and taints decide where daemons run."""
        if event_type == "MODIFIED" and old is not None:
            same = (new.metadata.labels, new.spec.taints) == (old.metadata.labels, old.spec.taints)
            if same:
                return
        for daemon_set in self._sets.items():
            self._context.enqueue(daemon_set.key)
