"""Ends the jobs of a program that is told to end: SIGTERM of a script that waits for them."""

from __future__ import annotations

import os
import signal
import threading
import weakref
from contextlib import suppress
from types import FrameType
from typing import Protocol

from unisono.errors import UnisonoError
from unisono.sdk.views import JobView


class Steers(Protocol):
    """The part of a client that stops jobs."""

    def get(self, job: JobView) -> JobView:
        """How the job is doing."""
        ...

    def cancel(self, job: JobView) -> None:
        """Stop the job for good."""
        ...


# Jobs that are kept in mind for each client.
_MOST = 1000
# On a busy machine each request may take seconds; a second SIGTERM ends the program at once.
_SECONDS = 60.0
_jobs: weakref.WeakKeyDictionary[Steers, list[JobView]] = weakref.WeakKeyDictionary()


def end_with_program(client: Steers, job: JobView) -> None:
    """Stop a job when this program gets SIGTERM.

    Only where the program has no handler of its own, and from its main thread; elsewhere nothing happens.
    """
    known = _jobs.setdefault(client, [])
    known.append(job)
    del known[:-_MOST]
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        return
    signal.signal(signal.SIGTERM, _end)


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # In another thread: the signal may have come in the middle of a call that holds the client's lock.
    thread = threading.Thread(target=_stop_all, daemon=True)
    thread.start()
    thread.join(timeout=_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


def _stop_all() -> None:
    for client, jobs in list(_jobs.items()):
        for job in jobs:
            # Errors: it has ended and is deleted, or the control plane is gone.
            with suppress(UnisonoError, RuntimeError, OSError):
                if not client.get(job).ended:
                    client.cancel(job)
