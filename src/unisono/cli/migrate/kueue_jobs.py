"""Jobs with Kueue's labels: their queue, priority, gang and topology in our words."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from unisono.api import keys
from unisono.api.kinds import POD_GROUPS, PODS
from unisono.cli.migrate.written import Json, Written, amount, meta_of, name_of, spec_of, texts
from unisono.jobkinds.kind import JobKind
from unisono.jobkinds.paths import first, put, walk
from unisono.jobkinds.registry import job_kind_of

_DOMAIN = "kueue.x-k8s.io"
_GROUP = f"{_DOMAIN}/pod-group-name"
_TOTAL = f"{_DOMAIN}/pod-group-total-count"
_REQUIRED = f"{_DOMAIN}/podset-required-topology"
_PREFERRED = f"{_DOMAIN}/podset-preferred-topology"
_FREE = f"{_DOMAIN}/podset-unconstrained-topology"
_METADATA = ("labels", "annotations")
Places = Mapping[tuple[str, str], str]


def requested(obj: Json) -> set[str]:
    """Resources that the pods of an object with Kueue's label request."""
    return {
        name
        for spec in _pod_specs(obj)
        for part in ("requests", "limits")
        for _, found in walk(spec, f"containers[*].resources.{part}")
        for name in found
    }


def _pod_specs(obj: Json) -> Iterator[Mapping[str, Any]]:
    kind = job_kind_of(obj)
    for path in _templates(kind) if kind is not None else ():
        yield from (spec for _, spec in walk(obj, f"{path}spec"))


def _templates(kind: JobKind) -> tuple[str, ...]:
    return tuple(f"{each}." for each in kind.templates) or ("",)


def converted(
    done: Written,
    objects: Iterable[Json],
    places: Places,
    levels: Mapping[str, int],
    tolerations: Mapping[str, list[Json]],
) -> list[Json]:
    """Objects that are no Kueue's: jobs with its labels in our words, all others as they are.

    Args:
        done: gets what is told.
        objects: of the dump.
        places: queues by namespace and name of a LocalQueue.
        levels: tiers of HyperNodes by label.
        tolerations: what the flavors of a queue bring, by queue.
    """
    groups: dict[tuple[str, str], list[Json]] = defaultdict(list)
    rewritten = [_job(done, each, places, levels, tolerations, groups) for each in objects]
    return [*(_pod_group(done, key, pods) for key, pods in groups.items()), *rewritten]


def _job(
    done: Written,
    given: Json,
    places: Places,
    levels: Mapping[str, int],
    tolerations: Mapping[str, list[Json]],
    groups: dict[tuple[str, str], list[Json]],
) -> Json:
    kind = job_kind_of(given)
    job = copy.deepcopy(given)
    metas = [job.get("metadata") or {}, *(meta for _, meta in _inner(job, kind))]
    labelled = [meta for meta in metas if keys.KUEUE_QUEUE in (meta.get("labels") or {})]
    if not labelled:
        return given
    namespace, what = str(meta_of(job).get("namespace") or "default"), f"{job.get('kind')} {name_of(job)}"
    local = str(labelled[0]["labels"][keys.KUEUE_QUEUE])
    queue = places.get((namespace, local))
    if queue is None:
        done.lost.append(f"{what}: its LocalQueue {local} is not in the dump")
        return given
    if kind is None:
        done.lost.append(f"{what}: what its kind is made of is not known here (docs/kinds.md)")
        return given
    priority = ""
    for meta in metas:
        labels = meta.get("labels") or {}
        labels.pop(keys.KUEUE_QUEUE, None)
        priority = labels.pop(keys.KUEUE_PRIORITY, "") or priority
    kind.use_queue(job, queue)
    if priority:
        _prioritize(job, kind, str(priority))
    _gang(done, job, kind, what)
    _topology(done, job, kind, what, levels)
    _tolerate(job, kind, tolerations.get(queue) or [])
    if kind.kind is PODS and (group := (job["metadata"].get("labels") or {}).pop(_GROUP, None)):
        groups[namespace, str(group)].append(job)
    for at in ("metadata", *(path for path, _ in _inner(job, kind))):
        for key in [key for part in _METADATA for key in first(job, f"{at}.{part}") or ()]:
            if _DOMAIN in key.partition("/")[0]:
                done.lost.append(f"{what}: {key} (docs/words-of-others.md)")
    for path in (kind.flag, *(f"{each}.spec.suspend" for each in kind.inner)):
        if path and first(job, path) is True:
            put(job, path, False)
            done.changes.append(f"{what} is not suspended: its pods wait for the queue")
    return job


def _inner(job: Json, kind: JobKind | None) -> list[tuple[str, Json]]:
    """Metadata of an object's templates, with their paths."""
    paths = (*kind.inner, *kind.templates) if kind is not None else ()
    return [(at, meta) for path in paths for at, meta in walk(job, f"{path}.metadata")]


def _prioritize(job: Json, kind: JobKind, name: str) -> None:
    """Pods keep the class that they name; the gang gets the one of its label."""
    kind.use_priority(job, name)
    for path in _templates(kind):
        for at, spec in list(walk(job, f"{path}spec")):
            if not spec.get("priorityClassName"):
                put(job, f"{at}.priorityClassName", name)


def _gang(done: Written, job: Json, kind: JobKind, what: str) -> None:
    """Kueue admits all pods of a Job and of a StatefulSet or none; here that is said."""
    notes = job["metadata"].get("annotations") or {}
    least = notes.pop(keys.KUEUE_LEAST, None)
    if kind.kind.kind == "Job" and kind.kind.group == "batch":
        size = min(int(spec_of(job).get("parallelism", 1)), int(spec_of(job).get("completions") or 1 << 30))
        number = int(least) if least is not None and str(least).isdigit() else size
        if least is not None:
            done.changes.append(f"{what} starts with {number} pods; the others follow when there is room")
        if number > 1:
            kind.fewer(job, number)
    elif kind.kind.kind == "StatefulSet":
        size = int(spec_of(job).get("replicas", 1))
        if spec_of(job).get("podManagementPolicy") == "Parallel":
            kind.fewer(job, size)
        elif size > 1:
            done.lost.append(f"{what}: its pods come one after the other, and are not admitted together")


def _tolerate(job: Json, kind: JobKind, brought: list[Json]) -> None:
    for path in _templates(kind):
        for at, spec in list(walk(job, f"{path}spec")):
            mine = spec.get("tolerations") or []
            if more := [each for each in brought if each not in mine]:
                put(job, f"{at}.tolerations", [*mine, *more])


def _topology(done: Written, job: Json, kind: JobKind, what: str, levels: Mapping[str, int]) -> None:
    for path in (f"{each}metadata.annotations" for each in _templates(kind)):
        for _, notes in list(walk(job, path)):
            notes.pop(_FREE, None)
            for key, mode in ((_REQUIRED, "hard"), (_PREFERRED, "soft")):
                label = notes.pop(key, None)
                if label is None:
                    continue
                if label not in levels:
                    done.lost.append(f"{what}: {key}: no HyperNodes are made of label {label}")
                    continue
                notes |= {keys.NETWORK_TOPOLOGY_MODE: mode, keys.NETWORK_TOPOLOGY_HIGHEST_TIER: str(levels[label])}


def _pod_group(done: Written, key: tuple[str, str], pods: list[Json]) -> Json:
    """The group of plain pods; they may not all be in the dump."""
    namespace, name = key
    total = len(pods)
    room: dict[str, Fraction] = defaultdict(Fraction)
    queue = priority = ""
    for pod in pods:
        notes = pod["metadata"].setdefault("annotations", {})
        count = str(notes.pop(_TOTAL, ""))
        total = int(count) if count.isdigit() else total
        queue = next(iter(found for found in _queue_of(pod)), queue)
        priority = spec_of(pod).get("priorityClassName") or priority
        notes[keys.GROUP_NAME] = name
        for _, requests in walk(spec_of(pod), "containers[*].resources.requests"):
            for resource, value in requests.items():
                room[resource] += amount(value)
    # What said so was told as lost before the pods of a group were together.
    done.lost = [each for each in done.lost if _TOTAL not in each]
    spec = {"minMember": total, "queue": queue, "minResources": texts(room)}
    if priority:
        spec["priorityClassName"] = priority
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind, "metadata": meta, "spec": spec}


def _queue_of(pod: Json) -> Iterable[str]:
    kind = job_kind_of(pod)
    return kind.queues_of(pod) if kind is not None else ()
