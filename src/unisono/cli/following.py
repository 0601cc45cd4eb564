"""Follows jobs on a server to their end: informers in, reports out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from unisono.api.keys import JOB_NAME
from unisono.api.membership import pod_group_of
from unisono.api.verdict import waiting_text
from unisono.cli.catch_up import Abreast
from unisono.cli.logstream import lines, short_name
from unisono.cli.owners import Lineage
from unisono.cli.views import JobView, changes, job_view, pod_view
from unisono.errors import ApiError
from unisono.sdk.dependents import between, collect, owners_of
from unisono.sdk.followed import workload_view

if TYPE_CHECKING:
    from unisono.api.base import Object
    from unisono.api.core import Pod
    from unisono.api.kind import Kind
    from unisono.api.scheduling import PodGroup
    from unisono.cli.report import Reporter
    from unisono.kube.client import EventType
    from unisono.kube.http import HttpClient
    from unisono.kube.informer import Informer

REFRESH_SECONDS = 0.1
LOG_DRAIN_SECONDS = 5.0
LOG_END_SECONDS = 30.0
CATCH_UP_SECONDS = 10.0
STARTED = frozenset({"Running", "Succeeded", "Failed"})
ENDED = frozenset({"Succeeded", "Failed"})


class Follower:
    """Watches the jobs' objects, tells what changes and copies the logs of their pods.

    Args:
        client: the server.
        targets: kind (``Job``, ``Pod``, or the full name of another resource), namespace and name of what to follow.
        reporter: where to tell it.
        logs: also copy the containers' logs.

    """

    def __init__(
        self,
        client: HttpClient,
        targets: Iterable[tuple[str, str, str]],
        reporter: Reporter,
        *,
        logs: bool = True,
    ) -> None:
        from unisono.api.kinds import JOBS, POD_GROUPS, PODS
        from unisono.kube.informer import Informer

        self._client, self._reporter, self._logs = client, reporter, logs
        self._targets = list(targets)
        spaces = {namespace for _, namespace, _ in self._targets}
        namespace = next(iter(spaces)) if len(spaces) == 1 else None
        self._jobs = Informer(client, JOBS, namespace)
        self._groups = Informer(client, POD_GROUPS, namespace)
        self._pods = Informer(client, PODS, namespace)
        self._groups.add_index("owner", _owners)
        self._pods.add_index("job", _job_of)
        self._pods.add_index("owner", _owners)
        self._others: dict[str, Informer[Any]] = {
            kind.resource: self._jobs if kind is JOBS else Informer(client, kind, namespace)
            for kind in _kinds(self._targets)
        }
        self._lineage = Lineage(self._targets)
        makers: dict[str, Informer[Any]] = {JOBS.resource: self._jobs, **self._others}
        for resource, informer in makers.items():
            informer.add_index("owner", _owners)
            informer.on_change(partial(self._note, "Job" if informer is self._jobs else resource))
        self._pods.on_change(self._note_pod)
        # Makers before what they made: a pod that is heard of belongs to a job that is known.
        self._informers: list[Informer[Any]] = [*reversed(makers.values()), self._groups, self._pods]
        self._abreast = Abreast(client, namespace, [each for each in self._informers if each is not self._groups])
        self._departed: list[Pod] = []
        self.views: dict[tuple[str, str, str], JobView] = {}
        self._copies: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> list[JobView]:
        """Follow until every job has ended; answers their last views in the order of the targets."""
        watches = [asyncio.create_task(informer.run()) for informer in self._informers]
        try:
            await asyncio.gather(*(informer.synced.wait() for informer in self._informers))
            while not self._refresh():
                await asyncio.sleep(REFRESH_SECONDS)
                for watch in watches:
                    if watch.done():
                        watch.result()
            # The end of a job may be heard of before the last of its pods.
            await self._abreast.catch_up(CATCH_UP_SECONDS)
            self._refresh()
            await self._drain()
        finally:
            for task in (*watches, *self._copies.values()):
                task.cancel()
            await asyncio.gather(*watches, *self._copies.values(), return_exceptions=True)
        return [self.views[target] for target in self._targets]

    def _note(self, resource: str, _: EventType, obj: Object, __: Object | None) -> None:
        self._lineage.saw(resource, obj)

    def _note_pod(self, event: EventType, pod: Pod, _: Pod | None) -> None:
        """A pod may be gone before its job is looked at the next time: its log is read all the same."""
        if event == "DELETED" and self._logs and pod.status.phase in STARTED:
            self._departed.append(pod)

    def _refresh(self) -> bool:
        """Look at every job once; True when all have ended."""
        while self._departed:
            pod = self._departed.pop()
            if (job := self._lineage.job_of(pod)) is not None:
                self._copy_logs(pod, job)
        for target in self._targets:
            old = self.views.get(target)
            new = self._view(target)
            if new is None:
                continue
            for text in changes(old, new):
                self._reporter.line(new.title, text)
            self.views[target] = new
        self._reporter.show(list(self.views.values()))
        return all(target in self.views and self.views[target].ended for target in self._targets)

    def _view(self, target: tuple[str, str, str]) -> JobView | None:
        kind, namespace, name = target
        key = f"{namespace}/{name}"
        known = self.views.get(target)
        if kind == "Pod":
            pod = self._pods.get(key)
            if pod is None:
                return _deleted(known)
            self._copy_logs(pod, None)
            group = self._groups.get(pod_group_of(pod))
            return pod_view(pod, _waiting(group))
        if kind != "Job":
            return self._other(kind, key, known)
        job = self._jobs.get(key)
        if job is None:
            return _deleted(known)
        pods = sorted(self._pods.by_index("job", key), key=lambda pod: pod.metadata.name)
        for pod in pods:
            self._copy_logs(pod, name)
        groups = self._groups.by_index("owner", job.metadata.uid or "")
        return job_view(job, groups[0] if groups else None, pods, _waiting(groups[0] if groups else None))

    def _other(self, resource: str, key: str, known: JobView | None) -> JobView | None:
        """View of a job that tells its state by conditions; None until there is something to tell."""
        job = self._others[resource].get(key)
        if job is None:
            return _deleted(known)
        owners = owners_of(resource, job, {name: _Indexed(informer) for name, informer in self._others.items()})
        found = collect(owners, _Indexed(self._groups), self._named(job), _Indexed(self._pods))
        for pod in found.pods:
            self._copy_logs(pod, job.metadata.name)
        waiting = next((text for group in found.groups if (text := _waiting(group))), "")
        view = workload_view(job, found.parts, found.groups, found.pods, waiting, known)
        return view if known or found.groups or found.pods or view.ended else None

    def _named(self, job: Object) -> Callable[[str], PodGroup | None]:
        return lambda name: self._groups.get(f"{job.metadata.namespace}/{name}")

    def _copy_logs(self, pod: Pod, job: str | None) -> None:
        """Start to copy the log of each container of a pod that runs or has ended, once."""
        uid = pod.metadata.uid or ""
        if not self._logs or pod.status.phase not in STARTED:
            return
        names = [item.name for item in (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))]
        for container in names:
            if f"{uid}/{container}" not in self._copies:
                prefix = short_name(pod.metadata.name, job) + (f"/{container}" if len(names) > 1 else "")
                copy = self._copy(pod, container, prefix)
                self._copies[f"{uid}/{container}"] = asyncio.create_task(copy)

    async def _copy(self, pod: Pod, container: str, prefix: str) -> None:
        namespace, name = pod.metadata.namespace or "default", pod.metadata.name
        params = {"container": container, "follow": "true", "uid": pod.metadata.uid or ""}
        try:
            async for line in lines(self._client, namespace, name, params, patient=True):
                self._reporter.log(prefix, line)
        except ApiError as error:
            self._reporter.line(f"pod/{name}", f"its log cannot be read: {error.message}")

    async def _drain(self) -> None:
        """Let the last log lines arrive; a log that does not end with its container is left.

        That of a pod that has ended will end, however slowly it comes.
        """
        if pending := [copy for copy in self._copies.values() if not copy.done()]:
            await asyncio.wait(pending, timeout=LOG_DRAIN_SECONDS)
        over = {pod.metadata.uid for pod in self._pods.items() if pod.status.phase in ENDED}
        slow = [copy for key, copy in self._copies.items() if not copy.done() and key.partition("/")[0] in over]
        if slow:
            await asyncio.wait(slow, timeout=LOG_END_SECONDS)


def _deleted(known: JobView | None) -> JobView | None:
    """The view of a job that is gone: it ended as it was last seen, or somebody deleted it."""
    from dataclasses import replace

    if known is None or known.ended:
        return known
    return replace(known, phase="Deleted", waiting="", message="somebody deleted it")


def _kinds(targets: Iterable[tuple[str, str, str]]) -> list[Kind[Any]]:
    """Kinds to watch beside Jobs and pods: those of the targets, and what their controllers make in between."""
    from unisono.api.kinds import ALL_KINDS

    named = {kind for kind, _, _ in targets if kind not in ("Job", "Pod")}
    wanted = named | {each.resource for kind in named for each in between(kind)}
    return [kind for kind in ALL_KINDS if kind.resource in wanted]


class _Indexed:
    """What an informer knows, by owner."""

    def __init__(self, informer: Informer[Any]) -> None:
        self._informer = informer

    def of(self, owner: Object) -> Sequence[Any]:
        return self._informer.by_index("owner", owner.metadata.uid or "")


def _owners(obj: Object) -> list[str]:
    return [owner.uid for owner in obj.metadata.owner_references or ()]


def _job_of(pod: Pod) -> list[str]:
    job = (pod.metadata.labels or {}).get(JOB_NAME) or (pod.metadata.annotations or {}).get(JOB_NAME)
    return [f"{pod.metadata.namespace}/{job}"] if job else []


def _waiting(group: PodGroup | None) -> str:
    return waiting_text(group.metadata.annotations) if group is not None else ""


def result_of(view: JobView, seconds: float) -> dict[str, Any]:
    """One job of ``run --output json``."""
    from unisono.cli.views import SUCCEEDED

    return {
        "kind": view.kind,
        "name": view.name,
        "namespace": view.namespace,
        "queue": view.queue,
        "phase": view.phase,
        "succeeded": view.phase == SUCCEEDED,
        "message": view.message or view.waiting,
        "seconds": round(seconds, 3),
        "nodes": list(view.nodes),
        "pods": [
            {
                "name": end.name,
                "phase": end.phase,
                "exitCode": end.exit_code,
                "reason": end.reason,
                "message": end.message,
            }
            for end in view.ends
        ],
    }
