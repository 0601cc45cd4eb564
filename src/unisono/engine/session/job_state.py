"""Jobs and queues as one session sees them: the cluster's record plus what the session has decided so far."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Job, Queue, Task
from unisono.cluster.resources import Vector, fitted
from unisono.cluster.status import CLAIMS, HOLDS, IS_READY, READY_STATES, STATUS_COUNT, TaskStatus, count
from unisono.engine.session.limit import Limit

_PENDING, _PIPELINED, _ALLOCATED, _BINDING = 0, 1, 2, 3
_BOUND, _RUNNING = 4, 5
_NO_COUNTS: list[int] = [0] * STATUS_COUNT


class _Amounts(Protocol):
    """Something that is held: a pod of a class, or what a job holds as a whole."""

    vector: Vector


class QueueState:
    """One queue in one session.

    Attributes:
        record: the cluster's record: weight, priority, reclaimable, state, parent, capability, deserved, guarantee,
            annotations, and the sums request, inqueue, promised, elastic over its jobs at the snapshot.
        name, created, uid: from the record.
        allocated: ``[R]`` requests of allocated tasks, changes of this session included.
        claimed: ``[R]`` ``allocated`` plus what this session has pipelined: what share-based plug-ins compare.
        job_count: PodGroups that name it.
        limits: capabilities that hold for it, its own and those of the queues above it.
    """

    __slots__ = ("allocated", "claimed", "created", "job_count", "limits", "name", "record", "uid")

    def __init__(self, record: Queue) -> None:
        self.record = record
        self.name = record.name
        self.created = record.created
        self.uid = record.uid
        self.job_count = len(record.jobs)
        self.allocated: Vector = record.allocated.copy()
        self.claimed: Vector = record.allocated.copy()
        self.limits: tuple[Limit, ...] = ()

    @property
    def open(self) -> bool:
        """Only queues in state Open admit and place."""
        return self.record.state == "Open"

    @property
    def closed(self) -> bool:
        """It is closed, or closing; a queue without a state is neither open nor closed."""
        return self.record.state in ("Closed", "Closing")

    def __repr__(self) -> str:
        return f"QueueState({self.name})"


class JobState:
    """One PodGroup in one session.

    Attributes:
        record: the cluster's record: tasks, annotations, labels, conditions, and the sums at the snapshot.
        queue: its queue.
        priority: value of its PriorityClass, else of the global default one, else 0.
        min_member, min_task_member, min_resources: see `unisono.cluster.records.Job`.
        asks: ``[R]`` what is asked for at its admission: min_resources less the room that is kept for it already.
        min_task_total: sum of ``min_task_member``.
        phase: PodGroup phase, changed by enqueue.
        shape: jobs that scheduling cannot tell apart, as they were at the snapshot, share it; 0: like no other.
        kin: as the shape, but that it may be shared between namespaces, which placing does not tell apart.
        counts: tasks by status (list indexed by `TaskStatus`), changes of this session included.
        ready_count: tasks that hold a place or have succeeded.
        pending_best_effort: pending tasks that request nothing.
        account_limits: limits that hold for whom the job runs for, such as those of its user.
        places: task key to (status, node column) for tasks that this session has moved.
    """

    __slots__ = (
        "_allocated", "_claimed", "_claims", "_roles", "account_limits", "asks", "counts", "created", "key", "kin",
        "min_member", "min_resources", "min_task_member", "min_task_total", "pending_best_effort", "phase", "places",
        "priority", "queue", "ready_count", "record", "shape", "uid",
    )  # fmt: skip

    def __init__(self, record: Job, queue: QueueState, priority: int) -> None:
        self.record = record
        self.shape, self.kin = record.shape, record.kin
        self.key = record.key
        self.queue = queue
        self.priority = priority
        self.created = record.created
        self.uid = record.uid
        self.min_member = record.min_member
        self.min_task_member = record.min_task_member
        self.min_task_total = sum(record.min_task_member.values()) if record.min_task_member else 0
        self.min_resources = record.min_resources
        self.asks = record.min_resources
        if self.asks is not None and record.promised is not None:
            rows = max(len(self.asks), len(record.promised))
            self.asks = np.maximum(fitted(self.asks, rows) - fitted(record.promised, rows), 0)
        self.phase = record.phase
        self.account_limits: tuple[Limit, ...] = ()
        self.counts = record.counts.copy()
        fresh = record.shape and record.pending
        self.ready_count = 0 if fresh else count(self.counts, READY_STATES)
        self.pending_best_effort = record.pending_best_effort
        self.places: dict[str, tuple[TaskStatus, int]] = {}
        self._roles: dict[str, list[int]] | None = None
        self._allocated: Vector | None = None
        self._claimed: Vector | None = None
        self._claims: list[tuple[_Amounts, int, int]] = []

    # ---- what plug-ins read

    @property
    def limits(self) -> tuple[Limit, ...]:
        """All limits on what it may hold: those of its queue, and those of its account."""
        return self.queue.limits + self.account_limits if self.account_limits else self.queue.limits

    @property
    def namespace(self) -> str:
        """Namespace of the PodGroup."""
        return self.record.namespace

    @property
    def name(self) -> str:
        """Name of the PodGroup."""
        return self.record.name

    @property
    def size(self) -> int:
        """Number of pods that exist."""
        return len(self.record.tasks)

    @property
    def waiting_count(self) -> int:
        """Pipelined tasks."""
        return self.counts[_PIPELINED]

    @property
    def valid_count(self) -> int:
        """Tasks that hold, may get or have used a place."""
        return self.ready_count + self.counts[_PIPELINED] + self.counts[_PENDING]

    @property
    def is_ready(self) -> bool:
        """Ready tasks reach ``min_member`` (roles are not looked at)."""
        return self.ready_count >= self.min_member

    @property
    def has_started(self) -> bool:
        """It holds places, and its minimum of them: what waits of it is beyond that (roles are not looked at)."""
        return bool(self.ready_count) and self.is_ready

    @property
    def is_pipelined(self) -> bool:
        """As ``is_ready``, pipelined tasks included."""
        return self.waiting_count + self.ready_count >= self.min_member

    @property
    def is_starving(self) -> bool:
        """Ready and pipelined tasks stay below ``min_member``."""
        return self.waiting_count + self.ready_count < self.min_member

    @property
    def broken(self) -> bool:
        """It holds places but fewer than its minimum: a gang that lost members, whose resources lie idle."""
        return 0 < self.ready_count < self.min_member

    @property
    def holds_nothing(self) -> bool:
        """No task holds or was promised resources: every share of it is zero."""
        counts = self.counts
        held = counts[_ALLOCATED] or counts[_BINDING] or counts[_BOUND] or counts[_RUNNING]
        return not (held or counts[_PIPELINED])

    @property
    def roles_apply(self) -> bool:
        """Whether minimums per role are to be checked."""
        return bool(self.min_task_member) and self.min_member >= self.min_task_total

    def role_counts(self, role: str) -> list[int]:
        """Tasks of one role by status, those without a role for ``""``; read only."""
        roles = self._roles if self._roles is not None else self.record.role_counts
        if role:
            return roles.get(role, _NO_COUNTS)
        return [total - sum(counts[at] for counts in roles.values()) for at, total in enumerate(self.counts)]

    @property
    def allocated(self) -> Vector:
        """``[R]`` requests of tasks in allocated states, changes of this session included; read only."""
        self._fold()
        return self._allocated if self._allocated is not None else self.record.allocated

    @property
    def claimed(self) -> Vector:
        """``[R]`` ``allocated`` plus pipelined; read only."""
        self._fold()
        return self._claimed if self._claimed is not None else self.record.allocated

    def status(self, task: Task) -> TaskStatus:
        """State of one of its tasks in this session."""
        place = self.places.get(task.key)
        return task.status if place is None else place[0]

    @property
    def gained(self) -> bool:
        """Whether this session has given it places, or promised it any."""
        return any(status is not TaskStatus.RELEASING for status, _ in self.places.values())

    @property
    def lost(self) -> bool:
        """Whether this session evicts any of its tasks."""
        return any(status is TaskStatus.RELEASING for status, _ in self.places.values())

    # ---- what the session writes

    def move(self, pod_class: PodClass, role: str, number: int, old: TaskStatus, new: TaskStatus) -> None:
        """Count ``number`` tasks of a class and role from one state to another; sums follow on the next read."""
        self.counts[old] -= number
        self.counts[new] += number
        self.ready_count += number * (IS_READY[new] - IS_READY[old])
        if pod_class.best_effort:
            pending = TaskStatus.PENDING
            self.pending_best_effort += number * ((new is pending) - (old is pending))
        if self.min_task_member and role:
            self._move_role(role, number, old, new)
        allocated, claimed = HOLDS[new] - HOLDS[old], CLAIMS[new] - CLAIMS[old]
        if allocated or claimed:
            self._claims.append((pod_class, number * allocated, number * claimed))

    def hold(self, what: _Amounts, *, claimed: int, allocated: int) -> None:
        """Let its sums count something beside its pods: 1, or -1 where it holds that no longer."""
        self._claims.append((what, allocated, claimed))

    def _move_role(self, role: str, number: int, old: TaskStatus, new: TaskStatus) -> None:
        if self._roles is None:
            self._roles = {name: counts.copy() for name, counts in self.record.role_counts.items()}
        counts = self._roles.setdefault(role, [0] * STATUS_COUNT)
        counts[old] -= number
        counts[new] += number

    def _fold(self) -> None:
        if not self._claims:
            return
        if self._allocated is None or self._claimed is None:
            self._allocated = self.record.allocated.copy()
            self._claimed = self.record.allocated.copy()
        for what, allocated, claimed in self._claims:
            self._allocated += what.vector * np.int64(allocated)
            self._claimed += what.vector * np.int64(claimed)
        self._claims.clear()

    def __repr__(self) -> str:
        return f"JobState({self.key}, {self.phase})"
