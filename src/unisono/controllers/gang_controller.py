"""Base of the controllers that run jobs as gangs: what they keep of a job, and how they carry out a plan."""

from __future__ import annotations

import asyncio
from typing import Any, Generic, TypeVar

from unisono.api.base import Object
from unisono.api.core import PriorityClass
from unisono.controllers.execution import Executor, Offload
from unisono.controllers.expectations import Expectations
from unisono.controllers.notices import Announcer, Notice
from unisono.controllers.plan import BasePlan
from unisono.controllers.recorder import Recorder
from unisono.controllers.statuses import LastWritten
from unisono.errors import NotFound
from unisono.kube.client import Client
from unisono.kube.clock import Clock
from unisono.kube.controller import Controller, free_frames
from unisono.kube.informer import Informer

T = TypeVar("T", bound=Object)
P = TypeVar("P", bound=BasePlan)


class GangController(Controller, Generic[T, P]):
    """Base of the controllers; ``setup`` of a subclass fills the attributes that are only declared here."""

    _client: Client
    _clock: Clock
    _jobs: Informer[T]
    _priorities: Informer[PriorityClass]
    _executor: Executor[T, P]

    def __init__(self, recorder: Recorder, offload: Offload = asyncio.to_thread) -> None:
        """``offload`` runs what computes for long, such as the making of keys, away from the event loop."""
        self._announcer, self._offload = Announcer(recorder), offload
        self._expectations = Expectations()
        self._written: LastWritten[T] = LastWritten()

    def wrote(self, job: T) -> None:
        """Called with a job whose status was written."""

    async def _carry_out(self, key: str, job: T, plan: P) -> float | None:
        """Carry a plan out; answers after how many seconds to decide again."""
        try:
            written, again = await self._executor.run(job, plan)
        except NotFound as error:
            if self._jobs.get(key) is None:
                free_frames(error)
                return None
            raise
        if written is not job:
            self._written.keep(written)
            self.wrote(written)
        return again

    def _expected(self, job: T) -> frozenset[str]:
        """What was made for a job and the caches do not show yet: ``pods/<name>``, ``services/<name>``."""
        return self._expectations.pending(job.metadata.uid or "", self._clock.monotonic())

    def _priority(self, name: str | None) -> int:
        """Value of a priority class, 0 when it is unknown."""
        found = self._priorities.get(name) if name else None
        return (found.value or 0) if found else 0

    def _notify(self, job: Any, notice: Notice) -> None:
        self._announcer.tell(job, [notice])

    def _forget(self, job: T) -> None:
        """Drop what is kept of a deleted job."""
        self._executor.forget(job.metadata.uid or "")
        self._announcer.forget(job)
