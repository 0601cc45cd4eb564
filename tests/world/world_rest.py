"""What must be in a world at rest: these rules look at all objects when nothing has broken for minutes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.check.facts import Facts, Pod, Turn, seconds
from benchmarks.check.rules.conserving import fitting
from benchmarks.matrix.judge import beyond
from world_nevers import Truth, plural


def unrest(truth: Truth, earlier: Mapping[str, int], most: int) -> list[str]:
    """Objects that were written more often than ``most`` times since ``earlier`` although nothing happened.

    Those that count pods may be written with each change of a pod.
    """
    since = {key: count - earlier.get(key, 0) for key, count in sorted(truth.writes.items())}
    pods = sum(count for key, count in since.items() if key.startswith("pods "))
    allowed = {"resourcequotas": most + pods, "queues": most + pods, "leases": 10**9, "events": 10**9}
    return [
        f"{key} was written {count} times at rest"
        for key, count in since.items()
        if count > allowed.get(plural(key.partition(" ")[0]), most)
    ]


def stuck(truth: Truth, now: float) -> list[str]:
    """What should have gone on by itself for a long time; ``now`` as the processes see it."""
    found = []
    facts = truth.facts()
    nodes = facts.all("Node")
    for key, pod in facts.pods.items():
        meta = pod.raw["metadata"]
        started = seconds((pod.raw.get("status") or {}).get("startTime"))
        lasts = (meta.get("annotations") or {}).get("unisono.io/run-seconds")
        if pod.node and pod.node not in nodes and not pod.ended:
            found.append(f"pod {key} is on node {pod.node}, which does not exist")
        elif pod.occupies and not started:
            found.append(f"pod {key} is bound and was never started")
        elif pod.occupies and lasts is not None and started + float(lasts) + 90 < now:
            found.append(f"pod {key} should have ended long ago")
    for resource, objects in truth.objects.items():
        for key, body in objects.items():
            deleted = body["metadata"].get("deletionTimestamp")
            if deleted and seconds(deleted) + 150 < now:
                found.append(
                    f"{plural(resource)} {key} is being deleted for long: {body['metadata'].get('finalizers')}"
                )
    return found + _unfinished(truth, facts, now)


def _unfinished(truth: Truth, facts: Facts, now: float) -> list[str]:
    found = []
    owned: dict[str, list[Pod]] = defaultdict(list)
    for pod in facts.pods.values():
        for owner in pod.raw["metadata"].get("ownerReferences") or ():
            owned[owner["uid"]].append(pod)
    for key, body in [item for one, all_ in truth.objects.items() if plural(one) == "jobs" for item in all_.items()]:
        pods, status = owned[body["metadata"]["uid"]], body.get("status") or {}
        if "tasks" not in body["spec"]:
            conditions = {one["type"] for one in status.get("conditions") or () if one["status"] == "True"}
            succeeded = sum(1 for pod in pods if pod.phase == "Succeeded")
            if succeeded >= (body["spec"].get("completions") or 1) and not conditions & {"Complete", "Failed"}:
                found.append(f"job {key} has all its pods done and is not complete")
            continue
        phase = (status.get("state") or {}).get("phase") or ""
        wanted = sum(task["replicas"] for task in body["spec"]["tasks"])
        # A quota may be full of pods that run for ever.
        if phase in ("Running", "Inqueue") and len(pods) < wanted and not facts.all("ResourceQuota"):
            found.append(f"job {key} is {phase} with {len(pods)} of {wanted} pods")
        if phase == "Running" and sum(not pod.ended for pod in pods) > wanted:
            found.append(f"job {key} has more pods than the {wanted} that it wants")
        if phase in ("Running", "Pending", "Inqueue") and pods and all(pod.ended for pod in pods):
            found.append(f"job {key} is {phase} though all its pods have ended")
        if phase in ("Restarting", "Aborting", "Terminating", "Completing"):
            found.append(f"job {key} is {phase} for ever")
        ttl, since = body["spec"].get("ttlSecondsAfterFinished"), (status.get("state") or {}).get("lastTransitionTime")
        ended = phase in ("Completed", "Failed", "Terminated") and since
        if ended and ttl is not None and seconds(since) + ttl + 150 < now:
            found.append(f"job {key} has finished and is not deleted after {ttl} s")
    uids = {body["metadata"].get("uid") for objects in truth.objects.values() for body in objects.values()}
    for resource, objects in truth.objects.items():
        for key, body in objects.items():
            for owner in body["metadata"].get("ownerReferences") or ():
                if owner["uid"] not in uids:
                    found.append(f"{plural(resource)} {key} outlives its owner {owner['kind']} {owner['name']}")
    return found


def miscounted(truth: Truth) -> set[str]:
    """ResourceQuotas that count other pods than there are."""
    facts, found = truth.facts(), set()
    for key, quota in facts.all("ResourceQuota").items():
        told = (quota["status"].get("used") or {}).get("pods")
        there = sum(not pod.ended and pod.namespace == key.partition("/")[0] for pod in facts.pods.values())
        if told is not None and int(told) != there:
            found.add(f"quota {key} counts {told} pods, and there are {there}")
    return found


def held_back(truth: Truth) -> set[str]:
    """Pods that are promised a place of which nobody is about to leave."""
    facts = truth.facts()
    leaving = {pod.node for pod in facts.pods.values() if pod.leaving and not pod.ended}
    return {
        f"pod {key} is promised a place on {node} for long"
        for key, pod in facts.pods.items()
        if pod.waits and (node := pod.raw["status"].get("nominatedNodeName")) and node not in leaving
    }


def unanswered(truth: Truth) -> set[str]:
    """PodGroups that wait and do not say why."""
    facts, found = truth.facts(), set()
    for key, group in facts.all("PodGroup").items():
        members = [pod for pod in facts.members(key) if pod.ours]
        have = sum(1 for pod in members if pod.counts)
        told = any(one.get("message") for one in group["status"].get("conditions") or ())
        if not told and any(pod.waits for pod in members) and have < (group["spec"].get("minMember") or 0):
            found.add(f"PodGroup {key} waits, and nothing says why")
    return found


@dataclass(frozen=True, slots=True)
class Eviction:
    """That a pod should make room for a PodGroup was decided ``at`` virtual seconds."""

    at: float
    uid: str
    pod: str
    action: str
    beneficiary: str


def unkept(truth: Truth, evictions: Iterable[Eviction]) -> set[str]:
    """Evictions within a queue that were decided and did not happen, while those who need the room wait."""
    facts, latest = truth.facts(), dict[str, Eviction]()
    for one in evictions:
        latest[one.beneficiary] = one
    found = set()
    for key, one in latest.items():
        group, victim = facts.all("PodGroup").get(key), facts.pods.get(one.pod)
        members = facts.members(key)
        if group is None or victim is None or victim.raw["metadata"]["uid"] != one.uid or one.action != "preempt":
            continue
        have = sum(1 for pod in members if pod.counts)
        waits = have < (group["spec"].get("minMember") or 0) and any(pod.waits for pod in members)
        if waits and victim.occupies and not victim.leaving:
            found.add(f"pod {one.pod} should have made room for {key} and is still there")
    return found


def waiting(truth: Truth, config: Mapping[str, Any]) -> set[str]:
    """PodGroups that wait though they fit."""
    return set(fitting(Turn(truth.facts(), config, 0.0, [], [], {}, {})))


def limits(truth: Truth) -> list[str]:
    """Limits that are not kept; those of users are kept by a plug-in, and what runs without it goes on."""
    users = "user-limits" in truth.configured.always
    return [text for text in beyond(truth.facts()) if users or not text.startswith("user ")]


def helpless(truth: Truth, beneficiaries: Iterable[str]) -> list[str]:
    """Jobs for which others were evicted lately, and which do not run."""
    facts, found = truth.facts(), []
    for key in sorted(beneficiaries):
        group = facts.all("PodGroup").get(key)
        have = sum(1 for pod in facts.members(key) if pod.counts or pod.ended)
        if group is not None and have < (group["spec"].get("minMember") or 0):
            found.append(f"pods were evicted for {key}, which has {have} of {group['spec']['minMember']} pods")
    return found
