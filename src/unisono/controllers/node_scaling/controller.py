"""Scales MachineDeployments: machines for gangs that wait, and fewer where they are not needed, within their bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import structlog

from unisono.api.annotations import SCALE_DOWN, SCALED_AT
from unisono.api.core import Node, Pod, Taint
from unisono.api.groups.autoscaling import (
    CLASS_OF_GROUP,
    DELETE_MACHINE,
    DEPLOYMENT_NAME,
    MACHINE_DEPLOYMENTS,
    MACHINES,
    Machine,
    MachineDeployment,
)
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kind_families import BATCH_JOBS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS
from unisono.api.kinds import NODES, POD_DISRUPTION_BUDGETS, POD_GROUPS, PODS
from unisono.api.pod_states import has_ended
from unisono.api.times import parse_time, rfc3339
from unisono.controllers.node_scaling.decide import (
    CAUSES,
    PATIENCE,
    POD_INDEX,
    Demand,
    Helped,
    Room,
    demand_of,
    groups_of,
    growth,
    is_pending,
    promised,
    remainders,
    verdict_of,
)
from unisono.controllers.node_scaling.interruption import is_taken_back
from unisono.controllers.node_scaling.provisioning import overdue, pool_of, scaled_at
from unisono.controllers.node_scaling.shrink import Held, Shrinking, held_by, is_of_node, shrinking
from unisono.controllers.owners import controller_of_kind, index
from unisono.controllers.pod_facts import is_deleting
from unisono.controllers.recorder import Announcer, Notice, Recorder
from unisono.errors import ApiError, Conflict, NotFound
from unisono.kube.client import Client
from unisono.kube.controller import Context, Controller

# What giving a machine back writes: a taint that keeps pods away, evictions, and the choice of the Machine.


class Removal:
    """The steps, each of which is tried again in the next round when the server refuses it.

    Args:
        client: the API.
        recorder: tells on the node and its pods.
        now: seconds since 1970.

    """

    def __init__(self, client: Client, recorder: Recorder, now: float) -> None:
        self._client, self._recorder, self._now = client, recorder, now

    async def mark(self, node: Node | None, *, on: bool) -> None:
        """Keep new pods away from the node, or let them in once more."""
        if node is None:
            return
        others = [each for each in node.spec.taints or () if each.key != SCALE_DOWN]
        mine = [Taint(key=SCALE_DOWN, effect="NoSchedule", time_added=rfc3339(self._now))] if on else []
        patch: dict[str, Any] = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": [msgspec.to_builtins(each) for each in (*others, *mine)] or None},
        }
        try:
            await self._client.patch(NODES, node.metadata.name, patch)
        except ApiError:
            return
        text = "its machine is not needed and will be given back" if on else "its machine is needed after all"
        self._recorder.event(node, "Normal", "ScaleDown" if on else "ScaleDownCancelled", text)

    async def drain(self, node: Node | None, pods: Iterable[Pod]) -> None:
        """Evict the pods that the node still runs; a disruption budget that is spent is asked again later."""
        if node is None:
            return
        for pod in pods:
            if pod.spec.node_name != node.metadata.name or has_ended(pod) or is_deleting(pod) or is_of_node(pod):
                continue
            meta = pod.metadata
            try:
                await self._client.evict(meta.namespace or "", meta.name, uid=meta.uid)
            except ApiError:
                continue
            self._recorder.event(pod, "Normal", "ScaleDown", f"moved: node {node.metadata.name} is given back")

    async def choose(self, machine: Machine) -> bool:
        """Have this Machine deleted first when there are fewer replicas; answers whether that is written."""
        meta = machine.metadata
        patch = {"metadata": {"annotations": {DELETE_MACHINE: rfc3339(self._now)}}}
        try:
            await self._client.patch(MACHINES, meta.name, patch, namespace=meta.namespace)
        except ApiError:
            return False
        return True


def is_going(machine: Machine) -> bool:
    """The machine is deleted, or was chosen to be."""
    meta = machine.metadata
    return meta.deletion_timestamp is not None or DELETE_MACHINE in (meta.annotations or {})


_log = structlog.get_logger(__name__)

SETTLE = 120.0
"""Seconds between two changes of one MachineDeployment: new nodes must be seen, and taken, before the next count."""
_REPLICAS = (REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS, BATCH_JOBS)
"""Kinds of pods of which each is wanted, beyond the minimum of their PodGroup as well."""
_MOST_REPLICAS = 100
"""Of one PodGroup, in one look."""
_KEY = "machines"
_LOOK_AGAIN = 10.0
# Machines that came for a gang that then waited for something else come again after a pause (seconds) that doubles.
_PAUSE, _LONGEST_PAUSE = 1800.0, 86_400.0


class NodeScalingController(Controller):
    """Looks at all gangs, nodes and MachineDeployments together, every ten seconds while there are such."""

    name = "machines-controller"
    workers = 1

    def __init__(self, recorder: Recorder) -> None:
        """``recorder`` records events on the MachineDeployments."""
        self._recorder = recorder
        # By node that is not needed: since when. A new process counts from the beginning.
        self._unneeded: Mapping[str, float] = {}
        self._machine_of: dict[str, Machine] = {}
        # By MachineDeployment: when all of its machines were there, as far as this process has seen.
        self._complete: dict[str, float] = {}
        self._helped = Helped(_PAUSE, _LONGEST_PAUSE)
        self._announcer = Announcer(recorder)
        # Machines by pool at the last look, and when there were fewer somewhere.
        self._replicas: Mapping[str, int] = {}
        self._given_back = float("-inf")

    def setup(self, context: Context) -> None:
        """Watch MachineDeployments, where a cluster has them; gangs, pods and nodes are looked up."""
        self._client, self._clock, self._context = context.client, context.clock, context
        self._deployments = context.watch(MACHINE_DEPLOYMENTS, lambda _: (_KEY,), optional=True)
        self._machines = context.watch(MACHINES, lambda _: (), optional=True)
        self._groups = context.informer(POD_GROUPS)
        self._pods = context.informer(PODS)
        self._nodes = context.informer(NODES)
        self._budgets = context.watch(POD_DISRUPTION_BUDGETS, lambda _: (), optional=True)
        index(self._pods, POD_INDEX, groups_of)
        self._announcer.forget_deleted(self._groups)

    async def reconcile(self, key: str) -> float | None:
        """Add machines where gangs wait for them, give back those that are not needed."""
        now = self._clock.time()
        deployments = {each.key: each for each in self._deployments.items()}
        scaled = {name: pool for name, each in deployments.items() if (pool := pool_of(each, now)) is not None}
        self._complete = {name: at for name, at in self._complete.items() if name in scaled}
        if any(count > (scaled[name].replicas if name in scaled else 0) for name, count in self._replicas.items()):
            self._given_back = now
        self._replicas = {name: pool.replicas for name, pool in scaled.items()}
        if not scaled:
            return None
        if any([await self._give_up(deployments[name], now) for name in scaled]):
            # The change comes back here, and the next look counts without these machines.
            return _LOOK_AGAIN
        settled = {name for name in scaled if now - scaled_at(deployments[name]) >= SETTLE}
        # Machines that boot in other pools serve gangs, too; those pools just do not grow.
        pools = [pool if name in settled else replace(pool, most=pool.replicas) for name, pool in scaled.items()]
        lacking, pending, nodes = *await self._gangs(now), self._held()
        # What its cloud takes back from a pool, it does not give there now.
        short = self._interrupted(now)
        pools = [replace(pool, failing=True) if pool.name in short else pool for pool in pools]
        rooms = [Room(each.room, dict(each.room.offers)) for each in nodes if not each.marked]
        whole = remainders((gang for _, counts, gang in lacking if not counts), rooms)
        all_gangs = [(key, gang if counts else whole.pop(0)) for key, counts, gang in lacking]
        if any(each.marked for each in nodes):
            # Nodes that were to go stay for gangs: only what these have no place for there needs machines.
            back = shrinking(nodes, pools, pending, self._unneeded, now, settled).clear
            kept = [Room(each.room, dict(each.room.offers)) for each in nodes if each.name in back]
            left = remainders((gang for _, gang in all_gangs), kept)
            all_gangs = [(key, gang) for (key, _), gang in zip(all_gangs, left, strict=True)]
        gangs = [(key, gang) for key, gang in all_gangs if gang]
        grown, written = growth([gang for _, gang in gangs], pools), set[str]()
        for name, replicas in grown.replicas.items():
            why = f"for waiting gangs: {grown.reasons[name]}"
            if await self._change(deployments[name], replicas, now, "ScaledUp", why):
                written.add(name)
        self._helped.add([gangs[at][0] for at, of in grown.served.items() if of <= written], now)
        answer = shrinking(nodes, pools, pending, self._unneeded, now, settled - set(grown.replicas))
        await self._shrink(deployments, answer, now)
        return _LOOK_AGAIN

    def _held(self) -> list[Held]:
        """All nodes that take pods and stay, with what they hold."""
        machines = {each.status.node_ref.name: each for each in self._machines.items() if each.status.node_ref}
        self._machine_of = {name: each for name, each in machines.items() if not is_going(each)}
        nodes = [
            node
            for node in self._nodes.items()
            if node.metadata.name in self._machine_of or node.metadata.name not in machines
        ]
        groups = {each.key: each for each in self._groups.items()}
        pool_of_node = {name: _pool_name(each) for name, each in self._machine_of.items()}
        return held_by(nodes, self._pods.items(), pool_of_node, groups, self._budgets.items())

    def _interrupted(self, now: float) -> set[str]:
        """Pools of which a machine is just being taken back."""
        names = [node.metadata.name for node in self._nodes.items() if is_taken_back(node, now)]
        return {_pool_name(self._machine_of[name]) for name in names if name in self._machine_of}

    async def _shrink(self, known: Mapping[str, MachineDeployment], answer: Shrinking, now: float) -> None:
        self._unneeded = answer.since
        removal = Removal(self._client, self._recorder, now)
        for name in answer.clear:
            await removal.mark(self._nodes.get(name), on=False)
        for name in answer.mark:
            await removal.mark(self._nodes.get(name), on=True)
        for name in answer.drain:
            await removal.drain(self._nodes.get(name), self._pods.items())
        gone: dict[str, list[str]] = {}
        for name in answer.remove:
            machine = self._machine_of[name]
            if await removal.choose(machine):
                gone.setdefault(_pool_name(machine), []).append(name)
        for pool, names in gone.items():
            replicas = max(0, (known[pool].spec.replicas or 0) - len(names))
            text = f"without use: {', '.join(names[:5])}{' ...' if len(names) > 5 else ''}"
            await self._change(known[pool], replicas, now, "ScaledDown", text, {})

    async def _give_up(self, deployment: MachineDeployment, now: float) -> bool:
        """Count machines that do not come in time, and ask for them no longer; answers whether anything changed."""
        if (deployment.status.ready_replicas or 0) >= (deployment.spec.replicas or 0):
            self._complete[deployment.key] = now
        correction = overdue(deployment, now, self._complete.get(deployment.key, float("-inf")))
        if correction is None:
            return False
        notes = dict(correction.annotations)
        return await self._change(deployment, correction.replicas, now, "FailedScaleUp", correction.text, notes)

    async def _gangs(self, now: float) -> tuple[list[tuple[str, bool, list[Demand]]], list[list[Demand]]]:
        """What each gang lacks, and all of its pods without a place; those first that wait longest.

        What a gang lacks comes with its key, and with whether the scheduler has already taken off it what free nodes
        can hold. A gang for which machines came in vain asks for none, see `Helped`.
        A gang that cannot be read is told and left out.
        """
        waiting, resting = [], self._helped.resting(self._cause, now, self._given_back)
        for group in self._groups.items():
            if group.key in resting:
                self._tell_rest(group)
                continue
            try:
                pending = self._pending(group)
                lacking = self._lacking(group, pending, now)
            except Exception as error:
                await self._context.tell(POD_GROUPS, group, error)
                continue
            await self._context.tell(POD_GROUPS, group, None)
            created = group.metadata.creation_timestamp or ""
            if pending:
                waiting.append((created, group.key, lacking, pending))
            if lacking[1] and _is_of_replicas(group):
                # Each is wanted, and none needs the others.
                more = pending[len(lacking[1]) :][:_MOST_REPLICAS]
                waiting.extend((created, group.key, (False, [pod]), []) for pod in more)
        waiting.sort(key=lambda each: each[:2])
        return [(key, *lacking) for _, key, lacking, _ in waiting if lacking[1]], [pending for *_, pending in waiting]

    def _tell_rest(self, group: PodGroup) -> None:
        """Tell a gang that would get machines why none come, once per pause."""
        if verdict_of(group).cause not in CAUSES:
            return
        until, cause = self._helped.rest_of(group.key)
        text = (
            f"no machines before {rfc3339(until)}: those that came for these pods were in vain, "
            f"for the pods then waited for something else ({cause})"
        )
        self._announcer.tell(group, [Notice("Warning", "NoMachines", text, once=text)])

    def _cause(self, key: str) -> str:
        group = self._groups.get(key)
        return verdict_of(group).cause if group is not None else ""

    def _pending(self, group: PodGroup) -> list[Demand]:
        """Pods without a place of a gang that waits for nodes, or what is promised to it before it has pods."""
        if verdict_of(group).cause not in CAUSES:
            return []
        pods = sorted(self._pods.by_index(POD_INDEX, group.key), key=lambda pod: pod.metadata.name)
        if not pods:
            return promised(group)
        notes = group.metadata.annotations or {}
        return [
            demand_of(pod.spec, notes={**notes, **(pod.metadata.annotations or {})}) for pod in pods if is_pending(pod)
        ]

    def _lacking(self, group: PodGroup, pending: list[Demand], now: float) -> tuple[bool, list[Demand]]:
        verdict, created = verdict_of(group), group.metadata.creation_timestamp
        if CLASS_OF_GROUP in (group.metadata.annotations or {}):
            # Another component makes its nodes.
            return True, []
        if created is None or now - parse_time(created) < PATIENCE:
            return True, []
        pods = len(self._pods.by_index(POD_INDEX, group.key))
        running = pods - len(pending)
        if pending and _is_of_replicas(group):
            return False, pending[: max(1, (group.spec.min_member or 1) - running)]
        if not pods or not verdict.tasks_needed:
            return False, pending
        return True, pending[: max(0, verdict.tasks_needed - running - verdict.tasks_placeable)]

    async def _change(
        self,
        deployment: MachineDeployment,
        replicas: int,
        now: float,
        reason: str,
        why: str,
        notes: dict[str, str | None] | None = None,
    ) -> bool:
        """Write the number of machines; answers whether that went well."""
        meta, before = deployment.metadata, deployment.spec.replicas or 0
        annotations: dict[str, Any] = {SCALED_AT: rfc3339(now)} if notes is None else notes
        patch: dict[str, Any] = {"metadata": {"resourceVersion": meta.resource_version, "annotations": annotations}}
        if replicas != before:
            patch["spec"] = {"replicas": replicas}
        try:
            await self._client.patch(MACHINE_DEPLOYMENTS, meta.name, patch, namespace=meta.namespace)
        except (NotFound, Conflict):
            # What changed is on its way here, and is looked at then.
            return False
        except ApiError as error:
            failed = "FailedScaleDown" if reason == "ScaledDown" else "FailedScaleUp"
            self._recorder.event(deployment, "Warning", failed, f"{before} -> {replicas}: {error}")
            return False
        if why:
            _log.info("machines.scaled", deployment=deployment.key, before=before, after=replicas, why=why)
            bad = reason == "FailedScaleUp"
            self._recorder.event(
                deployment, "Warning" if bad else "Normal", reason, f"machines: {before} -> {replicas}, {why}"
            )
        return True


def _is_of_replicas(group: PodGroup) -> bool:
    return any(controller_of_kind(kind, group) is not None for kind in _REPLICAS)


def _pool_name(machine: Machine) -> str:
    name = (machine.metadata.labels or {}).get(DEPLOYMENT_NAME, "")
    return f"{machine.metadata.namespace}/{name}"
