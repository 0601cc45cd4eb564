"""Verdicts: why a job waits, in a closed list of causes, with numbers and the cheapest change that would help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from unisono.engine.verdicts.changes import Change


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
    OVER_CAPABILITY = "OverCapability"
    """Admission would take the queue over its capability."""
    OVER_SHARE = "OverShare"
    """The queue has its deserved share already."""
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
    """Room is kept for a gang that has waited longer."""
    TOPOLOGY = "Topology"
    GATED = "Gated"
    """Pods have scheduling gates."""
    WAITING_FOR_VICTIMS = "WaitingForVictims"
    """Places are chosen on resources that are being released."""
    PLUGIN_FAILED = "PluginFailed"
    """A plug-in raised and was switched off for the cycle."""
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


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds what a job waits for."""

    kind: str
    name: str
    amounts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why one job waits.

    Attributes:
        job: ``namespace/name`` of its PodGroup.
        cause: first cause.
        message: one sentence with numbers, for people.
        need, have: amounts by resource name in engine units; for gangs also ``pods``. ``have`` is what could be given.
        tasks_placeable, tasks_needed: how many tasks found a place this cycle, and how many the gang needs.
        reasons: nodes by refusal text, ``{"Insufficient nvidia.com/gpu": 5}``, for the first task that found no node.
        nodes: number of nodes looked at.
        holders: who holds it, largest first, at most a few.
        suggestion: what would start it, in words, or ``""``.
        changes: the same for programs, cheapest first; each was tried: after it, the next cycle starts the job.
        would_run_after: ``namespace/name`` of pods of lower priority, or of queues above their share, without which the
            next cycle would start it; tried as well.
        spared: why those pods are not evicted, where limits on evictions are the reason, and when they may be.
        plugins_off: plug-ins that were switched off in this cycle; the job may wait because of one.
        task: ``namespace/name`` of the task that ``reasons`` speak of, or ``""``.
        queue: the job's queue.

    """

    job: str
    cause: Cause
    message: str
    need: Mapping[str, int] = field(default_factory=dict)
    have: Mapping[str, int] = field(default_factory=dict)
    tasks_placeable: int = 0
    tasks_needed: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    nodes: int = 0
    holders: tuple[Holder, ...] = ()
    suggestion: str = ""
    task: str = ""
    queue: str = ""
    changes: tuple[Change, ...] = ()
    would_run_after: tuple[str, ...] = ()
    spared: str = ""
    plugins_off: tuple[str, ...] = ()

    @property
    def change(self) -> Change | None:
        """The cheapest change that would start the job, None where none is known."""
        return self.changes[0] if self.changes else None
