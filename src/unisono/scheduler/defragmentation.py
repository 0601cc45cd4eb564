"""Plans of the action defragment for a cluster as it is, without carrying them out; and how fragmented it is (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unisono import engine
from unisono.api.keys import NVIDIA_GPU
from unisono.cluster.snapshot import Snapshot
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.decisions import DefragmentationPlan

ACTION = "defragment"
_DECIDING = ("enqueue", "allocate", "backfill")


@dataclass(frozen=True, slots=True)
class Plans:
    """What could be done.

    Attributes:
        plans: one per gang, each in view of those before it.
        waiting: PodGroups that wait and that no moves help, in order of their keys.
        idle: idle amount of the resource that fragmentation is about, and of that the part that is not on nodes of
            which all of it is idle, engine units.

    """

    plans: Sequence[DefragmentationPlan]
    waiting: Sequence[str]
    resource: str
    idle: int
    scattered: int


def plans_for(snapshot: Snapshot, config: SchedulerConfig, now: float, most: int | None = None) -> Plans:
    """Plans for all gangs that wait.

    Args:
        snapshot: the cluster.
        config: of the scheduler; the action is tried whether it is among its actions or not.
        now: seconds since 1970.
        most: moves per gang, in place of the configured number.

    """
    given = {**config.arguments_of(ACTION), "maxGangs": max(len(snapshot.jobs), 1)}
    if most is not None:
        given["maxMoves"] = most
    kept = tuple(name for name in config.actions if name in _DECIDING)
    used = replace(config, actions=(*kept, ACTION), action_arguments={**config.action_arguments, ACTION: given})
    idle, scattered = idle_amounts(snapshot)
    decisions = engine.run(snapshot, used, now)
    helped = {plan.job for plan in decisions.plans}
    waiting = sorted(key for key in decisions.verdicts if key not in helped)
    return Plans(decisions.plans, waiting, NVIDIA_GPU, idle, scattered)


def idle_amounts(snapshot: Snapshot, resource: str = NVIDIA_GPU) -> tuple[int, int]:
    """Idle amount of a resource on nodes that are ready, and of that the part on nodes that are in use in part."""
    names = list(snapshot.registry.names)
    if resource not in names:
        return 0, 0
    row, nodes = names.index(resource), snapshot.nodes
    usable = nodes.ready & ~nodes.unschedulable
    total = np.where(usable, nodes.allocatable[row], 0)
    idle = np.where(usable, np.maximum(nodes.allocatable[row] - nodes.used[row], 0), 0)
    return int(idle.sum()), int(idle[idle < total].sum())
