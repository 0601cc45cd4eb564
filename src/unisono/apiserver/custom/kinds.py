"""A user-defined kind under one version: how its objects are read, completed, checked and stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api.base import Object, ObjectMeta
from unisono.api.decode import Decoded, decode
from unisono.api.kind import Kind
from unisono.api.schema import schema_of
from unisono.api.structural import Node, add_defaults, drop_nulls, prune
from unisono.api.structural.embedded import read_embedded
from unisono.apiserver.custom.objects import CustomObject
from unisono.apiserver.custom.plain import plain

if TYPE_CHECKING:
    from unisono.apiserver.custom.definition import Definition, Version

_META: Kind[Object] = Kind("meta.k8s.io", "v1", "Object", "objects", Object)
_JSON = msgspec.json.Decoder().decode
_ENCODE = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class CustomKind(Kind[CustomObject]):
    """One version of a definition.

    Attributes:
        definition: all versions.
        details: what the definition says of this version.
        converted: what a webhook has made of objects of other versions, by their stored bytes; None where no webhook
            converts. A kind with it serves one request.

    """

    definition: Definition = field(default=None, compare=False, repr=False)  # type: ignore[assignment]
    details: Version = field(default=None, compare=False, repr=False)  # type: ignore[assignment]
    converted: dict[bytes, bytes] | None = field(default=None, compare=False, repr=False)

    @property
    def node(self) -> Node:
        """The schema of this version."""
        return self.details.node

    @property
    def list_kind(self) -> str:
        """What a list of objects is called."""
        return self.definition.list_kind

    def decode(self, body: dict[str, Any]) -> Decoded[CustomObject]:
        """Read a request's body: unknown fields pruned, nulls dropped, defaults filled in."""
        header = decode(_META, {"metadata": body.get("metadata", {})})
        rest = {name: value for name, value in body.items() if name not in ("apiVersion", "kind", "metadata")}
        content: dict[str, Any] = plain(rest)
        unknown = prune(self.node, content, root=True)
        unknown += read_embedded(self.node, content)
        drop_nulls(self.node, content)
        given = {"apiVersion": self.api_version, "kind": self.kind, **header.clean, **msgspec.to_builtins(content)}
        add_defaults(self.node, content)
        obj = self._object(header.obj.metadata, content)
        return Decoded(obj, [*header.unknown_fields, *unknown], header.type_errors, given)

    def read(self, data: bytes) -> CustomObject:
        """An object from stored bytes, in this version."""
        value = _JSON(self.view(data))
        metadata = msgspec.convert(value["metadata"], ObjectMeta)
        content = {name: each for name, each in value.items() if name not in ("apiVersion", "kind", "metadata")}
        return self._object(metadata, content)

    def view(self, data: bytes) -> bytes:
        """Stored bytes as this version shows them: pruned and defaulted by its schema of today."""
        found = self.converted.get(data) if self.converted else None
        return self.definition.view(data, self.version) if found is None else found

    def knows(self, data: bytes) -> bool:
        """Whether ``view`` can show stored bytes without asking a webhook."""
        if self.converted is None or data in self.converted or self.definition.version_of(data) == self.version:
            return True
        known = self.definition.known(data, self.version)
        if known is not None:
            self.converted[data] = known
        return known is not None

    def learn(self, data: bytes, value: dict[str, Any]) -> None:
        """Take what the webhook has made of stored bytes."""
        shown = _ENCODE(self.convert(value, None))
        self.definition.remember(data, self.version, shown)
        if self.converted is not None:
            self.converted[data] = shown

    def stored_object(self, value: dict[str, Any], metadata: ObjectMeta) -> CustomObject:
        """What a webhook has made of an object with ``metadata``, ready to be stored in this version."""
        prune(self.node, value, root=True)
        said = value["metadata"]
        metadata = msgspec.structs.replace(metadata, labels=said.get("labels"), annotations=said.get("annotations"))
        content = {name: each for name, each in value.items() if name not in ("apiVersion", "kind", "metadata")}
        return self._object(metadata, content)

    def convert(self, value: dict[str, Any], source: Node | None) -> dict[str, Any]:
        """Change a decoded object, in place, to this version; ``source`` is the schema it was stored by."""
        if source is not None and source is not self.node:
            prune(source, value, root=True)
        value["apiVersion"] = self.api_version
        prune(self.node, value, root=True)
        add_defaults(self.node, value)
        return value

    def _object(self, metadata: ObjectMeta, content: dict[str, Any]) -> CustomObject:
        return CustomObject(
            api_version=self.api_version, kind=self.kind, metadata=metadata, custom=self, content=content
        )


def stored_bytes(obj: CustomObject) -> bytes:
    """The object as it is stored: in the storage version, without what that version does not know.

    Where a webhook converts, it has done so by now, and only changes of metadata stay in the version they were in.
    """
    custom: CustomKind = obj.custom
    storage = custom.definition.storage
    if storage.version == custom.version or custom.definition.webhook is not None:
        return obj.encoded()
    # A copy: pruning must not reach the object that is being written.
    value = _JSON(obj.encoded())
    value["apiVersion"] = storage.api_version
    prune(storage.node, value, root=True)
    return _ENCODE(value)


def in_version_of(kind: Kind[Any], data: bytes) -> Kind[Any]:
    """A kind in the version of stored bytes: enough for code that reads metadata only, and needs no webhook."""
    if not isinstance(kind, CustomKind) or kind.definition.webhook is None:
        return kind
    return kind.definition.kinds.get(kind.definition.version_of(data), kind)


def as_stored(obj: Any, data: bytes) -> Any:
    """An object of which only metadata changes, as it is to be stored over ``data``."""
    if not isinstance(obj, CustomObject) or obj.custom.converted is None:
        return obj
    kind: CustomKind = obj.custom
    found = in_version_of(kind, data)
    if not isinstance(found, CustomKind) or found.version == kind.version:
        return obj
    stored = found.read(data)
    kept = stored.metadata
    stored.metadata = msgspec.structs.replace(obj.metadata, labels=kept.labels, annotations=kept.annotations)
    return stored


def schema_for(kind: Kind[Any]) -> dict[str, Any]:
    """The OpenAPI schema of a kind, built in or user-defined, with the words that tell how lists merge."""
    if isinstance(kind, CustomKind):
        return kind.details.published
    return schema_of(kind)


def is_custom(kind: Kind[Any]) -> bool:
    """Whether a real cluster serves the kind from a CRD; only Kubernetes' own groups end in ``.k8s.io``."""
    return isinstance(kind, CustomKind) or ("." in kind.group and not kind.group.endswith(".k8s.io"))
