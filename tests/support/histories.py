"""Lives of jobs and pods told to a ledger, event by event, on a clock of their own."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from support.build import START, amounts, group, node, queue
from unisono.api.annotations import NODE_CHECK, USER
from unisono.api.base import Object, ObjectMeta, OwnerReference
from unisono.api.core import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from unisono.api.groups.batch import Job, JobSpec, JobState, JobStatus
from unisono.api.kind import Kind
from unisono.api.kind_families import JOB_FLOWS
from unisono.api.kinds import JOBS, NODE_CHECKS, NODES, POD_GROUPS, PODS, QUEUES
from unisono.api.times import rfc3339
from unisono.history.ledger import KINDS, Ledger
from unisono.history.records import Changes, Interval, JobRecord, Memory

ZERO = round(START * 1000)


def owner(kind: Kind[Any], name: str, *, namespace: str = "ns") -> OwnerReference:
    """The controller's entry in what it owns."""
    return OwnerReference(
        api_version=kind.api_version, kind=kind.kind, name=name, uid=uid_of(kind, name, namespace), controller=True
    )


def uid_of(kind: Kind[Any], name: str, namespace: str = "ns") -> str:
    """UID that these builders give."""
    return f"{kind.kind.lower()}-{namespace}-{name}"


def a_job(
    name: str,
    phase: str = "Pending",
    *,
    namespace: str = "ns",
    queue: str = "q",
    user: str = "ann",
    created: float = 0.0,
    changed: float | None = None,
    message: str = "",
    parent: OwnerReference | None = None,
) -> Job:
    """A Volcano Job in a phase since ``changed`` seconds."""
    return Job(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid_of(JOBS, name, namespace),
            creation_timestamp=rfc3339(START + created),
            annotations={USER: user} if user else None,
            owner_references=[parent] if parent else None,
        ),
        spec=JobSpec(queue=queue),
        status=JobStatus(
            state=JobState(
                phase=phase,
                message=message or None,
                last_transition_time=None if changed is None else rfc3339(START + changed),
            )
        ),
    )


def a_pod(
    name: str,
    job: str = "j",
    *,
    namespace: str = "ns",
    parent: OwnerReference | None = None,
    alone: bool = False,
    gang: str = "j",
    node: str = "n1",
    phase: str = "Running",
    created: float = 0.0,
    bound: float | None = 0.0,
    ended: float | None = None,
    exit_code: int = 0,
    evicted: bool = False,
    deleting: bool = False,
    check: str = "",
    restarts: int = 0,
    uid: str = "",
    resources: Mapping[str, Any] = {"cpu": 2, "gpu": 1},
) -> Pod:
    """A pod of a job that got its node after ``bound`` seconds, and ended after ``ended``; or of a NodeCheck."""
    conditions = []
    if bound is not None and node:
        conditions.append(PodCondition(type="PodScheduled", status="True", last_transition_time=rfc3339(START + bound)))
    if evicted:
        conditions.append(PodCondition(type="DisruptionTarget", status="True"))
    state = ContainerState(running=ContainerStateRunning(started_at=rfc3339(START + (bound or 0.0))))
    if ended is not None:
        state = ContainerState(
            terminated=ContainerStateTerminated(exit_code=exit_code, finished_at=rfc3339(START + ended))
        )
    references = [] if alone else [parent or owner(JOBS, job, namespace=namespace)]
    if check:
        owned = {"api_version": NODE_CHECKS.api_version, "kind": NODE_CHECKS.kind, "name": check, "uid": check}
        references = [OwnerReference(**owned)]
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid or f"uid-{namespace}-{name}",
            creation_timestamp=rfc3339(START + created),
            deletion_timestamp=rfc3339(START + created) if deleting else None,
            labels={NODE_CHECK: check} if check else None,
            annotations={"scheduling.k8s.io/group-name": gang} if gang else None,
            owner_references=references or None,
        ),
        spec=PodSpec(
            node_name=node or None,
            containers=[Container(name="c", resources=ResourceRequirements(requests=amounts(resources)))],  # type: ignore[arg-type]
        ),
        status=PodStatus(
            phase=phase,
            conditions=conditions or None,
            container_statuses=[ContainerStatus(name="c", state=state, restart_count=restarts)] if node else None,
        ),
    )


def a_group(name: str = "j", queue: str = "q", *, parent: OwnerReference | None = None, namespace: str = "ns") -> Any:
    """The PodGroup of a gang."""
    found = group(name, queue=queue, namespace=namespace)
    found.metadata.uid = uid_of(POD_GROUPS, name, namespace)
    found.metadata.owner_references = [parent] if parent else None
    return found


class Kept:
    """What was stored, in memory."""

    def __init__(self) -> None:
        self.everything = Changes()

    def store(self, changes: Changes) -> None:
        """One transaction."""
        self.everything = self.everything.then(changes)
        for uid, job in changes.jobs.items():
            assert job is None or uid == job.uid

    @property
    def jobs(self) -> dict[str, JobRecord]:
        return {uid: job for uid, job in self.everything.jobs.items() if job is not None}

    @property
    def intervals(self) -> list[Interval]:
        return [each for each in self.everything.intervals.values() if each is not None]

    def memory(self) -> Memory:
        """What a ledger starts from after a restart."""
        there = [each for each in self.intervals if each.present]
        held = {each.job for each in there}
        return Memory(
            links=[link for link in self.everything.links.values() if link is not None],
            jobs=[job for uid, job in self.jobs.items() if job.live or uid in held],
            intervals=there,
            shares=list({(share.queue, share.resource): share for share in self.everything.shares}.values()),
            versions=self.everything.versions,
            heard=self.everything.heard,
        )


class Story:
    """A ledger, what it has stored, and what the server holds."""

    def __init__(self) -> None:
        self.kept = Kept()
        self.ledger = Ledger(Memory())
        self.version = 0
        self.there: dict[tuple[str, str], Object] = {}

    def tell(self, at: float, obj: Object, *, deleted: bool = False) -> None:
        """One change, ``at`` seconds after the beginning."""
        kind = KIND_OF[type(obj)]
        self.version += 1
        obj.metadata.resource_version = str(self.version)
        key = (kind.resource, obj.metadata.uid or obj.metadata.name)
        if deleted:
            self.there.pop(key, None)
        else:
            self.there[key] = obj
        self.ledger.apply(kind, obj, ZERO + round(at * 1000), deleted=deleted)

    def again(self, at: float, obj: Object, *, deleted: bool = False) -> None:
        """An event that was told before."""
        self.ledger.apply(KIND_OF[type(obj)], obj, ZERO + round(at * 1000), deleted=deleted)

    def miss(self, obj: Object, *, deleted: bool = False) -> None:
        """A change that the ledger does not hear of."""
        ledger, self.ledger = self.ledger, Ledger(Memory())
        self.tell(0.0, obj, deleted=deleted)
        self.ledger = ledger

    def alive(self, at: float) -> None:
        """The streams of all kinds are alive."""
        for kind in KINDS:
            self.ledger.tick(kind, ZERO + round(at * 1000))

    def relist(self, at: float, *kinds: Kind[Any]) -> None:
        """Complete lists of these kinds."""
        for kind in kinds:
            objects = [obj for (resource, _), obj in self.there.items() if resource == kind.resource]
            self.ledger.replace(kind, objects, str(self.version), ZERO + round(at * 1000))

    def store(self, at: float = 0.0) -> Kept:
        """Store what has changed."""
        self.kept.store(self.ledger.take(ZERO + round(at * 1000)))
        return self.kept

    def crash(self) -> None:
        """Lose what was not stored."""
        # Copies: the ledger changes what it is given.
        self.ledger = Ledger(deepcopy(self.kept.memory()))

    def lines(self, at: float = 0.0) -> list[tuple[Any, ...]]:
        """``(pod, queue, start, end, outcome)`` of all intervals, seconds after the beginning; end None while open."""
        found = self.store(at).intervals
        return sorted(
            (each.name, each.queue, seconds(each.start), seconds(each.end) if each.end else None, each.outcome)
            for each in found
        )

    def job(self, name: str = "j", at: float = 0.0) -> JobRecord:
        """The record of a job."""
        return self.store(at).jobs[uid_of(JOBS, name)]


KIND_OF: dict[type, Kind[Any]] = {
    Job: JOBS,
    JOB_FLOWS.struct: JOB_FLOWS,
    Pod: PODS,
    type(a_group()): POD_GROUPS,
    type(queue("q")): QUEUES,
    type(node("n")): NODES,
}


def seconds(millis: int) -> float:
    """Seconds after the beginning."""
    return (millis - ZERO) / 1000
