"""One state over all members: what each member tells goes into the hub's `ClusterState`, under its member's name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from unisono.api.annotations import CLUSTER, CLUSTER_ID, DISPATCH, HUB, NETWORK, ORIGIN_GROUP, ORIGIN_UID
from unisono.api.base import Object
from unisono.api.core import Node, Pod
from unisono.api.groups.autoscaling import MachineDeployment, NodePool
from unisono.api.groups.topology import HyperNode
from unisono.api.kind import Kind
from unisono.api.kinds import HYPER_NODES, JOBS, NODES, PODS
from unisono.api.licenses import MOST, UNIT
from unisono.cluster.floating import Floating
from unisono.cluster.interning import PodClasses
from unisono.controllers.node_scaling.decide import Pool
from unisono.controllers.node_scaling.provisioning import pool_of, pool_of_node_pool
from unisono.fleet.jobs import translation
from unisono.fleet.jobs.copies import Copy, Placement, copy_of
from unisono.fleet.jobs.decide import MemberView
from unisono.fleet.jobs.stand_ins import ENDED_PHASES, Change, StandIns
from unisono.fleet.jobs.translation import Origin
from unisono.kube.client import EventType
from unisono.scheduler.feed import Feed

CopyListener = Callable[[Kind[Any], str], None]


@dataclass(slots=True)
class _Record:
    """What is kept of one member."""

    origin: Origin
    nodes: dict[str, Node] = field(default_factory=dict)
    domains: dict[str, HyperNode] = field(default_factory=dict)
    copies: dict[tuple[str, str], tuple[Copy, Object]] = field(default_factory=dict)
    groups: dict[str, MachineDeployment | NodePool] = field(default_factory=dict)
    tier: bool = False
    own_labels: frozenset[str] | None = None


REFUSED_SECONDS: Final = 600.0
"""For which a member that has refused a ServiceExport is asked for no other."""


class Names:
    """In which members names of pods of all others of their network may be looked up, by Multi-Cluster Services."""

    def __init__(self, state: HubState) -> None:
        self._state = state
        self._refused: dict[str, float] = {}
        self._exported: dict[str, str] = {}
        self.on_refusal: Callable[[], None] = lambda: None
        self.on_export: CopyListener = lambda _kind, _key: None

    def of(self, cluster: str) -> str:
        """What a member is called in its ClusterSet; empty where it is in none."""
        return self._state.label(cluster, CLUSTER_ID)

    def lacking(self, clusters: Iterable[str], now: float) -> list[str]:
        """Those that have none, or take no ServiceExports; ``now`` is the clock's ``monotonic``."""
        return [cluster for cluster in clusters if not self.of(cluster) or self._refused.get(cluster, now) > now]

    def is_exported(self, key: str, uid: str) -> bool:
        """Whether the Service of this copy of a part is exported; ``key`` is the part's."""
        return self._exported.get(key) == uid

    def exported(self, key: str, uid: str) -> None:
        """It is exported."""
        self._exported[key] = uid
        self.on_export(JOBS, key)

    def forget(self, key: str) -> None:
        """A part is gone."""
        self._exported.pop(key, None)

    def refused(self, cluster: str, now: float) -> None:
        """A member takes no ServiceExports."""
        self._refused[cluster] = now + REFUSED_SECONDS
        self.on_refusal()


OF_MEMBERS: Final = Floating(amount=MOST * UNIT)
"""Stands for floating resources of which the hub has none: members look after their own."""


class HubState:
    """The members' part of the hub's state.

    Attributes:
        hub: the hub's identity; set before a member is added.
        key: with which it seals dispatches; empty where it does not.
        views: what is known of each member's connection.
        absent: resources (``jobs.batch``) that a member's API does not have, or (True) does not let the hub read, by
            member.
        outside: members that may not have a job that waits, and why, by uid of the job.
        names: how pods of different members find each other.
        labels: by label of pods that has the name of their job: resources of the kinds that a table describes so.
        unread: members that have not told of their copies of a kind yet, by resource.
    """

    def __init__(self, feed: Feed) -> None:
        self.hub = ""
        self.key = b""
        self.feed = feed
        feed.state.floating.unknown = OF_MEMBERS
        self.stand_ins = StandIns()
        self.views: dict[str, MemberView] = {}
        self.absent: dict[str, dict[str, bool]] = {}
        self.outside: dict[str, dict[str, str]] = {}
        self.names = Names(self)
        self.labels: dict[str, set[str]] = {}
        self.unread: dict[str, set[str]] = {}
        self._members: dict[str, _Record] = {}
        self._regions: set[str] = set()
        self._copies: dict[tuple[str, str], dict[str, tuple[Copy, Object]]] = defaultdict(dict)
        self._replicas: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._listeners: list[CopyListener] = []
        self.on_node_group: Callable[[str], None] = lambda _cluster: None

    # ---- members

    def add(self, cluster: str, labels: Mapping[str, str], prices: str = "") -> None:
        """A member joins, closed until `open`; or its labels change."""
        record = self._members.get(cluster)
        if record is None:
            self._members[cluster] = _Record(Origin(self.hub, cluster, dict(labels), open=False, prices=prices))
            self._retier(self._members[cluster])
        elif (dict(record.origin.labels), record.origin.prices) != (dict(labels), prices):
            record.origin = Origin(self.hub, cluster, dict(labels), record.origin.open, prices)
            self._renew(record)

    def open(self, cluster: str, *, is_open: bool) -> None:
        """Let a member take work, or no more."""
        record = self._members.get(cluster)
        if record is not None and record.origin.open != is_open:
            record.origin = replace(record.origin, open=is_open)
            self._renew(record)

    def is_open(self, cluster: str) -> bool:
        """Whether the member takes work."""
        record = self._members.get(cluster)
        return record is not None and record.origin.open

    def remove(self, cluster: str) -> None:
        """A member has left; its sinks must have been cleared."""
        record = self._members.pop(cluster, None)
        self.views.pop(cluster, None)
        self.absent.pop(cluster, None)
        for members in self.unread.values():
            members.discard(cluster)
        for key in [key for key in self._replicas if key[1] == cluster]:
            del self._replicas[key]
        if record is not None:
            for node in record.nodes.values():  # machines that might have come
                self._apply(NODES, "DELETED", translation.node(record.origin, node))
            if record.tier:
                self._apply(HYPER_NODES, "DELETED", translation.cluster_tier(record.origin, []))
        self._retier_regions()

    def closed(self) -> dict[str, str]:
        """Members that take no work, and why."""
        reasons: dict[str, str] = {}
        for cluster in self.members():
            if not self.is_open(cluster):
                view = self.views.get(cluster)
                lost = view is not None and view.lost_seconds > 0
                reasons[cluster] = "it does not answer" if lost else "it is drained or not ready"
        return reasons

    def members(self) -> list[str]:
        """Names of all members."""
        return sorted(self._members)

    def given_labels(self, cluster: str) -> dict[str, str]:
        """Labels that the hub gives all nodes of a member, and none of them has itself."""
        record = self._members.get(cluster)
        if record is None:
            return {}
        if record.own_labels is None:
            record.own_labels = frozenset(key for node in record.nodes.values() for key in node.metadata.labels or ())
        own = record.own_labels
        return {CLUSTER: cluster, **{key: value for key, value in record.origin.labels.items() if key not in own}}

    def network(self, cluster: str) -> str:
        """Name of the network that a member shares with others; empty where none is known."""
        return self.label(cluster, NETWORK)

    def lacks(self, cluster: str, kind: Kind[Any]) -> str:
        """Why a member has no objects of a kind; empty where it may have some."""
        forbidden = self.absent.get(cluster, {}).get(kind.resource)
        if forbidden is None:
            return ""
        if forbidden:
            return f"it does not let this hub read {kind.resource}: join it again to renew the hub's rights"
        return f"its API has no {kind.resource}"

    def label(self, cluster: str, key: str) -> str:
        """A label of a member's AttachedCluster; empty where it has none."""
        record = self._members.get(cluster)
        return record.origin.labels.get(key, "") if record is not None else ""

    # ---- what members tell

    def node(self, cluster: str, event_type: EventType, obj: Node) -> None:
        """A member's node has changed."""
        record = self._members.get(cluster)
        if record is None:
            return
        if event_type == "DELETED":
            record.nodes.pop(obj.metadata.name, None)
        else:
            record.nodes[obj.metadata.name] = obj
        record.own_labels = None
        self._apply(NODES, event_type, translation.node(record.origin, obj))

    def has_nodes(self, cluster: str) -> bool:
        """Whether a member has nodes, counted in a cycle or not yet."""
        record = self._members.get(cluster)
        return record is not None and any(not translation.is_to_come(name) for name in record.nodes)

    def has_node_groups(self, cluster: str) -> bool:
        """Whether a member has groups of nodes that may grow."""
        record = self._members.get(cluster)
        return record is not None and bool(record.groups)

    def hyper_node(self, cluster: str, event_type: EventType, obj: HyperNode) -> None:
        """A domain of a member's network has changed."""
        record = self._members.get(cluster)
        translated = translation.hyper_node(record.origin, obj) if record is not None else None
        if record is None or translated is None:
            return
        if event_type == "DELETED":
            record.domains.pop(translated.metadata.name, None)
        else:
            record.domains[translated.metadata.name] = translated
        self._apply(HYPER_NODES, event_type, translated)
        self._retier(record)

    def node_group(self, cluster: str, event_type: EventType, obj: MachineDeployment | NodePool) -> None:
        """A member's group of nodes has changed."""
        record = self._members.get(cluster)
        if record is not None:
            record.groups.pop(obj.key, None)
            if event_type != "DELETED":
                record.groups[obj.key] = obj
            self.on_node_group(cluster)

    def pools(self, cluster: str, now: float, *, given: bool = True) -> list[Pool]:
        """Groups of nodes of a member that may grow; ``given`` adds the labels that the hub gives their nodes."""
        record = self._members.get(cluster)
        if record is None:
            return []
        labels, mine = (record.origin.labels, {CLUSTER: cluster}) if given else ({}, {})
        there = [node for name, node in record.nodes.items() if not translation.is_to_come(name)]
        made = (
            pool_of(each, now) if isinstance(each, MachineDeployment) else pool_of_node_pool(each, there)
            for each in record.groups.values()
        )
        return [replace(pool, labels={**labels, **pool.labels, **mine}) for pool in made if pool is not None]

    def prices(self, cluster: str) -> str:
        """Prices of a member's resources, as its AttachedCluster says them."""
        record = self._members.get(cluster)
        return record.origin.prices if record is not None else ""

    def pod(self, cluster: str, event_type: EventType, obj: Pod) -> None:
        """A member's pod has changed."""
        record = self._members.get(cluster)
        if record is not None:
            self._note_replica(cluster, event_type, obj)
            self.show(self.stand_ins.pod(event_type, record.origin, self._marked(cluster, obj)))

    def _note_replica(self, cluster: str, event_type: EventType, pod: Pod) -> None:
        labels = pod.metadata.labels or {}
        if labels.get(HUB) != self.hub or ORIGIN_UID not in labels or ORIGIN_GROUP in (pod.metadata.annotations or {}):
            return
        here = self._replicas[labels[ORIGIN_UID], cluster]
        if event_type != "DELETED" and pod.spec.node_name and pod.status.phase not in ENDED_PHASES:
            here.add(pod.key)
        else:
            here.discard(pod.key)
        if not here:
            del self._replicas[labels[ORIGIN_UID], cluster]

    def replicas_with_nodes(self, uid: str, cluster: str) -> int:
        """How many replicas of a divided workload have a node in a member."""
        return len(self._replicas.get((uid, cluster), ()))

    def label_pods(self, resource: str, label: str) -> None:
        """Pods that are of a described kind have the name of their job by this label from now on; by none for none."""
        for resources in self.labels.values():
            resources.discard(resource)
        if label:
            self.labels.setdefault(label, set()).add(resource)
        self.labels = {name: resources for name, resources in self.labels.items() if resources}

    def _marked(self, cluster: str, pod: Pod) -> Pod:
        """A pod of a copy with the copy's marks, where its kind has no templates that could carry them."""
        labels = pod.metadata.labels or {}
        if not self.labels or ORIGIN_UID in labels:
            return pod
        for label in labels.keys() & self.labels.keys():
            for resource in self.labels[label]:
                copies = self._copies.get((resource, f"{pod.metadata.namespace}/{labels[label]}"), {})
                if (entry := copies.get(cluster)) is not None:
                    return marked_pod(pod, self.hub, entry[0])
        return pod

    def copy(self, cluster: str, kind: Kind[Any], event_type: EventType, obj: Object) -> None:
        """A copy of a job has changed in a member."""
        new_copy = copy_of(cluster, kind, obj, self.key)
        if new_copy is None:
            return
        here = self._copies[kind.resource, obj.key]
        if event_type == "DELETED":
            here.pop(cluster, None)
            if not here:
                self._copies.pop((kind.resource, obj.key), None)
        else:
            here[cluster] = (new_copy, obj)
        for listener in self._listeners:
            listener(kind, obj.key)

    # ---- what dispatching asks

    def on_copy(self, listener: CopyListener) -> None:
        """``listener`` is told the kind and key of each copy that changes."""
        self._listeners.append(listener)

    def copies(self, kind: Kind[Any], key: str) -> list[tuple[Copy, Object]]:
        """Copies of a name in all members, whatever job they come from."""
        return list(self._copies.get((kind.resource, key), {}).values())

    def all_copies(self, cluster: str) -> list[Copy]:
        """All copies in one member."""
        return [found[cluster][0] for found in self._copies.values() if cluster in found]

    def copy_keys(self) -> list[tuple[str, str]]:
        """Resource (``jobs.batch``) and key of everything that has a copy somewhere."""
        return list(self._copies)

    def stand(self, uid: str, placement: Placement, pods: Iterable[Pod]) -> None:
        """These pods stand for a job that is where ``placement`` says."""
        self.show(self.stand_ins.put(uid, placement, pods))

    def unstand(self, uid: str) -> None:
        """A job asks for nothing any more."""
        self.show(self.stand_ins.remove(uid))

    def is_crowded(self, uid: str) -> bool:
        """Whether pods of others have taken room on nodes that were chosen for a job's pods."""
        table = self.feed.state.nodes
        classes = PodClasses(table.registry)
        for name, pod in self.stand_ins.places(uid):
            column = table.index.get(name)
            if column is None:
                continue
            rows = classes.intern(pod.spec, pod.metadata.annotations).rows
            rows = rows[rows < len(table.allocatable)]
            if (table.used[rows, column] > table.allocatable[rows, column]).any():
                return True
        return False

    def show(self, changes: Iterable[Change]) -> None:
        """Bring changes of pods to the state."""
        for event_type, pod in changes:
            self._apply(PODS, event_type, pod)

    # ---- inside

    def _apply(self, kind: Kind[Any], event_type: EventType, obj: Object) -> None:
        self.feed.do(lambda: self.feed.state.apply(event_type, kind, obj))

    def _renew(self, record: _Record) -> None:
        """Tell the state of all nodes again: their labels, or whether they take work, have changed."""
        for node in record.nodes.values():
            self._apply(NODES, "MODIFIED", translation.node(record.origin, node))
        self._retier(record)

    def _retier(self, record: _Record) -> None:
        below = {
            member.selector.exact_match.name
            for domain in record.domains.values()
            for member in domain.spec.members or ()
            if member.type == "HyperNode" and member.selector is not None and member.selector.exact_match is not None
        }
        tops = sorted(name for name in record.domains if name not in below)
        self._apply(HYPER_NODES, "MODIFIED" if record.tier else "ADDED", translation.cluster_tier(record.origin, tops))
        record.tier = True
        self._retier_regions()

    def _retier_regions(self) -> None:
        regions = {name: translation.region_of(record.origin.labels) for name, record in self._members.items()}
        domains = {each.metadata.name: each for each in translation.region_tiers(regions)}
        for name in self._regions - domains.keys():
            gone = HyperNode()
            gone.metadata.name = name
            self._apply(HYPER_NODES, "DELETED", gone)
        for domain in domains.values():
            self._apply(HYPER_NODES, "MODIFIED", domain)
        self._regions = set(domains)


def marked_pod(pod: Pod, hub: str, copy: Copy) -> Pod:
    """The pod as one of this copy."""
    marks = {HUB: hub, ORIGIN_UID: copy.origin, DISPATCH: str(copy.generation)}
    meta = msgspec.structs.replace(
        pod.metadata,
        labels={**(pod.metadata.labels or {}), **marks},
        annotations={**(pod.metadata.annotations or {}), ORIGIN_GROUP: f"{copy.name}-{copy.origin}"},
    )
    return msgspec.structs.replace(pod, metadata=meta)


def lean_node(node: Node) -> Node:
    """A node without what scheduling does not read, of which the hub keeps very many."""
    status = msgspec.structs.replace(node.status, images=None, node_info=None)
    return msgspec.structs.replace(
        node, metadata=msgspec.structs.replace(node.metadata, managed_fields=None), status=status
    )
