"""RuntimeClass (node.k8s.io/v1): what pods of a container runtime need besides their containers."""

from __future__ import annotations

from unisono.api.base import Base, Object
from unisono.api.core.affinity import Toleration
from unisono.api.fields import Required, ResourceList


class RuntimeClassOverhead(Base):
    """What the runtime itself takes for each pod."""

    pod_fixed: ResourceList | None = None


class RuntimeClassScheduling(Base):
    """Which nodes have the runtime."""

    node_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None


class RuntimeClass(Object):
    """A container runtime by name; admission completes the pods that name it."""

    handler: Required = ""
    overhead: RuntimeClassOverhead | None = None
    scheduling: RuntimeClassScheduling | None = None
