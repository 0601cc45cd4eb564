"""The asynchronous client: everything that the SDK can do with a control plane. `Client` is the same, blocking."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self

import msgspec

from unisono.api.batch import Job
from unisono.api.bus import Command
from unisono.api.decode import decode
from unisono.api.kind import Kind
from unisono.api.kinds import COMMANDS, CONFIG_MAPS, JOBS, POD_GROUPS, PODS, QUEUES
from unisono.api.kinds import find as find_kind
from unisono.errors import Conflict
from unisono.kube.http import HttpClient
from unisono.kube.transport import error_of
from unisono.sdk import joblogs, steering
from unisono.sdk.errors import BadWork, JobFailed, WaitTimeout
from unisono.sdk.joblogs import LogLine
from unisono.sdk.logstream import lines
from unisono.sdk.observing import group_name, look, observation, observe
from unisono.sdk.place import Place, Where, find
from unisono.sdk.queues import QueueView, queue_views
from unisono.sdk.verdict import Verdict, parse
from unisono.sdk.views import JobView, end_text
from unisono.sdk.work import Work, mark_folder, objects, split

JobRef = JobView | str
"""A job: what `submit` answered, its name, or ``namespace/name``."""

Views = list[JobView]
Queues = list[QueueView]
SCALE_ATTEMPTS = 10


class AsyncClient:
    """Submits and steers jobs on one control plane.

    Without arguments it takes the control plane that runs on this machine (``unisono up``), inside a pod the pod's
    cluster, and else starts a private one, which ends with `close`, at the latest with this process.

    Args:
        where: which control plane; see `Where`.
        namespace: for jobs that name none; None for the kubeconfig's, or ``default``.

    """

    def __init__(self, where: Where | None = None, *, namespace: str | None = None) -> None:
        self._where, self._namespace = where or Where(), namespace
        self._place: Place | None = None
        self._http: HttpClient | None = None
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Connect."""
        await self._connected()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    async def close(self) -> None:
        """Close the connections, and end a private control plane with its pods."""
        async with self._lock:
            http, place = self._http, self._place
            self._http = self._place = None
        if http is not None:
            await http.close()
        if place is not None and place.private is not None:
            await place.private.stop()

    async def place(self) -> Place:
        """The control plane that the client talks to."""
        await self._connected()
        assert self._place is not None
        return self._place

    async def submit(self, work: Work) -> JobView:
        """Create a job, and before it whatever else is in the manifest (queues, ConfigMaps, ...).

        Args:
            work: a `Job`, a mapping, a struct, YAML text, or the path of a file with exactly one job.

        Raises:
            BadWork: it is no job, or more than one.
            AlreadyExists: a job of that name exists.
            ApiError: the server refuses an object; the message names the field.

        """
        http = await self._connected()
        found, folder = objects(work)
        others, job = split(found)
        if (await self.place()).local:
            mark_folder(job, folder)
        for other in others:
            await self.apply(other)
        created = await self._create(http, JOBS, job)
        return observation(created, [], []).view

    async def get(self, job: JobRef) -> JobView:
        """How the job is doing.

        Raises:
            NotFound: there is no such job.

        """
        http = await self._connected()
        return (await look(http, *self._key(job))).view

    async def list(self, *, queue: str | None = None, all_namespaces: bool = False) -> Views:
        """The jobs of the namespace, or of all of them, by name; ``queue``: only those of that queue."""
        http = await self._connected()
        namespace = None if all_namespaces else self.namespace
        jobs, groups, pods = await asyncio.gather(
            http.list(JOBS, namespace), http.list(POD_GROUPS, namespace), http.list(PODS, namespace)
        )
        groups_of, pods_of = _by_owner(groups.items), _by_owner(pods.items)
        views = [
            observation(job, groups_of.get(job.metadata.uid or "", []), pods_of.get(job.metadata.uid or "", [])).view
            for job in jobs.items
        ]
        wanted = (view for view in views if queue is None or view.queue == queue)
        return sorted(wanted, key=lambda view: (view.namespace, view.name))

    async def watch(self, job: JobRef) -> AsyncGenerator[JobView, None]:
        """The job's view now and after every change, until it has ended or is deleted."""
        http = await self._connected()
        async with aclosing(observe(http, *self._key(job))) as seen:
            last: JobView | None = None
            async for each in seen:
                if each.view != last:
                    last = each.view
                    yield last

    async def wait(
        self, job: JobRef, *, phase: str | None = None, timeout: float | None = None, check: bool = False
    ) -> JobView:
        """Wait until the job has ended.

        Args:
            job: which.
            phase: return as soon as the job is in this phase, such as ``Running``.
            timeout: seconds to wait.
            check: raise if the job ends without success.

        Raises:
            WaitTimeout: the time is over; the job goes on.
            JobFailed: with ``check``, the job did not complete.
            NotFound: there is no such job.

        """
        last: JobView | None = None
        try:
            async with asyncio.timeout(timeout), aclosing(self.watch(job)) as views:
                async for view in views:
                    last = view
                    if view.phase == phase:
                        break
        except TimeoutError:
            raise WaitTimeout(_late(job, last, timeout), last) from None
        assert last is not None  # the first view comes before anything else, or an error
        if check and last.ended and not last.succeeded:
            raise JobFailed(failure_text(last), last)
        return last

    async def logs(
        self, job: JobRef, *, follow: bool = False, task: str | None = None, tail: int | None = None
    ) -> AsyncGenerator[LogLine, None]:
        """Log lines of the job's pods.

        Args:
            job: which.
            follow: go on until the job has ended, with pods that start later.
            task: of this task only.
            tail: so many last lines of each pod.

        """
        http = await self._connected()
        source = (joblogs.follow if follow else joblogs.read)(http, *self._key(job), task=task, tail=tail)
        async with aclosing(source):
            async for line in source:
                yield line

    async def cancel(self, job: JobRef) -> None:
        """Stop the job for good. It stays as ``Terminated``, with the logs of what has run; `delete` takes it away."""
        await self._command(job, "TerminateJob")

    async def suspend(self, job: JobRef) -> None:
        """Stop the job's pods and give their resources back, until `resume`; its phase becomes ``Aborted``."""
        await self._command(job, "AbortJob")

    async def resume(self, job: JobRef) -> None:
        """Start a suspended job again; pods that had succeeded are kept."""
        await self._command(job, "ResumeJob")

    async def delete(self, job: JobRef) -> None:
        """Delete the job with its pods and logs."""
        http = await self._connected()
        namespace, name = self._key(job)
        uid = job.uid if isinstance(job, JobView) else None
        await http.delete(JOBS, name, namespace, uid=uid or None, propagation="Background")

    async def scale(self, job: JobRef, task: str, replicas: int) -> JobView:
        """Change how many pods a task has; a gang of all pods stays one.

        Raises:
            BadWork: the job has no such task.
            Invalid: the job cannot have that size.

        """
        http = await self._connected()
        namespace, name = self._key(job)
        for attempt in range(SCALE_ATTEMPTS):
            live = await http.get(JOBS, name, namespace)
            patch = steering.scale_patch(live, task, replicas)
            try:
                await http.patch(JOBS, name, patch, namespace=namespace, patch_type="json")
            except Conflict:
                if attempt == SCALE_ATTEMPTS - 1:
                    raise
            else:
                break
        return await self.get(job)

    async def explain(self, job: JobRef) -> Verdict | None:
        """Why the job waits; None when it does not, or when no cycle has looked at it yet."""
        http = await self._connected()
        live = await http.get(JOBS, self._key(job)[1], self._key(job)[0])
        groups = await http.list(
            POD_GROUPS, live.metadata.namespace, field_selector=f"metadata.name={group_name(live)}"
        )
        return parse(groups.items[0].metadata.annotations) if groups.items else None

    async def queues(self) -> Queues:
        """All queues with their limits, and how many PodGroups are in which phase."""
        http = await self._connected()
        queues, groups = await asyncio.gather(http.list(QUEUES), http.list(POD_GROUPS))
        return queue_views(queues.items, groups.items)

    async def pod_log(self, namespace: str, pod: str, *, tail: int | None = None) -> AsyncGenerator[str, None]:
        """Lines of one pod's log; none where the pod is gone."""
        http = await self._connected()
        query = {} if tail is None else {"tailLines": str(tail)}
        async with aclosing(lines(http, namespace, pod, query, patient=True)) as source:
            async for line in source:
                yield line

    async def adopt_config(self, name: str, owner: JobView) -> None:
        """Let a ConfigMap go with a job."""
        http = await self._connected()
        reference = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": owner.name, "uid": owner.uid}
        patch = {"metadata": {"ownerReferences": [reference]}}
        await http.patch(CONFIG_MAPS, name, patch, namespace=owner.namespace)

    async def delete_config(self, name: str) -> None:
        """Delete a ConfigMap of the client's namespace."""
        http = await self._connected()
        await http.delete(CONFIG_MAPS, name, self.namespace)

    @property
    def namespace(self) -> str:
        """Namespace for jobs that name none."""
        configured = self._place.config.namespace if self._place is not None else None
        return self._namespace or configured or "default"

    async def _connected(self) -> HttpClient:
        async with self._lock:
            if self._http is None:
                self._place = await find(self._where)
                self._http = HttpClient(self._place.config)
            return self._http

    def _key(self, job: JobRef) -> tuple[str, str]:
        if isinstance(job, JobView):
            return job.namespace, job.name
        namespace, _, name = job.rpartition("/")
        return namespace or self.namespace, name

    async def _command(self, job: JobRef, action: steering.JobAction) -> None:
        http = await self._connected()
        namespace, name = self._key(job)
        command: Command = steering.job_command(await http.get(JOBS, name, namespace), action)
        await http.create(COMMANDS, command)

    async def _create(self, http: HttpClient, kind: Kind[Job], value: dict[str, Any]) -> Job:
        """POST as given, so that the server sees, and refuses, fields that do not exist."""
        namespace = value["metadata"].setdefault("namespace", self.namespace)
        status, headers, body = await http.request(
            "POST",
            kind.path(namespace),
            body=msgspec.json.encode(value),
            params={"fieldManager": "unisono", "fieldValidation": "Strict"},
        )
        if status >= 300:
            raise error_of(status, headers, body)
        return decode(kind, msgspec.json.decode(body)).obj

    async def apply(self, value: dict[str, Any]) -> None:
        """Create an object of any known kind, or bring the live one to what ``value`` says (server-side apply).

        Raises:
            BadWork: the kind is not known, or the object has no name.
            ApiError: the server refuses it.

        """
        http = await self._connected()
        kind = find_kind(value["apiVersion"], value["kind"])
        if kind is None:
            raise BadWork(
                f"{value['apiVersion']} {value['kind']} is not known here: create it with kubectl apply first."
            )
        name = value["metadata"].get("name")
        if not isinstance(name, str):
            raise BadWork(f"the {value['kind']} beside the job has no metadata.name: give it one.")
        namespace = value["metadata"].setdefault("namespace", self.namespace) if kind.namespaced else None
        await http.patch(kind, name, value, namespace=namespace, patch_type="apply")


def _by_owner(items: Iterable[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in items:
        for owner in item.metadata.owner_references or ():
            found.setdefault(owner.uid, []).append(item)
    return found


def failure_text(view: JobView) -> str:
    """Why a job has not succeeded, in one sentence."""
    ends = [f"{end.name}: {end_text(end)}" for end in view.ends if end.phase == "Failed"][:3]
    reasons = "; ".join(([view.message] if view.message else []) + ends)
    return f"The job {view.name} is {view.phase.lower()}" + (f": {reasons}" if reasons else ".")


def _late(job: JobRef, last: JobView | None, timeout: float | None) -> str:
    name = job.name if isinstance(job, JobView) else job
    why = f": {last.waiting}" if last is not None and last.waiting else ""
    phase = last.phase.lower() if last is not None else "not seen"
    return f"The job {name} is still {phase} after {timeout:g} s{why}"
