"""capacity: what each queue deserves, is guaranteed and may have at most, in plain amounts, also as a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import PODS, Vector
from unisono.engine.answers import BoolArray, Key, Purpose, Reach, Refusal, Vote
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.decisions import ShareMetrics
from unisono.engine.plugins.capacity.tree import ROOT, Branch, Branches, DeviceQuotas
from unisono.engine.session.floating import GangLicenses
from unisono.engine.session.limit import UNLIMITED, Amounts, Excess, exceeded, listed, text
from unisono.engine.verdict import Cause

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState, QueueState
    from unisono.engine.session.session import Session
    from unisono.engine.session.victims import VictimJobs

# Whose tasks the capacity plug-in lets go when a queue takes back what it deserves.

Demand = list[tuple[int, int]]
"""(row, amount) of what a task asks for, without ``pods``."""


def demand_of(pod_class: PodClass) -> Demand:
    """What a task of the class asks for."""
    pairs = zip(pod_class.rows.tolist(), pod_class.amounts.tolist(), strict=True)
    return [pair for pair in pairs if pair[0] != PODS]


def levels(branch: Branch, level: int) -> list[Branch]:
    """The ancestors below the root, nearest first, at most ``level`` of them."""
    above = [ancestor for ancestor in branch.chain() if ancestor is not branch and ancestor.name != ROOT]
    return above[:level]


class Reclaim:
    """Candidates one after the other; each one that is let go counts as gone for the next.

    Args:
        actor: branch of the queue that takes.
        wanted: what its task asks for, None for a whole gang.
        level: up to which ancestor a branch must be over its share as well.
    """

    def __init__(self, actor: Branch, wanted: Demand | None, level: int) -> None:
        self.actor = actor
        self.wanted = None if wanted is None else {row for row, _ in wanted}
        self.level = level
        self.shared = {id(branch) for branch in actor.chain()}
        self._near = {branch.name for branch in levels(actor, level)}
        self._gone: dict[str, Amounts] = {}

    def takes(self, branch: Branch, demand: Demand) -> bool:
        """Whether a task of ``branch`` that holds ``demand`` may go; if so it is gone from now on."""
        rows = [row for row, _ in demand]
        if self.wanted is not None and not any(row in self.wanted for row in rows):
            return False
        apart = [one for one in branch.chain() if id(one) not in self.shared]
        if not all(self._keeps_guarantee(one, demand) for one in apart):
            return False
        if not self._over(branch, rows, leaf=True):
            return False
        if not all(self._over(one, rows) for one in levels(branch, self.level) if id(one) not in self.shared):
            return False
        for one in branch.chain():
            held = self._held(one)
            for row, amount in demand:
                held[row] -= amount
        return True

    def _held(self, branch: Branch) -> Amounts:
        return self._gone.setdefault(branch.name, list(branch.held))

    def _keeps_guarantee(self, branch: Branch, demand: Demand) -> bool:
        left = list(self._held(branch))
        for row, amount in demand:
            left[row] -= amount
        return all(own <= rest for own, rest in zip(branch.guarantee, left, strict=True) if own)

    def _over(self, branch: Branch, rows: Sequence[int], *, leaf: bool = False) -> bool:
        """It deserves none of the task's resources, or holds more than it deserves of one of them."""
        deserved, held = branch.deserved, self._held(branch)
        relevant = [row for row in rows if deserved[row] > 0]
        if not relevant:
            return not (leaf and self._protected(branch, rows))
        return any(held[row] > deserved[row] for row in relevant)

    def _protected(self, branch: Branch, rows: Sequence[int]) -> bool:
        """Two queues without a share of their own below one ancestor do not take from each other."""
        if not self._near & {one.name for one in levels(branch, self.level)}:
            return False
        return not any(self.actor.deserved[row] > 0 for row in rows)


# capacity: each queue has a share in plain amounts, may borrow what is free, and gives it back on demand.
#
# ``deserved`` is what a queue can always take back, ``guarantee`` what no other queue may use, ``capability`` what it
# never exceeds. With ``enableHierarchy`` queues form a tree: see `queue_tree`.

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
    divides = True
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
        share_book = session.book.shares
        share_book.plugin, share_book.room_of, share_book.metrics_of = self.name, self._room, self._figures
        share_book.outgrown.append(self._outgrown)

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

    def _outgrown(self, queue: QueueState, lost: Amounts) -> bool:
        """Whether the queue or an ancestor holds more than it might if what is ``lost`` were not there."""
        rows = [row for row, amount in enumerate(lost) if amount]
        if not rows:
            return False
        total = listed(self.session.sharable_total, self.registry)
        after = self.branches.ceilings([max(there - gone, 0) for there, gone in zip(total, lost, strict=True)])
        return any(
            after[one.name][row] < one.held[row] <= one.ceiling[row]
            for one in self.branches[queue.name].chain()
            if one.name in after
            for row in rows
        )

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
        device_excess = self.devices.not_admitted(job) if self.devices is not None else None
        if device_excess is not None:
            text = "queue resource quota insufficient: insufficient dra-resource-exceeded"
            return Refusal(
                f"{text} ({device_excess[1]} of queue {device_excess[0].name})", Cause.OVER_CAPABILITY, event=True
            )
        return Vote.PERMIT

    def _not_admitted(self, request: Amounts, taken: Amounts, branch: Branch, short: list[int]) -> Refusal:
        excess = Excess(self.registry, short, request, taken, branch.admission)
        message = f"queue resource quota insufficient: {excess.names('insufficient')}"
        return excess.refusal(message, Cause.OVER_CAPABILITY, event=True, owner=branch.name)

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
        device_excess = (
            self.devices.over(self.branches[queue.name], pod_class.devices) if self.devices is not None else None
        )
        if device_excess is None:
            return None
        branch, name = device_excess
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
        message = (
            f"queue {queue.name} deserves {text(self.registry, branch.deserved, rows) or 'nothing'} and holds "
            f"{text(self.registry, branch.held, rows)}; it cannot take back {text(self.registry, request, rows)}"
        )
        return Excess(self.registry, rows, request, branch.held, branch.deserved).refusal(message, Cause.OVER_SHARE)

    @staticmethod
    def _within_share(branch: Branch, request: Amounts) -> bool:
        parts = zip(branch.held, request, branch.deserved, strict=True)
        return any(held + more <= share for held, more, share in parts if more)

    def _over(self, branch: Branch, request: Amounts) -> Refusal | None:
        short = exceeded(branch.held, request, branch.ceiling)
        if not short:
            return None
        return Excess(self.registry, short, request, branch.held, branch.ceiling).full(branch.name, owner=branch.name)

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
        demand = self._demand(task.pod_class) if task is not None else None
        level = 0 if purpose in _GANG else self.level
        reclaim = Reclaim(self.branches[actor.queue.name], demand, level)
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
        for limit in job.account_limits:
            if isinstance(limit, GangLicenses) and limit.moved:  # what comes with its first pod, and goes with its last
                branch.move(list(range(len(limit.vector))), (limit.vector * np.int64(limit.moved)).tolist())
        if self.devices is not None and self.devices.concerns(pod_class):
            self.devices.use(branch, pod_class.devices, number)


# capacity over a tree of queues: limits and shares hold at every level, and only leaves run jobs.


class QueueTreeCapacity(QueueCapacity):
    """As `QueueCapacity`, with ``spec.parent``."""

    order_reach = Reach.CLUSTER
    hierarchical = True

    def queue_key(self, queue: QueueState) -> Key:
        """Higher ``spec.priority`` first, leaves first, then branch against branch from the root down.

        Two queues are told apart by their ancestors just below the deepest common one: by shares, and where these are
        equal by age and name, so that neither a short path is an advantage nor what they hold further down counts.
        """
        branch = self.branches[queue.name]
        path = [(one.share, not any(one.deserved), one.created, one.name) for one in branch.chain()]
        return -queue.record.priority, bool(branch.children), tuple(reversed(path))

    def victim_queue_key(self, queue: QueueState, actor: QueueState) -> Key:
        """Queues with the deeper common ancestor give first: a family settles its own affairs."""
        ours = {id(one) for one in self.branches[actor.name].chain()}
        return -sum(id(one) in ours for one in self.branches[queue.name].chain())


# capacity: shares of queues in plain amounts; with ``enableHierarchy`` over a tree of queues.


class CapacityPlugin(QueueCapacity):
    """The plug-in that a configuration names ``capacity``."""

    def __new__(cls, config: PluginConfig) -> Self:
        """With ``enableHierarchy`` the plug-in that knows trees of queues."""
        chosen: type = _WithQueueTree if cls is CapacityPlugin and config.flags.hierarchy else cls
        made: Self = object.__new__(chosen)
        return made


class _WithQueueTree(QueueTreeCapacity, CapacityPlugin):
    """What ``enableHierarchy`` makes of the plug-in."""
