"""Pods of a gang that do not exist yet: what each role will ask for, as its controller wrote it on the PodGroup."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from unisono.api.annotations import GANG_PARTS
from unisono.api.gang_parts import Part, decode_parts
from unisono.cluster.podclass import PodClass, PodRelations
from unisono.cluster.records import Job, Task
from unisono.cluster.resources import ResourceRegistry
from unisono.cluster.snapshot import Snapshot
from unisono.cluster.status import TaskStatus
from unisono.engine.session.session import Session

_KEPT = 256
_NOTHING_LEFT = (TaskStatus.FAILED, TaskStatus.RELEASING)


class Unmade(NamedTuple):
    """So many pods of one role that do not exist."""

    role: str
    number: int
    pod_class: PodClass


class _Classes:
    """Classes of pods that do not exist, kept from cycle to cycle; their ids are those of no other class."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[PodClass, ...]] = {}
        self._last = -1

    def of(
        self, text: str, namespace: str, parts: tuple[Part, ...], registry: ResourceRegistry
    ) -> tuple[PodClass, ...]:
        """One class for each part."""
        found = self._known.pop((text, namespace), None)
        if found is None:
            found = tuple(self._class(part, namespace, registry) for part in parts)
        for one in (each for made in found for each in {made.id: made, made.base.id: made.base}.values()):
            if len(one.vector) != len(registry):
                one.lay_out(registry)
        self._known[text, namespace] = found
        if len(self._known) > _KEPT:
            del self._known[next(iter(self._known))]
        return found

    def _class(self, part: Part, namespace: str, registry: ResourceRegistry) -> PodClass:
        base = PodClass(self._next(), part.spec, registry)
        claims = (one.persistent_volume_claim for one in part.spec.volumes or ())
        volumes = tuple(f"{namespace}/{one.claim_name}" for one in claims if one is not None)
        # Claims that are made from templates come with the pods.
        names = (one.resource_claim_name for one in part.spec.resource_claims or ())
        devices = tuple(f"{namespace}/{name}" for name in names if name is not None)
        if not volumes and not devices:
            return base
        return base.refined(self._next(), PodRelations(volumes=volumes, devices=devices))

    def _next(self) -> int:
        self._last -= 1
        return self._last


def unmade_pods(session: Session, record: Job) -> list[Unmade]:
    """The pods of the smallest gang that are missing, role by role; none where that is not known."""
    return unmade_in(session.snapshot, record)


def unmade_in(snapshot: Snapshot, record: Job) -> list[Unmade]:
    """The same of any snapshot."""
    text = record.annotations.get(GANG_PARTS, "")
    parts = decode_parts(text) if text else ()
    if sum(part.count for part in parts) != record.min_member:  # someone else changed the PodGroup
        return []
    there = Counter(task.role for task in record.tasks.values() if task.status not in _NOTHING_LEFT)
    if there.keys() - {part.role for part in parts}:
        return []
    classes = snapshot.memo.of(_Classes, _Classes).of(text, record.namespace, parts, snapshot.registry)
    found = (Unmade(part.role, part.count - there[part.role], one) for part, one in zip(parts, classes, strict=True))
    return [one for one in found if one.number > 0]


def imagined(record: Job, unmade: list[Unmade], most: int = 1) -> Iterator[Task]:
    """Tasks in place of pods that do not exist, at most so many of each role."""
    for role, missing, pod_class in unmade:
        for number in range(min(missing, most)):
            name = "-".join(filter(None, (record.name, role, f"unmade-{number}")))
            task = Task(record.namespace, name, f"{record.uid}-{role}-{number}", pod_class)
            task.job, task.role = record.key, role
            yield task
