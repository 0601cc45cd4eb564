"""Verdicts on the wire: why a job waits, as JSON in an annotation of its PodGroup.

The scheduler writes the annotation; controllers, the SDK and the command line read it, all with this module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from html import escape
from typing import Any

import msgspec

from unisono.api.annotations import VERDICT

_MAX_BYTES = 4096
_UID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
# Parts that can grow are dropped one by one until the text is short enough, the least needed first.
_EXPENDABLE = ("ahead", "candidates", "otherwise", "holders", "wouldRunAfter", "reasons", "change", "have", "need")


class Cause(StrEnum):
    """First cause that keeps a job waiting. The list is closed: tools may switch on it."""

    NO_PODS = "NoPods"
    """The PodGroup has no pods yet."""
    TOO_FEW_PODS = "TooFewPods"
    """Fewer pods exist than the gang's minimum (in all, or of one role)."""
    INVALID = "Invalid"
    """The PodGroup contradicts itself."""
    QUEUE_MISSING = "QueueMissing"
    QUEUE_CLOSED = "QueueClosed"
    """The queue is not in state Open."""
    QUEUE_INVALID = "QueueInvalid"
    """The queue's place in the tree of queues lets nothing run in it."""
    QUEUE_FORBIDDEN = "QueueForbidden"
    """The queue is not for the job's namespace or its author."""
    OVER_CAPABILITY = "OverCapability"
    """Admission would take the queue over its capability."""
    OVER_SHARE = "OverShare"
    """The queue has its deserved share already."""
    LICENSES = "Licenses"
    """Too few of a floating resource, such as licences, are left."""
    BUDGET = "Budget"
    """A hard budget is used up, or has too little left for the job."""
    CLUSTER_OVERCOMMITTED = "ClusterOvercommitted"
    """The jobs admitted already ask for all that the cluster has."""
    QUOTA = "Quota"
    """A namespace's ResourceQuota."""
    TOO_LARGE = "TooLarge"
    """A single pod, or the gang, is larger than the empty cluster."""
    NODES_FULL = "NodesFull"
    """Enough exists, but it is in use."""
    FILTERS = "Filters"
    """Nodes are refused for selectors, taints, affinity, volumes, ..."""
    PORT_TAKEN = "PortTaken"
    RESERVED = "Reserved"
    """Room is kept for a gang that has waited longer, for jobs of higher priority, or by a Reservation."""
    TOPOLOGY = "Topology"
    GATED = "Gated"
    """Pods have scheduling gates."""
    WAITING_FOR_VICTIMS = "WaitingForVictims"
    """Places are chosen on resources that are being released."""
    PLUGIN_FAILED = "PluginFailed"
    """A plug-in that may refuse the job failed when it was asked about it; the job is not placed unchecked."""
    INVARIANT = "Invariant"
    """The decision broke an invariant and was dropped."""
    NO_NODES = "NoNodes"
    """The cluster has no node."""
    EXTENDER = "Extender"
    """A service that plug-in extender asks says no, or cannot be asked."""
    BIND_FAILED = "BindFailed"
    """The API server refused the job's binds again and again; it is placed again after a pause."""
    NOT_TRIED = "NotTried"
    """The cycle ended, or the queue was passed over, before the job's turn."""


PASSING = frozenset({Cause.NO_PODS})
"""Causes that every job has for a moment while its controller makes its pods: nothing that a user could act upon."""


class Holder(msgspec.Struct, frozen=True, rename="camel"):
    """An object that holds what a job waits for; amounts in engine units."""

    kind: str = ""
    name: str = ""
    amounts: Mapping[str, int] = {}


class Verdict(msgspec.Struct, frozen=True, rename="camel"):
    """Why one job waits. Amounts are in engine units: memory in bytes, everything else in thousandths.

    Attributes:
        job: ``namespace/name`` of its PodGroup.
        cause: one of `Cause`; a text, because a newer scheduler may know more causes.
        message: one sentence with numbers.
        need, have: what the job asks for, and what could be given.
        tasks_placeable, tasks_needed: pods of the gang that would find a place, and how many it needs.
        reasons: number of nodes by the text of their refusal.
        nodes: how many nodes were looked at.
        holders: who holds it, the largest first.
        suggestion: what would start the job, in words; empty where nothing is known.
        change: the same for programs: ``{"kind": "AddNodes", "like": "n1", "count": 2}``.
        otherwise: further changes, each of which would do as well. A change that was not tried, here or in ``change``,
            has ``"tried": false``.
        candidates: changes that may be part of what starts it, where none is known that would.
        position: the job's place in the line of its queue, 1 for the first; 0 where it stands in none.
        ahead: names of jobs before it, at most a few.
        would_run_after: pods of lower rank without which the job would start.
        would_run_after_count: how many there are where the list was cut.
        spared: why those pods are not evicted, where limits on evictions are the reason, and when they may be.
        plugins_off: plug-ins that were switched off for the cycle.
        task: the pod that ``reasons`` speak of.
        queue: the job's queue.
    """

    job: str = ""
    cause: str = ""
    message: str = ""
    need: Mapping[str, int] = {}
    have: Mapping[str, int] = {}
    tasks_placeable: int = 0
    tasks_needed: int = 0
    reasons: Mapping[str, int] = {}
    nodes: int = 0
    holders: tuple[Holder, ...] = ()
    suggestion: str = ""
    change: dict[str, Any] = {}
    otherwise: tuple[dict[str, Any], ...] = ()
    candidates: tuple[dict[str, Any], ...] = ()
    position: int = 0
    ahead: tuple[str, ...] = ()
    would_run_after: tuple[str, ...] = ()
    would_run_after_count: int = 0
    spared: str = ""
    plugins_off: tuple[str, ...] = ()
    task: str = ""
    queue: str = ""

    def __str__(self) -> str:
        """The message, and what to try."""
        return f"{self.message} (try: {self.suggestion})" if self.suggestion else self.message

    def _repr_html_(self) -> str:
        """A table for notebooks: why the job waits, what to try, who stands before it and who holds what it needs."""
        place = f"{self.position} in queue {self.queue}" if self.position else ""
        ahead = ", ".join(self.ahead)
        holders = ", ".join(f"{each.kind} {each.name}" for each in self.holders)
        facts = {"try": self.suggestion, "place": place, "behind": ahead, "held by": holders}
        rows = "".join(f"<tr><th>{name}</th><td>{escape(text)}</td></tr>" for name, text in facts.items() if text)
        return f"<table><caption>{escape(self.job)} waits: {escape(self.message)}</caption>{rows}</table>"

    @property
    def key(self) -> tuple[str, str, tuple[str, ...]]:
        """What tells two verdicts apart for people: numbers may change without being news."""
        return self.cause, self.queue, tuple(sorted(self.reasons))


def to_json(verdict: Verdict) -> dict[str, Any]:
    """The verdict as JSON's types; empty texts, lists and maps are left out."""
    value = msgspec.to_builtins(verdict)
    for name in ("wouldRunAfterCount", "position"):
        if not value[name]:
            del value[name]
    return {key: item for key, item in value.items() if item not in ("", {}, [], ())}


def encode(verdict: Verdict) -> str:
    """The annotation's text: compact JSON of at most 4 KiB."""
    value = to_json(verdict)
    for expendable in _EXPENDABLE:
        if len(text := _text(value)) <= _MAX_BYTES:
            return text
        value.pop(expendable, None)
    return _text(value)


def decode(text: str | None) -> Verdict | None:
    """The verdict in an annotation's text; None for no text, or one that is no verdict."""
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=Verdict)
    except (msgspec.DecodeError, RecursionError):  # users may write the annotation, and nest it as they like
        return None


def verdict_in(annotations: Mapping[str, str] | None) -> Verdict | None:
    """The verdict in a PodGroup's annotations; None without one."""
    return decode((annotations or {}).get(VERDICT))


def job_name(key: str) -> str:
    """``namespace/name`` of a job from that of its PodGroup, which has the job's UID behind its name."""
    name = _UID.sub("", key)
    return key if name.endswith("/podgroup") else name


def waiting_verdict(annotations: Mapping[str, str] | None, *, owned: bool = True) -> Verdict | None:
    """The verdict on a PodGroup that waits; None when there is nothing to tell.

    Args:
        annotations: of the PodGroup.
        owned: a controller makes its pods; without one a user has to, and is told that they are missing.
    """
    verdict = verdict_in(annotations)
    return None if verdict is None or (owned and verdict.cause in PASSING) else verdict


def waiting_text(annotations: Mapping[str, str] | None, *, owned: bool = True) -> str:
    """The same as one line; empty when there is nothing to tell."""
    verdict = waiting_verdict(annotations, owned=owned)
    return "" if verdict is None else str(verdict)


def _text(value: Mapping[str, Any]) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()
