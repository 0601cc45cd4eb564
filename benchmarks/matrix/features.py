"""What can be drawn, and the cluster that a draw makes; the same seed makes the same one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

Object = dict[str, Any]
NAMESPACES = ("default", "team")
_NODES, _CPUS = 4, 6
_STARTS = 1_700_000_000
_FREE: Object = {"capability": {"cpu": _NODES * _CPUS}}


@dataclass(slots=True)
class Draw:
    """One cluster in the making: features change it one after the other, then jobs are made.

    Attributes:
        random: of the seed.
        luck: of the seed as well, for features that came later: all else of a seed stays as it was.
        actions: of the scheduler, in order.
        tiers: its plug-ins by tier.
        queues: specs by name, and annotations beside them.
        queue_notes: further annotations of queues by name.
        before: objects that are there before any job.
        users: users that jobs are submitted for; empty: nobody is named.
        node: more of each node.
        jobs: changes to each Job, called with its body and number.
        extra: what is submitted beside the Jobs.

    """

    random: Random
    luck: Random
    actions: list[str] = field(default_factory=lambda: ["enqueue", "allocate", "backfill"])
    tiers: list[list[Object]] = field(
        default_factory=lambda: [
            [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}],
            [{"name": "overcommit"}, {"name": "predicates"}, {"name": "nodeorder"}],
        ]
    )
    queues: dict[str, Object] = field(default_factory=lambda: {"a": {"weight": 1}, "b": {"weight": 2}})
    notes: dict[str, str] = field(default_factory=dict)
    queue_notes: dict[str, dict[str, str]] = field(default_factory=dict)
    before: list[Object] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    node: Object = field(default_factory=dict)
    jobs: list[Callable[[Object, int], None]] = field(default_factory=list)
    extra: list[Object] = field(default_factory=list)

    def add(self, name: str, tier: int = 1, **arguments: Any) -> None:
        """Configure a plug-in once, before those that score."""
        if not any(option["name"] == name for each in self.tiers for option in each):
            self.tiers[tier].insert(-1 if tier else len(self.tiers[0]), {"name": name, **arguments})

    def act(self, *names: str) -> None:
        """Configure actions, before backfill."""
        for name in names:
            if name not in self.actions:
                self.actions.insert(-1, name)

    def leaves(self) -> list[str]:
        """Queues that take jobs."""
        parents = {spec.get("parent") for spec in self.queues.values()}
        return [name for name in self.queues if name not in parents]

    def config(self) -> Object:
        """The scheduler configuration."""
        return {"actions": ", ".join(self.actions), "tiers": [{"plugins": tier} for tier in self.tiers]}


def _share(draw: Draw) -> None:
    if not any(option["name"] == "proportion" for option in draw.tiers[1]):
        draw.add("capacity")


def _tree(draw: Draw) -> None:
    draw.queues["org"] = {"weight": 1}
    for name in ("a", "b"):
        draw.queues[name]["parent"] = "org"
    draw.queues["c"] = {"weight": 1}
    draw.tiers[1] = [option for option in draw.tiers[1] if option["name"] not in ("capacity", "proportion")]
    draw.add("capacity", enableHierarchy=True)


def _capability(draw: Draw) -> None:
    for name in draw.random.sample(sorted(draw.queues), 2):
        draw.queues[name]["capability"] = {"cpu": draw.random.choice([6, 10, 16])}


def _deserved(draw: Draw) -> None:
    _share(draw)
    for name in draw.leaves():
        draw.queues[name]["deserved"] = {"cpu": draw.random.choice([4, 8, 12])}


def _proportion(draw: Draw) -> None:
    if not any(option["name"] == "capacity" for option in draw.tiers[1]):
        draw.add("proportion", arguments={"proportion.firstGang": True})


def _user_limits(draw: Draw) -> None:
    draw.add("user-limits")
    draw.users = ["ann", "bob"]
    for name in draw.leaves():
        draw.notes[name] = draw.random.choice(["cpu=6", "pods=4", "jobs=1", "cpu=12,jobs=2"])


def _fair_share(draw: Draw) -> None:
    draw.add("fair-share")
    draw.users = ["ann", "bob"]


def _quota(draw: Draw) -> None:
    draw.add("resourcequota")
    hard = {"requests.cpu": str(draw.random.choice([6, 12]))}
    draw.before.append(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "quota", "namespace": "team"},
            "spec": {"hard": hard},
        }
    )


def _elastic(draw: Draw) -> None:
    def change(body: Object, number: int) -> None:
        body["spec"]["minAvailable"] = max(body["spec"]["minAvailable"] // 2, 1)

    draw.jobs.append(change)


def _reservation(draw: Draw) -> None:
    draw.add("reservation", 0, arguments={"reservation.after": "20s"})


def _topology(draw: Draw) -> None:
    draw.add("network-topology-aware")
    for at in range(0, _NODES, 2):
        members = [{"type": "Node", "selector": {"exactMatch": {"name": f"n-{at + one}"}}} for one in range(2)]
        draw.before.append(
            {
                "apiVersion": "topology.volcano.sh/v1alpha1",
                "kind": "HyperNode",
                "metadata": {"name": f"rack{at // 2}"},
                "spec": {"tier": 1, "members": members},
            }
        )

    def change(body: Object, number: int) -> None:
        if number % 2:
            body["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}

    draw.jobs.append(change)


def _priorities(draw: Draw) -> None:
    if not draw.before or draw.before[0]["kind"] != "PriorityClass":
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
        draw.before.insert(0, {**body, "value": 1000})

    def change(body: Object, number: int) -> None:
        if number > 2:
            body["spec"]["priorityClassName"] = "high"

    draw.jobs.append(change)


def _preempt(draw: Draw) -> None:
    draw.act("preempt")
    _priorities(draw)


def _gangpreempt(draw: Draw) -> None:
    draw.act("gangpreempt")
    _priorities(draw)


def _reclaim(draw: Draw) -> None:
    draw.act("reclaim")
    _deserved(draw)


def _gangreclaim(draw: Draw) -> None:
    draw.act("gangreclaim")
    _deserved(draw)


def _sharing(draw: Draw) -> None:
    draw.add("deviceshare", arguments={"deviceshare.GPUSharingEnable": True})
    draw.node.setdefault("capacity", {}).update({"volcano.sh/gpu-memory": "32", "volcano.sh/gpu-number": "2"})

    def change(body: Object, number: int) -> None:
        if number % 3 == 0:
            _container(body)["resources"]["limits"] = {"volcano.sh/gpu-memory": "6"}

    draw.jobs.append(change)


def _claims(draw: Draw) -> None:
    draw.node["devices"] = {"cards.example": 2}
    exactly = {"deviceClassName": "card", "count": 1}
    spec = {"spec": {"devices": {"requests": [{"name": "one", "exactly": exactly}]}}}
    draw.before.append(
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "card"}, "spec": {}}
    )
    for namespace in NAMESPACES:
        meta = {"name": "one-card", "namespace": namespace}
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": meta, "spec": spec}
        draw.before.append(body)

    def change(body: Object, number: int) -> None:
        if number % 3 == 1:
            pod = body["spec"]["tasks"][0]["template"]["spec"]
            pod["resourceClaims"] = [{"name": "card", "resourceClaimTemplateName": "one-card"}]
            pod["containers"][0]["resources"]["claims"] = [{"name": "card"}]

    draw.jobs.append(change)


def _flow(draw: Draw) -> None:
    for name in ("first", "second"):
        job = _job(draw, 90, name)
        meta = {"name": name, "namespace": "default"}
        spec = {**job["spec"], "minAvailable": 1}
        draw.extra.append(
            {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate", "metadata": meta, "spec": spec}
        )
    flows = [{"name": "first"}, {"name": "second", "dependsOn": {"targets": ["first"]}}]
    draw.extra.append(
        {
            "apiVersion": "flow.volcano.sh/v1alpha1",
            "kind": "JobFlow",
            "metadata": {"name": "flow", "namespace": "default"},
            "spec": {"flows": flows, "jobRetainPolicy": "retain"},
        }
    )


def _suspended(draw: Draw) -> None:
    pod = {
        "schedulerName": "volcano",
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "work:1", "resources": {"requests": {"cpu": "8"}}}],
    }
    draw.extra.append(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "suspended", "namespace": "default"},
            "spec": {"suspend": True, "parallelism": 4, "completions": 4, "template": {"spec": pod}},
        }
    )


def _licenses(draw: Draw) -> None:
    """Some jobs ask for licences by their pods, some as a whole; drawn apart, as all else of a seed stays as it was."""
    luck = Random(f"licences {draw.random.getstate()[1][:8]}")
    draw.before.append(
        {
            "apiVersion": "quota.unisono.io/v1alpha1",
            "kind": "FloatingResource",
            "metadata": {"name": "lic"},
            "spec": {"amount": luck.randint(2, 5), "inUse": luck.choice([0, 0, 1])},
        }
    )

    def change(body: Object, number: int) -> None:
        way = luck.choice(["pods", "job", "none"])
        if way == "pods":
            resources = _container(body)["resources"]
            resources["requests"]["licenses.unisono.io/lic"] = "1"
            resources["limits"] = {"licenses.unisono.io/lic": "1"}
        elif way == "job":
            notes = body["metadata"].setdefault("annotations", {})
            notes["unisono.io/licenses"] = luck.choice(["lic", "lic=2"])

    draw.jobs.append(change)


NOW = datetime.fromtimestamp(_STARTS, UTC)
"""When the life of each draw begins."""


def _budget(draw: Draw) -> None:
    """Soon nothing is left of it."""
    spec = {
        "amounts": {"cpu": draw.luck.choice([0.02, 0.1, 0.3])},
        "mode": draw.luck.choice(["Hard", "Hard", "Soft"]),
        **draw.luck.choice([{"queues": ["a"]}, {"namespaces": ["team"]}]),
    }
    if spec["mode"] == "Hard":
        spec |= draw.luck.choice(
            [{}, {"running": "Evict"}, {"running": "Evict", "notice": "20s"}, {"starts": "IfItFits"}]
        )
    draw.add("budgets", 0)
    draw.before.append(_object("quota.unisono.io/v1alpha1", "Budget", "spent", spec))


def _spares(draw: Draw) -> None:
    draw.add("hot-spares")
    draw.queue_notes.setdefault(draw.luck.choice(draw.leaves()), {})["unisono.io/hot-spares"] = "1"


def _calendar(draw: Draw) -> None:
    """A window in the middle of the life, for one queue or for maintenance; some jobs name it."""
    draw.add("calendar")
    start = NOW + timedelta(seconds=draw.luck.choice([30, 90, 200]))
    spec: Object = {"start": _time(start), "duration": draw.luck.choice(["2m", "20m"]), "nodes": ["n-0", "n-1"]}
    running = draw.luck.choice(["Stay", "Evict"])
    spec |= draw.luck.choice([{"queues": ["a"]}, {"namespaces": ["team"]}, {"purpose": "Maintenance"}])
    draw.before.append(_object("calendar.unisono.io/v1alpha1", "Reservation", "window", spec))
    if "purpose" not in spec:
        spec["running"] = running
        draw.jobs.append(lambda body, number: _note(body, "unisono.io/reservation", "window") if number == 5 else None)


def _run_times(draw: Draw) -> None:
    """Pods are evicted after a time; their jobs end then."""
    draw.add("calendar")
    limits = {"unisono.io/max-run-time": draw.luck.choice(["1m", "3m"])}
    for name in draw.leaves():
        draw.queue_notes.setdefault(name, {}).update(
            draw.luck.choice([limits, {"unisono.io/default-run-time": "2m"}, {}])
        )
    draw.jobs.append(_ends_when_evicted)
    for body in draw.extra:
        if body["kind"] == "JobTemplate":
            _ends_when_evicted(body, 0)


def _ends_when_evicted(body: Object, number: int) -> None:
    body["spec"]["policies"] = [{"event": "PodEvicted", "action": "TerminateJob"}]


def _notice(draw: Draw) -> None:
    def change(body: Object, number: int) -> None:
        notes = body["spec"]["tasks"][0]["template"]["metadata"]["annotations"]
        notes["unisono.io/evict-notice"] = draw.luck.choice(["10s", "45s"])

    draw.jobs.append(change)


def _checks(draw: Draw) -> None:
    """Nodes are looked at before their first job; in half of the draws one of them hangs, and stays out."""
    draw.add("node-checks")
    for kept in draw.luck.choice([[], ["n-2"]]):
        spec: Object = {
            "nodes": [kept],
            "when": ["BeforeFirstJob"],
            "timeout": "10s",
            "retries": 0,
            "command": ["true"],
        }
        draw.before.append(_object("health.unisono.io/v1alpha1", "NodeCheck", "hangs", spec | {"quarantineFor": "1h"}))
    container = {"name": "check", "image": "check:1"}
    template = {"metadata": {"annotations": {"unisono.io/run-seconds": "4"}}, "spec": {"containers": [container]}}
    spec = {"nodes": ["n-0", "n-1"], "template": template, "idleEvery": "1h"}
    draw.before.append(_object("health.unisono.io/v1alpha1", "NodeCheck", "passes", spec))


def _native(draw: Draw) -> None:
    """Gangs of Kubernetes' own PodGroups."""
    for number in range(2):
        resources = {"requests": {"cpu": str(draw.luck.choice([1, 2, 4]))}}
        spec = {
            "schedulerName": "volcano",
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "work:1", "resources": resources}],
        }
        notes = {"scheduling.volcano.sh/queue-name": draw.luck.choice(draw.leaves())}
        if draw.queue_notes:  # what a limit of run times evicts would be made again without end
            notes["unisono.io/run-seconds"] = "20"
        size = draw.luck.randint(2, 5)
        job = {
            "completions": size,
            "parallelism": size,
            "scheduling": {"schedulingPolicy": {"gang": {}}},
            "template": {"metadata": {"annotations": notes}, "spec": spec},
        }
        body = _object("batch/v1", "Job", f"native-{number}", job)
        body["metadata"]["namespace"] = draw.luck.choice(NAMESPACES)
        draw.extra.append(body)


def _object(version: str, kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _note(body: Object, key: str, text: str) -> None:
    body["metadata"].setdefault("annotations", {})[key] = text


APART = "licenses"
"""A feature that is drawn for itself."""
LATER: dict[str, Callable[[Draw], None]] = {
    "budget": _budget,
    "hot spares": _spares,
    "calendar": _calendar,
    "run times": _run_times,
    "notice": _notice,
    "node checks": _checks,
    "native gangs": _native,
}
"""Features that are drawn beside the pairs and triples of the others: none in half of the draws, else one or two."""

FEATURES: dict[str, Callable[[Draw], None]] = {
    "queue tree": _tree,
    "capability": _capability,
    "deserved": _deserved,
    "proportion": _proportion,
    "user-limits": _user_limits,
    "fair-share": _fair_share,
    "quota": _quota,
    "elastic": _elastic,
    "reservation": _reservation,
    "hard topology": _topology,
    "preempt": _preempt,
    "reclaim": _reclaim,
    "gangpreempt": _gangpreempt,
    "gangreclaim": _gangreclaim,
    "GPU sharing": _sharing,
    "claims": _claims,
    "job flow": _flow,
    "suspended": _suspended,
    APART: _licenses,
    **LATER,
}
"""By name, in the order in which they change a draw."""


def _container(body: Object) -> Object:
    found: Object = body["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    return found


def _job(draw: Draw, number: int, name: str) -> Object:
    random = draw.random
    pods = random.choice([1, 2, 3, 4])
    notes = {"unisono.io/run-seconds": "40"} if random.random() < 0.3 else {}
    container = {
        "name": "main",
        "image": "work:1",
        "resources": {"requests": {"cpu": str(random.choice([1, 2, 3, 4]))}},
    }
    spec = {"restartPolicy": "Never", "containers": [container]}
    body: Object = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": random.choice(NAMESPACES)},
        "spec": {
            "schedulerName": "volcano",
            "queue": random.choice(draw.leaves()),
            "minAvailable": pods,
            "tasks": [
                {"name": "work", "replicas": pods, "template": {"metadata": {"annotations": notes}, "spec": spec}}
            ],
        },
    }
    if draw.users:
        body["metadata"]["annotations"] = {"unisono.io/user": random.choice(draw.users)}
    for change in draw.jobs:
        change(body, number)
    return body


@dataclass(frozen=True, slots=True)
class Made:
    """A drawn cluster: names of its features, configuration, nodes, objects that are there, and waves of jobs."""

    features: tuple[str, ...]
    config: Object
    nodes: list[Object]
    before: list[Object]
    waves: list[list[Object]]

    @property
    def text(self) -> str:
        """The configuration as a file."""
        return json.dumps(self.config, indent=1)


def _agree(queues: dict[str, Object]) -> None:
    """Amounts that admission takes: none deserves more than it may hold, and parents have what their children have."""
    for spec in queues.values():
        parent = queues.get(spec.get("parent", ""), {})
        if "capability" in spec and "capability" in parent:
            spec["capability"] = {"cpu": min(spec["capability"]["cpu"], parent["capability"]["cpu"])}
        most = min(one["capability"]["cpu"] for one in (spec, parent, _FREE) if "capability" in one)
        if "deserved" in spec:
            spec["deserved"] = {"cpu": min(spec["deserved"]["cpu"], most)}
    for name, spec in queues.items():
        children = [
            one["deserved"]["cpu"] for one in queues.values() if one.get("parent") == name and "deserved" in one
        ]
        if children:
            spec["deserved"] = {"cpu": sum(children)}
            if "capability" in spec:
                spec["capability"] = {"cpu": max(spec["capability"]["cpu"], sum(children))}


def made(seed: int) -> Made:
    """The cluster of a seed."""
    random = Random(seed)
    usual = [name for name in FEATURES if name != APART and name not in LATER]
    names = random.sample(usual, random.choice([2, 3]))
    if Random(f"{APART} of {seed}").random() < 0.25:
        names.append(APART)
    luck = Random(f"later features of {seed}")
    names += luck.sample(sorted(LATER), luck.choice([0, 0, 1, 2]))
    draw = Draw(random, luck)
    for name, feature in FEATURES.items():
        if name in names:
            feature(draw)
    _agree(draw.queues)
    jobs = [_job(draw, number, f"job-{number}") for number in range(random.randint(6, 9))]
    queues = [
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {
                "name": name,
                "annotations": ({"unisono.io/user-limits": draw.notes[name]} if name in draw.notes else {})
                | draw.queue_notes.get(name, {}),
            },
            "spec": spec,
        }
        for name, spec in sorted(draw.queues.items(), key=lambda item: "parent" in item[1])
    ]
    node = {"name": "n", "count": _NODES, **draw.node}
    node["capacity"] = {"cpu": _CPUS, "memory": "32Gi", **draw.node.get("capacity", {})}
    half = len(jobs) // 2
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACES[1]}}
    waves = [jobs[:half], [*draw.extra, *jobs[half:]]]
    return Made(tuple(sorted(names)), draw.config(), [node], [namespace, *draw.before, *queues], waves)
