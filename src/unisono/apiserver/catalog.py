"""Which kinds are served under which group and version: the one source of routing, discovery and OpenAPI."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from unisono.api.kind import Kind
from unisono.api.kind_families import WORKLOAD_POD_GROUPS
from unisono.apiserver.custom.kinds import version_rank

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STATUS_VERBS = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class Subresource:
    """A path below one object.

    Attributes:
        name: last segment of the path.
        group: group of the kind that is read or written there.
        version: its version.
        kind: its name.
        verbs: what may be done.
    """

    name: str
    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Served:
    """A kind under one of the versions that it is served with; ``kind.version`` is that version.

    ``verbs`` is shorter for kinds that are answered and never stored.
    """

    kind: Kind[Any]
    subresources: tuple[Subresource, ...]
    verbs: tuple[str, ...] = VERBS

    def subresource(self, name: str) -> Subresource | None:
        """The subresource of that name."""
        return next((entry for entry in self.subresources if entry.name == name), None)


class Catalog:
    """All served kinds, in the order in which discovery lists them."""

    def __init__(self, kinds: Iterable[Kind[Any]]) -> None:
        self._served: dict[tuple[str, str, str], Served] = {}
        self._groups: dict[str, list[str]] = {}
        self._custom: dict[tuple[str, str, str], Served] = {}
        for kind in sorted(kinds, key=lambda kind: _group_rank(kind.group)):
            self.add(kind)

    def add(self, kind: Kind[Any], verbs: tuple[str, ...] = VERBS) -> None:
        """Serve one more kind under its own version and its aliases; the own version is preferred."""
        versions = self._groups.setdefault(kind.group, [])
        for version in (kind.version, *kind.alias_versions):
            if version not in versions:
                versions.append(version)
            seen = kind if version == kind.version else replace(kind, version=version)
            self._served[kind.group, version, kind.plural] = Served(seen, _subresources(seen), verbs)

    def set_custom(self, kinds: Iterable[Kind[Any]]) -> None:
        """Serve these user-defined kinds, each under its own version, and none of those before."""
        before, self._custom = self._custom, {}
        for kind in kinds:
            key = kind.group, kind.version, kind.plural
            seen = before.get(key)
            if key not in self._served:
                self._custom[key] = seen if seen and seen.kind is kind else Served(kind, _subresources(kind))

    def find(self, group: str, version: str, plural: str) -> Served | None:
        """The kind behind a resource URL."""
        key = group, version, plural
        return self._served.get(key) or self._custom.get(key)

    def groups(self) -> list[tuple[str, list[str]]]:
        """Groups with their versions, preferred version first; core has the name ``""`` and comes first."""
        versions_by_group = {group: list(versions) for group, versions in self._groups.items()}
        names = sorted({key[:2] for key in self._custom}, key=lambda name: (name[0], version_rank(name[1])))
        for group, version in names:
            versions = versions_by_group.setdefault(group, [])
            if version not in versions:
                versions.append(version)
        return list(versions_by_group.items())

    def resources(self, group: str, version: str) -> list[Served]:
        """The kinds of one group and version, by their plural."""
        asked = group, version
        every = (*self._served.items(), *self._custom.items())
        return sorted((served for key, served in every if key[:2] == asked), key=lambda served: served.kind.plural)


def _group_rank(group: str) -> tuple[int, str]:
    # Of groups that share a plural, such as jobs, kubectl takes the first: Kubernetes' own groups lead.
    if not group:
        return 0, ""
    if group == WORKLOAD_POD_GROUPS.group:
        # But ``podgroups`` goes on to mean those that hold the queue, the phase and the verdict.
        return 3, group
    return (1 if "." not in group or group.endswith(".k8s.io") else 2), group


def _subresources(kind: Kind[Any]) -> tuple[Subresource, ...]:
    subresources = []
    if kind.group == "" and kind.plural == "pods":
        subresources += [
            Subresource("attach", "", "v1", "PodAttachOptions", ("create", "get")),
            Subresource("binding", "", "v1", "Binding", ("create",)),
            Subresource("eviction", "policy", "v1", "Eviction", ("create",)),
            Subresource("exec", "", "v1", "PodExecOptions", ("create", "get")),
            Subresource("log", "", "v1", "Pod", ("get",)),
            Subresource("portforward", "", "v1", "PodPortForwardOptions", ("create", "get")),
        ]
    if kind.group == "" and kind.plural == "serviceaccounts":
        subresources.append(Subresource("token", "authentication.k8s.io", "v1", "TokenRequest", ("create",)))
    if kind.scale is not None:
        subresources.append(Subresource("scale", "autoscaling", "v1", "Scale", STATUS_VERBS))
    if kind.status_subresource:
        subresources.append(Subresource("status", kind.group, kind.version, kind.kind, STATUS_VERBS))
    return tuple(subresources)
