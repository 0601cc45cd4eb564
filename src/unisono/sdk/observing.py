"""How a job of any kind is doing, read once from the server or built from objects that are known."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from unisono.api.core import Pod
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kind import Kind
from unisono.api.kinds import JOBS, POD_GROUPS, PODS
from unisono.api.verdict import waiting_text
from unisono.jobkinds.registry import between
from unisono.kube.client import Client
from unisono.sdk.dependents import ByOwner, Dependents, collect, dependents, listed, owners_of
from unisono.sdk.followed import workload_view
from unisono.sdk.progress import Steps, slowest, steps_of_annotations
from unisono.sdk.views import JobView, job_view, pod_view


@dataclass(frozen=True, slots=True)
class Observation:
    """A job's view, its PodGroups and its pods at one moment."""

    view: JobView
    groups: tuple[PodGroup, ...]
    pods: tuple[Pod, ...]


class DependentsIndex:
    """The dependents of many jobs, from lists of everything.

    Args:
        made: objects between jobs and pods, by resource.
        groups: PodGroups.
        pods: pods.

    """

    def __init__(self, made: Mapping[str, Iterable[Any]], groups: Iterable[PodGroup], pods: Iterable[Pod]) -> None:
        groups = list(groups)
        self._made = {resource: ByOwner(items) for resource, items in made.items()}
        self._groups, self._pods = ByOwner(groups), ByOwner(pods)
        self._by_name = {group.key: group for group in groups}

    def of(self, kind: Kind[Any], job: Any) -> Dependents:
        """The dependents of one job."""
        owners = owners_of(kind.resource, job, self._made)
        namespace = job.metadata.namespace
        return collect(owners, self._groups, lambda name: self._by_name.get(f"{namespace}/{name}"), self._pods)


async def index_dependents(client: Client, kind: Kind[Any], namespace: str | None) -> DependentsIndex:
    """Everything of a namespace, or of all, that may belong to jobs of a kind."""
    kinds = [*between(kind.resource), POD_GROUPS, PODS]
    *made, groups, pods = await asyncio.gather(*(listed(client, each, namespace) for each in kinds))
    return DependentsIndex({each.resource: items for each, items in zip(kinds, made, strict=False)}, groups, pods)


async def look(client: Client, kind: Kind[Any], namespace: str, name: str) -> Observation:
    """The job as it is now.

    Raises:
        NotFound: there is no such job.

    """
    job = await client.get(kind, name, namespace)
    return observation(kind, job, await dependents(client, kind.resource, job))


def observation(kind: Kind[Any], job: Any, found: Dependents, known: JobView | None = None) -> Observation:
    """A view of a job or a plain pod from its objects.

    Args:
        kind: of the job.
        job: the job.
        found: its dependents.
        known: the last view; pods that ended and were deleted since then are kept.

    """
    texts = (waiting_text(group.metadata.annotations) for group in found.groups)
    waiting = next((text for text in texts if text), "")
    if kind.resource == PODS.resource:
        view = pod_view(job, waiting)
    elif kind.resource == JOBS.resource:
        view = job_view(job, found.groups[0] if found.groups else None, found.pods, waiting)
    else:
        view = workload_view(job, found.parts, found.groups, found.pods, waiting, known)
    view = replace(view, kind=kind.kind, api_version=kind.api_version, progress=_progress(job, found.pods))
    return Observation(view, tuple(found.groups), tuple(found.pods))


def last_observation(kind: Kind[Any], job: Any, found: Dependents, known: JobView | None) -> Observation:
    """Of a job that was deleted: how it ended, or that it was deleted before.

    Args:
        kind: of the job.
        job: its last state.
        found: its dependents that are still there.
        known: the last view.

    """
    last = observation(kind, job, found, known)
    ends = {end.name: end for end in (*(known.ends if known else ()), *last.view.ends)}
    if known is not None and known.ended:
        view = known
    elif last.view.ended:
        view = last.view
    else:
        view = replace(known or last.view, phase="Deleted", waiting="", message="deleted before its end was seen")
    return replace(last, view=replace(view, ends=tuple(ends.values())))


def _progress(job: Any, pods: Iterable[Pod]) -> Steps | None:
    """The job's own annotation, else that of its slowest pod."""
    own = steps_of_annotations(job.metadata.annotations)
    return own or slowest(steps for pod in pods if (steps := steps_of_annotations(pod.metadata.annotations)))
