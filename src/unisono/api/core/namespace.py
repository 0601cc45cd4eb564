"""Namespace."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Object
from unisono.api.fields import Required, Time


class NamespaceSpec(Base):
    """Finalizers that must be gone before a namespace is removed."""

    finalizers: list[str] | None = None


class NamespaceCondition(Base):
    """A condition of a namespace."""

    type: Required = ""
    status: Required = ""
    last_transition_time: Time | None = None
    reason: str | None = None
    message: str | None = None


class NamespaceStatus(Base):
    """Phases are Active and Terminating."""

    phase: str | None = None
    conditions: list[NamespaceCondition] | None = None


class Namespace(Object):
    """A scope for names."""

    spec: NamespaceSpec = msgspec.field(default_factory=NamespaceSpec)
    status: NamespaceStatus = msgspec.field(default_factory=NamespaceStatus)
