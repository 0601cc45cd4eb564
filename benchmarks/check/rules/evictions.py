"""Evictions have a beneficiary that they help, and spare whom the configuration protects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import ceil
from typing import Any

from benchmarks.check.facts import Amounts, Pod, Turn, add, amounts, seconds
from benchmarks.check.rules import licenses
from benchmarks.check.rules.nodes import ready
from benchmarks.check.rules.selectors import selects

_CRITICAL = ("system-cluster-critical", "system-node-critical")
_WITHIN = ("preempt", "gangpreempt")
_NAMING = {
    "preempt": {"priority", "gang", "conformance", "drf", "pdb"},
    "reclaim": {"gang", "conformance", "proportion", "capacity", "pdb"},
}
"""Plug-ins that name victims, by action: the first tier of which something is left decides."""


def rules(turn: Turn) -> Iterator[str]:
    """All of them."""
    for key, number in Counter(key for key, _, _ in turn.evictions).items():
        if number > 1:
            yield f"pod {key} is evicted {number} times"
    for key, action, beneficiary in turn.evictions:
        pod = turn.facts.pods.get(key)
        if pod is None:
            yield f"pod {key} is evicted and does not exist"
            continue
        yield from _victim(turn, pod, action)
        yield from _for(turn, pod, action, beneficiary)
    yield from _helped(turn)
    if turn.has("gang"):
        yield from _whole(turn)
    if turn.has("pdb"):
        yield from _budgets(turn)
    if turn.has("capacity"):
        yield from _guarantees(turn)
    yield from _few(turn)


def _victim(turn: Turn, pod: Pod, action: str) -> Iterator[str]:
    if not pod.ours or not pod.group:
        yield f"pod {pod.key} is evicted and is not ours"
    if not pod.occupies or pod.leaving or pod.phase == "Unknown":
        yield f"pod {pod.key} is evicted and holds no place"
    notes = {**pod.labels, **pod.annotations}
    if notes.get("volcano.sh/preemptable", "true") != "true":
        yield f"pod {pod.key} says that it is not preemptable and is evicted"
    if turn.has("conformance") and (pod.namespace == "kube-system" or pod.spec.get("priorityClassName") in _CRITICAL):
        yield f"pod {pod.key} is critical and is evicted"
    if turn.has("eviction-guard"):
        least = str(turn.arguments("eviction-guard").get("eviction-guard.minRunTime", "0s"))
        started = seconds((pod.raw.get("status") or {}).get("startTime")) or seconds(
            pod.raw["metadata"].get("creationTimestamp")
        )
        if turn.now - started < float(least.removesuffix("s")):
            yield f"pod {pod.key} is evicted after {turn.now - started:.0f} s, before its minimum run time {least}"


def _whole(turn: Turn) -> Iterator[str]:
    """Gangs that lose pods get no places in the same cycle, and keep their minimum or go altogether.

    But of `reclaim` where the first tier that names victims has gang: a later one decides when no gang can spare any.
    """
    gone = {key for key, _, _ in turn.evictions}
    first = next((tier for tier in turn.tiers if tier & _NAMING["reclaim"]), set())
    excused = {"shuffle", "reclaim"} if "gang" in first else {"shuffle"}
    broken = {
        turn.facts.pods[key].group for key, action, _ in turn.evictions if action in excused and key in turn.facts.pods
    }
    fresh = {key for key, _ in turn.binds}
    beneficiaries = {name for _, _, name in turn.evictions}
    for group in {turn.facts.pods[key].group for key in gone if key in turn.facts.pods} - beneficiaries:
        found = turn.facts.all("PodGroup").get(group)
        if found is None:
            continue
        members = turn.facts.members(group)
        if any(pod.key in fresh for pod in members):
            yield f"PodGroup {group} gets places and loses pods in one cycle"
        minimum = found["spec"].get("minMember") or 0
        # Who has placed a member does not matter, as for Volcano: what another scheduler bound runs for the gang, too.
        before = [pod for pod in members if pod.counts and not pod.ended]
        after = [pod for pod in before if pod.key not in gone]
        ended = sum(1 for pod in members if pod.phase == "Succeeded")
        if group not in broken and len(before) + ended >= minimum > len(after) + ended and after:
            yield f"PodGroup {group} is left with {len(after)} of {minimum} pods"


def _decides(turn: Turn, plugin: str, action: str) -> bool:
    """Whether the plug-in is asked in every tier that may decide; else a tier without it gives up what it would not."""
    return all(plugin in tier for tier in turn.tiers if tier & _NAMING[action])


def _for(turn: Turn, pod: Pod, action: str, beneficiary: str) -> Iterator[str]:
    groups = turn.facts.all("PodGroup")
    if action == "shuffle":
        return
    if beneficiary not in groups:
        yield f"pod {pod.key} is evicted for {beneficiary or 'no job'}"
        return
    mine, theirs = turn.facts.queue_of(beneficiary), turn.facts.queue_of(pod.group)
    if action in _WITHIN:
        if mine != theirs:
            yield f"pod {pod.key} of queue {theirs} is preempted for {beneficiary} of queue {mine}"
        elif pod.group != beneficiary and turn.has("priority"):
            rank, others = turn.facts.rank(beneficiary), turn.facts.rank(pod.group)
            if others > rank or (others == rank and _decides(turn, "priority", "preempt")):
                yield f"pod {pod.key} is preempted for {beneficiary}, which has no higher priority"
        elif pod.group == beneficiary:
            ranks = [other.priority for other in turn.facts.members(beneficiary) if other.key in turn.promised]
            if not any(rank > pod.priority for rank in ranks):
                yield f"pod {pod.key} is preempted for a pod of its own job that is no more important"
    else:
        if mine == theirs:
            yield f"pod {pod.key} is reclaimed for {beneficiary} of the same queue"
        queue = turn.facts.all("Queue").get(theirs)
        if queue is not None and queue["spec"].get("reclaimable") is False:
            yield f"pod {pod.key} is reclaimed, and its queue {theirs} is not reclaimable"
    taker = turn.facts.all("Queue").get(mine)
    if taker is None or (taker["status"].get("state") or "") in ("Closed", "Closing"):
        yield f"pod {pod.key} is evicted for {beneficiary}, whose queue is closed or unknown"


def _helped(turn: Turn) -> Iterator[str]:
    """The beneficiary gets its minimum, in places where there is room once the evicted are gone."""
    gone = {key for key, _, _ in turn.evictions}
    bound = {key for key, _ in turn.binds}
    for beneficiary in {name for _, action, name in turn.evictions if action != "shuffle"}:
        found = turn.facts.all("PodGroup").get(beneficiary)
        if found is None:
            continue
        members = turn.facts.members(beneficiary)
        taking = [pod for pod in members if pod.key in turn.promised or pod.key in bound]
        have = [pod for pod in members if (pod.counts and pod.key not in gone) or pod in taking]
        if not taking:
            yield f"pods are evicted for {beneficiary}, which gets nothing"
        elif turn.has("gang") and len(have) < (found["spec"].get("minMember") or 0):
            yield f"pods are evicted for {beneficiary}, which gets {len(have)} of {found['spec']['minMember']} pods"
        # The policy is the pod's: one that never preempts may take what is free beside another that does.
        emptied = {turn.facts.pods[key].node for key, _, name in turn.evictions if name == beneficiary}
        for node in emptied:
            there = [pod for pod in taking if turn.promised.get(pod.key) == node]
            if there and all(pod.spec.get("preemptionPolicy") == "Never" for pod in there):
                yield f"pods of node {node} are evicted for {beneficiary}, whose pods there never preempt"
    yield from _later(turn, gone)
    yield from _needed(turn, gone)


def _held(turn: Turn, node: str, gone: set[str]) -> tuple[Amounts, int]:
    """What a node holds once the leaving are gone and the promised have come, and how many pods."""
    held: Amounts = {}
    number = 0
    places = [(pod, at) for pod, at in turn.after() if not pod.leaving and pod.key not in gone]
    places += [(turn.facts.pods[key], at) for key, at in turn.promised.items()]
    for pod, at in places:
        if at == node:
            add(held, pod.requests)
            number += 1
    return held, number


def _later(turn: Turn, gone: set[str]) -> Iterator[str]:
    for node in set(turn.promised.values()):
        allocatable = amounts(turn.facts.all("Node")[node]["status"]["allocatable"])
        held, number = _held(turn, node, gone)
        wanted = {name for key, at in turn.promised.items() if at == node for name in turn.facts.pods[key].requests}
        for name in wanted:
            if held[name] > allocatable.get(name, 0):
                yield f"more {name} of node {node} is promised than it will have: {float(held[name])}"
        if number > allocatable.get("pods", 0):
            yield f"node {node} takes {allocatable.get('pods', 0)} pods, and {number} are promised a place"


def _needed(turn: Turn, gone: set[str]) -> Iterator[str]:
    """A pod that is reclaimed makes room on its node or in its queues; rules between pods may want more than room."""
    if any(_tied(pod) for pod in turn.facts.pods.values()):
        return
    for key, action, _ in turn.evictions:
        pod = turn.facts.pods.get(key)
        if pod is None or action != "reclaim":
            continue
        allocatable = amounts(turn.facts.all("Node")[pod.node]["status"]["allocatable"])
        held, number = _held(turn, pod.node, gone - {key})
        fits = all(value <= allocatable.get(name, 0) for name, value in held.items()) and number <= allocatable["pods"]
        if licenses.scarce(turn, gone - {key}) or any(licenses.asks(turn, name) for _, _, name in turn.evictions):
            continue  # its licences are needed, or those that its queue may hold are
        if fits and not _over_capability(turn, pod, gone - {key}):
            yield f"pod {key} is reclaimed, and all would fit without that"


def _over_capability(turn: Turn, pod: Pod, gone: set[str]) -> bool:
    """Whether a queue above the pod would hold more than its capability once the promised pods have come."""
    coming = [turn.facts.pods[key] for key in turn.promised]
    staying = [other for other, _ in turn.after() if other.ours and other.group and other.key not in gone]
    for name in turn.facts.lineage(turn.facts.queue_of(pod.group)):
        queue = turn.facts.all("Queue").get(name)
        held: Amounts = {}
        for other in (*staying, *coming):
            if name in turn.facts.lineage(turn.facts.queue_of(other.group)):
                add(held, other.requests)
        limits = amounts(queue["spec"].get("capability") if queue is not None else None)
        if any(held.get(resource, 0) > limit for resource, limit in limits.items()):
            return True
    return False


def _tied(pod: Pod) -> bool:
    ports = any(port for container in pod.spec["containers"] for port in container.get("ports") or [])
    return bool(
        ports or pod.spec.get("affinity") or pod.spec.get("topologySpreadConstraints") or pod.spec.get("volumes")
    )


def _budgets(turn: Turn) -> Iterator[str]:
    for key, budget in turn.facts.all("PodDisruptionBudget").items():
        namespace = key.partition("/")[0]
        covered = [
            pod
            for pod in turn.facts.pods.values()
            # pods of other schedulers that wait are not seen by this one, as with quotas
            if pod.namespace == namespace
            and not pod.ended
            and (pod.ours or pod.occupies)
            and selects(budget["spec"]["selector"], pod.labels)
        ]
        healthy = sum(1 for pod in covered if pod.phase == "Running" and not pod.leaving)
        allowed = healthy - _least(budget["spec"], len(covered))
        spent = sum(1 for name, _, _ in turn.evictions if any(pod.key == name for pod in covered))
        if spent > max(allowed, 0):
            yield f"budget {key} allows {max(allowed, 0)} disruptions and {spent} of its pods are evicted"


def _least(spec: Mapping[str, Any], expected: int) -> int:
    if spec.get("minAvailable") is not None:
        return _share(spec["minAvailable"], expected)
    return expected - _share(spec["maxUnavailable"], expected)


def _share(value: Any, of: int) -> int:
    return ceil(Fraction(str(value).removesuffix("%")) * of / 100) if str(value).endswith("%") else int(value)


def _guarantees(turn: Turn) -> Iterator[str]:
    """Queues that pods are reclaimed from keep what they are guaranteed, and held more than they deserve."""
    gone = {key for key, action, _ in turn.evictions if action in ("reclaim", "gangreclaim")}
    # what is bound in this cycle counts, and so does all of a gang that keeps places until resources are released
    bound = {key for key, _ in turn.binds}
    claiming = {turn.facts.pods[key].group for key in turn.promised}
    for name, queue in turn.facts.all("Queue").items():
        own = [pod for pod in turn.facts.pods.values() if pod.group and turn.facts.queue_of(pod.group) == name]
        # no share covers pods that request nothing: they may lose their slots on a node
        lost = [pod for pod in own if pod.key in gone and pod.requests]
        if not lost:
            continue
        before: Amounts = {}
        after: Amounts = {}
        for pod in own:
            if pod.ours and pod.occupies and not pod.leaving and pod.phase != "Unknown":
                add(before, pod.requests)
                if pod.key not in gone:
                    add(after, pod.requests)
            elif pod.key in bound:
                add(before, pod.requests)
                add(after, pod.requests)
            elif pod.waits and pod.ours and pod.group in claiming:
                add(before, pod.requests)
                if pod.key in turn.promised:
                    add(after, pod.requests)
        guarantee = amounts((queue["spec"].get("guarantee") or {}).get("resource"))
        for resource in {resource for pod in lost for resource in pod.requests}:
            if after.get(resource, Fraction(0)) < min(guarantee.get(resource, Fraction(0)), before[resource]):
                yield f"queue {name} is left with less {resource} than it is guaranteed"
        if any(licenses.asks(turn, pod.group) for pod in own):  # of which it may hold too many
            continue
        # No queue deserves more than it may hold, nor less than its part of what there is.
        deserved, most = amounts(queue["spec"].get("deserved")), amounts(queue["spec"].get("capability"))
        share = {name: min(value * _there(turn, name), most.get(name, value)) for name, value in deserved.items()}
        if not any(value > share.get(resource, 0) for resource, value in before.items()):
            yield f"pods are reclaimed from queue {name}, which holds no more than it deserves"


def _there(turn: Turn, resource: str) -> Fraction:
    """The part of a resource that queues can use: not on cordoned, lost and tainted nodes, nor of pods of others."""
    whole = usable = Fraction(0)
    for name, node in turn.facts.all("Node").items():
        offers = amounts(node["status"]["allocatable"]).get(resource, Fraction(0))
        whole += offers
        away = node["spec"].get("unschedulable") or node["spec"].get("taints") or not ready(node)
        others = [pod for pod in turn.facts.pods.values() if pod.node == name and pod.occupies and not pod.ours]
        used = sum((pod.requests.get(resource, Fraction(0)) for pod in others), Fraction(0))
        usable += Fraction(0) if away else max(offers - used, Fraction(0))
    return usable / whole if whole else Fraction(1)


def _few(turn: Turn) -> Iterator[str]:
    most = int(turn.arguments("eviction-guard").get("eviction-guard.maxPerCycle", 0))
    if most and len(turn.evictions) > most:
        yield f"{len(turn.evictions)} pods are evicted in one cycle, and {most} may be"
