"""Jobs that hold GPUs and do not use them: they are told, and stopped where their queue wants that.

What is measured is the use of a node's GPUs together. All of it may be one pod's: where even then the pod uses less
than its queue wants, it is idle, whoever else is on the node. Nothing is done where nothing is measured.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from unisono.api.annotations import IDLE_GPUS
from unisono.api.idle_gpus import IdlePolicy, policy_of
from unisono.api.keys import NVIDIA_GPU
from unisono.api.selecting import lineage
from unisono.api.times import format_duration, rfc3339
from unisono.cluster.records import Task
from unisono.cluster.status import ON_NODE_STATES, PREEMPTABLE_STATES
from unisono.engine.answers import IDLE
from unisono.engine.cycle.context import Cycle
from unisono.engine.decisions import IdleJob
from unisono.engine.plugins.common.annotations import FRESH_SECONDS, measured
from unisono.engine.session.job_state import JobState

_SOON_SECONDS = 1.0


@dataclass(slots=True)
class _Since:
    """By job, since when its GPUs are idle as far as this process has seen it; lives in the state's memo."""

    jobs: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Held:
    """A pod of a job with GPUs, and the most percent of these that it uses; None: that is not measured."""

    task: Task
    use: float | None


def follow_idle_gpus(cycle: Cycle) -> None:
    """Tell jobs whose GPUs are idle, and evict the pods of those whose time is over."""
    snapshot, now = cycle.session.snapshot, cycle.session.now
    if not snapshot.calendar.idling:
        return
    since, seen = snapshot.memo.of(_Since, _Since), dict[str, float]()
    policies = _Policies(cycle)
    for key, held in _holders(cycle).items():
        job = cycle.session.job(key)
        policy = policies.of(job) if job is not None else None
        if job is None or policy is None or any(one.use is None or one.use >= policy.below for one in held):
            continue
        start = max(one.task.since or one.task.created for one in held)
        seen[key] = began = max(since.jobs.get(key, now), start)
        tell = began + policy.patience(job.record.annotations)
        if now < tell:
            cycle.wake(tell)
            continue
        end = tell + policy.notice if policy.stops else None
        most = max(one.use or 0.0 for one in held)
        first = min((one.task for one in held), key=lambda task: task.key)
        words = _words(job, policy, began, most, end)
        cycle.decisions.idle.append(IdleJob(key, first.key, first.uid, f"{began:.0f} {end}", words))
        if end is not None and now >= end:
            _stop(cycle, job, policy, began)
        elif end is not None:
            cycle.wake(end)
    since.jobs = seen
    if seen:  # what is measured grows old without an event
        cycle.wake(now + FRESH_SECONDS)


def _words(job: JobState, policy: IdlePolicy, began: float, most: float, end: float | None) -> str:
    then = "nothing is done about it"
    if end is not None:
        then = f"its pods are evicted at {rfc3339(end)} unless it uses them"
    return (
        f"its GPUs are used by {most:.0f} % at most, less than {policy.below:g} % since {rfc3339(began)} "
        f"(annotation {IDLE_GPUS} of queue {job.queue.name}): {then}"
    )


class _Policies:
    """What queues say, and those above them."""

    def __init__(self, cycle: Cycle) -> None:
        self._queues = {name: queue.record for name, queue in cycle.session.queues.items()}
        self._parents = {name: record.parent for name, record in self._queues.items()}
        self._known: dict[str, IdlePolicy | None] = {}

    def of(self, job: JobState) -> IdlePolicy | None:
        """Of the job's queue, or the nearest one above it that says something."""
        name = job.queue.name
        if name not in self._known:
            self._known[name] = next(filter(None, map(self._own, lineage(name, self._parents))), None)
        return self._known[name]

    def _own(self, name: str) -> IdlePolicy | None:
        record = self._queues.get(name)
        with suppress(ValueError):  # where no admission looks at it; such a text counts as absent
            return policy_of(record.annotations.get(IDLE_GPUS, "")) if record is not None else None
        return None


def _holders(cycle: Cycle) -> dict[str, list[_Held]]:
    """Pods with GPUs on nodes, by job."""
    snapshot, holders = cycle.session.snapshot, dict[str, list[_Held]]()
    row = cycle.session.registry.find(NVIDIA_GPU)
    if row is None:
        return holders
    table = snapshot.nodes
    for name, tasks in snapshot.tasks_on.items():
        column = table.index.get(name)
        if column is None or not table.used[row, column]:
            continue
        usage, there = measured(cycle.session, column), int(table.allocatable[row, column])
        for task in tasks.values():
            own = task.pod_class.requests.get(NVIDIA_GPU, 0)
            if own and task.job and task.status in ON_NODE_STATES:
                whole = usage.gpu * there / own if usage is not None and usage.gpu is not None else None
                holders.setdefault(task.job, []).append(_Held(task, whole))
    return holders


def _stop(cycle: Cycle, job: JobState, policy: IdlePolicy, began: float) -> None:
    if job.places:  # no gang gets pods and loses others in one cycle
        cycle.wake(cycle.session.now + _SOON_SECONDS)
        return
    index, mark = cycle.session.snapshot.nodes.index, cycle.transaction.checkpoint()
    for task in job.record.tasks.values():
        if task.owned and task.status in PREEMPTABLE_STATES and task.node in index:
            idle = format_duration(cycle.session.now - began)
            cycle.notes[task.key] = (
                f"GPUs that were used by less than {policy.below:g} % for {idle} (annotation {IDLE_GPUS} of a queue)"
            )
            cycle.transaction.evict(job, task, index[task.node], IDLE)
    cycle.commit(mark, None)
