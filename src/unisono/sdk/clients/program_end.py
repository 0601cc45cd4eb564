"""Ends the jobs of a program that is told to end: SIGTERM of a script that waits for them.

The signal may come in the middle of any call, so the main thread may hold any lock of the client or of its event loop.
Therefore jobs are stopped by connections and an event loop of their own, while the main thread waits.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import weakref
from dataclasses import dataclass
from types import FrameType
from typing import Any, Protocol

from unisono.api.kind import Kind
from unisono.errors import NotFound, Unavailable, UnisonoError
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import ClusterConfig
from unisono.sdk.clients.endpoint import Endpoint
from unisono.sdk.jobs import control
from unisono.sdk.jobs.submission import kind_of
from unisono.sdk.state.observing import look
from unisono.sdk.state.views import JobView

# Jobs that are kept in mind for each client.
_MOST = 1000
# On a busy machine each request may take seconds; a second SIGTERM ends the program at once.
_SECONDS = 60.0
_PAUSE_SECONDS = 0.5


class Submits(Protocol):
    """The part of a client that says where its jobs are."""

    @property
    def open(self) -> bool:
        """Whether it has not been closed."""
        ...

    def endpoint(self) -> Endpoint:
        """The control plane that it talks to."""
        ...


@dataclass(frozen=True, slots=True)
class _Submitted:
    """A job, and how to reach the server that has it."""

    server: ClusterConfig
    kind: Kind[Any]
    namespace: str
    name: str


_jobs: weakref.WeakKeyDictionary[Submits, list[_Submitted]] = weakref.WeakKeyDictionary()


def end_with_program(client: Submits, job: JobView) -> None:
    """Stop a job when this program gets SIGTERM while the client is open.

    Only where the program has no handler of its own, and from its main thread; elsewhere nothing happens. A private
    control plane ends with the program in any case, and its jobs with it.
    """
    kind = kind_of({"apiVersion": job.api_version, "kind": job.kind})
    endpoint = client.endpoint()
    if kind is None or endpoint.private is not None:
        return
    jobs = _jobs.setdefault(client, [])
    jobs.append(_Submitted(endpoint.config, kind, job.namespace, job.name))
    del jobs[:-_MOST]
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        return
    signal.signal(signal.SIGTERM, _end)


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    jobs = [job for client, submitted in list(_jobs.items()) if client.open for job in submitted]
    thread = threading.Thread(target=lambda: asyncio.run(_stop_all(jobs)), daemon=True)
    thread.start()
    thread.join(timeout=_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


async def _stop_all(jobs: list[_Submitted]) -> None:
    servers = {id(job.server): HttpClient(job.server) for job in jobs}
    try:
        await asyncio.gather(*(_stop(servers[id(job.server)], job) for job in jobs))
    finally:
        await asyncio.gather(*(server.close() for server in servers.values()))


async def _stop(server: HttpClient, job: _Submitted) -> None:
    """Stop one job, unless it has ended; a server that does not answer is asked again until the program has ended."""
    while True:
        try:
            if not (await look(server, job.kind, job.namespace, job.name)).view.ended:
                await control.send_action(server, job.kind, job.namespace, job.name, "TerminateJob")
        except NotFound:
            return
        except (Unavailable, OSError):
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        except UnisonoError as error:
            print(f"{job.kind.kind} {job.namespace}/{job.name} goes on running: {error}", file=sys.stderr, flush=True)
        return
