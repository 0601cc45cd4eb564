"""Verdicts: the latest per PodGroup in memory, and as JSON in an annotation; and what is said of rejected objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import structlog
from msgspec import structs

from unisono.api import verdict as wire
from unisono.cluster.rejections import Rejection
from unisono.engine.decisions import Condition, Decisions, PodCondition, PodGroupUpdate
from unisono.engine.verdict import Cause, Verdict
from unisono.kube.events import EventRecorder
from unisono.scheduler.feed import Feed
from unisono.scheduler.metrics import Metrics

# Tells of objects that scheduling cannot take in: events, conditions, verdicts and a metric.
#
# They count as absent, so their owners would otherwise wait without a word.

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
        reported = {}
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
            reported[one.kind, one.key] = facts
        self._take_back({name for kind, name in self._told.keys() - reported.keys() if kind == "Node"}, reported)
        self._told = reported

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


_MAX_TEXT = 1000
_MAX_ENTRIES = 12
_MAX_HOLDERS = 5
_MAX_PODS = 16


def on_wire(verdict: Verdict) -> wire.Verdict:
    """The verdict as clients see it: long texts and lists cut."""
    full_verdict, pods = verdict.told(), verdict.would_run_after
    return structs.replace(
        full_verdict,
        message=_cut(full_verdict.message),
        reasons=_largest(full_verdict.reasons),
        holders=full_verdict.holders[:_MAX_HOLDERS],
        suggestion=_cut(full_verdict.suggestion),
        ahead=full_verdict.ahead[:_MAX_HOLDERS],
        would_run_after=pods[:_MAX_PODS],
        would_run_after_count=len(pods) if len(pods) > _MAX_PODS else 0,
        spared=_cut(full_verdict.spared),
        plugins_off=full_verdict.plugins_off[:_MAX_ENTRIES],
    )


def render(verdict: Verdict) -> str:
    """The annotation's text for one verdict; see `unisono.api.verdict.encode`."""
    return wire.encode(on_wire(verdict))


def material(text: str | None) -> tuple[Any, ...]:
    """What of a published verdict counts as a change that must be shown at once; numbers may change without it."""
    if not text:
        return ()
    verdict = wire.decode(text)
    # An annotation with another text is replaced.
    return ("unreadable",) if verdict is None else verdict.key


class VerdictBook:
    """Latest verdict of every job that waits."""

    def __init__(self) -> None:
        self._verdicts: dict[str, Verdict] = {}

    def replace(self, verdicts: Mapping[str, Verdict]) -> None:
        """Take over the verdicts of a cycle; jobs without one do not wait any more."""
        self._verdicts = dict(verdicts)

    def started(self, jobs: Iterable[str]) -> None:
        """These jobs do not wait any more, as a cycle found that explained nothing."""
        for job in jobs:
            self._verdicts.pop(job, None)

    def get(self, job: str) -> Verdict | None:
        """Verdict of a PodGroup (``namespace/name``)."""
        return self._verdicts.get(job)

    def text(self, job: str) -> str | None:
        """The annotation's value for a PodGroup, None when it does not wait."""
        verdict = self._verdicts.get(job)
        return None if verdict is None else render(verdict)

    def jobs(self) -> list[str]:
        """Keys of the jobs that wait."""
        return list(self._verdicts)

    def __len__(self) -> int:
        """Number of jobs that wait."""
        return len(self._verdicts)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."


def _largest(reasons: Mapping[str, int]) -> dict[str, int]:
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return dict(ordered[:_MAX_ENTRIES])
