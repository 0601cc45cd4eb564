"""What can be drawn, and the cluster that a draw makes; the same seed makes the same one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from benchmarks.matrix.draw import CPUS, NAMESPACES, NODES, Draw, Object, container
from benchmarks.matrix.later import LATER, LATEST

_FREE: Object = {"capability": {"cpu": NODES * CPUS}}


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
    for at in range(0, NODES, 2):
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
            container(body)["resources"]["limits"] = {"volcano.sh/gpu-memory": "6"}

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
            resources = container(body)["resources"]
            resources["requests"]["licenses.unisono.io/lic"] = "1"
            resources["limits"] = {"licenses.unisono.io/lic": "1"}
        elif way == "job":
            notes = body["metadata"].setdefault("annotations", {})
            notes["unisono.io/licenses"] = luck.choice(["lic", "lic=2"])

    draw.jobs.append(change)


APART = "licenses"
"""A feature that is drawn for itself."""
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
    **LATEST,
}
"""By name, in the order in which they change a draw."""


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
    """A drawn cluster: its features, configuration, nodes and labels, objects that are there, and waves of jobs."""

    features: tuple[str, ...]
    config: Object
    nodes: list[Object]
    labels: dict[str, Object]
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
    usual = [name for name in FEATURES if name != APART and name not in LATER | LATEST]
    names = random.sample(usual, random.choice([2, 3]))
    if Random(f"{APART} of {seed}").random() < 0.25:
        names.append(APART)
    luck = Random(f"later features of {seed}")
    names += luck.sample(sorted(LATER), luck.choice([0, 0, 1, 2]))
    chance = Random(f"latest features of {seed}")
    names += chance.sample(sorted(LATEST), chance.choice([0, 1, 1]))
    draw = Draw(random, luck, chance)
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
    node = {"name": "n", "count": NODES, **draw.node}
    node["capacity"] = {"cpu": CPUS, "memory": "32Gi", **draw.node.get("capacity", {})}
    half = len(jobs) // 2
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACES[1]}}
    waves = [jobs[:half], [*draw.extra, *jobs[half:]]]
    before = [namespace, *draw.before, *queues]
    return Made(tuple(sorted(names)), draw.config(), [node, *draw.groups], draw.labels, before, waves)
