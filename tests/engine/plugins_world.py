"""A cluster in a few words, and a session over it, for tests that call hooks directly."""

from __future__ import annotations

from typing import Any

import msgspec

from unisono.api import kinds
from unisono.api.core import Node, Pod, PriorityClass
from unisono.api.groups.scheduling import PodGroup, Queue
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.state import ClusterState
from unisono.engine.config.arguments import Flags
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.registry import create
from unisono.engine.session.job_state import JobState, QueueState
from unisono.engine.session.session import Session

_KINDS = {
    Node: kinds.NODES,
    Pod: kinds.PODS,
    PriorityClass: kinds.PRIORITY_CLASSES,
    PodGroup: kinds.POD_GROUPS,
    Queue: kinds.QUEUES,
}


class World:
    """Add objects, then open a session; each call of ``open`` starts a new one."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.pod_count = 0

    def add(self, struct: type[Any], name: str, **parts: Any) -> None:
        namespace = parts.pop("namespace", None)
        meta = {
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **parts.pop("meta", {}),
        }
        if namespace:
            meta["namespace"] = namespace
        self.state.apply("ADDED", _KINDS[struct], msgspec.convert({"metadata": meta, **parts}, struct))

    def node(self, name: str, labels: dict[str, str] | None = None, ready: bool = True, **parts: Any) -> World:
        amounts = {"cpu": "10", "memory": "10Gi", "pods": "110", **parts.pop("has", {})}
        spec = {key: parts.pop(key) for key in ("taints", "unschedulable") if key in parts}
        status = {
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        }
        self.add(Node, name, meta={"labels": labels or {}}, spec=spec, status=status)
        return self

    def queue(self, name: str, state: str = "Open", **spec: Any) -> World:
        self.add(Queue, name, spec={"weight": 1, **spec}, status={"state": state})
        return self

    def priority(self, name: str, value: int) -> World:
        self.add(PriorityClass, name, value=value)
        return self

    def job(self, name: str, *pods: dict[str, Any], queue: str = "q", phase: str = "Inqueue", **spec: Any) -> World:
        """``pods`` are made by `a_pod`."""
        spec = {"queue": queue, "minMember": len(pods), **spec}
        self.add(PodGroup, name, namespace="ns", spec=spec, status={"phase": phase})
        for number, pod in enumerate(pods):
            self.pod(f"{name}-{number}", name, **pod)
        return self

    def pod(self, name: str, job: str = "", **pod: Any) -> World:
        annotations = dict(pod.pop("annotations", {}))
        if job:
            annotations["scheduling.k8s.io/group-name"] = job
        if role := pod.pop("role", ""):
            annotations["volcano.sh/task-spec"] = role
        status = {"phase": pod.pop("phase", "Pending")}
        namespace = pod.pop("namespace", "ns")
        meta = {"annotations": annotations, **pod.pop("meta", {})}
        self.add(Pod, name, namespace=namespace, meta=meta, spec=pod, status=status)
        return self

    def open(self, name: str = "", flags: Flags | None = None, **arguments: Any) -> tuple[Session, Any]:
        """A session, and an opened plug-in of that name (None without a name)."""
        session = Session(self.state.snapshot(), now=0.0)
        if not name:
            return session, None
        given = {key.replace("__", "."): value for key, value in arguments.items()}
        plugin: Plugin = create(PluginConfig(name, flags or Flags(), given))
        plugin.open(session)
        return session, plugin


def a_pod(cpu: str = "1", memory: str = "1Gi", node: str = "", **spec: Any) -> dict[str, Any]:
    """Spec of a pod with one container, running where ``node`` is given."""
    more = spec.pop("has", {})
    requests = {**({"cpu": cpu} if cpu else {}), **({"memory": memory} if memory else {}), **more}
    container: dict[str, Any] = {"name": "c", "resources": {"requests": requests}}
    if ports := spec.pop("ports", None):
        container["ports"] = ports
    pod: dict[str, Any] = {"schedulerName": "volcano", "containers": [container], **spec}
    if node:
        pod |= {"nodeName": node, "phase": spec.get("phase", "Running")}
    return pod


def job_of(session: Session, name: str) -> JobState:
    job = session.job(f"ns/{name}")
    assert job is not None, name
    return job


def queue_of(session: Session, name: str) -> QueueState:
    return session.queues[name]


def task_of(session: Session, name: str) -> Task:
    return session.snapshot.tasks[f"ns/{name}"]


def class_of(session: Session, name: str) -> PodClass:
    return task_of(session, name).pod_class
