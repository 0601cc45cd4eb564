"""Pods of this node: one worker each, and the supervisor that starts, feeds and ends the workers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from functools import partial
from typing import Any

import structlog

from unisono.agent.cpus.book import NotAligned
from unisono.agent.environment import references
from unisono.agent.host import Host
from unisono.agent.lifecycle import PodView, Reason, decide
from unisono.agent.limits.disk import Occupant, Stored
from unisono.agent.logs import LastWords
from unisono.agent.network.ports import PORT_TAKEN, Hold
from unisono.agent.pods.containers import PodContainers, PodResources, impossible, refresh_volumes
from unisono.agent.pods.report import REASON, PodReporter, cause, tell
from unisono.agent.processes.shims import end_pod, remove_cgroup
from unisono.agent.volumes.mounts import is_written
from unisono.api.base import Object
from unisono.api.core import Pod
from unisono.api.pod_states import container_statuses, has_ended
from unisono.errors import AgentError, ApiError
from unisono.kube.client import EventType
from unisono.kube.clock import Timer
from unisono.kube.pace import Backoff

# One pod on this node: asks ``lifecycle`` what to do, and does it.

_POLL_SECONDS = 0.02
_GANG_SECONDS = 1.0
# How long a stopping node waits for the API to take the last status of a pod.
_REPORT_SECONDS = 2.0
_DEFAULT_GRACE = 30.0
_EVICTED = "Evicted"

_log = structlog.get_logger(__name__)


class PodWorker:
    """Runs one pod from its binding to its removal.

    Args:
        host: what all pods of the node share.
        pod: the pod, bound to this node.
        address: its address.
    """

    def __init__(self, host: Host, pod: Pod, address: str) -> None:
        self.uid = pod.metadata.uid or ""
        self.gone = False
        self._host, self._address = host, address
        self._directory = host.layout.pod(self.uid)
        record = self._directory.record()
        self.start_time = record.start_time if record else host.clock.time()
        self._api = PodReporter(host, pod, address, self.start_time, later=self._look_again, gone=self.remove)
        self._resources = PodResources(host, pod, address, self._directory)
        self._containers = PodContainers(host, pod, address, self._directory, self._resources, changed=self.wake)
        self._wake = asyncio.Event()
        self._timer: Timer | None = None
        self._failure: Reason | None = None
        self._rejected = False
        self._hold: Hold | None = None
        self._told_of_port = _waits_for_port(pod)
        self._refresh = False
        if record is not None and not has_ended(pod):
            # Before any other pod is looked at: what runs already has its place.
            host.ledger.take(pod)
        self._recovered, self._over = asyncio.Event(), asyncio.Event()

    @property
    def pod(self) -> Pod:
        """The pod as the API has it."""
        return self._api.pod

    @property
    def began(self) -> bool:
        """Whether a process of the pod was started, by this agent or an earlier one."""
        return self._containers.began

    def occupant(self) -> Occupant:
        """What it means to the node's disk."""
        return Occupant(
            self.pod,
            self._directory,
            ended=has_ended(self.pod) and not self._containers.running,
            ending=self.gone or self._failure is not None or self.pod.metadata.deletion_timestamp is not None,
            evict=partial(self._evict, disruption=True),
        )

    def update(self, pod: Pod) -> None:
        """A newer state of the pod was seen."""
        before = self.pod.metadata
        self._api.seen(pod)
        now = self.pod.metadata
        if (before.annotations, before.labels) != (now.annotations, now.labels):
            self._refresh = self._refresh or any(
                map(is_written, self.pod.spec.volumes or ())
            )  # files of the downward API
        self.wake()

    def remove(self) -> None:
        """The API does not have the pod any more: end what runs, at once."""
        self.gone = True
        # As in a kubelet: for schedulers its room is free, and the next pod must not be refused for what is ending.
        self._host.ledger.release(self.uid)
        self.wake()

    def refresh(self) -> None:
        """Something that the pod refers to has changed."""
        self._refresh = True
        self._containers.not_before(0.0)
        self.wake()

    def wake(self) -> None:
        """Look at the pod again."""
        self._wake.set()

    async def run(self) -> None:
        """Work until the pod is gone."""
        try:
            await self._recover()
            self._recovered.set()
            if not has_ended(self.pod):
                self._host.storage.add(Stored(self.pod, self._directory, self._evict, self._not_measured))
            while True:
                self._wake.clear()
                if await self._step():
                    return
                await self._wake.wait()
        finally:
            self._over.set()
            self._host.storage.remove(self.uid)
            self._cancel_timer()
            self._containers.close()

    async def end_all(self) -> None:
        """End the pod because its node goes away, within its grace period; returns when nothing runs any more."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._recovered.wait(), _REPORT_SECONDS)
        if not has_ended(self.pod) and self._failure is None:
            self._failure = Reason(
                "Terminated", "Pod was terminated because its node agent was stopped.", disruption=True
            )
        self.wake()
        while self._containers.running:
            await self._host.clock.sleep(_POLL_SECONDS)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), _REPORT_SECONDS)

    # --- one step -------------------------------------------------------------------------------------------

    async def _step(self) -> bool:
        """Do what is due; True when nothing is left to do for this pod, ever."""
        self._cancel_timer()
        if has_ended(self.pod):
            return await self._finish()
        now = self._host.clock.time()
        self._look_at_ports()
        plan = decide(self._view(), now)
        for name, why in plan.stop.items():
            self._containers.stop(self.pod, name, why, self._grace())
        for name in [] if self.gone else plan.start:
            await self._start(name)
        if self._refresh and not plan.done:
            await self._refresh_volumes()
        if plan.start:
            # What was started, or could not be, changes what comes next.
            plan = decide(self._view(), now)
            if plan.start:
                plan.wake_at(now)
        if plan.wake is not None:
            self._timer = self._host.clock.call_later(max(0.0, plan.wake - now), self.wake)
        if plan.done:
            # Before the API knows of the end: the next pod may come at once.
            self._host.ledger.release(self.uid)
        if self.gone:
            return plan.done
        if await self._api.report(self._view(), plan) and plan.done:
            return await self._finish()
        return False

    async def _finish(self) -> bool:
        """The API says that the pod is over: end what still runs, then wait for its deletion."""
        self._containers.stop_all(self.pod, self._grace())
        if self._containers.running:
            return False
        self._host.storage.remove(self.uid)
        if self._resources.release():
            self._containers.warn_of_taken_port(self.pod)
        self._over.set()
        if not self.gone and self.pod.metadata.deletion_timestamp is not None:
            await self._api.delete()
        return self.gone

    def _view(self) -> PodView:
        spec, meta = self.pod.spec, self.pod.metadata
        seconds = spec.active_deadline_seconds
        return PodView(
            name=meta.name,
            restart_policy=spec.restart_policy or "Always",
            containers=() if self._rejected else self._containers.views(),
            deleting=self.gone or meta.deletion_timestamp is not None,
            failure=self._failure,
            rejected=self._rejected,
            deadline=None if seconds is None else self.start_time + seconds,
            held=self._hold.why if self._hold else None,
            held_until=self._hold.until if self._hold else None,
        )

    def _look_at_ports(self) -> None:
        self._hold = self._host.ports.hold(self.uid, self.wake)
        if self._hold is not None and self._hold.why.reason == PORT_TAKEN and not self._told_of_port:
            self._told_of_port = True
            message = self._hold.why.message
            self._host.recorder.event(self.pod, "Warning", PORT_TAKEN, message[:1].upper() + message[1:])

    def _grace(self) -> float:
        if self.gone or (self._failure is not None and self._failure.reason == _EVICTED):
            return 0.0
        seconds = self.pod.metadata.deletion_grace_period_seconds
        if seconds is None:
            seconds = self.pod.spec.termination_grace_period_seconds
        return _DEFAULT_GRACE if seconds is None else float(seconds)

    async def _start(self, name: str) -> None:
        # Before anything is waited for: from here on no other gang may begin with the same ports.
        self._host.ports.started(self.uid)
        try:
            await self._containers.start(self.pod, name)
        except AgentError as error:
            self._fail(REASON, str(error))
        except Exception as error:
            _log.exception("pod.start_failed", pod=self.pod.key, container=name)
            self._fail(REASON, cause(error))

    def _fail(self, reason: str, message: str, *, disruption: bool = False) -> None:
        self._failure = Reason(reason, message, disruption)
        self._host.recorder.event(self.pod, "Warning", reason, message)
        self.wake()

    def _evict(self, message: str, *, disruption: bool = False) -> None:
        """End the pod at once for what it takes of the node; ``disruption``: though it keeps to its own limits."""
        if self._failure is None and not has_ended(self.pod):
            self._fail(_EVICTED, message, disruption=disruption)

    def _not_measured(self, message: str) -> None:
        self._host.recorder.event(self.pod, "Warning", "StorageNotMeasured", message)

    def _reject(self, reason: str, message: str) -> None:
        self._rejected = True
        self._fail(reason, message)

    async def _recover(self) -> None:
        """Take over what an earlier agent left of this pod, or begin it."""
        record = self._directory.record()
        if record is not None:
            self._resources.restore(record)
            await self._containers.recover()
        if has_ended(self.pod):
            return
        if (problem := impossible(self.pod)) is not None:
            self._fail(REASON, problem)
        elif record is None:
            self._begin()

    def _begin(self) -> None:
        if self.pod.metadata.deletion_timestamp is None:
            short = self._host.disk.refusal(self.pod) or self._host.ledger.admit(self.pod)
            if short is not None:
                self._reject(short.reason, short.message)
                return
        try:
            self._resources.take(self.start_time)
        except AgentError as error:
            aligned = not isinstance(error, NotAligned)
            self._reject("UnexpectedAdmissionError" if aligned else "TopologyAffinityError", str(error))
        if self._host.isolation.level == "none":
            # Names are replaced by addresses once, at the start: the other pods of the gang must be known by then.
            self._containers.not_before(self.start_time + _GANG_SECONDS)

    async def _refresh_volumes(self) -> None:
        self._refresh = False
        try:
            await refresh_volumes(self._host, self.pod, self._directory, self._address)
        except (AgentError, ApiError, OSError) as error:
            # The files stay as they are: a deleted ConfigMap does not disturb who runs with it.
            _log.info("pod.volumes_not_refreshed", pod=self.pod.key, error=str(error))

    def _look_again(self, seconds: float) -> None:
        self._cancel_timer()
        if seconds > 0:
            self._timer = self._host.clock.call_later(seconds, self.wake)
        else:
            self.wake()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _waits_for_port(pod: Pod) -> bool:
    """Whether an earlier agent said that the pod waits for a port."""
    statuses = container_statuses(pod)
    return any(s.state.waiting is not None and s.state.waiting.reason == PORT_TAKEN for s in statuses)


# All pods of one agent: each has a worker, and one that fails never stops the others.

# A pod on which the agent fails so often in a row is given up.
_TRIES = 5


class PodSupervisor:
    """Begins, follows and forgets the pods that are bound to the node.

    Args:
        host: what all pods of the node share.
        last_words: keeps the logs of deleted pods for a while.
    """

    def __init__(self, host: Host, last_words: LastWords) -> None:
        self._host, self._last_words = host, last_words
        self._workers: dict[str, PodWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # By pod that cannot be begun: why.
        self._aside: dict[str, str] = {}
        self._cleared = asyncio.Event()
        self._leaving = False

    def pod(self, uid: str) -> Pod | None:
        """The pod of a worker, None when the node has none of that UID."""
        worker = self._workers.get(uid)
        return worker.pod if worker is not None else None

    def occupants(self) -> list[Occupant]:
        """What each pod takes of the node's disk."""
        return [worker.occupant() for worker in self._workers.values()]

    def leave(self) -> None:
        """Begin no pod any more."""
        self._leaving = True

    async def end_all(self) -> None:
        """End every process of every pod, within its grace period."""
        await asyncio.gather(*(worker.end_all() for worker in list(self._workers.values())))

    async def close(self) -> None:
        """Stop looking after pods; their processes go on."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def pod_changed(self, event_type: EventType, pod: Pod, _: Pod | None) -> None:
        """A pod was bound to the node, has changed or was deleted."""
        uid = pod.metadata.uid or ""
        worker = self._workers.get(uid)
        if event_type == "DELETED":
            self._aside.pop(uid, None)
            if worker is not None:
                worker.remove()
        elif worker is not None:
            worker.update(pod)
        else:
            try:
                self._adopt(uid, pod)
            except Exception as error:
                self._set_aside(uid, pod, error)

    def _set_aside(self, uid: str, pod: Pod, error: Exception) -> None:
        """The pod cannot even be begun; it is tried again when it changes."""
        self._workers.pop(uid, None)
        message = cause(error)
        if self._aside.get(uid) == message and pod.metadata.deletion_timestamp is None:
            return
        self._aside[uid] = message
        _log.error("pod.set_aside", pod=pod.key, exc_info=error)
        self._tasks[uid] = asyncio.get_running_loop().create_task(self._told(uid, tell(self._host, pod, message)))

    async def _told(self, uid: str, telling: Coroutine[Any, Any, None]) -> None:
        await telling
        self._tasks.pop(uid, None)

    def _adopt(self, uid: str, pod: Pod) -> None:
        """Take a pod over; its address is given at once, so that its peers can name it before it runs."""
        host = self._host
        if self._leaving:
            return
        address = host.addresses.allocate(uid)
        worker = self._workers[uid] = PodWorker(host, pod, address)
        if not has_ended(pod):
            host.names.add(pod, address)
            host.ports.add(pod, worker.start_time, started=worker.began)
        self._tasks[uid] = asyncio.get_running_loop().create_task(self._work(uid, worker), name=f"pod {pod.key}")

    async def _work(self, uid: str, worker: PodWorker) -> None:
        backoff, failures = Backoff(base=0.5, cap=60.0), 0
        # What is left of deleted pods may still have a port or a card that this one wants.
        await self._cleared.wait()
        while True:
            try:
                await worker.run()
                break
            except Exception as error:
                # One pod's failure never stops the others, and is tried again a few times.
                failures += 1
                trace = {"exc_info": error} if failures in (1, _TRIES) else {}
                _log.error("pod.worker_failed", pod=worker.pod.key, failures=failures, error=str(error), **trace)
                if failures >= _TRIES and await self._gave_up(uid, worker, error):
                    break
                await self._host.clock.sleep(backoff.delay(failures))
        await self._forget(uid)

    async def _gave_up(self, uid: str, worker: PodWorker, error: Exception) -> bool:
        """End what runs of a pod that the agent fails on, and say so; True when the pod is gone."""
        host = self._host
        await asyncio.to_thread(end_pod, host.layout.pod(uid), host.isolation.cgroups)
        if not worker.gone:
            await tell(host, worker.pod, cause(error))
        return worker.gone or worker.pod.metadata.deletion_timestamp is not None

    async def _forget(self, uid: str) -> None:
        """The API has no such pod any more, and nothing of it runs."""
        host = self._host
        self._workers.pop(uid, None)
        self._tasks.pop(uid, None)
        host.names.remove(uid)
        host.ledger.release(uid)
        host.devices.release(uid)
        host.free_cpus(uid)
        host.ports.remove(uid)
        if host.isolation.cgroups is not None:
            await remove_cgroup(host.isolation.cgroups, uid, self._host.clock)
        host.isolation.limits.remove(uid)
        self._last_words.keep(uid)
        host.addresses.release(uid)

    async def forget_strangers(self) -> None:
        """End and remove pods that were deleted while no agent ran; no container starts before."""
        host = self._host
        for directory in host.layout.pods():
            if directory.uid not in self._workers:
                _log.info("pod.leftover_removed", uid=directory.uid)
                await asyncio.to_thread(end_pod, directory, host.isolation.cgroups)
                await self._forget(directory.uid)
        host.addresses.keep_only(set(self._workers))
        self._cleared.set()

    def content_changed(self, event_type: EventType, new: Object, _: Object | None) -> None:
        """Bring volumes up to date with a ConfigMap or Secret, and start what waited for it."""
        if event_type == "DELETED":
            return
        name, namespace = new.metadata.name, new.metadata.namespace
        for worker in self._workers.values():
            if worker.pod.metadata.namespace == namespace:
                referenced = references(worker.pod)
                if name in referenced.config_maps or name in referenced.secrets:
                    worker.refresh()
