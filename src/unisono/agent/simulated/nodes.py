"""Simulated nodes: thousands of nodes of which every pod "runs" for the time that its annotations say.

A pod runs for ``unisono.io/run-seconds`` and ends with ``unisono.io/exit-code``; without the first it runs until it is
deleted. One watch serves all nodes, and a status is written only when a pod starts or ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from unisono import __version__
from unisono.agent.devices.slices import DevicePublisher, Offer
from unisono.agent.lifecycle import Reason, decide
from unisono.agent.node import Ledger, Requests, is_ready, ready_condition, renew_lease, report_ready
from unisono.agent.pods.report import REASON, cause
from unisono.agent.simulated.cloud import SimulatedCloud
from unisono.agent.simulated.specs import Alarms, NodeSpec, end_of, parse_specs, refused, simulated_view
from unisono.agent.status import pod_status, status_patch
from unisono.agent.volumes.provisioner import Imagined, VolumeProvisioner
from unisono.api import core
from unisono.api.annotations import SIMULATED
from unisono.api.base import ObjectMeta
from unisono.api.core import Node, NodeAddress, NodeStatus, NodeSystemInfo, Pod
from unisono.api.keys import HOSTNAME, NODE_NOT_READY, OS
from unisono.api.kinds import NODES, PODS
from unisono.api.pod_states import has_ended
from unisono.api.times import parse_time
from unisono.errors import AlreadyExists, ApiError, Conflict, NotFound
from unisono.kube.client import Client, EventType
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.controller import Controller, Manager
from unisono.kube.events import EventRecorder
from unisono.kube.informer import Informer
from unisono.kube.pace import Backoff
from unisono.kube.reflector import ReflectorStatistics
from unisono.kube.workqueue import WorkQueue

__all__ = ["NodeSpec", "SimulatedNodes", "parse_specs"]

# Heartbeats of simulated nodes: renews their Leases, and brings nodes back that were lost during a pause.

# A Lease holds for this many periods.
_PERIODS = 3

_log = structlog.get_logger(__name__)


class Heartbeats:
    """Renews the Leases of all simulated nodes, spread over the period.

    Args:
        client: the API.
        names: names of the nodes.
        clock: paces the renewals.
        period: seconds between two renewals of one Lease.
        node: the Node object of a name, for its status.
    """

    def __init__(
        self, client: Client, names: Collection[str], clock: Clock, period: float, node: Callable[[str], Node]
    ) -> None:
        self._client, self._names, self._clock, self._period, self._node = client, names, clock, period, node
        # Nodes that were made by this process and have no Lease yet.
        self._new: set[str] = set()
        # By node: when its Lease was renewed last.
        self._renewed: dict[str, float] = {}
        # By node whose renewal was late: until when it may be marked as lost, so that its condition is looked at.
        self._doubtful: dict[str, float] = {}

    def made(self, name: str) -> None:
        """The node was created just now: it has no Lease yet."""
        self._new.add(name)

    async def run(self) -> None:
        """Renew until cancelled. After a pause all that are late are renewed at once."""
        while True:
            if not self._names:
                await self._clock.sleep(1.0)
            # Nodes may come and go meanwhile.
            for name in list(self._names):
                if name not in self._names:
                    continue
                late = self._is_late(name)
                renewed = await self._beat(name, late)
                if not (late and renewed):
                    await self._clock.sleep(self._period / max(1, len(self._names)))

    def _is_late(self, name: str) -> bool:
        last = self._renewed.get(name)
        return last is not None and self._clock.monotonic() - last >= 2 * self._period

    async def _beat(self, name: str, late: bool) -> bool:
        if late:
            self._doubtful[name] = self._clock.monotonic() + _PERIODS * self._period
        try:
            await renew_lease(
                self._client, name, self._clock.time(), round(_PERIODS * self._period), new=name in self._new
            )
            self._new.discard(name)
            self._renewed[name] = self._clock.monotonic()
            if name in self._doubtful:
                await self._come_back(name)
        except NotFound:
            # The node was deleted; it is made again by the next start.
            self._doubtful.pop(name, None)
        except (ApiError, OSError) as error:
            _log.warning("simulated.heartbeat_failed", node=name, error=str(error))
            return False
        return True

    async def _come_back(self, name: str) -> None:
        """Make a node Ready again; the mark may come after the first heartbeat, so later ones look as well."""
        if not is_ready(await self._client.get(NODES, name)):
            await report_ready(self._client, self._node(name), self._clock.time())
        if self._clock.monotonic() >= self._doubtful[name]:
            del self._doubtful[name]


_WORKERS = 8
# A server that commits in groups takes as many at once; fewer would wait for its disk most of the time.
_REGISTER_PARALLEL = 48
_HEARTBEAT_SECONDS = 300
# Longest rest between two statuses of one writer while the API server is slow.
_LONGEST_REST_SECONDS = 2.0


def simulated_node(name: str, group: NodeSpec, now: float) -> Node:
    """The Node object of one simulated node."""
    capacity = dict(group.wire_capacity())
    labels = {HOSTNAME: name, OS: "linux", SIMULATED: "true", **group.labels}
    return Node(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=core.NodeSpec(taints=list(group.taints) or None),
        status=NodeStatus(
            capacity=dict(capacity),
            allocatable=dict(capacity),
            conditions=[ready_condition(now, ready=True)],
            addresses=[NodeAddress(type="Hostname", address=name)],
            node_info=NodeSystemInfo(
                kubelet_version=f"unisono-{__version__}",
                container_runtime_version=f"unisono-simulated://{__version__}",
                operating_system="linux",
                os_image="simulated",
            ),
        ),
    )


@dataclass(slots=True)
class _Run:
    """A pod that runs since ``started_at``, or is not taken for the reason in ``rejected``."""

    uid: str
    started_at: float
    alarmed: bool = False
    rejected: Reason | None = None


class SimulatedNodes:
    """Runs all simulated nodes.

    Args:
        client: the API.
        specs: what nodes there are (``parse_specs``).
        clock: times and timers.
        heartbeat: seconds between two renewals of one node's Lease.
        volumes: make the volumes of claims whose class asks for folders of a node.
    """

    def __init__(
        self,
        client: Client,
        specs: Sequence[NodeSpec],
        clock: Clock = SYSTEM_CLOCK,
        *,
        heartbeat: float = _HEARTBEAT_SECONDS,
        volumes: bool = False,
    ) -> None:
        self._client, self._clock, self._heartbeat, self._volumes = client, clock, heartbeat, volumes
        self._groups = [spec for spec in specs if spec.cloud is not None]
        self._names = {name: spec for spec in specs for name in spec.node_names()}
        self.ready = asyncio.Event()
        self._begin()

    def _begin(self) -> None:
        """Empty caches: ``run`` may be called again after a failure."""
        # Pods that have no node yet belong to none of these.
        self._pods: Informer[Pod] = Informer(self._client, PODS, clock=self._clock, field_selector="spec.nodeName!=")
        self._pods.on_change(self._changed)
        self._queue = WorkQueue(self._clock)
        self._alarms = Alarms(self._clock, self._queue.add)
        self._runs: dict[str, _Run] = {}
        # UID of the pod of that key whose object was deleted: writes before that still come through the watch.
        self._ended: dict[str, str] = {}
        self._requests, self._ledgers = Requests(), dict[str, Ledger]()
        self._beats = Heartbeats(self._client, self._names, self._clock, self._heartbeat, self._node)

    async def run(self) -> None:
        """Register the nodes and run their pods until cancelled."""
        self._begin()
        try:
            async with asyncio.TaskGroup() as group:
                await self._register()
                group.create_task(self._pods.run())
                group.create_task(self._beats.run())
                group.create_task(self._serve_claims())
                if self._groups:
                    group.create_task(SimulatedCloud(self._client, self._groups, self._clock, self).run())
                await self._pods.synced.wait()
                self._take_started()
                for _ in range(_WORKERS):
                    group.create_task(self._queue.work(self._look_at))
                self.ready.set()
        finally:
            self._alarms.close()
            self._queue.close()

    def unready(self) -> list[str]:
        """It has nothing to say beyond its watches."""
        return []

    def streams(self) -> dict[str, ReflectorStatistics]:
        """How the watch on pods fares."""
        return {PODS.resource: self._pods.statistics()}

    def _changed(self, event_type: EventType, pod: Pod, _: Pod | None) -> None:
        if pod.spec.node_name not in self._names:
            self._runs.pop(pod.key, None)
            return
        if event_type == "DELETED" or has_ended(pod):
            self._ledger(pod).release(pod.metadata.uid or "")
        if event_type == "DELETED":
            self._runs.pop(pod.key, None)
            self._ended.pop(pod.key, None)
        elif not has_ended(pod) or pod.metadata.deletion_timestamp is not None:
            self._queue.add(pod.key)

    async def _look_at(self, key: str) -> None:
        try:
            await self._step(key)
            self._queue.forget(key)
        except (ApiError, OSError) as error:
            _log.info("simulated.retry", pod=key, error=str(error))
            self._queue.add_rate_limited(key)
        except Exception as error:
            # One pod's failure never stops the others; it is looked at again when it changes.
            _log.exception("simulated.pod_failed", pod=key)
            await self._set_aside(key, error)

    async def _set_aside(self, key: str, error: Exception) -> None:
        """Say why a pod cannot be simulated."""
        pod = self._pods.get(key)
        if pod is None or has_ended(pod):
            return
        try:
            await self._report(pod, {"phase": "Failed", "reason": REASON, "message": cause(error)})
        except (ApiError, OSError):
            self._queue.add_rate_limited(key)

    async def _step(self, key: str) -> None:
        """Bring one pod to where it is by now."""
        pod = self._pods.get(key)
        if pod is None or pod.spec.node_name not in self._names or self._ended.get(key) == pod.metadata.uid:
            return
        now, meta = self._clock.time(), pod.metadata
        if not has_ended(pod):
            run = self._started(key, pod, now)
            view = simulated_view(pod, run.started_at, now) if run.rejected is None else refused(pod, run.rejected)
            plan = decide(view, now)
            status = pod_status(
                pod,
                view,
                plan,
                pod_ip=_address(meta.uid or key),
                host_ip="127.0.0.1",
                start_time=run.started_at,
                now=now,
            )
            if not run.alarmed and run.rejected is None and (end := end_of(pod, run.started_at)) != math.inf:
                run.alarmed = True
                self._alarms.at(end, key)
            await self._report(pod, status_patch(pod, status))
        if meta.deletion_timestamp is not None:
            await self._finish(pod)

    def _started(self, key: str, pod: Pod, now: float) -> _Run:
        """When the pod began; kept in its status, so that a new process goes on where the last one was."""
        uid = pod.metadata.uid or ""
        run = self._runs.get(key)
        if run is None or run.uid != uid:
            begun = parse_time(pod.status.start_time) if pod.status.start_time else now
            run = self._runs[key] = _Run(uid, begun, rejected=self._look_at_room(pod))
        return run

    def _take_started(self) -> None:
        """Pods that an earlier process started have their place, before any new one is looked at."""
        for pod in self._pods.items():
            if pod.spec.node_name in self._names and pod.status.start_time and not has_ended(pod):
                try:
                    self._ledger(pod).take(pod)
                except Exception:
                    # Its own step says what is wrong with it.
                    _log.exception("simulated.pod_not_counted", pod=pod.key)

    def _look_at_room(self, pod: Pod) -> Reason | None:
        """Why the node does not take the pod, if so."""
        if pod.status.start_time:
            self._ledger(pod).take(pod)
        if pod.status.start_time or pod.metadata.deletion_timestamp is not None:
            return None
        return self._ledger(pod).admit(pod)

    def _ledger(self, pod: Pod) -> Ledger:
        node = pod.spec.node_name or ""
        if (ledger := self._ledgers.get(node)) is None:
            ledger = self._ledgers[node] = Ledger(self._names[node].capacity, self._requests)
        return ledger

    async def _report(self, pod: Pod, changed: dict[str, Any] | None) -> None:
        if changed is None:
            return
        meta = pod.metadata
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": changed}
        begun = self._clock.monotonic()
        try:
            await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")
        except NotFound:
            return
        except Conflict:
            # A newer state is on its way through the watch, which brings the pod here again.
            self._queue.add_rate_limited(pod.key)
        await self._give_way(self._clock.monotonic() - begun)

    async def _give_way(self, seconds: float) -> None:
        """Rest for as long as the write took, or less, where the server is slow.

        A real kubelet needs seconds to start a pod, and is one of many with a processor of its own. Thousands of pods
        that start the moment they are bound must not take the server's time from those who create and bind.
        """
        rest = min(self._client.pace.stretch - 1.0, 1.0) * seconds
        if rest > 0:
            await self._clock.sleep(min(rest, _LONGEST_REST_SECONDS))

    async def _finish(self, pod: Pod) -> None:
        meta = pod.metadata
        try:
            await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace_seconds=0)
        except (NotFound, Conflict):
            return
        self._ended[pod.key] = meta.uid or ""

    async def _register(self) -> None:
        """Create all nodes, a few at a time, so that others get their turn."""
        names = iter(self._names)

        async def worker() -> None:
            backoff, failures = Backoff(base=0.2, cap=5.0), 0
            for name in names:
                while True:
                    try:
                        await self._register_one(name)
                        break
                    except (ApiError, OSError) as error:
                        failures += 1
                        _log.warning("simulated.register_failed", node=name, error=str(error))
                        await self._clock.sleep(backoff.delay(failures))

        await asyncio.gather(*(worker() for _ in range(_REGISTER_PARALLEL)))
        _log.info("simulated.registered", nodes=len(self._names))

    async def _register_one(self, name: str) -> None:
        node = self._node(name)
        try:
            made = await self._client.create(NODES, node)
            self._beats.made(name)
            # A server keeps the status of a new node: one request for each is enough then.
            desired, stored = node.status, made.status
            said = (stored.allocatable, stored.conditions) == (desired.allocatable, desired.conditions)
        except AlreadyExists:
            made, said = await self._client.patch(NODES, name, {"metadata": {"labels": node.metadata.labels}}), False
        if not said:
            await self._client.patch(NODES, name, {"status": msgspec.to_builtins(node.status)}, subresource="status")
        if any(taint.key == NODE_NOT_READY for taint in made.spec.taints or ()):
            # Put there when the node was created; where no node controller runs, nothing else removes it.
            taints = [taint for taint in made.spec.taints or () if taint.key != NODE_NOT_READY]
            await self._client.patch(NODES, name, {"spec": {"taints": msgspec.to_builtins(taints) or None}})

    async def add(self, name: str, spec: NodeSpec) -> None:
        """A machine has booted: register its node."""
        if name not in self._names:
            self._names[name] = spec
            await self._register_one(name)

    async def remove(self, name: str) -> None:
        """A machine is gone, and what ran on it."""
        self._names.pop(name, None)
        self._ledgers.pop(name, None)
        for pod in self._pods.items():
            if pod.spec.node_name == name:
                meta = pod.metadata
                with contextlib.suppress(NotFound, Conflict):
                    await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace_seconds=0)
        with contextlib.suppress(NotFound):
            await self._client.delete(NODES, name)

    async def _serve_claims(self) -> None:
        """Volumes where they are asked for, and devices where nodes have some."""
        recorder = EventRecorder(self._client, "unisono-simulated-nodes", clock=self._clock)
        controllers: list[Controller] = []
        if self._volumes:
            controllers.append(VolumeProvisioner(recorder, self._names.__contains__, Imagined()))
        drivers = {driver for spec in self._names.values() for driver in spec.devices}
        if drivers:
            controllers.append(DevicePublisher(drivers, self._devices_of))
        if not controllers:
            return
        try:
            await Manager(self._client, clock=self._clock).run(controllers)
        finally:
            await recorder.close()

    def _devices_of(self, node: str) -> Offer | None:
        spec = self._names.get(node)
        return None if spec is None else spec.devices

    def _node(self, name: str) -> Node:
        return simulated_node(name, self._names[name], self._clock.time())


def _address(uid: str) -> str:
    """An address that looks like one and leads nowhere (TEST-NET-2 has too few: 198.18.0.0/15 is for benchmarks)."""
    number = zlib.crc32(uid.encode()) & 0x1FFFF
    return f"198.{18 + (number >> 16)}.{number >> 8 & 0xFF}.{number & 0xFF}"
