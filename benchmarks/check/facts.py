"""A cluster as plain facts, read from Kubernetes objects without any of the scheduler's own code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any

Amounts = dict[str, Fraction]
_UNITS = {
    "m": Fraction(1, 1000),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Ti": Fraction(2**40),
    "Gi": Fraction(2**30),
    "k": Fraction(1000),
}
_GROUP = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
LICENSES = "licenses.unisono.io/"
OURS = ("", "volcano", "unisono")


def quantity(text: Any) -> Fraction:
    """A Kubernetes quantity, exactly."""
    written = str(text)
    for unit, factor in _UNITS.items():
        if written.endswith(unit):
            return Fraction(written.removesuffix(unit)) * factor
    return Fraction(written)


def amounts(given: Mapping[str, Any] | None) -> Amounts:
    """Quantities by resource name."""
    return {name: quantity(value) for name, value in (given or {}).items()}


def add(total: Amounts, more: Amounts) -> None:
    """Add to ``total`` in place."""
    for name, value in more.items():
        total[name] = total.get(name, Fraction(0)) + value


def seconds(text: str | None) -> float:
    """Seconds since the epoch of an RFC 3339 time; 0.0 without one."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() if text else 0.0


@dataclass(slots=True)
class Pod:
    """One pod; ``requests`` are what is reserved for it on its node, ``licenses`` what lies on none."""

    raw: Mapping[str, Any]
    key: str
    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: Mapping[str, Any]
    requests: Amounts
    licenses: Amounts
    node: str
    phase: str
    leaving: bool
    gated: bool
    ours: bool
    group: str
    role: str

    @property
    def ended(self) -> bool:
        """It has succeeded or failed."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def occupies(self) -> bool:
        """It holds resources of its node, also while it terminates."""
        return bool(self.node) and not self.ended

    @property
    def counts(self) -> bool:
        """It counts towards the minimum of its gang."""
        return self.phase == "Succeeded" or (self.occupies and not self.leaving and self.phase != "Unknown")

    @property
    def waits(self) -> bool:
        """It may be given a node."""
        return not self.node and not self.leaving and not self.gated and self.phase == "Pending"

    @property
    def priority(self) -> int:
        """Of the pod itself."""
        return int(self.spec.get("priority") or 0)


def read_pod(raw: Mapping[str, Any]) -> Pod:
    """A pod of its object."""
    meta, spec = raw["metadata"], raw["spec"]
    notes, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    asked = _requests(spec)
    native = (spec.get("schedulingGroup") or {}).get("podGroupName") or ""
    group = next((notes[key] for key in _GROUP if notes.get(key)), native)
    return Pod(
        raw=raw,
        key=f"{meta['namespace']}/{meta['name']}",
        namespace=meta["namespace"],
        labels=labels,
        annotations=notes,
        spec=spec,
        requests={name: value for name, value in asked.items() if not name.startswith(LICENSES)},
        licenses={name: value for name, value in asked.items() if name.startswith(LICENSES)},
        node=spec.get("nodeName") or "",
        phase=(raw.get("status") or {}).get("phase") or "Pending",
        leaving=bool(meta.get("deletionTimestamp")),
        gated=bool(spec.get("schedulingGates")),
        ours=(spec.get("schedulerName") or "") in OURS,
        group=f"{meta['namespace']}/{group}" if group else "",
        role=notes.get("volcano.sh/task-spec") or labels.get("volcano.sh/task-spec") or "",
    )


def _requests(spec: Mapping[str, Any]) -> Amounts:
    """Containers together, or the largest init container where it needs more, plus the overhead."""
    total: Amounts = {}
    for container in spec["containers"]:
        add(total, amounts((container.get("resources") or {}).get("requests")))
    for container in spec.get("initContainers") or ():
        for name, value in amounts((container.get("resources") or {}).get("requests")).items():
            total[name] = max(total.get(name, Fraction(0)), value)
    add(total, amounts(spec.get("overhead")))
    return {name: value for name, value in total.items() if value}


@dataclass(slots=True)
class Facts:
    """All objects of a cluster, by kind and key."""

    pods: dict[str, Pod] = field(default_factory=dict)
    objects: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)
    groups: dict[str, list[Pod]] = field(default_factory=dict)

    @classmethod
    def of(cls, objects: Iterable[Mapping[str, Any]]) -> Facts:
        """Facts of Kubernetes objects."""
        facts = cls()
        for raw in objects:
            meta = raw["metadata"]
            key = f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else meta["name"]
            facts.objects.setdefault(raw["kind"], {})[key] = raw
            if raw["kind"] == "Pod":
                pod = facts.pods[key] = read_pod(raw)
                facts.groups.setdefault(pod.group, []).append(pod)
        return facts

    def all(self, kind: str) -> Mapping[str, Mapping[str, Any]]:
        """Objects of a kind by key."""
        return self.objects.get(kind, {})

    def members(self, group: str) -> list[Pod]:
        """Pods of a PodGroup."""
        return self.groups.get(group, [])

    def queue_of(self, group: str) -> str:
        """Queue of a PodGroup; empty when there is no such PodGroup."""
        found = self.all("PodGroup").get(group)
        return (found["spec"].get("queue") or "default") if found is not None else ""

    def lineage(self, queue: str) -> list[str]:
        """The queue and those above it, up to ``root``."""
        chain = [queue]
        while chain[-1] != "root":
            found = self.all("Queue").get(chain[-1])
            parent = (found["spec"].get("parent") if found is not None else "") or "root"
            if parent in chain:
                break
            chain.append(parent)
        return chain

    def user_of(self, group: str) -> str:
        """Whose a PodGroup is; its namespace stands for a user who is not named."""
        meta = self.all("PodGroup")[group]["metadata"]
        return (meta.get("annotations") or {}).get("unisono.io/user") or f"namespace {meta['namespace']}"

    def licenses_of(self, group: str) -> Amounts:
        """What a PodGroup takes once, for all its pods."""
        found = self.all("PodGroup").get(group)
        notes = (found["metadata"].get("annotations") or {}) if found is not None else {}
        parts = [
            part.strip().partition("=") for part in notes.get("unisono.io/licenses", "").split(",") if part.strip()
        ]
        return {f"{LICENSES}{name}": Fraction(number or 1) for name, _, number in parts}

    def user_limits(self, queue: str) -> Amounts:
        """What one user may hold in a queue."""
        found = self.all("Queue").get(queue)
        notes = (found["metadata"].get("annotations") or {}) if found is not None else {}
        pairs = [pair.split("=") for pair in notes.get("unisono.io/user-limits", "").split(",") if pair]
        return {name.strip(): quantity(value.strip()) for name, value in pairs}

    def rank(self, group: str) -> int:
        """Priority of a PodGroup."""
        name = self.all("PodGroup")[group]["spec"].get("priorityClassName") or ""
        found = self.all("PriorityClass").get(name)
        return int(found["value"]) if found is not None else 0


@dataclass(slots=True)
class Turn:
    """One cycle: what was, and what was decided.

    Attributes:
        facts: the cluster before.
        config: the scheduler configuration.
        now: seconds since the epoch.
        binds: pod and node, in order.
        evictions: pod, action and PodGroup for whose sake.
        promised: node by pod that waits for a place there.
        phases: new phase by PodGroup.
    """

    facts: Facts
    config: Mapping[str, Any]
    now: float
    binds: list[tuple[str, str]]
    evictions: list[tuple[str, str, str]]
    promised: dict[str, str]
    phases: dict[str, str]

    def has(self, plugin: str) -> bool:
        """Whether a plug-in is configured."""
        return any(option["name"] == plugin for tier in self.config["tiers"] for option in tier["plugins"])

    @property
    def tiers(self) -> list[set[str]]:
        """Names of the plug-ins of each tier."""
        return [{option["name"] for option in tier["plugins"]} for tier in self.config["tiers"]]

    def arguments(self, plugin: str) -> Mapping[str, Any]:
        """Arguments of a configured plug-in."""
        for tier in self.config["tiers"]:
            for option in tier["plugins"]:
                if option["name"] == plugin:
                    return option.get("arguments") or {}
        return {}

    @property
    def actions(self) -> list[str]:
        """Actions in order."""
        return [name.strip() for name in self.config["actions"].split(",")]

    def nominated(self) -> dict[str, str]:
        """Node by waiting pod, as an earlier cycle has promised."""
        found = {key: (pod.raw.get("status") or {}).get("nominatedNodeName") for key, pod in self.facts.pods.items()}
        return {key: node for key, node in found.items() if node and self.facts.pods[key].waits}

    def bound(self) -> list[tuple[Pod, str]]:
        """Pods that exist, and the nodes that they get."""
        return [(self.facts.pods[key], node) for key, node in self.binds if key in self.facts.pods]

    def after(self) -> list[tuple[Pod, str]]:
        """Everything that occupies a node once the binds are done; evicted pods are still there."""
        return [(pod, pod.node) for pod in self.facts.pods.values() if pod.occupies] + self.bound()
