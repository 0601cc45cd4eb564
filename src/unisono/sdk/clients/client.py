"""An event loop in a thread of its own: blocking calls to asynchronous code, also from within another loop."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.api.kinds import JOBS
from unisono.api.verdict import Verdict
from unisono.errors import UnisonoError
from unisono.sdk.clients.aio import AsyncClient, Queues, Views
from unisono.sdk.clients.endpoint import Endpoint, Where
from unisono.sdk.clients.program_end import end_with_program
from unisono.sdk.follow.events import is_watched, telling
from unisono.sdk.follow.following import LogLine
from unisono.sdk.jobs.submission import Work
from unisono.sdk.state.views import JobHandle, JobRef, JobView

T = TypeVar("T")
OnClose = Callable[[], Awaitable[None]]

# Closing waits no longer than this for what is left to end, such as a private control plane with its pods.
_CLOSE_SECONDS = 10.0


class Portal:
    """Runs coroutines in the background loop and waits for them; safe from several threads.

    The thread is a daemon: a program that forgets `close` can end.
    """

    def __init__(self, on_close: OnClose | None = None) -> None:
        """``on_close`` runs last in the loop, also without a call of `close`; it must not refer to the portal."""
        self._loop = asyncio.new_event_loop()
        self._sources: set[AsyncGenerator[Any, None]] = set()
        self._thread = threading.Thread(
            target=_serve, args=(self._loop, self._sources, on_close or _nothing), name="unisono-sdk", daemon=True
        )
        self._thread.start()
        # No call may come between the loop's last turn and the news that it has ended: it would never be answered. The
        # garbage collector may end a forgotten iterator in the middle of a call, in the same thread.
        self._entrance = threading.RLock()
        self._finalizer = weakref.finalize(self, _end, self._loop, self._thread, self._entrance)

    @property
    def open(self) -> bool:
        """Whether the loop still runs."""
        return self._finalizer.alive

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the background loop.

        Raises:
            RuntimeError: the portal is closed.
        """
        with self._entrance:
            if self.open:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise RuntimeError("The client is closed: make a new one.")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine. Ctrl-C cancels it.

        Raises:
            RuntimeError: the portal is closed, or another thread closed it meanwhile.
        """
        future = self.start(work)
        try:
            return future.result()
        except CancelledError:
            if self.open:
                raise
            raise RuntimeError("The client was closed while this call waited.") from None
        except UnisonoError as error:
            # What happened on the way here says nothing about the caller's program: its frames come alone.
            raise error.with_traceback(None) from error.__cause__
        except BaseException:
            future.cancel()
            raise

    def iterate(self, source: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """The items of an asynchronous generator, one by one; it is closed when the caller stops."""
        self._sources.add(source)
        try:
            while True:
                try:
                    item = self.run(_next(source))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            # Not waited for: the garbage collector ends a forgotten iterator in any thread and in the middle of
            # anything. A portal that closes meanwhile closes its generators itself.
            with suppress(RuntimeError):
                self.start(_close(source, self._sources))

    def close(self) -> None:
        """Stop the loop; closing twice is fine."""
        self._finalizer()


async def _next(source: AsyncGenerator[T, None]) -> T:
    return await anext(source)


async def _close(source: AsyncGenerator[Any, None], sources: set[AsyncGenerator[Any, None]]) -> None:
    try:
        await source.aclose()
    finally:
        sources.discard(source)


async def _nothing() -> None:
    return


def _serve(loop: asyncio.AbstractEventLoop, sources: set[AsyncGenerator[Any, None]], on_close: OnClose) -> None:
    """The thread: the loop until it is stopped, and then what is left to end in it."""
    try:
        loop.run_forever()
        loop.run_until_complete(_finish(sources, on_close))
    finally:
        loop.close()


async def _finish(sources: set[AsyncGenerator[Any, None]], on_close: OnClose) -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    # One by one: each closes those that it reads from, and the loop would close them all at once.
    for source in tuple(sources):
        with suppress(Exception):
            await source.aclose()
    await asyncio.get_running_loop().shutdown_asyncgens()
    with suppress(UnisonoError, OSError):
        await on_close()


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread, entrance: AbstractContextManager[Any]) -> None:
    with entrance:
        loop.call_soon_threadsafe(loop.stop)
    # The garbage collector may end a forgotten portal in the loop's own thread, which must not wait for itself.
    if threading.current_thread() is not thread:
        thread.join(timeout=_CLOSE_SECONDS)


# The blocking client, for scripts and notebooks: `AsyncClient` behind a background loop.

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
