"""Jobs with Kueue's labels in a namespace that serves them: their queue, and what is written on them (pure)."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from unisono.api.annotations import KUEUE_QUEUES, SERVE
from unisono.api.keys import KUEUE_LEAST, KUEUE_PRIORITY, KUEUE_QUEUE
from unisono.api.kind_families import BATCH_CRON_JOBS, BATCH_JOBS
from unisono.jobkinds.jobset import JOBSET
from unisono.jobkinds.kind import JobKind, Json
from unisono.jobkinds.kubeflow import KUBEFLOW
from unisono.jobkinds.paths import put, walk
from unisono.jobkinds.ray import RAY
from unisono.jobkinds.workloads import PODS_ALONE, WORKLOADS

KUEUE: Final = "kueue"
"""The value of `SERVE`."""
SERVED: Final[tuple[JobKind, ...]] = tuple(
    each for each in (*WORKLOADS, *KUBEFLOW, *JOBSET, *RAY) if each.control == "flag"
)
"""Kinds whose objects are released and suspended."""

_NAMED: Final = (*WORKLOADS, *PODS_ALONE)
"""Kinds whose pods go to the Queue, though nothing suspends them."""

Notes = Mapping[str, str] | None


def is_served(namespace: Notes) -> bool:
    """Whether a namespace's annotations say that jobs with Kueue's labels are served there."""
    return (namespace or {}).get(SERVE) == KUEUE


def queue_behind(local: str, namespace: Notes) -> str:
    """The Queue behind a LocalQueue, by its namespace's annotations; empty where they name others only.

    Where they name none, it is the Queue of the same name.
    """
    text = (namespace or {}).get(KUEUE_QUEUES)
    if text is None:
        return local
    return (read_queues(text) or {}).get(local, "")


def queue_of_label(objects: Iterable[Any], namespace: Notes) -> str:
    """The Queue behind the first LocalQueue that a label names, of a pod and those above it; empty for none."""
    if not is_served(namespace):
        return ""
    local = next((found for each in objects if (found := local_queue(each))), "")
    return queue_behind(local, namespace) if local else ""


def queues_behind(kind: JobKind, obj: Any, namespace: Notes) -> Iterator[tuple[str, str]]:
    """Where an object of a kind, or what is made of it, has a LocalQueue's label, and the Queue behind that."""
    if is_served(namespace):
        for place in kind.labelled(KUEUE_QUEUE):
            for path, local in walk(obj, place):
                if queue := queue_behind(str(local), namespace):
                    yield path, queue


def words_read(kind: JobKind | None, namespace: Notes) -> frozenset[str]:
    """Kueue's words that are read on objects of a kind in a namespace."""
    if kind is None or not is_served(namespace):
        return frozenset()
    if kind.kind in (BATCH_JOBS, BATCH_CRON_JOBS):
        return frozenset((KUEUE_QUEUE, KUEUE_PRIORITY, KUEUE_LEAST))
    if kind in SERVED:
        return frozenset((KUEUE_QUEUE, KUEUE_PRIORITY))
    return frozenset((KUEUE_QUEUE,)) if kind in _NAMED else frozenset()


@lru_cache(maxsize=256)
def read_queues(text: str) -> Mapping[str, str] | None:
    """Queues by LocalQueue, of ``LOCAL=QUEUE, ...``; None for a text that cannot be read."""
    queues: dict[str, str] = {}
    for entry in filter(None, (each.strip() for each in text.split(","))):
        local, _, queue = (each.strip() for each in entry.partition("="))
        if not local or not queue or "=" in queue:
            return None
        queues[local] = queue
    return MappingProxyType(queues)


def local_queue(obj: Any) -> str:
    """The LocalQueue that an object's label names; empty where none is named."""
    return str((obj.metadata.labels or {}).get(KUEUE_QUEUE, ""))


def least_pods(kind: JobKind, job: Any) -> int:
    """Pods with which a job starts: all of them, unless a batch Job lets fewer do."""
    whole = sum(each.count if each.least is None else each.least for each in kind.pods(job))
    text = (job.metadata.annotations or {}).get(KUEUE_LEAST, "")
    if kind.kind is BATCH_JOBS and text.isascii() and text.isdigit():
        return min(whole, max(1, int(text[:9])))
    return whole


def released(kind: JobKind, job: Any, manifest: Json, queue: str, priority: str) -> Json:
    """The merge patch after which a job's pods are made, as a gang of this queue.

    Args:
        kind: of the job.
        job: its struct.
        manifest: its JSON.
        queue: where it was admitted.
        priority: class of its gang; empty for that of its pods.
    """
    desired = copy.deepcopy(manifest)
    kind.use_queue(desired, queue)
    if priority:
        kind.use_priority(desired, priority)
    if kind.kind is BATCH_JOBS and (least := least_pods(kind, job)) > 1:
        kind.fewer(desired, least)
    put(desired, kind.flag, kind.flag_values[1])
    return _difference(manifest, desired)


def _difference(have: Json, want: Json) -> Json:
    patch: Json = {}
    for key, value in want.items():
        before = have.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if inner := _difference(before, value):
                patch[key] = inner
        elif value != before:
            patch[key] = value
    return patch
