"""Which members a job that waits may go to: policies, and members that have failed it lately."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from unisono.api.annotations import REBALANCE, START_TIMEOUT
from unisono.api.base import Object
from unisono.api.core import Pod
from unisono.api.groups.propagation import LEAST_COST, ROOM_ONLY
from unisono.api.kind import Kind
from unisono.api.promised_machines import machines_text
from unisono.api.times import parse_time
from unisono.cluster.interning import PodClasses
from unisono.cluster.nodes import NodeTable
from unisono.controllers.node_scaling.decide import demand_of
from unisono.fleet.hub_state import HubState
from unisono.fleet.jobs.copies import Placement, annotated_seconds
from unisono.fleet.jobs.work import Work, guided
from unisono.fleet.machines.members import cost_in
from unisono.fleet.machines.promises import LOOK_SECONDS as LOOK_AGAIN
from unisono.fleet.machines.promises import Gang, Machines
from unisono.fleet.machines.ways import Ask, Way
from unisono.fleet.policies.book import PolicyBook
from unisono.fleet.policies.rules import TIER, Rules
from unisono.fleet.reasons import room_by_member
from unisono.kube.clock import Clock
from unisono.kube.controller import sooner
from unisono.kube.pace import Backoff

# Whether a job had better be elsewhere than where it is (pure): its member is drained, a better one has room again.

PATIENCE: Final = 60.0
"""Seconds that a job waits in a member before another one that has room gets it."""
SETTLED: Final = 600.0
"""Seconds that a job is left alone after each dispatch, before it moves to a member that is only better."""
LOOK_SECONDS: Final = 30.0
"""How often jobs that may move are looked at."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A job in its member.

    Attributes:
        cluster: the member.
        started: a pod of it has a node there.
        seconds: since it was sent there.
        may_move: its owner lets it be stopped and started elsewhere.
        drained: the member takes no more work, by an administrator's wish.
        points: of clusters by the groups of its policy; the earlier the group, the more.
    """

    cluster: str
    started: bool
    seconds: float
    may_move: bool = False
    drained: bool = False
    points: Mapping[str, float] = field(default_factory=dict)


def why_move(seat: Seat, room: Collection[str]) -> str:
    """Why the job is to wait on the hub again, from where it goes elsewhere; empty where it stays.

    Args:
        seat: the job.
        room: other clusters that may have it and have room for all of it now.
    """
    if not room or not seat.may_move:
        return ""
    if not seat.started and seat.seconds >= PATIENCE:
        return f"no pod of it has got a node in {seat.cluster} for {PATIENCE:.0f} s, and {_named(room)} has room"
    if seat.drained:
        return f"{seat.cluster} is drained, and {_named(room)} has room"
    own = seat.points.get(seat.cluster, 0.0)
    better = [name for name in room if seat.points.get(name, 0.0) > own]
    if better and seat.seconds >= SETTLED:
        return f"{_named(better)} is of an earlier group of its policy, and has room again"
    return ""


def with_room(table: NodeTable, pods: Iterable[Pod]) -> set[str]:
    """Clusters whose nodes have room for pods of each kind, in the numbers that a job has of them."""
    classes = PodClasses(table.registry)
    counts = Counter(classes.intern(pod.spec, pod.metadata.annotations, pod.metadata.namespace or "") for pod in pods)
    clusters: set[str] | None = None
    for pod_class, number in counts.items():
        enough = {name for name, (free, _) in room_by_member(table, pod_class).items() if free >= number}
        clusters = enough if clusters is None else clusters & enough
    return clusters or set()


def _named(clusters: Collection[str]) -> str:
    return ", ".join(sorted(clusters)[:3])


START_SECONDS: Final = 600.0
"""How long a job may be in a member without a node for one of its pods."""

# A member may be given a kind that it lacked; this is how often that is looked at (seconds).
_LOOK_AGAIN: Final = 60.0


@dataclass(slots=True)
class _Trip:
    """What is remembered of a job.

    Attributes:
        since: since when it has waited on the hub, in seconds since 1970; None while it is with a member.
        sent: since when it has been with its member, on the monotonic clock, for a number of dispatch.
        failures: failures by member, and until when it is avoided.
    """

    since: float | None = None
    sent: tuple[int, float] | None = None
    failures: dict[str, tuple[int, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartOf:
    """Of which gang over members a job is a part.

    Attributes:
        uid: of the gang.
        gang: answers the gang.
        clusters: members that may have this part; empty for all.
    """

    uid: str
    gang: Callable[[], Gang]
    clusters: Collection[str] = ()


class Guide:
    """What is remembered is lost with the hub, and learnt again."""

    def __init__(self, kind: Kind[Any], book: PolicyBook, state: HubState, machines: Machines, clock: Clock) -> None:
        """``kind`` is that of the copies."""
        self._machines = machines
        self._kind, self._book, self._state, self._clock = kind, book, state, clock
        self._trips: dict[str, _Trip] = {}
        self._backoff = Backoff(base=30.0, cap=900.0)

    def forget(self, uid: str) -> None:
        """A job is gone."""
        self._trips.pop(uid, None)
        self._state.outside.pop(uid, None)
        self._machines.forget(uid)

    def failed(self, uid: str, cluster: str) -> None:
        """A member does not take the job, or does not start it."""
        trip = self._trips.setdefault(uid, _Trip())
        number = trip.failures.get(cluster, (0, 0.0))[0] + 1
        trip.failures[cluster] = number, self._clock.monotonic() + self._backoff.delay(number)

    def guide(
        self, kind: Kind[Any], subject: Object, uid: str, work: Work, placement: Placement, part: PartOf | None = None
    ) -> tuple[Work, float | None]:
        """The work kept to where it may go, and after how many seconds that changes by itself.

        Args:
            kind: of ``subject``.
            subject: the job, or the HyperJob of which it is a part.
            uid: of the job.
            work: what stands for the job.
            placement: where it is.
            part: of which gang the job is a part; None where it stands alone.
        """
        trip = self._trips.setdefault(uid, _Trip())
        if placement.cluster:
            trip.since = None
            self._state.outside.pop(uid, None)
            return work, None
        if trip.since is None:
            made = subject.metadata.creation_timestamp if not placement.generation else None
            trip.since = parse_time(made) if made else self._clock.time()
        now = self._clock.monotonic()
        avoided = {name: until - now for name, (_, until) in trip.failures.items() if until > now}
        waited = max(0.0, self._clock.time() - trip.since)
        rules = self._book.rules(kind, subject, work.pods, waited, avoided)
        lacking = {name: why for name in self._state.members() if (why := self._state.lacks(name, self._kind))}
        outside = {**lacking, **rules.outside}
        again = sooner(rules.again, _LOOK_AGAIN if lacking else None)
        promised = ""
        self._machines.choose(subject.metadata.uid or "", room_only=rules.choice == ROOM_ONLY)
        if rules.choice != ROOM_ONLY:
            promised, soon = self._look_for_machines(uid, work, rules, outside, part)
            again = sooner(again, soon)
        self._state.outside[uid] = outside
        inside = None
        if promised:
            inside = [promised]
        elif rules.bound:
            inside = [each.name for each in self._book.clusters() if each.name not in outside]
        pods = guided(work.pods, inside, outside, rules.points, uid if promised else "")
        return Work(work.group, pods), again

    def _look_for_machines(
        self, uid: str, work: Work, rules: Rules, outside: dict[str, str], part: PartOf | None
    ) -> tuple[str, float | None]:
        """The member whose machines the job may be placed on, and after how many seconds that changes by itself.

        Members whose room costs more than machines elsewhere, where the policy goes by that, are outside, too.
        """
        promised, cheapest = self._machines.promised_in(uid), rules.choice == LEAST_COST
        if promised and promised not in outside:
            return promised, self._machines.left(uid)
        if promised:
            self._machines.drop(uid)
        gang = work.pods[: max(1, work.group.spec.min_member or 1)]
        usable = [name for name in self._state.members() if name not in outside and self._state.is_open(name)]
        if part is not None and part.clusters:
            usable = [name for name in usable if name in part.clusters]
        asked = Ask(uid, [demand_of(pod.spec) for pod in gang], usable, rules.points.get(TIER, {}))
        if part is not None:
            again = self._machines.ask(part.uid, part.gang, asked, cheapest=cheapest)
            return self._machines.promised_in(uid), again
        way, again = self._machines.way_for(asked, cheapest=cheapest)
        if cheapest:
            again = sooner(again, LOOK_AGAIN)
            dearer = self._dearer(uid, gang, usable, way)
            outside |= dearer
            if way is not None and not dearer.keys() >= self._with_room(gang, usable):
                return "", again
        if way is None:
            return "", again
        if (pause := self._machines.left(uid)) is not None:
            return "", sooner(again, pause)
        self._machines.offer(uid, way)
        return way.cluster, self._machines.left(uid)

    def _with_room(self, gang: Sequence[Pod], usable: Collection[str]) -> set[str]:
        return with_room(self._state.feed.state.nodes, gang) & set(usable)

    def _dearer(self, uid: str, gang: Sequence[Pod], usable: Sequence[str], way: Way | None) -> dict[str, str]:
        """Members whose room costs a gang more than that of others, or than machines, and why they are passed by."""
        demands = [demand_of(pod.spec) for pod in gang]
        costs = {name: cost_in(self._state, name, demands) for name in self._with_room(gang, usable)}
        least = min(costs, key=lambda name: (costs[name], name), default="")
        if way is not None and (not least or way.price < costs[least]):
            other, price = f"{machines_text(way.machines)} in {way.cluster}", way.price
        elif least and not self._machines.lacks_nodes(uid):
            other, price = f"that of {least}", costs[least]
        else:  # room that was counted and could not be had keeps nobody from what there is
            return {}
        return {
            name: f"its room costs {cost:.4g} an hour, and {other} {price:.4g}"
            for name, cost in costs.items()
            if cost > price
        }

    def moves(self, kind: Kind[Any], job: Object, work: Work, placement: Placement) -> tuple[str, float | None]:
        """Why a job had better leave its member, and after how many seconds to look again."""
        uid = job.metadata.uid or ""
        if (job.metadata.annotations or {}).get(REBALANCE) != "true":
            return "", None
        started = self._state.stand_ins.has_started(uid)
        here = placement.cluster
        rules = self._book.rules(kind, job, work.pods, math.inf, {})
        clusters = {each.name: each for each in self._book.clusters()}
        seat = Seat(
            here,
            started,
            self._seconds_there(uid, placement),
            may_move=True,
            drained=here in clusters and clusters[here].gone,
            points=rules.points.get(TIER, {}),
        )
        trip = self._trips.setdefault(uid, _Trip())
        now = self._clock.monotonic()
        avoided = {name for name, (_, until) in trip.failures.items() if until > now}
        room = {
            name
            for name in with_room(self._state.feed.state.nodes, work.pods)
            if name != here and name not in rules.outside and name not in avoided and self._state.is_open(name)
        }
        return why_move(seat, room), LOOK_SECONDS

    def _seconds_there(self, uid: str, placement: Placement) -> float:
        trip, now = self._trips.setdefault(uid, _Trip()), self._clock.monotonic()
        if trip.sent is None or trip.sent[0] != placement.generation:
            trip.sent = placement.generation, now
        return now - trip.sent[1]

    def stalls(self, job: Object, placement: Placement) -> float | None:
        """Seconds that the member has left to start the job: 0.0 when time is up, None where it has started."""
        uid = job.metadata.uid or ""
        limit = annotated_seconds(job, START_TIMEOUT, START_SECONDS)
        coming = self._machines.time_left(uid)
        if coming is not None and placement.cluster and START_TIMEOUT not in (job.metadata.annotations or {}):
            return coming if not self._state.stand_ins.has_started(uid) else None
        if limit <= 0 or not placement.cluster or self._state.stand_ins.has_started(uid):
            return None
        return max(0.0, limit - self._seconds_there(uid, placement))
