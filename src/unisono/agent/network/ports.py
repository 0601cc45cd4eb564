"""Which pods wait because another gang has their port, on machines whose pods share the machine's ports. Pure.

The order is total, so that two gangs never wait for each other: gangs of which something was started come first, then
the oldest bound. A gang starts as one: while one of its members has to wait, none of it is started, because a worker
that runs ahead would find the other gang's server behind the port.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from unisono.agent.lifecycle import Reason
from unisono.api.core import Pod
from unisono.api.pod_states import scheduled_at
from unisono.api.selecting import pod_group_of
from unisono.api.times import time_or
from unisono.kube.clock import Clock

PORT_TAKEN = "PortTaken"
# How long a gang waits for the rest of its members before it takes its ports, while others want ports too: the binds of
# two gangs may arrive in any order.
SETTLE_SECONDS = 1.0

Port = tuple[str, int]
_Order = tuple[float, float, str]


@dataclass(frozen=True, slots=True)
class Claim:
    """What one live pod of this node wants of the machine's ports.

    Attributes:
        pod: namespace and name.
        group: its PodGroup, or the pod itself; members of one group are never kept apart.
        ports: protocol and number of every declared port.
        bound_at: when it was given its node, seconds since 1970.
        seen_at: when the agent took it over, seconds since 1970.
        started: a process of it was started; what it declares is its own until it ends.
    """

    pod: str
    group: str
    ports: frozenset[Port]
    bound_at: float
    seen_at: float
    started: bool = False

    @property
    def order(self) -> _Order:
        """Oldest bound first; names break ties."""
        return self.bound_at, self.seen_at, self.pod


@dataclass(frozen=True, slots=True)
class Hold:
    """Why no container of a pod may be started now; ``until`` is when to look again if nothing happens before."""

    why: Reason
    until: float | None = None


@dataclass(frozen=True, slots=True)
class _Gang:
    order: tuple[bool, _Order]
    started: bool
    seen_at: float
    ports: frozenset[Port]


def claim_of(pod: Pod, seen_at: float, *, started: bool) -> Claim:
    """The claim of a pod that is bound to this node.

    Args:
        pod: the pod.
        seen_at: when the agent took it over, seconds since 1970.
        started: a process of it was started.
    """
    return Claim(
        pod=pod.key,
        group=pod_group_of(pod) or f"pod {pod.key}",
        ports=declared_ports(pod),
        bound_at=time_or(scheduled_at(pod), seen_at),
        seen_at=seen_at,
        started=started,
    )


def declared_ports(pod: Pod) -> frozenset[Port]:
    """Every ``containerPort`` and ``hostPort`` of a pod: without a network of its own they are one and the same."""
    containers = (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))
    ports = [port for container in containers for port in container.ports or ()]
    return frozenset(
        (port.protocol or "TCP", number) for port in ports for number in (port.container_port, port.host_port) if number
    )


def hold(uid: str, claims: Mapping[str, Claim], now: float) -> Hold | None:
    """Why a pod must not start now; None when it may.

    Args:
        uid: the pod.
        claims: all live pods of this node by uid, the pod itself among them.
        now: seconds since 1970.
    """
    own = claims[uid]
    if own.started or not any(c.ports for c in claims.values() if c.group != own.group):
        return None
    gangs = _gangs(claims.values())
    gang = gangs[own.group]
    if not gang.started and now < gang.seen_at + SETTLE_SECONDS:
        return Hold(Reason("ContainerCreating", ""), gang.seen_at + SETTLE_SECONDS)
    # Of a gang that runs already only the newcomer waits.
    needed = own.ports if gang.started else gang.ports
    rivals = [c for c in claims.values() if c.group != own.group and c.ports & needed]
    # Told is what the pod itself needs, and who has it rather than who waits for it too.
    rivals.sort(key=lambda c: (not c.ports & own.ports, not c.started, gangs[c.group].order, c.order))
    for rival in rivals:
        if _goes_first(rival, own, claims, gangs):
            return Hold(_taken(own, min(rival.ports & own.ports or rival.ports & needed), rival))
    return None


def _goes_first(rival: Claim, own: Claim, claims: Mapping[str, Claim], gangs: Mapping[str, _Gang]) -> bool:
    theirs, ours = gangs[rival.group], gangs[own.group]
    if not rival.started and ours.order < theirs.order:
        return False
    # Gangs that both run and grow may want what the other has. The younger one does not wait then: its program finds
    # the port taken and says so, which is better than two gangs that never end.
    return not (ours.started and theirs.order < ours.order and _waits_for(rival.group, own.group, claims))


def _waits_for(group: str, goal: str, claims: Mapping[str, Claim]) -> bool:
    """Whether a member of ``group`` waits for a pod of ``goal`` that was started, directly or by way of others."""
    seen, todo = {group}, [group]
    while todo:
        current = todo.pop()
        needed = frozenset[Port]().union(*(c.ports for c in claims.values() if c.group == current and not c.started))
        holders = {c.group for c in claims.values() if c.started and c.group != current and c.ports & needed}
        if goal in holders:
            return True
        todo.extend(holders - seen)
        seen |= holders
    return False


def _gangs(claims: Iterable[Claim]) -> dict[str, _Gang]:
    members: dict[str, list[Claim]] = {}
    for claim in claims:
        members.setdefault(claim.group, []).append(claim)
    return {group: _gang(of_group) for group, of_group in members.items()}


def _gang(members: list[Claim]) -> _Gang:
    started = any(c.started for c in members)
    return _Gang(
        order=(not started, min(c.order for c in members)),
        started=started,
        seen_at=min(c.seen_at for c in members),
        ports=frozenset[Port]().union(*(c.ports for c in members)),
    )


def _taken(own: Claim, port: Port, holder: Claim) -> Reason:
    protocol, number = port
    name = f"{number}" if protocol == "TCP" else f"{number}/{protocol}"
    whose = "" if port in own.ports else " of its gang"
    return Reason(PORT_TAKEN, f"port {name}{whose} is taken by pod {holder.pod}; it starts when that pod ends")


class PortBook:
    """Keeps pods of different gangs from starting on the same declared port.

    It is filled from the pods of the API and their directories on disk, so that an agent that starts again decides as
    the last one did.

    Args:
        clock: the time.
        own_ports: pods have ports of their own; only those with ``hostNetwork`` share the machine's.
    """

    def __init__(self, clock: Clock, *, own_ports: bool) -> None:
        self._clock, self._own_ports = clock, own_ports
        self._claims: dict[str, Claim] = {}
        self._waiting: dict[str, Callable[[], None]] = {}

    def add(self, pod: Pod, seen_at: float, *, started: bool) -> None:
        """A pod is bound to this node.

        Args:
            pod: the pod.
            seen_at: when the agent took it over, seconds since 1970.
            started: a process of it was started by an earlier agent.
        """
        if not self._own_ports or pod.spec.host_network:
            self._claims[pod.metadata.uid or ""] = claim_of(pod, seen_at, started=started)

    def hold(self, uid: str, wake: Callable[[], None]) -> Hold | None:
        """Why a pod must not start now; ``wake`` is called when that may have changed."""
        obstacle = hold(uid, self._claims, self._clock.time()) if uid in self._claims else None
        if obstacle is None:
            self._waiting.pop(uid, None)
        else:
            self._waiting[uid] = wake
        return obstacle

    def started(self, uid: str) -> None:
        """A process of the pod is about to start: its ports are its own from now on."""
        claim = self._claims.get(uid)
        if claim is not None and not claim.started:
            self._claims[uid] = replace(claim, started=True)
            self._wake()

    def remove(self, uid: str) -> None:
        """Nothing of the pod runs any more, nor ever will."""
        self._waiting.pop(uid, None)
        if self._claims.pop(uid, None) is not None:
            self._wake()

    def _wake(self) -> None:
        for wake in list(self._waiting.values()):
            wake()
