"""The books of jobs and queues: counts by status, sums of requests, what queues have promised."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from unisono.api.annotations import DEFAULT_RUN_TIME, IDLE_GPUS, MAX_RUN_TIME, ONE_OF, RESERVATION, USER
from unisono.api.base import Quantity
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec, PodGroupStatus
from unisono.api.groups.scheduling import Queue as QueueObject
from unisono.api.licenses import asked_for
from unisono.api.resources import resource_list
from unisono.api.selecting import controller_of
from unisono.api.times import parse_time
from unisono.cluster.calendar import CalendarWords
from unisono.cluster.groups import policies_of, wish_of
from unisono.cluster.job_licenses import JobLicenses
from unisono.cluster.promises import owner_of
from unisono.cluster.records import JOB_SUMS, Job, Queue, Task
from unisono.cluster.resources import LARGE, LargeSums, ResourceRegistry, Vector, add, fitted, scheduled
from unisono.cluster.shapes import Shapes
from unisono.cluster.status import (
    ALLOCATED_STATES,
    COMPLETED_STATES,
    ON_NODE_STATES,
    SCHEDULED_STATES,
    STATUS_COUNT,
    TaskStatus,
    count,
)
from unisono.cluster.waiting_jobs import WaitingJobs


def phase_of(counts: list[int], min_member: int, phase: str, releasing: int, *, unschedulable: bool) -> str:
    """Phase of a PodGroup.

    Args:
        counts: tasks by status.
        min_member: gang size.
        phase: present phase.
        releasing: how many of the Releasing tasks have a node.
        unschedulable: the gang was found unschedulable in this very cycle.
    """
    if counts[TaskStatus.RUNNING] and unschedulable:
        return "Unknown"
    holding = count(counts, SCHEDULED_STATES) + releasing
    if holding >= min_member:
        return "Completed" if holding == count(counts, COMPLETED_STATES) else "Running"
    return "Inqueue" if phase == "Inqueue" else "Pending"


def totals_of(counts: list[int]) -> tuple[int, int, int]:
    """(running, succeeded, failed) for the PodGroup's status."""
    return counts[TaskStatus.RUNNING], counts[TaskStatus.SUCCEEDED], counts[TaskStatus.FAILED]


Sums = npt.NDArray[np.int64]
_REMEMBERED = 16
"""Names in minResources up to which they are remembered for the next PodGroup that asks for the same."""

_SUM_NAMES = ("allocated", "request", "inqueue", "promised", "elastic", "standing")


def _note(names: set[Any], name: object, *, there: bool) -> None:
    (names.add if there else names.discard)(name)


class JobBook:
    """All jobs and queues. Events change job records at once; sums over a queue's jobs follow in `refresh`.

    Attributes:
        jobs, queues: by key and by name; see ``known`` of the records.
        active: keys of jobs that a cycle has to look at.
        waiting: the same jobs, by kin.
        shapes: numbers them.
        calendar: who says something of it.
        licenses: what jobs ask for as a whole.
    """

    def __init__(
        self, registry: ResourceRegistry, default_queue: str, is_foreign: Callable[[str], bool] | None = None
    ) -> None:
        """Make an empty book.

        Args:
            registry: resource names.
            default_queue: queue of PodGroups that name none.
            is_foreign: whether all pods of a job are another scheduler's: no cycle looks at it, no queue holds for it.
        """
        self.registry = registry
        self._is_foreign = is_foreign or (lambda _: False)
        self.default_queue = default_queue
        self.jobs: dict[str, Job] = {}
        self.queues: dict[str, Queue] = {}
        self.active: set[str] = set()
        self.waiting = WaitingJobs()
        self.calendar = CalendarWords()
        self.shapes = Shapes()
        self._dirty: set[str] = set()
        self._held: frozenset[str] = frozenset()
        self._share: dict[str, tuple[str, Sums]] = {}
        self._queue_of: dict[str, str] = {}
        self._promises: Mapping[str, Vector] = {}
        self._width = len(registry)
        self._large: LargeSums[tuple[str, str]] = LargeSums()
        self._stale: set[str] = set()
        self.licenses = JobLicenses(registry)

    # ---- tasks

    def add_task(self, task: Task) -> None:
        """Count a task in its job; a job whose PodGroup is not known yet is opened."""
        if not task.job:
            return
        job = self.jobs.get(task.job)
        if job is None:
            namespace, _, name = task.job.partition("/")
            job = self.jobs[task.job] = Job(namespace, name, len(self.registry))
        job.tasks[task.key] = task
        if task.pod_class.notes:
            self._note_words(("Pod", task.key), task.pod_class.notes)
        self._count(job, task, 1)

    def remove_task(self, task: Task) -> None:
        """Take a task out of its job."""
        job = self.jobs.get(task.job)
        if job is None or job.tasks.pop(task.key, None) is None:
            return
        if task.pod_class.notes:
            self._note_words(("Pod", task.key), {})
        self._count(job, task, -1)
        self._drop_if_empty(job)

    def _note_words(self, one: tuple[str, str], said: Mapping[str, str]) -> None:
        _note(self.calendar.reserving, one, there=RESERVATION in said)
        _note(self.calendar.choosing, one, there=ONE_OF in said)

    def touch(self, key: str) -> None:
        """Something about a job's tasks has changed that no count says."""
        self._dirty.add(key)

    def clear_tasks(self) -> None:
        """Take all tasks out of all jobs."""
        self._large = LargeSums()
        for said in (self.calendar.reserving, self.calendar.choosing):
            said.difference_update([one for one in said if one[0] == "Pod"])
        self.licenses.clear()
        for key, job in list(self.jobs.items()):
            job.tasks, job.pending, job.role_counts = {}, {}, {}
            job.counts, job.pending_best_effort, job.releasing_on_node = [0] * STATUS_COUNT, 0, 0
            for name in JOB_SUMS:
                setattr(job, name, self.registry.zeros())
            self._dirty.add(key)
            self._drop_if_empty(job)

    def _count(self, job: Job, task: Task, sign: int) -> None:
        status, vector = task.status, task.pod_class.vector
        job.counts[status] += sign
        if task.role:
            counts = job.role_counts.get(task.role)
            if counts is None:
                counts = job.role_counts[task.role] = [0] * STATUS_COUNT
            counts[status] += sign
            if sign < 0 and not any(counts):
                del job.role_counts[task.role]
        if status is TaskStatus.PENDING:
            if sign > 0:
                job.pending[task.key] = task
            else:
                del job.pending[task.key]
            if task.best_effort:
                job.pending_best_effort += sign
            if task.gated:
                self._add(job, "gated_request", task, sign)
            self._add(job, "request", task, sign)
            if task.scaled:  # a share that is no larger than what it asks for now would keep it from them
                job.request = add(job.request, task.beyond(), sign)
        elif status in ALLOCATED_STATES and not task.owned:
            self._add(job, "elsewhere", task, sign)
        elif status in ALLOCATED_STATES:
            if sign == 1 and len(vector) == len(job.allocated) == len(job.request) and not task.pod_class.large:
                job.allocated += vector  # nearly always
                job.request += vector
            else:
                self._add(job, "allocated", task, sign)
                self._add(job, "request", task, sign)
        if status is TaskStatus.RELEASING and task.node:
            job.releasing_on_node += sign
        self._dirty.add(job.key)

    def _add(self, job: Job, name: str, task: Task, sign: int) -> None:
        """Add a task's request to one of the job's sums, or take it away."""
        vector = task.pod_class.vector
        if task.pod_class.large:
            vector, sign = self._large.move((job.key, name), vector, sign), 1
        setattr(job, name, add(getattr(job, name), vector, sign))

    # ---- PodGroups

    def put_group(self, group: PodGroup) -> bool:
        """Add or change a PodGroup; False when nothing differs."""
        meta = group.metadata
        key = f"{meta.namespace or ''}/{meta.name}"
        given = group.spec.min_resources
        # What may fail comes before anything changes.
        quoted, minimum = (None, None) if given is None else _minimum_of(given)
        licenses = asked_for(meta.annotations)
        topology, sub_groups = wish_of(group.spec.network_topology), policies_of(group.spec.sub_group_policy)
        created = parse_time(meta.creation_timestamp) if meta.creation_timestamp else 0.0
        job = self.jobs.get(key)
        if job is None:
            job = self.jobs[key] = Job(meta.namespace or "", meta.name, len(self.registry))
        before = self._group_facts(job) if job.known and not job.gone else None
        job.known, job.gone = True, False
        job.uid = meta.uid or ""
        job.labels, job.annotations = meta.labels or {}, meta.annotations or {}
        self._note_words(("PodGroup", key), job.annotations)
        job.created, job.owned = created, controller_of(group) is not None
        spec, status = group.spec, group.status
        job.queue = spec.queue or self.default_queue
        job.priority_class = spec.priority_class_name or ""
        job.min_member = spec.min_member or 0
        job.min_task_member = dict(spec.min_task_member or {})
        self.licenses.put(job, licenses)
        minimum = self.licenses.beside(licenses, minimum)
        job.min_resources = None if minimum is None else self.registry.vector(minimum)
        job.min_amounts, job.min_quoted = minimum, quoted
        job.topology, job.sub_groups = topology, sub_groups
        job.phase = status.phase or "Pending"
        job.reported_phase = status.phase or ""
        job.conditions = {
            c.type or "": (c.status or "", c.reason or "", c.message or "") for c in status.conditions or ()
        }
        job.totals = (status.running or 0, status.succeeded or 0, status.failed or 0)
        job.promised = self._promises.get(owner_of(job.namespace, job.labels)) if self._promises else None
        self._enter_queue(job)
        self._dirty.add(key)
        return before != self._group_facts(job)

    @staticmethod
    def _group_facts(job: Job) -> tuple[object, ...]:
        return (
            job.uid,
            job.queue,
            job.priority_class,
            job.min_member,
            job.min_task_member,
            job.min_quoted,
            job.reported_phase,
            job.conditions,
            job.totals,
            job.labels,
            job.annotations,
            job.created,
            job.topology,
            job.sub_groups,
        )

    def remove_group(self, key: str) -> bool:
        """Forget a PodGroup; its pods stay counted in case it comes back.

        While pods hold nodes it is only marked as `Job.gone`. Otherwise deleting a job whose pods take long to end
        would let as much start again beside them, whatever the limits of queue and user.
        """
        job = self.jobs.get(key)
        if job is None or not job.known or job.gone:
            return False
        self._dirty.add(key)
        if _holds_nodes(job):
            job.gone, job.promised = True, None
            job.min_resources = job.min_amounts = None
            job.phase = "Running"
        else:
            self._forget_group(job)
        return True

    def set_aside(self, group: PodGroup) -> bool:
        """Count the pods of a PodGroup that cannot be read, as those of one that has gone; False where they do.

        Else a scheduler that begins would let as much start again beside them.
        """
        meta, spec = group.metadata, group.spec
        job = self.jobs.get(group.key)
        if job is not None and job.known:  # as it was when it could be read
            return False
        notes = {key: text for key, text in (meta.annotations or {}).items() if key == USER}
        meta = msgspec.structs.replace(meta, annotations=notes or None, creation_timestamp=None)
        spec = PodGroupSpec(queue=spec.queue, priority_class_name=spec.priority_class_name)
        self.put_group(PodGroup(metadata=meta, spec=spec, status=PodGroupStatus(phase="Running")))
        self.jobs[group.key].gone = True
        return True

    def _forget_group(self, job: Job) -> None:
        key = job.key
        self._note_words(("PodGroup", key), {})
        self.licenses.put(job, {})
        fresh = Job(job.namespace, job.name, len(self.registry))
        counted = ("tasks", "pending", "pending_best_effort", "counts", "role_counts", "releasing_on_node")
        for name in (*counted, *JOB_SUMS):
            setattr(fresh, name, getattr(job, name))
        self.jobs[key] = fresh
        self._leave_queue(key)
        self._dirty.add(key)
        self._drop_if_empty(fresh)

    def _drop_if_empty(self, job: Job) -> None:
        if not job.known and not job.tasks:
            self.jobs.pop(job.key, None)
            self._dirty.add(job.key)

    def _enter_queue(self, job: Job) -> None:
        if self._queue_of.get(job.key) == job.queue:
            return
        self._leave_queue(job.key)
        self._queue_of[job.key] = job.queue
        self._queue(job.queue).jobs.add(job.key)

    def _leave_queue(self, key: str) -> None:
        name = self._queue_of.pop(key, None)
        if name is not None:
            queue = self.queues[name]
            queue.jobs.discard(key)
            self._withdraw(key)
            if not queue.known and not queue.jobs:
                del self.queues[name]

    def relist(self, names: frozenset[str]) -> None:
        """Lay minResources out again where they name one of these resources, which have rows of their own now."""
        for key, job in self.jobs.items():
            if job.min_amounts is not None and not names.isdisjoint(job.min_amounts):
                job.min_resources = self.registry.vector(job.min_amounts)
                self.licenses.put(job, job.licenses)
                self._dirty.add(key)

    # ---- queues

    def _queue(self, name: str) -> Queue:
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = Queue(name, len(self.registry))
        return queue

    def put_queue(self, obj: QueueObject) -> bool:
        """Add or change a queue; False when nothing differs."""
        meta, spec, status = obj.metadata, obj.spec, obj.status
        facts: dict[str, Any] = {
            "known": True,
            "uid": meta.uid or "",
            "weight": 1 if spec.weight is None else spec.weight,
            "priority": spec.priority or 0,
            "reclaimable": True if spec.reclaimable is None else spec.reclaimable,
            "fifo": spec.dequeue_strategy == "fifo",
            "state": status.state or "",
            "parent": spec.parent or "",
            "created": parse_time(meta.creation_timestamp) if meta.creation_timestamp else 0.0,
            "annotations": meta.annotations or {},
            "affinity": spec.affinity,
            "capability": None if spec.capability is None else scheduled(resource_list(spec.capability)),
            "deserved": None if spec.deserved is None else scheduled(resource_list(spec.deserved)),
            "guarantee": None
            if spec.guarantee is None or spec.guarantee.resource is None
            else scheduled(resource_list(spec.guarantee.resource)),
            "reported": {name: str(value) for name, value in (status.allocated or {}).items()},
        }
        limits = [facts[name] for name in ("capability", "deserved", "guarantee") if facts[name]]
        stated = {name: None for each in limits for name in each}
        said = facts["annotations"]
        _note(self.calendar.idling, meta.name, there=IDLE_GPUS in said)
        _note(self.calendar.limiting, meta.name, there=MAX_RUN_TIME in said or DEFAULT_RUN_TIME in said)
        self.registry.check(stated)
        self.registry.rows(stated)
        queue, changed = self._queue(meta.name), False
        for name, value in facts.items():
            if getattr(queue, name) != value:
                setattr(queue, name, value)
                changed = True
        return changed

    def remove_queue(self, name: str) -> bool:
        """Forget a queue; jobs that name it stay, and wait for it."""
        queue = self.queues.get(name)
        if queue is None or not queue.known:
            return False
        self.calendar.limiting.discard(name)
        del self.queues[name]
        if queue.jobs:
            fresh = self._queue(name)
            fresh.jobs = queue.jobs
            fresh.sums, fresh.exact = queue.sums, queue.exact
        return True

    def hold(self, keys: Collection[str]) -> bool:
        """Exactly these jobs wait after a failed bind; False when that was so already."""
        moved = [key for key in {*keys, *self._held} if (job := self.jobs.get(key)) and job.held != (key in keys)]
        for key in moved:
            self.jobs[key].held = key in keys
            self._dirty.add(key)
        self._held = frozenset(keys)
        return bool(moved)

    def promise(self, amounts: Mapping[str, Vector]) -> None:
        """Exactly these owners (`unisono.cluster.promises.owner_of`) have room kept on nodes for them."""
        before, self._promises = self._promises, amounts
        if not before and not amounts:
            return
        for job in self.jobs.values():
            amount = amounts.get(owner_of(job.namespace, job.labels)) if job.known and not job.gone else None
            if amount is not None or job.promised is not None:
                job.promised = amount
                self._dirty.add(job.key)

    # ---- sums

    def refresh(self) -> None:
        """Bring sums and the active set up to date with the events since the last call."""
        self._widen()
        moved: list[Job] = []
        for key in list(self._dirty):
            job = self.jobs.get(key)
            if job is not None and job.gone and not _holds_nodes(job):
                self._forget_group(job)
        for key in self._dirty:
            job = self.jobs.get(key)
            self._withdraw(key)
            self.waiting.drop(key)
            if job is not None and job.derived:
                job.derived = {}
            if job is None or not job.known or self._is_foreign(key):
                self.active.discard(key)
                continue
            self.licenses.count(job)
            moved.append(job)
            if self.needs_attention(job):
                job.shape, job.kin = self.shapes.of(job)
                self.active.add(key)
                self.waiting.put(job)
            else:
                job.shape = job.kin = 0  # it is not compared while it is left alone
                self.active.discard(key)
        self._dirty.clear()
        if moved:
            self._contribute(moved)
        for name in self._stale:
            queue = self.queues.get(name)
            if queue is not None:
                queue.tell_sums()
        self._stale.clear()

    @staticmethod
    def needs_attention(job: Job) -> bool:
        """Pending tasks, not yet running, or a status that no longer fits the counts."""
        if job.gone:
            return False
        if job.pending or job.phase not in ("Running", "Completed"):
            return True
        expected = phase_of(job.counts, job.min_member, job.phase, job.releasing_on_node, unschedulable=False)
        return expected != job.phase or totals_of(job.counts) != job.totals

    def _withdraw(self, key: str) -> None:
        name, share = self._share.pop(key, ("", None))
        queue = self.queues.get(name)
        if queue is not None and share is not None:
            queue.exact.add(share, -1)
            self._stale.add(name)

    def _contribute(self, jobs: list[Job]) -> None:
        shares = shares_of(jobs, len(self.registry))
        by_queue: dict[str, list[int]] = {}
        for at, (job, share) in enumerate(zip(jobs, shares, strict=True)):
            self._share[job.key] = (job.queue, share)
            by_queue.setdefault(job.queue, []).append(at)
        for name, positions in by_queue.items():
            exact = self.queues[name].exact
            if len(positions) == 1 or shares.max() < LARGE:
                exact.add(shares[positions].sum(axis=0))
            else:
                for at in positions:
                    exact.add(shares[at])
            self._stale.add(name)

    def _widen(self) -> None:
        width = len(self.registry)
        if width == self._width:
            return
        self._width = width
        for queue in self.queues.values():
            queue.widen(width)
        for job in self.jobs.values():
            for name in JOB_SUMS:
                setattr(job, name, fitted(getattr(job, name), width))
            if job.min_resources is not None:
                job.min_resources = fitted(job.min_resources, width)
            if job.license_vector is not None:
                job.license_vector = fitted(job.license_vector, width)


def _holds_nodes(job: Job) -> bool:
    """Whether pods of ours hold a node; those that end do, too."""
    return any(task.owned and task.node and task.status in ON_NODE_STATES for task in job.tasks.values())


def shares_of(jobs: Sequence[Job], width: int) -> Sums:
    """``[J, 6, R]`` what each job adds to the sums of its queue, in the order of ``_SUM_NAMES``."""
    shares = np.zeros((len(jobs), len(_SUM_NAMES), width), dtype=np.int64)
    allocated = shares[:, 0] = np.array([job.allocated for job in jobs])
    shares[:, 1] = [job.allocated if job.held or job.gone else job.request for job in jobs]
    shares[:, 4] = allocated
    stated = [at for at, job in enumerate(jobs) if job.min_resources is not None]
    if not stated:
        return _with_standing(shares, jobs)
    minimum = np.array([jobs[at].min_resources for at in stated])
    shares[stated, 4] = np.maximum(allocated[stated] - minimum, 0)
    counted, promised = [], []
    for row, at in enumerate(stated):
        job = jobs[at]
        if job.held:
            continue
        inqueue = job.phase == "Inqueue"
        if inqueue or (job.phase == "Running" and count(job.counts, ALLOCATED_STATES) >= job.min_member):
            counted.append(row)
            promised.append(inqueue)
    if counted:
        where = np.array(stated)[counted]
        minimum = minimum[counted]
        placed = allocated[where] + np.array([jobs[at].elsewhere for at in where.tolist()])
        rest = np.maximum(minimum - placed, 0)
        shares[where, 2] = np.maximum(rest - np.array([jobs[at].gated_request for at in where.tolist()]), 0)
        shares[where, 3] = np.where(np.array(promised)[:, None], minimum, rest)
    return _with_standing(shares, jobs)


def _with_standing(shares: Sums, jobs: Sequence[Job]) -> Sums:
    """What is kept on nodes for a job is promised to it, whether it is admitted yet or not."""
    for at, job in enumerate(jobs):
        if job.promised is not None:
            standing = shares[at, 5] = fitted(job.promised, shares.shape[2])
            shares[at, 2:4] = np.maximum(shares[at, 2:4], standing)
    return shares


def _minimum_of(given: Mapping[str, Quantity]) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """As `_minimum`, which remembers none that names many resources."""
    compute = _minimum if len(given) <= _REMEMBERED else _minimum.__wrapped__
    return compute(tuple(given.items()))


@lru_cache(maxsize=4096)
def _minimum(given: tuple[tuple[str, Quantity], ...]) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Stated minResources in engine units, and those that scheduling counts; many PodGroups ask for the same."""
    quoted = resource_list(dict(given))
    return quoted, scheduled(quoted)
