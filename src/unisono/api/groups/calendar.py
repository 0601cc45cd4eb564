"""What holds from a time to a time (``calendar.unisono.io``): Reservations of nodes, and TemporaryQuotas of queues."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from unisono.api.base import Base, LongName, Natural, Object, Positive, Required, ResourceList, Time

RESERVED = "Reserved"
MAINTENANCE = "Maintenance"
STAY = "Stay"
EVICT = "Evict"

_Names = Annotated[list[str], Meta(extra_json_schema={"maxItems": 1000})]


class Timed(Base):
    """When something holds.

    Attributes:
        start: when the window begins; with ``schedule`` the first moment at which one may begin.
        end: when it ends, or ``duration`` says it; with ``schedule`` no window begins at this time or later.
        duration: how long a window is, such as ``2h``.
        schedule: five fields of cron: a window begins at each of these times.
        time_zone: where the times of ``schedule`` are meant, such as ``Europe/Berlin``; UTC without it.
    """

    start: Time | None = None
    end: Time | None = None
    duration: str | None = None
    schedule: str | None = None
    time_zone: str | None = None


class ReservationSpec(Timed):
    """Which nodes, and for whom.

    Attributes:
        nodes: names of nodes; ``*`` stands for all.
        node_selector: labels that the nodes have.
        hyper_node: a HyperNode: nodes of this domain of the network.
        count: so many of these nodes, those that can take pods first, then by name.
        amounts: as many of these nodes as have so much together, such as ``nvidia.com/gpu: 16``.
        users: who may use the nodes within a window: users who have submitted the job.
        namespaces: or jobs of these namespaces; a ``*`` at the end stands for any ending.
        queues: or jobs of these queues, and of those below them.
        purpose: Reserved, or Maintenance: nobody may use them, and what runs there leaves before.
        running: what becomes of others' pods that run at the start: Stay, or Evict.
    """

    nodes: _Names | None = None
    node_selector: dict[str, str] | None = None
    hyper_node: LongName | None = None
    count: Positive | None = None
    amounts: ResourceList | None = None
    users: _Names | None = None
    namespaces: _Names | None = None
    queues: _Names | None = None
    purpose: Annotated[str, Meta(extra_json_schema={"enum": [RESERVED, MAINTENANCE]})] | None = None
    running: Annotated[str, Meta(extra_json_schema={"enum": [STAY, EVICT]})] | None = None


class ReservationStatus(Base):
    """What the scheduler says of it.

    Attributes:
        phase: Waiting for its next window, Active within one, or Over.
        window_start: when the present window has begun, or the next one begins.
        window_end: when that ends.
        node_count: how many nodes it is about.
        nodes: their names, the first hundred.
        others: pods on them that are not of those who may use them, and not of a DaemonSet.
        message: what the spec names that is not there, such as a node, a queue, or a resource that no node has.
    """

    phase: str | None = None
    window_start: Time | None = None
    window_end: Time | None = None
    node_count: Natural | None = None
    nodes: list[str] | None = None
    others: Natural | None = None
    message: str | None = None


class Reservation(Object):
    """Nodes that are kept for some users, namespaces or queues, or for maintenance, from a time to a time."""

    spec: ReservationSpec = msgspec.field(default_factory=ReservationSpec)
    status: ReservationStatus = msgspec.field(default_factory=ReservationStatus)


class TemporaryQuotaSpec(Timed):
    """Numbers of a queue that hold in place of its own; what is not named stays as the Queue says.

    Attributes:
        queue: its name.
        capability, deserved, guarantee: amounts by resource.
        weight: in place of ``spec.weight``.
    """

    queue: Required = ""
    capability: ResourceList | None = None
    deserved: ResourceList | None = None
    guarantee: ResourceList | None = None
    weight: Positive | None = None


class TemporaryQuota(Object):
    """Other numbers of a queue, from a time to a time."""

    spec: TemporaryQuotaSpec = msgspec.field(default_factory=TemporaryQuotaSpec)
