"""All pods of one agent: each has a worker, and one that fails never stops the others."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

import structlog

from unisono.agent.environment import references
from unisono.agent.host import Host
from unisono.agent.limits.disk import Occupant
from unisono.agent.logs import LastWords
from unisono.agent.pods.report import cause, tell
from unisono.agent.pods.worker import PodWorker
from unisono.agent.processes.shims import end_pod, remove_cgroup
from unisono.api.base import Object
from unisono.api.core import Pod
from unisono.api.pod_states import has_ended
from unisono.kube.client import EventType
from unisono.kube.pace import Backoff

# A pod on which the agent fails so often in a row is given up.
_TRIES = 5

_log = structlog.get_logger(__name__)


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
                wanted = references(worker.pod)
                if name in wanted.config_maps or name in wanted.secrets:
                    worker.refresh()
