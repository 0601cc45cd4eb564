"""What belongs to an object: what its controllers made between it and its pods, its PodGroups and its pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from unisono.api.base import Object
from unisono.api.core import Pod
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kind import Kind
from unisono.api.kind_families import REPLICA_SETS
from unisono.api.kinds import POD_GROUPS, PODS
from unisono.api.selecting import pod_group_name
from unisono.errors import NotFound
from unisono.jobkinds.registry import Kinds, between, of_resource
from unisono.kube.client import Client
from unisono.kube.clock import SYSTEM_CLOCK
from unisono.kube.defined_kinds import DefinedKinds

# From so many owners on, one list of all pods is cheaper than one list per owner.
_MANY_OWNERS = 16


@dataclass(slots=True)
class Dependents:
    """What belongs to one object.

    Attributes:
        parts: objects between it and its pods, such as a RayJob's RayCluster or a JobFlow's Jobs.
        groups: PodGroups, by name.
        pods: pods, by name.
    """

    parts: list[Any] = field(default_factory=list)
    groups: list[PodGroup] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)


def of_newest_revision(found: Dependents) -> Dependents:
    """Without what earlier revisions of a Deployment wait for: its newest one has taken their place."""
    sets = [part for part in found.parts if isinstance(part, REPLICA_SETS.struct)]
    newest = max(sets, key=_revision, default=None)
    if newest is None or len(sets) == 1:
        return found
    old = {part.metadata.uid for part in sets if part is not newest}
    late = [
        pod
        for pod in found.pods
        if not pod.spec.node_name and any(one.uid in old for one in pod.metadata.owner_references or ())
    ]
    names = {pod_group_name(pod.metadata.annotations, pod.spec) for pod in late}
    return Dependents(
        [part for part in found.parts if part.metadata.uid not in old],
        [group for group in found.groups if group.metadata.name not in names],
        [pod for pod in found.pods if pod not in late],
    )


def _revision(replica_set: Any) -> tuple[int, str]:
    revision = (replica_set.metadata.annotations or {}).get("deployment.kubernetes.io/revision", "")
    return int(revision) if revision.isdecimal() else 0, replica_set.metadata.creation_timestamp or ""


class ByOwner:
    """Objects by the UIDs of their owners."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items: dict[str, list[Any]] = {}
        for item in items:
            for reference in item.metadata.owner_references or ():
                self._items.setdefault(reference.uid, []).append(item)

    def of(self, owner: Object) -> list[Any]:
        """What the object owns."""
        return self._items.get(owner.metadata.uid or "", [])


class Owned(Protocol):
    """Objects that can be found by their owner."""

    def of(self, owner: Object, /) -> Sequence[Any]:
        """What the object owns."""
        ...


def owners_of(
    resource: str, owner: Object, made: Mapping[str, Owned], kinds: Kinds | None = None
) -> list[tuple[str, Any]]:
    """The object and everything between it and its pods, each with its resource.

    Args:
        resource: of the object.
        owner: the object.
        made: objects of the kinds of ``between``, by resource.
        kinds: what is known of kinds, where that is more than this program knows.
    """
    chain: list[tuple[str, Any]] = [(resource, owner)]
    for above, each in chain:
        definition = of_resource(above) if kinds is None else kinds.of_resource(above)
        for kind in definition.makes if definition is not None else ():
            if kind.resource in made:
                chain += [(kind.resource, part) for part in made[kind.resource].of(each)]
    return chain


def collect(
    owners: Sequence[tuple[str, Any]], groups: Owned, named: Callable[[str], PodGroup | None], pods: Owned
) -> Dependents:
    """What belongs to the first of the owners, out of objects that are known.

    Args:
        owners: as ``owners_of`` answers.
        groups: PodGroups by owner.
        named: the PodGroup of a name in the owners' namespace.
        pods: pods by owner.
    """
    mine = {pod.metadata.name: pod for _, owner in owners for pod in pods.of(owner)}
    by_name = {group.metadata.name: group for _, owner in owners for group in groups.of(owner)}
    for pod in mine.values():
        group = named(pod_group_name(pod.metadata.annotations, pod.spec))
        if group is not None:
            by_name[group.metadata.name] = group
    return Dependents([part for _, part in owners[1:]], _sorted(by_name), _sorted(mine))


async def dependents(client: Client, resource: str, owner: Object) -> Dependents:
    """Everything that belongs to an object, whatever its kind, as the server has it now.

    Args:
        client: the server.
        resource: of the object, such as ``rayjobs.ray.io``.
        owner: the object; of kinds that are not known here the metadata are enough.

    Raises:
        ApiError: the server cannot answer.
    """
    namespace = owner.metadata.namespace
    # Definitions are large: they are read for kinds that are not known without them.
    kinds = await DefinedKinds(client, SYSTEM_CLOCK).all() if of_resource(resource) is None else None
    parts = between(resource) if kinds is None else kinds.between(resource)
    made = {kind.resource: ByOwner(await listed(client, kind, namespace)) for kind in parts}
    owners = owners_of(resource, owner, made, kinds)
    pods = await _pods(client, namespace, [(name, each) for name, each in owners if _has_pods(name)])
    groups = await listed(client, POD_GROUPS, namespace, group_selector(resource, owner))
    return collect(owners, ByOwner(groups), {group.metadata.name: group for group in groups}.get, ByOwner(pods))


async def _pods(client: Client, namespace: str | None, owners: Sequence[tuple[str, Object]]) -> list[Pod]:
    selectors = {pod_selector(resource, owner) for resource, owner in owners}
    if "" in selectors or len(selectors) > _MANY_OWNERS:
        selectors = {""}
    pods: dict[str, Pod] = {}
    for selector in sorted(selectors):
        for pod in (await client.list(PODS, namespace, label_selector=selector)).items:
            pods[pod.metadata.uid or ""] = pod
    return list(pods.values())


def _has_pods(resource: str) -> bool:
    """Whether an owner has pods of its own, and not only others below it."""
    kind = of_resource(resource)
    return kind is None or kind.own_pods


def pod_selector(resource: str, owner: Object) -> str:
    """Which labels the owner's pods have; empty where nothing is known of them."""
    kind = of_resource(resource)
    if kind is not None and kind.pods_label:
        return f"{kind.pods_label}={owner.metadata.name}"
    selector = getattr(getattr(owner, "spec", None), "selector", None)
    labels: dict[str, str] = getattr(selector, "match_labels", None) or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def group_selector(resource: str, owner: Object) -> str:
    """Field selector of the owner's PodGroup; empty where its name is not known."""
    kind = of_resource(resource)
    name = kind.group_name.format(name=owner.metadata.name, uid=owner.metadata.uid) if kind is not None else ""
    return f"metadata.name={name}" if name else ""


async def listed(client: Client, kind: Kind[Any], namespace: str | None, field_selector: str = "") -> list[Any]:
    """All objects of a kind; none where the server does not serve it."""
    try:
        return list((await client.list(kind, namespace, field_selector=field_selector)).items)
    except NotFound:
        return []


def _sorted(items: Mapping[str, Any]) -> list[Any]:
    return [items[name] for name in sorted(items)]
