"""What a cycle decides: the only thing that leaves the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from unisono.api.core import AllocationResult
from unisono.engine.answers import Failure
from unisono.engine.verdict import Verdict

# Amounts of one queue at the end of a cycle, as metrics show them.

Amounts = list[int]
UNLIMITED = 2**62
"""Stands for "no limit"."""


class ShareMetrics(msgspec.Struct, frozen=True):
    """What the plug-in that divides the cluster says of one queue; engine units by resource row.

    Attributes:
        deserved: its share.
        limit: the most that it may hold.
        inqueue: what its admitted jobs are still promised.
        share: largest held part of what it deserves.
        overused: it holds all of its share.
    """

    deserved: Amounts
    limit: Amounts
    inqueue: Amounts
    share: float
    overused: bool


class QueueMetrics(msgspec.Struct, frozen=True):
    """One queue; engine units by resource row.

    Attributes:
        allocated: what it and its children hold.
        request: the same of its own jobs, with what their pending pods ask for.
        capability: ``spec.capability``, None where it has none; `UNLIMITED` in rows that it does not name.
        shares: None where no plug-in divides the cluster, or not for this queue.
    """

    name: str
    weight: int
    allocated: Amounts
    request: Amounts
    capability: Amounts | None
    shares: ShareMetrics | None


NO_ANNOTATIONS: Mapping[str, str] = {}


class VolumeBind(msgspec.Struct, frozen=True):
    """Before a pod can run on ``node``, its claim needs a volume.

    Attributes:
        namespace, claim, uid: the PersistentVolumeClaim.
        volume: PersistentVolume that it gets; empty: one is to be made for the node.
        node: node of the pod.
        timeout: seconds to wait for the volume.
    """

    namespace: str
    claim: str
    uid: str
    volume: str
    node: str
    timeout: float


class ClaimAllocation(msgspec.Struct, frozen=True):
    """Before a pod can run, it must be among the users of its ResourceClaim.

    ``allocation`` are the devices that the claim gets now; None when it has some already.
    """

    namespace: str
    claim: str
    uid: str
    allocation: AllocationResult | None = None


Preparation = VolumeBind | ClaimAllocation


class Bind(msgspec.Struct, frozen=True):
    """Run ``pod`` on ``node``. The binds of one job stand together and leave together.

    ``annotations`` are set on the pod with the bind: its cards, its CPUs. ``preparations`` are written before it.
    """

    namespace: str
    pod: str
    uid: str
    node: str
    job: str
    annotations: Mapping[str, str] = NO_ANNOTATIONS
    preparations: tuple[Preparation, ...] = ()


class Eviction(msgspec.Struct, frozen=True):
    """Stop a pod so that ``beneficiary`` (a PodGroup key) can start; ``reason`` is the action's name.

    Only ``shuffle``, ``relocate`` (`unisono.engine.relocation`), ``calendar``, ``run-time`` and ``budget``
    (`unisono.engine.calendar`), and ``idle-gpus`` (`unisono.engine.idle_gpus`) evict without a beneficiary, which is
    ``""`` then. ``note`` says for what, where the reason is not enough. ``notice``: seconds that the pod is told
    before, where it does not say it itself.
    """

    namespace: str
    pod: str
    uid: str
    node: str
    reason: str
    beneficiary: str
    note: str = ""
    notice: float = 0.0


class Pipelined(msgspec.Struct, frozen=True):
    """A task that waits for resources being released on ``node``; nothing is written but the nomination."""

    namespace: str
    pod: str
    uid: str
    node: str
    job: str


class Condition(msgspec.Struct, frozen=True):
    """A PodGroup condition to set; replaces the one of the same type."""

    type: str
    status: str
    reason: str
    message: str


class PodGroupUpdate(msgspec.Struct, frozen=True):
    """New status of a PodGroup; only PodGroups whose status differs are listed.

    ``conditions`` is the complete list of conditions that shall stand, one per type. ``events`` are (type, reason,
    message) to record on the PodGroup. ``notes`` are annotations that it shall have besides.
    """

    namespace: str
    name: str
    uid: str
    phase: str
    running: int
    succeeded: int
    failed: int
    conditions: tuple[Condition, ...]
    events: tuple[tuple[str, str, str], ...] = ()
    notes: Mapping[str, str] = NO_ANNOTATIONS

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class PodCondition(msgspec.Struct, frozen=True):
    """Condition PodScheduled of a pod that was not bound (``status`` is always False); also the event's message.

    Attributes:
        nominated_node: where the pod is promised a place; empty: what it was promised before is left as it is.
        withdrawn: what it was promised before can no longer be kept. Who scales the cluster takes a pod with a
            nomination for placed.
    """

    namespace: str
    pod: str
    uid: str
    reason: str
    message: str
    nominated_node: str = ""
    withdrawn: bool = False


class QueueUpdate(msgspec.Struct, frozen=True):
    """New ``status.allocated`` of a queue, wire form; only queues whose value differs are listed."""

    name: str
    allocated: Mapping[str, str]


class ReservationUpdate(msgspec.Struct, frozen=True):
    """How a Reservation stands, as its status says it."""

    name: str
    phase: str
    window_start: str = ""
    window_end: str = ""
    node_count: int = 0
    nodes: tuple[str, ...] = ()
    others: int = 0
    message: str = ""


class PodMove(msgspec.Struct, frozen=True):
    """One running pod that is evicted, and the node on which a new one for it found a place when the plan was tried.

    Attributes:
        pod, job: keys (``namespace/name``) of the pod and its PodGroup.
        node, to: where it runs, and where its successor would.
        ran_seconds: how long it has run.
        lost_seconds: how much of that is not in a checkpoint.
    """

    pod: str
    job: str
    node: str
    to: str
    ran_seconds: float
    lost_seconds: float


class DefragmentationPlan(msgspec.Struct, frozen=True):
    """Moves that let one gang start.

    Attributes:
        job, queue: the gang.
        moves: in the order of the pods' keys.
        places: node of each of the gang's pods.
        lost_seconds: seconds of pods that are lost, summed.
        gained: what the gang's pods request, engine units by resource name.
        free_nodes: nodes without any pod of ours: before, and once the moves are done and the gang runs.
    """

    job: str
    queue: str
    moves: tuple[PodMove, ...]
    places: Mapping[str, str]
    lost_seconds: float
    gained: Mapping[str, int]
    free_nodes: tuple[int, int]


class IdleJob(msgspec.Struct, frozen=True):
    """A job whose GPUs have been idle for longer than its queue lets.

    Attributes:
        job: key of its PodGroup.
        pod, uid: key and UID of its first pod with GPUs.
        news: the same as long as nothing is new.
        message: a sentence.
    """

    job: str
    pod: str
    uid: str
    news: str
    message: str


class Violation(msgspec.Struct, frozen=True):
    """A part of the decisions that broke an invariant and was left out, or a failure of ``plugin``."""

    subject: str
    message: str
    plugin: str = ""


@dataclass(slots=True)
class Decisions:
    """The outcome of one cycle.

    Attributes:
        cycle: text that identifies the cycle (same snapshot, configuration and seed give the same), for transition ids.
        plugins_off: names of plug-ins that could not be asked, because they do not exist or failed to open.
        plugin_failures: what plug-ins failed in, each plug-in, hook and subject once.
        failed_jobs: jobs that wait because a plug-in failed when it was asked about them, and why.
        seconds: with a clock, durations by stage: ``open``, ``actions/NAME``, ``check``, ``explain``, ``close``,
            ``plugins/NAME/open``, ``plugins/NAME/hooks`` and ``plugins/NAME/close``.
        plans: moves of running pods that let a gang start, of which the evictions are among the others.
        figures: amounts of all queues for metrics; ``resources`` names their rows, ``sharable`` is what queues share,
            empty where no plug-in compares jobs by their share.
        reservations: how each stands.
        idle: jobs whose GPUs are idle for too long.
        again_at: when the next cycle may decide otherwise although nothing changes, seconds since the epoch: then a
            promise lapses that keeps others waiting, or a window of a reservation begins or ends. None: not before
            something changes.
        explained: whether verdicts, conditions, queue statuses and figures were asked for; else they are not known.
    """

    cycle: str = ""
    binds: list[Bind] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    pipelined: list[Pipelined] = field(default_factory=list)
    pod_groups: list[PodGroupUpdate] = field(default_factory=list)
    pod_conditions: list[PodCondition] = field(default_factory=list)
    queues: list[QueueUpdate] = field(default_factory=list)
    reservations: list[ReservationUpdate] = field(default_factory=list)
    idle: list[IdleJob] = field(default_factory=list)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    plugins_off: list[str] = field(default_factory=list)
    plugin_failures: list[Failure] = field(default_factory=list)
    failed_jobs: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    plans: list[DefragmentationPlan] = field(default_factory=list)
    figures: list[QueueMetrics] = field(default_factory=list)
    resources: tuple[str, ...] = ()
    sharable: list[int] = field(default_factory=list)
    again_at: float | None = None
    explained: bool = True
