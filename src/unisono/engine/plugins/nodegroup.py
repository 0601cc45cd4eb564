"""nodegroup: which groups of nodes a queue may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unisono.api.groups.scheduling import NodeGroupAffinity, NodeGroupAntiAffinity
from unisono.api.keys import NODE_GROUP, NODE_GROUP_LIMITS
from unisono.api.quantity import QuantityError
from unisono.api.resources import resource_list
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Queue
from unisono.cluster.resources import Vector, scheduled
from unisono.cluster.status import ALLOCATED_STATES, TaskStatus
from unisono.engine.answers import RawScore, Reach, Reason, Scope, Veto
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.common.annotations import decoded
from unisono.engine.session.limit import aligned
from unisono.engine.session.node_view import NodeView

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState, QueueState
    from unisono.engine.session.session import Session


# nodegroup: queues run on groups of nodes (label ``volcano.sh/nodegroup-name``), by rules on the Queue.

# Which groups of nodes a queue may use: rules and limits, as its Queue object states them.


@dataclass(frozen=True, slots=True)
class Rules:
    """Node groups by how a queue regards them; ``preferred`` in order."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.required or self.preferred or self.forbidden or self.avoided)

    def allows(self, group: str) -> bool:
        """Wanted and not forbidden, or only avoided."""
        wanted = group in self.required or group in self.preferred
        return (wanted and group not in self.forbidden) or group in self.avoided

    def points(self, group: str, *, ordered: bool) -> float:
        """100 where required, 50 where preferred (less and less down the list when ``ordered``), -1 where avoided."""
        if group in self.avoided:
            return -1.0
        points = 100.0 if group in self.required else 0.0
        if group in self.preferred:
            number, place = len(self.preferred), self.preferred.index(group)
            points += 50.0 * (number - place) / number if ordered else 50.0
        return points


def rules_of(queue: Queue) -> Rules:
    """The queue's own rules."""
    affinity = queue.affinity
    if affinity is None:
        return Rules()
    required, preferred = _lists(affinity.node_group_affinity)
    forbidden, avoided = _lists(affinity.node_group_anti_affinity)
    return Rules(required, preferred, forbidden, avoided)


def _lists(part: NodeGroupAffinity | NodeGroupAntiAffinity | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if part is None:
        return (), ()
    required = part.required_during_scheduling_ignored_during_execution
    preferred = part.preferred_during_scheduling_ignored_during_execution
    return tuple(required or ()), tuple(preferred or ())


def limits_of(annotations: Mapping[str, str]) -> dict[str, dict[str, int]] | None:
    """Most amounts of the queue by node group (engine units); None when the annotation cannot be read."""
    text = annotations.get(NODE_GROUP_LIMITS)
    if not text:
        return {}
    try:
        given = decoded(text)
        return {group: scheduled(resource_list(amounts)) for group, amounts in given.items()}
    except (ValueError, AttributeError, TypeError, QuantityError):
        return None


_STRICT = Argument(
    "strict", "bool", True, "nodes without a group take no pods; false: they take queues that have no rules"
)
_ORDERED = Argument("enablePreferredOrder", "bool", False, "earlier preferred groups score higher")

BAD_LIMITS = Reason("node group resource limit annotation invalid", unresolvable=True)
NO_GROUP = Reason("node group label not found", unresolvable=True)
NO_RULES = Reason("node group affinity not specified", unresolvable=True)
REFUSED = Reason("node does not satisfy the node group affinity", unresolvable=True)
OVER_LIMIT = Reason("node group resource limit exceeded", unresolvable=True)
_ROOT = "root"


class NodeGroupPlugin(Plugin):
    """Node groups for queues; limits are per queue and group."""

    name = "nodegroup"
    scope = Scope.QUEUE
    reach = Reach.DOMAIN
    pure = False
    known_arguments = (_STRICT, _ORDERED)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.strict = bool(argument_value(_STRICT, self.arguments))
        self.ordered = bool(argument_value(_ORDERED, self.arguments))

    def open(self, session: Session) -> None:
        """Read the rules of every queue."""
        self.session = session
        self.rules = {name: self._inherited(queue) for name, queue in session.queues.items()}
        self.limits = {name: limits_of(queue.record.annotations) for name, queue in session.queues.items()}
        self._held: dict[str, dict[str, Vector]] = {}

    def _inherited(self, queue: QueueState) -> Rules:
        """Its own rules; with ``enableHierarchy`` and none of its own, those of the nearest ancestor that has some."""
        rules, seen = rules_of(queue.record), {queue.name}
        while not rules and self.config.flags.hierarchy:
            name = queue.record.parent or ("" if queue.name == _ROOT else _ROOT)
            above = self.session.queues.get(name)
            if above is None or name in seen:
                break
            seen.add(name)
            queue, rules = above, rules_of(above.record)
        return rules

    def _queue(self) -> QueueState | None:
        return self.session.subject.queue if self.session.subject is not None else None

    # ---- rules

    def static_filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Nodes whose group the queue of the present job may not use."""
        queue = self._queue()
        if queue is None:
            return ()
        if self.limits[queue.name] is None:
            return (Veto(np.ones(nodes.size, dtype=np.bool_), BAD_LIMITS),)
        rules, codes = self.rules[queue.name], nodes.label_codes(NODE_GROUP)
        vetoes = [Veto(codes < 0, NO_GROUP)] if self.strict or rules else []
        if not rules:
            return [*vetoes, Veto(codes >= 0, NO_RULES)]
        groups = nodes.table.label_values(NODE_GROUP)
        refused = np.array([*(not rules.allows(group) for group in groups), False], dtype=np.bool_)
        return [*vetoes, Veto(refused[codes], REFUSED)]

    def static_score(self, pod_class: PodClass, nodes: NodeView) -> Sequence[RawScore]:
        """Points of the node's group."""
        queue = self._queue()
        if queue is None or not self.rules[queue.name]:
            return ()
        rules, groups = self.rules[queue.name], nodes.table.label_values(NODE_GROUP)
        points = np.array([*(rules.points(group, ordered=self.ordered) for group in groups), 0.0], dtype=np.float64)
        return (RawScore(np.asarray(points[nodes.label_codes(NODE_GROUP)], dtype=np.float64)),)

    # ---- limits

    def concerns(self, pod_class: PodClass) -> bool:
        """Only queues with limits need to be looked at after each placement."""
        queue = self._queue()
        return queue is not None and bool(self.limits[queue.name])

    def filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Groups in which the queue would hold more than it may."""
        queue = self._queue()
        limits = self.limits[queue.name] if queue is not None else None
        if queue is None or not limits:
            return ()
        held, codes = self._held_by(queue), nodes.label_codes(NODE_GROUP)
        refused = np.zeros(nodes.size, dtype=np.bool_)
        for group, most in limits.items():
            if self._exceeds(held.get(group), pod_class, most):
                refused |= codes == nodes.table.label_code(NODE_GROUP, group)
        return (Veto(refused, OVER_LIMIT),)

    def _exceeds(self, held: Vector | None, pod_class: PodClass, most: dict[str, int]) -> bool:
        registry = self.session.registry
        for name, amount in pod_class.requests.items():
            row = registry.row(name)
            taken = int(held[row]) if held is not None and row < len(held) else 0
            if name in most and taken + amount > most[name]:
                return True
        return False

    def _held_by(self, queue: QueueState) -> dict[str, Vector]:
        """What the queue's tasks hold, by node group; counted when first asked for, then kept."""
        held = self._held.get(queue.name)
        if held is None:
            held = self._held[queue.name] = {}
            for node, tasks in self.session.snapshot.tasks_on.items():
                column = self.session.snapshot.nodes.index.get(node)
                for task in tasks.values() if column is not None else ():
                    job = self.session.job(task.job) if task.job else None
                    if column is not None and job is not None and job.queue is queue and task.key not in job.places:
                        self._add(held, column, task.pod_class, 1)
            for job in self.session.opened().values():
                if job.queue is queue:
                    self._add_placed(held, job)
        return held

    def _add_placed(self, held: dict[str, Vector], job: JobState) -> None:
        for key, (status, column) in job.places.items():
            if status in ALLOCATED_STATES or status is TaskStatus.PIPELINED:
                self._add(held, column, self.session.snapshot.tasks[key].pod_class, 1)

    def _add(self, held: dict[str, Vector], column: int, pod_class: PodClass, sign: int) -> None:
        registry = self.session.registry
        group = self.session.snapshot.nodes.facts[column].labels.get(NODE_GROUP, "")
        amounts = aligned(held[group], registry) if group in held else registry.zeros()
        held[group] = amounts + sign * aligned(pod_class.vector, registry)

    def placed(self, job: JobState, pod_class: PodClass, nodes: Sequence[int]) -> None:
        """Count towards the limits of the job's queue."""
        self._book(job, pod_class, nodes, 1)

    def removed(self, job: JobState, pod_class: PodClass, nodes: Sequence[int]) -> None:
        """And no more."""
        self._book(job, pod_class, nodes, -1)

    def _book(self, job: JobState, pod_class: PodClass, nodes: Sequence[int], sign: int) -> None:
        held = self._held.get(job.queue.name)
        if held is not None:
            for column in nodes:
                self._add(held, column, pod_class, sign)
