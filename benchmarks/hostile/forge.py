"""Hostile objects of every kind that a server offers, made from its own schemas; the same for the same seed."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from random import Random
from typing import Any

from benchmarks.hostile import values
from benchmarks.hostile.bases import base
from benchmarks.hostile.scenes import SCENES, annotations
from benchmarks.hostile.values import Schema

_LISTS = (0, 1, 2, 20, 300, 3000)
_KEPT = frozenset({"apiVersion", "kind", "status", "metadata"})


@dataclass(frozen=True)
class Offered:
    """A kind of the server: where it lives, and what its fields are."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    schema: Schema
    subresources: frozenset[str] = frozenset()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str, name: str = "", sub: str = "") -> str:
        """URL of the collection, of an object or of its subresource."""
        parts = [f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"]
        if self.namespaced:
            parts += ["namespaces", namespace]
        return "/".join([*parts, self.plural, *filter(None, (name, sub))])


@dataclass
class Attempt:
    """One object: its number within the seed, its body and what is done to it after it was created."""

    number: int
    offered: Offered
    body: dict[str, Any]
    then: list[tuple[str, Any]] = field(default_factory=list)


class Forge:
    """Makes the objects of a seed; ``number`` picks one, whatever was made before it."""

    def __init__(self, offered: list[Offered], seed: int) -> None:
        self.offered, self.seed = offered, seed

    def attempt(self, number: int) -> Attempt:
        """Object ``number``; kinds take turns, so that all of them come equally often."""
        rng = Random(f"{self.seed}:{number}")
        offered = self.offered[number % len(self.offered)]
        name = f"hostile-{number}"
        body = {"apiVersion": offered.api_version, "kind": offered.kind, "metadata": {"name": name}}
        scenes = SCENES.get((offered.group, offered.kind), ())
        if scenes and rng.random() < 0.4:
            body |= copy.deepcopy(rng.choice(scenes)(rng))
            body["metadata"] = {"name": name, **body["metadata"]}
        else:
            body |= copy.deepcopy(base(offered.group, offered.kind))
            for _ in range(rng.choice((1, 1, 1, 2, 3))):
                self._hurt(rng, body, offered.schema)
        _adorn(rng, body, name)
        return Attempt(number, offered, body, list(self._later(rng, offered, body)))

    def _hurt(self, rng: Random, body: dict[str, Any], schema: Schema) -> None:
        """Put something extreme at a random place that the schema knows."""
        properties = {key: inner for key, inner in schema.get("properties", {}).items() if key not in _KEPT}
        if not properties:
            return
        # `spec` of most kinds is one of few fields; what a kind has beside it counts as much as any field in it.
        key = "spec" if "spec" in properties and rng.random() < 0.9 else rng.choice(list(properties))
        body[key] = self._changed(rng, key, body.get(key), properties[key], 0)

    def _changed(self, rng: Random, name: str, old: Any, schema: Schema, level: int) -> Any:
        properties = schema.get("properties")
        if properties:
            new = dict(old) if isinstance(old, dict) else self.least(rng, schema, level)
            if isinstance(new, dict) and level < 12:
                # Mostly along what is there: pods lie deep, and their fields matter most.
                known = [key for key in new if key in properties]
                key = rng.choice(known) if known and rng.random() < 0.6 else rng.choice(list(properties))
                new[key] = self._changed(rng, key, new.get(key), properties[key], level + 1)
            return new
        items = schema.get("items")
        if items and isinstance(old, list) and old and rng.random() < 0.8:
            index = rng.randrange(len(old))
            return [*old[:index], self._changed(rng, name, old[index], items, level + 1), *old[index + 1 :]]
        return self.extreme(rng, name, schema, level)

    def extreme(self, rng: Random, name: str, schema: Schema, level: int) -> Any:
        """An extreme value that fits the schema."""
        if schema.get("x-kubernetes-int-or-string") or "anyOf" in schema or "oneOf" in schema:
            return rng.choice((*values.QUANTITIES, *values.INTEGERS[:6]))
        kind = schema.get("type")
        if kind == "integer":
            return values.integer(rng, schema)
        if kind == "number":
            return rng.choice((0.0, -1.5, 1e308, 5e-324, 0.5, 1e9))
        if kind == "boolean":
            return rng.random() < 0.5
        if kind == "string":
            return values.text(rng, name, schema)
        if kind == "array":
            # Many pods of one long list would be a large object and no extreme one.
            count = rng.choice(_LISTS if level < 6 else _LISTS[:5])
            one = self.least(rng, schema.get("items", {}), level + 1, name)
            return [_numbered(one, index) for index in range(count)]
        entries = schema.get("additionalProperties")
        if isinstance(entries, dict) and entries:
            return self._map(rng, name, entries, level)
        if schema.get("properties"):
            return self._changed(rng, name, None, schema, level + 1)
        return values.deep(rng) if schema.get("x-kubernetes-preserve-unknown-fields") else {}

    def _map(self, rng: Random, name: str, entries: Schema, level: int) -> dict[str, Any]:
        if name in (
            "requests",
            "limits",
            "capacity",
            "deserved",
            "guarantee",
            "capability",
            "minResources",
            "hard",
            "overhead",
        ):
            chosen = rng.sample(
                ("cpu", "memory", "nvidia.com/gpu", "pods", "ephemeral-storage", "hugepages-2Mi", "x/y"), 3
            )
            return {resource: rng.choice(values.QUANTITIES) for resource in chosen}
        count = rng.choice(_LISTS[:5] if level > 4 else _LISTS)
        return {f"k{index}": self.extreme(rng, name, entries, level + 1) for index in range(min(count, 1000))}

    def least(self, rng: Random, schema: Schema, level: int, name: str = "") -> Any:
        """The smallest value that the schema takes: required fields only, and a name where lists have one."""
        kind = schema.get("type")
        if kind == "object" or "properties" in schema:
            properties = schema.get("properties", {})
            wanted = set(schema.get("required", ())) | ({"name"} & set(properties))
            return {key: self.least(rng, properties.get(key, {}), level + 1, key) for key in sorted(wanted)}
        if kind == "array":
            return []
        if kind == "integer":
            return 1
        if kind == "boolean":
            return False
        if kind == "string" or kind is None:
            return rng.choice(values.WORDS[name]) if name in values.WORDS else str(schema.get("enum", ["x"])[0])
        return 1

    def _later(self, rng: Random, offered: Offered, body: dict[str, Any]) -> list[tuple[str, Any]]:
        steps: list[tuple[str, Any]] = []
        if rng.random() < 0.3:
            patch: dict[str, Any] = {"spec": body.get("spec")} if "spec" in body else {}
            self._hurt(rng, patch, offered.schema)
            steps.append(("patch", {"metadata": {"labels": {"changed": "yes"}}, **patch}))
        if "status" in offered.subresources and rng.random() < 0.25:
            status = offered.schema.get("properties", {}).get("status", {})
            steps.append(("status", {"status": self._changed(rng, "status", {}, status, 0)}))
        if "scale" in offered.subresources and rng.random() < 0.3:
            steps.append(("scale", {"spec": {"replicas": rng.choice((0, 3, 1000, 50_001, 2**31 - 1))}}))
        if "eviction" in offered.subresources and rng.random() < 0.2:
            steps.append(("eviction", None))
        if rng.random() < 0.25:
            steps.append(("delete", rng.choice(("Foreground", "Background", "Orphan"))))
        return steps


def _numbered(one: Any, index: int) -> Any:
    """A copy that a list with keys takes beside the others."""
    if isinstance(one, dict):
        new = dict(one)
        for key in ("name", "key", "mountPath", "ip"):
            if key in new and isinstance(new[key], str):
                new[key] = f"/m{index}" if key == "mountPath" else f"{new[key][:40]}-{index}"
        for key in ("containerPort", "port"):
            if key in new:
                new[key] = index % 65_535 + 1
        return new
    return f"{one[:200]}{index}" if isinstance(one, str) else one


def _adorn(rng: Random, body: dict[str, Any], name: str) -> None:
    """Metadata as bad as it may be: labels, annotations, finalizers and owners."""
    meta = body["metadata"]
    if rng.random() < 0.3:
        meta["annotations"] = {**annotations(rng), **meta.get("annotations", {})}
    if rng.random() < 0.1:
        meta["labels"] = {**{f"l{n}": "v" * 63 for n in range(rng.choice((1, 100, 2000)))}, **meta.get("labels", {})}
    if rng.random() < 0.1:
        meta["finalizers"] = rng.choice((["hostile.example/never"], ["foregroundDeletion"], ["orphan"]))
    if rng.random() < 0.15:
        owner = {
            "apiVersion": body["apiVersion"],
            "kind": body["kind"],
            "name": name,
            "uid": "00000000-0000-0000-0000-000000000000",
        }
        other = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "name": "does-not-exist",
            "uid": f"u{rng.random()}",
        }
        meta["ownerReferences"] = [rng.choice((owner, other)) | {"controller": rng.random() < 0.7}]
        if rng.random() < 0.2:
            meta["ownerReferences"] = [{**other, "uid": f"u{n}", "controller": False} for n in range(500)]
