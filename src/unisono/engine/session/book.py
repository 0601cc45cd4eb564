"""The book of a session: what jobs are promised, which of those promises count, and what a job may have now.

A PodGroup that is admitted is promised its minResources until its pods hold them. Promises keep the gate from making
pods that cannot run, and must not keep others from room that their owners cannot use. So the gate asks twice:

- Beside **all** promises (`View.ALL`), as Volcano does: this admits in bulk what the cluster will take sooner or later.
- Where that refuses, beside the promises that are **live** (`View.NOW`), and against what is free now: a job that fits
  is let in to try, whatever others were promised.

A promise is live as long as its owner may still use what is free now. It lapses by what was seen, not by a list of
causes: the owner had all pods of its minimum in an earlier cycle and found no place, or it has got no further pod for
`PATIENCE_SECONDS`. A job whose promise has lapsed stays admitted and is placed as soon as it fits, before others that
come after it. Until then no other job like it is let in to try, unless it has a higher priority: it
would fail as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Final

import numpy as np

from unisono.api.annotations import GANG_PARTS
from unisono.cluster.promises import owner_of
from unisono.cluster.records import Job
from unisono.cluster.resources import PODS, ResourceRegistry, Vector, fitted
from unisono.cluster.snapshot import Snapshot
from unisono.cluster.status import READY_STATES, count
from unisono.engine.decisions import ShareMetrics
from unisono.engine.session.job_state import JobState, QueueState
from unisono.engine.session.limit import UNLIMITED, Amounts, aligned, listed

PATIENCE_SECONDS: Final = 5.0
"""How long an admitted gang may get no further pod before its promise lapses."""

_KINDS: Final = "book.kinds"
"""Under this name a job's record notes what it has in common with others."""

Moment = tuple[float, int]
_Account = Callable[[Job], str | None]
_Amounts = Callable[[Job], Mapping[str, int]]
Kind = tuple[object, ...]
"""What jobs have in common that fare alike at the gate and behind it."""


class View(Enum):
    """What gates count against a limit."""

    ALL = "held and all that is promised, less what is held beyond minResources"
    NOW = "held, and what is promised to those that may still use it"


class Evictable:
    """Amounts by queue, engine units by resource row; empty unless a gate is asked a second time."""

    __slots__ = ("by_queue",)

    def __init__(self, by_queue: Mapping[str, Amounts] | None = None) -> None:
        self.by_queue = by_queue or {}

    def __bool__(self) -> bool:
        """Whether anything could be freed."""
        return any(any(amounts) for amounts in self.by_queue.values())

    def or_more(self, other: Evictable) -> Evictable:
        """The larger amounts of both: several actions evict the same pods."""
        if not other.by_queue:
            return self
        larger = dict(self.by_queue)
        for queue, amounts in other.by_queue.items():
            mine = larger.get(queue)
            larger[queue] = amounts if mine is None else [max(pair) for pair in zip(mine, amounts, strict=True)]
        return Evictable(larger)

    def without(self, taken: Amounts, queues: Iterable[str] | None = None) -> Amounts:
        """``taken`` less what would be freed in ``queues``, or in all; the same list where that is nothing."""
        if not self.by_queue:
            return taken
        names = self.by_queue if queues is None else [name for name in queues if name in self.by_queue]
        left = list(taken)
        for name in names:
            for row, amount in enumerate(self.by_queue[name]):
                left[row] -= amount
        return left


@dataclass(slots=True)
class QueueShares:
    """Shares of queues; where several plug-ins tell the same, the last one counts.

    Attributes:
        plugin: the name of the plug-in that tells it.
        room_of: what a queue may still place, ``[R]``, or None where it is not limited.
        deserved: what queues deserve by weight, by name; empty where no plug-in has divided the cluster so.
        share_if: the share of a queue if it asked for so much more, and if so much of the cluster were lost; by
            resource row, None for nothing.
        outgrown: of each plug-in that divides the cluster, whether a queue would hold more than it may then, and does
            not yet, if so much of the cluster were lost, by resource row, and all that it holds were asked for.
        metrics_of: shares of a queue for metrics, or None where it has none.
        may_exceed: whether a gang that waits may go over the share of its queue, where the cluster has idle resources
            that no work within shares has used; None: no gang ever may.
        exceeding: the job that is being placed beyond the share of its queue just now, if one is.
    """

    plugin: str = ""
    room_of: Callable[[QueueState], Vector | None] | None = None
    deserved: Mapping[str, Amounts] = field(default_factory=dict)
    share_if: Callable[[QueueState, Amounts | None, Amounts | None], Amounts] | None = None
    outgrown: list[Callable[[QueueState, Amounts], bool]] = field(default_factory=list)
    metrics_of: Callable[[QueueState], ShareMetrics | None] | None = None
    may_exceed: Callable[[JobState], bool] | None = None
    exceeding: JobState | None = None

    def room(self, queue: QueueState) -> Vector | None:
        """``[R]`` what the queue may still place, None when no plug-in divides the cluster."""
        return None if self.room_of is None else self.room_of(queue)


class Promises:
    """What is remembered of admitted gangs from cycle to cycle.

    Attributes:
        unfilled: PodGroups with fewer pods than their minimum: since when, and how many they have.
        tried: shapes of gangs that have all their pods, keys of those without a shape or that were just admitted, and
            since which moment: time and version of the snapshot, so that a cycle decides the same when it is run
            again.
    """

    def __init__(self) -> None:
        self.unfilled: dict[str, tuple[float, int]] = {}
        self.tried: dict[int | str, Moment] = {}


def open_promises(snapshot: Snapshot, now: float) -> None:
    """Follow which admitted gangs lack pods; before a cycle."""
    promises = snapshot.memo.of(Promises, Promises)
    unfilled_since: dict[str, tuple[float, int]] = {}
    jobs, waiting = snapshot.jobs, snapshot.waiting
    keys = snapshot.active if waiting is None else waiting.but_kins(lambda key: not _is_unfilled(jobs[key]))
    for key in keys:
        job = jobs.get(key)
        if job is not None and _is_unfilled(job):
            number = len(job.tasks)
            since, before = promises.unfilled.get(key, (now, number))
            unfilled_since[key] = (since, number) if before == number else (now, number)
    promises.unfilled = unfilled_since


def close_promises(snapshot: Snapshot, now: float, jobs: Iterable[JobState] = ()) -> float | None:
    """Note which admitted gangs have had their chance; after a cycle that places.

    Args:
        snapshot: of the cycle.
        now: its time.
        jobs: those that it has served. Those that it has admitted have had their chance as well, or their pods are
            waited for from now on.

    Returns:
        when the next promise lapses if nothing changes, seconds since the epoch; None: none does.
    """
    promises = snapshot.memo.of(Promises, Promises)
    before, moment = promises.tried, (now, snapshot.version)
    promises.tried = {
        job.shape or job.key: before.get(job.shape or job.key, before.get(job.key, moment))
        for job, _ in snapshot.by_shape()
        if _has_pods(job)
    }
    again = now if moment in promises.tried.values() else None
    ends = [end for since, _ in promises.unfilled.values() if (end := since + PATIENCE_SECONDS) > now]
    for job in jobs:  # that they are admitted is written down, and with that comes the next cycle
        if job.phase != "Inqueue" or job.record.phase != "Pending":
            continue
        if job.size < job.min_member:
            promises.unfilled.setdefault(job.key, (now, job.size))
        elif not job.is_ready:
            promises.tried.setdefault(job.key, moment)
    return again if again is not None else min(ends, default=None)


def wait_out(snapshot: Snapshot, now: float) -> None:
    """Let the promises lapse of gangs that have lacked pods for as long as is known, and were there before that.

    Who looks at a cluster for the first time has not seen since when, and would count them for `PATIENCE_SECONDS`.
    """
    promises, jobs = snapshot.memo.of(Promises, Promises), snapshot.jobs
    for key, (_, number) in promises.unfilled.items():
        if key in jobs and now - jobs[key].created > PATIENCE_SECONDS:
            promises.unfilled[key] = (now - PATIENCE_SECONDS, number)


def remember_by_key(snapshot: Snapshot, job: Job) -> None:
    """Remember of a gang by its key what is known of its shape: a changed copy of it has another shape, or none."""
    tried = snapshot.memo.of(Promises, Promises).tried
    if job.shape in tried:
        tried[job.key] = tried[job.shape]


def comes_later(snapshot: Snapshot, key: str, now: float) -> bool:
    """Whether an admitted gang has too few pods, and is still waited for."""
    job, entry = snapshot.jobs.get(key), snapshot.memo.of(Promises, Promises).unfilled.get(key)
    if job is None or entry is None or not _is_unfilled(job):
        return False
    return len(job.tasks) == entry[1] and now - entry[0] < PATIENCE_SECONDS


class Book:
    """Promises of one session, those that it makes included.

    Attributes:
        view: what gates count now.
        evictable: what evictions would free, while a gate is asked whether they would let a job in.
        shares: what the plug-in that divides the cluster tells of queues.
        hopeful: a job asked for a try that would fit if nothing were promised.
    """

    def __init__(self, snapshot: Snapshot, queues: Mapping[str, QueueState], now: float) -> None:
        self.view = View.ALL
        self.evictable = Evictable()
        self.shares = QueueShares()
        self.hopeful = False
        self._snapshot, self._queues, self._now = snapshot, queues, now
        self._moment: Moment = now, snapshot.version
        self._registry: ResourceRegistry = snapshot.registry
        self._rows = len(snapshot.registry)
        self._groupings: list[tuple[Callable[[Job], Hashable | None], dict[Hashable, Vector]]] = []
        self._counted: list[tuple[_Account, _Amounts, dict[str, Counter[str]]]] = []
        self._promised: dict[str, Vector] = {}
        self._live: dict[str, Vector] | None = None
        self._sums: dict[tuple[View, tuple[str, ...]], Amounts] = {}
        self._stuck: dict[Kind, int] | None = None
        self._levels: dict[str, dict[int, Vector]] | None = None
        self._spare: dict[tuple[str, int], Amounts] = {}
        self._trying: Counter[tuple[Kind, Kind]] = Counter()
        self._room: dict[tuple[str, tuple[int, ...] | None], Amounts] = {}
        self._unasked_shares: dict[tuple[str, tuple[int, ...]], tuple[int, ...]] = {}

    # ---- promises

    def promised(self, name: str) -> Vector:
        """``[R]`` all that admitted jobs of a queue are promised and do not hold yet."""
        queue_promise = self._promised.get(name)
        if queue_promise is None:
            queue_promise = self._promised[name] = fitted(self._queues[name].record.inqueue, self._rows).copy()
        return queue_promise

    def live(self, name: str) -> Vector:
        """``[R]`` the part of it that its owners may still use."""
        if self._live is None:
            self._live = self._live_promises()
        return self._live[name]

    def taken(self, names: tuple[str, ...]) -> Amounts:
        """What gates count beside what the queues hold, in the view that is asked for; less what could be evicted.

        Args:
            names: of a queue, or of a queue and all below it, always in the same order; read only.
        """
        key = (self.view, names)
        amounts = self._sums.get(key)
        if amounts is None:
            total = np.zeros(self._rows, dtype=np.int64)
            for name in names:
                if self.view is View.NOW:
                    total += self.live(name)
                else:
                    total += self.promised(name)
                    total -= aligned(self._queues[name].record.elastic, self._registry)
            amounts = self._sums[key] = listed(total, self._registry)
        return self.evictable.without(amounts, names)

    def promised_everywhere(self) -> Amounts:
        """What is promised in all queues, in the view that is asked for, less what is in use as room kept on nodes."""
        key = self.view, ()
        amounts = self._sums.get(key)
        if amounts is None:
            promised = self.live if self.view is View.NOW else self.promised
            amounts = self._sums[key] = listed(self._beside_nodes(promised), self._registry)
        return amounts

    def promise(self, job: JobState, number: int = 1, *, trying: bool = False) -> None:
        """``number`` jobs like this one are admitted: each is promised its minResources, less what its gated pods ask.

        Those that are let in to try (`tries`) are in the way of jobs of their own kind alone until the next cycle:
        a kind that finds no place must not keep the kinds behind it from their try.
        """
        for account, amounts_of, counts in self._counted:
            _count(counts, account(job.record), amounts_of(job.record), number)
        asked = job.asks
        if asked is None:
            return
        gated = fitted(job.record.gated_request, self._rows)
        amounts = np.maximum(fitted(asked, self._rows) - gated, 0) * np.int64(number)
        self.promised(job.queue.name)
        self._promised[job.queue.name] += amounts
        if self._levels is not None:
            self._note_level(job.record, amounts)
        for of, totals in self._groupings:
            _add(totals, of(job.record), amounts)
        self._sums.clear()
        if trying:
            self._trying[_kinds(job.record)] += number
        elif self._live is not None:
            self._live[job.queue.name] += amounts
            self._room.clear()

    def grouped(self, of: Callable[[Job], Hashable | None]) -> Mapping[Hashable, Vector]:
        """Live promises by account, such as the user of a queue; it follows what this session promises.

        Room that is kept on nodes for a job which is not admitted yet counts as promised.

        Args:
            of: the account of a job, None where its promise counts for none.
        """
        by_account: dict[Hashable, Vector] = {}
        for job, keys in self._admitted():
            if self.counts(job):
                missing = self._missing(job)
                for key in keys:  # jobs of one shape may be for several users
                    _add(by_account, of(self._snapshot.jobs[key]), missing)
        for job in self._snapshot.jobs.values() if self._snapshot.promises else ():
            if job.promised is not None and job.known and not _is_promised(job):
                _add(by_account, of(job), fitted(job.promised, self._rows))
        self._groupings.append((of, by_account))
        return by_account

    def counted(self, of: _Account, amounts: _Amounts) -> Mapping[str, Counter[str]]:
        """Live promises by account of what has no resource row, such as the entries of a quota or devices of claims.

        It follows what this session promises. Jobs that state no minResources count as well.

        Args:
            of: the account of a job, None where its promise counts for none.
            amounts: what an admitted job is promised and does not hold yet, by name.
        """
        by_account: dict[str, Counter[str]] = {}
        for job, keys in self._admitted(stated=False):
            if self.counts(job):
                _count(by_account, of(job), amounts(job), len(keys))
        self._counted.append((of, amounts, by_account))
        return by_account

    def kept_in(self, namespace: str, beside: Job) -> Counter[str]:
        """Room on nodes that is kept for pods which are to come to a namespace, by resource, ``pods`` counted.

        What is kept for the job ``beside`` is left out, and what is kept for admitted jobs: that is promised to them.
        """
        snapshot, kept = self._snapshot, Counter[str]()
        if not snapshot.promises:
            return kept
        jobs = [job for job in snapshot.jobs.values() if job.phase == "Inqueue" and job.promised is not None]
        counted = {owner_of(job.namespace, job.labels) for job in (beside, *jobs)}
        for promise in snapshot.promises.values():
            for task in (snapshot.tasks[key] for key in promise.stands if key in snapshot.tasks):
                if task.namespace == namespace and promise.owner not in counted:
                    kept.update(task.pod_class.requests)
                    kept["pods"] += 1
        return kept

    def _missing(self, job: Job) -> Vector:
        """``[R]`` what an admitted job is promised and does not hold yet, without what its gated pods ask for."""
        placed = fitted(job.allocated, self._rows) + fitted(job.elsewhere, self._rows)
        rest = fitted(job.min_resources, self._rows) - placed  # type: ignore[arg-type]
        missing: Vector = np.maximum(np.maximum(rest, 0) - fitted(job.gated_request, self._rows), 0)
        return missing

    def counts(self, job: Job) -> bool:
        """Whether an admitted job may still use what it was promised and does not hold."""
        promises = self._snapshot.memo.of(Promises, Promises)
        if job.phase != "Inqueue":
            return True
        entry = promises.unfilled.get(job.key)
        if entry is not None and entry[1] == len(job.tasks) < job.min_member:
            return self._now - entry[0] < PATIENCE_SECONDS
        tried = promises.tried.get(job.shape or job.key) or promises.tried.get(job.key)
        return not _was_tried(job) if tried is None else tried == self._moment

    def _live_promises(self) -> dict[str, Vector]:
        live = {name: self.promised(name).copy() for name in self._queues}
        for job, keys in self._admitted():
            if job.queue in live and not self.counts(job):
                live[job.queue] -= self._missing(job) * np.int64(len(keys))
        for amounts in live.values():
            np.maximum(amounts, 0, out=amounts)
        return live

    def _admitted(self, *, stated: bool = True) -> Iterator[tuple[Job, Collection[str]]]:
        """Admitted jobs that hold less than is promised: one of each shape, with the keys of all that share it.

        Args:
            stated: only those that state minResources.
        """
        qualifies = _is_promised if stated else _is_admitted
        jobs = self._snapshot.jobs
        for job, keys in self._snapshot.by_shape():
            if not qualifies(job):
                continue
            if _is_unfilled(job):  # each is waited for since a time of its own
                yield from ((jobs[key], (key,)) for key in keys)
            else:
                yield job, keys

    # ---- what a job may have

    def room(self, job: JobState) -> Amounts:
        """What the job may have now without anybody being evicted: the least of what is free and of all its limits.

        Live promises of others are left to them. Sums over nodes: whether its pods fit on single nodes is not said.

        Returns:
            engine units by resource row, `UNLIMITED` where nothing limits it; read only.
        """
        exceeds = self.shares.may_exceed is not None and self.shares.may_exceed(job)
        key = job.queue.name, None if exceeds else self._unasked(job)
        amounts = self._room.get(key)
        if amounts is None:
            amounts = self._room[key] = self._room_of(job.queue, key[1])
        return amounts

    def _unasked(self, job: JobState) -> tuple[int, ...]:
        """What minResources state beyond the pods that are there, as far as the queue would get a share of it.

        Shares are divided by what pods ask for; what a driver makes later is in no request yet.
        """
        shares = self.shares
        if job.asks is None or shares.share_if is None or len(job.record.tasks) < job.min_member:
            return ()
        lacks = np.maximum(fitted(job.asks, self._rows) - fitted(job.record.request, self._rows), 0)
        beyond = tuple(lacks.tolist())
        if not any(beyond):
            return ()
        key = job.queue.name, beyond
        if key not in self._unasked_shares:
            now, then = shares.deserved.get(job.queue.name), shares.share_if(job.queue, list(beyond), None)
            parts = zip(beyond, then, now or [0] * self._rows, strict=True)
            unasked = tuple(max(min(each, share - mine), 0) for each, share, mine in parts)
            self._unasked_shares[key] = unasked if any(unasked) else ()
        return self._unasked_shares[key]

    def _room_of(self, queue: QueueState, unasked: tuple[int, ...] | None) -> Amounts:
        kept = self._beside_nodes(self.live).tolist()
        room = [free - promised for free, promised in zip(self._free, kept, strict=True)]
        for limit in queue.limits:
            beside = self._live_in(limit.family)
            for row, most in limit.most.items():
                left = most - int(limit.held[row]) - int(limit.leaving[row]) - int(beside[row])
                room[row] = min(room[row], left)
        of_share = self.shares.room(queue) if unasked is not None else None
        if of_share is not None:
            left_of_share = (fitted(of_share, self._rows) - self.live(queue.name)).tolist()
            for row, amount in enumerate(unasked or ()):
                left_of_share[row] += amount
            room = [min(pair) for pair in zip(room, left_of_share, strict=True)]
        room[PODS] = UNLIMITED
        return room

    @cached_property
    def _free(self) -> Amounts:
        """What no pod uses of the nodes that pods may be placed on; pods do not count."""
        sums = self._snapshot.nodes.sums()
        free: Amounts = fitted(sums.usable - sums.used, self._rows).tolist()
        free[PODS] = UNLIMITED
        return free

    @cached_property
    def soon_free(self) -> Evictable:
        """What pods hold that terminate already, of the same nodes; it is in no queue."""
        nodes = self._snapshot.nodes
        amounts = nodes.releasing[:, nodes.ready & ~nodes.unschedulable].sum(axis=1)
        return Evictable({"": listed(fitted(amounts, self._rows), self._registry)})

    def _beside_nodes(self, promised: Callable[[str], Vector]) -> Vector:
        total = np.zeros(self._rows, dtype=np.int64)
        for name, queue in self._queues.items():
            total += np.maximum(promised(name) - fitted(queue.record.standing, self._rows), 0)
        return total

    def _live_in(self, names: Iterable[str]) -> Vector:
        total = np.zeros(self._rows, dtype=np.int64)
        for name in names:
            total += self.live(name)
        return total

    def tries(self, job: JobState) -> int:
        """How many jobs like this one would fit into what they may have now, unless one like it waits in vain."""
        if job.asks is None or self.waits_in_vain(job):
            return 0
        needs = listed(job.asks, self._registry)
        self.hopeful = self.hopeful or all(need <= have for need, have in zip(needs, self._free, strict=True) if need)
        parts = [max(have, 0) // need for need, have in zip(needs, self.room(job), strict=True) if need > 0]
        return max(min(parts, default=UNLIMITED) - self._trying[_kinds(job.record)], 0)

    def gives_way(self, job: JobState) -> bool:
        """Whether the job may have what jobs of lower priority in its queue were promised, which come after it.

        Those of its priority and above have at most as much so, that what is promised stays bounded.
        """
        if job.asks is None:
            return False
        if self._levels is None:
            self._levels = {}
            for each, keys in self._admitted():
                self._note_level(each, self._missing(each) * np.int64(len(keys)))
        key = job.queue.name, job.priority
        spare = self._spare.get(key)
        if spare is None:
            spare = self._spare[key] = self._spare_behind(*key)
        rows = enumerate(zip(listed(job.asks, self._registry), spare, strict=False))
        return bool(spare) and all((0 if row == PODS else asked) <= left for row, (asked, left) in rows if asked > 0)

    def _spare_behind(self, queue: str, priority: int) -> Amounts:
        """What jobs of lower priority were promised beyond what those of this one and above were; empty: nothing is."""
        levels = (self._levels or {}).get(queue, {})
        spare = self._registry.zeros()
        for each, amounts in levels.items():
            spare += amounts if each < priority else -amounts
        return listed(spare, self._registry) if levels else []

    def _note_level(self, job: Job, amounts: Vector) -> None:
        assert self._levels is not None
        self._spare.clear()
        levels = self._levels.setdefault(job.queue, {})
        priority = self._snapshot.priority_of(job)
        levels[priority] = levels.get(priority, 0) + amounts

    def waits_in_vain(self, job: JobState) -> bool:
        """Whether an admitted job of the same kind had its chance and found no place, and comes before this one."""
        if self._stuck is None:
            self._stuck = {}
            for each, _ in self._admitted():
                priority = self._snapshot.priority_of(each)
                for kind in () if self.counts(each) else _kinds(each):
                    self._stuck[kind] = max(priority, self._stuck.get(kind, priority))
        stated, pods = _kinds(job.record)
        highest = self._stuck.get(pods if job.record.pending else stated)
        return highest is not None and job.priority <= highest


def _add(found: dict[Hashable, Vector], account: Hashable | None, amounts: Vector) -> None:
    if account is not None:
        found[account] = found[account] + amounts if account in found else amounts


def _kinds(job: Job) -> tuple[Kind, Kind]:
    """What other jobs for the same account ask for alike: as far as the PodGroup tells, and by the pods that exist."""
    kinds: tuple[Kind, Kind] | None = job.derived.get(_KINDS)
    if kinds is None:
        amounts = None if job.min_amounts is None else tuple(sorted(job.min_amounts.items()))
        roles = tuple(sorted(job.min_task_member.items()))
        groups = tuple(
            (policy.name, policy.parent, policy.size, policy.minimum, policy.wish) for policy in job.sub_groups
        )
        stated = (job.namespace, job.queue, job.min_member, amounts, roles, job.topology, groups)
        pods = Counter(task.pod_class.id for task in job.pending.values())
        kind = (*stated, job.annotations.get(GANG_PARTS, ""))
        kinds = job.derived[_KINDS] = kind, (*stated, frozenset(pods.items()))
    return kinds


def _count(found: dict[str, Counter[str]], account: str | None, amounts: Mapping[str, int], number: int) -> None:
    if account is not None:
        held = found.setdefault(account, Counter())
        for name, amount in amounts.items():
            held[name] += amount * number


def _was_tried(job: Job) -> bool:
    """Whether an admitted gang of which nothing is remembered has had its chance, as its pods say: after a restart."""
    return _has_pods(job) and any(task.told[0] for task in job.pending.values())


def _is_admitted(job: Job) -> bool:
    return job.known and not job.held and job.phase == "Inqueue"


def _is_promised(job: Job) -> bool:
    return _is_admitted(job) and job.min_resources is not None


def _is_unfilled(job: Job) -> bool:
    return _is_promised(job) and len(job.tasks) < job.min_member


def _has_pods(job: Job) -> bool:
    """It is admitted, has its pods, and waits all the same."""
    return _is_promised(job) and len(job.tasks) >= job.min_member and count(job.counts, READY_STATES) < job.min_member
