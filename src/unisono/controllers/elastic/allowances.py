"""What limits leave for elastic jobs to grow by: of queues and all above them, of namespaces, and of users (pure).

A limit has room for what is neither held nor promised to anybody else. Pods hold what they request until they are gone;
an admitted PodGroup is promised its minResources, and what its pods ask for that have no node yet.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from unisono.api.annotations import USER_LIMITS
from unisono.api.core import Pod, ResourceQuota
from unisono.api.groups.scheduling import PodGroup, Queue
from unisono.api.kinds import PODS
from unisono.api.membership import account_of, lineage, queue_of
from unisono.api.pod_states import has_ended
from unisono.api.queues import JOBS, limits_of
from unisono.api.quota import counts, usage_of
from unisono.api.resources import pod_requests, resource_list

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
    ) -> None:
        """``pods_of`` answers the pods of a PodGroup, ``pods_in`` all pods of a namespace."""
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
        found = [Claim(limit, asked) for limit in self._of_queue(name)]
        user = self._of_user(name, account_of(group.metadata.namespace or "", group.metadata.annotations))
        found += [Claim(user, asked)] if user is not None else []
        used = {name: amount * number for name, amount in usage_of(PODS, sample).items()}
        for quota in self._quotas.get(sample.metadata.namespace or "", ()):
            if counts(quota, sample):
                found.append(Claim(self._of_quota(quota), used))
        return tuple(found)

    # ---- queues and users

    def _of_queue(self, name: str) -> list[Limit]:
        found, below = [], ""
        for each in lineage(name, self._parents):
            queue = self._queues.get(each)
            if queue is not None and queue.spec.capability is not None:
                taken, kept = self._taken()[0][each], self._kept_beside(each, below)
                key: tuple[str, ...] = ("queue", each)
                if key not in self._limits:
                    self._limits[key] = _limit(f"the capability of queue {each}", _capability(queue), taken)
                found.append(self._limits[key])
                if kept:
                    key, what = ("queue", each, below), f"what guarantees of other queues leave of queue {each}"
                    if key not in self._limits:
                        self._limits[key] = _limit(what, _capability(queue), taken + kept)
                    found.append(self._limits[key])
            below = each
        return found

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
        found: Counter[str] = Counter()
        for pod in self._pods_in(quota.metadata.namespace or ""):
            if counts(quota, pod):
                found.update(usage_of(PODS, pod))
        return found

    def _to_come(self, quota: ResourceQuota) -> Counter[str]:
        """What admitted PodGroups are promised for pods that do not exist yet; scopes are known of pods alone."""
        found: Counter[str] = Counter()
        for group in self._groups:
            if group.metadata.namespace != quota.metadata.namespace or group.status.phase != "Inqueue":
                continue
            pods = self._pods_of(group)
            there: Counter[str] = Counter()
            for pod in pods:
                there.update(usage_of(PODS, pod))
            promised = resource_list(group.spec.min_resources)
            missing = max(0, (group.spec.min_member or 0) - len(pods))
            found.update({"pods": missing, "count/pods": 1000 * missing})
            for name, amount in promised.items():
                plain = name.removeprefix("requests.")
                if plain == "pods" or name.startswith(("limits.", "count/")):
                    continue
                rest = max(0, amount - there[f"requests.{plain}"])
                found.update({plain: rest, f"requests.{plain}": rest})
        return found


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
