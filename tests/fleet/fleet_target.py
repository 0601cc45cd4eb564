"""A cluster for Applications that lives in a dictionary, and can refuse, fail and lack kinds."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping
from typing import Any

from unisono.errors import Invalid, Unavailable
from unisono.fleet.applications.bundle import Ref
from unisono.kube.discovery import UnknownKind

CLUSTER_SCOPED = {"Namespace", "Queue", "PriorityClass", "CustomResourceDefinition"}
_UIDS = itertools.count(1)


class FakeTarget:
    """One cluster."""

    def __init__(self, *unknown: str) -> None:
        self.unknown = set(unknown)
        self.objects: dict[Ref, dict[str, Any]] = {}
        self.refused: dict[str, str] = {}
        self.fails_after: int | None = None
        self.writes = 0
        self.version = "v1.36.0+unisono.0.1.0"

    def names(self, kind: str) -> set[str]:
        """Names of the objects of a kind."""
        return {ref.name for ref in self.objects if ref.kind == kind}

    async def locate(self, manifest: Mapping[str, Any], namespace: str) -> Ref:
        meta, kind = manifest["metadata"], manifest["kind"]
        self._served(kind)
        where = "" if kind in CLUSTER_SCOPED else meta.get("namespace") or namespace
        return Ref(manifest["apiVersion"], kind, where, meta["name"])

    async def get(self, ref: Ref) -> dict[str, Any] | None:
        self._served(ref.kind)
        return copy.deepcopy(self.objects.get(ref))

    async def apply(self, ref: Ref, manifest: Mapping[str, Any]) -> dict[str, Any]:
        self._served(ref.kind)
        self._write()
        if ref.name in self.refused:
            raise Invalid(self.refused[ref.name])
        if ref.namespace and Ref("v1", "Namespace", "", ref.namespace) not in self.objects:
            raise Invalid(f"namespace {ref.namespace} not found")
        made = copy.deepcopy(dict(manifest))
        uid = self.objects.get(ref, {}).get("metadata", {}).get("uid") or f"u{next(_UIDS)}"
        made["metadata"] = {**made["metadata"], "uid": uid}
        self.objects[ref] = made
        return made

    async def delete(self, ref: Ref, uid: str) -> None:
        self._write()
        live = self.objects.get(ref)
        if live is not None and live["metadata"]["uid"] == uid:
            del self.objects[ref]

    async def need_namespace(self, name: str) -> None:
        ref = Ref("v1", "Namespace", "", name)
        if ref not in self.objects:
            self._write()
            self.objects[ref] = {"metadata": {"name": name, "uid": f"u{next(_UIDS)}"}}

    def _served(self, kind: str) -> None:
        if kind in self.unknown:
            raise UnknownKind(f'no matches for kind "{kind}"')

    def _write(self) -> None:
        if self.fails_after is not None and self.writes >= self.fails_after:
            raise Unavailable("the connection is lost")
        self.writes += 1
