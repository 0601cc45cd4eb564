"""Would a job start if something were different? The next cycle is run on a copy of the cluster to find out.

The copy has everything that this cycle has decided, so the answer is that of the next cycle: with all other jobs that
wait and that may take the room first, and with every plug-in that is configured. Nothing is said that was not tried.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from unisono.cluster.snapshot import Snapshot
from unisono.cluster.status import TaskStatus
from unisono.engine.cycle import Cycle
from unisono.engine.stopwatch import Stopwatch
from unisono.engine.verdicts.changes import AddNodes, Change
from unisono.engine.verdicts.edit import Edit, Move
from unisono.engine.verdicts.effects import FIRST, LAST, add_nodes, apply

COST_LIMIT = 40_000
"""What all trials of a cycle may cost together, in nodes and waiting pods looked at (about 1 µs each)."""
FIXED_COST = 1_500
"""Of each trial: sessions and plug-ins are made."""


class Trials:
    """All trials of one cycle, within a budget that depends on nothing but the cluster's size.

    A PodGroup without pods starts when it is admitted: its pods are made then.
    """

    def __init__(self, cycle: Cycle, limit: int = COST_LIMIT) -> None:
        self.cycle = cycle
        waiting = sum(len(job.record.pending) for job in cycle.jobs)
        self.cost = FIXED_COST + cycle.session.nodes.size + 10 * waiting + 5 * len(cycle.jobs)
        self.left = limit
        watch = cycle.stopwatch
        self.stopwatch = Stopwatch(watch.monotonic, watch.limit)

    @property
    def possible(self) -> bool:
        """Whether there is budget for one more."""
        return self.left >= self.cost

    def starts(self, job: str, change: Change) -> bool:
        """Whether the next cycle would bind the job (more of it, where it has its minimum) after the change."""
        if isinstance(change, AddNodes):  # whatever they are called
            return all(self._try(job, lambda edit, name=name: add_nodes(change, edit, name)) for name in (LAST, FIRST))
        return self._try(job, lambda edit: apply(change, edit, job))

    def _try(self, job: str, make: Callable[[Edit], None]) -> bool:
        self.left -= self.cost
        snapshot, moves = self._next
        edit = Edit(snapshot, moves)
        try:
            make(edit)
            return self._starts(edit, job)
        except Exception:  # a cluster that cannot be imagined starts nothing, and must not stop the real one
            return False

    def _starts(self, edit: Edit, key: str) -> bool:
        cycle, session = self.cycle, self.cycle.session
        off = cycle.hooks.failed
        trial = Cycle(
            edit.snapshot(),
            cycle.config,
            session.now,
            session.seed,
            lambda name: None if name in off else cycle.lookup(name),
            self.stopwatch,
        )
        index = trial.session.nodes.table.index
        for pod_class, node, sign in edit.moves:
            if node in index:
                trial.session.domains.move(pod_class, [index[node]], sign)
        for name in cycle.config.actions:
            trial.run_action(name)
        if trial.hooks.failed != off:  # what it says would be said without a plug-in that the next cycle asks again
            self.left = 0
            return False
        job = trial.session.job(key)
        if job is not None and not job.size:
            return job.phase != "Pending"
        return any(placement.job.key == key for placement in trial.bound)

    @cached_property
    def _next(self) -> tuple[Snapshot, list[Move]]:
        """The cluster as the next cycle sees it."""
        return after(self.cycle)


def after(cycle: Cycle) -> tuple[Snapshot, list[Move]]:
    """The cluster once this cycle's decisions are carried out, and which pods came or left."""
    edit = Edit(cycle.session.snapshot)
    names = cycle.session.nodes.table.names
    notes = {f"{bind.namespace}/{bind.pod}": bind.annotations for bind in cycle.decisions.binds}
    for placement in cycle.bound:
        for key, column in zip((task.key for task in placement.tasks), placement.columns, strict=True):
            task = edit.task(key)
            task.status, task.node = TaskStatus.BINDING, names[column]
            if notes.get(key):
                task.annotations = {**task.annotations, **notes[key]}
            edit.put(task)
    for placement, _ in cycle.evicted:
        for evicted in placement.tasks:
            task = edit.task(evicted.key)
            task.status = TaskStatus.RELEASING
            edit.put(task)
    for placement in cycle.transaction.log if cycle.evicted else ():
        for waiting, column in zip(placement.tasks, placement.columns, strict=True):
            task = edit.task(waiting.key)
            task.nominated_node = names[column]
            edit.put(task)
    for job in cycle.jobs:
        if job.phase != job.record.phase:
            edit.job(job.key).phase = job.phase
    return edit.snapshot(), edit.moves
