"""Pods of a gang that do not exist yet: what each role will ask for, as its controller wrote it on the PodGroup."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from unisono.api.annotations import GANG_PARTS
from unisono.api.core import Container, PodSpec, ResourceRequirements, Toleration
from unisono.api.gang_parts import Part, decode_parts
from unisono.api.resources import to_wire
from unisono.cluster.podclass import PodClass, PodRelations
from unisono.cluster.records import Job, Task
from unisono.cluster.resources import ResourceRegistry
from unisono.cluster.snapshot import Snapshot
from unisono.cluster.status import TaskStatus
from unisono.engine.plugins.admission_limits import amount_of, concerns, plain
from unisono.engine.session.job_state import JobState
from unisono.engine.verdicts.edit import Edit
from unisono.engine.verdicts.pending_pods import PodsAlike

_KEPT = 256
_NOTHING_LEFT = (TaskStatus.FAILED, TaskStatus.RELEASING)


class _Classes:
    """Classes of pods that do not exist, kept from cycle to cycle; their ids are those of no other class."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[PodClass, ...]] = {}
        self._last = -1

    def of(
        self, text: str, namespace: str, parts: tuple[Part, ...], registry: ResourceRegistry
    ) -> tuple[PodClass, ...]:
        """One class for each part."""
        classes = self._known.pop((text, namespace), None)
        if classes is None:
            classes = tuple(self._class(part, namespace, registry) for part in parts)
        for one in (each for made in classes for each in {made.id: made, made.base.id: made.base}.values()):
            if len(one.vector) != len(registry):
                one.lay_out(registry)
        self._known[text, namespace] = classes
        if len(self._known) > _KEPT:
            del self._known[next(iter(self._known))]
        return classes

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


def unmade_pods(snapshot: Snapshot, record: Job) -> list[PodsAlike]:
    """The pods of the smallest gang that are missing, role by role; none where that is not known."""
    text = record.annotations.get(GANG_PARTS, "")
    parts = decode_parts(text) if text else ()
    if sum(part.count for part in parts) != record.min_member:  # someone else changed the PodGroup
        return []
    there = Counter(task.role for task in record.tasks.values() if task.status not in _NOTHING_LEFT)
    if there.keys() - {part.role for part in parts}:
        return []
    classes = snapshot.memo.of(_Classes, _Classes).of(text, record.namespace, parts, snapshot.registry)
    missing = (
        PodsAlike(one, part.role, "", part.count - there[part.role]) for part, one in zip(parts, classes, strict=True)
    )
    return [one for one in missing if one.count > 0]


def imagined(record: Job, unmade: list[PodsAlike], most: int = 1) -> Iterator[Task]:
    """Tasks in place of pods that do not exist, at most so many of each role."""
    for one in unmade:
        for number in range(min(one.count, most)):
            name = "-".join(filter(None, (record.name, one.role, f"unmade-{number}")))
            task = Task(record.namespace, name, f"{record.uid}-{one.role}-{number}", one.pod_class)
            task.job, task.role = record.key, one.role
            yield task


def one_of_many(record: Job) -> dict[str, int]:
    """What each pod of a gang of one role asks for: an equal part of minResources; empty where that is not known."""
    asked, members = record.min_amounts, record.min_member
    if asked and record.licenses:
        asked = {name: amount - record.licenses.get(name, 0) for name, amount in asked.items()}
    if not asked or members < 1 or len(record.min_task_member) > 1:
        return {}
    if any(amount % members for amount in asked.values()):
        return {}
    return {name: amount // members for name, amount in asked.items() if amount > 0 and name != "pods"}


_OWN = "node.kubernetes.io/"


def add_unmade_pods(edit: Edit, key: str, unmade: list[PodsAlike], most: int) -> int:
    """Give a PodGroup the pods of its smallest gang that do not exist, and return how many.

    Where its roles are not known each asks for an equal part of minResources; none is made where those do not tell, or
    above ``most``. Which taints such pods will tolerate is not known either: those that users put on nodes do not count
    against an offer.
    """
    record = edit.origin.jobs.get(key)
    if record is None:
        return 0
    if not unmade and not record.tasks:
        unmade = _equal_parts(edit, record)
    number = sum(one.count for one in unmade)
    if number > most:
        return 0
    for task in imagined(record, unmade, number):
        task.pod_class = edit.pod_class(task.pod_class, "unmade")
        edit.put(task)
    return number


def drop_refused_pods(edit: Edit, job: JobState, counted: Mapping[str, Mapping[str, int]]) -> None:
    """Take away those of the pods that were put in for which the namespace's ResourceQuotas have no room.

    ``counted`` has what the pods of each namespace hold, for quotas whose status does not say it.
    """
    quotas = [quota for quota in edit.quotas(job.namespace).values() if concerns(quota, job.record)]
    if not quotas or job.key not in edit.origin.jobs:
        return
    taken = [dict(quota.used if quota.used is not None else counted[job.namespace]) for quota in quotas]
    used = [{name: amount_of(held, name) for name in quota.hard} for quota, held in zip(quotas, taken, strict=True)]
    for task in list(edit.job(job.key).tasks.values()):
        if task.key in edit.origin.tasks:
            continue
        asked = {**task.pod_class.requests, "pods": 1}
        needs = [{name: amount_of(asked, name) for name in quota.hard} for quota in quotas]
        after = [{name: have[name] + need[name] for name in have} for have, need in zip(used, needs, strict=True)]
        if any(
            need[name] > 0 and have[name] > quota.hard[name]
            for quota, need, have in zip(quotas, needs, after, strict=True)
            for name in have
            if not plain(name).startswith(("limits.", "count/"))
        ):
            edit.drop(task.key)
        else:
            used = after


def _equal_parts(edit: Edit, record: Job) -> list[PodsAlike]:
    each = one_of_many(record)
    if not each:
        return []
    taints = {taint.key or "" for facts in edit.origin.nodes.facts for taint in facts.taints}
    tolerations = [Toleration(key=name, operator="Exists") for name in sorted(taints) if not name.startswith(_OWN)]
    container = Container(name="main", resources=ResourceRequirements(requests=dict(to_wire(each))))
    spec = PodSpec(containers=[container], tolerations=tolerations)
    one = PodClass(-1, spec, edit.origin.registry)
    return [PodsAlike(one, next(iter(record.min_task_member), ""), "", record.min_member)]
