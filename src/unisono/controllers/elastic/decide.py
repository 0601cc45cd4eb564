"""How many replicas elastic jobs should have (pure).

A gang that waits and would fit if elastic jobs had fewer replicas gets its room, from those that have the most beyond
their minimum; so do pods beyond the minimum of their group, such as replicas of a server, from jobs of lower priority.
What then is free and is promised to none of them is dealt out, to those that have the least, as far as every limit has
room. A job is not changed again before its cool-down is over, and grows only while all of its replicas have places:
nothing swings. Replicas without places that a limit will not let in are given up.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from unisono.api.annotations import USER_LIMITS
from unisono.api.core import Pod, ResourceQuota
from unisono.api.groups.quota import FloatingResource
from unisono.api.groups.scheduling import PodGroup, Queue
from unisono.api.kinds import PODS
from unisono.api.licenses import PREFIX, UNIT, asked_for, is_floating, known_amounts, short
from unisono.api.pod_states import has_ended
from unisono.api.queues import JOBS, limits_of
from unisono.api.quota import counts, usage_of
from unisono.api.resources import pod_requests, resource_list
from unisono.api.selecting import account_of, lineage, queue_of
from unisono.controllers.node_scaling.decide import Demand, Room, Trial

# What limits leave for elastic jobs to grow by: of queues and all above them, of namespaces, and of users (pure).
#
# A limit has room for what is neither held nor promised to anybody else. Pods hold what they request until they are
# gone; an admitted PodGroup is promised its minResources, and what its pods ask for that have no node yet.

Amounts = Mapping[str, int]
_ADMITTED = ("Inqueue", "Running")


@dataclass(slots=True)
class Limit:
    """What is left of one limit; all whom it holds for share it.

    Attributes:
        what: it is, for people.
        left: by name, engine units; below zero where more is held and promised than it allows. A name that is absent
            is not limited.
        closed: it cannot be read, so nothing fits.
    """

    what: str
    left: dict[str, int]
    closed: bool = False

    def room(self, asked: Amounts) -> bool:
        """Whether so much more fits."""
        return not self.closed and all(amount <= self.left[name] for name, amount in asked.items() if name in self.left)

    def take(self, asked: Amounts, sign: int = 1) -> None:
        """Promise so much (-1: give it back)."""
        for name, amount in asked.items():
            if name in self.left:
                self.left[name] -= sign * amount

    def overdrawn(self, asked: Amounts) -> bool:
        """Whether more is promised of what is asked for than the limit allows."""
        return any(self.left.get(name, 0) < 0 for name, amount in asked.items() if amount > 0)


@dataclass(frozen=True, slots=True)
class Claim:
    """What one replica asks of one limit."""

    limit: Limit
    asked: Amounts


class Allowances:
    """All limits at one moment; each is worked out when a job is asked about that it holds for."""

    def __init__(
        self,
        queues: Iterable[Queue],
        quotas: Iterable[ResourceQuota],
        groups: Sequence[PodGroup],
        pods_of: Callable[[PodGroup], Sequence[Pod]],
        pods_in: Callable[[str], Iterable[Pod]],
        floating: Iterable[FloatingResource] = (),
    ) -> None:
        """``pods_of`` answers the pods of a PodGroup, ``pods_in`` all pods of a namespace."""
        self._floating = {f"{PREFIX}{each.metadata.name}": each for each in floating}
        self._queues = {queue.metadata.name: queue for queue in queues}
        self._quotas: dict[str, list[ResourceQuota]] = defaultdict(list)
        for quota in quotas:
            self._quotas[quota.metadata.namespace or ""].append(quota)
        self._groups, self._pods_of, self._pods_in = groups, pods_of, pods_in
        self._parents = {name: queue.spec.parent or "" for name, queue in self._queues.items()}
        self._limits: dict[tuple[str, ...], Limit] = {}
        self._sums: tuple[dict[str, Counter[str]], dict[tuple[str, str], Counter[str]]] | None = None

    def claims(self, group: PodGroup, sample: Pod, number: int) -> tuple[Claim, ...]:
        """What a replica of so many pods like ``sample`` asks of each limit that holds for its PodGroup."""
        asked = {name: amount * number for name, amount in (pod_requests(sample.spec) | {"pods": 1}).items()}
        name = queue_of(group)
        limit_claims = [Claim(limit, asked) for limit in self._of_queue(name)]
        user = self._of_user(name, account_of(group.metadata.namespace or "", group.metadata.annotations))
        limit_claims += [Claim(user, asked)] if user is not None else []
        limit_claims += [Claim(self._of_floating(each), asked) for each in asked if is_floating(each)]
        used = {name: amount * number for name, amount in usage_of(PODS, sample).items()}
        for quota in self._quotas.get(sample.metadata.namespace or "", ()):
            if counts(quota, sample):
                limit_claims.append(Claim(self._of_quota(quota), used))
        return tuple(limit_claims)

    # ---- queues and users

    def _of_queue(self, name: str) -> list[Limit]:
        limits, below = [], ""
        for each in lineage(name, self._parents):
            queue = self._queues.get(each)
            if queue is not None and queue.spec.capability is not None:
                taken, kept = self._taken()[0][each], self._kept_beside(each, below)
                key: tuple[str, ...] = ("queue", each)
                if key not in self._limits:
                    self._limits[key] = _limit(f"the capability of queue {each}", _capability(queue), taken)
                limits.append(self._limits[key])
                if kept:
                    key, what = ("queue", each, below), f"what guarantees of other queues leave of queue {each}"
                    if key not in self._limits:
                        self._limits[key] = _limit(what, _capability(queue), taken + kept)
                    limits.append(self._limits[key])
            below = each
        return limits

    def _kept_beside(self, parent: str, child: str) -> Counter[str]:
        """What the other queues right below a queue are guaranteed and do not hold yet; nothing for its own jobs."""
        kept: Counter[str] = Counter()
        for name, queue in self._queues.items():
            if not child or name in (child, parent) or self._parents[name] != parent or queue.spec.guarantee is None:
                continue
            try:
                guaranteed = Counter(resource_list(queue.spec.guarantee.resource))
            except ValueError:  # such a queue is guaranteed nothing
                continue
            kept.update(guaranteed - self._taken()[0][name])
        return kept

    def _of_user(self, name: str, account: str) -> Limit | None:
        queue = self._queues.get(name)
        text = (queue.metadata.annotations or {}).get(USER_LIMITS) if queue is not None else None
        if not text:
            return None
        key = ("user", name, account)
        if key not in self._limits:

            def limits() -> dict[str, int]:
                return {name: amount for name, amount in limits_of(text).items() if name != JOBS}

            self._limits[key] = _limit(f"what a user may have in queue {name}", limits, self._taken()[1][name, account])
        return self._limits[key]

    def _taken(self) -> tuple[dict[str, Counter[str]], dict[tuple[str, str], Counter[str]]]:
        """What is held and promised, by queue with all below it, and by queue and account."""
        if self._sums is None:
            queues: dict[str, Counter[str]] = defaultdict(Counter)
            users: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
            for group in self._groups:
                taken = _taken_by(group, self._pods_of(group))
                if not taken:
                    continue
                name = queue_of(group)
                for each in lineage(name, self._parents):
                    queues[each].update(taken)
                users[name, account_of(group.metadata.namespace or "", group.metadata.annotations)].update(taken)
            self._sums = queues, users
        return self._sums

    # ---- what lies on no node

    def _of_floating(self, name: str) -> Limit:
        key, obj = ("floating", name), self._floating.get(name)
        if key not in self._limits:
            taken = sum(_taken_by(group, self._pods_of(group))[name] for group in self._groups)
            amount, elsewhere, problem = (0, 0, "unknown") if obj is None else known_amounts(obj)
            held = obj.status.in_use or 0 if obj is not None else 0  # by pods outside of all gangs, too
            left = (amount - elsewhere) * UNIT - max(taken, held * UNIT)
            self._limits[key] = Limit(f"what there is of {short(name)}", {name: left}, closed=bool(problem))
        return self._limits[key]

    # ---- quotas of namespaces

    def _of_quota(self, quota: ResourceQuota) -> Limit:
        key = ("quota", quota.key)
        if key not in self._limits:
            status = quota.status

            def limits() -> dict[str, int]:
                return resource_list(status.hard or quota.spec.hard)

            try:
                used = Counter(resource_list(status.used)) if status.used is not None else self._counted(quota)
                used.update(self._to_come(quota))
            except ValueError:
                used = Counter()
            self._limits[key] = _limit(f"ResourceQuota {quota.metadata.name}", limits, used)
        return self._limits[key]

    def _counted(self, quota: ResourceQuota) -> Counter[str]:
        usage: Counter[str] = Counter()
        for pod in self._pods_in(quota.metadata.namespace or ""):
            if counts(quota, pod):
                usage.update(usage_of(PODS, pod))
        return usage

    def _to_come(self, quota: ResourceQuota) -> Counter[str]:
        """What admitted PodGroups are promised for pods that do not exist yet; scopes are known of pods alone."""
        expected: Counter[str] = Counter()
        for group in self._groups:
            if group.metadata.namespace != quota.metadata.namespace or group.status.phase != "Inqueue":
                continue
            pods = self._pods_of(group)
            there: Counter[str] = Counter()
            for pod in pods:
                there.update(usage_of(PODS, pod))
            promised = resource_list(group.spec.min_resources)
            missing = max(0, (group.spec.min_member or 0) - len(pods))
            expected.update({"pods": missing, "count/pods": 1000 * missing})
            for name, amount in promised.items():
                plain = name.removeprefix("requests.")
                if plain == "pods" or name.startswith(("limits.", "count/")):
                    continue
                rest = max(0, amount - there[f"requests.{plain}"])
                expected.update({plain: rest, f"requests.{plain}": rest})
        return expected


def _taken_by(group: PodGroup, pods: Sequence[Pod]) -> Counter[str]:
    """What the pods of a PodGroup hold, or what it and they are promised where that is more."""
    held: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for pod in pods:
        if has_ended(pod):
            continue
        requests = pod_requests(pod.spec) | {"pods": 1}
        asked.update(requests)
        if pod.spec.node_name:
            held.update(requests)
    try:
        whole = asked_for(group.metadata.annotations) if asked else {}
    except ValueError:
        whole = {}
    asked.update(whole)
    held.update(whole if held else {})
    if group.status.phase not in _ADMITTED:
        return held
    if group.status.phase == "Inqueue":
        try:
            asked |= Counter(resource_list(group.spec.min_resources))
        except ValueError:  # the scheduler has set it aside
            return held
    return asked


def _capability(queue: Queue) -> Callable[[], dict[str, int]]:
    return lambda: resource_list(queue.spec.capability)


def _limit(what: str, limits: Callable[[], dict[str, int]], taken: Mapping[str, int]) -> Limit:
    """A limit less what is taken of it; one that cannot be read leaves nothing."""
    try:
        return Limit(what, {name: amount - taken.get(name, 0) for name, amount in limits().items()})
    except ValueError:
        return Limit(what, {}, closed=True)


COOL_DOWN = 300.0
"""Seconds from a change of a job to its next growth, where the job says nothing else."""
SETTLE = 15.0
"""Seconds from a change of a job until it may shrink: pods of its last change are on their way."""
_MOST_PRUNED = 200


@dataclass(frozen=True, slots=True)
class Elastic:
    """Replicas of a job that may be more or fewer.

    Attributes:
        key: unique; ties go to the first.
        replicas: as the job asks for now.
        least: replicas that it needs.
        most: replicas that it can use.
        demand: the pods of one replica.
        places: of each replica the nodes of its pods, empty for one without a place; the last ones leave first. A job
            of which more or fewer replicas exist than it asks for is not changed.
        changed: when its replicas were changed last, seconds since 1970; minus infinity for never.
        cool_down: seconds from a change to the next growth.
        priority: of its pods.
        claims: what one replica asks of each limit that holds for the job.
    """

    key: str
    replicas: int
    least: int
    most: int
    demand: Demand
    places: tuple[tuple[str, ...], ...] = ()
    changed: float = float("-inf")
    cool_down: float = COOL_DOWN
    priority: int = 0
    claims: tuple[Claim, ...] = ()

    @property
    def settled(self) -> bool:
        """There are as many replicas as it asks for."""
        return len(self.places) == self.replicas

    @property
    def spare(self) -> int:
        """Replicas that may leave: so many with places stay as it needs."""
        stay, placed = 0, 0
        for nodes in self.places:
            stay, placed = stay + 1, placed + bool(nodes)
            if placed >= self.least and stay >= self.least:
                break
        return max(0, self.replicas - stay)


@dataclass(frozen=True, slots=True)
class Extra:
    """A pod that waits although its group has its minimum.

    Attributes:
        name: of the pod.
        group: pods of one group are alike: where one finds no room, the others do not either.
        demand: what it needs.
        priority: only jobs of lower priority make room for it.
    """

    name: str
    group: str
    demand: Demand
    priority: int


@dataclass(frozen=True, slots=True)
class ElasticPlan:
    """What should change.

    Attributes:
        replicas: by key, for those that should have others.
        reasons: by key, what for.
        helped: names of the gangs and pods for which replicas leave.
    """

    replicas: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    helped: Sequence[str] = ()


def plan(
    jobs: Sequence[Elastic],
    gangs: Iterable[tuple[str, Sequence[Demand]]],
    rooms: Sequence[Room],
    now: float,
    extras: Iterable[Extra] = (),
    resting: Collection[str] = (),
) -> ElasticPlan:
    """Decide about all elastic jobs together.

    Args:
        jobs: what may grow and shrink.
        gangs: name and missing pods of each gang that waits, who waits longest first.
        rooms: what is free on each node, each a pool of one machine; what leaves already counts as free.
        now: seconds since 1970.
        extras: pods that wait beyond the minimum of their group, who is to be served first first.
        resting: names of gangs and pods that were helped in vain: nothing leaves, what is free is still theirs.
    """
    free = Trial((), rooms)
    taken: dict[str, int] = {}
    reasons: dict[str, str] = {}
    by_key, hopeless, helped = {each.key: each for each in jobs}, set[str](), list[str]()
    wishes = [(name, f"{name}, which waits", gang, jobs, "") for name, gang in gangs]
    for extra in extras:
        lower = [each for each in jobs if each.priority < extra.priority]
        what = f"pod {extra.name}, of higher priority, which waits"
        wishes.append((extra.name, what, [extra.demand], lower, extra.group))
    for name, what, gang, givers, group in wishes:
        if group in hopeless:
            continue
        served = _fits(gang, free)
        if served is None:
            order = [] if name in resting else _leaving(givers, taken, now)
            solution = _make_room(gang, free, order, by_key, taken) if order else None
            if solution is None:
                hopeless |= {group} - {""}
                continue
            served, gone = solution
            helped.append(name)
            for key in gone:
                taken[key] = taken.get(key, 0) + 1
                reasons[key] = f"for {what}"
        free = served
    new_replicas = {each.key: each.replicas - taken[each.key] for each in jobs if taken.get(each.key)}
    for each in jobs:
        given_up, what = _in_vain(each, now) if each.key not in new_replicas else (0, "")
        if given_up:
            new_replicas[each.key], reasons[each.key] = each.replicas - given_up, f"beyond {what}"
    for key, replicas in _grow([each for each in jobs if each.key not in new_replicas], free.machines, now).items():
        new_replicas[key], reasons[key] = replicas, "for there is room that no gang waits for"
    return ElasticPlan(new_replicas, reasons, helped)


def _fits(gang: Sequence[Demand], free: Trial) -> Trial | None:
    trial = free.copy()
    return trial if all(not trial.fill(part) for part in gang) else None


def _leaving(jobs: Sequence[Elastic], taken: Mapping[str, int], now: float) -> list[str]:
    """Keys in the order in which replicas leave: always of the job that has the most beyond its minimum."""
    heap = []
    for each in jobs:
        spare = each.spare - taken.get(each.key, 0)
        if each.settled and spare > 0 and now - each.changed >= SETTLE:
            heap.append((-spare, each.key))
    heapq.heapify(heap)
    order = []
    while heap:
        spare, key = heapq.heappop(heap)
        order.append(key)
        if spare + 1 < 0:
            heapq.heappush(heap, (spare + 1, key))
    return order


def _make_room(
    gang: Sequence[Demand], free: Trial, order: Sequence[str], jobs: Mapping[str, Elastic], taken: Mapping[str, int]
) -> tuple[Trial, list[str]] | None:
    """The fewest replicas of this order that make room for the gang, without those that do not help."""

    def after(gone: Sequence[str]) -> Trial | None:
        trial = free.copy()
        at = {room.pool.name: room for room in trial.machines}
        counts = dict(taken)
        for key in gone:
            job, left = jobs[key], counts.get(key, 0)
            counts[key] = left + 1
            for node in job.places[len(job.places) - 1 - left]:
                if node in at:
                    _give_back(at[node], job.demand)
        return _fits(gang, trial)

    if after(order) is None:
        return None
    low, high = 0, len(order)
    while low < high:
        middle = (low + high) // 2
        if after(order[:middle]) is None:
            low = middle + 1
        else:
            high = middle
    gone = list(order[:high])
    for key in gone[:_MOST_PRUNED]:
        fewer = list(gone)
        fewer.remove(key)
        if after(fewer) is not None:
            gone = fewer
    served = after(gone)
    assert served is not None
    return served, gone


def _give_back(room: Room, pod: Demand) -> None:
    for name, amount in pod.requests.items():
        room.free[name] = room.free.get(name, 0) + amount


def _in_vain(job: Elastic, now: float) -> tuple[int, str]:
    """How many of the last replicas, without places for long, are more than a limit allows, and which limit."""
    if not job.settled or now - job.changed < max(job.cool_down, SETTLE):
        return 0, ""
    given_up, what = 0, ""
    for nodes in reversed(job.places[job.least :]):
        over = [claim.limit for claim in job.claims if claim.limit.overdrawn(claim.asked)]
        if nodes or not over:
            break
        given_up, what = given_up + 1, over[0].what
        for claim in job.claims:
            claim.limit.take(claim.asked, -1)
    return given_up, what


def _grow(jobs: Sequence[Elastic], rooms: Sequence[Room], now: float) -> dict[str, int]:
    """Deal out what is free, one replica at a time, to the job that has the fewest for its minimum."""
    ready = [
        each
        for each in jobs
        if each.replicas < each.most
        and each.settled
        and all(each.places)
        and now - each.changed >= max(each.cool_down, SETTLE)
    ]
    heap = [(each.replicas / max(each.least, 1), each.key, each.replicas, at) for at, each in enumerate(ready)]
    heapq.heapify(heap)
    first = [0] * len(ready)  # rooms only fill up: those that were too small stay so
    grown: dict[str, int] = {}
    while heap:
        _, key, replicas, at = heapq.heappop(heap)
        job = ready[at]
        if not all(claim.limit.room(claim.asked) for claim in job.claims) or not _take(job.demand, rooms, first, at):
            continue
        for claim in job.claims:
            claim.limit.take(claim.asked)
        grown[key] = replicas + 1
        if replicas + 1 < job.most:
            heapq.heappush(heap, ((replicas + 1) / max(job.least, 1), key, replicas + 1, at))
    return grown


def _take(pods: Demand, rooms: Sequence[Room], first: list[int], at: int) -> bool:
    """Take room for all pods of one replica, or nothing."""
    left, used = pods.count, list[tuple[Room, int]]()
    for number in range(first[at], len(rooms)):
        taken = rooms[number].take(pods, left)
        if taken:
            used.append((rooms[number], taken))
            left -= taken
        elif not used:
            first[at] = number + 1
        if not left:
            return True
    for room, taken in used:
        for name, amount in pods.requests.items():
            room.free[name] = room.free.get(name, 0) + taken * amount
    return False
