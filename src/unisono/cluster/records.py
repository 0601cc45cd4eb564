"""What the cluster state keeps per pod, pod group, queue and priority class.

The engine reads these records and never changes them; a session lays its own changes over them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from unisono.api.groups.scheduling import QueueAffinity
from unisono.api.keys import GROUP_NAME
from unisono.cluster.groups import SubGroupPolicy, TopologyWish
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import Matrix, Vector, WideSum, fitted
from unisono.cluster.status import STATUS_COUNT, TaskStatus

_AS_IT_IS: Mapping[int, PodClass] = {}


@dataclass(frozen=True, slots=True)
class Failure:
    """What a failed pod says of itself.

    Attributes:
        reasons: of the pod and of its containers, such as ``Evicted`` and ``OOMKilled``.
        init_reasons: of its init containers.
        owners: kinds of its owners, such as ``ReplicaSet``.
        policies: the controller of its job acts on failed and deleted pods, by policies of the job.
    """

    reasons: frozenset[str]
    init_reasons: frozenset[str]
    owners: frozenset[str]
    policies: bool


class Task:
    """One pod.

    Attributes:
        key: ``namespace/name``.
        job: key of its PodGroup (``namespace/group``), or ``""`` for pods without one.
        role: annotation or label ``volcano.sh/task-spec``, or ``""``.
        scaled: where it may take other amounts of devices on some kinds of nodes (annotation ``unisono.io/one-of``): by
            how many times those of its template they are, the class of a pod that asks for them.
        pod_class: interned scheduling-relevant spec; holds the request vector.
        priority: annotation ``volcano.sh/task-priority``, else ``spec.priority``, else 1.
        created: seconds since the epoch, 0.0 when unknown.
        ordinal: number after the last ``-`` of the name when the name has three parts or more, else -1.
        status: as the last event said (or BINDING while a bind is assumed).
        node: name of the node it is bound to, ``""`` while pending.
        gated: it has scheduling gates and must not be placed.
        gates: their names.
        preemptable: annotation or label ``volcano.sh/preemptable``, true when absent.
        never_preempts: ``spec.preemptionPolicy`` is Never: no pod is evicted for it.
        nominated_node: ``status.nominatedNodeName`` or ``""``.
        part: the PodGroup of ``scheduling.k8s.io`` that it names, which may be a part of its job; else ``""``.
        run_seconds: how long it runs at most, as annotation ``unisono.io/run-seconds`` or its deadline says; 0.0 when
            that is not stated.
        since: when it was given its node (condition PodScheduled), else when it started; 0.0 when that is not known.
        told: reason and message of its condition PodScheduled=False, empty without one.
        named_node: the node that the pod names itself, as long as the node has said nothing of it; else ``""``.
        owned: it names this scheduler; other pods only occupy their node.
        remade: a controller makes a new pod when this one is gone.
        failure: of a failed pod that is not being deleted; else None.
        noticed: when it was told that it will be evicted, seconds since the epoch; 0.0 where it was not.
    """

    __slots__ = (
        "annotations", "created", "failure", "gated", "gates", "job", "key", "labels", "name", "named_node",
        "namespace", "never_preempts", "node", "nominated_node", "noticed", "ordinal", "owned", "part", "pod_class",
        "preemptable", "priority", "priority_class_name", "remade", "role", "run_seconds", "scaled", "since", "status",
        "told", "uid",
    )  # fmt: skip

    def __init__(self, namespace: str, name: str, uid: str, pod_class: PodClass) -> None:
        self.namespace = namespace
        self.name = name
        self.key = f"{namespace}/{name}" if namespace else name
        self.uid = uid
        self.pod_class = pod_class
        self.job = ""
        self.role = ""
        self.part = ""
        self.noticed = 0.0
        self.run_seconds = 0.0
        self.remade = False
        self.priority = 1
        self.priority_class_name = ""
        self.created = 0.0
        self.ordinal = -1
        self.status = TaskStatus.PENDING
        self.node = ""
        self.named_node = ""
        self.gated = False
        self.gates: tuple[str, ...] = ()
        self.preemptable = True
        self.never_preempts = False
        self.nominated_node = ""
        self.owned = True
        self.labels: Mapping[str, str] = {}
        self.annotations: Mapping[str, str] = {}
        self.since = 0.0
        self.told: tuple[str, str] = ("", "")
        self.failure: Failure | None = None
        self.scaled: Mapping[int, PodClass] = _AS_IT_IS

    def __copy__(self) -> Task:
        # A trial copies each pod that it moves; the general way through pickle's protocol takes five times as long.
        fresh = object.__new__(Task)
        for name, value in zip(Task.__slots__, _ATTRIBUTES(self), strict=True):
            setattr(fresh, name, value)
        return fresh

    @property
    def best_effort(self) -> bool:
        """It requests nothing: backfill places it."""
        return self.pod_class.best_effort

    @property
    def queued(self) -> bool:
        """What it holds counts in a queue; what others hold is not for queues to share."""
        return self.owned and bool(self.job)

    @property
    def seen(self) -> Mapping[str, str]:
        """Its labels for selectors of the scheduler, which also know its gang, as a label ``GROUP_NAME``."""
        return {**self.labels, GROUP_NAME: self.job.partition("/")[2]} if self.job else self.labels

    @property
    def classes(self) -> tuple[PodClass, ...]:
        """Its class, and those with other amounts."""
        return (self.pod_class, *self.scaled.values()) if self.scaled else (self.pod_class,)

    def beyond(self) -> Vector:
        """``[R]`` how much more it asks for on the kind of nodes on which it takes most."""
        size = max(len(one.vector) for one in self.classes)
        vectors = [fitted(one.vector, size) for one in self.classes]
        most: Vector = np.maximum.reduce(vectors) - vectors[0]
        return most

    def __repr__(self) -> str:
        return f"Task({self.key}, {self.status.label}{', ' + self.node if self.node else ''})"


_ATTRIBUTES = attrgetter(*Task.__slots__)

JOB_SUMS = ("allocated", "request", "gated_request", "elsewhere")
"""Names of the sums over a job's tasks."""


class Job:
    """One PodGroup with its pods; ``known`` is False while only pods that name it have been seen.

    Attributes:
        key: ``namespace/name`` of the PodGroup.
        queue: queue name; empty spec means the default queue.
        priority_class: ``spec.priorityClassName``; its value is looked up per session.
        min_member: gang size; 0 means always ready.
        min_task_member: minimum per role; ignored when ``min_member`` is below their sum.
        min_resources: ``[R]`` ``spec.minResources``, or None when absent; ``min_amounts`` the same by name.
        min_quoted: the same with the names that only quotas know (``limits.cpu``, ``count/pods``).
        phase: ``status.phase``, ``"Pending"`` when empty; ``reported_phase`` is empty then.
        conditions: ``status.conditions`` as (type, status, reason, message), one per type.
        totals: status.running, succeeded and failed as last written.
        counts: pods by status, indexed by `TaskStatus`.
        role_counts: the same by role.
        pending: tasks in state Pending.
        pending_best_effort: how many of those request nothing.
        releasing_on_node: tasks that are being deleted and still occupy a node.
        allocated: sum of requests of tasks in allocated states, ``[R]``.
        request: ``allocated`` plus the requests of pending tasks, where they take most, ``[R]``.
        gated_request: requests of pending tasks with scheduling gates, ``[R]``.
        elsewhere: requests of tasks that other schedulers have placed, which are in none of the other sums, ``[R]``.
        held: it waits after a failed bind, and asks for nothing meanwhile.
        gone: its PodGroup went while pods held nodes: it counts as before until these are gone, and gets nothing.
        owned: another object controls the PodGroup.
        promised: ``[R]`` room on nodes that is kept for its pods which are to come (`unisono.cluster.promises`), None
            where none is.
        licenses: floating resources that it holds once while any of its pods holds a place, by resource name; empty
            for none. ``license_vector`` the same as ``[R]``, None for none; ``allocated`` and ``request`` count them.
        topology: ``spec.networkTopology``, None when absent.
        sub_groups: ``spec.subGroupPolicy``.
        shape: jobs that scheduling cannot tell apart share it; 0: like no other, or nothing to do for a cycle (see
            `unisono.cluster.shapes`).
        kin: the same, but that jobs of several namespaces may share it, which placing does not tell apart.
        derived: what readers have worked out from this record and its tasks alone, by name. It is emptied when they
            have changed, so that it holds from cycle to cycle.
    """

    __slots__ = (
        "allocated", "annotations", "conditions", "counts", "created", "derived", "elsewhere", "gated_request", "gone",
        "held", "key", "kin", "known", "labels", "license_vector", "licenses", "min_amounts", "min_member",
        "min_quoted", "min_resources", "min_task_member", "name", "namespace", "owned", "pending",
        "pending_best_effort", "phase", "priority_class", "promised", "queue", "releasing_on_node", "reported_phase",
        "request", "role_counts", "shape", "sub_groups", "tasks", "topology", "totals", "uid",
    )  # fmt: skip

    def __init__(self, namespace: str, name: str, size: int) -> None:
        self.namespace = namespace
        self.name = name
        self.key = f"{namespace}/{name}"
        self.uid = ""
        self.known = False
        self.owned = False
        self.queue = ""
        self.priority_class = ""
        self.created = 0.0
        self.min_member = 0
        self.min_task_member: dict[str, int] = {}
        self.min_resources: Vector | None = None
        self.min_amounts: Mapping[str, int] | None = None
        self.min_quoted: Mapping[str, int] | None = None
        self.licenses: Mapping[str, int] = {}
        self.license_vector: Vector | None = None
        self.topology: TopologyWish | None = None
        self.sub_groups: tuple[SubGroupPolicy, ...] = ()
        self.phase = "Pending"
        self.reported_phase = ""
        self.conditions: dict[str, tuple[str, str, str]] = {}
        self.totals = (0, 0, 0)
        self.labels: Mapping[str, str] = {}
        self.annotations: Mapping[str, str] = {}
        self.tasks: dict[str, Task] = {}
        self.pending: dict[str, Task] = {}
        self.pending_best_effort = 0
        self.releasing_on_node = 0
        self.counts: list[int] = [0] * STATUS_COUNT
        self.role_counts: dict[str, list[int]] = {}
        self.shape = self.kin = 0
        self.held = self.gone = False
        self.promised: Vector | None = None
        self.derived: dict[object, Any] = {}
        self.allocated: Vector = np.zeros(size, dtype=np.int64)
        self.request: Vector = np.zeros(size, dtype=np.int64)
        self.gated_request: Vector = np.zeros(size, dtype=np.int64)
        self.elsewhere: Vector = np.zeros(size, dtype=np.int64)

    def __repr__(self) -> str:
        return f"Job({self.key}, queue {self.queue}, {self.phase}, {len(self.tasks)} tasks)"


_SUMS = 6
"""Sums that a queue keeps."""


class Queue:
    """One Queue, and sums over its jobs that are kept up to date by events.

    Attributes:
        known: False while only PodGroups that name it have been seen.
        weight: ``spec.weight``, 1 when absent.
        priority: ``spec.priority``.
        reclaimable: true when absent.
        fifo: ``spec.dequeueStrategy`` is ``fifo``: no job is served before the first in order.
        state: ``status.state``, ``""`` while the controller has not written it; only ``Open`` admits.
        parent: ``spec.parent`` or ``""``.
        capability, deserved, guarantee: by resource name in engine units; None when the spec has none. A name that is
            absent means no limit for capability and zero for the others.
        allocated: sum of requests of tasks in allocated states, ``[R]``.
        request: ``allocated`` plus pending tasks, ``[R]``.
        inqueue: what admitted jobs are still promised: for Inqueue jobs, and for Running jobs that hold their minimum,
            the part of minResources that they do not hold yet, less gated pods; and what is kept on nodes for
            whichever job, ``[R]``.
        promised: as ``inqueue``, but the full minResources of Inqueue jobs, ``[R]`` (overcommit's sum).
        elastic: what jobs hold beyond their minResources, ``[R]``.
        standing: the part of ``inqueue`` that is kept on nodes already, and counts as used there, ``[R]``.
        jobs: keys of its jobs.
        affinity: node groups that its pods may use.
        reported: ``status.allocated`` as last seen, wire form.
        exact: the six sums as jobs come and go; `tell_sums` says them.
    """

    __slots__ = (
        "affinity", "annotations", "capability", "created", "deserved", "exact", "fifo", "guarantee", "jobs", "known",
        "name", "parent", "priority", "reclaimable", "reported", "state", "sums", "uid", "weight",
    )  # fmt: skip

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.uid = ""
        self.known = False
        self.weight = 1
        self.priority = 0
        self.reclaimable = True
        self.fifo = False
        self.state = ""
        self.parent = ""
        self.created = 0.0
        self.annotations: Mapping[str, str] = {}
        self.capability: dict[str, int] | None = None
        self.deserved: dict[str, int] | None = None
        self.guarantee: dict[str, int] | None = None
        self.affinity: QueueAffinity | None = None
        self.reported: dict[str, str] = {}
        self.jobs: set[str] = set()
        self.sums: Matrix = np.zeros((_SUMS, size), dtype=np.int64)
        self.exact = WideSum((_SUMS, size))

    @property
    def allocated(self) -> Vector:
        """Requests of tasks in allocated states."""
        row: Vector = self.sums[0]
        return row

    @property
    def request(self) -> Vector:
        """``allocated`` plus pending tasks."""
        row: Vector = self.sums[1]
        return row

    @property
    def inqueue(self) -> Vector:
        """What admitted jobs are still promised."""
        row: Vector = self.sums[2]
        return row

    @property
    def promised(self) -> Vector:
        """As ``inqueue``, with the full minResources of Inqueue jobs."""
        row: Vector = self.sums[3]
        return row

    @property
    def elastic(self) -> Vector:
        """What jobs hold beyond their minResources."""
        row: Vector = self.sums[4]
        return row

    @property
    def standing(self) -> Vector:
        """The part of ``inqueue`` that is kept on nodes already."""
        row: Vector = self.sums[5]
        return row

    def tell_sums(self) -> None:
        """Bring the sums up to date with what jobs came and went."""
        self.sums = self.exact.value()

    def take_sums(self, sums: Matrix) -> None:
        """Carry the sums over from an older record of the same queue."""
        self.sums = sums

    def widen(self, size: int) -> None:
        """Give the sums ``size`` rows."""
        if self.sums.shape[1] < size:
            wide = np.zeros((_SUMS, size), dtype=np.int64)
            wide[:, : self.sums.shape[1]] = self.sums
            self.sums = wide
            self.exact.widen(size)

    def __repr__(self) -> str:
        return f"Queue({self.name}, weight {self.weight}, {self.state or 'no state'}, {len(self.jobs)} jobs)"


class NodePods(dict[str, Task]):
    """Pods that occupy a node, by key.

    Attributes:
        derived: what readers have worked out from these pods and the annotations of their PodGroups alone, by name. It
            is emptied when they have changed, so that it holds from cycle to cycle.
    """

    __slots__ = ("derived",)

    def __init__(self) -> None:
        super().__init__()
        self.derived: dict[str, Any] = {}
