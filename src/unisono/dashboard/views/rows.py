"""Rows of jobs and pods from their objects; the meaning of a job's state is the SDK's (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import yaml

from unisono.api.annotations import USER
from unisono.api.conditions import SUSPENDED
from unisono.api.kinds import POD_GROUPS
from unisono.api.pod_states import container_statuses, has_ended, pod_end, scheduled_at, stated_run_seconds
from unisono.api.quantity import QuantityError
from unisono.api.resources import add, resource_list
from unisono.api.selecting import controller_of, queue_of
from unisono.api.times import time_or
from unisono.api.verdict import job_name, verdict_in, waiting_text, waiting_verdict
from unisono.dashboard.views.nodes import requests_of
from unisono.dashboard.views.table import amounts_text, ordered, quantity
from unisono.dashboard.views.wire import JobRow, PodRow, QueueLine, QueuesView, Share
from unisono.history.records import gpus
from unisono.jobkinds.registry import job_kind
from unisono.sdk.overview.queues import queue_views
from unisono.sdk.state.bound_pods import waiting_containers
from unisono.sdk.state.dependents import Dependents
from unisono.sdk.state.observing import observation, task_of
from unisono.sdk.state.views import end_text

if TYPE_CHECKING:
    from unisono.api.base import Object
    from unisono.api.core import Node, Pod
    from unisono.api.groups.scheduling import PodGroup, Queue
    from unisono.api.kind import Kind

# Stopped by a user, and can be resumed.
_STOPPED = (SUSPENDED, "Aborting", "Aborted")
# As much of a verdict's line as a table needs.
_LONGEST_LINE = 400


def key_of(kind: Kind[Any], namespace: str, name: str) -> str:
    """``jobs.batch.volcano.sh/default/train``."""
    return f"{kind.resource}/{namespace}/{name}"


def job_row(kind: Kind[Any], job: Object, found: Dependents, owner: str = "") -> JobRow:
    """The row of a job of any kind; ``owner`` is the user of jobs of which none is known."""
    view = observation(kind, job, found).view
    group = found.groups[0] if found.groups else None
    queue = view.queue if group is None else queue_of(group)
    priority = (group.spec.priority_class_name if group else None) or _priority(kind, job)
    waits = not view.stopped and view.placed < view.gang
    state = _state(view.ended, view.succeeded, view.phase, waits)
    life = _life(found.pods, placed=not waits, over=view.ended)
    return JobRow(
        key=key_of(kind, view.namespace, view.name),
        api_version=kind.api_version,
        kind=kind.kind,
        namespace=view.namespace,
        name=view.name,
        queue=queue,
        priority=priority,
        phase=view.phase,
        state=state,
        gang=view.gang,
        placed=view.placed,
        running=sum(task.count("Running") for task in view.tasks),
        pods=sum(task.wanted for task in view.tasks),
        cards=cards_of(found.groups, found.pods),
        user=_user(job, *found.groups) or owner,
        created=time_or(job.metadata.creation_timestamp),
        held=life.held,
        held_cpus=life.held_cpus,
        started=life.started,
        ends=life.ends,
        ended=life.ended,
        waiting=view.waiting[:_LONGEST_LINE] if state == "waiting" else "",
        cause=_cause(found.groups) if state == "waiting" else "",
        progress=str(view.progress) if view.progress else "",
        message=view.message[:_LONGEST_LINE],
    )


def _priority(kind: Kind[Any], job: Object) -> str:
    definition = job_kind(kind)
    return definition.priority_of(job) if definition is not None else ""


def _state(ended: bool, succeeded: bool, phase: str, waits: bool) -> str:
    if succeeded:
        return "succeeded"
    if phase in _STOPPED:
        return "suspended"
    if ended:
        return "failed"
    return "waiting" if waits else "running"


def group_row(group: PodGroup, pods: Sequence[Pod], owner: str = "") -> JobRow:
    """The row of a gang that belongs to no job: of a Deployment, of single pods, or one that a user made."""
    above = controller_of(group)
    least = group.spec.min_member or 1
    placed = [pod for pod in pods if pod.spec.node_name]
    phase = group.status.phase or "Pending"
    over = phase == "Completed" or (bool(pods) and all(has_ended(pod) for pod in pods))
    failed = over and any(pod.status.phase == "Failed" for pod in pods)
    state = _state(over, over and not failed, phase, len(placed) < least)
    namespace = group.metadata.namespace or "default"
    life = _life(pods, placed=len(placed) >= least, over=over)
    return JobRow(
        key=key_of(POD_GROUPS, namespace, group.metadata.name),
        api_version=above.api_version if above else POD_GROUPS.api_version,
        kind=above.kind if above else POD_GROUPS.kind,
        namespace=namespace,
        name=above.name if above else group.metadata.name,
        queue=queue_of(group),
        priority=group.spec.priority_class_name or "",
        phase=phase,
        state=state,
        gang=least,
        placed=len(placed),
        running=sum(pod.status.phase == "Running" for pod in pods),
        pods=max(len(pods), least),
        cards=cards_of([group], pods),
        user=_user(group) or owner,
        created=time_or(group.metadata.creation_timestamp),
        held=life.held,
        held_cpus=life.held_cpus,
        started=life.started,
        ends=life.ends,
        ended=life.ended,
        waiting=waiting_text(group.metadata.annotations, owned=above is not None)[:_LONGEST_LINE]
        if state == "waiting"
        else "",
        cause=_cause([group]) if state == "waiting" else "",
    )


def _user(*objects: Object) -> str:
    """Who submitted it, as the server has written it down; the first that says it tells it."""
    return next((user for each in objects if (user := (each.metadata.annotations or {}).get(USER, ""))), "")


class _Life(NamedTuple):
    held: float
    held_cpus: float
    started: float
    ends: float
    ended: float


def _life(pods: Sequence[Pod], *, placed: bool, over: bool) -> _Life:
    """What a job holds, and when it began, will end and has ended."""
    held: dict[str, int] = {}
    begun = ends = ended = 0.0
    for pod in pods:
        since = time_or(scheduled_at(pod)) if pod.spec.node_name else 0.0
        begun = max(begun, since)
        if has_ended(pod):
            ended = max(ended, _finished(pod))
        elif pod.spec.node_name:
            add(held, requests_of(pod.spec))
            ends = max(ends, stated_end(pod))
    return _Life(
        gpus(held) / 1000,
        held.get("cpu", 0) / 1000,
        begun if placed or over else 0.0,
        ends if placed and not over else 0.0,
        ended if over else 0.0,
    )


def _finished(pod: Pod) -> float:
    ends = (each.state.terminated for each in container_statuses(pod) if each.state and each.state.terminated)
    return max((time_or(end.finished_at) for end in ends), default=0.0)


def stated_end(pod: Pod) -> float:
    """When a pod that has a node ends by its own words; 0 where it says nothing of it."""
    since = time_or(scheduled_at(pod))
    run_seconds = stated_run_seconds(pod.metadata.annotations or {}, pod.spec.active_deadline_seconds)
    return since + run_seconds if since and run_seconds else 0.0


def cards_of(groups: Sequence[PodGroup], pods: Sequence[Pod]) -> float:
    """GPUs that a job asks for: of the pods that it has, or of its gang where that is more."""
    asked: dict[str, int] = {}
    for pod in pods:
        if not has_ended(pod):
            add(asked, requests_of(pod.spec))
    return max(gpus(asked), sum(_cards_of_gang(group) for group in groups)) / 1000


def _cards_of_gang(group: PodGroup) -> int:
    try:
        amounts = resource_list(group.spec.min_resources)
    except QuantityError:
        return 0
    least: dict[str, int] = {}
    for name, amount in amounts.items():
        # As a quota names it, or as a pod does, or both.
        short = name.removeprefix("requests.").removeprefix("limits.")
        least[short] = max(least.get(short, 0), amount)
    return gpus(least)


def pod_row(pod: Pod, usage: str = "") -> PodRow:
    """The row of a pod, with what was measured of its use."""
    statuses = container_statuses(pod)
    over = has_ended(pod)
    waits = waiting_containers(pod)
    asked = {name: amount for name, amount in requests_of(pod.spec).items() if amount}
    ending = end_text(pod_end(pod)) if over else str(waits[0]) if waits else ""
    return PodRow(
        name=pod.metadata.name,
        task=task_of(pod),
        phase="Terminating" if pod.metadata.deletion_timestamp and not over else pod.status.phase or "Pending",
        node=pod.spec.node_name or "",
        created=time_or(pod.metadata.creation_timestamp),
        scheduled=time_or(scheduled_at(pod)),
        started=time_or(pod.status.start_time),
        finished=_finished(pod) if over else 0.0,
        ends=0.0 if over else stated_end(pod),
        restarts=sum(each.restart_count or 0 for each in statuses),
        ending="" if ending == "Succeeded" else ending,
        containers=[each.name for each in (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))],
        requests=amounts_text(asked),
        usage=usage,
    )


def _cause(groups: Sequence[PodGroup]) -> str:
    for group in groups:
        verdict = waiting_verdict(group.metadata.annotations, owned=bool(group.metadata.owner_references))
        if verdict is not None:
            return verdict.cause
    return ""


# The tree of queues with what each uses and may use, and who waits in it (pure).

_WAITING = frozenset({"", "Pending", "Inqueue"})
# Jobs of a queue that are named.
_MOST_NAMED = 20
_DEEPEST = 20
_LEFT_OUT = ("pods", "ephemeral-storage")


def queues_view(
    queues: Iterable[Queue], groups: Iterable[PodGroup], nodes: Iterable[Node], *, editable: bool, ready: bool = True
) -> QueuesView:
    """All queues that the viewer may see, each below its parent.

    Args:
        queues: of the cluster.
        groups: PodGroups that the viewer may see.
        nodes: of the cluster; what they have together is the measure of a queue without limits.
        editable: whether the viewer may change queues.
        ready: everything was listed once.
    """
    queues, groups = list(queues), list(groups)
    total: dict[str, int] = {}
    for node in nodes:
        add(total, resource_list(node.status.allocatable))
    by_name = {queue.metadata.name: queue for queue in queues}
    waiting = _lines(groups)
    rows = {}
    for view in queue_views(queues, groups):
        queue = by_name[view.name]
        rows[view.name] = QueueLine(
            name=view.name,
            parent=view.parent,
            state=view.state,
            weight=view.weight,
            reclaimable=queue.spec.reclaimable is not False,
            waiting=view.groups["Pending"] + view.groups["Inqueue"],
            running=view.groups["Running"],
            shares=_shares(queue, total),
            line=waiting.get(view.name, [])[:_MOST_NAMED],
            spec=yaml.safe_dump(msgspec.to_builtins(queue.spec), sort_keys=False, default_flow_style=False),
            editable=editable,
        )
    order = _order(rows)
    placed = {name: msgspec.structs.replace(rows[name], depth=depth) for name, depth in order}
    return QueuesView(ready=ready, order=[name for name, _ in order], rows=placed)


def _order(rows: Mapping[str, QueueLine]) -> list[tuple[str, int]]:
    """Names with their depth, each queue right after its parent; a circle of parents is listed at the end."""
    children: dict[str, list[str]] = defaultdict(list)
    for name in sorted(rows):
        parent = rows[name].parent
        children[parent if parent in rows and parent != name else ""].append(name)
    depths: dict[str, int] = {}
    todo = [(name, 0) for name in reversed(children[""])]
    while todo:
        name, depth = todo.pop()
        if name in depths:
            continue
        depths[name] = depth
        todo += [(child, min(depth + 1, _DEEPEST)) for child in reversed(children[name])]
    return [*depths.items(), *((name, 0) for name in sorted(rows) if name not in depths)]


def _lines(groups: Sequence[PodGroup]) -> dict[str, list[str]]:
    """Jobs that wait in each queue: in the scheduler's order where verdicts tell it, then by age."""
    places: dict[str, list[tuple[float, str, str]]] = defaultdict(list)
    for group in groups:
        if (group.status.phase or "") in _WAITING:
            verdict = verdict_in(group.metadata.annotations)
            place = float(verdict.position) if verdict is not None and verdict.position else float("inf")
            created = group.metadata.creation_timestamp or ""
            places[queue_of(group)].append((place, created, job_name(group.key)))
    return {queue: [name for _, _, name in sorted(line)] for queue, line in places.items()}


def _shares(queue: Queue, total: Mapping[str, int]) -> list[Share]:
    spec = queue.spec
    amounts = {
        "used": resource_list(queue.status.allocated),
        "deserved": resource_list(spec.deserved),
        "guarantee": resource_list(spec.guarantee.resource if spec.guarantee else None),
        "capability": resource_list(spec.capability),
    }
    names = dict.fromkeys(name for each in amounts.values() for name in each if name not in _LEFT_OUT)
    shares = []
    for name in ordered(names):
        # Where the viewer sees no nodes, and nothing limits the queue, there is no measure.
        most = max(total.get(name, 0), *(each.get(name, 0) for part, each in amounts.items() if part != "used"))
        used = amounts["used"].get(name, 0)
        texts = {part: quantity(name, each[name]) for part, each in amounts.items() if name in each}
        texts["total"] = quantity(name, total[name]) if name in total else ""
        parts = {f"{part}_part": round(each.get(name, 0) / most, 4) if most else 0.0 for part, each in amounts.items()}
        if most or used:
            shares.append(msgspec.convert({"name": name, **texts, **_camel(parts)}, Share))
    return shares


def _camel(parts: Mapping[str, float]) -> dict[str, float]:
    return {name.replace("_part", "Part"): value for name, value in parts.items()}
