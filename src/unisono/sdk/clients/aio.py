"""A client's connection to its control plane: found at the first call, and closed with the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.api.kinds import CONFIG_MAPS, JOBS, QUEUES
from unisono.api.verdict import Verdict
from unisono.errors import ApiError
from unisono.kube.http import HttpClient
from unisono.sdk.clients.endpoint import Endpoint, Where, find
from unisono.sdk.errors import BadWork, JobFailed, WaitTimeout
from unisono.sdk.follow.events import Observed, Target
from unisono.sdk.follow.following import LogLine, follow_logs, read_logs
from unisono.sdk.follow.following import follow as follow_targets
from unisono.sdk.follow.log_lines import LogSelection, lines
from unisono.sdk.jobs import control
from unisono.sdk.jobs.control import named
from unisono.sdk.jobs.program import Program
from unisono.sdk.jobs.submission import (
    Work,
    apply_object,
    create_object,
    kind_of,
    mark_folder,
    objects,
    program_folders,
    share_folder,
    share_writing,
    split,
)
from unisono.sdk.overview.queues import QueueView, all_groups, queue_views
from unisono.sdk.reasons.explaining import group_verdicts
from unisono.sdk.reasons.failures import failure_of
from unisono.sdk.state.dependents import Dependents, dependents
from unisono.sdk.state.observing import index_dependents, look, observation
from unisono.sdk.state.views import JobHandle, JobRef, JobView, failure_text, timeout_text


class Connection:
    """Connects to one control plane.

    Args:
        where: which control plane; see `Where`.
        namespace: for objects that name none; None for the kubeconfig's, or ``default``.
    """

    def __init__(self, where: Where | None = None, *, namespace: str | None = None) -> None:
        self._where, self._namespace = where or Where(), namespace
        self._endpoint: Endpoint | None = None
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
            http, endpoint = self._http, self._endpoint
            self._http = self._endpoint = None
        if http is not None:
            await http.close()
        if endpoint is not None and endpoint.private is not None:
            await endpoint.private.stop()

    async def endpoint(self) -> Endpoint:
        """The control plane that the client talks to."""
        await self._connected()
        assert self._endpoint is not None
        return self._endpoint

    @property
    def namespace(self) -> str:
        """Namespace for jobs that name none."""
        configured = self._endpoint.config.namespace if self._endpoint is not None else None
        return self._namespace or configured or "default"

    async def _connected(self) -> HttpClient:
        async with self._lock:
            if self._http is None:
                self._endpoint = await find(self._where)
                self._http = HttpClient(self._endpoint.config)
            return self._http


# The asynchronous client: everything that the SDK can do with a control plane. `Client` is the same, blocking.

T = TypeVar("T", bound=Object)
Views = list[JobView]
Queues = list[QueueView]
Tell = Callable[[JobView], None]


class AsyncClient(Connection):
    """Submits and steers jobs on one control plane.

    Without arguments it takes the control plane that runs on this machine (``unisono up``), inside a pod the pod's
    cluster, and else starts a private one, which ends with `close`, at the latest with this process.

    Args:
        where: which control plane; see `Where`.
        namespace: for jobs that name none; None for the kubeconfig's, or ``default``.
    """

    async def submit(self, work: Work) -> JobView:
        """Create a job, and before it whatever else is in the manifest (queues, ConfigMaps, ...).

        Args:
            work: a `Job`, a `Program`, a mapping, a struct, YAML text, or the path of a file with exactly one job: a
                Volcano Job, a JobFlow, a HyperJob, a ``batch/v1`` Job, a RayJob, a JobSet, a TrainJob, or a job of
                ``kubeflow.org``.

        Raises:
            BadWork: it is no job, or more than one.
            AlreadyExists: a job of that name exists.
            ApiError: the server refuses an object; the message names the field.
        """
        http = await self._connected()
        endpoint = await self.endpoint()
        manifests, folder = objects(work, local=endpoint.local)
        others, job = split(manifests)
        if endpoint.local:
            mark_folder(job, folder)
            if endpoint.private is None:
                namespace = job["metadata"].get("namespace") or self.namespace
                if isinstance(work, Program):
                    await share_writing(http, namespace, folder, self._where.data_dir)
                for each in (folder, *program_folders(work)):
                    await share_folder(http, namespace, each)
        for other in others:
            await self.apply(other)
        kind = kind_of(job)
        if kind is None:
            raise BadWork(f"{job['apiVersion']} is no version of {job['kind']} that is known here.")
        created = await create_object(http, kind, job, self.namespace)
        return observation(kind, created, Dependents()).view

    def handle(self, kind: Kind[T] | str, name: str, *, namespace: str | None = None) -> JobHandle[T]:
        """A handle of a job that exists, of any kind; asks the server nothing.

        Args:
            kind: such as ``PYTORCH_JOBS`` of ``unisono.api.kind_families``, or its name: ``"PyTorchJob"``,
                ``"job.batch"``.
            name: of the job.
            namespace: None for the client's.

        Raises:
            BadWork: there is no such kind of job.
        """
        return JobHandle(named(kind) if isinstance(kind, str) else kind, namespace or self.namespace, name)

    async def object(self, job: JobHandle[T]) -> T:
        """The job itself, as a struct of its kind.

        Raises:
            NotFound: there is no such job.
        """
        return await (await self._connected()).get(job.kind, job.name, job.namespace)

    async def get(self, job: JobRef) -> JobView:
        """How the job is doing.

        Raises:
            NotFound: there is no such job.
        """
        http = await self._connected()
        return (await look(http, *self._key(job))).view

    async def list(
        self, *, queue: str | None = None, all_namespaces: bool = False, kind: Kind[Any] | str = JOBS
    ) -> Views:
        """The jobs of the namespace, or of all of them, by name.

        Args:
            queue: only those of that queue.
            all_namespaces: of all namespaces.
            kind: of which kind; Volcano's Jobs where none is named.

        Raises:
            BadWork: there is no such kind of job.
        """
        http, chosen = await self._connected(), named(kind) if isinstance(kind, str) else kind
        namespace = None if all_namespaces else self.namespace
        jobs, index = await asyncio.gather(http.list(chosen, namespace), index_dependents(http, chosen, namespace))
        views = [observation(chosen, job, index.of(chosen, job)).view for job in jobs.items]
        in_queue = (view for view in views if queue is None or view.queue == queue)
        return sorted(in_queue, key=lambda view: (view.namespace, view.name))

    async def watch(self, job: JobRef) -> AsyncGenerator[JobView, None]:
        """The job's view now and after every change, until it has ended or is deleted."""
        http = await self._connected()
        events = follow_targets(http, [Target(*self._key(job))], until=lambda view: view.stopped)
        async with aclosing(events):
            last: JobView | None = None
            async for event in events:
                if isinstance(event, Observed) and event.observation.view != last:
                    last = event.observation.view
                    yield last

    async def wait(
        self,
        job: JobRef,
        *,
        phase: str | None = None,
        timeout: float | None = None,
        check: bool = False,
        tell: Tell | None = None,
    ) -> JobView:
        """Wait until the job has ended.

        Args:
            job: which.
            phase: return as soon as the job is in this phase, such as ``Running``.
            timeout: seconds to wait.
            check: raise if the job ends without success.
            tell: is called with every view on the way, to show what the job waits for.

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
                    if tell is not None:
                        tell(view)
                    if view.phase == phase:
                        break
        except TimeoutError:
            raise WaitTimeout(timeout_text(job if isinstance(job, str) else job.name, last, timeout), last) from None
        assert last is not None  # the first view comes before anything else, or an error
        if check and last.ended and not last.succeeded:
            raise JobFailed(await self._why(job, last), last)
        return last

    async def _why(self, job: JobRef, last: JobView) -> str:
        """Why a job failed: which process was the first, and its exception where it left one."""
        with suppress(ApiError):  # the job may be deleted by now, or its pods not be the user's to read
            http = await self._connected()
            failure = await failure_of(http, await look(http, *self._key(job)))
            if failure is not None:
                return f"The job {last.name} failed: {failure.text}"
        return failure_text(last)

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
        selection = LogSelection(task, params={} if tail is None else {"tailLines": str(tail)})
        source = (follow_logs if follow else read_logs)(http, *self._key(job), selection)
        async with aclosing(source):
            async for line in source:
                yield line

    async def cancel(self, job: JobRef) -> None:
        """Stop the job for good; `delete` takes it away.

        A Volcano Job stays as ``Terminated`` with the logs of what has run, and so do the jobs of a flow. Other kinds
        know no such end: they are suspended, which takes their pods away.
        """
        await control.send_action(await self._connected(), *self._key(job), "TerminateJob")

    async def suspend(self, job: JobRef) -> None:
        """Stop the job's pods and give their resources back, until `resume`.

        The phase of a Volcano Job becomes ``Aborted``, that of others ``Suspended``.

        Raises:
            BadWork: jobs of this kind cannot be suspended.
        """
        await control.send_action(await self._connected(), *self._key(job), "AbortJob")

    async def resume(self, job: JobRef) -> None:
        """Start a suspended job again; pods of a Volcano Job that had succeeded are kept.

        Raises:
            BadWork: jobs of this kind cannot be suspended.
        """
        await control.send_action(await self._connected(), *self._key(job), "ResumeJob")

    async def delete(self, job: JobRef) -> None:
        """Delete the job with its pods and logs."""
        http = await self._connected()
        kind, namespace, name = self._key(job)
        uid = job.uid if isinstance(job, JobView) else None
        await http.delete(kind, name, namespace, uid=uid or None, propagation="Background")

    async def scale(self, job: JobRef, task: str, replicas: int) -> JobView:
        """Change how many pods a task has; a gang of all pods stays one.

        Args:
            job: a Volcano Job, a job of ``kubeflow.org``, a RayJob or a ``batch/v1`` Job.
            task: of a Volcano Job; a role such as ``Worker``; a worker group of Ray; ``pod`` of a ``batch/v1`` Job.
            replicas: number of pods.

        Raises:
            BadWork: the job has no such task, or jobs of its kind keep their size.
            Invalid: the job cannot have that size.
        """
        await control.resize(await self._connected(), *self._key(job), task, replicas)
        return await self.get(job)

    async def explain(self, job: JobRef) -> Verdict | None:
        """Why the job waits; None when it does not, or when no cycle has looked at it yet."""
        http = await self._connected()
        kind, namespace, name = self._key(job)
        live = await http.get(kind, name, namespace)
        return next(iter(group_verdicts(await dependents(http, kind.resource, live))), None)

    async def queues(self) -> Queues:
        """All queues with their limits, and how many PodGroups are in which phase."""
        http = await self._connected()
        queues, groups = await asyncio.gather(http.list(QUEUES), all_groups(http))
        return queue_views(queues.items, groups)

    async def pod_log(self, namespace: str, pod: str, *, tail: int | None = None) -> AsyncGenerator[str, None]:
        """Lines of one pod's log; none of a pod that was deleted."""
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

    def _key(self, job: JobRef) -> tuple[Kind[Any], str, str]:
        if isinstance(job, JobHandle):
            return job.kind, job.namespace, job.name
        if isinstance(job, JobView):
            kind = kind_of({"apiVersion": job.api_version, "kind": job.kind})
            if kind is None:
                raise BadWork(f"{job.kind} of {job.api_version} is not a kind of job that the SDK knows.")
            return kind, job.namespace, job.name
        namespace, _, name = job.rpartition("/")
        return JOBS, namespace or self.namespace, name

    async def apply(self, value: dict[str, Any]) -> None:
        """Create an object of any known kind, or bring the live one to what ``value`` says (server-side apply).

        Raises:
            BadWork: the kind is not known, or the object has no name.
            ApiError: the server refuses it.
        """
        await apply_object(await self._connected(), value, self.namespace)
