"""What to do about the parts of one HyperJob: a pure function of its record and of what members have.

Reserve, open, or release: the hub chooses members for all parts and writes that down; the copies are made and held
back; when every member has accepted its part, all are opened; when that takes too long, all are released. A part whose
member is lost follows the HyperJob's restart policy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import combinations, islice
from typing import Final

from unisono.api.groups.batch import HyperJob, Job
from unisono.api.promised_machines import machines_text
from unisono.api.selecting import controller_of
from unisono.cluster.nodes import NodeTable
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.controllers.hyperjob.decide import BY_REPLICATED_JOB, MOST_PARTS, Divisible, Split, divisible, split_of
from unisono.controllers.node_scaling.decide import Pool
from unisono.fleet.hub_state import HubState
from unisono.fleet.hyper_jobs.dividing import MOST_SETS, Floor, roles_of
from unisono.fleet.hyper_jobs.work import GangRecord, PlacedPart, clusters_of
from unisono.fleet.jobs.copies import Copy, Placement
from unisono.fleet.jobs.decide import WORKER_LOST_TIMEOUT, MemberView
from unisono.fleet.machines.promises import Machines
from unisono.fleet.reasons import room_by_member

# What is remembered of how waiting HyperJobs spread: the set of clusters that is tried, and when another is.

# Over how many clusters a HyperJob spreads: sets of clusters for ``maxDomains``, parts for ``mode: auto`` (pure).


def domain_set(
    most: int, fixed: Collection[str], room: Mapping[str, int], bounds: Sequence[Collection[str]], attempt: int
) -> tuple[str, ...] | None:
    """The clusters that the waiting parts may use, so that all parts are in ``most`` clusters or fewer.

    Sets with more room come first; with each attempt the next one is tried, and after the last the first again.

    Args:
        most: clusters that may be used.
        fixed: clusters that have parts already.
        room: clusters that take work, and how many pods each has room for.
        bounds: clusters that may have a part, for each part with such a bound.
        attempt: how many sets were tried before.

    Returns:
        the set; None where every set is allowed. An empty set means that no set can have all parts.
    """
    others = sorted((name for name in room if name not in fixed), key=lambda name: (-room[name], name))
    if len(others) + len(set(fixed)) <= most:
        return None
    free = max(0, most - len(set(fixed)))
    sets = [
        tuple(sorted({*fixed, *chosen}))
        for chosen in islice(combinations(others, free), MOST_SETS)
        if all(not bound or not {*fixed, *chosen}.isdisjoint(bound) for bound in bounds)
    ]
    return sets[attempt % len(sets)] if sets else ()


def number_of_parts(pods: int, most: int, room: Mapping[str, int]) -> int:
    """The fewest parts of equal size that find room, one or several in a cluster; 0 where none do.

    Args:
        pods: of all parts together.
        most: parts at most.
        room: pods that each cluster has room for.
    """
    for parts in range(1, min(most, pods, MOST_PARTS) + 1):
        size = -(-pods // parts)
        if sum(each // size for each in room.values()) >= parts:
            return parts
    return 0


PATIENCE: Final = 30.0
"""Seconds that one set of clusters is tried."""
LOOK_SECONDS: Final = 5.0
"""How often it is looked whether another split finds room."""
_NOWHERE: Final = ("",)


@dataclass(slots=True)
class _Trial:
    key: str
    attempt: int = 0
    until: float = 0.0
    clusters: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """What follows from one look.

    Attributes:
        split: into what each replicated job is split, where that is to change.
        moved: the clusters for the waiting parts have changed.
        again: look again after so many seconds.
    """

    split: Mapping[str, Split] | None = None
    moved: bool = False
    again: float | None = None


Growing = tuple[Mapping[str, Sequence[Pool]], Mapping[str, Sequence[Pool]]]


class Spreading:
    """Sets of clusters for HyperJobs with ``maxDomains``, and numbers of parts for those with ``mode: auto``."""

    def __init__(self, state: HubState, machines: Machines) -> None:
        self._state, self._machines = state, machines
        self._trials: dict[str, _Trial] = {}

    def forget(self, key: str) -> None:
        """A HyperJob is gone."""
        for uid in [uid for uid, trial in self._trials.items() if trial.key == key]:
            del self._trials[uid]

    def within(self, uid: str, bound: Sequence[str]) -> tuple[str, ...]:
        """Clusters that may have a part, of those that its ``clusterNames`` allow; empty for all."""
        trial = self._trials.get(uid)
        if trial is None or trial.clusters is None:
            return tuple(bound)
        allowed = tuple(each for each in trial.clusters if not bound or each in bound)
        return allowed or _NOWHERE

    def look(self, hyper_job: HyperJob, group: str, live: Mapping[str, Job], record: GangRecord, now: float) -> Spread:
        """Choose for what waits.

        Raises:
            SplitError: a split policy cannot be followed.
        """
        uid = hyper_job.metadata.uid or ""
        placed = {name: place.cluster for name, place in record.parts.items() if name in live}
        waiting = [job for name, job in live.items() if name not in placed]
        spreads = (hyper_job.spec.max_domains or 0) > 1 or _is_auto(hyper_job)
        if not waiting or not spreads:
            return Spread()
        if self._machines.is_offered(uid):
            return Spread(again=LOOK_SECONDS)
        split = None if placed else self._split(hyper_job, waiting)
        trial = self._trials.setdefault(uid, _Trial(hyper_job.key))
        if now < trial.until:
            return Spread(split, again=min(trial.until - now, LOOK_SECONDS))
        trial.until = now + PATIENCE
        moved = self._choose(hyper_job, trial, set(placed.values()), waiting, self._tasks(hyper_job, group))
        return Spread(split, moved, LOOK_SECONDS)

    def _choose(
        self, hyper_job: HyperJob, trial: _Trial, fixed: set[str], waiting: Sequence[Job], tasks: Sequence[Task]
    ) -> bool:
        most, before = hyper_job.spec.max_domains or 0, trial.clusters
        if most < 2 or not tasks:
            return False
        room = self._room(tasks[0].pod_class)
        named = clusters_of(hyper_job)
        bounds = [named.get((job.metadata.labels or {}).get(BY_REPLICATED_JOB, ""), ()) for job in waiting]
        # A member without nodes may grow.
        free = {name: 0 for name in self._state.members() if self._state.is_open(name)}
        free |= {name: now for name, (now, _) in room.items()}
        trial.clusters = domain_set(most, fixed, free, bounds, trial.attempt)
        trial.attempt += 1
        return trial.clusters != before

    def _split(self, hyper_job: HyperJob, waiting: Sequence[Job]) -> Mapping[str, Split] | None:
        """Into what each replicated job with ``mode: auto`` is split; None where that is what it should be."""
        before = split_of(hyper_job)
        splits = dict(before)
        outside = {name for job in waiting for name in self._state.outside.get(job.metadata.uid or "", ())}
        takers = [name for name in self._state.members() if self._state.is_open(name) and name not in outside]
        for replicated in hyper_job.spec.replicated_jobs or ():
            whole = divisible(replicated)
            if whole is not None:
                allowed = [name for name in takers if not replicated.cluster_names or name in replicated.cluster_names]
                most = hyper_job.spec.max_domains or max(len(allowed), 1)
                splits[replicated.name] = best_split(
                    self._state.feed.state.nodes,
                    whole,
                    allowed,
                    most,
                    before.get(replicated.name, 1),
                    self._growing(hyper_job, allowed),
                )
        return splits if splits != dict.fromkeys(splits, 1) | before else None

    def _growing(self, hyper_job: HyperJob, clusters: Collection[str]) -> Growing | None:
        owner = controller_of(hyper_job)
        if self._machines.takes_room_only(hyper_job.metadata.uid or "", owner.uid if owner is not None else None):
            return None
        grown = [name for name in clusters if self._state.has_node_groups(name)]
        if not grown:
            return None
        return (
            {name: self._machines.pools(name) for name in grown},
            {name: self._machines.all_pools(name) for name in grown},
        )

    def _room(self, pod_class: PodClass) -> dict[str, tuple[int, int]]:
        return room_by_member(self._state.feed.state.nodes, pod_class)

    def _tasks(self, hyper_job: HyperJob, group: str) -> list[Task]:
        job = self._state.feed.state.book.jobs.get(f"{hyper_job.metadata.namespace}/{group}")
        return list(job.tasks.values()) if job is not None else []


def _is_auto(hyper_job: HyperJob) -> bool:
    return any(divisible(each) is not None for each in hyper_job.spec.replicated_jobs or ())


def best_split(
    table: NodeTable,
    whole: Divisible,
    clusters: Collection[str],
    most: int,
    before: Split,
    growing: Growing | None = None,
) -> Split:
    """Into what a job is split: what finds room now, else what would if the clusters were empty, else as before.

    For either, machines that may come are looked at after the nodes that are there. Jobs of equal size come first,
    where one task alone is shared. What was chosen before and still finds room stays.

    Args:
        table: the hub's nodes.
        whole: the job.
        clusters: those that may have a part.
        most: clusters, and parts of equal size, at most.
        before: into what it is split.
        growing: groups of nodes by cluster, with the machines that are still free, and with all that may come.
    """
    roles = roles_of(table, whole.spec, whole.tasks)
    there = Floor(table, roles, clusters)
    now, ever = (Floor(table, roles, clusters, pools) for pools in growing) if growing else (there, there)
    floors = ((there, there.free), (now, now.free), (there, there.whole), (ever, ever.whole))
    for floor, amounts in floors if growing else floors[::2]:
        if whole.equal and roles:
            room = {name: floor.room(amounts, name) for name in clusters}
            if equal := number_of_parts(roles[0].total, most, room):
                return equal
        if not isinstance(before, int) and floor.holds(amounts, before):
            return before
        shares = floor.share(amounts, most)
        if len(shares) == 1:
            return 1
        if shares:
            return shares
    return before


RESERVE_SECONDS: Final = 300.0
"""Seconds in which every member must have accepted its part."""
START_SECONDS: Final = 1800.0
"""Seconds from the opening in which every part must run."""
BIND_SECONDS: Final = 120.0
"""Seconds from the opening in which every part must have its nodes."""
_LOOK_AGAIN: Final = 10.0
_GONE: Final = MemberView(False, float("inf"))


class RestartPolicy(StrEnum):
    """What happens when the member of a part is lost."""

    GANG = "Gang"
    """All parts are taken back and start again together."""
    PART = "Part"
    """That part alone starts elsewhere."""
    NEVER = "Never"
    """The part has failed; the HyperJob's ``minAvailable`` says whether the others go on."""


@dataclass(frozen=True, slots=True)
class PartView:
    """A part that has not ended.

    Attributes:
        uid: of its job.
        written: where its job says it is; a higher generation than the record's means that a user took it back.
        copies: its copies in members, of whatever generation.
        runs: its copy says that its gang runs.
        late: it cannot be held back; its copy is made when the gang opens.
        crowded: others have taken the room in its member that was reserved for it.
        bound: enough of its pods have a node.
        named: its pods will have names that all members know, or need none.
        coming: seconds that machines which it waits for have left to come; None where it waits for none.
    """

    uid: str
    written: Placement = field(default_factory=Placement)
    copies: Sequence[Copy] = ()
    runs: bool = False
    late: bool = False
    crowded: bool = False
    bound: bool = True
    named: bool = True
    coming: float | None = None


@dataclass(frozen=True, slots=True)
class GangView:
    """What the hub wants of a HyperJob.

    Attributes:
        record: where its parts are.
        parts: parts that have not ended, by the name of their job.
        complete: every part that there should be is in ``parts`` or has ended.
        policy: what follows the loss of a member.
        lost_timeout, reserve_timeout, start_timeout, bind_timeout: in seconds.
    """

    record: GangRecord
    parts: Mapping[str, PartView]
    complete: bool = True
    policy: RestartPolicy = RestartPolicy.GANG
    lost_timeout: float = WORKER_LOST_TIMEOUT
    reserve_timeout: float = RESERVE_SECONDS
    start_timeout: float = START_SECONDS
    bind_timeout: float = BIND_SECONDS


@dataclass(slots=True)
class GangSteps:
    """What to do.

    Attributes:
        record: write this down first.
        why: in words, for an event; empty where nothing needs to be said.
        released: parts are taken back; they wait a while before they are placed again.
        fail: parts whose jobs have failed, to be told before the record is written.
        late: parts for which no machines have come in time.
        again: look again after so many seconds; None when only a change calls for it.
    """

    record: GangRecord | None = None
    why: str = ""
    released: bool = False
    fail: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    again: float | None = None


def decide_gang(gang: GangView, members: Mapping[str, MemberView], now: float, *, trusted: bool = True) -> GangSteps:
    """The next steps for the parts together; `unisono.fleet.decide.decide` says them for each part's copies.

    Args:
        gang: the HyperJob.
        members: the members by name; one that is absent has left.
        now: seconds since 1970.
        trusted: False where so many members are lost that the fault is probably the hub's.
    """
    return _Decision(gang, members, now, trusted=trusted).run()


class _Decision:
    def __init__(self, gang: GangView, members: Mapping[str, MemberView], now: float, *, trusted: bool) -> None:
        self.gang, self.record, self.members = gang, gang.record, members
        self.now, self.trusted = now, trusted
        self.placed = {
            name: self.record.parts[name]
            for name, part in gang.parts.items()
            if self.record.placement(name, part.uid).cluster
        }
        copies = [copy.generation for part in gang.parts.values() for copy in part.copies]
        self.beyond = max([*copies, *(part.written.generation for part in gang.parts.values())], default=0)

    def run(self) -> GangSteps:
        forgotten = [name for name, part in self.gang.parts.items() if self._newest(part) > self._generation(name)]
        if forgotten:
            return self._adopt()
        taken = [name for name, part in self.gang.parts.items() if part.written.generation > self._generation(name)]
        if taken:
            return self._drop(taken, f"{_named(taken)} was taken back")
        return self._lost() or self._late() or self._reserve() or self._started()

    # ---- what went wrong

    def _adopt(self) -> GangSteps:
        """The hub has forgotten dispatches: it was restored from an older backup. What is whole goes on."""
        newest: dict[str, PlacedPart] = {}
        for name, part in self.gang.parts.items():
            copy = max(part.copies, key=lambda each: (each.generation, each.cluster, each.uid), default=None)
            if copy is not None and not copy.deleting:
                newest[name] = PlacedPart(copy.cluster, copy.generation, part.uid)
        if newest.keys() == self.gang.parts.keys():
            top = max(self.record.number, self.beyond)
            restored = GangRecord(top, top, 0, self.now, {**self.record.parts, **newest})
            return GangSteps(restored, "its parts were found in members")
        unread = [view for view in self.members.values() if not view.reachable]
        if any(view.lost_seconds < self.gang.lost_timeout for view in unread) or (unread and not self.trusted):
            return GangSteps(again=_LOOK_AGAIN)
        return self._drop(list(self.gang.parts), "only some of its parts were found in members", whole=True)

    def _lost(self) -> GangSteps | None:
        """Parts whose member has been lost for too long."""
        silent = {name: self._view(place) for name, place in self.placed.items() if not self._view(place).reachable}
        lost = [name for name, view in silent.items() if view.lost_seconds >= self.gang.lost_timeout]
        if not lost or not self.trusted:
            return None
        why = f"member {', '.join(sorted({self.placed[name].cluster for name in lost}))} of {_named(lost)} is lost"
        if self.gang.policy is RestartPolicy.NEVER and not any(map(self.record.is_held, lost)):
            left = self.record.without(lost, self.now, beyond=self.beyond)
            return GangSteps(left, why, fail=tuple(lost))
        return self._drop(lost, why)

    # ---- reserve, open, start

    def _late(self) -> GangSteps | None:
        """Parts for which no machines have come in time."""
        late = [name for name in self._coming() if self.gang.parts[name].coming == 0.0]
        if not late:
            return None
        texts = (
            f"{machines_text(machines.machines)} in member {self.placed[name].cluster} for {name}"
            for name in sorted(late)
            if (machines := self.placed[name].machines) is not None
        )
        steps = self._drop({*late, *self._grown()}, f"{'; '.join(texts)} have not come in time")
        return replace(steps, late=tuple(late))

    def _reserve(self) -> GangSteps | None:
        """Parts that are held back: open all when every member has accepted, release all when that takes too long.

        Those that wait for machines are opened first, as only pods make a member ask for machines; nothing runs yet in
        the room that is there for the others.
        """
        held = [name for name in self.placed if self.record.is_held(name)]
        if not held:
            return None
        crowded = [name for name in held if self.gang.parts[name].crowded]
        if crowded:
            back = {*held, *self._grown()}
            return self._drop(back, f"others have taken the room: {self._where(crowded)}", only=True)
        if opened := [name for name in self._coming() if name not in held]:
            return GangSteps(again=self._until_come(opened))
        missing = [name for name in self.placed if not self._accepted(name)]
        waiting = self.gang.parts.keys() - self.placed.keys()
        if not missing and not waiting and self.gang.complete:
            number = min(self.placed[name].generation for name in held)
            opened = [name for name in held if self.placed[name].generation == number]
            return GangSteps(self.record.open(self.now, number), f"every member has accepted: {self._where(opened)}")
        left = self.record.since + self.gang.reserve_timeout - self.now
        if left > 0:
            return GangSteps(again=left)
        absent = self._where(missing) or "a part that is not made yet"
        why = f"not accepted within {self.gang.reserve_timeout:g} s: {absent}"
        return self._drop({*held, *self._grown()}, why, only=True)

    def _started(self) -> GangSteps:
        """Parts that were opened: none may wait long while others hold their places."""
        opened = [name for name, place in self.placed.items() if place.generation > self.record.started]
        if not opened:
            return GangSteps(again=self._until_lost())
        waiting = [name for name in opened if not self.gang.parts[name].runs]
        if not waiting:
            return GangSteps(self.record.start())
        seconds = self.now - self.record.since
        coming = self._coming()
        unbound = [name for name in waiting if not self.gang.parts[name].bound and name not in coming]
        reachable = all(self._view(self.placed[name]).reachable for name in unbound)
        if unbound and reachable and seconds >= self.gang.bind_timeout:
            # The others run and wait for it: all of them start again where there is room for all.
            return self._drop(unbound, f"no nodes within {self.gang.bind_timeout:g} s: {self._where(unbound)}")
        left = max([self.gang.start_timeout - seconds, *(self.gang.parts[name].coming or 0.0 for name in coming)])
        if left > 0 and coming and not unbound:
            return GangSteps(again=self._until_come(coming))
        if left > 0:
            soon = self.gang.bind_timeout - seconds if unbound else left
            return GangSteps(again=max(1.0, min(left, soon, self._until_lost() or left)))
        if not all(self._view(self.placed[name]).reachable for name in waiting):
            return GangSteps(again=self._until_lost() or _LOOK_AGAIN)
        return self._drop(waiting, f"not running within {self.gang.start_timeout:g} s: {self._where(waiting)}")

    def _drop(self, names: Collection[str], why: str, *, whole: bool = False, only: bool = False) -> GangSteps:
        """Take parts back: all of them, or only these where the policy or ``only`` says so."""
        if only or (self.gang.policy is RestartPolicy.PART and not whole):
            back = set(names) | {name for name in self.placed if self.record.is_held(name)}
        else:
            back = set(self.gang.parts)
        return GangSteps(self.record.without(back, self.now, beyond=self.beyond), why, released=True)

    # ---- of one part

    def _coming(self) -> list[str]:
        """Parts that wait for machines."""
        return [name for name in self.placed if self.gang.parts[name].coming is not None]

    def _grown(self) -> list[str]:
        """Parts that were opened first, for machines, and start with those that are held back."""
        return [name for name in self.placed if self.record.waits(name)]

    def _until_come(self, names: Collection[str]) -> float:
        left = [self.gang.parts[name].coming or 0.0 for name in names]
        return max(1.0, min(*left, self._until_lost() or _LOOK_AGAIN, _LOOK_AGAIN))

    def _accepted(self, name: str) -> bool:
        place, part = self.placed[name], self.gang.parts[name]
        has_copy = any(
            (copy.cluster, copy.generation, copy.deleting) == (place.cluster, place.generation, False)
            for copy in part.copies
        )
        return self._view(place).reachable and (has_copy or part.late) and part.named

    def _generation(self, name: str) -> int:
        return self.record.placement(name, self.gang.parts[name].uid).generation

    def _newest(self, part: PartView) -> int:
        return max((copy.generation for copy in part.copies), default=-1)

    def _view(self, place: PlacedPart) -> MemberView:
        return self.members.get(place.cluster, _GONE)

    def _where(self, names: Collection[str]) -> str:
        return ", ".join(f"{name} in {self.placed[name].cluster}" for name in sorted(names))

    def _until_lost(self) -> float | None:
        """Seconds until a member that does not answer counts as lost."""
        silent = [self._view(place) for place in self.placed.values()]
        left = [self.gang.lost_timeout - view.lost_seconds for view in silent if not view.reachable]
        return max(1.0, min(left)) if left else None


def _named(names: Collection[str]) -> str:
    return f"part {', '.join(sorted(names))}"
