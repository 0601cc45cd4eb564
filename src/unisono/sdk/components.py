"""Parts of a control plane, and whether they are alive, by the Leases that they renew."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unisono.api.annotations import SCHEDULER_CYCLES, SCHEDULER_NAMES
from unisono.api.heartbeats import renewed_at
from unisono.sdk.scheduler_health import judge, trusted

if TYPE_CHECKING:
    from unisono.api.core import Lease


_COMPONENT = "unisono-"
_SYSTEM = "kube-system"
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
    served = sorted({tuple(_names(lease)) for lease in cycles} - {()})
    for names in served:
        health = judge([lease for lease in cycles if tuple(_names(lease)) == names], names[0], now)
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


def _names(lease: Lease) -> list[str]:
    return [name for name in (lease.metadata.annotations or {}).get(SCHEDULER_NAMES, "").split(",") if name]
