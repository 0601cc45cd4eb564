"""What must never be, by code that knows objects as JSON and nothing of the engine.

``Truth`` hears of every committed change, in the order of revisions, and says at once what is wrong with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import msgspec
from benchmarks.check.facts import Amounts, Facts, Pod, add, amounts, quantity, read_pod
from benchmarks.check.rules.nodes import host_ports
from benchmarks.check.rules.selectors import selects
from benchmarks.check.rules.topology import domains
from world_configured import NAMESPACE, Configured

PODS, NODES, GROUPS, LEASES = "pods", "nodes", "podgroups", "leases"
_CARD, _CARD_MEMORY, _CARD_NUMBER = "volcano.sh/gpu-index", "volcano.sh/gpu-memory", "volcano.sh/gpu-number"
_LICENSES, _ONE_OF = "unisono.io/licenses", "unisono.io/one-of"
# How stale the watch events may be that a decision is based on (seconds).
_STALE = 75.0
# After how long an admitted gang that found no place, or got no further pod, is let pass by those that fit.
_SEEN, _UNFILLED = 0.25, 5.0
# Within which time admissions may be of one cycle.
_AT_ONCE = 1.0
# How long a gang may stand in part where nothing breaks: what the scheduler's patience is, and a retry.
_PARTIAL = 150.0
# What each process may write, by verb; others write nothing. Leases and events are everybody's.
_MAY = {
    "scheduler": {
        "bind": {"pods"},
        "evict": {"pods"},
        "delete": {"pods"},
        "patch": {"pods", "podgroups", "queues", "resourceclaims"},
    },
    "nodes": {
        "create": {"nodes", "deviceclasses", "resourceslices"},
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
    "hypernodes": "HyperNode",
    "floatingresources": "FloatingResource",
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
        configured: which configuration may be in force.
        calm_since: when the last thing broke.
        objects: decoded, by resource and key.
        revisions: by resource, of all changes.
        hands: how often people have changed what is wanted of an object, and nobody noticed yet.

    """

    now: Callable[[], float]
    configured: Configured
    calm_since: float = 0.0
    found: list[str] = field(default_factory=list)
    objects: dict[str, dict[str, dict[str, Any]]] = field(default_factory=lambda: defaultdict(dict))
    revisions: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    versions: dict[tuple[str, str, str], int] = field(default_factory=dict)
    revision: int = 0
    writes: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    hands: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    refused: set[str] = field(default_factory=set)
    _gone: set[str] = field(default_factory=set)
    _uids: dict[str, str] = field(default_factory=dict)
    _node_of: dict[str, str] = field(default_factory=dict)
    _pods: dict[str, Pod] = field(default_factory=dict)
    _loosened: dict[str, float] = field(default_factory=dict)
    _gangs: dict[str, _Gang] = field(default_factory=lambda: defaultdict(_Gang))
    _made: dict[str, float] = field(default_factory=dict)
    _holders: list[tuple[float, str]] = field(default_factory=list)
    _wrote: dict[str, float] = field(default_factory=dict)
    _let_in: dict[str, float] = field(default_factory=dict)
    _bound_at: dict[str, float] = field(default_factory=dict)

    @property
    def enforced(self) -> frozenset[str]:
        """Names of the actions and plug-ins that are configured, and have been for a while."""
        return self.configured.enforced(self.now())

    def say(self, what: str) -> None:
        """Remember a finding once."""
        if what not in self.found:
            self.found.append(what)

    def refuse(self, label: str) -> None:
        """A change that would have set a label was refused: nobody may ever see it."""
        self.refused.add(label)
        for resource, found in self.objects.items():
            for key, body in found.items():
                self._unrefused(f"{plural(resource)} {key}", body)

    def _unrefused(self, what: str, body: Mapping[str, Any]) -> None:
        if self.refused and (seen := self.refused & (body["metadata"].get("labels") or {}).keys()):
            self.say(f"{what} shows a change that was refused: {min(seen)}")

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
        self._made.setdefault(uid, self.now())
        if before is None and event.type == "MODIFIED":
            self.say(f"{kind} {key} changed and was not there")
        if event.type == "DELETED":
            if left := body["metadata"].get("finalizers"):
                self.say(f"{kind} {key} is gone before its finalizers: {left}")
            self._gone.add(uid)
            self.objects[entry.resource].pop(key, None)
            self.versions.pop((entry.resource, entry.namespace, entry.name), None)
        else:
            self.objects[entry.resource][key] = body
            self.versions[entry.resource, entry.namespace, entry.name] = entry.revision
            self.writes[f"{entry.resource} {key}"] += 1
        self._unrefused(f"{kind} {key}", body)
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
        elif kind == "resourceclaims":
            self._claims()
        elif kind == "floatingresources" and before is not None and before["spec"] != body["spec"]:
            self._loosened[f"license {key}"] = self.now()
        elif kind == LEASES:
            self._lease(key, body)
        elif kind == "configmaps" and entry.namespace == NAMESPACE:
            self.configured.take(entry.name, None if event.type == "DELETED" else body.get("data") or {}, self.now())
        elif kind == GROUPS and event.type != "DELETED" and self._guards():
            phases = [(one.get("status") or {}).get("phase") for one in (before or {}, body)]
            if phases[1] == "Inqueue" and phases[0] in (None, "", "Pending"):
                self._admitted(key, body["spec"].get("queue") or "default")

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
                self._node_of[uid], self._bound_at[uid] = node, self.now()
                if before is not None:
                    self._bound(pod)
                else:  # whoever made it has chosen, and nobody could know
                    self._loosened[f"node {node}"] = self.now()
        for group in {one.group for one in (before, self._pods.get(key)) if one is not None and one.group}:
            self._gang(group)

    def _bound(self, pod: Pod) -> None:
        """The rules of one bind: rooms of nodes, cards, racks, queues and users."""
        self._room(pod.node, pod)
        self._card(pod)
        raw = self._group(pod.group)
        if pod.licenses or (raw is not None and _LICENSES in (raw["metadata"].get("annotations") or {})):
            self._licenses(pod)
        if raw is None:
            return
        if "one-of" in self.enforced and (kinds := (raw["metadata"].get("annotations") or {}).get(_ONE_OF)):
            self._one_kind(pod.group, kinds)
        if "network-topology-aware" in self.enforced and "networkTopology" in raw["spec"]:
            self._rack(pod.group, raw["spec"]["networkTopology"])
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
        for other in self._pods.values() if host_ports(pod) else ():
            if other.node == name and not other.ended and other.key != pod.key and host_ports(other) & host_ports(pod):
                self.say(f"pods {pod.key} and {other.key} want the same port of node {name}")

    def _card(self, pod: Pod) -> None:
        """No card is given away twice."""
        if _CARD_MEMORY not in pod.requests or "deviceshare" not in self.enforced:
            return
        if (card := pod.annotations.get(_CARD)) is None:
            self.say(f"pod {pod.key} shares a card and is not told which")
        node = self._all("nodes").get(pod.node) or {"status": {}}
        offered = amounts(node["status"].get("allocatable"))
        sharing = [other for other in self._pods.values() if other.node == pod.node and not other.ended]
        used = sum(other.requests.get(_CARD_MEMORY, 0) for other in sharing if other.annotations.get(_CARD) == card)
        if offered and used > offered[_CARD_MEMORY] / offered[_CARD_NUMBER]:
            self.say(f"card {card} of {pod.node} is shared beyond its memory: {pod.key} makes it {float(used)}")

    def _licenses(self, pod: Pod) -> None:
        """No more of a floating resource is held than there is; what a whole job holds counts once."""
        facts, used = self.facts(), Amounts()
        holders = [other for other in self._pods.values() if other.occupies]
        for other in holders:
            add(used, other.licenses)
        for group in {other.group for other in holders}:
            add(used, facts.licenses_of(group))
        mine = {**pod.licenses, **facts.licenses_of(pod.group)}
        for name, one in self._all("floatingresources").items():
            resource, most = f"licenses.unisono.io/{name}", one["spec"].get("amount", 0) - one["spec"].get("inUse", 0)
            stale = self.now() - self._loosened.get(f"license {name}", -_STALE) < _STALE
            if resource in mine and not stale and used.get(resource, 0) > most:
                self.say(f"there are {most} of {name}, and {pod.key} makes it {float(used[resource])}")

    def _one_kind(self, group: str, kinds: str) -> None:
        """All pods of a gang are on nodes of one kind of those that it names."""
        nodes = self._all("nodes")
        where = {pod.node for pod in self._pods.values() if pod.group == group and pod.counts and pod.occupies}
        if not where <= nodes.keys():
            return
        labels = [nodes[name]["metadata"].get("labels") or {} for name in sorted(where)]
        for kind in kinds.split(","):
            pairs = [pair.split("=") for pair in kind.partition("@")[0].partition("*")[0].strip().split("+")]
            if all(held.get(key) == value for held in labels for key, value in pairs):
                return
        self.say(f"PodGroup {group} may have one of {kinds} and runs on {', '.join(sorted(where))}")

    def _rack(self, group: str, wish: Mapping[str, Any]) -> None:
        """A group with a hard bound stays within one domain of the tier that it may have."""
        most, facts = wish.get("highestTierAllowed"), self.facts()
        if (wish.get("mode") or "hard") != "hard" or most is None or not facts.all("HyperNode"):
            return
        where = {pod.node for pod in facts.members(group) if pod.counts and pod.occupies}
        if not any(tier <= most and where <= members for tier, members in domains(facts)):
            self.say(f"PodGroup {group} may not leave tier {most} and runs on {', '.join(sorted(where))}")

    def _claims(self) -> None:
        """No device is given to two claims."""
        owners: dict[tuple[str, ...], str] = {}
        for key, claim in sorted(self._all("resourceclaims").items()):
            given = (claim.get("status") or {}).get("allocation") or {}
            for one in (given.get("devices") or {}).get("results") or ():
                device = one["driver"], one["pool"], one["device"]
                if (other := owners.setdefault(device, key)) != key:
                    self.say(f"device {'/'.join(device)} is given to claims {other} and {key}")

    def _node(self, name: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        def facts(node: dict[str, Any]) -> Any:
            return node["status"].get("allocatable"), node["spec"].get("unschedulable"), node["metadata"].get("uid")

        if before is None or after is None or facts(before) != facts(after):
            self._loosened[f"node {name}"] = self.now()
            if before is None and not self._loosened.get(f"seen {name}"):
                # The first time there is nobody who could know it otherwise.
                self._loosened[f"seen {name}"] = 1.0
                self._loosened[f"node {name}"] = -_STALE

    def _waits_in_vain(self, key: str, group: Mapping[str, Any], pods: Sequence[Pod]) -> bool:
        made = (self._made[pod.raw["metadata"]["uid"]] for pod in pods)
        patience = _SEEN if len(pods) >= (group["spec"].get("minMember") or 1) else _UNFILLED
        return self.now() - max(made, default=self._let_in.get(key, 0.0)) > patience

    def _guards(self) -> bool:
        """What is admitted was always bounded by what may be held, and nothing is ever evicted for it."""
        return {"capacity", "enqueue"} <= self.configured.always and not self.configured.evicts

    def _admitted(self, key: str, queue: str) -> None:
        """A PodGroup may begin: what is promised in its queue fits beside what is held there.

        A gang that waits in vain, with its pods or for them, keeps nobody out, and in one cycle each kind of gangs may
        use all that is free (docs/decisions/0022), also for pods that are made again. Where pods are evicted, more are
        let in.
        """
        self._let_in[key] = self.now()
        found = self._all("queues").get(queue)
        if found is None or self.now() - self._loosened.get(f"queue {queue}", -_STALE) < _STALE:
            return
        promised: Amounts = {}
        mine = amounts(self._all(GROUPS)[key]["spec"].get("minResources"))
        for other, group in self._all(GROUPS).items():
            phase = (group.get("status") or {}).get("phase")
            if (group["spec"].get("queue") or "default") != queue or phase not in ("Inqueue", "Running"):
                continue
            asked, held = amounts(group["spec"].get("minResources")), Amounts()
            pods = [pod for pod in self._pods.values() if pod.group == other]
            at_once = asked != mine and self.now() - self._let_in.get(other, -_AT_ONCE) < _AT_ONCE
            if phase == "Inqueue" and (at_once or self._waits_in_vain(other, group, pods)):
                continue
            for pod in pods if phase == "Running" else ():
                bound = self._bound_at.get(pod.raw["metadata"]["uid"], -_AT_ONCE)
                if pod.occupies and not pod.leaving and self.now() - bound >= _AT_ONCE:
                    add(held, pod.requests)
            add(
                promised, {name: min(most, held.get(name, most * (phase == "Inqueue"))) for name, most in asked.items()}
            )
        for name, most in amounts(found["spec"].get("capability")).items():
            if mine.get(name) and promised.get(name, 0) > most:
                self.say(
                    f"PodGroup {key} is admitted to {queue}: {float(promised[name])} of {name} with {most} allowed"
                )

    # ---- gangs

    def _gang(self, key: str) -> None:
        raw = self._group(key)
        if raw is None:
            self._gangs.pop(key, None)
            return
        gang, least = self._gangs[key], raw["spec"].get("minMember") or 0
        members = [pod for pod in self._pods.values() if pod.group == key]
        have = sum(1 for pod in members if pod.counts)
        if have == 0 or not any(pod.occupies for pod in members):
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

    def sent(self, process: str, verb: str, what: str) -> None:
        """A request has arrived; ``what`` begins with the plural of its kind."""
        kind, _, key = what.partition(" ")
        if verb == "delete" and kind == PODS and process.startswith("scheduler"):
            self._budget(key)
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

    def _budget(self, key: str) -> None:
        """The scheduler deletes a pod and does not ask its budgets."""
        pod = self._pods.get(key)
        if pod is None or pod.leaving or pod.phase != "Running":
            return
        for name, budget in self._all("poddisruptionbudgets").items():
            old = self.now() - self._made.get(budget["metadata"]["uid"], self.now()) > _STALE / 3
            if old and name.partition("/")[0] == pod.namespace and selects(budget["spec"].get("selector"), pod.labels):
                self.say(f"pod {key} is deleted, and nobody has asked budget {name}")

    # ---- after a crash

    def compare(self, store: Any, in_flight: Iterable[Iterable[Any]], acknowledged: int) -> list[Any]:
        """Compare what a store found on its disk; answers the changes in flight that turn out to be there."""
        if store.revision < max(self.revision, acknowledged):
            self.say(f"the store has revision {store.revision} and had acknowledged {max(self.revision, acknowledged)}")
        there: list[Any] = []
        for transaction in in_flight:
            late = [event for event in transaction if event.entry.revision > self.revision]
            kept = [event for event in late if event.entry.revision <= store.revision]
            if kept and len(kept) != len(late):
                self.say("a transaction is there in part")
            there += kept
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
