"""LimitRange (v1)."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Object
from unisono.api.fields import Required, ResourceList


class LimitRangeItem(Base):
    """Bounds on one type of thing.

    Attributes:
        type: Container, Pod or PersistentVolumeClaim.
        max: the most of each resource.
        min: the least of each resource.
        default: limits of containers that give none.
        default_request: requests of containers that give none.
        max_limit_request_ratio: how many times its request a limit may be.

    """

    type: Required = ""
    max: ResourceList | None = None
    min: ResourceList | None = None
    default: ResourceList | None = None
    default_request: ResourceList | None = None
    max_limit_request_ratio: ResourceList | None = None


class LimitRangeSpec(Base):
    """All bounds of a LimitRange."""

    limits: list[LimitRangeItem] = msgspec.field(default_factory=list)


class LimitRange(Object):
    """Defaults and bounds for what single containers, pods and claims of a namespace ask for."""

    spec: LimitRangeSpec = msgspec.field(default_factory=LimitRangeSpec)
