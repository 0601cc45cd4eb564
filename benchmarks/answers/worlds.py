"""A healthy world with one job, of which causes are made: four nodes, a queue, and what the job's pods refer to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.answers.case import Step
from unisono.api.keys import GROUP_MIN_MEMBER, POD_QUEUE

KINDS: Final = ("deployment", "job", "pytorchjob", "jobset")
PODS = 2
NODES: Final = ("n-0", "n-1", "n-2", "n-3")


@dataclass
class World:
    """What a cause changes.

    Attributes:
        spec: of the job's pods.
        queue: of the job.
        suspended: its owner, or it itself, is.
        members: pods that must run together; 0: as many as there are.
        replicas: pods of a Deployment.
        wanted: pods that run in the end.
        objects: made before the job.
        nodes: as for simulated nodes.
        steps: what happens after the job was created.
        cordoned: no node takes pods in the end, either.
        pools: more simulated nodes, such as those of a node group.
        notes: annotations of the job itself.
        before: what is created before the job, when no node takes pods yet.
        more: further fields of the job's spec; of a PyTorchJob of its scheduling policy.
    """

    spec: dict[str, Any]
    queue: str = "research"
    suspended: bool = False
    members: int = 0
    replicas: int = PODS
    wanted: int = PODS
    objects: list[dict[str, Any]] = field(default_factory=list)
    nodes: dict[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    cordoned: bool = False
    pools: list[dict[str, Any]] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    before: list[Step] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)

    def add(self, *objects: dict[str, Any]) -> None:
        """Objects, before the job is created."""
        self.objects.extend(objects)

    def named(self, kind: str, name: str) -> dict[str, Any]:
        """An object of the world."""
        return next(one for one in self.objects if (one["kind"], one["metadata"]["name"]) == (kind, name))

    @property
    def resources(self) -> dict[str, Any]:
        """Of the pods' container."""
        found: dict[str, Any] = self.spec["containers"][0]["resources"]
        return found

    @property
    def hard(self) -> dict[str, Any]:
        """Of the quota."""
        found: dict[str, Any] = self.named("ResourceQuota", "team")["spec"]["hard"]
        return found

    @property
    def limits(self) -> list[dict[str, Any]]:
        """Of the LimitRange; the first one is that of containers."""
        found: list[dict[str, Any]] = self.named("LimitRange", "sizes")["spec"]["limits"]
        return found


def made_object(api: str, kind: str, name: str, **body: Any) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **body}


def queue(name: str) -> dict[str, Any]:
    return made_object("scheduling.volcano.sh/v1beta1", "Queue", name, spec={"weight": 1, "capability": {"cpu": "200"}})


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
        queue("research"),
        made_object("v1", "ServiceAccount", "trainer"),
        made_object("scheduling.k8s.io/v1", "PriorityClass", "high", value=100),
        made_object("node.k8s.io/v1", "RuntimeClass", "gvisor", handler="runsc"),
        made_object("v1", "PersistentVolume", "volume", spec=volume),
        made_object("v1", "PersistentVolumeClaim", "dataset", spec={**claim, "volumeName": "volume"}),
        made_object("v1", "ResourceQuota", "team", spec={"hard": {"pods": "20"}}),
        made_object("v1", "LimitRange", "sizes", spec={"limits": [{"type": "Container", "max": {"cpu": "100"}}]}),
    ]
    nodes = {
        "name": "n",
        "count": len(NODES),
        "capacity": {"cpu": 8, "memory": "32Gi", "nvidia.com/gpu": 2},
        "labels": {"pool": "training", "topology.kubernetes.io/zone": "a"},
    }
    return World(spec, objects=objects, nodes=nodes)


def job_of(kind: str, world: World) -> dict[str, Any]:
    """The world's job, of one of these kinds."""
    found = _job_of(kind, world)
    if world.notes:
        found["metadata"].setdefault("annotations", {}).update(world.notes)
    return found


def _job_of(kind: str, world: World) -> dict[str, Any]:
    notes = {} if kind in ("job", "pytorchjob") else {"annotations": {POD_QUEUE: world.queue}}
    once = world.spec | {"restartPolicy": "Never"}
    meta = {"labels": {"name": "train"}, **notes}
    match kind:
        case "deployment":
            body = {
                "replicas": world.replicas,
                "selector": {"matchLabels": {"name": "train"}},
                "template": {"metadata": meta, "spec": world.spec},
            }
            body |= {"paused": True} if world.suspended else {}
            found = made_object("apps/v1", "Deployment", "train", spec=body)
            if world.members:
                found["metadata"]["annotations"] = {GROUP_MIN_MEMBER: str(world.members)}
            return found
        case "job":
            task = {"name": "w", "replicas": PODS, "template": {"metadata": meta, "spec": once}}
            body = {"schedulerName": once["schedulerName"], "queue": world.queue, "minAvailable": PODS, **world.more}
            return made_object("batch.volcano.sh/v1alpha1", "Job", "train", spec={**body, "tasks": [task]})
        case "pytorchjob":
            role = {"replicas": 1, "restartPolicy": "Never", "template": {"metadata": meta, "spec": world.spec}}
            policy: dict[str, Any] = {"schedulingPolicy": {"queue": world.queue, **world.more}}
            policy |= {"suspend": True} if world.suspended else {}
            if world.members:
                policy["schedulingPolicy"]["minAvailable"] = world.members
            body = {"runPolicy": policy, "pytorchReplicaSpecs": {"Master": role, "Worker": role}}
            return made_object("kubeflow.org/v1", "PyTorchJob", "train", spec=body)
        case _:
            job = {"parallelism": 1, "completions": 1, "template": {"metadata": meta, "spec": once}}
            body = {"replicatedJobs": [{"name": "w", "replicas": PODS, "template": {"spec": job}}]}
            body |= {"suspend": True} if world.suspended else {}
            return made_object("jobset.x-k8s.io/v1alpha2", "JobSet", "train", spec=body)
