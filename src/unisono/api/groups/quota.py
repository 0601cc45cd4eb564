"""What a cluster has of things that lie on no node, such as licences (``quota.unisono.io``)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from unisono.api.base import Base, Condition, Object

Count = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": 1_000_000})]
Pointer = Annotated[str, Meta(extra_json_schema={"maxLength": 256})]


class FloatingSource(Base, kw_only=True):
    """A server that is asked how many there are, and how many others hold.

    Attributes:
        url: ``http`` or ``https``; it answers with JSON of at most 64 KiB.
        amount_pointer: where the answer has the number of all (JSON pointer, RFC 6901); empty: it is ``spec.amount``.
        in_use_pointer: where it has the number that others hold; empty: it is ``spec.inUse``.
        interval_seconds: how often it is asked.
        stale_seconds: for how long an answer counts; without a newer one nothing more starts with the resource.
    """

    url: Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 2048}, extra={"required": True})] = ""
    amount_pointer: Pointer = ""
    in_use_pointer: Pointer = ""
    interval_seconds: Annotated[int, Meta(extra_json_schema={"minimum": 5, "maximum": 86_400, "default": 30})] = 30
    stale_seconds: Annotated[int, Meta(extra_json_schema={"minimum": 10, "maximum": 604_800, "default": 300})] = 300


class FloatingResourceSpec(Base):
    """How many there are.

    Attributes:
        amount: of the resource, those included that others hold.
        in_use: how many of them are held outside of this cluster.
        source: a server that knows one of these, or both.
    """

    amount: Count | None = None
    in_use: Count | None = None
    source: FloatingSource | None = None


class FloatingResourceStatus(Base):
    """What is known of it.

    Attributes:
        amount, elsewhere: as its source said last: how many there are, and how many others hold.
        observed: when it said so.
        in_use: how many the pods and jobs of this cluster hold.
    """

    amount: Annotated[int, Meta(extra_json_schema={"minimum": 0})] | None = None
    elsewhere: Annotated[int, Meta(extra_json_schema={"minimum": 0})] | None = None
    observed: str | None = None
    in_use: Annotated[int, Meta(extra_json_schema={"minimum": 0})] | None = None
    conditions: list[Condition] | None = None


class FloatingResource(Object):
    """A resource of the whole cluster that lies on no node; pods ask for ``licenses.unisono.io/NAME``."""

    spec: FloatingResourceSpec = msgspec.field(default_factory=FloatingResourceSpec)
    status: FloatingResourceStatus = msgspec.field(default_factory=FloatingResourceStatus)
