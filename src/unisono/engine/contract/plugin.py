"""What a plug-in may do: every hook of a session, and the switch of the configuration that turns it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from unisono.engine import answers
from unisono.engine.contract.accelerated import AcceleratedHooks

if TYPE_CHECKING:
    from unisono.cluster.podclass import PodClass
    from unisono.cluster.records import Task
    from unisono.cluster.status import TaskStatus
    from unisono.engine.changes import Change
    from unisono.engine.config.model import PluginConfig
    from unisono.engine.decisions import Preparation
    from unisono.engine.session.job_state import JobState, QueueState
    from unisono.engine.session.node_view import NodeView
    from unisono.engine.session.session import Session
    from unisono.engine.session.sub_groups import SubGroup

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
    "relax": "predicate",
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

VICTIM_FLAGS: dict[answers.Purpose, str] = {
    answers.Purpose.PREEMPT: "preemptable",
    answers.Purpose.RECLAIM: "reclaimable",
    answers.Purpose.GANG_PREEMPT: "",
    answers.Purpose.GANG_RECLAIM: "",
    answers.Purpose.SHUFFLE: "victim",
    answers.Purpose.DEFRAGMENT: "",
}

# Hooks of plug-ins about sub-groups and the domains of a network topology.


class DomainHooks:
    """Orders and scores of sub-groups and HyperNodes."""

    # ---- topology

    def group_key(self, group: SubGroup) -> answers.Key:
        """Lower is placed first, among the sub-groups of one job."""
        raise NotImplementedError

    def group_ready(self, group: SubGroup) -> bool:
        """Whether enough tasks of a sub-group hold a place."""
        raise NotImplementedError

    def group_pipelined(self, group: SubGroup) -> answers.Vote | answers.Refusal:
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

    def domain_points(self, group: SubGroup, domains: Sequence[int]) -> answers.FloatArray:
        """Points per HyperNode of one gradient: where the sub-group is placed best."""
        raise NotImplementedError

    def group_score(self, group: SubGroup, columns: npt.NDArray[np.intp]) -> answers.FloatArray | None:
        """Points per node column for the next task of a sub-group that wants a topology.

        None: the sub-group is not concerned on these nodes, wherever its tasks are placed.
        """
        raise NotImplementedError


# Hooks of plug-ins that tell of placements, and ask what goes with a bind.


class EventHooks:
    """Notices, and what is written besides binds."""

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


# Hooks of plug-ins about evictions: who may go for whom, who stays, and what is lost.


class EvictionHooks:
    """Votes on victims, and limits."""

    # ---- victims

    def victims(
        self, actor: JobState, task: Task | None, candidates: Sequence[Task], purpose: answers.Purpose
    ) -> answers.BoolArray | None:
        """Which of ``candidates`` may be evicted for ``actor`` (for its ``task``, or None for the whole gang).

        None abstains. Within a tier the masks are intersected; an empty answer passes the question to the next tier.
        """
        raise NotImplementedError

    def shuffled(self, candidates: Sequence[Task]) -> answers.BoolArray | None:
        """Which running tasks should leave their nodes although no job waits for their places (action shuffle).

        Tasks that have failed stand behind the running ones, in state FAILED; they hold nothing, and what is named of
        them is deleted. None abstains. The masks of a tier are united; the first tier with any task decides.
        """
        raise NotImplementedError

    def retained(self, leaving: Sequence[Task]) -> answers.BoolArray | None:
        """Which of the tasks that are to leave (action shuffle) must stay after all; None: none of them."""
        raise NotImplementedError

    def protected(self, candidates: Sequence[Task], purpose: answers.Purpose) -> answers.BoolArray | None:
        """Which of ``candidates`` must not be evicted now for any job; None: none of them.

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

    def victim_queue_key(self, queue: QueueState, actor: QueueState) -> answers.Key:
        """Tasks of the queue with the lowest key are evicted first for ``actor``'s queue.

        Without it, and among equal keys, the queue that comes last in queue order loses first.
        """
        raise NotImplementedError


# Hooks of plug-ins about nodes: which of them may take a pod, and which is best.


class NodeHooks:
    """Filters and scores."""

    # ---- nodes

    def prefilter(self, task: Task) -> answers.Reason | None:
        """A reason refuses the task on every node; asked once per run of equal tasks."""
        raise NotImplementedError

    def static_filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[answers.Veto]:
        """Vetoes that follow from the spec and the node objects alone.

        The answer is kept across cycles and asked again only for nodes that changed, so ``nodes`` may be a part of the
        cluster; it must depend on nothing but ``pod_class``, ``nodes`` and ``self.arguments`` (and ``scope``).
        Resources and the arrays other than ``allocatable`` must not be looked at. List cheap and common reasons first;
        all reasons of one plug-in are collected per node up to the first unresolvable one.
        """
        raise NotImplementedError

    def filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[answers.Veto]:
        """Vetoes that change with placements. The engine has checked resources itself, except for BestEffort pods.

        Answer ``()`` when the class is not concerned.
        """
        raise NotImplementedError

    def static_score(self, pod_class: PodClass, nodes: NodeView) -> Sequence[answers.RawScore]:
        """Scores that follow from the spec and the node objects alone; kept as ``static_filter``'s answer is.

        ``()`` when the class is not concerned. Normalisation over candidates is the engine's work.
        """
        raise NotImplementedError

    def score(self, pod_class: PodClass, nodes: NodeView) -> answers.FloatArray | None:
        """Points per column of ``nodes`` as if the task were placed there, weight included; None: not concerned.

        ``nodes.used`` and ``nodes.nonzero`` do not contain the task itself. Use elementwise arithmetic only, so that
        the answer for a node does not depend on which other nodes are in the view.
        """
        raise NotImplementedError

    def domain_filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[answers.Veto]:
        """Vetoes that a placement may change on any node: by topology domain, by what is left of something shared.

        Asked about all nodes of the session at once, again after `stamp` has moved.
        """
        raise NotImplementedError

    def relax(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Change]:
        """Changes after which the plug-in's filters would take pods of the class on some node, the best first.

        Asked when a cycle is over, about a class that no node of the session takes. Each change is tried on a copy of
        the cluster, with all other plug-ins, and only those are offered after which the job starts.
        """
        raise NotImplementedError

    def batch_score(
        self, pod_class: PodClass, nodes: NodeView, candidates: answers.BoolArray
    ) -> answers.FloatArray | None:
        """Points per node of the session, weight included, that depend on all ``candidates`` (``[N]``); None: none.

        Asked again after every placement.
        """
        raise NotImplementedError


# Hooks of plug-ins about queues and jobs: who is served first, who is admitted, and how much a queue may hold.


class QueueHooks:
    """Orders, gates and quotas."""

    # ---- orders

    def queue_key(self, queue: QueueState) -> answers.Key:
        """Lower is served first. Read again each time a queue is put back, so a share may be used."""
        raise NotImplementedError

    def job_key(self, job: JobState) -> answers.Key:
        """Lower is served first. Read again each time a job is put back.

        A gang that lost a member (``job.broken``) should come before new ones: else it may starve below its minimum.
        """
        raise NotImplementedError

    def task_key(self, task: Task) -> answers.Key:
        """Lower is placed first; must not change within a session."""
        raise NotImplementedError

    # ---- gates and states

    def enqueueable(self, job: JobState) -> answers.Vote | answers.Refusal:
        """May a Pending job with minResources become Inqueue? Jobs without minResources are not asked about."""
        raise NotImplementedError

    def enqueued(self, job: JobState) -> None:
        """``job`` (with minResources) has just become Inqueue: reserve what it was promised."""
        raise NotImplementedError

    def valid(self, job: JobState) -> answers.Refusal | None:
        """None when the job can be scheduled at all."""
        raise NotImplementedError

    def ready(self, job: JobState) -> bool:
        """Whether enough tasks of the job hold a place for its binds to leave."""
        raise NotImplementedError

    def pipelined(self, job: JobState) -> answers.Vote | answers.Refusal:
        """Whether allocated and pipelined tasks together would make the job ready."""
        raise NotImplementedError

    def starving(self, job: JobState) -> bool:
        """Whether the job may take resources from others."""
        raise NotImplementedError

    # ---- quota

    def overused(self, queue: QueueState) -> answers.Refusal | None:
        """A refusal drops the queue for the rest of allocate (and reclaim)."""
        raise NotImplementedError

    def allocatable(self, queue: QueueState, pod_class: PodClass) -> answers.Refusal | None:
        """May one more task of this class be placed for the queue?"""
        raise NotImplementedError

    def preemptive(self, queue: QueueState, classes: Sequence[PodClass]) -> answers.Refusal | None:
        """May the queue take resources from others for tasks of these classes (one entry per task)?"""
        raise NotImplementedError


# The contract of plug-ins.
#
# A plug-in is a subclass of `Plugin` that overrides the hooks it needs; every hook is optional. One instance lives for
# one session (one cycle). The engine asks only hooks that are overridden and whose switch in the configuration is on,
# tier by tier, and combines the answers as Volcano does:
#
# ====================  =====================================================  =========================================
# hook                  switch (attribute of ``Flags``)                        combination
# ====================  =====================================================  =========================================
# queue_key             queue_order                                            all keys form one tuple, lowest first
# job_key               job_order                                              the same
# task_key              task_order                                             the same
# enqueueable           job_enqueued                                           a `Refusal` rejects at once; a tier
# with a
#                                                                              PERMIT admits and ends the walk; all
#                                                                              abstain: admitted
# enqueued              job_enqueued                                           all called
# pipelined             job_pipelined                                          as enqueueable
# valid                 (always on)                                            first `Refusal` wins
# ready                 job_ready                                              and
# starving              job_starving                                           and, within the first tier that has any
# overused              overused                                               first `Refusal` wins
# allocatable           allocatable                                            first `Refusal` wins
# preemptive            preemptive                                             first `Refusal` wins
# prefilter             predicate                                              first `Reason` stops
# static_filter         predicate                                              or (any veto refuses the node)
# filter                predicate                                              or
# static_score          node_order                                             sum
# score                 node_order                                             sum
# domain_filter         predicate                                              or
# relax                 predicate                                              all; each is tried
# batch_score           node_order                                             sum
# victims               preemptable (PREEMPT), reclaimable (RECLAIM),          intersection, see the hook
#                       always on for the gang purposes
# shuffled              victim                                                 union; the first tier with any decides
# retained              victim                                                 union; what it names stays protected
# as victims                                             union; what it names stays allowance             (always on)
# minimum spared                (always on)                                            first answer lost_work
# (always on)                                            sum victim_queue_key      (always on)
# all keys form one tuple, lowest goes first group_key             sub_job_order
# all keys form one tuple, lowest first group_ready           sub_job_ready
# and; without sub-groups ``ready`` is asked group_pipelined       sub_job_pipelined
# as pipelined, for one sub-group domain_gradients      hyper_node_gradient                                    first
# answer; none: all nodes at once domain_points         hyper_node_order                                       sum
# group_score           node_order                                             sum placed, removed       (always on)
# all called, in order moved                 (always on)                                            all called, in order
# annotations           (always on)                                            merged, later plug-ins win preparations
# predicate                                              all, in order open, close           (always on)
# all called ====================  =====================================================
# =========================================
#
# `unisono.engine.contract.accelerated` has hooks that only make decisions faster; leave them out of a first reading.
#
# A worked example, which prefers nodes with a label ``fast``::
#
#     class Fast(Plugin):
#         name = "fast"
#
#         def static_score(self, pod_class, nodes):
#             has = nodes.label_codes("fast") >= 0
#             return [RawScore(has.astype(float), weight=self.arguments.get("fast.weight", 1.0) * 100)]
#
# A hook that raises, or answers something else than its contract says, fails for what it was asked about and for
# nothing else; `unisono.engine.plugin_host.failure_policies` has what that means for each hook.


class Plugin(QueueHooks, NodeHooks, EvictionHooks, DomainHooks, EventHooks, AcceleratedHooks):
    """Base class; subclasses override the hooks that they need.

    Attributes:
        name: as the configuration names it.
        reach: how far a placement changes ``filter`` and ``score``: ROW unless the class says otherwise.
        scope: what ``filter``, ``score``, ``static_filter``, ``static_score`` depend on besides pod class and nodes.
        pure: ``filter`` and ``score`` depend on nothing but the pod class (and scope) and the arrays of the view, not
            even on which node it is, and not on books that the plug-in keeps itself. Then the engine may ask about
            hypothetical nodes ("this node with 1, 2, 3 more such pods") and remember answers. Node identity (labels,
            taints, names) belongs into the static hooks. False is always right, and slower.
        steady: ``filter`` says the same of a node whatever the session places. Which node it is may matter then,
            even where the plug-in is pure.
        momentary: ``static_filter`` and ``static_score`` hold for one session only, because they depend on the time.
        outside: it asks a service outside, which questions of "what if" would disturb: then no change is tried for jobs
            that wait.
        remembers: what jobs held in earlier sessions counts, so a simulation holds one after each change of it.
        protects: tasks that ``victims`` refuses are refused whatever other tiers answer.
        divides: it is opened after the others, as it divides what their limits leave.
        insists: what ``enqueueable`` refuses is refused whatever earlier tiers permit: a hard limit.
        order_reach: CLUSTER when a placement of one job may change the key of another job or queue; ROW (only its own)
            otherwise.
        ignorable: hooks that may refuse say nothing where they fail, as if the plug-in were not there. Else what they
            were asked about is refused.
        implemented: the hooks that the class overrides; worked out from the class.
        config: name, switches, arguments.
        arguments: shortcut for ``config.arguments``.
    """

    name: ClassVar[str] = ""
    reach: ClassVar[answers.Reach] = answers.Reach.ROW
    scope: ClassVar[answers.Scope] = answers.Scope.CLASS
    pure: ClassVar[bool] = True
    steady: ClassVar[bool] = False
    momentary: ClassVar[bool] = False
    outside: ClassVar[bool] = False
    remembers: ClassVar[bool] = False
    protects: ClassVar[bool] = False
    insists: ClassVar[bool] = False
    divides: ClassVar[bool] = False
    ignorable: bool = False
    order_reach: ClassVar[answers.Reach] = answers.Reach.ROW
    implemented: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.implemented = tuple(hook for hook in HOOK_FLAGS if getattr(cls, hook) is not getattr(Plugin, hook))

    def __init__(self, config: PluginConfig) -> None:
        self.config = config
        self.arguments: Mapping[str, Any] = config.arguments

    # ---- session

    @classmethod
    def used(cls, session: Session) -> bool:
        """Whether an object of the cluster asks for what the plug-in does.

        Where its argument ``NAME.AutoEnable`` is true it is only made in sessions in which this holds.
        """
        return True

    def open(self, session: Session) -> None:
        """Called once before any other hook; keep ``session`` when later hooks need it.

        At this point ``session.queues``, ``session.jobs`` and ``session.nodes`` hold the cluster as in the snapshot.
        """

    def close(self, session: Session) -> None:
        """Called once after the last action."""


Lookup = Callable[[str], type[Plugin] | None]
"""Finds the class of a plug-in by its name; None when there is none."""
