"""The kind of the ``scale`` subresource."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Object
from unisono.api.fields import Int32
from unisono.api.kind import Kind


class ScaleSpec(Base):
    """How many replicas there shall be."""

    replicas: Int32 | None = None


class ScaleStatus(Base):
    """How many replicas there are, and the labels by which they are found."""

    replicas: Int32 | None = None
    selector: str | None = None


class Scale(Object):
    """The replicas of an object, wherever its kind keeps them."""

    spec: ScaleSpec = msgspec.field(default_factory=ScaleSpec)
    status: ScaleStatus = msgspec.field(default_factory=ScaleStatus)


SCALES: Kind[Scale] = Kind("autoscaling", "v1", "Scale", "scales", Scale)
