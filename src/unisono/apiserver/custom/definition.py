"""What a CustomResourceDefinition means to the server: its versions, compiled once per change."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec

from unisono.api.core.crd import CustomResourceDefinition, CustomResourceDefinitionVersion
from unisono.api.kind import Scale
from unisono.api.structural import Node
from unisono.api.structural.pruning import META_FIELDS, prune
from unisono.apiserver.custom.columns import PrinterColumn, columns_of
from unisono.apiserver.custom.compiled import Compiled, compiled
from unisono.apiserver.custom.converting import webhook_of
from unisono.apiserver.custom.kinds import CustomKind
from unisono.apiserver.custom.objects import CustomObject
from unisono.apiserver.custom.published import published_schema

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
        self._views: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()
        self._view_bytes = 0

    def at(self, version: str) -> CustomKind | None:
        """The kind under a version that is served."""
        kind = self.kinds.get(version)
        return kind if kind is not None and kind.details.served else None

    def served(self) -> list[CustomKind]:
        """The kind under every version that is served, newest and most stable first."""
        found = [kind for kind in self.kinds.values() if kind.details.served]
        return sorted(found, key=lambda kind: version_rank(kind.version))

    @cached_property
    def rules(self) -> bool:
        """Whether a schema of the definition has CEL rules."""
        return any(kind.node.has_rules for kind in self.kinds.values())

    def view(self, data: bytes, version: str) -> bytes:
        """Stored bytes as a version shows them; equal bytes are converted once."""
        key = version, data
        found = self._views.get(key)
        if found is None:
            found = self._convert(data, self.kinds[version])
            self.remember(data, version, found)
        return found

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
    found = _VERSION.fullmatch(name)
    if found is None:
        return 1, 0, 0, 0, name
    return 0, -_STAGES[found[2]], -int(found[1]), -int(found[3] or 0), ""
