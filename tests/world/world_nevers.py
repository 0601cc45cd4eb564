"""What must never be, by code that knows objects as JSON and nothing of the engine.

``Truth`` hears of every committed change, in the order of revisions, and says at once what is wrong with it. The rules
of a world at rest are below it: they look at all objects when nothing has broken for minutes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import msgspec
from benchmarks.check.facts import Amounts, Facts, Pod, Turn, add, amounts, quantity, read_pod, seconds
from benchmarks.check.rules.conserving import fitting
from benchmarks.matrix.judge import beyond

PODS, NODES, GROUPS, LEASES = "pods", "nodes", "podgroups", "leases"
# How stale the watch events may be that a decision is based on (seconds).
_STALE = 75.0
# How long a gang may stand in part where nothing breaks: what the scheduler's patience is, and a retry.
_PARTIAL = 150.0
# What each process may write, by verb; others write nothing. Leases and events are everybody's.
_MAY = {
    "scheduler": {
        "bind": {"pods"},
        "evict": {"pods"},
        "delete": {"pods"},
        "patch": {"pods", "podgroups", "queues"},
    },
    "nodes": {
        "create": {"nodes"},
        "patch": {"nodes", "pods"},
        "delete": {"pods"},
    },
    "observer": {},
}
# Kinds of which only people change what is wanted.
_WANTED = {"queues", "jobs", "deployments", "resourcequotas", "priorityclasses"}
_KINDS = {
    "pods": "Pod",
    "nodes": "Node",
    "queues": "Queue",
    "podgroups": "PodGroup",
    "resourcequotas": "ResourceQuota",
    "priorityclasses": "PriorityClass",
    "jobs": "Job",
}


def plural(resource: str) -> str:
    """``jobs`` of ``jobs.batch`` or ``batch/jobs``."""
    return resource.rpartition("/")[2].partition(".")[0]


@dataclass(slots=True)
class _Gang:
    """When a gang began to stand in part, and whether it has been whole since."""

    since: float | None = None
    whole: bool = False


@dataclass(slots=True)
class Truth:
    """All committed objects, and what was wrong with the changes.

    Attributes:
        now: gives virtual seconds.
        enforced: names of the plug-ins that are configured.
        calm_since: when the last thing broke.
        objects: decoded, by resource and key.
        revisions: by resource, of all changes.
        hands: how often people have changed what is wanted of an object, and nobody noticed yet.

    """

    now: Callable[[], float]
    enforced: frozenset[str]
    calm_since: float = 0.0
    found: list[str] = field(default_factory=list)
    objects: dict[str, dict[str, dict[str, Any]]] = field(default_factory=lambda: defaultdict(dict))
    revisions: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    versions: dict[tuple[str, str, str], int] = field(default_factory=dict)
    revision: int = 0
    writes: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    hands: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _gone: set[str] = field(default_factory=set)
    _uids: dict[str, str] = field(default_factory=dict)
    _node_of: dict[str, str] = field(default_factory=dict)
    _pods: dict[str, Pod] = field(default_factory=dict)
    _loosened: dict[str, float] = field(default_factory=dict)
    _gangs: dict[str, _Gang] = field(default_factory=lambda: defaultdict(_Gang))
    _holders: list[tuple[float, str]] = field(default_factory=list)
    _wrote: dict[str, float] = field(default_factory=dict)

    def say(self, what: str) -> None:
        """Remember a finding once."""
        if what not in self.found:
            self.found.append(what)

    # ---- every change

    def take(self, event: Any) -> None:
        """A change was committed."""
        entry = event.entry
        if entry.revision <= self.revision:
            self.say(f"revision {entry.revision} comes after {self.revision}")
        self.revision = entry.revision
        kind, key = plural(entry.resource), f"{entry.namespace}/{entry.name}" if entry.namespace else entry.name
        self.revisions[entry.resource].append(entry.revision)
        body = msgspec.json.decode(entry.data)
        before = self.objects[entry.resource].get(key)
        uid = body["metadata"].get("uid", "")
        if uid in self._gone:
            self.say(f"{kind} {key} comes back after it was gone")
        if before is None and event.type == "MODIFIED":
            self.say(f"{kind} {key} changed and was not there")
        if event.type == "DELETED":
            self._gone.add(uid)
            self.objects[entry.resource].pop(key, None)
            self.versions.pop((entry.resource, entry.namespace, entry.name), None)
        else:
            self.objects[entry.resource][key] = body
            self.versions[entry.resource, entry.namespace, entry.name] = entry.revision
            self.writes[f"{entry.resource} {key}"] += 1
        if before is not None and before["metadata"].get("uid") == uid:
            self._same(kind, key, before, body)
        if kind == PODS:
            self._pod(key, uid, body, gone=event.type == "DELETED")
        elif kind == NODES:
            self._node(key, before, None if event.type == "DELETED" else body)
        elif kind == "queues":
            told = [(one["spec"], one["metadata"].get("annotations")) for one in (before, body) if one is not None]
            if len(told) == 2 and told[0] != told[1]:
                self._loosened[f"queue {key}"] = self.now()
        elif kind == LEASES:
            self._lease(key, body)

    def _same(self, kind: str, key: str, before: dict[str, Any], body: dict[str, Any]) -> None:
        old, new = before["metadata"], body["metadata"]
        if (new.get("generation") or 0) < (old.get("generation") or 0):
            self.say(f"the generation of {kind} {key} falls")
        if old.get("deletionTimestamp") and not new.get("deletionTimestamp"):
            self.say(f"{kind} {key} was being deleted and is not any more")
        if old.get("creationTimestamp") != new.get("creationTimestamp"):
            self.say(f"{kind} {key} changes when it was created")
        if kind in _WANTED and before.get("spec") != body.get("spec"):
            one = f"{kind} {key}"
            self.hands[one] -= 1
            if self.hands[one] < 0:
                self.say(f"the spec of {one} changes, and nobody has asked for it")

    def _pod(self, key: str, uid: str, body: dict[str, Any], *, gone: bool) -> None:
        node = body["spec"].get("nodeName") or ""
        known = self._node_of.get(uid, "")
        if known and node != known:
            self.say(f"pod {key} was bound to {known} and is on {node or 'no node'}")
        before = self._pods.get(key)
        if gone:
            self._pods.pop(key, None)
        else:
            self._pods[key] = pod = read_pod(body)
            if before is not None and before.ended and before.raw["metadata"]["uid"] == uid and not pod.ended:
                self.say(f"pod {key} had ended and is {pod.phase}")
            if node and not known:
                self._node_of[uid] = node
                self._bound(pod)
        for group in {one.group for one in (before, self._pods.get(key)) if one is not None and one.group}:
            self._gang(group)

    def _bound(self, pod: Pod) -> None:
        """The rules of one bind: rooms of nodes, queues and users."""
        self._room(pod.node, pod)
        raw = self._group(pod.group)
        if raw is None:
            return
        queue, now = raw["spec"].get("queue") or "default", self.now()
        found = self._all("queues").get(queue)
        if found is None or now - self._loosened.get(f"queue {queue}", -_STALE) < _STALE:
            return
        limits = amounts(found["spec"].get("capability"))
        notes = found["metadata"].get("annotations") or {}
        users: Amounts = {}
        if "user-limits" in self.enforced:
            pairs = [pair.split("=") for pair in notes.get("unisono.io/user-limits", "").split(",") if pair]
            users = {name.strip(): quantity(value.strip()) for name, value in pairs}
        if not limits and not users:
            return
        user, held, own = self._user(raw), Amounts(), Amounts()
        for other in self._pods.values():
            group = self._group(other.group) if other.occupies else None
            if group is None or (group["spec"].get("queue") or "default") != queue:
                continue
            more = {**other.requests, "pods": Fraction(1)}
            add(held, more)
            if self._user(group) == user:
                add(own, more)
        for name, most in limits.items():
            if name in (pod.requests | {"pods": 1}) and held.get(name, 0) > most:
                self.say(f"queue {queue} may hold {most} of {name}, and {pod.key} makes it {float(held[name])}")
        for name, most in users.items():
            if name in (pod.requests | {"pods": 1}) and own.get(name, 0) > most:
                self.say(f"{user} may hold {most} of {name} in {queue}, and {pod.key} makes it {float(own[name])}")

    def _room(self, name: str, pod: Pod) -> None:
        node = self._all("nodes").get(name)
        loosened = self._loosened.get(f"node {name}", -_STALE)
        if node is None:
            if self.now() - loosened > _STALE:
                self.say(f"pod {pod.key} is bound to {name}, which is gone for long")
            return
        if self.now() - loosened < _STALE:
            return
        used: Amounts = {}
        for other in self._pods.values():
            if other.node == name and not other.ended:
                add(used, {**other.requests, "pods": Fraction(1)})
        for resource, most in amounts(node["status"].get("allocatable")).items():
            if used.get(resource, 0) > most:
                self.say(f"node {name} has {most} of {resource}, and {pod.key} makes it {float(used[resource])}")
        if node["spec"].get("unschedulable"):
            self.say(f"pod {pod.key} is bound to {name}, which is cordoned for long")

    def _node(self, name: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        def facts(node: dict[str, Any]) -> Any:
            return node["status"].get("allocatable"), node["spec"].get("unschedulable"), node["metadata"].get("uid")

        if before is None or after is None or facts(before) != facts(after):
            self._loosened[f"node {name}"] = self.now()
            if before is None and not self._loosened.get(f"seen {name}"):
                # The first time there is nobody who could know it otherwise.
                self._loosened[f"seen {name}"] = 1.0
                self._loosened[f"node {name}"] = -_STALE

    # ---- gangs

    def _gang(self, key: str) -> None:
        raw = self._group(key)
        if raw is None:
            self._gangs.pop(key, None)
            return
        gang, least = self._gangs[key], raw["spec"].get("minMember") or 0
        members = [pod for pod in self._pods.values() if pod.group == key]
        have = sum(1 for pod in members if pod.counts)
        if have == 0:
            gang.since, gang.whole = None, False
        elif have >= least:
            gang.since, gang.whole = None, True
        elif any(pod.phase == "Failed" or pod.leaving for pod in members) or gang.since is None:
            gang.since = self.now()

    def look_at_gangs(self) -> None:
        """Say which gangs stand in part for longer than they may."""
        now = self.now()
        for key, gang in self._gangs.items():
            if gang.whole or gang.since is None:
                continue
            if now - max(gang.since, self.calm_since) > _PARTIAL:
                self.say(f"gang {key} stands in part for {_PARTIAL:.0f} s")

    # ---- leaders

    def _lease(self, key: str, body: dict[str, Any]) -> None:
        name = key.rpartition("/")[2]
        holder = body["spec"].get("holderIdentity") or ""
        if name == "world-scheduler" and holder and (not self._holders or self._holders[-1][1] != holder):
            self._holders.append((self.now(), holder))

    def sent(self, process: str, verb: str, kind: str) -> None:
        """A request has arrived."""
        rights = _MAY.get(process.partition("-")[0])
        writes = verb not in ("get", "list") and kind not in ("leases", "events")
        if rights is not None and writes and kind not in rights.get(verb, ()):
            self.say(f"{process} may not {verb} {kind}")
        if not process.startswith("scheduler") or kind == "leases":
            return
        if not self._holders or verb not in ("bind", "evict", "create", "patch", "delete"):
            return
        since, holder = self._holders[-1]
        # One that nobody leads for goes on until its own deadline: that harms nobody.
        if holder != process and holder.startswith("scheduler") and self.now() > since:
            self.say(f"{process} writes ({verb}) though {holder} leads")

    # ---- after a crash

    def compare(self, store: Any, in_flight: Iterable[Any], acknowledged: int) -> list[Any]:
        """Compare what a store found on its disk; answers the changes in flight that turn out to be there."""
        if store.revision < max(self.revision, acknowledged):
            self.say(f"the store has revision {store.revision} and had acknowledged {max(self.revision, acknowledged)}")
        late = [event for event in in_flight if event.entry.revision > self.revision]
        there = [event for event in late if event.entry.revision <= store.revision]
        if there and len(there) != len(late):
            self.say("a transaction is there in part")
        expected = dict(self.versions)
        for event in there:
            if event.type == "DELETED":
                expected.pop(event.entry.key, None)
            else:
                expected[event.entry.key] = event.entry.revision
        held = {entry.key: entry.revision for resource in store.resources() for entry in store.scan(resource)}
        for key in sorted(expected.keys() | held.keys()):
            if expected.get(key) != held.get(key):
                self.say(f"after a crash {'/'.join(key)} is {held.get(key)} and should be {expected.get(key)}")
        return there

    # ---- finding things

    def _all(self, kind: str) -> Mapping[str, dict[str, Any]]:
        return next((found for one, found in self.objects.items() if plural(one) == kind and found), {})

    def _group(self, key: str) -> dict[str, Any] | None:
        for resource, found in self.objects.items():
            if plural(resource) == GROUPS and key in found:
                return found[key]
        return None

    @staticmethod
    def _user(group: Mapping[str, Any]) -> str:
        meta = group["metadata"]
        return (meta.get("annotations") or {}).get("unisono.io/user") or f"namespace {meta['namespace']}"

    def stale(self, number: int) -> tuple[str, str, str, int] | None:
        """Resource, namespace and name of an object, and a revision that it had once."""
        found = sorted(key for key in self.versions if plural(key[0]) in (PODS, GROUPS, "queues"))
        if not found:
            return None
        resource, namespace, name = found[number % len(found)]
        return resource, namespace, name, self.versions[resource, namespace, name] - 1

    def facts(self) -> Facts:
        """All objects as facts."""
        found = []
        for resource, objects in self.objects.items():
            kind = _KINDS.get(plural(resource))
            if kind is not None:
                found += [{**body, "kind": kind, "status": body.get("status") or {}} for body in objects.values()]
        return Facts.of(found)


# ---- at rest


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
    """Limits that are not kept."""
    return beyond(truth.facts())


def helpless(truth: Truth, beneficiaries: Iterable[str]) -> list[str]:
    """Jobs for which others were evicted lately, and which do not run."""
    facts, found = truth.facts(), []
    for key in sorted(beneficiaries):
        group = facts.all("PodGroup").get(key)
        have = sum(1 for pod in facts.members(key) if pod.counts or pod.ended)
        if group is not None and have < (group["spec"].get("minMember") or 0):
            found.append(f"pods were evicted for {key}, which has {have} of {group['spec']['minMember']} pods")
    return found
