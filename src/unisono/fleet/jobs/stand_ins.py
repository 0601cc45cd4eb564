"""Pods that stand in the hub's state for a job: made from its templates first, and its member's pods later (pure).

A pod of the member takes the place of the stand-in of its name. Operators of other projects name pods as they like:
such a pod takes the place of one that asks for as much. While a job is with a member, a pod that the member
has not made yet, or makes again, keeps its place in the hub's state, so that no one else is promised it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from unisono.api.annotations import CLUSTER, DISPATCH, ORIGIN_GROUP, ORIGIN_UID
from unisono.api.core import Pod
from unisono.api.keys import GROUP_NAME
from unisono.api.resources import pod_requests
from unisono.fleet.jobs import translation
from unisono.fleet.jobs.copies import Placement
from unisono.fleet.jobs.translation import Origin, cluster_of, within
from unisono.kube.client import EventType

Change = tuple[EventType, Pod]
# No Kubernetes name begins with it.
_SOMEWHERE = "-"
_LONG_AGO = "1970-01-01T00:00:00Z"
ENDED_PHASES = frozenset(("Succeeded", "Failed"))
_NOBODY: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Stand:
    """One job: its stand-ins by name, the places they were given, and the pods that members have of it.

    ``adopted`` are pods that a hub before this one has dispatched: they hold their part of the queue, on a node that is
    not known until their member names it. ``instead`` are pods of other names, by key, and the stand-ins in whose place
    they are.
    """

    placement: Placement = field(default_factory=Placement)
    made: dict[str, Pod] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    real: dict[str, dict[str, tuple[Origin, Pod]]] = field(default_factory=dict)
    shown: dict[str, Pod] = field(default_factory=dict)
    adopted: frozenset[str] = frozenset()
    instead: dict[str, str] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)

    def place(self, name: str) -> str:
        """Node of a pod that the member has not bound; empty where it has none."""
        node = self.places.get(name, "")
        return node or (within(self.placement.cluster, _SOMEWHERE) if name in self.adopted else "")


class StandIns:
    """All jobs, by the uid of the hub's object; every method answers what changes in the hub's state."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Stand] = {}
        # By key of a pod: uid of the job that it stands for, and of those that members say it belongs to.
        self._owners: dict[str, str] = {}
        self._claims: dict[str, set[str]] = {}

    def put(self, uid: str, placement: Placement, pods: Iterable[Pod]) -> list[Change]:
        """A job asks for these pods now, and is where ``placement`` says."""
        stand = self._jobs.setdefault(uid, _Stand(placement=Placement("", -1)))
        is_new, moved = stand.placement.generation < 0, placement != stand.placement
        if moved:
            stand.adopted = frozenset()
        taken_back = not placement.cluster and placement.generation != stand.placement.generation
        stand.placement = placement
        if taken_back:
            stand.places.clear()
        elif placement.cluster:
            stand.places = {name: node for name, node in stand.places.items() if cluster_of(node) == placement.cluster}
        self._disown(uid, stand)
        stand.made = {pod.metadata.name: _identified(pod, uid, placement) for pod in pods}
        self._owners.update((pod.key, uid) for pod in stand.made.values())
        if is_new and placement.cluster:
            stand.adopted = frozenset(stand.made)
        stand.instead, stand.hidden = {}, set()
        for key in sorted(stand.real):
            self._find_seat(uid, stand, key)
        changes: list[Change] = []
        for key in sorted(pod.key for pod in stand.made.values() if self._claims.get(pod.key, _NOBODY) - {uid}):
            for other in sorted(self._claims[key] - {uid}):  # those come first: what they told of the pod goes
                claimed = self._jobs[other]
                changes += self._show_one(other, claimed, key, claimed.real[key].keys())
                for seat in self._find_seat(other, claimed, key):
                    changes += self._show_one(other, claimed, seat, ())
        return changes + list(self._show(uid, stand))

    def place(self, uid: str, pod: str, node: str) -> None:
        """The hub has chosen a node; the caller tells the state."""
        stand = self._jobs.get(uid)
        if stand is not None:
            stand.places[pod] = node

    def unplace(self, uid: str) -> None:
        """The choice of nodes is void."""
        stand = self._jobs.get(uid)
        if stand is not None:
            stand.places.clear()

    def placed(self, uid: str) -> Mapping[str, str]:
        """Nodes that the hub has chosen for pods of a job, by name of the pod."""
        stand = self._jobs.get(uid)
        return stand.places if stand is not None else {}

    def chosen(self, uid: str) -> dict[str, tuple[Pod, str]]:
        """Pods of a job that its member has given no node, by name, and the nodes that count for them until it does."""
        stand = self._jobs.get(uid)
        if stand is None or not stand.placement.cluster:
            return {}
        bound = {
            stand.instead.get(key, key.partition("/")[2])
            for key, here in stand.real.items()
            for origin, pod in here.values()
            if pod.spec.node_name and self._believed(uid, stand, origin, pod) is not None
        }
        return {name: (pod, stand.place(name)) for name, pod in stand.made.items() if name not in bound}

    def settle(self, uid: str, nodes: Mapping[str, str]) -> list[Change]:
        """Other nodes count for pods of a job, by name of the pod; one that is empty is not known yet."""
        stand = self._jobs.get(uid)
        if stand is None:
            return []
        somewhere = within(stand.placement.cluster, _SOMEWHERE)
        stand.places.update((name, node or somewhere) for name, node in nodes.items())
        return list(self._show(uid, stand))

    def has_started(self, uid: str) -> bool:
        """Whether a member's scheduler has given a pod of the job a node."""
        stand = self._jobs.get(uid)
        if stand is None:
            return False
        pods = [each for here in stand.real.values() for each in here.values()]
        return any(pod.spec.node_name and self._is_own(uid, stand, pod) for _, pod in pods)

    def bound(self, uid: str) -> int:
        """How many pods of the job's present dispatch have a node in its member."""
        stand = self._jobs.get(uid)
        if stand is None:
            return 0
        pods = (each for here in stand.real.values() for each in here.values())
        return sum(
            bool(pod.spec.node_name) and self._believed(uid, stand, origin, pod) is not None for origin, pod in pods
        )

    def left_in(self, uid: str) -> set[str]:
        """Members with pods of earlier dispatches of the job that have a node and have not ended."""
        stand = self._jobs.get(uid)
        if stand is None:
            return set()
        pods = (each for here in stand.real.values() for each in here.values())
        return {
            origin.cluster
            for origin, pod in pods
            if pod.spec.node_name
            and (pod.status.phase or "") not in ENDED_PHASES
            and self._is_own(uid, stand, pod)
            and not _is_current(stand.placement, origin, pod)
        }

    def places(self, uid: str) -> list[tuple[str, Pod]]:
        """Nodes that were chosen for pods of the job, with the pods, as long as no pod of it has a node."""
        stand = self._jobs.get(uid)
        if stand is None or self.bound(uid):
            return []
        return [(node, stand.made[name]) for name, node in stand.places.items() if name in stand.made]

    def remove(self, uid: str) -> list[Change]:
        """The job is gone; pods that members still have of it only occupy their nodes from now on."""
        stand = self._jobs.get(uid)
        if stand is None:
            return []
        self._disown(uid, stand)
        stand.made, stand.places, stand.placement = {}, {}, Placement("", -1)
        stand.instead, stand.hidden = {}, set()
        changes = list(self._show(uid, stand))
        if not stand.real:
            del self._jobs[uid]
        return changes

    def pod(self, event_type: EventType, origin: Origin, pod: Pod) -> list[Change]:
        """A pod of a member was added, changed or deleted."""
        if translation.dispatched_group(origin, pod) is None:
            return [(event_type, translation.pod(origin, pod))]
        uid = (pod.metadata.labels or {}).get(ORIGIN_UID, "")
        stand = self._jobs.setdefault(uid, _Stand(placement=Placement("", -1)))
        here = stand.real.setdefault(pod.key, {})
        if event_type == "DELETED":
            here.pop(origin.cluster, None)
        else:
            here[origin.cluster] = (origin, pod)
            self._claims.setdefault(pod.key, set()).add(uid)
        changes = list(self._show_one(uid, stand, pod.key, {origin.cluster, *here}))
        for seat in self._find_seat(uid, stand, pod.key):
            changes += self._show_one(uid, stand, seat, ())
        if not here:
            del stand.real[pod.key]
            self._claims.get(pod.key, set()).discard(uid)
            if not self._claims.get(pod.key):
                self._claims.pop(pod.key, None)
        if not stand.real and not stand.made and stand.placement.generation < 0:
            self._jobs.pop(uid, None)
        return changes

    def _find_seat(self, uid: str, stand: _Stand, key: str) -> list[str]:
        """Let a pod of another name than any stand-in's take the place of one, or give it back; keys that have changed.

        One that has failed gives it back: its successor has yet another name.
        """
        if key.partition("/")[2] in stand.made:
            return []
        pods = [
            pod
            for origin, pod in stand.real.get(key, {}).values()
            if pod.status.phase != "Failed" and self._believed(uid, stand, origin, pod) is not None
        ]
        had = stand.instead.get(key)
        if pods and had is None:
            seats = [
                name for name, made in stand.made.items() if name not in stand.hidden and made.key not in stand.real
            ]
            requested = pod_requests(pods[0].spec)
            had = next((name for name in seats if pod_requests(stand.made[name].spec) == requested), None)
            had = had or next(iter(seats), None)
            if had is None:
                return []
            stand.instead[key] = had
            stand.hidden.add(had)
            return [stand.made[had].key]
        if not pods and had is not None:
            del stand.instead[key]
            stand.hidden.discard(had)
            return [stand.made[had].key]
        return []

    def _disown(self, uid: str, stand: _Stand) -> None:
        for pod in stand.made.values():
            if self._owners.get(pod.key) == uid:
                del self._owners[pod.key]

    def _believed(self, uid: str, stand: _Stand, origin: Origin, pod: Pod) -> Pod | None:
        """A pod of the job's present dispatch, in the job's own gang; None for any other.

        Members and their users write labels and annotations of pods: whose name and namespace are another job's, or no
        job's, is none of this job.
        """
        if not _is_current(stand.placement, origin, pod) or not self._is_own(uid, stand, pod):
            return None
        sample = next(iter(stand.made.values()), None)
        if sample is None:
            return pod
        group = (sample.metadata.annotations or {}).get(GROUP_NAME)
        marks = pod.metadata.annotations or {}
        if group is None or marks.get(ORIGIN_GROUP) == group:
            return pod
        meta = msgspec.structs.replace(pod.metadata, annotations={**marks, ORIGIN_GROUP: group})
        return msgspec.structs.replace(pod, metadata=meta)

    def _is_own(self, uid: str, stand: _Stand, pod: Pod) -> bool:
        """Whether a pod that names the job may be one of it: no other job has its name, and it has its namespace."""
        sample = next(iter(stand.made.values()), None)
        at_home = sample is None or pod.metadata.namespace == sample.metadata.namespace
        return at_home and self._owners.get(pod.key, uid) == uid

    def _show(self, uid: str, stand: _Stand) -> Iterator[Change]:
        """The differences between what the state was told last and what it should be told now."""
        made = {pod.key for pod in stand.made.values()}
        own = {key for key in stand.shown if not cluster_of(key)}
        for key in sorted(made | own | stand.real.keys()):
            yield from self._show_one(uid, stand, key, stand.real.get(key, {}).keys())

    def _show_one(self, uid: str, stand: _Stand, key: str, clusters: Iterable[str]) -> Iterator[Change]:
        """The same for one pod of the job: its stand-in, and the pods of its name in these members."""
        name = key.partition("/")[2]
        made = stand.made.get(name)
        if made is not None and (made.key != key or name in stand.hidden):
            made = None
        desired: dict[str, Pod | None] = {key: None if made is None else self._stood(stand, made)}
        for cluster in clusters:
            desired.setdefault(within(cluster, key), None)
        for origin, pod in stand.real.get(key, {}).values():
            if (own := self._believed(uid, stand, origin, pod)) is not None:
                desired[key] = self._within(stand, _settled(translation.pod(origin, own, stand.place(name))))
            else:
                # Of an old copy, or of a job that is gone: it is on its way out.
                leaving = _leaving(translation.pod(Origin("", origin.cluster), pod))
                desired[leaving.key] = leaving
        for each, told_now in desired.items():
            before = stand.shown.get(each)
            if told_now is None:
                if before is not None:
                    yield "DELETED", stand.shown.pop(each)
            elif before != told_now:
                stand.shown[each] = told_now
                yield ("ADDED" if before is None else "MODIFIED"), told_now

    def _stood(self, stand: _Stand, pod: Pod) -> Pod:
        """The stand-in: without a node while its job waits; within its member and on its place afterwards."""
        place = stand.place(pod.metadata.name)
        spec = msgspec.structs.replace(pod.spec, node_name=place) if place else pod.spec
        return self._within(stand, _settled(msgspec.structs.replace(pod, spec=spec)))

    def _within(self, stand: _Stand, pod: Pod) -> Pod:
        """A pod of a dispatched job that has no node yet gets one of its member."""
        cluster = stand.placement.cluster
        if not cluster or pod.spec.node_name:
            return pod
        selector = {**(pod.spec.node_selector or {}), CLUSTER: cluster}
        return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_selector=selector))


def _identified(pod: Pod, uid: str, placement: Placement) -> Pod:
    """A stand-in has an identity of its own for each dispatch: what was decided for an earlier one is void."""
    meta = msgspec.structs.replace(pod.metadata, uid=f"{uid}/{placement.generation}/{pod.metadata.name}")
    return msgspec.structs.replace(pod, metadata=meta)


def _settled(pod: Pod) -> Pod:
    """A pod that was given a node counts there from now on, whatever else the member puts on that node meanwhile.

    The state believes no pod that has not started and names a node without room for it; and a member's scheduler takes
    other nodes than the hub has chosen. What is on its way to a member would count for nothing, and more would be sent.
    """
    if not pod.spec.node_name or pod.status.start_time:
        return pod
    started = pod.metadata.creation_timestamp or _LONG_AGO
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, start_time=started))


def _leaving(pod: Pod) -> Pod:
    """Its place becomes free soon: no one else needs to give way for it."""
    meta = pod.metadata
    since = meta.deletion_timestamp or meta.creation_timestamp or _LONG_AGO
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(meta, deletion_timestamp=since))


def _is_current(placement: Placement, origin: Origin, pod: Pod) -> bool:
    generation = (pod.metadata.labels or {}).get(DISPATCH)
    return placement.cluster == origin.cluster and str(placement.generation) == generation
