"""Whether a scheduler is alive, as its heartbeat tells: a Lease that it renews as long as its cycles end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import msgspec

from unisono.api.annotations import CONFIGURATION_ERROR, SCHEDULER_CYCLES, SCHEDULER_NAMES
from unisono.api.core import Lease
from unisono.api.kinds import LEASES
from unisono.api.node_usage import DURATION_SECONDS, renewed_at, silence

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient

_SYSTEM = "kube-system"


@dataclass(frozen=True, slots=True)
class SchedulerHealth:
    """What is known of the schedulers of one ``schedulerName``.

    Attributes:
        silent: why nothing is scheduled; empty where a scheduler is alive, or none has ever told.
        configuration_error: why the newest configuration is refused.
        annotations: of the Lease by which the scheduler tells.
    """

    silent: str = ""
    configuration_error: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def alive(self) -> bool:
        """Whether a scheduler has told of itself lately."""
        return bool(self.annotations)

    @property
    def known(self) -> bool:
        """Whether a scheduler of this name has ever told of itself."""
        return bool(self.annotations or self.silent)


class _Leases(msgspec.Struct):
    items: list[Lease] = []


async def scheduler_health(client: HttpClient, name: str) -> SchedulerHealth:
    """Ask the server for the heartbeats of the schedulers that serve ``name``.

    Users who may not list Leases learn nothing here.
    """
    params = {"labelSelector": f"{SCHEDULER_CYCLES}=true"}
    status, headers, body = await client.request("GET", LEASES.path(None), params=params)
    if status >= 300:
        return SchedulerHealth()
    try:
        leases = msgspec.json.decode(body, type=_Leases).items
    except msgspec.DecodeError:
        return SchedulerHealth()
    serving = [lease for lease in leases if name in _names(lease)]
    return judge(serving, name, client.transport.clock.time() + _ahead(headers))


def judge(leases: Iterable[Lease], name: str, now: float) -> SchedulerHealth:
    """The health that the heartbeats of one ``schedulerName`` show at ``now``, seconds since the epoch."""
    latest, renewed = None, 0.0
    for lease in trusted(leases):
        when = renewed_at(lease)
        if when <= now + DURATION_SECONDS and (latest is None or when > renewed):
            latest, renewed = lease, when
    if latest is None:
        return SchedulerHealth()
    if why := silence(latest, now):
        where = f"schedulerName {name}, Lease {latest.metadata.namespace}/{latest.metadata.name}"
        return SchedulerHealth(f"{why} ({where})")
    annotations = latest.metadata.annotations or {}
    return SchedulerHealth(configuration_error=annotations.get(CONFIGURATION_ERROR, ""), annotations=annotations)


def trusted(leases: Iterable[Lease]) -> list[Lease]:
    """Those of the system's namespace, or else of the namespace in which the first one was made.

    Users may write Leases in their own namespaces: what those say of a scheduler does not count.
    """
    candidates = list(leases)
    first = min(candidates, key=lambda lease: lease.metadata.creation_timestamp or "", default=None)
    where = {lease.metadata.namespace for lease in candidates}
    if first is None:
        return []
    namespace = _SYSTEM if _SYSTEM in where else first.metadata.namespace
    return [lease for lease in candidates if lease.metadata.namespace == namespace]


def _names(lease: Lease) -> list[str]:
    return [name for name in (lease.metadata.annotations or {}).get(SCHEDULER_NAMES, "").split(",") if name]


async def server_time(client: HttpClient) -> float:
    """Seconds since the epoch by the server's clock."""
    _, headers, _ = await client.request("GET", "/version")
    return client.transport.clock.time() + _ahead(headers)


def _ahead(headers: Mapping[str, str]) -> float:
    """Seconds by which the server's clock is ahead of this machine's, which may be wrong by minutes."""
    date = next((value for key, value in headers.items() if key.lower() == "date"), "")
    try:
        moment = parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError):
        return 0.0
    ahead = moment - time.time()
    # The header has whole seconds.
    return ahead if abs(ahead) > 2.0 else 0.0


# Parts of a control plane, and whether they are alive, by the Leases that they renew.

_COMPONENT = "unisono-"
_LEASE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Component:
    """A part of the control plane; ``problem`` is empty where it is alive."""

    name: str
    problem: str = ""
    note: str = ""


def components(leases: Iterable[Lease], now: float, problem: str = "", *, seen: bool = True) -> list[Component]:
    """Parts of the control plane: the API server with what its readiness says, and those that tell it by a Lease.

    Where the user may not list Leases (``seen`` is false), nothing is known of the others.
    """
    leases = list(leases)
    parts = [Component("api server", problem)]
    cycles = trusted(lease for lease in leases if SCHEDULER_CYCLES in (lease.metadata.labels or {}))
    # Users may write Leases of any name in their own namespaces.
    where = {_SYSTEM, *(lease.metadata.namespace for lease in cycles)}
    served = sorted({tuple(_candidate_names(lease)) for lease in cycles} - {()})
    for names in served:
        health = judge([lease for lease in cycles if tuple(_candidate_names(lease)) == names], names[0], now)
        refused = f"its newest configuration is refused: {health.configuration_error}"
        problem = health.silent or (refused if health.configuration_error else "")
        parts.append(Component("scheduler", problem, f"for {', '.join(names)}"))
    if not served and seen:
        parts.append(Component("scheduler", "no scheduler has ever told that it is alive"))
    for lease in sorted(leases, key=lambda each: each.metadata.name):
        own = not cycles or lease.metadata.namespace in where
        if own and lease.metadata.name.startswith(_COMPONENT) and lease not in cycles:
            parts.append(_elected(lease, now))
    return parts


def _elected(lease: Lease, now: float) -> Component:
    """A component of which one process at a time holds a Lease."""
    name = lease.metadata.name.removeprefix(_COMPONENT)
    if not lease.spec.holder_identity:
        return Component(name, "no process of it is running")
    age = now - renewed_at(lease)
    if age > float(lease.spec.lease_duration_seconds or _LEASE_SECONDS):
        return Component(name, f"{lease.spec.holder_identity} has not answered for {age:.0f} s")
    return Component(name, note=lease.spec.holder_identity)


def _candidate_names(lease: Lease) -> list[str]:
    return [name for name in (lease.metadata.annotations or {}).get(SCHEDULER_NAMES, "").split(",") if name]
