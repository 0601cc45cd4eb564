"""Leader election on a Lease, with fencing: a leader that cannot renew stops before anyone else can start.

Two times keep leaders apart. A leader may write until ``renew_deadline`` after the *start* of its last successful
renew; a rival takes over only after it has seen the lease unchanged for ``lease_seconds`` by its own clock, which
starts later and lasts longer. Wall clocks of two machines are never compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from unisono.api.base import ObjectMeta
from unisono.api.core import Lease, LeaseSpec
from unisono.api.kinds import LEASES
from unisono.api.times import rfc3339_micro
from unisono.errors import AlreadyExists, ApiError, Conflict, NotFound, UnisonoError
from unisono.kube.client import Client
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.lazy_logs import LazyLogger

_log = LazyLogger(__name__)


class LeadershipLost(UnisonoError):
    """The process is not, or no longer, the leader and must not write."""


class LeaderElector:
    """Holds one Lease for one identity."""

    def __init__(
        self,
        client: Client,
        name: str,
        namespace: str,
        identity: str,
        *,
        clock: Clock = SYSTEM_CLOCK,
        lease_seconds: float = 15.0,
        renew_deadline: float = 10.0,
        retry_seconds: float = 2.0,
    ) -> None:
        """Needs ``retry_seconds < renew_deadline < lease_seconds``; ``identity`` must be unique per process."""
        if not 0 < retry_seconds < renew_deadline < lease_seconds:
            raise ValueError("leader election needs 0 < retry_seconds < renew_deadline < lease_seconds")
        self._client, self._name, self._namespace, self._identity = client, name, namespace, identity
        self._clock = clock
        self._lease_seconds, self._renew_deadline, self._retry = lease_seconds, renew_deadline, retry_seconds
        self._valid_until = float("-inf")
        self._seen: tuple[str, float] | None = None

    @property
    def valid(self) -> bool:
        """Whether this process may write now."""
        return self._clock.monotonic() < self._valid_until

    async def run(self, work: Callable[[Client], Awaitable[None]]) -> None:
        """Wait for the lease, then run ``work`` with a fenced client for as long as the lease is held.

        Returns when ``work`` returns; the lease is then given back.

        Raises:
            LeadershipLost: the lease could not be renewed in time; ``work`` has been cancelled.
        """
        while not await self._try():
            await self._clock.sleep(self._retry)
        _log.info("leader.elected", lease=self._name, identity=self._identity)
        job = asyncio.ensure_future(work(fenced(self._client, self)))
        keeper = asyncio.ensure_future(self._keep())
        try:
            await asyncio.wait([job, keeper], return_when=asyncio.FIRST_COMPLETED)
            failed = job.done() and not job.cancelled() and job.exception() is not None
            if not job.done() or (failed and not self.valid):
                # Work that was refused a write may end before the keeper does: that is no failure of its own.
                _log.error("leader.lost", lease=self._name, identity=self._identity)
                raise LeadershipLost(f"the lease {self._namespace}/{self._name} could not be renewed in time")
            job.result()
        finally:
            for task in (job, keeper):
                task.cancel()
            await asyncio.gather(job, keeper, return_exceptions=True)
            await self._release()

    async def _keep(self) -> None:
        """Renew until the deadline passes without a success."""
        while self.valid:
            left = self._valid_until - self._clock.monotonic()
            await self._clock.sleep(min(self._retry, left))
            if not self.valid:
                return
            renewal = asyncio.ensure_future(self._try())
            alarm = asyncio.ensure_future(self._clock.sleep(self._valid_until - self._clock.monotonic()))
            try:
                # A renew that hangs must not hide that the deadline passes.
                await asyncio.wait([renewal, alarm], return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (renewal, alarm):
                    task.cancel()
                await asyncio.gather(renewal, alarm, return_exceptions=True)

    async def _try(self) -> bool:
        """One attempt to take or renew the lease; True when it is ours."""
        started = self._clock.monotonic()
        try:
            held = await self._take()
        except (AlreadyExists, Conflict, NotFound):
            return False
        except (ApiError, OSError, TimeoutError) as error:
            _log.warning("leader.renew_failed", lease=self._name, error=str(error))
            return False
        if held:
            self._valid_until = started + self._renew_deadline
        return held

    async def _take(self) -> bool:
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            await self._client.create(LEASES, self._new())
            return True
        ours = lease.spec.holder_identity == self._identity
        if not ours and not self._expired(lease):
            return False
        spec: dict[str, Any] = {
            "holderIdentity": self._identity,
            "renewTime": rfc3339_micro(self._clock.time()),
            "leaseDurationSeconds": int(self._lease_seconds),
        }
        if not ours:
            spec["acquireTime"] = spec["renewTime"]
            spec["leaseTransitions"] = (lease.spec.lease_transitions or 0) + 1
        patch = {"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": spec}
        await self._client.patch(LEASES, self._name, patch, namespace=self._namespace)
        return True

    def _expired(self, lease: Lease) -> bool:
        version, now = lease.metadata.resource_version or "", self._clock.monotonic()
        if not lease.spec.holder_identity:
            return True
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, now)
        duration = max(float(lease.spec.lease_duration_seconds or 0), self._lease_seconds)
        return now - self._seen[1] >= duration

    def _new(self) -> Lease:
        now = rfc3339_micro(self._clock.time())
        return Lease(
            metadata=ObjectMeta(name=self._name, namespace=self._namespace),
            spec=LeaseSpec(
                holder_identity=self._identity,
                lease_duration_seconds=int(self._lease_seconds),
                acquire_time=now,
                renew_time=now,
                lease_transitions=0,
            ),
        )

    async def _release(self) -> None:
        """Give the lease back so that the next leader need not wait; only while it is surely ours."""
        was_valid, self._valid_until = self.valid, float("-inf")
        if not was_valid:
            return
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
            if lease.spec.holder_identity == self._identity:
                version = lease.metadata.resource_version
                patch = {"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": None}}
                await self._client.patch(LEASES, self._name, patch, namespace=self._namespace)
        except (ApiError, OSError, TimeoutError) as error:
            _log.warning("leader.release_failed", lease=self._name, error=str(error))


def fenced(client: Client, elector: LeaderElector) -> Client:
    """The client, whose writes raise `LeadershipLost` once the lease is not surely held any more."""
    return cast(Client, _Fenced(client, elector))


class _Fenced:
    _READS = ("pace", "streams_lists", "get", "list", "watch", "close")

    def __init__(self, client: Client, elector: LeaderElector) -> None:
        self._client, self._elector = client, elector

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if name in self._READS:
            return method

        async def write(*args: Any, **options: Any) -> Any:
            if not self._elector.valid:
                raise LeadershipLost("this process is not the leader any more and must not write")
            return await method(*args, **options)

        return write
