"""The blocking client, for scripts and notebooks: `AsyncClient` behind a background loop."""

from __future__ import annotations

import os
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.api.kinds import JOBS
from unisono.api.verdict import Verdict
from unisono.sdk.aio import AsyncClient, Queues, Views
from unisono.sdk.endpoint import Endpoint, Where
from unisono.sdk.handles import JobHandle, JobRef
from unisono.sdk.joblogs import LogLine
from unisono.sdk.portal import Portal
from unisono.sdk.program_end import end_with_program
from unisono.sdk.submission import Work
from unisono.sdk.telling import is_watched, telling
from unisono.sdk.views import JobView

T = TypeVar("T")
J = TypeVar("J", bound=Object)


class Client:
    """Submits and steers jobs; every call blocks. Works where an event loop runs already, such as in Jupyter.

    Without arguments it takes the control plane that runs on this machine (``unisono up``), inside a pod the pod's
    cluster, and else starts a private one, which ends with `close`, at the latest with this process.

    Args:
        kubeconfig: a kubeconfig file.
        context: a context of it.
        data_dir: directory of an ``unisono up``.
        in_cluster: the cluster of the pod that this process runs in.
        private: a control plane for this client alone.
        nodes: simulated nodes ``{name, count, capacity, labels, taints}`` of the private control plane.
        local_node: the private control plane runs pods as processes of this machine.
        namespace: for jobs that name none.
        quiet: do not show what jobs wait for while a call waits for them; None shows it in terminals and notebooks.
        detached: SIGTERM leaves the jobs running that were submitted here, instead of stopping them.

    """

    def __init__(
        self,
        *,
        kubeconfig: str | os.PathLike[str] | None = None,
        context: str | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        in_cluster: bool = False,
        private: bool = False,
        nodes: Sequence[Mapping[str, Any]] = (),
        local_node: bool = True,
        namespace: str | None = None,
        quiet: bool | None = None,
        detached: bool = False,
    ) -> None:
        self.shows = is_watched() if quiet is None else not quiet
        self._detached = detached
        where = Where(kubeconfig, context, data_dir, in_cluster, private, nodes, local_node)
        self.aio = AsyncClient(where, namespace=namespace)
        self._portal = Portal(self.aio.close)

    def __enter__(self) -> Self:
        """Connect."""
        self.endpoint()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Close the connections, and end a private control plane with its pods; closing twice is fine."""
        if self._portal.open:
            try:
                self._portal.run(self.aio.close())
            finally:
                self._portal.close()

    @property
    def open(self) -> bool:
        """Whether the client has not been closed."""
        return self._portal.open

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine that uses ``aio``, run in the client's own loop."""
        return self._portal.run(work)

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """The same without waiting for it."""
        return self._portal.start(work)

    def endpoint(self) -> Endpoint:
        """The control plane that the client talks to."""
        return self._portal.run(self.aio.endpoint())

    def submit(self, work: Work, *, detached: bool | None = None) -> JobView:
        """Create a job; see `AsyncClient.submit`.

        Args:
            work: the job.
            detached: SIGTERM of this program leaves it running; None for what the client says.

        """
        view = self._portal.run(self.aio.submit(work))
        if not (self._detached if detached is None else detached):
            end_with_program(self, view)
        return view

    def get(self, job: JobRef) -> JobView:
        """How the job is doing; `NotFound` where there is none."""
        return self._portal.run(self.aio.get(job))

    def handle(self, kind: Kind[J] | str, name: str, *, namespace: str | None = None) -> JobHandle[J]:
        """A handle of a job of any kind: ``client.handle("PyTorchJob", "train")``; asks the server nothing."""
        return self.aio.handle(kind, name, namespace=namespace)

    def object(self, job: JobHandle[J]) -> J:
        """The job itself, as a struct of its kind; `NotFound` where there is none."""
        return self._portal.run(self.aio.object(job))

    def list(self, *, queue: str | None = None, all_namespaces: bool = False, kind: Kind[Any] | str = JOBS) -> Views:
        """The jobs of the namespace, or of all of them, by name; see `AsyncClient.list`."""
        return self._portal.run(self.aio.list(queue=queue, all_namespaces=all_namespaces, kind=kind))

    def watch(self, job: JobRef) -> Iterator[JobView]:
        """The job's view now and after every change, until it has ended or is deleted."""
        return self._portal.iterate(self.aio.watch(job))

    def wait(
        self, job: JobRef, *, phase: str | None = None, timeout: float | None = None, check: bool = False
    ) -> JobView:
        """Wait until the job has ended, or is in ``phase``; see `AsyncClient.wait`."""
        return self._portal.run(self._wait(job, phase, timeout, check))

    async def _wait(self, job: JobRef, phase: str | None, timeout: float | None, check: bool) -> JobView:
        async with telling(self.shows) as tell:
            return await self.aio.wait(job, phase=phase, timeout=timeout, check=check, tell=tell)

    def logs(
        self, job: JobRef, *, follow: bool = False, task: str | None = None, tail: int | None = None
    ) -> Iterator[LogLine]:
        """Log lines of the job's pods; see `AsyncClient.logs`."""
        return self._portal.iterate(self.aio.logs(job, follow=follow, task=task, tail=tail))

    def cancel(self, job: JobRef) -> None:
        """Stop the job for good; see `AsyncClient.cancel`."""
        self._portal.run(self.aio.cancel(job))

    def suspend(self, job: JobRef) -> None:
        """Stop the job's pods and give their resources back, until `resume`."""
        self._portal.run(self.aio.suspend(job))

    def resume(self, job: JobRef) -> None:
        """Start a suspended job again."""
        self._portal.run(self.aio.resume(job))

    def delete(self, job: JobRef) -> None:
        """Delete the job with its pods and logs."""
        self._portal.run(self.aio.delete(job))

    def scale(self, job: JobRef, task: str, replicas: int) -> JobView:
        """Change how many pods a task has; a gang of all pods stays one."""
        return self._portal.run(self.aio.scale(job, task, replicas))

    def explain(self, job: JobRef) -> Verdict | None:
        """Why the job waits; None when it does not."""
        return self._portal.run(self.aio.explain(job))

    def queues(self) -> Queues:
        """All queues with their limits, and how many PodGroups are in which phase."""
        return self._portal.run(self.aio.queues())
