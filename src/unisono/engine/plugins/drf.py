"""drf: dominant resource fairness among jobs, and among queues that form a tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from unisono.api.keys import HIERARCHY, HIERARCHY_WEIGHTS
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import Vector
from unisono.engine.answers import BoolArray, FloatArray, Key, Purpose, Reach
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.session.job_state import JobState
from unisono.engine.session.limit import aligned, dominant_share, listed, share_asked_for

if TYPE_CHECKING:
    from unisono.engine.session.job_state import QueueState
    from unisono.engine.session.session import Session
    from unisono.engine.session.victims import VictimJobs

# drf among jobs: the order of jobs by dominant share, and who may be preempted by it.

DELTA = 1e-6
"""Shares closer than this count as equal when victims are chosen."""


class JobDrf(Plugin):
    """Serves the job with the smallest dominant share first.

    The share is the largest part of any resource of the cluster (``pods`` included) that the job holds or was promised.
    """

    name = "drf"
    by_shape = True

    def open(self, session: Session) -> None:
        """Measure the cluster once."""
        self.session = session
        self._shares: tuple[VictimJobs, FloatArray] | None = None
        self.total = listed(session.sharable_total, session.registry)

    def job_key(self, job: JobState) -> Key:
        """The dominant share."""
        return 0.0 if job.holds_nothing else dominant_share(listed(job.claimed, self.session.registry), self.total)

    def victim_jobs(self, actor: JobState, task: Task | None, jobs: VictimJobs, purpose: Purpose) -> BoolArray | None:
        """Jobs whose share was not smaller than the actor's with its task before anything was taken from them."""
        if purpose is not Purpose.PREEMPT or task is None:
            return None
        registry = self.session.registry
        with_task = aligned(actor.claimed, registry) + aligned(task.pod_class.vector, registry)
        mine = dominant_share(with_task.tolist(), self.total)
        if self._shares is None or self._shares[0] is not jobs:
            shares = [dominant_share(listed(job.claimed, registry), self.total) for job in jobs.states]
            self._shares = jobs, np.array(shares, dtype=np.float64)
        return np.asarray(self._shares[1] >= mine - DELTA)

    def victims(
        self, actor: JobState, task: Task | None, candidates: Sequence[Task], purpose: Purpose
    ) -> BoolArray | None:
        """Tasks whose job would, without them, still have no smaller share than the actor with its task."""
        if purpose is not Purpose.PREEMPT or task is None:
            return None
        registry = self.session.registry
        with_task = aligned(actor.claimed, registry) + aligned(task.pod_class.vector, registry)
        mine = dominant_share(with_task.tolist(), self.total)
        rest: dict[str, Vector] = {}
        chosen = np.zeros(len(candidates), dtype=np.bool_)
        for index, other in enumerate(candidates):
            job = self.session.job(other.job)
            if job is None:
                continue
            held = rest.get(other.job)
            if held is None:
                held = aligned(job.claimed, registry)
            rest[other.job] = held = held - aligned(other.pod_class.vector, registry)
            theirs = dominant_share(held.tolist(), self.total)
            chosen[index] = mine < theirs or abs(mine - theirs) <= DELTA
        return chosen


# drf with ``drf.namespaceOrder``: within a queue, the namespaces take turns by dominant share.
#
# Start-time fair queueing (Goyal, Vin and Cheng, 1996): a job's turn is what its namespace holds of the cluster in the
# queue, plus what the jobs of the namespace before it ask for. So the first job of a namespace that holds nothing comes
# before the second one of any other, however many jobs that one has submitted.

_Line = tuple[str, str]
"""A queue and a namespace."""


class NamespaceDrf(JobDrf):
    """Orders jobs by the turn of their namespace, then by their own share."""

    by_shape = False

    def job_key(self, job: JobState) -> Key:
        """The turn as of the beginning of the cycle, and the share of the job."""
        turn = self._turns.get(job.key)
        if turn is None:  # the job waits for nothing
            turn = self._held.get((job.queue.name, job.namespace), 0.0)
        return turn, super().job_key(job)

    @cached_property
    def _held(self) -> dict[_Line, float]:
        """The dominant share of what each namespace holds in a queue."""
        registry = self.session.registry
        sums: dict[_Line, np.ndarray[tuple[int, ...], np.dtype[np.int64]]] = defaultdict(registry.zeros)
        for record in self.session.snapshot.jobs.values():
            sums[record.queue, record.namespace] += aligned(record.allocated, registry)
        return {line: dominant_share(held.tolist(), self.total) for line, held in sums.items()}

    @cached_property
    def _turns(self) -> dict[str, float]:
        """The turn of each job that waits, by key; within a namespace by priority, then age."""
        ahead, turns = dict(self._held), dict[str, float]()
        for job in sorted(self.session.active, key=lambda job: (-job.priority, job.created, job.key)):
            line = job.queue.name, job.namespace
            turns[job.key] = ahead.get(line, 0.0)
            ahead[line] = turns[job.key] + share_asked_for(job.record, self.session.registry, self.total)
        return turns


# Hierarchical dominant resource fairness (HDRF, Bhattacharya et al., SoCC 2013) as Volcano computes it.
#
# Inner nodes are the steps of the queues' paths, leaves are jobs. All vectors are float64 ``[R]`` in engine units,
# because an inner node's allocation is a scaled sum.

Amounts = npt.NDArray[np.float64]


class Node:
    """One step of a path, or a job.

    Attributes:
        weight: at least 1.
        allocated: of a leaf what its job holds; of an inner node the scaled sum over its children.
        share: dominant share of ``allocated``.
        saturated: a leaf that has all it asked for of some resource, or asks for one that is used up; an inner node
            whose children all are.
        request: what a leaf's job asks for in all.
    """

    __slots__ = ("allocated", "children", "request", "saturated", "share", "weight")

    def __init__(self, weight: float, size: int) -> None:
        self.weight = weight
        self.allocated: Amounts = np.zeros(size)
        self.request: Amounts | None = None
        self.share = 0.0
        self.saturated = False
        self.children: dict[str, Node] = {}


class Tree:
    """The queues' tree over a cluster of ``total``."""

    def __init__(self, total: Amounts) -> None:
        self.total = total
        self.root = Node(1.0, len(total))

    def put(self, path: Sequence[str], weights: Sequence[float], job: str, held: Amounts, request: Amounts) -> None:
        """Add a job, or replace what it holds; the first entry of ``path`` is the root itself."""
        node = self.root
        for depth, step in enumerate(path[1:], start=1):
            child = node.children.get(step)
            if child is None:
                weight = weights[depth] if depth < len(weights) else 1.0
                child = node.children[step] = Node(weight, len(self.total))
            node = child
        key = f"job {job}"  # no step of a path has a space
        leaf = node.children.setdefault(key, Node(1.0, len(self.total)))
        leaf.allocated, leaf.request = held, request
        leaf.share = self._share(held)

    def update(self, held: Amounts) -> None:
        """Compute shares and saturation of every node; ``held`` is what all jobs together hold."""
        self._update(self.root, held < self.total)

    def key(self, path: Sequence[str]) -> tuple[tuple[bool, float], ...]:
        """Sort key of a queue: unsaturated before saturated, then share by weight, level by level from the root."""
        keys: list[tuple[bool, float]] = []
        node: Node | None = self.root
        for step in (*path[1:], None):
            if node is None:
                break
            keys.append((node.saturated, node.share / node.weight))
            node = node.children.get(step) if step is not None else None
        return tuple(keys)

    def _share(self, held: Amounts) -> float:
        present = self.total > 0
        return float((held[present] / self.total[present]).max(initial=0.0))

    def _update(self, node: Node, demanding: npt.NDArray[np.bool_]) -> None:
        if node.request is not None:
            asked = (node.allocated > 0) & (node.request > 0)
            node.saturated = bool((asked & ((node.allocated >= node.request) | ~demanding)).any())
            return
        for child in node.children.values():
            self._update(child, demanding)
        holding = [child for child in node.children.values() if child.share != 0]
        smallest = min((child.share for child in holding if not child.saturated), default=1.0)
        smallest = min(smallest, 1.0)
        node.allocated = np.zeros(len(self.total))
        for child in holding:
            node.allocated += child.allocated * (1.0 if child.saturated else smallest / child.share)
        node.share = self._share(node.allocated)
        node.saturated = all(child.saturated for child in node.children.values())


def path_of(annotations: Mapping[str, str]) -> tuple[list[str], list[float]]:
    """Path and weights of a queue; weights below 1, missing or unreadable count as 1."""
    path = annotations.get(HIERARCHY, "").split("/")
    return path, list(_weights(annotations.get(HIERARCHY_WEIGHTS, "").split("/")))


def _weights(texts: Iterable[str]) -> Iterable[float]:
    for text in texts:
        try:
            weight = float(text)
        except ValueError:
            weight = 1.0
        yield weight if weight >= 1.0 else 1.0  # NaN counts as 1 as well


class QueueTreeDrf(JobDrf):
    """Adds the order of queues by the tree of their annotations, and reclaiming along it."""

    order_reach = Reach.CLUSTER

    def open(self, session: Session) -> None:
        """Build the tree from every job's queue."""
        super().open(session)
        self.paths = {name: path_of(queue.record.annotations) for name, queue in session.queues.items()}
        self.depth = max((len(path) for path, _ in self.paths.values()), default=0)
        self.tree = Tree(np.array(self.total, dtype=np.float64))
        self.held: Amounts = np.zeros(len(self.total))
        self.leaves: dict[str, Amounts] = {}
        for job in session.jobs:
            self._put(job, self._claimed(job))
        self.stale = True

    def _claimed(self, job: JobState) -> Amounts:
        return aligned(job.claimed, self.session.registry).astype(np.float64)

    def _put(self, job: JobState, held: Amounts) -> None:
        path, weights = self.paths[job.queue.name]
        request = aligned(job.record.request, self.session.registry).astype(np.float64)
        self.held += held - self.leaves.get(job.key, 0.0)
        self.leaves[job.key] = held
        self.tree.put(path, weights, job.key, held, request)
        self.stale = True

    def _settle(self) -> None:
        if self.stale:
            self.tree.update(self.held)
            self.stale = False

    def queue_key(self, queue: QueueState) -> Key:
        """Along the path from the root: unsaturated first, then the smaller share by weight.

        Below the end of its path a queue counts as one that holds nothing: among branches that are equal so far a
        short path is no advantage, and the order of queues decides.
        """
        self._settle()
        key = self.tree.key(self.paths[queue.name][0])
        return (*key, *[(False, 0.0)] * (self.depth - len(key)))

    def placed(self, job: JobState, pod_class: PodClass, nodes: Sequence[int]) -> None:
        """The job's leaf holds more."""
        self._put(job, self._claimed(job))

    def removed(self, job: JobState, pod_class: PodClass, nodes: Sequence[int]) -> None:
        """The job's leaf holds less."""
        self._put(job, self._claimed(job))

    def victims(
        self, actor: JobState, task: Task | None, candidates: Sequence[Task], purpose: Purpose
    ) -> BoolArray | None:
        """For reclaim: tasks without which the actor's queue, with its task, would still come first."""
        if purpose is not Purpose.RECLAIM or task is None:
            return super().victims(actor, task, candidates, purpose)
        registry = self.session.registry
        chosen = np.zeros(len(candidates), dtype=np.bool_)
        before = self._claimed(actor)
        self._put(actor, before + aligned(task.pod_class.vector, registry))
        for index, other in enumerate(candidates):
            job = self.session.job(other.job)
            if job is None:
                continue
            held = self.leaves[job.key]
            self._put(job, held - aligned(other.pod_class.vector, registry))
            chosen[index] = self.queue_key(actor.queue) < self.queue_key(job.queue)
            self._put(job, held)
        self._put(actor, before)
        return chosen


# drf: dominant resource fairness.
#
# The switch ``enableHierarchy`` adds the tree of queues, ``drf.namespaceOrder`` fairness among the namespaces of a
# queue.

_NAMESPACES = Argument(
    "drf.namespaceOrder", "bool", False, "within a queue, the namespace that holds least of the cluster comes first"
)


class DrfPlugin(JobDrf):
    """The plug-in that a configuration names ``drf``."""

    known_arguments = (_NAMESPACES,)

    def __new__(cls, config: PluginConfig) -> Self:
        """With ``enableHierarchy`` or ``drf.namespaceOrder`` the plug-in that also orders queues or namespaces."""
        chosen: type = cls
        if cls is DrfPlugin:
            chosen = _VARIANTS[config.flags.hierarchy, bool(argument_value(_NAMESPACES, config.arguments))]
        made: Self = object.__new__(chosen)
        return made


class _WithNamespaces(NamespaceDrf, DrfPlugin):
    """What ``drf.namespaceOrder`` makes of the plug-in."""


class _WithQueueTree(QueueTreeDrf, DrfPlugin):
    """What ``enableHierarchy`` makes of the plug-in."""


class _WithBoth(NamespaceDrf, QueueTreeDrf, DrfPlugin):
    """What both make of the plug-in."""


_VARIANTS: dict[tuple[bool, bool], type[DrfPlugin]] = {
    (False, False): DrfPlugin,
    (False, True): _WithNamespaces,
    (True, False): _WithQueueTree,
    (True, True): _WithBoth,
}
"""By ``enableHierarchy`` and ``drf.namespaceOrder``."""
