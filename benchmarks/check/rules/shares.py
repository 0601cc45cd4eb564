"""What queues and users may still take, by the narrowest reading of every limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from benchmarks.check.facts import Amounts, Facts, Pod, Turn, add, amounts
from benchmarks.check.rules.nodes import kept_off, ready, takes

_NONE = Fraction(0)


class Limits:
    """Limits of one cycle, once the pods have their places."""

    def __init__(self, turn: Turn, places: Iterable[tuple[Pod, str]]) -> None:
        self._turn = turn
        self._pods = [pod for pod, _ in places]
        self._held: dict[str, Amounts] = {}
        self._total: Amounts | None = None
        self._wanting: dict[str, bool] = {}
        for pod in self._pods:
            if pod.ours and pod.group:
                for name in turn.facts.lineage(turn.facts.queue_of(pod.group)):
                    add(self._held.setdefault(name, {}), {**pod.requests, "pods": Fraction(1)})

    def total(self) -> Amounts:
        """What nodes that are ready, not cordoned and open to some pod of ours have beside the pods of others."""
        if self._total is None:
            self._total = self._sum()
        return self._total

    def _sum(self) -> Amounts:
        total: Amounts = {}
        for node in self._turn.facts.all("Node").values():
            if ready(node) and not node["spec"].get("unschedulable") and self._is_open(node):
                add(total, amounts(node["status"]["allocatable"]))
        for pod in self._pods:
            if not pod.ours or not pod.group:
                add(total, {name: -value for name, value in pod.requests.items()})
        return total

    def _is_open(self, node: Mapping[str, Any]) -> bool:
        """Whether one of our pending or running pods tolerates its taints; no queue has a share of any other node."""
        pods = [pod for pod in self._turn.facts.pods.values() if pod.ours and pod.group and not pod.ended]
        taints = node["spec"].get("taints") or []
        return not taints or any(not any(kept_off(pod, taint) for taint in taints) for pod in pods)

    def used(self, name: str) -> Fraction:
        """Of one resource, by everybody of ours."""
        return sum((pod.requests.get(name, _NONE) for pod in self._pods if pod.ours and pod.group), _NONE)

    def kin(self, group: str) -> set[str]:
        """Queues that have an ancestor other than ``root`` in common with the group's, or a limit at ``root``."""
        facts = self._turn.facts
        mine = set(facts.lineage(facts.queue_of(group)))
        if not amounts((facts.all("Queue").get("root") or {"spec": {}})["spec"].get("capability")):
            mine.discard("root")
        return {name for name in facts.all("Queue") if mine & set(facts.lineage(name))}

    def allow(self, group: str, pods: list[Pod]) -> bool:
        """Whether the group's queue is open, and it and the user may hold these pods as well."""
        facts = self._turn.facts
        queues = facts.all("Queue")
        for name in facts.lineage(facts.queue_of(group)):
            if name not in queues and name != "root":
                return False
            if name in queues and (queues[name]["status"].get("state") or "Open") != "Open":
                return False
        more: Amounts = {"pods": Fraction(len(pods))}
        for pod in pods:
            add(more, pod.requests)
        return self.hold(group, more) and self.of_user(group, more)

    def hold(self, group: str, more: Amounts) -> bool:
        """Whether the queues above the group may hold so much more."""
        facts, queue = self._turn.facts, self._turn.facts.queue_of(group)
        for name in facts.lineage(queue):
            found = facts.all("Queue").get(name)
            limits = amounts(found["spec"].get("capability") if found is not None else None)
            held = self._held.get(name, {})
            if any(
                resource in more and held.get(resource, 0) + more[resource] > most for resource, most in limits.items()
            ):
                return False
        return self._by_weight(queue, more) and self._beside_guarantees(queue, more)

    def _by_weight(self, queue: str, more: Amounts) -> bool:
        """Its part by weight of what no guarantee takes: `proportion` never gives less.

        Queues count that hold anything, or have a gang that an empty cluster might let start.
        """
        if not self._turn.has("proportion"):
            return True
        queues = self._turn.facts.all("Queue")
        weights = {name: Fraction(found["spec"].get("weight") or 1) for name, found in queues.items() if name != "root"}
        sharing = [weight for name, weight in weights.items() if name == queue or self._wants(name)]
        part = weights.get(queue, Fraction(1)) / sum(sharing)
        total, held = self.total(), self._held.get(queue, {})
        for name in {*more, *held} - {"pods"}:
            kept = sum((self._guarantee(other).get(name, _NONE) for other in queues), _NONE)
            if held.get(name, _NONE) + more.get(name, _NONE) > (total.get(name, _NONE) - kept) * part:
                return False
        return True

    def _wants(self, queue: str) -> bool:
        facts = self._turn.facts
        if queue in self._wanting:
            return self._wanting[queue]
        groups = [key for key in facts.all("PodGroup") if facts.queue_of(key) == queue]
        found = self._wanting[queue] = any(self._may_start(key) for key in groups)
        return found

    def _may_start(self, group: str) -> bool:
        """Whether a gang holds anything, has pods to come, or has its minimum of pods that some node might take."""
        facts, spec = self._turn.facts, self._turn.facts.all("PodGroup")[group]["spec"]
        members = [pod for pod in facts.members(group) if not pod.ended]
        minimum = max(spec.get("minMember") or 0, 1)
        if len(members) < minimum or any(pod.node or pod.leaving or not pod.ours for pod in members):
            return True
        nodes = facts.all("Node").values()
        able = [pod for pod in members if pod.waits and any(takes(pod, node, though_away=True) for node in nodes)]
        return len(able) >= minimum

    def _beside_guarantees(self, queue: str, more: Amounts) -> bool:
        """Beside what others hold or are guaranteed: in the cluster, and in what each queue above it may hold."""
        facts = self._turn.facts
        queues, line = facts.all("Queue"), facts.lineage(queue)
        for above in [None, *(name for name in line[1:] if name in queues)]:
            room = self.total() if above is None else amounts(queues[above]["spec"].get("capability"))
            for name in set(more) - {"pods"}:
                if above is not None and name not in room:
                    continue
                taken = self._held.get(queue, {}).get(name, _NONE) + more[name]
                for other in queues:
                    if other not in line and (above is None or above in facts.lineage(other)):
                        taken += max(
                            self._held.get(other, {}).get(name, _NONE), self._guarantee(other).get(name, _NONE)
                        )
                if taken > room.get(name, _NONE):
                    return False
        return True

    def _guarantee(self, queue: str) -> Amounts:
        return amounts((self._turn.facts.all("Queue")[queue]["spec"].get("guarantee") or {}).get("resource"))

    def of_user(self, group: str, more: Amounts) -> bool:
        """What the queue lets one user hold; ``jobs`` are those that were admitted."""
        facts, queue = self._turn.facts, self._turn.facts.queue_of(group)
        limits, user = facts.user_limits(queue), facts.user_of(group)
        if not limits or not self._turn.has("user-limits"):
            return True
        own = [key for key in facts.all("PodGroup") if facts.queue_of(key) == queue and facts.user_of(key) == user]
        held: Amounts = {"jobs": Fraction(len({*own, group}))}
        for pod in self._pods:
            if pod.group in own:
                add(held, {**pod.requests, "pods": Fraction(1)})
        return all(held.get(name, _NONE) + more.get(name, _NONE) <= most for name, most in limits.items())


def most(facts: Facts, resource: str) -> Fraction:
    """What nodes, limits and demand would let be allocated of a resource at most; room on each node is left aside."""
    demand: dict[str, Fraction] = {}
    for pod in facts.pods.values():
        if pod.ours and pod.group and not pod.ended and not pod.gated:
            queue = facts.queue_of(pod.group)
            demand[queue] = demand.get(queue, _NONE) + pod.requests.get(resource, _NONE)
    for key, group in facts.all("PodGroup").items():
        if not facts.members(key):  # its pods are made when it is admitted
            queue = facts.queue_of(key)
            demand[queue] = demand.get(queue, _NONE) + amounts(group["spec"].get("minResources")).get(resource, _NONE)
    queues = facts.all("Queue")

    def below(name: str) -> Fraction:
        found = queues.get(name)
        limit = amounts(found["spec"].get("capability") if found is not None else None).get(resource)
        children = [one for one in queues if one not in ("root", name) and facts.lineage(one)[1:2] == [name]]
        wanted = demand.get(name, _NONE) + sum((below(child) for child in children), _NONE)
        return wanted if limit is None else min(wanted, limit)

    there = sum(
        (
            amounts(node["status"]["allocatable"]).get(resource, _NONE)
            for node in facts.all("Node").values()
            if ready(node)
        ),
        _NONE,
    )
    return min(there, below("root"))
