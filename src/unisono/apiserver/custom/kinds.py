"""User-defined kinds: what a CustomResourceDefinition means to the server, its versions, and their objects."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import msgspec

from unisono.api.base import Object, ObjectMeta
from unisono.api.core.crd import CustomResourceDefinition, CustomResourceDefinitionVersion
from unisono.api.crds import Column as PrinterColumn
from unisono.api.decode import Decoded, decode, utf8
from unisono.api.kind import Kind, Scale
from unisono.api.schema import schema_of
from unisono.api.structural import Node, add_defaults, drop_nulls, prune
from unisono.api.structural.pruning import META_FIELDS, read_embedded
from unisono.apiserver.custom.definitions import Compiled, compiled, webhook_of
from unisono.jobkinds.kind import JobKind
from unisono.jobkinds.registry import job_kind
from unisono.jobkinds.tables import described


def columns_of(version: CustomResourceDefinitionVersion) -> tuple[PrinterColumn, ...]:
    """What ``kubectl get`` shows after the name; empty: name and age are all there is."""
    return tuple(
        PrinterColumn(
            name=column.name,
            type=column.type,
            json_path=column.json_path,
            priority=column.priority or 0,
            description=column.description or "",
            format=column.format or "",
        )
        for column in version.additional_printer_columns or ()
    )


# Schemas of user-defined kinds as OpenAPI documents show them.


@cache
def _header() -> dict[str, Any]:
    """The schemas of apiVersion, kind and metadata, which every object has."""
    plain: Kind[Object] = Kind("meta.k8s.io", "v1", "Object", "objects", Object)
    schemas: dict[str, Any] = schema_of(plain)["properties"]
    return schemas


def published_schema(schema: dict[str, Any], kind: Kind[Any]) -> dict[str, Any]:
    """The schema of a version with apiVersion, kind and metadata described."""
    properties = {**schema.get("properties", {}), **_header()}
    return {"description": f"{kind.kind} is a custom resource.", **schema, "type": "object", "properties": properties}


# JSON values made storable: what cannot be encoded again is replaced as Go's decoder would.

_INT64 = (-(2**63), 2**63 - 1)
_DEEPEST = 200


def plain(value: Any, depth: int = _DEEPEST) -> Any:
    """A copy without lone surrogates, bottomless nesting and numbers that 64 bits do not hold; 3.0 becomes 3."""
    match value:
        case dict():
            return {utf8(str(key)): plain(each, depth - 1) for key, each in value.items()} if depth else {}
        case list():
            return [plain(each, depth - 1) for each in value] if depth else []
        case str():
            return utf8(value)
        case bool():
            return value
        case int() if not _INT64[0] <= value <= _INT64[1]:
            return float(max(-(10**300), min(10**300, value)))
        case float() if value.is_integer() and _INT64[0] <= value < _INT64[1]:
            return int(value)
        case _:
            return value


_VIEW_BYTES = 32 * 1024 * 1024
_JSON = msgspec.json.Decoder().decode
_ENCODE = msgspec.json.Encoder().encode
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGES = {None: 2, "beta": 1, "alpha": 0}


class _Typed(msgspec.Struct):
    api_version: str = msgspec.field(default="", name="apiVersion")


_typed = msgspec.json.Decoder(_Typed).decode


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a definition.

    Attributes:
        source: its schema as it was compiled.
        node: its schema, without apiVersion, kind and metadata, which the server knows itself.
        published: its schema as OpenAPI documents show it.
        columns: what ``kubectl get`` shows after the name.
        selectable: paths that field selectors may name, without the leading dot.
        warning: told to every user of the version; empty when it is not deprecated.
    """

    name: str
    served: bool
    source: Compiled
    node: Node
    published: dict[str, Any]
    columns: tuple[PrinterColumn, ...]
    selectable: tuple[str, ...]
    warning: str = ""


class Definition:
    """A definition that is served.

    Args:
        crd: the accepted definition, established.
    """

    def __init__(self, crd: CustomResourceDefinition) -> None:
        self.name = crd.metadata.name
        self.uid = crd.metadata.uid or ""
        self.spec = crd.spec
        self.terminating = crd.metadata.deletion_timestamp is not None
        names = crd.status.accepted_names or crd.spec.names
        self.list_kind = names.list_kind or f"{names.kind}List"
        self.webhook = webhook_of(crd.spec.conversion) if len(crd.spec.versions or ()) > 1 else None
        self.kinds: dict[str, CustomKind] = {}
        for version in crd.spec.versions or ():
            kind = self._kind(crd, version)
            self.kinds[version.name] = kind
            if version.storage:
                self.storage = kind
        kinds, _ = described([crd], alone=True)
        self.job_kind = kinds[0] if kinds else None
        self._views: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()
        self._view_bytes = 0

    def at(self, version: str) -> CustomKind | None:
        """The kind under a version that is served."""
        kind = self.kinds.get(version)
        return kind if kind is not None and kind.details.served else None

    def served(self) -> list[CustomKind]:
        """The kind under every version that is served, newest and most stable first."""
        served_kinds = [kind for kind in self.kinds.values() if kind.details.served]
        return sorted(served_kinds, key=lambda kind: version_rank(kind.version))

    @cached_property
    def rules(self) -> bool:
        """Whether a schema of the definition has CEL rules."""
        return any(kind.node.has_rules for kind in self.kinds.values())

    def view(self, data: bytes, version: str) -> bytes:
        """Stored bytes as a version shows them; equal bytes are converted once."""
        key = version, data
        converted = self._views.get(key)
        if converted is None:
            converted = self._convert(data, self.kinds[version])
            self.remember(data, version, converted)
        return converted

    def known(self, data: bytes, version: str) -> bytes | None:
        """What has been made of stored bytes lately."""
        return self._views.get((version, data))

    def remember(self, data: bytes, version: str, shown: bytes) -> None:
        """Keep what has been made of stored bytes for a while."""
        if (version, data) in self._views:
            return
        self._views[version, data] = shown
        self._view_bytes += len(data) + len(shown)
        while self._view_bytes > _VIEW_BYTES:
            (_, old), dropped = self._views.popitem(last=False)
            self._view_bytes -= len(old) + len(dropped)

    @staticmethod
    def version_of(data: bytes) -> str:
        """The version of stored bytes."""
        return _typed(data).api_version.rpartition("/")[2]

    def pruned(self, data: bytes) -> dict[str, Any]:
        """Stored bytes as JSON values, without what the version they were stored in does not know today."""
        value: dict[str, Any] = _JSON(data)
        source = self.kinds.get(self.version_of(data))
        if source is not None:
            prune(source.node, value, root=True)
        return value

    def _convert(self, data: bytes, kind: CustomKind) -> bytes:
        value = _JSON(data)
        version = str(value.get("apiVersion", "")).rpartition("/")[2]
        if self.webhook is not None and version != kind.version:
            raise RuntimeError(f"{self.name}: an object of {version} was to be shown before it was converted")
        source = self.kinds.get(version)
        converted = _ENCODE(kind.convert(value, source.node if source else None))
        return data if converted == data else converted

    def _kind(self, crd: CustomResourceDefinition, version: CustomResourceDefinitionVersion) -> CustomKind:
        names = crd.status.accepted_names or crd.spec.names
        subresources = version.subresources
        scale = subresources.scale if subresources else None
        kind = CustomKind(
            group=crd.spec.group,
            version=version.name,
            kind=names.kind,
            plural=names.plural,
            struct=CustomObject,
            namespaced=crd.spec.scope == "Namespaced",
            singular=names.singular or names.kind.lower(),
            short_names=tuple(names.short_names or ()),
            categories=tuple(names.categories or ()),
            status_subresource=subresources is not None and subresources.status is not None,
            scale=Scale(scale.spec_replicas_path, scale.status_replicas_path, scale.label_selector_path or "")
            if scale
            else None,
            definition=self,
        )
        return replace(kind, details=_details(crd, version, kind))


def _details(crd: CustomResourceDefinition, version: CustomResourceDefinitionVersion, kind: CustomKind) -> Version:
    source = compiled(version)
    own = {name: each for name, each in source.node.properties.items() if name not in META_FIELDS}
    return Version(
        name=version.name,
        served=bool(version.served),
        source=source,
        node=replace(source.node, properties=own),
        published=published_schema(source.schema, kind),
        columns=columns_of(version),
        selectable=tuple(each.json_path.removeprefix(".") for each in version.selectable_fields or ()),
        warning=_warning(crd, version),
    )


def _warning(crd: CustomResourceDefinition, version: CustomResourceDefinitionVersion) -> str:
    if not version.deprecated:
        return ""
    if version.deprecation_warning:
        return version.deprecation_warning
    group, kind = crd.spec.group, crd.spec.names.kind
    better = [
        each.name
        for each in crd.spec.versions or ()
        if each.served and not each.deprecated and version_rank(each.name) < version_rank(version.name)
    ]
    text = f"{group}/{version.name} {kind} is deprecated"
    return f"{text}; use {group}/{min(better, key=version_rank)} {kind}" if better else text


def version_rank(name: str) -> tuple[int, int, int, int, str]:
    """Sorts versions as discovery lists them: v2, v1, v1beta2, v1beta1, v1alpha1, then other names."""
    match = _VERSION.fullmatch(name)
    if match is None:
        return 1, 0, 0, 0, name
    return 0, -_STAGES[match[2]], -int(match[1]), -int(match[3] or 0), ""


_CANONICAL = msgspec.json.Encoder(order="deterministic").encode


class CustomObject(Object, kw_only=True, eq=False):
    """One object, in the version of ``custom``.

    Attributes:
        custom: kind and version whose schema the content follows.
        content: every top-level field but apiVersion, kind and metadata.
    """

    custom: Any
    content: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def status(self) -> Any:
        """The field ``status``; None when absent. Setting None removes it."""
        return self.content.get("status")

    @status.setter
    def status(self, value: Any) -> None:
        if value is None:
            self.content.pop("status", None)
        else:
            self.content["status"] = value

    def values(self) -> dict[str, Any]:
        """The whole object as JSON values; they are shared with the object."""
        header = {"apiVersion": self.api_version, "kind": self.kind, "metadata": msgspec.to_builtins(self.metadata)}
        return {**header, **self.content}

    def encoded(self) -> bytes:
        """The object as JSON, in its own version."""
        header = {"apiVersion": self.api_version, "kind": self.kind, "metadata": self.metadata}
        return _ENCODE({**header, **self.content})

    def differs(self, other: CustomObject, *, without_status: bool) -> bool:
        """Whether anything but metadata (and the status) differs."""
        left, right = self.content, other.content
        if without_status:
            left = {name: value for name, value in left.items() if name != "status"}
            right = {name: value for name, value in right.items() if name != "status"}
        # Compared as JSON: to Python 1, 1.0 and true are equal.
        return left is not right and _CANONICAL(left) != _CANONICAL(right)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CustomObject):
            return NotImplemented
        header = (self.api_version, self.kind) == (other.api_version, other.kind)
        return header and self.metadata == other.metadata and not self.differs(other, without_status=False)

    __hash__ = None  # type: ignore[assignment]


def as_job(kind: Kind[Any]) -> JobKind | None:
    """What is known of a kind as a job: by this program, by an installed package, or by its definition's table."""
    registered = job_kind(kind)
    return kind.definition.job_kind if registered is None and isinstance(kind, CustomKind) else registered


def as_json(obj: Any) -> Any:
    """An object as paths of its kind are followed."""
    return obj.values() if isinstance(obj, CustomObject) else obj


def custom_of(obj: CustomObject) -> CustomKind:
    """The kind and version of an object."""
    custom_kind: CustomKind = obj.custom
    return custom_kind


_META: Kind[Object] = Kind("meta.k8s.io", "v1", "Object", "objects", Object)


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
        cached = self.converted.get(data) if self.converted else None
        return self.definition.view(data, self.version) if cached is None else cached

    def knows(self, data: bytes) -> bool:
        """Whether ``view`` can show stored bytes without asking a webhook."""
        if self.converted is None or data in self.converted or self.definition.version_of(data) == self.version:
            return True
        cached = self.definition.known(data, self.version)
        if cached is not None:
            self.converted[data] = cached
        return cached is not None

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
    stored_kind = in_version_of(kind, data)
    if not isinstance(stored_kind, CustomKind) or stored_kind.version == kind.version:
        return obj
    stored = stored_kind.read(data)
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
