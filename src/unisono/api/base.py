"""Base structs of every object on the wire, and the metadata that all share.

Conventions of this package:

* attribute names are snake_case, wire names camelCase (``rename="camel"``); initialisms such as ``podIP`` are
  spelled out with ``msgspec.field(name=...)``;
* every optional value is ``X | None = None``, so that an explicit zero survives a round trip and a JSON ``null``
  decodes; a value that must be there, where the empty one is invalid anyway, is ``Required = ""``;
* ``metadata``, ``spec``, ``status`` and ``template`` are always present structs;
* structs list every field of the kind: the schema that finds unknown fields is generated from them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from unisono.api.fields import Required, Time


class Base(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Base of every struct on the wire."""


class OwnerReference(Base):
    """Link from a dependent to its owner; the garbage collector follows it."""

    api_version: Required = ""
    kind: Required = ""
    name: Required = ""
    uid: Required = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Base):
    """Kubernetes object metadata."""

    name: str = ""
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None
    self_link: str | None = None
    managed_fields: list[dict[str, Any]] | None = None


class Object(Base):
    """Anything with apiVersion, kind and metadata."""

    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)

    @property
    def key(self) -> str:
        """``namespace/name``, or ``name`` for cluster-scoped objects."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
