"""Whether a job had better be elsewhere than where it is (pure): its member is drained, a better one has room again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from unisono.api.core import Pod
from unisono.cluster.interning import PodClasses
from unisono.cluster.nodes import NodeTable
from unisono.fleet.reasons import room_by_member

PATIENCE: Final = 60.0
"""Seconds that a job waits in a member before another one that has room gets it."""
SETTLED: Final = 600.0
"""Seconds that a job is left alone after each dispatch, before it moves to a member that is only better."""
LOOK_SECONDS: Final = 30.0
"""How often jobs that may move are looked at."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A job in its member.

    Attributes:
        cluster: the member.
        started: a pod of it has a node there.
        seconds: since it was sent there.
        may_move: its owner lets it be stopped and started elsewhere.
        drained: the member takes no more work, by an administrator's wish.
        points: of clusters by the groups of its policy; the earlier the group, the more.

    """

    cluster: str
    started: bool
    seconds: float
    may_move: bool = False
    drained: bool = False
    points: Mapping[str, float] = field(default_factory=dict)


def why_move(seat: Seat, room: Collection[str]) -> str:
    """Why the job is to wait on the hub again, from where it goes elsewhere; empty where it stays.

    Args:
        seat: the job.
        room: other clusters that may have it and have room for all of it now.

    """
    if not room or not seat.may_move:
        return ""
    if not seat.started and seat.seconds >= PATIENCE:
        return f"no pod of it has got a node in {seat.cluster} for {PATIENCE:.0f} s, and {_named(room)} has room"
    if seat.drained:
        return f"{seat.cluster} is drained, and {_named(room)} has room"
    own = seat.points.get(seat.cluster, 0.0)
    better = [name for name in room if seat.points.get(name, 0.0) > own]
    if better and seat.seconds >= SETTLED:
        return f"{_named(better)} is of an earlier group of its policy, and has room again"
    return ""


def with_room(table: NodeTable, pods: Iterable[Pod]) -> set[str]:
    """Clusters whose nodes have room for pods of each kind, in the numbers that a job has of them."""
    classes = PodClasses(table.registry)
    wanted = Counter(classes.intern(pod.spec, pod.metadata.annotations, pod.metadata.namespace or "") for pod in pods)
    found: set[str] | None = None
    for pod_class, number in wanted.items():
        enough = {name for name, (free, _) in room_by_member(table, pod_class).items() if free >= number}
        found = enough if found is None else found & enough
    return found or set()


def _named(clusters: Collection[str]) -> str:
    return ", ".join(sorted(clusters)[:3])
