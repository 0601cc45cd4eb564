"""Kubernetes URLs are regular: one function takes them apart."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

_NAMESPACE_SUBRESOURCES = {"status", "finalize"}
_MAX_PARTS = 3


@dataclass(frozen=True, slots=True)
class ResourcePath:
    """A URL below ``/api`` or ``/apis`` that names a resource.

    Attributes:
        group: API group, ``""`` for core.
        version: API version.
        namespace: the namespace in the URL; None for cluster-scoped resources and for all namespaces.
        resource: plural name.
        name: object name; None for the collection.
        subresource: for example ``status``; ``""`` for the object itself.

    """

    group: str
    version: str
    namespace: str | None
    resource: str
    name: str | None = None
    subresource: str = ""


def split(raw_path: str) -> list[str]:
    """Decoded segments of a path; a trailing slash adds none."""
    return [unquote(part) for part in raw_path.strip("/").split("/")] if raw_path.strip("/") else []


def parse(parts: list[str]) -> ResourcePath | None:
    """Read the segments of a resource URL; None for discovery and for paths that cannot name a resource."""
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    if not all(rest):
        return None
    namespace: str | None = None
    if rest[0] == "namespaces" and len(rest) > 2 and not (rest[2] in _NAMESPACE_SUBRESOURCES and len(rest) == 3):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > _MAX_PARTS:
        return None
    name = rest[1] if len(rest) > 1 else None
    return ResourcePath(group, version, namespace, rest[0], name, rest[2] if len(rest) > 2 else "")
