"""Gangs that lost members and find no place for them move whole, where they ask for that and would start elsewhere.

A gang that is bound to a domain of the network gets places there for the pods that it lost, while the others go on.
Where the domain is full it waits, and holds what is of no use. With annotation ``unisono.io/relocate-after`` it waits
for no longer than that: then all its pods are given up, if it starts whole once its controller has made them again, as
the next cycle shows on a copy of the cluster. One gang moves in a cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from unisono.api.annotations import RELOCATE_AFTER
from unisono.api.times import duration_or_none
from unisono.cluster.records import Task
from unisono.cluster.status import ALLOCATED_STATES, TaskStatus, count
from unisono.engine.answers import RELOCATE, Purpose
from unisono.engine.config.model import PluginConfig
from unisono.engine.cycle.context import Cycle
from unisono.engine.defragmentation import rehearse
from unisono.engine.plugins.protected_pods import PdbPlugin
from unisono.engine.session.job_state import JobState

_AGAIN_SECONDS = 30.0
"""After a trial in vain a gang is not tried again for so long: trials cost as much as a cycle."""
_STANDING = (TaskStatus.BOUND, TaskStatus.RUNNING)

_MOVE_SECONDS = 60.0
"""So long at most the next gang waits until the last one that moved has its new places."""
_TRIALS = 2
"""In one cycle at most; the others' turn comes later."""
_PAUSE_SECONDS = 5.0
"""From such a cycle to the next trial: anybody may have thousands of gangs that ask, and other jobs wait meanwhile."""


@dataclass(slots=True)
class _Moves:
    """The last gang that moved, and when; when gangs that were tried in vain are tried again, by job.

    Attributes:
        last: key of that gang.
        at: when it moved.
        pause: until when none is tried.
        tried: times by job.
    """

    last: str = ""
    at: float = 0.0
    pause: float = 0.0
    tried: dict[str, float] = field(default_factory=dict)


def relocate(cycle: Cycle) -> None:
    """Give up the pods of the first gang that starts elsewhere; after all actions, as these may find it places."""
    asking = [job for job in cycle.session.active if RELOCATE_AFTER in job.record.annotations]
    if not asking:
        return
    now, moves = cycle.session.now, cycle.session.snapshot.memo.of(_Moves, _Moves)
    tried = moves.tried = {job.key: moves.tried[job.key] for job in asking if job.key in moves.tried}
    due: list[tuple[float, JobState, list[Task]]] = []
    for job in asking:
        held = _held(cycle, job)
        since = _since(job) if held else None
        if since is not None:
            due.append((max(since, tried.get(job.key, since)), job, held))
        else:
            tried.pop(job.key, None)
    if due and 0 <= now - moves.at < _MOVE_SECONDS and _on_its_way(cycle, moves.last):
        cycle.wake(moves.at + _MOVE_SECONDS)
        return
    if due and 0 < moves.pause - now <= _PAUSE_SECONDS:
        cycle.wake(moves.pause)
        return
    due.sort(key=lambda each: (each[0], each[1].key))
    for trials, (time, job, held) in enumerate(due):
        if trials == _TRIALS:
            moves.pause = now + _PAUSE_SECONDS
        if time > now or trials == _TRIALS:
            cycle.wake(max(time, moves.pause))
            return
        if rehearse(cycle, job, held, dict.fromkeys(job.record.pending, "")) is not None:
            _give_up(cycle, job, held)
            tried.pop(job.key, None)
            moves.last, moves.at = job.key, now
            cycle.wake(now)
            return
        tried[job.key] = now + _AGAIN_SECONDS
        cycle.wake(tried[job.key])


def _on_its_way(cycle: Cycle, key: str) -> bool:
    """Whether a gang that moves has no new places yet: a trial would give them to the next one."""
    job = cycle.session.job(key)
    return job is not None and not job.is_ready


def _since(job: JobState) -> float | None:
    """From when on the gang may move: the last of the pods that wait was made so long ago."""
    seconds = duration_or_none(job.record.annotations.get(RELOCATE_AFTER))
    waiting = [task.created for task in job.record.pending.values()]
    return max(waiting) + max(seconds, 0.0) if seconds is not None and waiting else None


def _held(cycle: Cycle, job: JobState) -> list[Task]:
    """The pods of a gang that is broken, if all of them may go and are made again; else none."""
    if not job.broken or job.places or job.counts[TaskStatus.RELEASING]:
        return []
    pods = [task for task in job.record.tasks.values() if task.status in _STANDING]
    index = cycle.session.snapshot.nodes.index
    if len(pods) < count(job.counts, ALLOCATED_STATES) or not all(
        task.remade and task.preemptable and task.owned and task.node in index for task in pods
    ):
        return []
    if cycle.hooks.has("protected") and cycle.hooks.protected(pods, Purpose.DEFRAGMENT).any():
        return []
    budgets = PdbPlugin(PluginConfig("pdb"))
    budgets.open(cycle.session)
    kept = budgets.retained(pods)
    return [] if kept is not None and kept.any() else sorted(pods, key=lambda task: task.key)


def _give_up(cycle: Cycle, job: JobState, held: Sequence[Task]) -> None:
    index, mark = cycle.session.snapshot.nodes.index, cycle.transaction.checkpoint()
    for task in held:
        cycle.transaction.evict(job, task, index[task.node], RELOCATE)
    cycle.commit(mark, None)
