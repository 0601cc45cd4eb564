"""The pod table: one status word out of phase, reasons and container states, as kubectl users know it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unisono.api.groups.workload import COMPOSITE_SCHEDULED, SCHEDULED
from unisono.apiserver.tables.values import (
    AGE,
    NAME,
    NONE,
    Column,
    Layout,
    Row,
    age,
    duration,
    get,
    items,
    seconds_of,
    text,
    wide,
)

_TERMINAL = {"Succeeded", "Failed"}


@dataclass(slots=True)
class _Summary:
    """What the walk over the containers finds out."""

    reason: str
    total: int
    ready: int = 0
    restarts: int = 0
    sidecar_restarts: int = 0
    last_restart: float | None = None
    last_sidecar_restart: float | None = None
    initializing: bool = False


def status_word(pod: Row) -> str:
    """The STATUS column: ``Pending``, ``Init:0/1``, ``CrashLoopBackOff``, ``Completed``, ``Terminating``..."""
    return _summarize(pod).reason


def _summarize(pod: Row) -> _Summary:
    phase = text(pod, "status", "phase", default="Unknown")
    summary = _Summary(text(pod, "status", "reason") or phase, len(items(pod, "spec", "containers")))
    if any(c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated" for c in _conditions(pod)):
        summary.reason = "SchedulingGated"
    _walk_init_containers(pod, summary)
    if not summary.initializing or _is_true(pod, "Initialized"):
        _walk_containers(pod, summary)
    if get(pod, "metadata", "deletionTimestamp"):
        if get(pod, "status", "reason") == "NodeLost":
            summary.reason = "Unknown"
        elif phase not in _TERMINAL:
            summary.reason = "Terminating"
    return summary


def _walk_init_containers(pod: Row, summary: _Summary) -> None:
    declared = items(pod, "spec", "initContainers")
    sidecars = {c.get("name") for c in declared if c.get("restartPolicy") == "Always"}
    summary.total += len(sidecars)
    for index, status in enumerate(items(pod, "status", "initContainerStatuses")):
        sidecar = status.get("name") in sidecars
        _count_restarts(status, summary, sidecar=sidecar)
        terminated = get(status, "state", "terminated")
        if terminated and not terminated.get("exitCode"):
            continue
        if sidecar and status.get("started"):
            summary.ready += bool(status.get("ready"))
            continue
        summary.reason = f"Init:{_init_reason(status, terminated, index, len(declared))}"
        summary.initializing = True
        return


def _init_reason(status: Row, terminated: Row | None, index: int, total: int) -> str:
    if terminated:
        return terminated.get("reason") or _exit_reason(terminated)
    waiting = text(status, "state", "waiting", "reason")
    return waiting if waiting and waiting != "PodInitializing" else f"{index}/{total}"


def _walk_containers(pod: Row, summary: _Summary) -> None:
    # Restarts of finished init containers no longer interest anyone; those of sidecars still do.
    summary.restarts, summary.last_restart = summary.sidecar_restarts, summary.last_sidecar_restart
    running = False
    for status in reversed(items(pod, "status", "containerStatuses")):
        _count_restarts(status, summary, sidecar=False)
        waiting = text(status, "state", "waiting", "reason")
        terminated = get(status, "state", "terminated")
        if waiting:
            summary.reason = waiting
        elif terminated:
            summary.reason = terminated.get("reason") or _exit_reason(terminated)
        elif status.get("ready") and get(status, "state", "running") is not None:
            running = True
            summary.ready += 1
    if summary.reason == "Completed" and running:
        summary.reason = "Running" if _is_true(pod, "Ready") else "NotReady"


def _count_restarts(status: Row, summary: _Summary, *, sidecar: bool) -> None:
    count = int(status.get("restartCount") or 0)
    finished = seconds_of(get(status, "lastState", "terminated", "finishedAt"))
    summary.restarts += count
    summary.last_restart = _later(summary.last_restart, finished)
    if sidecar:
        summary.sidecar_restarts += count
        summary.last_sidecar_restart = _later(summary.last_sidecar_restart, finished)


def _later(one: float | None, other: float | None) -> float | None:
    return max((value for value in (one, other) if value is not None), default=None)


def _exit_reason(terminated: Row) -> str:
    signal = terminated.get("signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{terminated.get('exitCode', 0)}"


def _conditions(pod: Row) -> list[Any]:
    return items(pod, "status", "conditions")


def _is_true(pod: Row, condition: str) -> bool:
    return any(c.get("type") == condition and c.get("status") == "True" for c in _conditions(pod))


def _cells(pod: Row, now: float) -> list[Any]:
    summary = _summarize(pod)
    restarts = str(summary.restarts)
    if summary.restarts and summary.last_restart is not None:
        restarts += f" ({duration(now - summary.last_restart)} ago)"
    ips = items(pod, "status", "podIPs")
    address = text(ips[0], "ip") if ips else text(pod, "status", "podIP")
    gates = [gate.get("conditionType") for gate in items(pod, "spec", "readinessGates")]
    passed = sum(_is_true(pod, str(gate)) for gate in gates)
    return [
        text(pod, "metadata", "name"),
        f"{summary.ready}/{summary.total}",
        summary.reason,
        restarts,
        age(get(pod, "metadata", "creationTimestamp"), now),
        address or NONE,
        text(pod, "spec", "nodeName", default=NONE),
        text(pod, "status", "nominatedNodeName", default=NONE),
        f"{passed}/{len(gates)}" if gates else NONE,
    ]


PODS = Layout(
    (
        NAME,
        Column("Ready", description="Containers that are ready, of all containers."),
        Column("Status", description="The state of the pod in one word."),
        Column("Restarts", description="How often containers were restarted, and when last."),
        AGE,
        wide("IP", "Address of the pod."),
        wide("Node", "Where the pod runs."),
        wide("Nominated Node", "Where the pod will run when its victims have left."),
        wide("Readiness Gates", "Readiness gates that have passed, of all gates."),
    ),
    _cells,
)


# Tables of Workloads and Kubernetes' own PodGroups.


def _policy(obj: Row) -> str:
    found = get(obj, "spec", "schedulingPolicy") or {}
    return "Gang" if "gang" in found else "Basic" if "basic" in found else NONE


def _status(obj: Row) -> str:
    told = (*SCHEDULED, *COMPOSITE_SCHEDULED)
    conditions = (each for each in items(obj, "status", "conditions") if each.get("type") in told)
    return next((str(each.get("reason") or NONE) for each in conditions), NONE)


def _pod_group(obj: Row, now: float) -> list[Any]:
    older = text(obj, "spec", "podGroupTemplateRef", "workload", "workloadName")
    workload = text(obj, "spec", "workloadRef", "workloadName") or older
    created = age(get(obj, "metadata", "creationTimestamp"), now)
    return [text(obj, "metadata", "name"), _policy(obj), workload or NONE, _status(obj), created]


def _workload(obj: Row, now: float) -> list[Any]:
    return [text(obj, "metadata", "name"), age(get(obj, "metadata", "creationTimestamp"), now)]


POD_GROUPS = Layout((NAME, Column("Policy"), Column("Workload"), Column("Status"), AGE), _pod_group)
WORKLOADS = Layout((NAME, AGE), _workload)
