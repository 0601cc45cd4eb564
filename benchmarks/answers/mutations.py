"""Cases by mutation: a healthy world with one job, and the inverse of some relaxations; the answer must undo them.

A world has four nodes, a queue, and one object of each kind that a pod can refer to, so that each cause can be fixed.
While the job is created no node takes pods: what happens to its queue afterwards happens before it could start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from random import Random
from typing import Any, Final

from benchmarks.answers.case import Case, Step

KINDS: Final = ("deployment", "job", "pytorchjob", "jobset")
_PODS = 2
_NODES: Final = ("n-0", "n-1", "n-2", "n-3")
_NOTE: Final = "scheduling.volcano.sh/queue-name"


@dataclass
class World:
    """What a cause changes: the spec and labels of the job's pods, objects and nodes, and what happens afterwards."""

    spec: dict[str, Any]
    queue: str = "research"
    suspended: bool = False
    objects: list[dict[str, Any]] = field(default_factory=list)
    nodes: dict[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    cordoned: bool = False

    def named(self, kind: str, name: str) -> dict[str, Any]:
        """An object of the world."""
        return next(one for one in self.objects if (one["kind"], one["metadata"]["name"]) == (kind, name))

    @property
    def resources(self) -> dict[str, Any]:
        """Of the pods' container."""
        found: dict[str, Any] = self.spec["containers"][0]["resources"]
        return found


def _object(api: str, kind: str, name: str, **body: Any) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **body}


def _queue(name: str) -> dict[str, Any]:
    return _object("scheduling.volcano.sh/v1beta1", "Queue", name, spec={"weight": 1, "capability": {"cpu": "200"}})


def healthy() -> World:
    """A world in which the job runs."""
    container: dict[str, Any] = {
        "name": "main",
        "image": "train:1",
        "resources": {"requests": {"cpu": "2", "memory": "1Gi"}},
    }
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    spec: dict[str, Any] = {
        "schedulerName": "volcano",
        "serviceAccountName": "trainer",
        "priorityClassName": "high",
        "runtimeClassName": "gvisor",
        "nodeSelector": {"pool": "training"},
        "containers": [container],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "dataset"}}],
    }
    claim = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "nfs": {"server": "s", "path": "/d"}}
    objects = [
        _queue("research"),
        _object("v1", "ServiceAccount", "trainer"),
        _object("scheduling.k8s.io/v1", "PriorityClass", "high", value=100),
        _object("node.k8s.io/v1", "RuntimeClass", "gvisor", handler="runsc"),
        _object("v1", "PersistentVolume", "volume", spec=volume),
        _object("v1", "PersistentVolumeClaim", "dataset", spec={**claim, "volumeName": "volume"}),
        _object("v1", "ResourceQuota", "team", spec={"hard": {"pods": "20"}}),
        _object("v1", "LimitRange", "sizes", spec={"limits": [{"type": "Container", "max": {"cpu": "100"}}]}),
    ]
    nodes = {
        "name": "n",
        "count": len(_NODES),
        "capacity": {"cpu": 8, "memory": "32Gi", "nvidia.com/gpu": 2},
        "labels": {"pool": "training", "topology.kubernetes.io/zone": "a"},
    }
    return World(spec, objects=objects, nodes=nodes)


def _queue_name(world: World) -> None:
    world.queue = "reserach"
    world.objects.append(_queue("reserach"))
    world.steps.append({"delete": "queue/reserach", "gone": False})


def _close(world: World) -> None:
    world.steps.append({"command": "CloseQueue", "to": "queue/research"})


def _reserve(world: World) -> None:
    notes = {"metadata": {"annotations": {"unisono.io/namespaces": "other"}}}
    world.steps.append({"patch": "queue/research", "merge": notes})


def _gpu_name(world: World) -> None:
    world.resources["limits"] = {"nvidia.com/gpus": "1"}
    world.resources["requests"]["nvidia.com/gpus"] = "1"


def _require(world: World, rule: str, labels: dict[str, str], topology: str) -> None:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": topology}
    affinity = world.spec.setdefault("affinity", {})
    affinity[rule] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


@dataclass(frozen=True)
class Cause:
    """A relaxation's inverse: what it does to a world, and how an answer names it."""

    name: str
    named: str
    apply: Callable[[World], Any]


_ZONE = "topology.kubernetes.io/zone"
CAUSES: Final = (
    Cause("account", "account", lambda w: w.spec.update(serviceAccountName="tranier")),
    Cause("priority", "PriorityClass|priority class", lambda w: w.spec.update(priorityClassName="hihg")),
    Cause("runtime", "RuntimeClass", lambda w: w.spec.update(runtimeClassName="gvsior")),
    Cause("quota", "quota", lambda w: w.named("ResourceQuota", "team")["spec"]["hard"].update(pods="1")),
    Cause(
        "limits",
        "sizes|LimitRange|maximum cpu",
        lambda w: w.named("LimitRange", "sizes")["spec"]["limits"][0]["max"].update(cpu="1"),
    ),
    Cause("queue-name", "reserach", _queue_name),
    Cause("queue-closed", "research is not open|research is clos|queue is closed|clos", _close),
    Cause("namespaces", "namespace", _reserve),
    Cause(
        "capability",
        "capability",
        lambda w: w.named("Queue", "research")["spec"]["capability"].update(cpu="1"),
    ),
    Cause(
        "taint",
        "taint",
        lambda w: w.nodes.update(taints=[{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}]),
    ),
    Cause("cordon", "cordon|unschedulable", lambda w: setattr(w, "cordoned", True)),
    Cause("selector", "pool", lambda w: w.spec.update(nodeSelector={"pool": "trianing"})),
    Cause("device", r"nvidia\.com/gpus", _gpu_name),
    Cause("large", r"cpu 4\d|cpu 40|at most cpu", lambda w: w.resources["requests"].update(cpu="40")),
    Cause("gate", "gate", lambda w: w.spec.update(schedulingGates=[{"name": "example.com/ready"}])),
    Cause("apart", "anti-?affinity", lambda w: _require(w, "podAntiAffinity", {"name": "train"}, _ZONE)),
    Cause("near", r"(?<!anti)(?<!anti-)affinity", lambda w: _require(w, "podAffinity", {"name": "nobody"}, _ZONE)),
    Cause("claim", "datset", lambda w: w.spec["volumes"][0]["persistentVolumeClaim"].update(claimName="datset")),
    Cause("scheduler", "volcnao", lambda w: w.spec.update(schedulerName="volcnao")),
    Cause("suspended", "suspend|paused|abort", lambda w: setattr(w, "suspended", True)),
)


def _made(kind: str, world: World) -> dict[str, Any]:
    notes = {} if kind in ("job", "pytorchjob") else {"annotations": {_NOTE: world.queue}}
    once = world.spec | {"restartPolicy": "Never"}
    meta = {"labels": {"name": "train"}, **notes}
    match kind:
        case "deployment":
            body = {
                "replicas": _PODS,
                "selector": {"matchLabels": {"name": "train"}},
                "template": {"metadata": meta, "spec": world.spec},
            }
            body |= {"paused": True} if world.suspended else {}
            return _object("apps/v1", "Deployment", "train", spec=body)
        case "job":
            task = {"name": "w", "replicas": _PODS, "template": {"metadata": meta, "spec": once}}
            body = {"schedulerName": once["schedulerName"], "queue": world.queue, "minAvailable": _PODS}
            return _object("batch.volcano.sh/v1alpha1", "Job", "train", spec={**body, "tasks": [task]})
        case "pytorchjob":
            role = {"replicas": 1, "restartPolicy": "Never", "template": {"metadata": meta, "spec": world.spec}}
            policy: dict[str, Any] = {"schedulingPolicy": {"queue": world.queue}}
            policy |= {"suspend": True} if world.suspended else {}
            body = {"runPolicy": policy, "pytorchReplicaSpecs": {"Master": role, "Worker": role}}
            return _object("kubeflow.org/v1", "PyTorchJob", "train", spec=body)
        case _:
            job = {"parallelism": 1, "completions": 1, "template": {"metadata": meta, "spec": once}}
            body = {"replicatedJobs": [{"name": "w", "replicas": _PODS, "template": {"spec": job}}]}
            body |= {"suspend": True} if world.suspended else {}
            return _object("jobset.x-k8s.io/v1alpha2", "JobSet", "train", spec=body)


def case_of(kind: str, causes: Sequence[Cause]) -> Case:
    """The case of a job of this kind that is stuck for all of these causes at once."""
    world = healthy()
    for cause in causes:
        cause.apply(world)
    name = "-".join((kind, *(cause.name for cause in causes)))
    if world.suspended and kind == "job":
        world.steps.append({"command": "AbortJob", "to": "job/train"})
    hold = [{"patch": f"node/{node}", "merge": {"spec": {"unschedulable": True}}} for node in _NODES]
    go = [{"patch": f"node/{node}", "merge": {"spec": {"unschedulable": None}}} for node in _NODES]
    settle: list[Step] = [{"wait": 5}]
    steps: list[Step] = [*hold, {"create": _made(kind, world)}, *settle, *world.steps, *settle]
    steps += [] if world.cordoned else go
    roots = [cause.named for cause in causes]
    slow = 60.0
    return Case(
        name, "", f"{kind}/train", roots, [], world.objects, [world.nodes], "", steps, [], [], _PODS, 30.0, slow
    )


def drawn(number: int, seed: int, size: int = 2, kinds: Sequence[str] = KINDS) -> Iterator[Case]:
    """So many cases of ``size`` causes each, drawn without repetition; all of them where there are fewer."""
    every = [(kind, chosen) for kind in kinds for chosen in combinations(CAUSES, size)]
    random = Random(seed)
    for kind, chosen in random.sample(every, min(number, len(every))):
        yield case_of(kind, chosen)
