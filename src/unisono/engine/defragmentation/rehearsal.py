"""Trying a plan on a copy of the cluster: the gang and every moved pod must find places in the next cycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.actions import run_actions
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugin_host.stopwatch import Stopwatch
from unisono.engine.session.job_state import JobState
from unisono.engine.verdicts.edit import Edit
from unisono.engine.verdicts.trial import after

_PASSIVE = frozenset(("enqueue", "allocate", "backfill"))


def rehearse(
    cycle: Cycle, job: JobState, moved: Sequence[Task], promised: Mapping[str, str]
) -> tuple[dict[str, str], int] | None:
    """The next cycle once the moved pods are made again, with everything else that waits, and without evictions.

    Args:
        cycle: the present one; what it has committed counts as done.
        job: the gang.
        moved: pods that leave.
        promised: node by pod of the gang.

    Returns:
        node of each moved pod and of each of the gang's pods, and how many nodes are free of our pods then; None when
        the gang does not start, or a moved pod finds no place.

    """
    edit = Edit(*after(cycle))
    for victim in moved:
        task = edit.task(victim.key)
        task.status, task.node, task.nominated_node, task.since = TaskStatus.PENDING, "", "", 0.0
        edit.put(task)
    for key, node in promised.items():
        task = edit.task(key)
        task.nominated_node = node
        edit.put(task)
    off, watch = cycle.hooks.failed, cycle.stopwatch
    config = replace(cycle.config, actions=tuple(name for name in cycle.config.actions if name in _PASSIVE))
    trial = Cycle(
        edit.snapshot(),
        config,
        cycle.session.now,
        cycle.session.seed,
        lambda name: None if name in off else cycle.lookup(name),
        Stopwatch(watch.monotonic, watch.limit),
    )
    index = trial.session.snapshot.nodes.index
    for pod_class, node, sign in edit.moves:
        if node in index:
            trial.session.domains.move(pod_class, [index[node]], sign)
    run_actions(trial)
    names = trial.session.snapshot.nodes.names
    placed = {
        task.key: names[column]
        for placement in trial.bound
        for task, column in zip(placement.tasks, placement.columns, strict=True)
    }
    state = trial.session.job(job.key)
    started = state is not None and trial.hooks.ready(state) and any(key in placed for key in promised)
    alike = trial.hooks.failed == off
    free = free_nodes(trial, placed)
    trial.end()
    if not (started and alike) or any(task.key not in placed for task in moved):
        return None
    return placed, free


def free_nodes(cycle: Cycle, placed: Mapping[str, str] | None = None) -> int:
    """Nodes on which no pod of ours is, nor will be: DaemonSets and the like of other schedulers do not count."""
    snapshot = cycle.session.snapshot
    taken = set((placed or {}).values())
    for name, tasks in snapshot.tasks_on.items():
        if any(task.owned for task in tasks.values()):
            taken.add(name)
    return sum(1 for name in snapshot.nodes.names if name not in taken)
