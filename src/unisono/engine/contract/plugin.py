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

A hook that raises, or answers something else than its contract says, fails for what it was asked about and for nothing
else; `unisono.engine.plugin_host.failure_policies` has what that means for each hook.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

from unisono.engine.answers import Key, Reach, Scope
from unisono.engine.contract.domains import DomainHooks
from unisono.engine.contract.events import EventHooks
from unisono.engine.contract.evictions import EvictionHooks
from unisono.engine.contract.nodes import NodeHooks
from unisono.engine.contract.queues import QueueHooks
from unisono.engine.contract.switches import HOOK_FLAGS, VICTIM_FLAGS

if TYPE_CHECKING:
    from unisono.cluster.podclass import PodClass
    from unisono.engine.config.model import PluginConfig
    from unisono.engine.session.session import Session

__all__ = ["HOOK_FLAGS", "VICTIM_FLAGS", "Key", "Lookup", "Plugin", "hooks_of", "overrides"]


class Plugin(QueueHooks, NodeHooks, EvictionHooks, DomainHooks, EventHooks):
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
        ignorable: hooks that may refuse say nothing where they fail, as if the plug-in were not there. Else what they
            were asked about is refused.
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
    ignorable: bool = False
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


Lookup = Callable[[str], type[Plugin] | None]
"""Finds the class of a plug-in by its name; None when there is none."""


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
