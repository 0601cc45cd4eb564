"""Changes of a live cluster as users write them: objects to add, merge or delete, nodes in short form, a configuration.

::

    apiVersion: scheduling.volcano.sh/v1beta1
    kind: Queue
    metadata: {name: research}
    spec: {weight: 4}              # merged into the queue as it is
    ---
    $patch: delete                 # the node goes, and its pods with it
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-3}
    ---
    nodes:                         # nodes to add, as in the cluster files of the simulator
    - {name: new, count: 4, cpu: 96, memory: 512Gi, gpus: 8}
    ---
    actions: "enqueue, allocate"   # another configuration of the scheduler
    tiers: [{plugins: [{name: gang}]}]
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from unisono.api.base import Object
from unisono.api.batch import Job
from unisono.api.core import Pod, PodStatus
from unisono.api.decode import decode
from unisono.api.documents.merge import merge_named
from unisono.api.kind import Kind
from unisono.api.kinds import NODES, POD_GROUPS, QUEUES, find
from unisono.api.scheduling import PodGroup
from unisono.controllers.job.pod_group import pod_group_spec
from unisono.controllers.job.view import JobView
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.simulator.clusters.short import build
from unisono.simulator.files import InputError
from unisono.simulator.forecast.live import LiveObjects

DELETE = "$patch"


@dataclass(frozen=True, slots=True)
class Changed:
    """A cluster after the changes.

    Attributes:
        objects: its objects; those that did not change are the same.
        config: another configuration of the scheduler, None for the one before.
        told: what was changed, one line each.

    """

    objects: LiveObjects
    config: SchedulerConfig | None
    told: tuple[str, ...]


def apply_changes(objects: LiveObjects, documents: Iterable[tuple[Mapping[str, Any], str]]) -> Changed:
    """Apply changes to a copy.

    Args:
        objects: of the cluster as it is; they stay as they are.
        documents: decoded YAML documents, each with the place where it stands (for messages).

    Raises:
        InputError: a document is no change, names a kind that is not known, or deletes what is not there.

    """
    found = LiveObjects({name: (kind, list(items)) for name, (kind, items) in objects.by_kind.items()})
    config: SchedulerConfig | None = None
    told: list[str] = []
    for value, where in documents:
        if "kind" in value:
            told.append(_change(found, dict(value), where))
        elif "actions" in value or "tiers" in value:
            config = load_config(json.dumps(value), where)
            told.append("another configuration of the scheduler")
        elif "nodes" in value or "queues" in value:
            cluster = build({"nodes": [], **value}, where)
            found.add(NODES, cluster.nodes)
            found.add(QUEUES, cluster.queues)
            told.append(f"{len(cluster.nodes)} nodes and {len(cluster.queues)} queues added")
        else:
            raise InputError(f"{where}: give an object with a kind, nodes, or actions and tiers")
    _free_pods(found)
    return Changed(found, config, tuple(told))


def _free_pods(objects: LiveObjects) -> None:
    """Pods of nodes that have gone wait again, as their controllers recreate them."""
    known = {node.metadata.name for node in objects.of("Node")}
    pods = objects.of("Pod")
    for at, pod in enumerate(pods):
        if pod.spec.node_name and pod.spec.node_name not in known:
            spec = msgspec.structs.replace(pod.spec, node_name=None)
            pods[at] = Pod(metadata=pod.metadata, spec=spec, status=PodStatus(phase="Pending"))


def _change(objects: LiveObjects, value: dict[str, Any], where: str) -> str:
    action = value.pop(DELETE, "merge")
    if action not in ("merge", "delete"):
        raise InputError(f"{where}: {DELETE}: {action!r} is neither delete nor merge")
    kind = find(str(value.get("apiVersion", "")), str(value.get("kind", "")))
    if kind is None:
        raise InputError(f"{where}: there is no kind {value.get('kind')} of {value.get('apiVersion')}")
    metadata = value.setdefault("metadata", {})
    if kind.namespaced:
        metadata.setdefault("namespace", "default")
    items = objects.of(kind.kind)
    name = f"{metadata['namespace']}/{metadata.get('name')}" if kind.namespaced else str(metadata.get("name"))
    at = next((number for number, item in enumerate(items) if item.key == name), None)
    if action == "delete":
        if at is None:
            raise InputError(f"{where}: there is no {kind.kind} {name} to delete")
        del items[at]
        return f"{kind.kind} {name} deleted"
    obj = _decoded(kind, value if at is None else merge_named(msgspec.to_builtins(items[at]), value), where)
    if at is None:
        objects.add(kind, [obj])
        return f"{kind.kind} {name} added"
    if kind is POD_GROUPS and name in (makers := _makers(objects)):
        raise InputError(
            f"{where}: PodGroup {name} belongs to Job {makers[name].job.key}, whose controller writes its spec: "
            "change the Job"
        )
    items[at] = obj
    if isinstance(obj, Job):
        _follow(objects, JobView(obj))
    return f"{kind.kind} {name} changed"


def _makers(objects: LiveObjects) -> dict[str, JobView]:
    """Jobs by the key of their PodGroup."""
    views = map(JobView, objects.of("Job"))
    return {f"{view.job.metadata.namespace}/{view.pod_group_name}": view for view in views}


def _follow(objects: LiveObjects, view: JobView) -> None:
    """The PodGroup of a changed Job, as its controller will write it."""
    priorities = {each.metadata.name: each.value for each in objects.of("PriorityClass")}
    groups = objects.of("PodGroup")
    key = f"{view.job.metadata.namespace}/{view.pod_group_name}"
    for at, group in enumerate(groups):
        if group.key == key:
            spec = pod_group_spec(view, lambda name: priorities.get(name or "", 0))
            groups[at] = PodGroup(metadata=group.metadata, spec=spec, status=group.status)


def _decoded(kind: Kind[Any], value: dict[str, Any], where: str) -> Object:
    decoded = decode(kind, value)
    if decoded.type_errors:
        raise InputError(f"{where}: {decoded.type_errors[0].message()}")
    if decoded.unknown_fields:
        raise InputError(f"{where}: there is no field {decoded.unknown_fields[0]}")
    obj: Object = decoded.obj
    if kind is QUEUES and not obj.status.state:  # type: ignore[attr-defined]
        obj.status.state = "Open"  # type: ignore[attr-defined]
    return obj
