"""The cheapest change that would help a waiting job, in words, and who holds what it waits for."""

from __future__ import annotations

from collections.abc import Mapping

from unisono.api.resources import to_wire
from unisono.cluster.records import Task
from unisono.engine.answers import Refusal
from unisono.engine.capacity import EmptyFit
from unisono.engine.cycle import Cycle
from unisono.engine.job_state import JobState
from unisono.engine.reports import by_importance
from unisono.engine.verdict import Cause, Holder

_MOST_HOLDERS = 3


def suggest_for_refusal(job: JobState, refusal: Refusal) -> str:
    """What to do about a closed queue or a quota."""
    queue = job.queue.name
    if refusal.cause is Cause.QUEUE_CLOSED:
        return f"open queue {queue}, or submit to another one"
    short = {
        name: refusal.need[name] + refusal.have.get(name, 0) - limit
        for name, limit in refusal.limit.items()
        if name in refusal.need and refusal.need[name] + refusal.have.get(name, 0) > limit
    }
    if not short:
        return ""
    wire = to_wire(short)
    names = sorted(wire, key=by_importance)
    by = ", ".join(f"{name} by {wire[name]}" for name in names)
    smaller = _smaller_gang(job, refusal, short)
    if refusal.cause is Cause.OVER_CAPABILITY:
        return f"{smaller}raise the capability of queue {queue}: {by}"
    if refusal.cause is Cause.OVER_SHARE:
        return f"wait for other jobs of queue {queue}, or raise its share of {by}"
    if refusal.cause is Cause.CLUSTER_OVERCOMMITTED:
        return f"{smaller}add nodes with {', '.join(f'{name} {wire[name]}' for name in names)}"
    return ""


def _smaller_gang(job: JobState, refusal: Refusal, short: Mapping[str, int]) -> str:
    """``lower minAvailable to 9, or `` where a smaller gang of equal tasks would be admitted, else nothing."""
    if job.min_member <= 1 or len(job.record.min_task_member) > 1 or any(refusal.need[name] <= 0 for name in short):
        return ""
    fits = min(
        job.min_member * max(refusal.limit[name] - refusal.have.get(name, 0), 0) // refusal.need[name] for name in short
    )
    return f"lower minAvailable to {fits}, or " if fits > 0 else ""


def suggest_for_fit(cycle: Cycle, job: JobState, task: Task, cause: Cause, placeable: int, empty: EmptyFit) -> str:
    """What to do about nodes that are full, too small, or refuse the pod."""
    if cause is Cause.PORT_TAKEN:
        return _port_holder(cycle, task)
    if cause in (Cause.NODES_FULL, Cause.TOO_LARGE):
        return _more_room(cycle, job, task, placeable, empty)
    if cause is Cause.NO_NODES:
        return "add a node"
    return ""


def _more_room(cycle: Cycle, job: JobState, task: Task, placeable: int, empty: EmptyFit) -> str:
    if empty.per_node == 0:
        return _too_large(cycle, task, empty)
    missing = max(job.min_member - placeable, 1)
    nodes = -(-missing // empty.per_node)
    add = f"add {nodes} {'node' if nodes == 1 else 'nodes'} like {empty.best}"
    if 0 < placeable < job.min_member:
        return f"lower minAvailable to {placeable}, or {add}"
    return add


def _too_large(cycle: Cycle, task: Task, empty: EmptyFit) -> str:
    registry = cycle.session.registry
    over = {
        name: int(empty.largest[registry.row(name)])
        for name, amount in task.pod_class.requests.items()
        if amount > empty.largest[registry.row(name)]
    }
    if not empty.allowed:
        return ""
    if not over:
        return "no single node has all that one pod requests; request less, or add a larger node"
    wire = to_wire(over)
    limits = ", ".join(f"{name} {wire[name]}" for name in sorted(wire, key=by_importance))
    lacking = sorted(name for name, amount in over.items() if amount == 0)
    if lacking:
        return f"no node offers {', '.join(lacking)}; add one that does, or request none"
    return f"request at most {limits} per pod (the largest node), or add a larger node"


def _port_holder(cycle: Cycle, task: Task) -> str:
    """``port 6379 is taken on node n by pod x`` for the first node in name order."""
    snapshot = cycle.session.snapshot
    for node in sorted(snapshot.port_holders):
        for key, pod_class in sorted(snapshot.port_holders[node].items()):
            theirs = {(protocol, port) for protocol, _, port in pod_class.host_ports}
            for protocol, _, port in task.pod_class.host_ports:
                if (protocol, port) in theirs:
                    return f"port {port} is taken on node {node} by pod {key}; wait for it, or use another port"
    for placement in cycle.bound:
        theirs = {(protocol, port) for protocol, _, port in placement.pod_class.host_ports}
        for protocol, _, port in task.pod_class.host_ports:
            if (protocol, port) in theirs:
                node = snapshot.nodes.names[placement.columns[0]]
                key = placement.tasks[0].key
                return f"port {port} is taken on node {node} by pod {key}; wait for it, or use another port"
    return ""


def holders_of(cycle: Cycle, need: Mapping[str, int]) -> tuple[Holder, ...]:
    """Queues that hold most of what is needed, largest first."""
    registry = cycle.session.registry
    rows = {name: row for name in sorted(need, key=by_importance) if (row := registry.find(name)) is not None}
    if not rows:
        return ()
    first = next(iter(rows.values()))
    holding = sorted(
        (queue for queue in cycle.session.queues.values() if queue.allocated[first] > 0),
        key=lambda queue: (-int(queue.allocated[first]), queue.name),
    )
    return tuple(
        Holder("Queue", queue.name, {name: int(queue.allocated[row]) for name, row in rows.items()})
        for queue in holding[:_MOST_HOLDERS]
    )
