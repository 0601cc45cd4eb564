"""``metrics.k8s.io``: what nodes and containers use now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from unisono.api.base import Base, Object, Time
from unisono.api.kind import served

GROUP = "metrics.k8s.io"


class NodeMetrics(Object):
    """What a node uses.

    Attributes:
        timestamp: end of the time over which was measured.
        window: how long that was.
        usage: ``cpu`` and ``memory``.
    """

    timestamp: Time | None = None
    window: str = "0s"
    usage: dict[str, str] | None = None


class ContainerMetrics(Base):
    """What one container uses."""

    name: str = ""
    usage: dict[str, str] | None = None


class PodMetrics(Object):
    """What the containers of a pod use; attributes as of a node."""

    timestamp: Time | None = None
    window: str = "0s"
    containers: list[ContainerMetrics] | None = None


NODE_METRICS = served(GROUP, "v1beta1", NodeMetrics, plural="nodes", namespaced=False)
POD_METRICS = served(GROUP, "v1beta1", PodMetrics, plural="pods")


@dataclass(frozen=True, slots=True)
class Amounts:
    """Processors in thousandths, memory in bytes."""

    cpu: int
    memory: int


@dataclass(frozen=True, slots=True)
class Metered:
    """What was measured on one machine.

    Attributes:
        node: name of its node.
        at: end of the measurement, seconds since 1970.
        seconds: how long it was.
        machine: everything that runs on the machine.
        pods: by uid of the pod, what each container that runs uses.
    """

    node: str
    at: float
    seconds: float
    machine: Amounts
    pods: Mapping[str, Mapping[str, Amounts]] = field(default_factory=dict)


class Meter(Protocol):
    """Measures the machine of a node agent."""

    async def read(self) -> Metered:
        """What is used now, measured over a second at least.

        Raises:
            OSError: the kernel does not tell.
        """
        ...
