"""eviction-guard: bounds how often and at what loss pods are evicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from unisono.api.annotations import CHECKPOINT_TIME, MAX_EVICTIONS, MIN_RUN_TIME
from unisono.api.messages import counted
from unisono.api.times import duration_or_none, parse_duration, parse_time, rfc3339
from unisono.cluster.hypertree import Index
from unisono.cluster.podclass import PodClass
from unisono.cluster.recent import KEPT_SECONDS
from unisono.cluster.records import Task
from unisono.cluster.resources import PODS, Matrix, Vector, fitted
from unisono.cluster.status import READY_STATES, TaskStatus, count
from unisono.engine.answers import BoolArray, Purpose, Refusal
from unisono.engine.config.arguments import Argument, Shape, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.session.followed_sums import FollowedSums
from unisono.engine.session.limit import UNLIMITED, named
from unisono.engine.verdict import Cause, reference
from unisono.errors import ConfigError

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState, QueueState
    from unisono.engine.session.session import Session

# What work is lost when pods are evicted: the time since it was last saved, weighed by what they hold.


class LostWork:
    """Lost work of one session, in seconds of the whole cluster.

    A pod loses the seconds since it started, or since its last checkpoint (annotation ``unisono.io/checkpoint-time`` of
    the pod, else of its PodGroup), times its dominant share: the largest part of any resource of the cluster that it
    requests. A gang that falls below its minimum loses that of all its running pods; one that is below it already has
    nothing more to lose.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._shares: dict[int, float] = {}
        self._pods: dict[str, float] = {}
        self._jobs: dict[str, float] = {}

    def of(self, leaving: Sequence[Task]) -> float:
        """What is lost when these tasks go together."""
        if len(leaving) == 1:
            return self._of_job(leaving[0].job, leaving)
        by_job: dict[str, list[Task]] = {}
        for task in leaving:
            by_job.setdefault(task.job, []).append(task)
        return sum(self._of_job(key, tasks) for key, tasks in by_job.items())

    def _of_job(self, key: str, tasks: Sequence[Task]) -> float:
        job = self.session.job(key)
        if job is None:
            return sum(self._of_pod(task, None) for task in tasks)
        if job.broken:
            return 0.0
        if not _breaks(job, tasks):
            return sum(self._of_pod(task, job) for task in tasks)
        whole = self._jobs.get(key)
        if whole is None:
            running = [task for task in job.record.tasks.values() if task.status is TaskStatus.RUNNING]
            whole = self._jobs[key] = sum(self._of_pod(task, job) for task in running)
        return whole

    def _of_pod(self, task: Task, job: JobState | None) -> float:
        if task.status is not TaskStatus.RUNNING:
            return 0.0
        lost = self._pods.get(task.key)
        if lost is None:
            lost = self._pods[task.key] = self._seconds(task, job) * self.share(task.pod_class)
        return lost

    def seconds(self, task: Task) -> float:
        """Seconds of one running pod alone since it started or was last saved."""
        return self._seconds(task, self.session.job(task.job))

    def _seconds(self, task: Task, job: JobState | None) -> float:
        began = task.since or task.created
        return max(self.session.now - max(began, _checkpoint(task, job)), 0.0)

    def share(self, pod_class: PodClass) -> float:
        """The largest part of any resource of the cluster that a pod of the class requests."""
        share = self._shares.get(pod_class.id)
        if share is None:
            total = self.session.usable_total
            held = fitted(pod_class.vector, len(total))
            requested = (held > 0) & (np.arange(len(total)) != PODS)
            parts = held[requested] / np.maximum(total[requested], 1)
            share = self._shares[pod_class.id] = float(parts.max(initial=0.0))
        return share


def _checkpoint(task: Task, job: JobState | None) -> float:
    """When the work was last saved, 0.0 when that is not stated readably."""
    text = task.annotations.get(CHECKPOINT_TIME)
    if text is None and job is not None:
        text = job.record.annotations.get(CHECKPOINT_TIME)
    if text is None:
        return 0.0
    try:
        return parse_time(text)
    except ValueError:
        return 0.0


def _breaks(job: JobState, tasks: Sequence[Task]) -> bool:
    """Whether the gang falls below its minimum, or one of its roles does, when the tasks go."""
    if job.ready_count - len(tasks) < job.min_member:
        return True
    if not job.roles_apply:
        return False
    going = Counter(task.role for task in tasks)
    return any(
        count(job.role_counts(role), READY_STATES) - number < job.min_task_member.get(role, 0)
        for role, number in going.items()
    )


# eviction-guard: pods run for a while before they are evicted, few are evicted at a time, those with least to lose.
#
# Off unless configured, because Volcano knows none of it. Four things that each can be had alone: a minimum run time,
# limits on how many evictions there are per cycle and within a window, victims by the work that is lost with them, and
# room that jobs of low rank leave free, so that no pod has to be evicted at all.


# Room that jobs of low rank leave free, so that others can start without evicting them.


class Headroom:
    """How many more pods of a job leave a share of each resource free on the usable nodes of one session.

    Free is what no pod holds and no pod was promised; what is being released counts as free. Four exceptions keep it
    from doing harm: a gang that fits only without the share need not leave it, a gang that lost members gets them back,
    a job that evicts others need not leave more than was free before, and a job that was promised places gets them.

    Args:
        session: of the cycle.
        share: 0 to 1, of jobs whose PriorityClass is not named.
        by_class: the same by name of PriorityClass.
    """

    def __init__(self, session: Session, share: float, by_class: Mapping[str, float]) -> None:
        self._session = session
        self._share, self._by_class = share, by_class
        self._sums: FollowedSums | None = None
        self._asked: JobState | None = None
        self._kept: Vector | None = None

    def room(self, job: JobState, pod_class: PodClass) -> int:
        """How many more pods of the class the job may place one after the other."""
        if job is not self._asked:
            self._asked, self._kept = job, None
        if not self._is_held(job):
            return UNLIMITED
        rows = self._rows(job, pod_class)
        if not len(rows):
            return UNLIMITED
        left = self._free()[rows] - self._kept_from(job)[rows]
        return max(int((left // fitted(pod_class.vector, self._session.rows)[rows]).min()), 0)

    def refusal(self, job: JobState, pod_class: PodClass) -> Refusal | None:
        """Why the job may place no further pod of the class."""
        if self.room(job, pod_class) > 0:
            return None
        registry, total = self._session.registry, self._session.usable_total
        free, kept = self._free(), self._kept_from(job)
        asked = fitted(pod_class.vector, len(free))
        rows = [row for row in self._rows(job, pod_class).tolist() if free[row] - kept[row] < asked[row]]
        text = f"{self._share_of(job):.1%} of the cluster stays free for others (eviction-guard.headroom)"
        need, have, limit = (named(registry, amounts.tolist(), rows) for amounts in (asked, total - free, total - kept))
        return Refusal(text, Cause.RESERVED, need, have, limit)

    def _share_of(self, job: JobState) -> float:
        return self._by_class.get(job.record.priority_class, self._share)

    def _is_held(self, job: JobState) -> bool:
        """Whether the job has to leave anything; a gang that had lost members holds places that are of no use."""
        if not self._share_of(job):
            return False
        return not 0 < count(job.record.counts, READY_STATES) < job.min_member

    def _rows(self, job: JobState, pod_class: PodClass) -> Index:
        """Rows of what the class requests that could be had, and of which something stays free."""
        rows = pod_class.rows[pod_class.rows != PODS]
        there = self._free()[rows] >= fitted(pod_class.vector, self._session.rows)[rows]
        return np.asarray(rows[there & (self._kept_from(job)[rows] > 0)], dtype=np.intp)

    def _kept_from(self, job: JobState) -> Vector:
        """``[R]`` what the job has to leave, worked out when it is first asked about in its turn.

        It is the share, but no more than what the gang leaves of an empty cluster, or than was free before its turn;
        nothing where an earlier cycle has promised it places.
        """
        if self._kept is None:
            total, record = self._session.usable_total, job.record
            if any(task.nominated_node for task in record.pending.values()):
                self._kept = np.zeros_like(total)
                return self._kept
            gang = fitted(record.request, len(total)) * job.min_member // max(job.size, 1)
            if job.min_resources is not None:
                gang = np.maximum(gang, fitted(job.min_resources, len(total)))
            share = (total * self._share_of(job)).astype(np.int64)
            self._kept = np.minimum(np.minimum(share, np.maximum(total - gang, 0)), self._free())
        return self._kept

    def _free(self) -> Vector:
        """``[R]`` what is free on usable nodes, or will be once those that leave are gone."""
        if self._sums is None:
            self._sums = FollowedSums(self._session, self._free_at)
        free: Vector = self._sums.follow().sums[:, self._session.snapshot.hyper_nodes.root]
        return free

    def _free_at(self, columns: Index) -> Matrix:
        nodes = self._session.nodes
        usable = nodes.table.ready[columns] & ~nodes.table.unschedulable[columns]
        free = nodes.allocatable[:, columns] - nodes.used[:, columns]
        free = free + nodes.releasing[:, columns] - nodes.pipelined[:, columns]
        return np.where(usable, np.maximum(free, 0), 0)


_NAME = "eviction-guard"
_DURATIONS = Shape("map", each=Shape("duration"))
_SHARES = Shape("map", each=Shape("float", least=0, most=1, form="a share, 0 to 1"))
_RUN = Argument(f"{_NAME}.minRunTime", "duration", "0s", "how long a pod must have run before it may be evicted")
_RUN_QUEUES = Argument(
    f"{_NAME}.minRunTime.queues", "map", None, "the same by queue of the pod: name to duration", shape=_DURATIONS
)
_RUN_CLASSES = Argument(
    f"{_NAME}.minRunTime.priorityClasses",
    "map",
    None,
    "the same by PriorityClass of its job: name to duration",
    shape=_DURATIONS,
)
_PER_CYCLE = Argument(f"{_NAME}.maxPerCycle", "int", 0, "evictions in one cycle at most; 0: any number")
_PER_WINDOW = Argument(f"{_NAME}.maxPerWindow", "int", 0, "evictions within a window at most; 0: any number")
_PER_QUEUE = Argument(f"{_NAME}.maxPerWindowAndQueue", "int", 0, "the same for the pods of each queue")
_WINDOW = Argument(f"{_NAME}.window", "duration", "1h", "length of the window that ends now, 24h at most")
_LEAST = Argument(f"{_NAME}.leastLostWork", "bool", True, "evict those first with whom the least work is lost")
_HEADROOM = Argument(
    f"{_NAME}.headroom", "float", 0.0, "share of each resource, 0 to 1, that jobs leave free for those that evict them"
)
_HEADROOM_CLASSES = Argument(
    f"{_NAME}.headroom.priorityClasses",
    "map",
    None,
    "the same by PriorityClass of the job: name to share",
    shape=_SHARES,
)


class EvictionGuardPlugin(Plugin):
    """Minimum run time, eviction rate, least lost work and headroom."""

    name = _NAME
    moved_by_evictions = True
    known_arguments = (
        *(_RUN, _RUN_QUEUES, _RUN_CLASSES, _PER_CYCLE, _PER_WINDOW, _PER_QUEUE, _WINDOW, _LEAST),
        *(_HEADROOM, _HEADROOM_CLASSES),
    )

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.run_time = parse_duration(str(argument_value(_RUN, self.arguments)))
        self.by_queue = self._durations(_RUN_QUEUES)
        self.by_class = self._durations(_RUN_CLASSES)
        self.per_cycle, self.per_window, self.per_queue = (
            self._number(argument) for argument in (_PER_CYCLE, _PER_WINDOW, _PER_QUEUE)
        )
        self.window = parse_duration(str(argument_value(_WINDOW, self.arguments)))
        if not 0 < self.window <= KEPT_SECONDS:
            raise ConfigError(f"{_WINDOW.key} must be above 0s and at most 24h")
        self.by_loss = bool(argument_value(_LEAST, self.arguments))
        self.headroom_share = _share(_HEADROOM.key, argument_value(_HEADROOM, self.arguments))
        given: Mapping[str, object] = argument_value(_HEADROOM_CLASSES, self.arguments) or {}
        self.headroom_by_class = {
            name: _share(f"{_HEADROOM_CLASSES.key}: {name}", value) for name, value in given.items()
        }
        self.keeps_headroom = bool(self.headroom_share or any(self.headroom_by_class.values()))

    def _durations(self, argument: Argument) -> dict[str, float]:
        given: Mapping[str, object] = argument_value(argument, self.arguments) or {}
        durations: dict[str, float] = {}
        for name, text in given.items():
            seconds = duration_or_none(text if isinstance(text, str) else None)
            if seconds is None:
                raise ConfigError(f"{argument.key}: {name} must be a duration such as 10m, not {text!r}")
            durations[name] = seconds
        return durations

    def _number(self, argument: Argument) -> int:
        value = int(argument_value(argument, self.arguments))
        if value < 0:
            raise ConfigError(f"{argument.key} must not be negative; 0 means any number")
        return value

    def open(self, session: Session) -> None:
        """Nothing has been evicted yet in this session."""
        self.session = session
        self._gone: Counter[str] = Counter()

    # ---- headroom

    @cached_property
    def _headroom(self) -> Headroom:
        return Headroom(self.session, self.headroom_share, self.headroom_by_class)

    def allocatable(self, queue: QueueState, pod_class: PodClass) -> Refusal | None:
        """Refuse the next pod of the job that is served where it would take what has to stay free."""
        job = self.session.subject
        return self._headroom.refusal(job, pod_class) if self.keeps_headroom and job is not None else None

    def headroom(self, queue: QueueState, pod_class: PodClass) -> int:
        """How many more of its pods leave enough free."""
        job = self.session.subject
        return self._headroom.room(job, pod_class) if self.keeps_headroom and job is not None else UNLIMITED

    # ---- minimum run time

    def protected(self, candidates: Sequence[Task], purpose: Purpose) -> BoolArray | None:
        """Pods that have not run for long enough."""
        now = self.session.now
        return np.array([now < self._free_from(task) for task in candidates], dtype=np.bool_)

    def _free_from(self, task: Task) -> float:
        """When the pod may be evicted, seconds since the epoch."""
        seconds = self._min_run_time(task)
        return (task.since or task.created) + seconds if seconds > 0 else 0.0

    def _min_run_time(self, task: Task) -> float:
        """What the pod, its PodGroup, its queue (annotation, argument), its priority class or the argument says.

        The first of them that says anything counts; a text that is no duration says nothing.
        """
        own = duration_or_none(task.annotations.get(MIN_RUN_TIME)) if MIN_RUN_TIME in task.annotations else None
        if own is not None:
            return own
        job = self.session.job(task.job)
        if job is None:
            return self.run_time
        key = job.key
        seconds = self._by_job.get(key)
        if seconds is None:
            seconds = self._by_job[key] = self._of_job(job)
        return seconds

    @cached_property
    def _by_job(self) -> dict[str, float]:
        return {}

    def _of_job(self, job: JobState) -> float:
        said = (
            duration_or_none(job.record.annotations.get(MIN_RUN_TIME)),
            duration_or_none(job.queue.record.annotations.get(MIN_RUN_TIME)),
            self.by_queue.get(job.queue.name),
            self.by_class.get(job.record.priority_class),
        )
        return next((seconds for seconds in said if seconds is not None), self.run_time)

    # ---- rate

    @cached_property
    def _lately(self) -> Counter[str]:
        """Evictions within the window before this session, by queue; ``""`` counts all of them."""
        counts: Counter[str] = Counter()
        for eviction in self.session.snapshot.evictions.since(self.session.now - self.window):
            counts[eviction.queue] += 1
            counts[""] += 1
        return counts

    def allowance(self, queue: QueueState) -> int | None:
        """What is left of the limits per cycle, per window, and per window and queue."""
        left: list[int] = []
        failed = self.session.removed_failed
        gone = self._gone[""] + failed.total()
        if self.per_cycle:
            left.append(self.per_cycle - gone)
        if self.per_window:
            left.append(self.per_window - self._lately[""] - gone)
        most = self._most_of(queue)
        if most is not None:
            left.append(most - self._lately[queue.name] - self._gone[queue.name] - failed[queue.name])
        return max(min(left), 0) if left else None

    def _most_of(self, queue: QueueState) -> int | None:
        text = queue.record.annotations.get(MAX_EVICTIONS, "")
        if text.isascii() and text.isdigit():
            return int(text)
        return self.per_queue or None

    def moved(
        self, job: JobState, tasks: Sequence[Task], nodes: Sequence[int], before: TaskStatus, after: TaskStatus
    ) -> None:
        """Evictions count, and count no more when they are undone."""
        if TaskStatus.RELEASING not in (before, after):
            return
        number = len(tasks) if after is TaskStatus.RELEASING else -len(tasks)
        self._gone[""] += number
        self._gone[job.queue.name] += number

    # ---- verdicts

    def spared(self, victims: Sequence[Task]) -> str | None:
        """What of this keeps the pods from going together, and until when."""
        young = [task for task in victims if self._free_from(task) > self.session.now]
        if young:
            last = max(young, key=self._free_from)
            ran, least = self.session.now - (last.since or last.created), self._min_run_time(last)
            until = rfc3339(self._free_from(last))
            return (
                f"{len(young)} of {counted(len(victims), 'pod')} that would have to go "
                f"{'has' if len(young) == 1 else 'have'} run for less than their minimum "
                f"({reference(last.key)} for {ran:.0f} s of {least:.0f} s); they may go from {until} on"
            )
        number = len(victims)
        if self.per_cycle and number > self.per_cycle - self._gone[""]:
            if number > self.per_cycle:
                return (
                    f"{counted(number, 'pod')} would have to go at once, and {_PER_CYCLE.key} lets {self.per_cycle} go"
                )
            return f"all {self.per_cycle} evictions of this cycle ({_PER_CYCLE.key}) are used up"
        by_queue: dict[str, list[Task]] = {}
        queues: dict[str, QueueState] = {}
        for task in victims:
            job = self.session.job(task.job)
            if job is not None:
                by_queue.setdefault(job.queue.name, []).append(task)
                queues[job.queue.name] = job.queue
        limits = [("", self.per_window or None, number, _PER_WINDOW.key)]
        limits += [
            (name, self._most_of(queues[name]), len(tasks), f"the limit of queue {name}")
            for name, tasks in sorted(by_queue.items())
        ]
        said = (self._used_up(queue, most, wanted, what) for queue, most, wanted, what in limits if most is not None)
        return next((text for text in said if text), None)

    def _used_up(self, queue: str, most: int, wanted: int, what: str) -> str:
        """Whether so many more evictions within the window are too many, in words; ``""`` where they are not."""
        window = f"{self.window:.0f} s"
        if wanted > most:
            return f"{counted(wanted, 'pod')} would have to go, and {what} lets {most} go within {window}"
        times = self._times(queue)
        excess = len(times) + self._gone[queue] + wanted - most
        if excess <= 0:
            return ""
        text = f"{len(times) + self._gone[queue]} of {most} evictions within {window} ({what}) are used up"
        frees = times[excess - 1] if excess <= len(times) else self.session.now
        more = f"{wanted} more {'is' if wanted == 1 else 'are'}"
        return f"{text}, and {more} needed; they may go from {rfc3339(frees + self.window)} on"

    def _times(self, queue: str) -> list[float]:
        """When pods of the queue (``""``: of any) were evicted within the window, the oldest first."""
        lately = self.session.snapshot.evictions.since(self.session.now - self.window)
        return sorted(eviction.time for eviction in lately if not queue or eviction.queue == queue)

    # ---- lost work

    @cached_property
    def _losses(self) -> LostWork:
        return LostWork(self.session)

    def lost_work(self, leaving: Sequence[Task]) -> float | None:
        """Time since the last checkpoint, by the dominant share of the cluster that is held; whole gangs that break."""
        return self._losses.of(leaving) if self.by_loss else None


def _share(what: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise ConfigError(f"{what} must be a share of at least 0 and below 1, not {value!r}")
    return float(value)
