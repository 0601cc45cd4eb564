"""Base structs, field types and metadata that objects of all kinds share."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

# Field types that the structs share.
#
# ``Meta(extra_json_schema=...)`` puts a constraint into the generated schema without msgspec enforcing it while
# decoding:
# watching a real API server must never fail on a value that this version would have rejected.

LABEL_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)

Int32 = Annotated[int, Meta(extra_json_schema={"format": "int32"})]
Natural = Annotated[int, Meta(extra_json_schema={"format": "int32", "minimum": 0})]
Positive = Annotated[int, Meta(extra_json_schema={"format": "int32", "minimum": 1})]

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
MicroTime = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Base64 = Annotated[str, Meta(extra_json_schema={"format": "byte"})]

# A field of this type must be there; the empty string counts as missing, as in Kubernetes.
Required = Annotated[str, Meta(extra={"required": True})]
RequiredPort = Annotated[int, Meta(extra_json_schema={"format": "int32"}, extra={"required": True})]

ObjectName = Annotated[str, Meta(extra_json_schema={"maxLength": 253, "pattern": NAME_PATTERN})]
LongName = Annotated[str, Meta(extra_json_schema={"maxLength": 253})]
ShortName = Annotated[str, Meta(extra_json_schema={"maxLength": 63})]

# int32 or string on the wire (ports, percentages).
IntOrString = int | str
# A number or a string of Kubernetes' quantity grammar (``unisono.api.quantity``).
Quantity = str | int | float
# Resource name to quantity.
ResourceList = dict[str, Quantity]
# JSON that no struct describes; the schema preserves it.
FreeObject = dict[str, Any]


# Base structs of every object on the wire, and the metadata that all share.
#
# Conventions of this package:
#
# * attribute names are snake_case, wire names camelCase (``rename="camel"``); initialisms such as ``podIP`` are
#   spelled out with ``msgspec.field(name=...)``;
# * every optional value is ``X | None = None``, so that an explicit zero survives a round trip and a JSON ``null``
#   decodes; a value that must be there, where the empty one is invalid anyway, is ``Required = ""``;
# * ``metadata``, ``spec``, ``status`` and ``template`` are always present structs;
# * structs list every field of the kind: the schema that finds unknown fields is generated from them.


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


# Shared parts of ``meta.k8s.io/v1``: label selectors and conditions.


class LabelSelectorRequirement(Base):
    """``key operator values``; operators are In, NotIn, Exists, DoesNotExist."""

    key: Required = ""
    operator: Required = ""
    values: list[str] | None = None


class LabelSelector(Base):
    """All of ``match_labels`` and all of ``match_expressions``; empty selects everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None


class Condition(Base):
    """Standard condition of a kind's status."""

    type: Required = ""
    status: Required = ""
    observed_generation: int | None = None
    last_transition_time: Time | None = None
    reason: str | None = None
    message: str | None = None
