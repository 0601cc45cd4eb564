"""One cycle on objects from files: what would happen on this cluster, without touching it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from unisono import engine
from unisono.api.base import Object
from unisono.api.decode import decode
from unisono.api.groups.scheduling import PodGroup, Queue
from unisono.api.kind import Kind
from unisono.api.kinds import QUEUES, find
from unisono.api.verdict import to_json
from unisono.cluster.state import ClusterState
from unisono.engine.closing.status_updates import NOT_ENFORCED
from unisono.engine.config.model import SchedulerConfig, from_flags
from unisono.engine.config_file.reader import load_config
from unisono.engine.decisions import Decisions
from unisono.engine.verdict import Asked
from unisono.gc_pauses import collector_paused
from unisono.scheduler.explain import on_wire


@dataclass(slots=True)
class OfflineCluster:
    """A cluster read from objects.

    Attributes:
        state: what decisions are made on.
        groups: PodGroups by ``namespace/name``.
        counts: objects taken in, by kind.
        ignored: objects left out, by ``apiVersion/kind``: their kind plays no part in scheduling.
        problems: objects that could not be read whole, one sentence each.
    """

    state: ClusterState = field(default_factory=ClusterState)
    groups: dict[str, PodGroup] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def read_cluster(objects: Iterable[tuple[Mapping[str, Any], str]], *, checked: bool = False) -> OfflineCluster:
    """Build the state from Kubernetes objects, each with the place where it stands (for messages).

    A Queue without a state counts as open: in a file no controller has opened it yet. Unknown fields are ignored,
    because a dump of a newer cluster has some. ``checked``: a server has looked at the values of their fields.
    """
    cluster = OfflineCluster()
    by_kind: dict[str, tuple[Kind[Any], list[Object]]] = {}
    for value, where in objects:
        kind = find(str(value.get("apiVersion", "")), str(value.get("kind", "")))
        if kind is None:
            cluster.ignored[f"{value.get('apiVersion', '?')}/{value.get('kind', '?')}"] += 1
            continue
        obj = _as_it_is(kind, value) if checked else None
        if obj is None:
            decoded = decode(kind, dict(value))
            cluster.problems += [f"{where}: {error.message()}" for error in decoded.type_errors]
            obj = decoded.obj
        if kind.namespaced and not obj.metadata.namespace:
            obj.metadata.namespace = "default"
        by_kind.setdefault(f"{kind.group}/{kind.kind}", (kind, []))[1].append(obj)
        cluster.counts[kind.kind] += 1
    _open_queues(by_kind)
    for kind, kind_objects in by_kind.values():
        with collector_paused():
            cluster.state.replace(kind, kind_objects)
        cluster.groups.update({obj.key: obj for obj in kind_objects if isinstance(obj, PodGroup)})
    cluster.problems += [f"{one.kind} {one.key}: {one.message}" for one in cluster.state.rejected.all()]
    return cluster


def _as_it_is(kind: Kind[Any], value: Mapping[str, Any]) -> Object | None:
    """The object where nothing in it would be pruned, renamed or converted: ten times as fast as to look closely."""
    try:
        obj: Object = msgspec.convert(value, kind.struct)
    except msgspec.ValidationError:
        return None
    if msgspec.to_builtins(obj) != value:
        return None
    obj.api_version = kind.api_version
    return obj


def _open_queues(by_kind: dict[str, tuple[Kind[Any], list[Object]]]) -> None:
    """Give every queue a state, and add ``default`` where no file has it."""
    _, queues = by_kind.setdefault(f"{QUEUES.group}/{QUEUES.kind}", (QUEUES, []))
    if all(queue.metadata.name != "default" for queue in queues):
        default = Queue()
        default.metadata.name = "default"
        queues.append(default)
    for queue in queues:
        assert isinstance(queue, Queue)
        queue.status.state = queue.status.state or "Open"


def without_defaults(text: str, file: str) -> SchedulerConfig:
    """The configuration of ``text`` with every flag off that it does not name.

    Raises:
        ConfigError: the text breaks a rule.
    """
    from unisono.api.yaml import load_all

    load_config(text, file)  # complains with line and key
    raw = load_all(text, file=file)[0].value
    return from_flags(
        [name.strip() for name in raw["actions"].split(",") if name.strip()],
        [tier.get("plugins") or [] for tier in raw.get("tiers") or []],
        raw.get("configurations") or [],
    )


def decide(
    cluster: OfflineCluster,
    config: SchedulerConfig,
    now: float,
    seed: int = 0,
    monotonic: Callable[[], float] | None = None,
    asked: Asked | None = None,
) -> Decisions:
    """Run one cycle on the cluster as it was read; ``asked``: the only jobs of which it is said why they wait."""
    with collector_paused():
        return engine.run(
            cluster.state.snapshot(), config, now, seed, monotonic=monotonic, verdicts=True if asked is None else asked
        )


def report(cluster: OfflineCluster, decisions: Decisions, seconds: Mapping[str, float]) -> dict[str, Any]:
    """The answer of ``unisono schedule --output json``; docs/schedule.md gives its form."""
    updates = {update.key: update for update in decisions.pod_groups}
    groups: dict[str, Any] = {}
    for key in sorted(cluster.groups):
        update = updates.get(key)
        status = cluster.groups[key].status
        conditions = status.conditions or () if update is None else update.conditions
        groups[key] = {
            "phase": (status.phase or "Pending") if update is None else update.phase,
            "conditions": [
                {"type": one.type, "status": one.status, "reason": one.reason, "message": one.message}
                for one in conditions
            ],
        }
    return {
        "binds": {f"{bind.namespace}/{bind.pod}": bind.node for bind in decisions.binds},
        "evictions": [
            {"pod": f"{one.namespace}/{one.pod}", "reason": one.reason, "beneficiary": one.beneficiary}
            for one in decisions.evictions
        ],
        "pipelined": {f"{one.namespace}/{one.pod}": one.node for one in decisions.pipelined},
        "podGroups": groups,
        "verdicts": {key: to_json(on_wire(verdict)) for key, verdict in decisions.verdicts.items()},
        "queues": {update.name: dict(update.allocated) for update in decisions.queues},
        "violations": [{"subject": one.subject, "message": one.message} for one in decisions.violations],
        "objects": dict(cluster.counts),
        "ignored": dict(cluster.ignored),
        "problems": [*cluster.problems, *_notes(decisions)],
        "seconds": {name: round(value, 6) for name, value in seconds.items()},
    }


def _notes(decisions: Decisions) -> list[str]:
    """Bounds that objects state and that the configuration does not enforce."""
    return [
        f"PodGroup {update.key}: {message}"
        for update in decisions.pod_groups
        for _, reason, message in update.events
        if reason == NOT_ENFORCED
    ]


def timed(
    cluster: OfflineCluster, config: SchedulerConfig, now: float, seed: int, monotonic: Callable[[], float]
) -> dict[str, Any]:
    """Decide and report, with the durations of snapshot, decision, and the decision's parts."""
    started = monotonic()
    cluster.state.snapshot()
    opened = monotonic()
    decisions = decide(cluster, config, now, seed, monotonic)
    whole = {"snapshot": opened - started, "decide": monotonic() - opened}
    return report(cluster, decisions, {**whole, **decisions.seconds})
