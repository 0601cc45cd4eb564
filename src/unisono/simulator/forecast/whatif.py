"""What a change would do: changes as users write them, and the same possible futures without and with one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from unisono.api.base import Object, ObjectMeta
from unisono.api.core import Pod, PodStatus
from unisono.api.decode import decode
from unisono.api.documents import merge_named
from unisono.api.groups.batch import Job
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec, PodGroupStatus
from unisono.api.keys import GROUP_NAME
from unisono.api.kind import Kind
from unisono.api.kinds import NODES, POD_GROUPS, PODS, QUEUES, find
from unisono.api.messages import counted
from unisono.api.selecting import pod_group_name
from unisono.api.times import rfc3339
from unisono.cluster.recent import RunTimes
from unisono.controllers.job.pods import pod_group_spec
from unisono.controllers.job.view import JobView
from unisono.controllers.owners import owned_by
from unisono.controllers.podgroup.decide import group_of_all, pod_group_for
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.jobkinds.kind import JobKind, by_annotation
from unisono.jobkinds.registry import known
from unisono.simulator.clusters import build
from unisono.simulator.files import InputError
from unisono.simulator.forecast.forecast import Budget, Forecast, Side, Start, run_sides
from unisono.simulator.forecast.live import LiveObjects, group_key, pods_of_job
from unisono.simulator.forecast.past import past_of
from unisono.simulator.metrics.durations import mean
from unisono.simulator.metrics.summary import share_deviation
from unisono.simulator.metrics.usage import held, integral, queue_length, usage, waste
from unisono.simulator.studies.compare import Interval, interval
from unisono.simulator.workload.job import MOST_PODS
from unisono.simulator.world.objects import SCHEDULER
from unisono.simulator.world.outcome import Run

# Changes of a live cluster as users write them: objects to add, merge or delete, nodes in short form, a configuration.
#
# ::
#
#     apiVersion: scheduling.volcano.sh/v1beta1
#     kind: Queue
#     metadata: {name: research}
#     spec: {weight: 4}              # merged into the queue as it is
#     ---
#     $patch: delete                 # the node goes, and its pods with it
#     apiVersion: v1
#     kind: Node
#     metadata: {name: gpu-3}
#     ---
#     nodes:                         # nodes to add, as in the cluster files of the simulator
#     - {name: new, count: 4, cpu: 96, memory: 512Gi, gpus: 8}
#     ---
#     actions: "enqueue, allocate"   # another configuration of the scheduler
#     tiers: [{plugins: [{name: gang}]}]

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


def apply_changes(
    objects: LiveObjects, documents: Iterable[tuple[Mapping[str, Any], str]], now: float = 0.0
) -> Changed:
    """Apply changes to a copy. A new job of any kind that is known comes with its PodGroup and its pods.

    Args:
        objects: of the cluster as it is; they stay as they are.
        documents: decoded YAML documents, each with the place where it stands (for messages).
        now: seconds since 1970, when new jobs are submitted.

    Raises:
        InputError: a document is no change, names a kind that is not known, or deletes what is not there.
    """
    changed = LiveObjects({name: (kind, list(items)) for name, (kind, items) in objects.by_kind.items()})
    config: SchedulerConfig | None = None
    messages: list[str] = []
    for value, where in documents:
        if "kind" in value:
            messages.append(_change(changed, dict(value), where, now))
        elif "actions" in value or "tiers" in value:
            config = load_config(json.dumps(value), where)
            messages.append("another configuration of the scheduler")
        elif "nodes" in value or "queues" in value:
            cluster = build({"nodes": [], **value}, where)
            changed.add(NODES, cluster.nodes)
            changed.add(QUEUES, cluster.queues)
            messages.append(f"{len(cluster.nodes)} nodes and {len(cluster.queues)} queues added")
        else:
            raise InputError(f"{where}: give an object with a kind, nodes, or actions and tiers")
    _free_pods(changed)
    return Changed(changed, config, tuple(messages))


def _free_pods(objects: LiveObjects) -> None:
    """Pods of nodes that have gone wait again, as their controllers recreate them."""
    node_names = {node.metadata.name for node in objects.of("Node")}
    pods = objects.of("Pod")
    for at, pod in enumerate(pods):
        if pod.spec.node_name and pod.spec.node_name not in node_names:
            spec = msgspec.structs.replace(pod.spec, node_name=None)
            pods[at] = Pod(metadata=pod.metadata, spec=spec, status=PodStatus(phase="Pending"))


def _change(objects: LiveObjects, value: dict[str, Any], where: str, now: float) -> str:
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
        gone = _collect(objects, items.pop(at))
        return f"{kind.kind} {name} deleted" + (f", with {counted(gone, 'pod')}" if gone else "")
    obj = _decoded(kind, value if at is None else merge_named(msgspec.to_builtins(items[at]), value), where)
    obj.metadata.uid = obj.metadata.uid or f"what-if-{kind.kind}-{name}".lower()
    job = known().of_kind(f"{kind.group}/{kind.version}", kind.kind)
    if at is None:
        objects.add(kind, [obj])
        made = _join(objects, job, obj, now) if job is not None and job.runs else None
        return f"{kind.kind} {name} added" + ("" if made is None else f", with {counted(made, 'pod')}")
    if kind is POD_GROUPS and name in (makers := _makers(objects)):
        raise InputError(
            f"{where}: PodGroup {name} belongs to Job {makers[name].job.key}, whose controller writes its spec: "
            "change the Job"
        )
    before, items[at] = items[at], obj
    if isinstance(obj, Job):
        return f"{kind.kind} {name} changed{_follow(objects, before, JobView(obj), now)}"
    if job is not None and job.runs:
        # Which of its pods stay would be its own controller's decision: all are made anew, and wait.
        _collect(objects, obj)
        return f"{kind.kind} {name} changed, with {counted(_join(objects, job, obj, now), 'pod')} that start anew"
    return f"{kind.kind} {name} changed"


def _collect(objects: LiveObjects, owner: Object) -> int:
    """Remove what an object owns, and what that owns, as the garbage collector does; answers how many pods went."""
    gone, groups, pods = {owner.metadata.uid} - {None, ""}, set[str](), 0

    def goes(item: Object) -> bool:
        if any(each.uid in gone for each in item.metadata.owner_references or ()):
            return True
        group = pod_group_name(item.metadata.annotations, item.spec) if isinstance(item, Pod) else ""
        return bool(group) and f"{item.metadata.namespace}/{group}" in groups

    removed: list[Object] = [owner]
    while removed:
        removed = []
        for _, items in objects.by_kind.values():
            left = [item for item in items if not goes(item)]
            if len(left) < len(items):
                kept = set(map(id, left))
                removed += [item for item in items if id(item) not in kept]
                items[:] = left
        gone |= {item.metadata.uid for item in removed} - {None, ""}
        groups |= {item.key for item in removed if isinstance(item, PodGroup)}
        pods += sum(isinstance(item, Pod) for item in removed)
    return pods


def _join(objects: LiveObjects, job: JobKind, obj: Object, now: float) -> int:
    """Add the PodGroup and the pods that controllers would make of a new object; answers how many pods."""
    meta = obj.metadata
    created = meta.creation_timestamp = meta.creation_timestamp or rfc3339(now)
    owner = [owned_by(job.kind, obj)]
    classes = {each.metadata.name: each.value for each in objects.of("PriorityClass")}

    def waits(name: str, spec: PodGroupSpec) -> None:
        group = ObjectMeta(
            name=name, namespace=meta.namespace, uid=f"{meta.uid}-group", creation_timestamp=created,
            annotations=meta.annotations, owner_references=owner,
        )  # fmt: skip
        objects.add(POD_GROUPS, [PodGroup(metadata=group, spec=spec, status=PodGroupStatus(phase="Pending"))])

    if isinstance(obj, Job):
        # Its pods are built from the Job when it is admitted.
        view = JobView(obj)
        waits(view.pod_group_name, pod_group_spec(view, lambda name: classes.get(name or "", 0)))
        return sum(task.replicas for task in view.tasks)
    notes, priority = dict(meta.annotations or {}), job.priority_of(obj)
    pods: list[Pod] = []
    for each in job.pods(obj):
        spec = msgspec.structs.replace(
            each.spec, scheduler_name=SCHEDULER, priority=classes.get(priority), priority_class_name=priority or None
        )
        for _ in range(0 if each.helps else min(each.count, MOST_PODS - len(pods))):
            pod = ObjectMeta(
                name=f"{meta.name}-{each.role or 'pod'}-{len(pods)}".lower(), namespace=meta.namespace,
                uid=f"{meta.uid}-{len(pods)}", creation_timestamp=created,
                annotations={**notes, GROUP_NAME: meta.name}, owner_references=owner,
            )  # fmt: skip
            pods.append(Pod(metadata=pod, spec=spec, status=PodStatus(phase="Pending")))
    if pods:
        group = pod_group_for(pods[0], notes, next(iter(job.queues_of(obj)), ""))
        if job.fewer is not by_annotation:
            group = group_of_all(group, pods[0], job, obj)
        waits(meta.name, group.spec)
        objects.add(PODS, pods)
    return len(pods)


def _makers(objects: LiveObjects) -> dict[str, JobView]:
    """Jobs by the key of their PodGroup."""
    views = map(JobView, objects.of("Job"))
    return {f"{view.job.metadata.namespace}/{view.pod_group_name}": view for view in views}


def _follow(objects: LiveObjects, before: Job, view: JobView, now: float) -> str:
    """The PodGroup and the pods of a changed Job, as its controller will make them; answers what becomes of the pods.

    Pods stay where only their number changes, and start anew where their templates do. Those of a Job that waits for
    its admission are made then.
    """
    priorities = {each.metadata.name: each.value for each in objects.of("PriorityClass")}
    groups, pods = objects.of("PodGroup"), objects.of("Pod")
    key = f"{view.job.metadata.namespace}/{view.pod_group_name}"
    for at, group in enumerate(groups):
        if group.key == key:
            spec = pod_group_spec(view, lambda name: priorities.get(name or "", 0))
            groups[at] = PodGroup(metadata=group.metadata, spec=spec, status=group.status)
    there = {pod.metadata.name for pod in pods if group_key(pod) == key}
    if not there:
        return ""
    desired = {pod.metadata.name: pod for pod in pods_of_job(view, now)}
    templates = [{task.name: task.template for task in job.spec.tasks or ()} for job in (before, view.job)]
    anew = any(template != templates[0].get(name, template) for name, template in templates[1].items())
    kept = set() if anew else there & desired.keys()
    gone, more = len(there - kept), [pod for name, pod in desired.items() if name not in kept]
    pods[:] = [pod for pod in pods if group_key(pod) != key or pod.metadata.name in kept]
    objects.add(PODS, more)
    if anew:
        return f", with {counted(len(more), 'pod')} that start anew"
    parts = [f"{counted(len(more), 'pod')} more"] if more else []
    parts += [f"{counted(gone, 'pod')} fewer"] if gone else []
    return f", with {' and '.join(parts)}" if parts else ""


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


@dataclass(frozen=True, slots=True)
class Moved:
    """A waiting job without and with the change; None where it is not there."""

    key: str
    before: Start | None
    after: Start | None

    @property
    def later(self) -> float | None:
        """Seconds by which the median start moves; below 0 it wins."""
        if self.before is None or self.after is None or self.before.median is None or self.after.median is None:
            return None
        return self.after.median - self.before.median


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the whole cluster: means over futures, and the difference of the pairs."""

    name: str
    before: float
    after: float
    difference: Interval


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The outcome; ``evicted`` are jobs that run now and are evicted more often with the change.

    ``source`` says what kind of futures it goes by.
    """

    told: tuple[str, ...]
    moved: tuple[Moved, ...]
    figures: tuple[Figure, ...]
    evicted: tuple[str, ...]
    futures: int
    until: float
    source: str = ""


def what_if(
    objects: LiveObjects,
    config: SchedulerConfig,
    now: float,
    changed: Changed,
    *,
    futures: int = 20,
    until: float = 4 * 3600.0,
    seed: int = 0,
    run_times: RunTimes | None = None,
    budget: Budget | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> WhatIf:
    """Compare futures pair by pair: the same run times and arrivals without and with the change.

    Args:
        objects: of the cluster as it is.
        config: of the scheduler.
        now: seconds since 1970.
        changed: the cluster after the change.
        futures: how many possible futures of each side.
        until: seconds after which a future ends.
        seed: the same seed gives the same answer.
        run_times: as the scheduler has learnt them.
        budget: the fast model answers first, for both sides; the engine's futures count where all of them are done in
            time. None: the engine alone, however long it takes.
        progress: is told how many futures are done, of both sides.
    """
    past = past_of(objects, now, run_times)
    common: dict[str, Any] = {"futures": futures, "until": until, "seed": seed, "past": past, "run_times": run_times}
    sides = Side(objects, config, now, **common), Side(changed.objects, changed.config or config, now, **common)
    run_sides(sides, budget, progress)
    exact = all(side.whole for side in sides)
    before, after = (side.found(engine=exact) for side in sides)
    moved, figures = _moved(before, after), _figures(before, after)
    return WhatIf(changed.told, moved, figures, _evicted(before, after), len(before.runs), until, before.source)


def _moved(before: Forecast, after: Forecast) -> tuple[Moved, ...]:
    left = {start.key: start for start in before.starts}
    right = {start.key: start for start in after.starts}
    moves = [Moved(key, left.get(key), right.get(key)) for key in {**left, **right}]
    moves.sort(key=lambda each: (-abs(each.later or 0.0), each.key))
    return tuple(moves)


def _evicted(before: Forecast, after: Forecast) -> tuple[str, ...]:
    def counts(side: Forecast) -> dict[str, float]:
        return {
            job.group.key: sum(run.outcomes[at].evictions for run in side.runs) / len(side.runs)
            for at, job in enumerate(side.jobs)
            if job.elapsed is not None
        }

    left, right = counts(before), counts(after)
    return tuple(sorted(key for key, count in right.items() if count > left.get(key, 0.0)))


def _figures(before: Forecast, after: Forecast) -> tuple[Figure, ...]:
    left, right = [_of_run(run) for run in before.runs], [_of_run(run) for run in after.runs]
    figures = []
    for name in left[0]:
        pairs = [(a[name], b[name]) for a, b in zip(left, right, strict=True)]
        complete = [(a, b) for a, b in pairs if a is not None and b is not None]
        if complete:
            means = mean([a for a, _ in complete]) or 0.0, mean([b for _, b in complete]) or 0.0
            figures.append(Figure(name, *means, interval([b - a for a, b in complete])))
    return tuple(figures)


def _of_run(run: Run) -> dict[str, float | None]:
    """Figures of one future."""
    shares = share_deviation(run)
    length = run.end or 1.0
    gpus = float(run.cluster.gpu_total)
    busy = integral(held(run), 0.0, run.end) / 1000 / length
    waited = integral(queue_length(run), 0.0, run.end) / length
    return {
        "allocation": usage(run)["allocationToEnd"],
        "waitingJobs": waited,
        "idleGpus": gpus - busy if gpus else None,
        "shareDeviation": None if shares is None else shares.deviation,
        "evictions": float(waste(run)["evictions"]),
    }


def as_json(found: WhatIf) -> dict[str, Any]:
    """For programs; docs/simulator.md gives the form."""
    return {
        "unisono": "whatif",
        "version": 1,
        "changes": found.told,
        "futures": found.futures,
        "source": found.source,
        "until": found.until,
        "jobs": [
            {
                "podGroup": each.key,
                "before": None if each.before is None else start_json(each.before),
                "after": None if each.after is None else start_json(each.after),
                "later": each.later,
            }
            for each in found.moved
        ],
        "evicted": found.evicted,
        "figures": {
            each.name: {
                "before": each.before,
                "after": each.after,
                "difference": each.difference.mean,
                "interval": each.difference.half,
            }
            for each in found.figures
        },
    }


def start_json(start: Start) -> dict[str, Any]:
    """One job's start, seconds from now."""
    return {
        "queue": start.queue,
        "gpus": start.gpus,
        "median": start.median,
        "low": start.low,
        "high": start.high,
        "chance": start.chance,
        "runTimeKnown": start.known,
        "never": start.never,
        "source": start.source,
    }


def starts_json(found: Forecast, now: float, until: float) -> dict[str, Any]:
    """Estimated starts for programs."""
    starts: Sequence[Start] = found.starts
    return {
        "unisono": "estimate",
        "version": 1,
        "now": now,
        "futures": len(found.runs),
        "source": found.source,
        "until": until,
        "jobs": [{"podGroup": each.key, **start_json(each)} for each in starts],
    }
