"""capacity: each queue has a share in plain amounts, may borrow what is free, and gives it back on demand.

``deserved`` is what a queue can always take back, ``guarantee`` what no other queue may use, ``capability`` what it
never exceeds. With ``enableHierarchy`` queues form a tree: see `queue_tree`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import Vector
from unisono.engine.answers import BoolArray, Key, Purpose, Refusal, Vote
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.capacity.devices import DeviceQuotas
from unisono.engine.plugins.capacity.reclaim import Demand, Reclaim, demand_of, levels
from unisono.engine.plugins.capacity.tree import Branch, Branches
from unisono.engine.queue_metrics import ShareMetrics
from unisono.engine.session.amounts import UNLIMITED, Amounts, exceeded, listed, named, text
from unisono.engine.verdict import Cause

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState, QueueState
    from unisono.engine.session.session import Session
    from unisono.engine.session.victims import VictimJobs

_LEVEL = Argument(
    "ancestorReclaimLevel", "int", 0, "how many ancestors must be over their share, too, before a queue gives back"
)
_DEVICES = Argument(
    "capacity.DynamicResourceAllocationEnable", "bool", True, "quotas on devices of resource claims (`deviceclass/...`)"
)
_CONSUMABLE = Argument(
    "capacity.DRAConsumableCapacityEnable", "bool", False, "also on what such devices share out (`DIM.deviceclass/...`)"
)
_GANG = (Purpose.GANG_PREEMPT, Purpose.GANG_RECLAIM)


class QueueCapacity(Plugin):
    """Sharing among queues by amounts."""

    name = "capacity"
    protects = True
    known_arguments = (_LEVEL, _DEVICES, _CONSUMABLE)
    hierarchical: ClassVar[bool] = False

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.level = max(int(argument_value(_LEVEL, self.arguments)), 0)

    def open(self, session: Session) -> None:
        """Work out limits and shares of every queue."""
        self.session = session
        self.registry = session.registry
        self.branches = Branches(session, hierarchical=self.hierarchical)
        self._demands: dict[int, Demand] = {}
        self.devices: DeviceQuotas | None = None
        if argument_value(_DEVICES, self.arguments):
            consumable = bool(argument_value(_CONSUMABLE, self.arguments))
            self.devices = DeviceQuotas(session, self.branches, consumable=consumable)
        told = session.book.shares
        told.plugin, told.room_of, told.metrics_of = self.name, self._room, self._figures

    def _figures(self, queue: QueueState) -> ShareMetrics:
        """For metrics."""
        branch = self.branches[queue.name]
        promised = listed(self.session.book.promised(queue.name), self.registry)
        return ShareMetrics(branch.deserved, branch.admission, promised, branch.share, branch.beyond_share)

    def _room(self, queue: QueueState) -> Vector | None:
        """What the queue and its ancestors let it still place."""
        chain = list(self.branches[queue.name].chain())
        rows = zip(*(zip(branch.ceiling, branch.held, strict=True) for branch in chain), strict=True)
        return np.array([max(min(limit - held for limit, held in row), 0) for row in rows], dtype=np.int64)

    def _demand(self, pod_class: PodClass) -> Demand:
        demand = self._demands.get(pod_class.id)
        if demand is None:
            demand = self._demands[pod_class.id] = demand_of(pod_class)
        return demand

    # ---- orders

    def queue_key(self, queue: QueueState) -> Key:
        """Higher ``spec.priority`` first, then the smaller share of what is deserved, then who deserves anything."""
        branch = self.branches[queue.name]
        return -queue.record.priority, branch.share, not any(branch.deserved)

    # ---- admission

    def enqueueable(self, job: JobState) -> Vote | Refusal:
        """Permit while minResources fit beside what the queue and its ancestors hold and have promised."""
        refusal = self._unusable(job.queue)
        if refusal is not None:
            return refusal
        if job.asks is None:
            return Vote.PERMIT
        request = listed(job.asks, self.registry)
        for branch in self.branches[job.queue.name].chain():
            beside = self.session.book.taken(branch.members)
            taken = [held + more for held, more in zip(branch.held, beside, strict=True)]
            short = exceeded(taken, request, branch.admission)
            if short:
                return self._not_admitted(request, taken, branch, short)
        found = self.devices.not_admitted(job) if self.devices is not None else None
        if found is not None:
            text = "queue resource quota insufficient: insufficient dra-resource-exceeded"
            return Refusal(f"{text} ({found[1]} of queue {found[0].name})", Cause.OVER_CAPABILITY, event=True)
        return Vote.PERMIT

    def _not_admitted(self, request: Amounts, taken: Amounts, branch: Branch, short: list[int]) -> Refusal:
        names = ", ".join(f"insufficient {self.registry.names[row]}" for row in short)
        return Refusal(
            f"queue resource quota insufficient: {names}",
            Cause.OVER_CAPABILITY,
            need=named(self.registry, request, short),
            have=named(self.registry, taken, short),
            limit=named(self.registry, branch.admission, short),
            event=True,
            owner=branch.name,
        )

    # ---- quota

    def allocatable(self, queue: QueueState, pod_class: PodClass) -> Refusal | None:
        """Refused when the task would take the queue or an ancestor over what it may hold."""
        refusal = self._unusable(queue)
        if refusal is not None:
            return refusal
        request = listed(pod_class.vector, self.registry)
        for branch in self.branches[queue.name].chain():
            refusal = self._over(branch, request)
            if refusal is not None:
                return refusal
        found = self.devices.over(self.branches[queue.name], pod_class.devices) if self.devices is not None else None
        if found is None:
            return None
        branch, name = found
        return Refusal(f"queue {branch.name} has no {name} left for the claims of the pod", Cause.OVER_CAPABILITY)

    def headroom(self, queue: QueueState, pod_class: PodClass) -> int:
        """Tasks of the class for which the queue and its ancestors have room."""
        branch = self.branches[queue.name]
        if not queue.open or branch.fault or branch.children:
            return 0
        room = UNLIMITED
        for row, need in self._demand(pod_class):
            room = min(room, *((one.ceiling[row] - one.held[row]) // need for one in branch.chain()))
        if self.devices is not None and self.devices.concerns(pod_class):
            room = min(room, int(self.devices.over(branch, pod_class.devices) is None))
        return max(room, 0)

    def preemptive(self, queue: QueueState, classes: Sequence[PodClass]) -> Refusal | None:
        """Resources may be taken from others while the queue stays within its share of one that is asked for.

        With ``ancestorReclaimLevel`` the share of an ancestor is enough.
        """
        refusal = self._unusable(queue)
        if refusal is not None:
            return refusal
        branch = self.branches[queue.name]
        request = [0] * self.branches.width
        for pod_class in classes:
            for row, amount in self._demand(pod_class):
                request[row] += amount
        refusal = self._over(branch, request)
        if refusal is not None:
            return refusal
        if self._within_share(branch, request):
            return None
        for above in levels(branch, self.level):
            if self._over(above, request) is None and self._within_share(above, request):
                return None
        rows = [row for row, amount in enumerate(request) if amount]
        return Refusal(
            f"queue {queue.name} deserves {text(self.registry, branch.deserved, rows) or 'nothing'} and holds "
            f"{text(self.registry, branch.held, rows)}; it cannot take back {text(self.registry, request, rows)}",
            Cause.OVER_SHARE,
            need=named(self.registry, request, rows),
            have=named(self.registry, branch.held, rows),
            limit=named(self.registry, branch.deserved, rows),
        )

    @staticmethod
    def _within_share(branch: Branch, request: Amounts) -> bool:
        parts = zip(branch.held, request, branch.deserved, strict=True)
        return any(held + more <= share for held, more, share in parts if more)

    def _over(self, branch: Branch, request: Amounts) -> Refusal | None:
        short = exceeded(branch.held, request, branch.ceiling)
        if not short:
            return None
        return Refusal(
            f"queue {branch.name} may hold {text(self.registry, branch.ceiling, short)} and holds "
            f"{text(self.registry, branch.held, short)}; {text(self.registry, request, short)} more is asked for",
            Cause.OVER_CAPABILITY,
            need=named(self.registry, request, short),
            have=named(self.registry, branch.held, short),
            limit=named(self.registry, branch.ceiling, short),
            owner=branch.name,
        )

    def _unusable(self, queue: QueueState) -> Refusal | None:
        """Closed queues, and those whose place in the tree lets nothing run in them."""
        if not queue.open:
            state = queue.record.state or "not yet open"
            return Refusal(
                f"queue {queue.name} is not open (state {state}): a closed queue admits and places nothing",
                Cause.QUEUE_CLOSED,
            )
        branch = self.branches[queue.name]
        if branch.fault:
            return Refusal(f"queue {queue.name} cannot be used: {branch.fault}", Cause.QUEUE_INVALID)
        if branch.children:
            below = ", ".join(sorted(child.name for child in branch.children)[:3])
            return Refusal(
                f"queue {queue.name} has queues below it ({below}); submit to one of those", Cause.QUEUE_INVALID
            )
        return None

    # ---- victims

    def victim_jobs(self, actor: JobState, task: Task | None, jobs: VictimJobs, purpose: Purpose) -> BoolArray | None:
        """Jobs of queues that hold something they do not deserve."""
        if purpose is not Purpose.RECLAIM:
            return None
        beyond = [self.branches[queue.name].beyond_share for queue in jobs.queues]
        return np.array(beyond, dtype=np.bool_)[jobs.queue]

    def victims(
        self, actor: JobState, task: Task | None, candidates: Sequence[Task], purpose: Purpose
    ) -> BoolArray | None:
        """Tasks of queues that hold more than they deserve of what the task asks for, down to their guarantee."""
        if purpose is Purpose.GANG_PREEMPT:
            return np.ones(len(candidates), dtype=np.bool_)
        if purpose not in (Purpose.RECLAIM, Purpose.GANG_RECLAIM):
            return None
        wanted = self._demand(task.pod_class) if task is not None else None
        level = 0 if purpose in _GANG else self.level
        reclaim = Reclaim(self.branches[actor.queue.name], wanted, level)
        chosen = np.zeros(len(candidates), dtype=np.bool_)
        for index, other in enumerate(candidates):
            job = self.session.job(other.job)
            if job is not None:
                chosen[index] = reclaim.takes(self.branches[job.queue.name], self._demand(other.pod_class))
        return chosen

    # ---- events

    def placed(self, job: JobState, pod_class: PodClass, nodes: Sequence[int]) -> None:
        """The queue and its ancestors hold that much more."""
        self._book(job, pod_class, len(nodes))

    def removed(self, job: JobState, pod_class: PodClass, nodes: Sequence[int]) -> None:
        """And that much less."""
        self._book(job, pod_class, -len(nodes))

    def _book(self, job: JobState, pod_class: PodClass, number: int) -> None:
        branch = self.branches[job.queue.name]
        branch.move(pod_class.rows.tolist(), [amount * number for amount in pod_class.amounts.tolist()])
        if self.devices is not None and self.devices.concerns(pod_class):
            self.devices.use(branch, pod_class.devices, number)
