"""A small kind of its own, for tests of machinery that does not care about kinds."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Object, ObjectMeta
from unisono.api.kind import Kind


class ThingSpec(Base):
    color: str | None = None


class Thing(Object):
    spec: ThingSpec = msgspec.field(default_factory=ThingSpec)


THINGS: Kind[Thing] = Kind("example.io", "v1", "Thing", "things", Thing)


def thing(name: str, color: str = "red", labels: dict[str, str] | None = None) -> Thing:
    return Thing(metadata=ObjectMeta(name=name, namespace="default", labels=labels), spec=ThingSpec(color=color))
