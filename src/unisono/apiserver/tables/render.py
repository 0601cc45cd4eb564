"""``Table`` and ``PartialObjectMetadata`` documents of lists, objects and watch events."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from unisono.api.crds import Column as PrinterColumn
from unisono.api.crds import columns as printer_columns
from unisono.api.groups.autoscaling import HorizontalPodAutoscalerV1
from unisono.api.groups.workload import COMPOSITE_SCHEDULED, SCHEDULED
from unisono.api.kind import Kind
from unisono.api.kinds import find_resource
from unisono.api.pod_states import ENDED_PHASES
from unisono.apiserver.custom.kinds import CustomKind
from unisono.apiserver.tables import core, workloads
from unisono.apiserver.tables.values import (
    AGE,
    NAME,
    NONE,
    Column,
    Layout,
    Row,
    age,
    age_of,
    duration,
    get,
    items,
    name_of,
    seconds_of,
    text,
    wide,
)

# The pod table: one status word out of phase, reasons and container states, as kubectl users know it.


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
        elif phase not in ENDED_PHASES:
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
        name_of(pod),
        f"{summary.ready}/{summary.total}",
        summary.reason,
        restarts,
        age_of(pod, now),
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
    policy = get(obj, "spec", "schedulingPolicy") or {}
    return "Gang" if "gang" in policy else "Basic" if "basic" in policy else NONE


def _status(obj: Row) -> str:
    condition_types = (*SCHEDULED, *COMPOSITE_SCHEDULED)
    conditions = (each for each in items(obj, "status", "conditions") if each.get("type") in condition_types)
    return next((str(each.get("reason") or NONE) for each in conditions), NONE)


def _pod_group(obj: Row, now: float) -> list[Any]:
    older = text(obj, "spec", "podGroupTemplateRef", "workload", "workloadName")
    workload = text(obj, "spec", "workloadRef", "workloadName") or older
    created = age_of(obj, now)
    return [name_of(obj), _policy(obj), workload or NONE, _status(obj), created]


def _workload(obj: Row, now: float) -> list[Any]:
    return [name_of(obj), age_of(obj, now)]


POD_GROUPS = Layout((NAME, Column("Policy"), Column("Workload"), Column("Status"), AGE), _pod_group)
WORKLOADS = Layout((NAME, AGE), _workload)

# Tables of custom resources: the name, then the kind's printer columns.

# The JSONPath of printer columns: children, indexes, slices, wildcards and equality filters.

Step = Callable[[Any], Iterable[Any]]

_TOKEN = re.compile(
    r"""
    \.(?P<child>(?:\\.|[^.\[\]\\])+)
  | \[(?P<index>-?\d+)\]
  | \[(?P<start>-?\d*):(?P<end>-?\d*)(?::(?P<stride>[1-9]\d*)?)?\]
  | \[\*\] | \.\*
  | \[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]
  | \[\?\(\s*@(?P<field>(?:\.[\w-]+)+)\s*==(?P<value>[^)]+)\)\]
    """,
    re.VERBOSE,
)


@lru_cache(maxsize=1024)
def compile_path(path: str) -> Callable[[Any], Any]:
    """A function that answers the first value at ``path`` (``.status.state.phase``), or None.

    Raises:
        ValueError: the path uses something that printer columns do not.
    """
    steps = tuple(_steps(path.strip().removeprefix("{").removesuffix("}").removeprefix("$")))

    def find(value: Any) -> Any:
        values: Iterable[Any] = (value,)
        for step in steps:
            values = [found for one in values for found in step(one)]
        return next(iter(values), None)

    return find


def _steps(path: str) -> Iterator[Step]:
    position = 0
    while position < len(path):
        match = _TOKEN.match(path, position)
        if match is None:
            raise ValueError(f"JSONPath {path!r}: cannot read {path[position:]!r}")
        position = match.end()
        yield _step(match)


def _step(match: re.Match[str]) -> Step:
    if match["field"]:
        return _filter(match["field"].split(".")[1:], _literal(match["value"].strip()))
    if match["index"]:
        return _index(int(match["index"]))
    if match["start"] is not None:
        return _slice(*(int(match[part]) if match[part] else None for part in ("start", "end", "stride")))
    if match["quoted"] is not None:
        return _child(match["quoted"])
    if match["child"] and match["child"] != "*":
        return _child(re.sub(r"\\(.)", r"\1", match["child"]))
    return _all


def _child(key: str) -> Step:
    return lambda value: (value[key],) if isinstance(value, dict) and key in value else ()


def _index(index: int) -> Step:
    return lambda value: (value[index],) if isinstance(value, list) and -len(value) <= index < len(value) else ()


def _slice(start: int | None, end: int | None, stride: int | None) -> Step:
    return lambda value: value[start:end:stride] if isinstance(value, list) else ()


def _all(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _filter(path: list[str], wanted: Any) -> Step:
    def matches(value: Any) -> bool:
        for key in path:
            if not isinstance(value, dict) or key not in value:
                return False
            value = value[key]
        return bool(value == wanted)

    return lambda value: [one for one in value if matches(one)] if isinstance(value, list) else ()


def _literal(text: str) -> Any:
    if text[:1] in {"'", '"'}:
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        return text


Reader = Callable[[Row, float], Any]


def custom_layout(kind: Kind[Any]) -> Layout:
    """The layout of a custom kind; name and age where it declares no columns."""
    if isinstance(kind, CustomKind):
        declared = kind.details.columns
    else:
        declared = printer_columns(find_resource(kind.group, kind.version, kind.plural) or kind)
    return layout_of(declared) if declared else core.DEFAULT


def layout_of(declared: Sequence[PrinterColumn]) -> Layout:
    """The layout of printer columns; dates are shown as ages, as the API server does for custom resources."""
    readers = [_reader(column) for column in declared]
    shown = [Column(c.name, c.type, c.format, c.description, c.priority) for c in declared]

    def cells(obj: Row, now: float) -> list[Any]:
        return [get(obj, "metadata", "name"), *(reader(obj, now) for reader in readers)]

    return Layout((NAME, *shown), cells)


def _reader(column: PrinterColumn) -> Reader:
    try:
        find: Callable[[Any], Any] = compile_path(column.json_path)
    except ValueError:
        # A definition may hold any path that begins with a dot; one that cannot be read shows nothing.
        return lambda _obj, _now: None
    convert: Reader = _CONVERTERS.get(column.type, _plain)

    def read(obj: Row, now: float) -> Any:
        value = find(obj)
        return None if value is None else convert(value, now)

    return read


def _integer(value: Any, _now: float) -> Any:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return int(value)
    return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else None


def _number(value: Any, _now: float) -> Any:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _boolean(value: Any, _now: float) -> Any:
    return value if isinstance(value, bool) else None


def _plain(value: Any, _now: float) -> Any:
    return value if isinstance(value, str | dict | list) else str(value)


_CONVERTERS: dict[str, Reader] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": age,
    "string": _plain,
}

IncludeObject = Literal["None", "Metadata", "Object"]

_BUILT_IN: dict[tuple[str, str], Layout] = {
    ("", "pods"): PODS,
    ("", "nodes"): core.NODES,
    ("", "namespaces"): core.NAMESPACES,
    ("", "events"): core.EVENTS,
    ("", "configmaps"): core.CONFIG_MAPS,
    ("", "secrets"): core.SECRETS,
    ("", "serviceaccounts"): core.SERVICE_ACCOUNTS,
    ("", "services"): core.SERVICES,
    ("", "persistentvolumeclaims"): core.CLAIMS,
    ("", "persistentvolumes"): workloads.VOLUMES,
    ("storage.k8s.io", "storageclasses"): workloads.STORAGE_CLASSES,
    ("apps", "deployments"): workloads.DEPLOYMENTS,
    ("apps", "replicasets"): workloads.REPLICA_SETS,
    ("apps", "statefulsets"): workloads.STATEFUL_SETS,
    ("apps", "daemonsets"): workloads.DAEMON_SETS,
    ("apps", "controllerrevisions"): workloads.CONTROLLER_REVISIONS,
    ("batch", "jobs"): workloads.JOBS,
    ("batch", "cronjobs"): workloads.CRON_JOBS,
    ("", "replicationcontrollers"): workloads.REPLICATION_CONTROLLERS,
    ("autoscaling", "horizontalpodautoscalers"): workloads.AUTOSCALERS,
    ("networking.k8s.io", "ingresses"): workloads.INGRESSES,
    ("networking.k8s.io", "ingressclasses"): workloads.INGRESS_CLASSES,
    ("storage.k8s.io", "csinodes"): workloads.CSI_NODES,
    ("", "resourcequotas"): core.QUOTAS,
    ("", "limitranges"): core.CREATED,
    ("rbac.authorization.k8s.io", "roles"): core.CREATED,
    ("rbac.authorization.k8s.io", "clusterroles"): core.CREATED,
    ("rbac.authorization.k8s.io", "rolebindings"): core.BINDINGS,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): core.BINDINGS,
    ("policy", "poddisruptionbudgets"): core.BUDGETS,
    ("networking.k8s.io", "networkpolicies"): core.NETWORK_POLICIES,
    ("scheduling.k8s.io", "priorityclasses"): core.PRIORITY_CLASSES,
    ("node.k8s.io", "runtimeclasses"): core.RUNTIME_CLASSES,
    ("scheduling.k8s.io", "podgroups"): POD_GROUPS,
    ("scheduling.k8s.io", "compositepodgroups"): POD_GROUPS,
    ("scheduling.k8s.io", "workloads"): WORKLOADS,
    ("coordination.k8s.io", "leases"): core.LEASES,
    ("resource.k8s.io", "resourceclaims"): core.RESOURCE_CLAIMS,
    ("resource.k8s.io", "resourceclaimtemplates"): core.DEVICE_KINDS,
    ("resource.k8s.io", "resourceslices"): core.RESOURCE_SLICES,
    ("resource.k8s.io", "deviceclasses"): core.DEVICE_KINDS,
    ("apiextensions.k8s.io", "customresourcedefinitions"): core.CRDS,
}


def layout(kind: Kind[Any]) -> Layout:
    """How a kind is shown: as Kubernetes shows its own kinds, else by printer columns."""
    if kind.struct is HorizontalPodAutoscalerV1:
        return workloads.AUTOSCALERS_V1
    return _BUILT_IN.get((kind.group, kind.plural)) or custom_layout(kind)


def partial_metadata(obj: Row, version: str) -> Row:
    """The object reduced to its metadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj.get("metadata") or {},
    }


class TableWriter:
    """Renders objects of one kind; the clock's time comes with each call.

    Args:
        kind: what is shown.
        version: version of group ``meta.k8s.io`` that the client reads.
        include_object: what each row carries besides its cells.
    """

    def __init__(self, kind: Kind[Any], version: str = "v1", include_object: IncludeObject = "Metadata") -> None:
        self._layout = layout(kind)
        self._version = version
        self._include = include_object

    def table(self, objects: list[Row], metadata: Row, now: float, *, definitions: bool = True) -> Row:
        """A table of ``objects``.

        Args:
            objects: decoded objects, one row each.
            metadata: list metadata (resourceVersion, continue, remainingItemCount).
            now: Unix seconds, for ages.
            definitions: False leaves the column definitions null, as in all but the first event of a watch.
        """
        columns = [column.definition() for column in self._layout.columns] if definitions else None
        return {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{self._version}",
            "metadata": metadata,
            "columnDefinitions": columns,
            "rows": self.rows(objects, now),
        }

    def rows(self, objects: list[Row], now: float) -> list[Row]:
        """Rows of ``objects``, of a table that is written in pieces."""
        return [self._row(obj, now) for obj in objects]

    def _row(self, obj: Row, now: float) -> Row:
        row: Row = {"cells": self._layout.cells(obj, now)}
        if self._include == "Metadata":
            row["object"] = partial_metadata(obj, self._version)
        elif self._include == "Object":
            row["object"] = obj
        return row
