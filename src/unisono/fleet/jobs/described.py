"""Jobs of kinds that a table describes, on a hub: what stands for them, and how their copies follow (pure).

Such a kind's controller runs in members alone, so the table says what its pods ask for, and by which label they are
known; templates that have metadata carry the marks of the dispatch besides.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from unisono.api.annotations import JOB_KIND, SCALED_AT
from unisono.api.base import Object, ObjectMeta
from unisono.api.core import CustomResourceDefinition, Pod
from unisono.api.groups.scheduling import PodGroupSpec
from unisono.api.keys import GROUP_MIN_MEMBER, GROUP_NAME
from unisono.api.kinds import ALL_KINDS
from unisono.api.pod_limit import MOST_PODS
from unisono.api.selecting import DEFAULT_QUEUE
from unisono.controllers.job.view import DEFAULT_SCHEDULER
from unisono.controllers.objects import to_json
from unisono.controllers.owners import whole_number
from unisono.controllers.pod_groups import pod_group_of_job, sum_usage
from unisono.controllers.podgroup.decide import topology
from unisono.fleet.jobs.work import Operation, Work, bare, bound_within
from unisono.jobkinds.kind import JobKind, PodSet
from unisono.jobkinds.paths import first, put, walk
from unisono.jobkinds.registry import foreign
from unisono.jobkinds.tables import as_served, described

_SPEC: Final = "spec."
_OWN: Final = frozenset(kind.resource for kind in ALL_KINDS)


def kinds_of(crds: Iterable[CustomResourceDefinition]) -> dict[str, JobKind]:
    """By resource: kinds of a hub's definitions whose objects it sends to members, by what tables say of them.

    What a table says of a kind that this program knows by itself counts for nothing, as everywhere else.
    """
    crds = [crd for crd in crds if crd.metadata.name not in _OWN and crd.spec.scope == "Namespaced"]
    built_in = {each.kind.resource: as_served(each, crds) for each in foreign()}
    described_kinds = {each.kind.resource: each for each in described(crds, alone=True)[0]}
    served = {crd.metadata.name for crd in crds}
    return {
        name: each for name, each in (described_kinds | built_in).items() if name in served and each.fleet == "whole"
    }


def is_described(crd: CustomResourceDefinition) -> bool:
    """Whether a definition may be of such a kind."""
    return JOB_KIND in (crd.metadata.annotations or {}) or any(
        each.kind.resource == crd.metadata.name for each in foreign()
    )


def work_of(known: JobKind, job: Object) -> Work | None:
    """The gang of a job and its pods; None where it asks for none now."""
    if known.is_suspended(job):
        return None
    sets = [each for each in known.pods(job) if each.count > 0]
    if not sets:
        return None
    meta = job.metadata
    notes = meta.annotations or {}
    queue = next(iter(known.queues_of(job)), DEFAULT_QUEUE)
    least = sum(each.count if each.least is None else min(each.least, each.count) for each in sets)
    asked = whole_number(notes.get(GROUP_MIN_MEMBER))
    spec = PodGroupSpec(
        min_member=max(1, min(asked, sum(each.count for each in sets)) if asked else least),
        queue=queue,
        priority_class_name=known.priority_of(job) or None,
        min_resources={**sum_usage((each.spec, each.count) for each in sets)},
        network_topology=bound_within(topology(notes)),
    )
    group = pod_group_of_job(known.kind, job, f"{meta.name}-{meta.uid}", spec)
    pods: list[Pod] = []
    for each in sets:
        pods += [
            _pod(known, job, each, at, group.metadata.name) for at in range(min(each.count, MOST_PODS - len(pods)))
        ]
    return Work(group, tuple(bare(pod) for pod in pods))


def _pod(known: JobKind, job: Object, pods: PodSet, at: int, group: str) -> Pod:
    labels = {known.pods_label: job.metadata.name, known.part_label: pods.role}
    name = "-".join(filter(None, (job.metadata.name, pods.role, str(at))))
    priority = pods.spec.priority_class_name or known.priority_of(job) or None
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=job.metadata.namespace,
            labels={key: value for key, value in labels.items() if key},
            annotations={GROUP_NAME: group},
        ),
        spec=msgspec.structs.replace(
            pods.spec, scheduler_name=DEFAULT_SCHEDULER, node_name=None, priority_class_name=priority
        ),
    )


def changes(known: JobKind, job: Object, copied: Object) -> list[Operation]:
    """JSON patch that brings suspension and sizes of a job to its copy; empty where they agree."""
    desired, have = to_json(job).get("spec") or {}, to_json(copied).get("spec") or {}
    value: dict[str, Any] = {"spec": msgspec.json.decode(msgspec.json.encode(have))}
    if known.flag.startswith(_SPEC) and known.is_suspended(job) != known.is_suspended(copied):
        put(value, known.flag, known.flag_values[0 if known.is_suspended(job) else 1])
    if known.replicas.startswith(_SPEC) and SCALED_AT not in (copied.metadata.annotations or {}):
        for path, number in walk({"spec": desired}, known.replicas):
            if first(value, path) not in (None, number):
                put(value, path, number)
    operations: list[Operation] = [
        {"op": "add", "path": f"/spec/{_escaped(key)}", "value": each}
        for key, each in value["spec"].items()
        if have.get(key) != each
    ]
    return [{"op": "test", "path": "/metadata/uid", "value": copied.metadata.uid}, *operations] if operations else []


def _escaped(key: str) -> str:
    """A key as a part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")
