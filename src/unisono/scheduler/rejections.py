"""Tells of objects that scheduling cannot take in: events, conditions, verdicts and a metric.

They count as absent, so their owners would otherwise wait without a word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

import structlog

from unisono.cluster.rejections import Rejection
from unisono.engine.decisions import Condition, Decisions, PodCondition, PodGroupUpdate
from unisono.engine.verdict import Cause, Verdict
from unisono.kube.events import EventRecorder
from unisono.scheduler.feed import Feed
from unisono.scheduler.metrics import Metrics

_log = structlog.get_logger(__name__)

REASON = "SchedulerError"
"""Reason of the events and conditions; kube-scheduler's for a pod that it fails on."""

_UNSCHEDULABLE = "Unschedulable"


class Rejections:
    """Adds to each cycle's decisions what is to be written about the objects that are set aside."""

    def __init__(
        self, feed: Feed, events: EventRecorder, metrics: Metrics, tell_node: Callable[[str, str], None]
    ) -> None:
        """``tell_node`` writes why a node is ignored into its conditions; without a reason, that it is not any more."""
        self._feed, self._events, self._metrics = feed, events, metrics
        self._tell_node = tell_node
        self._told: dict[tuple[str, str], tuple[str | None, str]] = {}
        # Nodes that were told to be read again, and still say that they are not.
        self._taken_back: set[str] = set()

    def complete(self, decisions: Decisions) -> None:
        """Add conditions and verdicts for pods and PodGroups, and record an event on each object that is new here."""
        rejected = self._feed.state.rejected.all()
        self._metrics.rejected(Counter(one.kind for one in rejected))
        told = {}
        for one in rejected:
            if one.kind == "Pod":
                self._add_condition(one, decisions)
            elif one.kind == "PodGroup":
                self._add_verdict(one, decisions)
            facts = (one.reference.uid, one.message)
            if self._told.get((one.kind, one.key)) != facts:
                _log.warning("object.rejected", kind=one.kind, key=one.key, error=one.message)
                self._events.event(one.reference, "Warning", REASON, text_of(one))
                if one.kind == "Node":
                    self._tell_node(one.reference.name or "", text_of(one))
            told[one.kind, one.key] = facts
        self._take_back({name for kind, name in self._told.keys() - told.keys() if kind == "Node"}, told)
        self._told = told

    def _take_back(self, corrected: set[str], told: Collection[tuple[str, str]]) -> None:
        """Take the condition back from nodes that can be read: also from those corrected while no scheduler ran."""
        marked = {name for name in self._feed.marked_nodes if ("Node", name) not in told}
        for name in sorted(corrected | (marked - self._taken_back)):
            self._tell_node(name, "")
        self._taken_back = marked

    def _add_condition(self, one: Rejection, decisions: Decisions) -> None:
        reference = one.reference
        decisions.pod_conditions.append(
            PodCondition(reference.namespace or "", reference.name or "", reference.uid or "", REASON, text_of(one))
        )

    def _add_verdict(self, one: Rejection, decisions: Decisions) -> None:
        group = self._feed.groups.get(one.key)
        if group is None:
            return
        status, message = group.status, text_of(one)
        decisions.verdicts[one.key] = Verdict(
            one.key,
            Cause.INVALID,
            message,
            suggestion="correct the PodGroup: it is read again when it changes",
            queue=group.spec.queue or "",
        )
        others = tuple(
            Condition(each.type or "", each.status or "", each.reason or "", each.message or "")
            for each in status.conditions or ()
            if each.type != _UNSCHEDULABLE
        )
        decisions.pod_groups.append(
            PodGroupUpdate(
                namespace=group.metadata.namespace or "",
                name=group.metadata.name,
                uid=group.metadata.uid or "",
                phase=status.phase or "Pending",
                running=status.running or 0,
                succeeded=status.succeeded or 0,
                failed=status.failed or 0,
                conditions=(*others, Condition(_UNSCHEDULABLE, "True", REASON, message)),
            )
        )


def text_of(one: Rejection) -> str:
    """What is told of an object: one sentence with the reason."""
    return f"{one.kind} cannot be read and is ignored until it changes: {one.message}"
