"""Adds machines for gangs that wait because nodes are full, within the bounds that each MachineDeployment names."""

from __future__ import annotations

from collections.abc import Iterator

import structlog

from unisono.api.core import Pod, Taint
from unisono.api.keys import NVIDIA_GPU
from unisono.api.kinds import POD_GROUPS, PODS
from unisono.api.machine import (
    CAPACITY,
    GPU_COUNT,
    GPU_TYPE,
    LABELS,
    MACHINE_DEPLOYMENTS,
    MAXIMUM,
    TAINTS,
    MachineDeployment,
)
from unisono.api.provisioning import CLASS_OF_GROUP
from unisono.api.quantity import QuantityError
from unisono.api.resources import pod_requests, resource_list
from unisono.api.scheduling import PodGroup
from unisono.api.times import parse_time, rfc3339
from unisono.controllers.indexing import index
from unisono.controllers.node_scaling.decide import Demand, Pool, wanted
from unisono.controllers.node_scaling.waiting import CAUSES, PATIENCE, POD_INDEX, groups_of, is_pending, verdict_of
from unisono.controllers.recorder import Recorder
from unisono.errors import ApiError, NotFound
from unisono.kube.controller import Context, Controller

_log = structlog.get_logger(__name__)

SCALED_AT = "unisono.io/scaled-at"
"""On a MachineDeployment: when machines were added last."""
SETTLE = 120.0
"""Seconds between two changes of one MachineDeployment: new nodes must be seen, and taken, before the next count."""
_KEY = "machines"
_LOOK_AGAIN = 10.0


class NodeScalingController(Controller):
    """Looks at all gangs and all MachineDeployments together, every ten seconds while there are such."""

    name = "machines-controller"
    workers = 1

    def __init__(self, recorder: Recorder) -> None:
        """``recorder`` records events on the MachineDeployments."""
        self._recorder = recorder

    def setup(self, context: Context) -> None:
        """Watch MachineDeployments, where a cluster has them; gangs and pods are looked up."""
        self._client, self._clock, self._context = context.client, context.clock, context
        self._deployments = context.watch(MACHINE_DEPLOYMENTS, lambda _: (_KEY,), optional=True)
        self._groups = context.informer(POD_GROUPS)
        self._pods = context.informer(PODS)
        index(self._pods, POD_INDEX, groups_of)

    async def reconcile(self, key: str) -> float | None:
        """Add machines where gangs wait for them."""
        now = self._clock.time()
        known = {each.key: each for each in self._deployments.items()}
        scaled = {name: pool for name, each in known.items() if (pool := pool_of(each)) is not None}
        if not scaled:
            return None
        ready = [pool for name, pool in scaled.items() if now - _scaled_at(known[name]) >= SETTLE]
        # Machines that boot in other pools serve gangs, too; those pools just do not grow.
        fixed = [
            Pool(pool.name, pool.replicas, pool.booting, pool.replicas, pool.offers, pool.labels, pool.taints)
            for name, pool in scaled.items()
            if pool not in ready
        ]
        for name, replicas in wanted(await self._gangs(now), [*ready, *fixed]).items():
            try:
                await self._scale(known[name], replicas, now)
            except ApiError as error:
                text = f"{known[name].spec.replicas or 0} -> {replicas}: {error}"
                self._recorder.event(known[name], "Warning", "FailedScaleUp", text)
        return _LOOK_AGAIN

    async def _gangs(self, now: float) -> list[list[Demand]]:
        """What each gang lacks, those first that wait longest; a gang that cannot be read is told and left out."""
        waiting = []
        for group in self._groups.items():
            try:
                demands = self._demands(group, now)
            except Exception as error:
                await self._context.tell(POD_GROUPS, group, error)
                continue
            await self._context.tell(POD_GROUPS, group, None)
            if demands:
                waiting.append((group.metadata.creation_timestamp or "", group.key, demands))
        return [demands for _, _, demands in sorted(waiting, key=lambda each: each[:2])]

    def _demands(self, group: PodGroup, now: float) -> list[Demand]:
        verdict = verdict_of(group)
        created = group.metadata.creation_timestamp
        if CLASS_OF_GROUP in (group.metadata.annotations or {}):
            # Another component makes its nodes.
            return []
        if verdict.cause not in CAUSES or created is None or now - parse_time(created) < PATIENCE:
            return []
        pods = sorted(self._pods.by_index(POD_INDEX, group.key), key=lambda pod: pod.metadata.name)
        pending = [pod for pod in pods if is_pending(pod)]
        if not pending:
            return [] if pods else _promised(group)
        if any(_is_choosy(pod) for pod in pending):
            return []
        missing = len(pending)
        if verdict.tasks_needed:
            running = len(pods) - len(pending)
            missing = min(missing, verdict.tasks_needed - running - verdict.tasks_placeable)
        return [_demand(pod) for pod in pending[: max(missing, 0)]]

    async def _scale(self, deployment: MachineDeployment, replicas: int, now: float) -> None:
        meta = deployment.metadata
        patch = {
            "metadata": {"resourceVersion": meta.resource_version, "annotations": {SCALED_AT: rfc3339(now)}},
            "spec": {"replicas": replicas},
        }
        try:
            await self._client.patch(MACHINE_DEPLOYMENTS, meta.name, patch, namespace=meta.namespace)
        except NotFound:
            return
        before = deployment.spec.replicas or 0
        _log.info("machines.scaled", deployment=deployment.key, before=before, after=replicas)
        text = f"machines for waiting gangs: {before} -> {replicas}"
        self._recorder.event(deployment, "Normal", "ScaledUp", text)


def pool_of(deployment: MachineDeployment) -> Pool | None:
    """The machines of a deployment; None when it does not say how far it may grow and what a machine offers."""
    notes = deployment.metadata.annotations or {}
    try:
        most = int(notes[MAXIMUM])
        offers = resource_list(dict(_offered(notes)))
    except (KeyError, ValueError, QuantityError):
        return None
    if not offers or deployment.metadata.deletion_timestamp:
        return None
    replicas = deployment.spec.replicas or 0
    booting = max(replicas - (deployment.status.ready_replicas or 0), 0)
    labels = dict(part.split("=", 1) for part in notes.get(LABELS, "").split(",") if "=" in part)
    return Pool(deployment.key, replicas, booting, most, offers, labels, tuple(_taints(notes.get(TAINTS, ""))))


def _offered(notes: dict[str, str]) -> Iterator[tuple[str, str]]:
    for name in ("cpu", "memory", "ephemeral-disk"):
        if f"{CAPACITY}{name}" in notes:
            yield ("ephemeral-storage" if name == "ephemeral-disk" else name), notes[f"{CAPACITY}{name}"]
    if GPU_COUNT in notes:
        yield notes.get(GPU_TYPE, NVIDIA_GPU), notes[GPU_COUNT]


def _taints(text: str) -> Iterator[Taint]:
    """``key=value:Effect``, separated by commas."""
    for part in filter(None, text.split(",")):
        said, _, effect = part.rpartition(":")
        key, _, value = said.partition("=")
        yield Taint(key=key, value=value, effect=effect)


def _promised(group: PodGroup) -> list[Demand]:
    """A gang whose pods are made after its admission: its minimum in equal parts."""
    count = group.spec.min_member or 0
    total = resource_list(group.spec.min_resources)
    if not total or count <= 0:
        return []
    return [Demand({name: -(-amount // count) for name, amount in total.items()}, count=count)]


def _demand(pod: Pod) -> Demand:
    return Demand(pod_requests(pod.spec), dict(pod.spec.node_selector or {}), tuple(pod.spec.tolerations or ()))


def _is_choosy(pod: Pod) -> bool:
    """What a pod requires beyond labels and taints is not known of machines that do not exist yet."""
    affinity = pod.spec.affinity
    node = affinity.node_affinity if affinity is not None else None
    return node is not None and node.required_during_scheduling_ignored_during_execution is not None


def _scaled_at(deployment: MachineDeployment) -> float:
    try:
        return parse_time((deployment.metadata.annotations or {}).get(SCALED_AT, ""))
    except ValueError:
        return float("-inf")
