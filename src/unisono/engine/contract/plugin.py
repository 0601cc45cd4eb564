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
pipelined             job_pipelined                                          as enqueueable
valid                 (always on)                                            first `Refusal` wins
ready                 job_ready                                              and
starving              job_starving                                           and, within the first tier that has any
overused              overused                                               first `Refusal` wins
allocatable           allocatable                                            first `Refusal` wins
preemptive            preemptive                                             first `Refusal` wins
prefilter             predicate                                              first `Reason` stops
static_filter         predicate                                              or (any veto refuses the node)
filter                predicate                                              or
static_score          node_order                                             sum
score                 node_order                                             sum
domain_filter         predicate                                              or
relax                 predicate                                              all; each is tried
batch_score           node_order                                             sum
victims               preemptable (PREEMPT), reclaimable (RECLAIM),          intersection, see the hook
                      always on for the gang purposes
shuffled              victim                                                 union; the first tier with any decides
retained              victim                                                 union; what it names stays
protected             as victims                                             union; what it names stays
allowance             (always on)                                            minimum
spared                (always on)                                            first answer
lost_work             (always on)                                            sum
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

`unisono.engine.contract.accelerated` has hooks that only make decisions faster; leave them out of a first reading.

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

from unisono.engine.answers import Reach, Scope
from unisono.engine.contract.accelerated import AcceleratedHooks
from unisono.engine.contract.domains import DomainHooks
from unisono.engine.contract.events import EventHooks
from unisono.engine.contract.evictions import EvictionHooks
from unisono.engine.contract.nodes import NodeHooks
from unisono.engine.contract.queues import QueueHooks
from unisono.engine.contract.switches import HOOK_FLAGS

if TYPE_CHECKING:
    from unisono.engine.config.model import PluginConfig
    from unisono.engine.session.session import Session


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
        momentary: ``static_filter`` and ``static_score`` hold for one session only, because they depend on the time.
        outside: it asks a service outside, which questions of "what if" would disturb: then no change is tried for jobs
            that wait.
        remembers: what jobs held in earlier sessions counts, so a simulation holds one after each change of it.
        protects: tasks that ``victims`` refuses are refused whatever other tiers answer.
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
    reach: ClassVar[Reach] = Reach.ROW
    scope: ClassVar[Scope] = Scope.CLASS
    pure: ClassVar[bool] = True
    momentary: ClassVar[bool] = False
    outside: ClassVar[bool] = False
    remembers: ClassVar[bool] = False
    protects: ClassVar[bool] = False
    insists: ClassVar[bool] = False
    ignorable: bool = False
    order_reach: ClassVar[Reach] = Reach.ROW
    implemented: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.implemented = tuple(hook for hook in HOOK_FLAGS if getattr(cls, hook) is not getattr(Plugin, hook))

    def __init__(self, config: PluginConfig) -> None:
        self.config = config
        self.arguments: Mapping[str, Any] = config.arguments

    # ---- session

    def needed(self, session: Session) -> bool:
        """Whether the plug-in has anything to do in this session; it is not opened, and asked nothing, where not."""
        return True

    def open(self, session: Session) -> None:
        """Called once before any other hook; keep ``session`` when later hooks need it.

        At this point ``session.queues``, ``session.jobs`` and ``session.nodes`` hold the cluster as in the snapshot.
        """

    def close(self, session: Session) -> None:
        """Called once after the last action."""


Lookup = Callable[[str], type[Plugin] | None]
"""Finds the class of a plug-in by its name; None when there is none."""
