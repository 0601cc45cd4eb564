"""Limits that namespaces put on themselves: resource quotas and disruption budgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from unisono.api.base import IntOrString, LabelSelector
from unisono.api.core import PodDisruptionBudget, ResourceQuota
from unisono.api.resources import resource_list


@dataclass(frozen=True, slots=True)
class Quota:
    """One ResourceQuota.

    Attributes:
        hard: the most of each quota name (``cpu``, ``requests.cpu``, ``pods``, ...), as `resource_list` reads it.
        used: what a quota controller has counted, None where none has.
        scopes: names of the scopes; the quota counts only pods that match all.
        priority_classes: priority classes that scope PriorityClass selects, None when it selects none by name.
        readable: False where its amounts cannot be read: it has no room for anything.
    """

    namespace: str
    name: str
    hard: Mapping[str, int]
    used: Mapping[str, int] | None
    scopes: frozenset[str] = frozenset()
    priority_classes: frozenset[str] | None = None
    readable: bool = True

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Budget:
    """One PodDisruptionBudget.

    Attributes:
        selector: its pods.
        min_available, max_unavailable: as on the spec.
        allowed: disruptions that a controller allows now, None where none has counted.
        disrupted: names of pods whose eviction is on its way already.
    """

    namespace: str
    name: str
    selector: LabelSelector | None
    min_available: IntOrString | None
    max_unavailable: IntOrString | None
    allowed: int | None
    disrupted: frozenset[str] = field(default_factory=frozenset)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def spare(self, expected: int, healthy: int) -> int:
        """How many of ``healthy`` pods may go, of ``expected`` that there should be."""
        if self.max_unavailable is not None:
            desired = expected - scaled(self.max_unavailable, expected)
        else:
            desired = scaled(self.min_available if self.min_available is not None else 0, expected)
        return max(healthy - max(desired, 0), 0)


L = TypeVar("L", Quota, Budget)


class LimitBook(Generic[L]):
    """Limits of one kind by namespace and name."""

    def __init__(self) -> None:
        self.by_namespace: dict[str, dict[str, L]] = {}

    def put(self, limit: L) -> bool:
        """Add or change one; False when nothing differs."""
        held = self.by_namespace.setdefault(limit.namespace, {})
        changed = held.get(limit.name) != limit
        held[limit.name] = limit
        return changed

    def remove(self, key: str) -> bool:
        """Forget one; False when it was unknown."""
        namespace, _, name = key.rpartition("/")
        held = self.by_namespace.get(namespace, {})
        removed = held.pop(name, None) is not None
        if removed and not held:
            del self.by_namespace[namespace]
        return removed

    def keys(self) -> list[str]:
        """``namespace/name`` of all."""
        return [f"{space}/{name}" if space else name for space, held in self.by_namespace.items() for name in held]


def quota_of(obj: ResourceQuota) -> Quota:
    """The record of a quota; what is in force counts, else what is wanted."""
    status = obj.status
    return replace(
        closed_quota(obj),
        hard=resource_list(status.hard or obj.spec.hard),
        used=resource_list(status.used) if status.used is not None else None,
        readable=True,
    )


def closed_quota(obj: ResourceQuota) -> Quota:
    """The record of a quota whose amounts cannot be read."""
    spec = obj.spec
    terms = (spec.scope_selector.match_expressions or ()) if spec.scope_selector is not None else ()
    names = [frozenset(t.values or ()) for t in terms if t.scope_name == "PriorityClass" and t.operator == "In"]
    return Quota(
        obj.metadata.namespace or "",
        obj.metadata.name,
        {},
        None,
        frozenset(spec.scopes or ()) | {term.scope_name for term in terms},
        frozenset.intersection(*names) if names else None,
        readable=False,
    )


def budget_of(obj: PodDisruptionBudget) -> Budget:
    """The record of a budget; ValueError when an amount is neither a number nor a percentage."""
    spec, status = obj.spec, obj.status
    for amount in (spec.min_available, spec.max_unavailable):
        scaled(amount or 0, 0)
    counted = status.observed_generation is not None
    return Budget(
        obj.metadata.namespace or "",
        obj.metadata.name,
        spec.selector,
        spec.min_available,
        spec.max_unavailable,
        (status.disruptions_allowed or 0) if counted else None,
        frozenset(status.disrupted_pods or ()),
    )


def closed_budget(obj: PodDisruptionBudget) -> Budget:
    """The record of a budget that cannot be read: none of its pods may go."""
    meta = obj.metadata
    return Budget(meta.namespace or "", meta.name, obj.spec.selector, "100%", None, 0)


def scaled(value: IntOrString, whole: int) -> int:
    """A number, or a percentage of ``whole`` rounded up; ValueError when the text is neither."""
    if isinstance(value, int):
        return value
    return -(-int(value.removesuffix("%")) * whole // 100)
