"""Quotas on devices that pods get through resource claims (dynamic resource allocation).

A queue's capability may name ``deviceclass/CLASS``, the number of devices of a class, and ``DIM.deviceclass/CLASS``, an
amount of one dimension that such devices share out. A claim that several pods of a queue use counts once. Claims for
all devices of a node, or for the first available of several, are not counted: what they take is known only afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from unisono.api.quantity import to_milli
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Job, Task
from unisono.cluster.status import ALLOCATED_STATES
from unisono.engine.plugins.capacity.tree import Branch, Branches

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session

MARK = "deviceclass/"
Demand = Counter[str]
"""Amounts by quota name, in milli-units."""


class DeviceQuotas:
    """What queues hold and may hold of devices; empty, and without cost, where no queue limits any.

    Args:
        session: the session, at its opening.
        branches: the queues.
        consumable: whether amounts that devices share out are counted, too.

    """

    def __init__(self, session: Session, branches: Branches, *, consumable: bool) -> None:
        self.session = session
        self.branches = branches
        self.consumable = consumable
        self.limits: dict[str, dict[str, int]] = {}
        for name, branch in branches.items():
            capability = branch.queue.record.capability if branch.queue is not None else None
            limits = {key: amount for key, amount in (capability or {}).items() if self._counts(key)}
            if limits:
                self.limits[name] = limits
        self._users: dict[str, Counter[str]] = {name: Counter() for name in self.limits}
        self._held: dict[str, Demand] = {name: Counter() for name in self.limits}
        self._promised: Mapping[str, Demand] = {}
        if self.limits:
            self._promised = session.book.counted(self._queue, self._missing)
            self._count()

    def _counts(self, key: str) -> bool:
        return key.startswith(MARK) or (self.consumable and f".{MARK}" in key)

    def _count(self) -> None:
        """What runs."""
        for task in self.session.snapshot.tasks.values():
            if task.pod_class.devices and task.status in ALLOCATED_STATES and task.job:
                job = self.session.job(task.job)
                if job is not None:
                    self.use(self.branches[job.queue.name], task.pod_class.devices, 1)

    # ---- demands

    def _of(self, claims: Iterable[str]) -> Demand:
        total: Demand = Counter()
        for claim in claims:
            total.update(self._asked(claim))
        return total

    def _asked(self, claim: str) -> Demand:
        """What one claim asks for; nothing while it does not exist."""
        found = self.session.snapshot.catalogue.device_claims.get(claim)
        asked: Demand = Counter()
        for request in (found.spec.devices.requests or ()) if found is not None else ():
            exact = request.exactly
            if exact is None or exact.allocation_mode == "All":
                continue
            number = 1 if exact.count is None else exact.count
            asked[f"{MARK}{exact.device_class_name}"] += 1000 * number
            shared = exact.capacity.requests if exact.capacity is not None else None
            for dimension, amount in (shared or {}).items():
                asked[f"{dimension}.{MARK}{exact.device_class_name}"] += to_milli(amount) * number
        return asked

    def _of_job(self, job: Job) -> Demand:
        """What the gang asks for: per role its minimum, else as many pods with claims as ``minMember``, by name."""
        tasks = sorted((task for task in job.tasks.values() if task.pod_class.devices), key=_by_name)
        total: Demand = Counter()
        for task, number in _members(job, tasks):
            for name, amount in self._of(task.pod_class.devices).items():
                total[name] += amount * number
        return total

    def _queue(self, job: Job) -> str | None:
        return job.queue if job.queue in self.branches else None

    def _missing(self, job: Job) -> Demand:
        """What an admitted job needs and does not hold yet."""
        wanted = self._of_job(job)
        tasks = (task for task in job.tasks.values() if task.status in ALLOCATED_STATES) if wanted else ()
        return wanted - self._of({claim: None for task in tasks for claim in task.pod_class.devices})

    # ---- questions

    def over(self, branch: Branch, claims: Sequence[str]) -> tuple[Branch, str] | None:
        """The branch of the chain, and the quota in it, that claims which no pod there uses yet would exceed."""
        for one in branch.chain() if self.limits and claims else ():
            if one.name in self.limits:
                users = self._users[one.name]
                wanted = self._of(claim for claim in claims if not users[claim])
                name = _first_over(self.limits[one.name], [self._held[one.name], wanted], wanted)
                if name:
                    return one, name
        return None

    def not_admitted(self, job: JobState) -> tuple[Branch, str] | None:
        """The same for all that a job needs, beside what has been promised."""
        wanted = self._of_job(job.record) if self.limits else Counter()
        for branch in self.branches[job.queue.name].chain() if wanted else ():
            if branch.name in self.limits:
                promised = [self._promised[name] for name in branch.members if name in self._promised]
                parts = [self._held[branch.name], *promised, wanted]
                name = _first_over(self.limits[branch.name], parts, wanted)
                if name:
                    return branch, name
        return None

    # ---- bookkeeping

    def use(self, branch: Branch, claims: Sequence[str], number: int) -> None:
        """``number`` more pods (or fewer) of a queue use these claims."""
        for one in branch.chain():
            if one.name not in self.limits:
                continue
            users, held = self._users[one.name], self._held[one.name]
            for claim in claims:
                before = users[claim] > 0
                users[claim] += number
                after = users[claim] > 0
                if before != after:
                    for name, amount in self._asked(claim).items():
                        held[name] += amount if after else -amount

    def concerns(self, pod_class: PodClass) -> bool:
        """Whether pods of the class are to be looked at one by one."""
        return bool(self.limits) and bool(pod_class.devices)


def _by_name(task: Task) -> tuple[str, int, str]:
    return task.role, task.ordinal, task.name


def _members(job: Job, tasks: Sequence[Task]) -> Iterator[tuple[Task, int]]:
    if not job.min_task_member:
        yield from ((task, 1) for task in tasks[: job.min_member])
        return
    for role, number in job.min_task_member.items():
        first = next((task for task in tasks if task.role == role), None)
        if first is not None:
            yield first, number


def _first_over(limits: Mapping[str, int], parts: Sequence[Demand], wanted: Demand) -> str:
    """First name that is wanted and of which all parts together exceed the limit; ``""`` when none is."""
    for name, limit in limits.items():
        if wanted[name] > 0 and sum(part[name] for part in parts) > limit:
            return name
    return ""
