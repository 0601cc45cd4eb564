"""What comes of another scheduler's objects: objects of ours, and what could not be said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from unisono.api.annotations import QUEUE_NAMESPACES
from unisono.api.keys import POD_QUEUE
from unisono.api.kinds import NAMESPACES, QUEUES
from unisono.api.quantity import QuantityError, format_milli, parse_quantity

Json = dict[str, Any]
Amounts = dict[str, Fraction]


@dataclass(slots=True)
class Written:
    """The outcome.

    Attributes:
        queues: Queues by name.
        others: further objects, and those of the dump that stay, changed or not.
        changes: what means nearly the same here, a sentence each.
        lost: what has nothing like it here, a sentence each.
    """

    queues: dict[str, Json] = field(default_factory=dict)
    others: list[Json] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def queue(self, name: str, **spec: Any) -> Json:
        """A new Queue; what is None is left out."""
        given = {key: value for key, value in spec.items() if value not in (None, "", {})}
        manifest: Json = {
            "apiVersion": QUEUES.api_version,
            "kind": QUEUES.kind,
            "metadata": {"name": name},
            "spec": given,
        }
        self.queues[name] = manifest
        return manifest

    def use_in(self, namespace: str, queue: str) -> None:
        """Jobs of a namespace that name no queue go to this one."""
        self.annotate(namespace, {POD_QUEUE: queue})

    def annotate(self, namespace: str, notes: Mapping[str, str]) -> None:
        """Annotations of a namespace."""
        meta = {"name": namespace, "annotations": dict(notes)}
        self.others.append({"apiVersion": NAMESPACES.api_version, "kind": NAMESPACES.kind, "metadata": meta})

    def reserve(self, queue: str, namespaces: Iterable[str]) -> None:
        """A queue is for jobs of these namespaces."""
        if names := sorted(set(namespaces)):
            self.note(queue, QUEUE_NAMESPACES, ", ".join(names))

    def note(self, queue: str, key: str, value: str) -> None:
        """An annotation of a queue."""
        self.queues[queue]["metadata"].setdefault("annotations", {})[key] = value

    def unread(self, where: str, found: Mapping[str, Any], known: Iterable[str], why: Mapping[str, str]) -> None:
        """Fields of a map that nothing was made of."""
        for key, value in found.items():
            if key not in known and value not in (None, "", {}, []):
                self.lost.append(f"{where}.{key}: {why.get(key, 'nothing like it here')}")

    def objects(self) -> list[Json]:
        """All objects; queues stand behind those above them, and what they state agrees with these."""
        ordered = self._ordered()
        before = {name: dict(queue["spec"].get("deserved", {})) for name, queue in self.queues.items()}
        for queue in reversed(ordered):
            above = self.queues.get(queue["spec"].get("parent", ""))
            if above is not None and "deserved" in above["spec"]:
                self._widen(above)
        for name, stated in before.items():
            for resource, value in self.queues[name]["spec"].get("deserved", {}).items():
                if stated.get(resource) != value:
                    self.changes.append(f"Queue {name} deserves {value} {resource}, as the queues below it do")
        for queue in ordered:
            self._bind(queue)
        return [*ordered, *self.others]

    def _ordered(self) -> list[Json]:
        done: dict[str, Json] = {}
        for name in self.queues:
            way: list[str] = []
            at = name
            while at in self.queues and at not in done and at not in way:
                way.append(at)
                at = self.queues[at]["spec"].get("parent", "")
            done |= {each: self.queues[each] for each in reversed(way)}
        return list(done.values())

    def _widen(self, above: Json) -> None:
        """What queues deserve together is deserved by the one above them, where that states what it deserves."""
        name = above["metadata"]["name"]
        children = [one for one in self.queues.values() if one["spec"].get("parent") == name]
        stated = above["spec"]["deserved"]
        for resource in {key for one in children for key in one["spec"].get("deserved", {})}:
            needed = sum((amount(one["spec"].get("deserved", {}).get(resource, 0)) for one in children), Fraction(0))
            if needed > amount(stated.get(resource, 0)):
                stated |= texts({resource: needed})

    def _bind(self, queue: Json) -> None:
        """No queue may use more than the one above it."""
        above = self.queues.get(queue["spec"].get("parent", ""), {}).get("spec", {}).get("capability", {})
        mine = queue["spec"].get("capability", {})
        for resource in mine.keys() & above.keys():
            if amount(mine[resource]) > amount(above[resource]):
                mine[resource] = above[resource]
                self.changes.append(
                    f"Queue {queue['metadata']['name']} may use {above[resource]} {resource}, as the queue above it"
                )


def amount(value: Any) -> Fraction:
    """A quantity as a number; 0 where it is none."""
    try:
        return parse_quantity(str(value))
    except QuantityError:
        return Fraction(0)


def texts(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    """Amounts as quantities."""
    return {name: format_milli(int(value * 1000)) for name, value in amounts.items()}


def meta_of(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Metadata of an object's JSON."""
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def name_of(obj: Mapping[str, Any]) -> str:
    """Name of an object."""
    return str(meta_of(obj).get("name") or "")


def spec_of(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Spec of an object's JSON."""
    spec = obj.get("spec")
    return spec if isinstance(spec, Mapping) else {}
