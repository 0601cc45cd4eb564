"""Plans of the action defragment for a cluster as it is, without carrying them out; and how fragmented it is (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unisono import engine
from unisono.api.keys import NVIDIA_GPU
from unisono.api.times import parse_duration
from unisono.cluster.snapshot import Snapshot
from unisono.engine.config.arguments import argument_value
from unisono.engine.config.model import ACTION_ARGUMENTS, SchedulerConfig
from unisono.engine.decisions import Decisions, DefragmentationPlan

ACTION = "defragment"
_DECIDING = ("enqueue", "allocate", "backfill")
# Each limit as if there were none; in this order they are tried.
_UNLIMITED: Mapping[str, Any] = {
    "maxMoves": 1_000_000,
    "minRunTime": "0s",
    "maxLostTime": "1000000h",
    "maxDomains": 1_000_000,
}


@dataclass(frozen=True, slots=True)
class Held:
    """Why no moves within the limits help one gang.

    Attributes:
        limits: arguments of the action without which a plan was found; empty where none of them matters.
        moves: pods that move in that plan.
        ran_seconds: how long the one has run that has run least.
        lost_seconds: what the one loses that loses most.
        message: where no limit matters, why the gang waits.
    """

    limits: tuple[str, ...] = ()
    moves: int = 0
    ran_seconds: float = 0.0
    lost_seconds: float = 0.0
    message: str = ""


@dataclass(frozen=True, slots=True)
class Plans:
    """What could be done.

    Attributes:
        plans: one per gang, each in view of those before it.
        waiting: PodGroups that wait and that no moves help, in order of their keys, and what holds each.
        limits: the action's arguments in force.
        idle: idle amount of the resource that fragmentation is about, and of that the part that is not on nodes of
            which all of it is idle, engine units.
    """

    plans: Sequence[DefragmentationPlan]
    waiting: Mapping[str, Held]
    limits: Mapping[str, Any]
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
    limits = {one.key: argument_value(one, given) for one in ACTION_ARGUMENTS[ACTION]}
    idle, scattered = idle_amounts(snapshot)
    decisions = _tried(snapshot, config, now, given)
    waiting = _waiting(decisions)
    held = _held(snapshot, config, now, given, waiting) if waiting else {}
    return Plans(decisions.plans, {key: held[key] for key in sorted(waiting)}, limits, NVIDIA_GPU, idle, scattered)


def _tried(snapshot: Snapshot, config: SchedulerConfig, now: float, given: Mapping[str, Any]) -> Decisions:
    kept = tuple(name for name in config.actions if name in _DECIDING)
    arguments = {**config.action_arguments, ACTION: dict(given)}
    return engine.run(snapshot, replace(config, actions=(*kept, ACTION), action_arguments=arguments), now)


def _waiting(decisions: Decisions) -> dict[str, str]:
    """Why they wait, by the PodGroups that no plan is about."""
    helped = {plan.job for plan in decisions.plans}
    return {key: verdict.message for key, verdict in decisions.verdicts.items() if key not in helped}


def _held(
    snapshot: Snapshot, config: SchedulerConfig, now: float, given: Mapping[str, Any], waiting: Mapping[str, str]
) -> dict[str, Held]:
    """What holds each gang: a plan is looked for without one of the limits, then without all of them."""
    held_by_job: dict[str, Held] = {}
    for names in (*((name,) for name in _UNLIMITED), tuple(_UNLIMITED)):
        if len(held_by_job) == len(waiting):
            break
        without = {name: _UNLIMITED[name] for name in names}
        for plan in _tried(snapshot, config, now, {**given, **without}).plans:
            if plan.job in waiting and plan.job not in held_by_job:
                held_by_job[plan.job] = _beyond(plan, names, given)
    return {key: held_by_job.get(key) or Held(message=message) for key, message in waiting.items()}


def _beyond(plan: DefragmentationPlan, names: tuple[str, ...], given: Mapping[str, Any]) -> Held:
    """The limits that the plan breaks; those that were left out where it breaks none by itself."""
    limits = {one.key: argument_value(one, given) for one in ACTION_ARGUMENTS[ACTION]}
    ran = min((move.ran_seconds for move in plan.moves), default=0.0)
    lost = max((move.lost_seconds for move in plan.moves), default=0.0)
    broken = {
        "maxMoves": len(plan.moves) > limits["maxMoves"],
        "minRunTime": ran < parse_duration(str(limits["minRunTime"])),
        "maxLostTime": lost > parse_duration(str(limits["maxLostTime"])),
    }
    exceeded = tuple(name for name in names if broken.get(name))
    return Held(exceeded or names, len(plan.moves), ran, lost)


def idle_amounts(snapshot: Snapshot) -> tuple[int, int]:
    """Idle GPUs, in thousandths, on nodes that are ready, and of that the part on nodes that are in use in part."""
    names = list(snapshot.registry.names)
    if NVIDIA_GPU not in names:
        return 0, 0
    row, nodes = names.index(NVIDIA_GPU), snapshot.nodes
    usable = nodes.ready & ~nodes.unschedulable
    total = np.where(usable, nodes.allocatable[row], 0)
    idle = np.where(usable, np.maximum(nodes.allocatable[row] - nodes.used[row], 0), 0)
    return int(idle.sum()), int(idle[idle < total].sum())
