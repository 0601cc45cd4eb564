"""The scheduler's heartbeat: a Lease that is renewed as long as cycles end, so that clients see a scheduler that hangs.

The Lease of leader election cannot tell that: it is renewed by a task of its own, whatever the cycles do. A look at the
state that finds nothing to do counts as a cycle. There is one write in ten seconds, however many cycles end, and one
soon after each change of what the Lease says of the configuration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import structlog

from unisono.api.annotations import (
    CONFIGURATION_DIGEST,
    CONFIGURATION_ERROR,
    CONFIGURATION_NOTES,
    CONFIGURATION_PARTS,
    CONFIGURATION_SOURCE,
    CYCLES_LEASE,
    ENFORCED_QUEUE_FIELDS,
    SCHEDULER_CYCLES,
    SCHEDULER_NAMES,
)
from unisono.api.base import ObjectMeta
from unisono.api.core import Lease, LeaseSpec, ObjectReference
from unisono.api.kinds import LEASES
from unisono.api.times import rfc3339_micro
from unisono.errors import NotFound, UnisonoError
from unisono.kube.client import Client
from unisono.kube.clock import Clock

_log = structlog.get_logger(__name__)

HEARTBEAT_LEASE = f"kube-system/{CYCLES_LEASE}"
_INTERVAL_SECONDS, _LOOK_SECONDS = 10.0, 1.0
# Three renewals may be missed before the scheduler counts as silent.
_DURATION_SECONDS = 30
_CLOSE_SECONDS = 2.0
_MOST_TEXT = 1000
# Absent means that the scheduler is older than the annotation; empty says that there is nothing.
_ALWAYS = (SCHEDULER_NAMES, ENFORCED_QUEUE_FIELDS)


class Heartbeat:
    """Renews one Lease; failures are logged, and never stop the scheduler.

    Attributes:
        told: the first cycle has ended, and the Lease says so, or could not be written.
    """

    def __init__(self, client: Client, clock: Clock, lease: str, scheduler_names: Iterable[str]) -> None:
        """``lease`` is ``NAMESPACE/NAME``."""
        self._client, self._clock = client, clock
        self._namespace, _, self._name = lease.partition("/")
        self._names = ",".join(scheduler_names)
        self._last: tuple[float, float] | None = None
        self._facts: dict[str, str] = {}
        self._told: tuple[float, dict[str, str]] = (0.0, {})
        self._failing = self._held = False
        self._began = clock.monotonic()
        self._first = asyncio.Event()
        self.told = asyncio.Event()

    def ended(
        self,
        config_error: str = "",
        enforced: Iterable[str] = (),
        source: str = "",
        notes: Iterable[str] = (),
        text: str = "",
        parts: Iterable[str] = (),
    ) -> None:
        """A cycle has ended.

        Args:
            config_error: why the newest configuration is refused.
            enforced: fields of Queues that the configuration in force enforces.
            source: where the newest configuration stands.
            notes: what its writer should know of the configuration in force.
            text: the newest configuration.
            parts: names of the actions and plug-ins in force.
        """
        self._last = self._clock.monotonic(), self._clock.time()
        self._first.set()
        self._facts = {
            SCHEDULER_NAMES: self._names,
            CONFIGURATION_ERROR: config_error[:_MOST_TEXT],
            CONFIGURATION_DIGEST: sha256(text.encode()).hexdigest() if text else "",
            CONFIGURATION_SOURCE: source[:_MOST_TEXT],
            CONFIGURATION_NOTES: "\n".join(notes)[:_MOST_TEXT],
            CONFIGURATION_PARTS: ",".join(sorted(parts)),
            ENFORCED_QUEUE_FIELDS: ",".join(enforced),
        }

    @property
    def reference(self) -> ObjectReference:
        """The Lease, for events."""
        return ObjectReference(
            api_version=LEASES.api_version, kind=LEASES.kind, namespace=self._namespace, name=self._name
        )

    def silent_seconds(self) -> float:
        """Seconds since the latest cycle ended, or since the start where none has ended."""
        return max(0.0, self._clock.monotonic() - (self._last[0] if self._last else self._began))

    async def run(self) -> None:
        """Write until cancelled."""
        self._began = self._clock.monotonic()
        await self._first.wait()
        due = self._began
        while True:
            now = self._clock.monotonic()
            if self._last is not None and (
                self._facts != self._told[1] or (now >= due and self._last[1] != self._told[0])
            ):
                await self._renew(self._last[1], self._facts)
                self.told.set()
                due = now + (_INTERVAL_SECONDS if self._held else _LOOK_SECONDS)
            await self._clock.sleep(_LOOK_SECONDS)

    async def close(self) -> None:
        """Say that the scheduler has ended."""
        if not self._held:
            return
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._client.patch(
                    LEASES, self._name, {"spec": {"holderIdentity": None}}, namespace=self._namespace
                )
        except (UnisonoError, OSError, TimeoutError) as error:
            _log.debug("heartbeat.close_failed", error=str(error))

    async def _renew(self, when: float, facts: dict[str, str]) -> None:
        annotations = {key: value if value or key in _ALWAYS else None for key, value in facts.items()}
        spec = {
            "holderIdentity": self._name,
            "renewTime": rfc3339_micro(when),
            "leaseDurationSeconds": _DURATION_SECONDS,
        }
        meta: dict[str, Any] = {"annotations": annotations, "labels": {SCHEDULER_CYCLES: "true"}}
        try:
            try:
                await self._client.patch(
                    LEASES, self._name, {"metadata": meta, "spec": spec}, namespace=self._namespace
                )
            except NotFound:
                await self._client.create(LEASES, self._new(when, facts))
        except (UnisonoError, OSError, TimeoutError) as failure:
            if not self._failing:
                _log.warning("heartbeat.failed", lease=f"{self._namespace}/{self._name}", error=str(failure))
            self._failing = True
            return
        self._failing, self._held, self._told = False, True, (when, facts)

    def _new(self, when: float, facts: dict[str, str]) -> Lease:
        meta = ObjectMeta(
            name=self._name,
            namespace=self._namespace,
            labels={SCHEDULER_CYCLES: "true"},
            annotations={key: value for key, value in facts.items() if value or key in _ALWAYS},
        )
        spec = LeaseSpec(
            holder_identity=self._name, lease_duration_seconds=_DURATION_SECONDS, renew_time=rfc3339_micro(when)
        )
        return Lease(metadata=meta, spec=spec)
