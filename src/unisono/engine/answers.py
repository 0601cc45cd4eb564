"""The values with which plug-ins answer, and what stands for an answer where a plug-in failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unisono.engine.verdict import Cause

# The values with which plug-ins answer: votes, refusals, vetoes over nodes, and scores.

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]

Key = Any
"""Anything that compares with ``<`` among answers of the same hook: a number, or a tuple of numbers."""


class Vote(IntEnum):
    """Answer of a gate. A reject is a `Refusal`, because it must say why."""

    ABSTAIN = 0
    PERMIT = 1


class Reach(IntEnum):
    """How far the effect of one placement goes: which nodes' filter and score answers may change."""

    ROW = 0
    """The node itself."""
    DOMAIN = 1
    """All nodes of the same topology domain."""
    CLUSTER = 2
    """Any node (or, for orders, any key)."""


class Scope(IntEnum):
    """What ``filter`` and ``score`` depend on besides the pod class and the nodes."""

    CLASS = 0
    """Nothing."""
    QUEUE = 1
    """The job's queue: read it from ``session.subject``."""
    JOB = 2
    """The job: read it from ``session.subject``."""


class Parts(NamedTuple):
    """What ``filter`` and ``score`` depend on for waiting jobs of one shape, which fall into two parts at most.

    Attributes:
        usual: the answer for all jobs but the others.
        others: entries of ``Alike.aged``, sorted.
        other: the answer for those.
    """

    usual: str
    others: Sequence[tuple[float, str]]
    other: str


class Purpose(Enum):
    """Why victims are wanted."""

    PREEMPT = "preempt"
    RECLAIM = "reclaim"
    GANG_PREEMPT = "gangpreempt"
    GANG_RECLAIM = "gangreclaim"
    SHUFFLE = "shuffle"
    DEFRAGMENT = "defragment"


RELOCATE = "relocate"
"""Why all pods of a gang that is to start elsewhere are evicted, beside the names of actions."""
CALENDAR = "calendar"
RUN_TIME = "run-time"
BUDGET = "budget"
IDLE = "idle-gpus"
"""Why pods are evicted whose time on their node is over, that have run for as long as their queue allows, whose budget
is used up, or that use no GPU of theirs."""


class Normalise(Enum):
    """How the engine turns a raw static score into points, over the nodes that are candidates at that moment."""

    NONE = "none"
    """Points are ``weight * raw``."""
    MAX = "max"
    """Points are ``weight * trunc(raw * 100 / max(raw))``; 0 everywhere when the maximum is 0."""
    MAX_REVERSED = "max-reversed"
    """Points are ``weight * (100 - trunc(raw * 100 / max(raw)))``; 100 everywhere when the maximum is 0."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a gate or a quota says no.

    Attributes:
        message: what users see, such as ``queue resource quota insufficient: insufficient cpu``.
        cause: entry of the closed list of causes.
        need, have, limit: amounts by resource name in engine units, as far as they apply: what is asked for, what is
            taken already, and what may be taken at most. They become the verdict's numbers.
        event: also record it as an event on the PodGroup.
        owner: name of the object that sets the limit, where it is not the job's queue.
        user: the limit is what the job's queue lets one user hold.
    """

    message: str
    cause: Cause
    need: Mapping[str, int] = field(default_factory=dict)
    have: Mapping[str, int] = field(default_factory=dict)
    limit: Mapping[str, int] = field(default_factory=dict)
    event: bool = False
    owner: str = ""
    user: bool = False


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a node is refused.

    Attributes:
        text: as kube-scheduler words it, such as ``node(s) had untolerated taint(s)``.
        unresolvable: no eviction could change it (UnschedulableAndUnresolvable); later reasons of the same plug-in
            are then not collected for that node.
        cause: entry of the closed list of causes.
        passing: of static filters: it depends on load or on the time of day, so the node may take the pod later as it
            is, and what the pod asks for stays a claim on a share.
        apart: a verdict tells it otherwise: an amount that is short, or nodes that the job does not mean at all.
    """

    text: str
    unresolvable: bool = False
    cause: Cause = Cause.FILTERS
    passing: bool = False
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Veto:
    """Nodes that a filter refuses for one reason; ``nodes[i]`` True means column ``i`` of the view is refused.

    With ``now`` only what would start at once is refused, and not what is promised a place for later; with ``later`` it
    is the other way round.
    """

    nodes: BoolArray
    reason: Reason
    now: bool = False
    later: bool = False


@dataclass(frozen=True, slots=True)
class RawScore:
    """A static score before normalisation, ``raw[i]`` for column ``i`` of the view, and how it becomes points."""

    raw: FloatArray
    weight: float = 1.0
    normalise: Normalise = Normalise.NONE


# One failure of a plug-in, and what stands for its answer in verdicts.


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure of a plug-in.

    Attributes:
        plugin, hook: which.
        subject: what it was asked about, such as ``job ns/train``.
        error: the error in one short sentence.
        closed: what it was asked about was refused for that.
    """

    plugin: str
    hook: str
    subject: str
    error: str
    closed: bool

    def message(self, subject: str = "") -> str:
        """One sentence; ``subject`` in place of the failure's own."""
        about = subject or self.subject
        return f"plug-in {self.plugin} failed in {self.hook}{f' for {about}' if about else ''}: {self.error}"

    def refusal(self) -> Refusal:
        """The answer of a gate or a quota, also to other jobs than the one that was asked about as an example."""
        return Refusal(self.message(self.subject.partition(" of job ")[0]), Cause.PLUGIN_FAILED)

    def reason(self) -> Reason:
        """The answer of a filter."""
        return Reason(f"plug-in {self.plugin} failed in {self.hook}", unresolvable=True, cause=Cause.PLUGIN_FAILED)
