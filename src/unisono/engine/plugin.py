"""The contract of plug-ins.

A plug-in is a subclass of `Plugin` that overrides the hooks it needs; every hook is optional. One instance lives for
one session (one cycle). The engine asks only hooks that are overridden and whose switch in the configuration is on,
tier by tier, and combines the answers as Volcano does:

====================  =====================================================  =========================================
hook                  switch (attribute of ``Flags``)                        combination
====================  =====================================================  =========================================
queue_key             queue_order                                            all keys form one tuple, lowest first
job_key               job_order                                              the same
task_key              task_order                                             the same
enqueueable           job_enqueued                                           a `Refusal` rejects at once; a tier with a
                                                                             PERMIT admits and ends the walk; all
                                                                             abstain: admitted
enqueued              job_enqueued                                           all called
admissible            job_enqueued                                           minimum of the first tier of enqueueable
enqueued_alike        job_enqueued                                           all called, instead of enqueued
pipelined             job_pipelined                                          as enqueueable
valid                 (always on)                                            first `Refusal` wins
ready                 job_ready                                              and
starving              job_starving                                           and, within the first tier that has any
overused              overused                                               first `Refusal` wins
underused             overused                                               minimum
allocatable           allocatable                                            first `Refusal` wins
headroom              allocatable                                            minimum
preemptive            preemptive                                             first `Refusal` wins
prefilter             predicate                                              first `Reason` stops
static_filter         predicate                                              or (any veto refuses the node)
filter                predicate                                              or
filter_at             predicate                                              or
static_score          node_order                                             sum
score                 node_order                                             sum
score_at              node_order                                             sum
domain_filter         predicate                                              or
batch_score           node_order                                             sum
line_score            node_order                                             only one may answer
victims               preemptable (PREEMPT), reclaimable (RECLAIM),          intersection, see the hook
                      always on for the gang purposes
shuffled              victim                                                 union; the first tier with any decides
retained              victim                                                 union; what it names stays
protected             as victims                                             union; what it names stays
allowance             (always on)                                            minimum
spared                (always on)                                            first answer
lost_work             (always on)                                            sum
victim_jobs           as victims                                             and within a tier, or over the tiers
victim_queue_key      (always on)                                            all keys form one tuple, lowest goes first
group_key             sub_job_order                                          all keys form one tuple, lowest first
group_ready           sub_job_ready                                          and; without sub-groups ``ready`` is asked
group_pipelined       sub_job_pipelined                                      as pipelined, for one sub-group
domain_gradients      hyper_node_gradient                                    first answer; none: all nodes at once
domain_points         hyper_node_order                                       sum
group_score           node_order                                             sum
placed, removed       (always on)                                            all called, in order
moved                 (always on)                                            all called, in order
annotations           (always on)                                            merged, later plug-ins win
preparations          predicate                                              all, in order
open, close           (always on)                                            all called
====================  =====================================================  =========================================

A worked example, which prefers nodes with a label ``fast``::

    class Fast(Plugin):
        name = "fast"

        def static_score(self, pod_class, nodes):
            has = nodes.label_codes("fast") >= 0
            return [RawScore(has.astype(float), weight=self.arguments.get("fast.weight", 1.0) * 100)]

A plug-in that raises is switched off for the rest of the cycle and reported; other jobs go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from unisono.engine.answers import (
    BoolArray,
    FloatArray,
    Purpose,
    RawScore,
    Reach,
    Reason,
    Refusal,
    Scope,
    Veto,
    Vote,
)

if TYPE_CHECKING:
    from unisono.cluster.podclass import PodClass
    from unisono.cluster.records import Task
    from unisono.cluster.status import TaskStatus
    from unisono.engine.config import PluginConfig
    from unisono.engine.decisions import Preparation
    from unisono.engine.lines import LineScore
    from unisono.engine.session import JobState, QueueState, Session
    from unisono.engine.topology.groups import SubGroup
    from unisono.engine.victims import VictimJobs
    from unisono.engine.view import NodeAt, NodeView

Key = Any
"""Anything that compares with ``<`` among answers of the same hook: a number, or a tuple of numbers."""


class Plugin:
    """Base class; subclasses override the hooks that they need.

    Attributes:
        name: as the configuration names it.
        reach: how far a placement changes ``filter`` and ``score``: ROW unless the class says otherwise.
        scope: what ``filter``, ``score``, ``static_filter``, ``static_score`` depend on besides pod class and nodes.
        momentary: ``static_filter`` and ``static_score`` hold for one session only, because they depend on the time.
        static_by_kin: ``static_filter`` and ``static_score`` look at nothing of a class that its kin (``PodClass.kin``)
            has not in common: not at what it requests, its ports, volumes and devices. False is always right, and
            slower where pods request many different amounts.
        outside: it asks somebody outside, whom questions of "what if" would disturb: then no change is tried for jobs
            that wait.
        protects: tasks that ``victims`` refuses are refused whatever other tiers answer.
        pure: ``filter`` and ``score`` depend on nothing but the pod class (and scope) and the arrays of the view, not
            even on which node it is, and not on books that the plug-in keeps itself. Then the engine may ask about
            hypothetical nodes ("this node with 1, 2, 3 more such pods") and remember answers. Node identity (labels,
            taints, names) belongs into the static hooks. False is always right, and slower.
        by_shape: of a job, ``job_key``, ``valid``, ``ready``, ``missing``, ``pipelined`` and ``enqueueable`` look at
            nothing but its queue, counts, minimums, minResources, priority, phase and sums, and (for the latter two) at
            books that change only when jobs are admitted or placed. Then the engine may take the answer for one job
            as that for all jobs of its shape (``job.shape``). Names, ages, labels and annotations must not be looked
            at. False is always right, and slower.
        order_reach: CLUSTER when a placement of one job may change the key of another job or queue; ROW (only its own)
            otherwise.
        config: name, switches, arguments.
        arguments: shortcut for ``config.arguments``.

    """

    name: ClassVar[str] = ""
    reach: ClassVar[Reach] = Reach.ROW
    scope: ClassVar[Scope] = Scope.CLASS
    pure: ClassVar[bool] = True
    momentary: ClassVar[bool] = False
    by_shape: ClassVar[bool] = False
    static_by_kin: ClassVar[bool] = False
    outside: ClassVar[bool] = False
    protects: ClassVar[bool] = False
    order_reach: ClassVar[Reach] = Reach.ROW

    def __init__(self, config: PluginConfig) -> None:
        self.config = config
        self.arguments: Mapping[str, Any] = config.arguments

    def concerns(self, pod_class: PodClass) -> bool:
        """Whether ``filter`` and ``score`` have anything to say about the class in this session; asked after ``open``.

        A plug-in that is not pure, or whose reach is wide, slows the placing of every class that it concerns.
        """
        return True

    def is_pure(self, pod_class: PodClass) -> bool:
        """``pure`` for one class, where that is known better than for all."""
        return self.pure

    def stamp(self, pod_class: PodClass) -> int | None:
        """None when ``domain_filter`` and ``batch_score`` have nothing to say about the class in this session.

        Otherwise a number that moves whenever the answers of ``domain_filter`` may have changed, or -1: ask again after
        every placement. The first answer for a class decides whether it is concerned.
        """
        return -1

    def self_affecting(self, pod_class: PodClass) -> bool:
        """Whether placing a pod of the class may change what ``domain_filter`` answers for the class itself."""
        return True

    def by_domains(self, pod_class: PodClass) -> bool:
        """Whether placements change ``domain_filter`` for the class through ``session.domains`` and nothing else."""
        return False

    # ---- session

    def open(self, session: Session) -> None:
        """Called once before any other hook; keep ``session`` when later hooks need it.

        At this point ``session.queues``, ``session.jobs`` and ``session.nodes`` hold the cluster as in the snapshot.
        """

    def close(self, session: Session) -> None:
        """Called once after the last action."""

    # ---- orders

    def queue_key(self, queue: QueueState) -> Key:
        """Lower is served first. Read again each time a queue is put back, so a share may be used."""
        raise NotImplementedError

    def job_key(self, job: JobState) -> Key:
        """Lower is served first. Read again each time a job is put back.

        A gang that lost a member (``job.broken``) should come before fresh ones, lest it starve below its minimum.
        """
        raise NotImplementedError

    def task_key(self, task: Task) -> Key:
        """Lower is placed first; must not change within a session."""
        raise NotImplementedError

    # ---- gates and states

    def enqueueable(self, job: JobState) -> Vote | Refusal:
        """May a Pending job with minResources become Inqueue? Jobs without minResources are not asked about."""
        raise NotImplementedError

    def enqueued(self, job: JobState) -> None:
        """``job`` (with minResources) has just become Inqueue: reserve what it was promised."""
        raise NotImplementedError

    def admissible(self, job: JobState) -> int:
        """To how many jobs like this one ``enqueueable`` would say PERMIT one after the other, at least.

        Only an optimisation, for plug-ins that answer by shape. 0 makes the engine ask ``enqueueable``.
        """
        raise NotImplementedError

    def enqueued_alike(self, job: JobState, number: int) -> None:
        """``number`` jobs of the shape of ``job`` have become Inqueue: as many calls of ``enqueued`` in one.

        Only an optimisation. It is called before the next question of ``enqueueable``.
        """
        raise NotImplementedError

    def valid(self, job: JobState) -> Refusal | None:
        """None when the job can be scheduled at all."""
        raise NotImplementedError

    def ready(self, job: JobState) -> bool:
        """Whether enough tasks of the job hold a place for its binds to leave."""
        raise NotImplementedError

    def missing(self, job: JobState) -> int:
        """A lower bound of how many more tasks must become allocated before ``ready`` can turn true.

        Only an optimisation (switch job_ready): the engine does not ask ``ready`` before that many were placed.
        """
        raise NotImplementedError

    def pipelined(self, job: JobState) -> Vote | Refusal:
        """Whether allocated and pipelined tasks together would make the job ready."""
        raise NotImplementedError

    def starving(self, job: JobState) -> bool:
        """Whether the job may take resources from others."""
        raise NotImplementedError

    # ---- quota

    def overused(self, queue: QueueState) -> Refusal | None:
        """A refusal drops the queue for the rest of allocate (and reclaim)."""
        raise NotImplementedError

    def underused(self, queue: QueueState, pod_class: PodClass) -> int:
        """After how many more tasks of the class ``overused`` would still say nothing, at least.

        Only an optimisation: without it ``overused`` is asked before each job.
        """
        raise NotImplementedError

    def allocatable(self, queue: QueueState, pod_class: PodClass) -> Refusal | None:
        """May one more task of this class be placed for the queue?"""
        raise NotImplementedError

    def headroom(self, queue: QueueState, pod_class: PodClass) -> int:
        """How many more tasks of this class ``allocatable`` would accept one after the other, at least.

        Only an optimisation: without it ``allocatable`` is asked before each task. 0 makes the engine ask
        ``allocatable`` for the refusal. Must agree with ``allocatable``.
        """
        raise NotImplementedError

    def preemptive(self, queue: QueueState, classes: Sequence[PodClass]) -> Refusal | None:
        """May the queue take resources from others for tasks of these classes (one entry per task)?"""
        raise NotImplementedError

    # ---- nodes

    def prefilter(self, task: Task) -> Reason | None:
        """A reason refuses the task on every node; asked once per run of equal tasks."""
        raise NotImplementedError

    def static_filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Vetoes that follow from the spec and the node objects alone.

        The answer is kept across cycles and asked again only for nodes that changed, so ``nodes`` may be a part of the
        cluster; it must depend on nothing but ``pod_class``, ``nodes`` and ``self.arguments`` (and ``scope``).
        Resources and the arrays other than ``allocatable`` must not be looked at. List cheap and common reasons first;
        all reasons of one plug-in are collected per node up to the first unresolvable one.
        """
        raise NotImplementedError

    def filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Vetoes that change with placements. The engine has checked resources itself, except for BestEffort pods.

        Answer ``()`` when the class is not concerned.
        """
        raise NotImplementedError

    def static_score(self, pod_class: PodClass, nodes: NodeView) -> Sequence[RawScore]:
        """Scores that follow from the spec and the node objects alone; kept as ``static_filter``'s answer is.

        ``()`` when the class is not concerned. Normalisation over candidates is the engine's work.
        """
        raise NotImplementedError

    def score(self, pod_class: PodClass, nodes: NodeView) -> FloatArray | None:
        """Points per column of ``nodes`` as if the task were placed there, weight included; None: not concerned.

        ``nodes.used`` and ``nodes.nonzero`` do not contain the task itself. Use elementwise arithmetic only, so that
        the answer for a node does not depend on which other nodes are in the view.
        """
        raise NotImplementedError

    def domain_filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Vetoes that a placement may change on any node: by topology domain, by what is left of something shared.

        Asked about all nodes of the session at once, again after `stamp` has moved.
        """
        raise NotImplementedError

    def batch_score(self, pod_class: PodClass, nodes: NodeView, candidates: BoolArray) -> FloatArray | None:
        """Points per node of the session, weight included, that depend on all ``candidates`` (``[N]``); None: none.

        Asked again after every placement.
        """
        raise NotImplementedError

    def line_score(self, pod_class: PodClass) -> LineScore | None:
        """The points of ``batch_score`` for a class, where all nodes of a line (a group of nodes) share theirs.

        Only an optimisation, for points that do not depend on the candidates: with it a placement costs no pass over
        all nodes. None: ask ``batch_score``.
        """
        raise NotImplementedError

    def filter_at(self, pod_class: PodClass, node: NodeAt) -> bool:
        """Whether ``filter`` refuses a node, as one question in plain numbers.

        Only an optimisation, for pure plug-ins: after a placement one node is looked at again. Must agree with
        ``filter``; the engine uses it only where every plug-in concerned has it (and ``score_at``).
        """
        raise NotImplementedError

    def score_at(self, pod_class: PodClass, node: NodeAt) -> float | None:
        """What ``score`` answers for a node, as one question in plain numbers; exactly the same number."""
        raise NotImplementedError

    # ---- victims

    def victims(
        self, actor: JobState, task: Task | None, candidates: Sequence[Task], purpose: Purpose
    ) -> BoolArray | None:
        """Which of ``candidates`` may be evicted for ``actor`` (for its ``task``, or None for the whole gang).

        None abstains. Within a tier the masks are intersected; an empty answer passes the question to the next tier.
        """
        raise NotImplementedError

    def shuffled(self, candidates: Sequence[Task]) -> BoolArray | None:
        """Which running tasks should leave their nodes although nobody waits for their places (action shuffle).

        None abstains. The masks of a tier are united; the first tier with any task decides.
        """
        raise NotImplementedError

    def retained(self, leaving: Sequence[Task]) -> BoolArray | None:
        """Which of the tasks that are to leave (action shuffle) must stay after all; None: none of them."""
        raise NotImplementedError

    def protected(self, candidates: Sequence[Task], purpose: Purpose) -> BoolArray | None:
        """Which of ``candidates`` must not be evicted now, whoever wants their places; None: none of them.

        Asked once per action about all that could go. Unlike ``victims``, what it lets pass is no vote for anything.
        """
        raise NotImplementedError

    def allowance(self, queue: QueueState) -> int | None:
        """How many more tasks of ``queue`` may be evicted in this session, for whomever; None: any number.

        Asked before each eviction; ``moved`` tells of those that are carried out and taken back.
        """
        raise NotImplementedError

    def spared(self, victims: Sequence[Task]) -> str | None:
        """Why these tasks, without which a job would start, are not evicted now, and when they may be; None: not known.

        For verdicts; ``protected`` and ``allowance`` decide.
        """
        raise NotImplementedError

    def lost_work(self, leaving: Sequence[Task]) -> float | None:
        """What is lost when these tasks are evicted together, in any unit that compares; None abstains, always.

        It is at least 0, and at least as much as for any part of them. Among candidates of equal priority those go
        first with whom least is lost, and several nodes are compared.
        """
        raise NotImplementedError

    def victim_jobs(self, actor: JobState, task: Task | None, jobs: VictimJobs, purpose: Purpose) -> BoolArray | None:
        """Which jobs could lose tasks to ``actor`` at all: an upper bound of what ``victims`` would answer.

        Only an optimisation: without it ``victims`` is asked on every node whose pods would make enough room. None:
        no bound known.
        """
        raise NotImplementedError

    def victim_queue_key(self, queue: QueueState, actor: QueueState) -> Key:
        """Tasks of the queue with the lowest key are evicted first for ``actor``'s queue.

        Without it, and among equal keys, the queue that comes last in queue order loses first.
        """
        raise NotImplementedError

    # ---- topology

    def group_key(self, group: SubGroup) -> Key:
        """Lower is placed first, among the sub-groups of one job."""
        raise NotImplementedError

    def group_ready(self, group: SubGroup) -> bool:
        """Whether enough tasks of a sub-group hold a place."""
        raise NotImplementedError

    def group_pipelined(self, group: SubGroup) -> Vote | Refusal:
        """Whether allocated and pipelined tasks together would make the sub-group ready."""
        raise NotImplementedError

    def domain_gradients(
        self, job: JobState, group: SubGroup | None, top: int, *, evict: bool
    ) -> Sequence[Sequence[int]] | None:
        """HyperNodes (positions in ``session.snapshot.hyper_nodes``) to try for a job, or one sub-group of it.

        The first list is tried first, and only if none of it works the next; all are ``top`` or below it. ``evict``:
        tasks may be evicted there. None abstains.
        """
        raise NotImplementedError

    def domain_points(self, group: SubGroup, domains: Sequence[int]) -> FloatArray:
        """Points per HyperNode of one gradient: where the sub-group is placed best."""
        raise NotImplementedError

    def group_score(self, group: SubGroup, columns: npt.NDArray[np.intp]) -> FloatArray | None:
        """Points per node column for the next task of a sub-group that wants a topology; None: not concerned."""
        raise NotImplementedError

    # ---- events

    def placed(self, job: JobState, pod_class: PodClass, nodes: Sequence[int]) -> None:
        """``len(nodes)`` tasks of one class of ``job`` were allocated or pipelined, one on each entry of ``nodes``.

        ``job.claimed`` and ``queue.claimed`` contain them already, so share-based plug-ins need no event at all.
        """
        raise NotImplementedError

    def removed(self, job: JobState, pod_class: PodClass, nodes: Sequence[int]) -> None:
        """The same tasks were taken back (undo) or evicted."""
        raise NotImplementedError

    def moved(
        self, job: JobState, tasks: Sequence[Task], nodes: Sequence[int], before: TaskStatus, after: TaskStatus
    ) -> None:
        """Equal tasks changed their state, ``tasks[i]`` on ``nodes[i]``: placed, evicted, or either taken back.

        For plug-ins that keep books by pod, such as which card it holds: PENDING to ALLOCATED or PIPELINED places,
        anything to RELEASING evicts, and the reverse is the undoing, last first. ``placed`` and ``removed`` say less.
        """
        raise NotImplementedError

    def preparations(self, task: Task, node: int) -> Sequence[Preparation]:
        """What must be written before ``task``, which has claims, is bound to ``node``.

        Asked after the last action; when it raises, the pod's job is not bound in this cycle.
        """
        raise NotImplementedError

    def annotations(self, task: Task, node: int) -> Mapping[str, str] | None:
        """What the pod is told with its bind to ``node``, such as its cards; None: nothing."""
        raise NotImplementedError


HOOK_FLAGS: dict[str, str] = {
    "queue_key": "queue_order",
    "job_key": "job_order",
    "task_key": "task_order",
    "enqueueable": "job_enqueued",
    "enqueued": "job_enqueued",
    "admissible": "job_enqueued",
    "enqueued_alike": "job_enqueued",
    "pipelined": "job_pipelined",
    "valid": "",
    "ready": "job_ready",
    "missing": "job_ready",
    "starving": "job_starving",
    "overused": "overused",
    "underused": "overused",
    "allocatable": "allocatable",
    "headroom": "allocatable",
    "preemptive": "preemptive",
    "prefilter": "predicate",
    "static_filter": "predicate",
    "filter": "predicate",
    "filter_at": "predicate",
    "score_at": "node_order",
    "static_score": "node_order",
    "score": "node_order",
    "domain_filter": "predicate",
    "batch_score": "node_order",
    "line_score": "node_order",
    "victims": "",
    "shuffled": "victim",
    "retained": "victim",
    "protected": "",
    "allowance": "",
    "spared": "",
    "lost_work": "",
    "victim_jobs": "",
    "victim_queue_key": "",
    "group_key": "sub_job_order",
    "group_ready": "sub_job_ready",
    "group_pipelined": "sub_job_pipelined",
    "domain_gradients": "hyper_node_gradient",
    "domain_points": "hyper_node_order",
    "group_score": "node_order",
    "placed": "",
    "removed": "",
    "moved": "",
    "annotations": "",
    "preparations": "predicate",
}
"""Hook to the attribute of ``Flags`` that switches it; ``""`` is always on."""

VICTIM_FLAGS: dict[Purpose, str] = {
    Purpose.PREEMPT: "preemptable",
    Purpose.RECLAIM: "reclaimable",
    Purpose.GANG_PREEMPT: "",
    Purpose.GANG_RECLAIM: "",
    Purpose.SHUFFLE: "victim",
}


def overrides(plugin: Plugin, hook: str) -> bool:
    """Whether the plug-in's class implements ``hook``."""
    return hook in hooks_of(type(plugin))


_IMPLEMENTED: WeakKeyDictionary[type[Plugin], tuple[str, ...]] = WeakKeyDictionary()


def hooks_of(plugin: type[Plugin]) -> tuple[str, ...]:
    """The hooks that a class of plug-ins implements; looked up once, because a cycle in which nothing happens asks."""
    found = _IMPLEMENTED.get(plugin)
    if found is None:
        found = tuple(hook for hook in HOOK_FLAGS if getattr(plugin, hook) is not getattr(Plugin, hook))
        _IMPLEMENTED[plugin] = found
    return found
