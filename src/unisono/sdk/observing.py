"""Views of a job of any kind as it changes: informers in, `JobView` out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from unisono.api.core import Pod
from unisono.api.kind import Kind
from unisono.api.kinds import JOBS, POD_GROUPS, PODS
from unisono.api.verdict import waiting_text
from unisono.errors import NotFound
from unisono.kube.client import Client, EventType
from unisono.kube.informer import Informer
from unisono.sdk.dependents import (
    Belongings,
    ByOwner,
    belongings,
    between,
    collect,
    group_selector,
    listed,
    owners_of,
    pod_selector,
)
from unisono.sdk.followed import workload_view
from unisono.sdk.views import JobView, job_view


@dataclass(frozen=True, slots=True)
class Observation:
    """A job's view and its pods at one moment."""

    view: JobView
    pods: tuple[Pod, ...]


@dataclass(slots=True)
class Surroundings:
    """Objects among which jobs find what belongs to them.

    Attributes:
        made: objects between jobs and pods, by resource.
        groups: PodGroups by owner.
        named: PodGroups by namespace and name.
        pods: pods by owner.

    """

    made: Mapping[str, ByOwner] = field(default_factory=dict)
    groups: ByOwner = field(default_factory=lambda: ByOwner(()))
    named: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: ByOwner = field(default_factory=lambda: ByOwner(()))

    def of(self, kind: Kind[Any], job: Any) -> Belongings:
        """What belongs to a job."""
        owners = owners_of(kind.resource, job, self.made)
        return collect(owners, self.groups, self.named.get(job.metadata.namespace or "", {}).get, self.pods)


def surroundings(made: Mapping[str, Any], groups: Any, pods: Any) -> Surroundings:
    """Indexes over lists of objects."""
    named: dict[str, dict[str, Any]] = {}
    for group in groups:
        named.setdefault(group.metadata.namespace or "", {})[group.metadata.name] = group
    return Surroundings(
        {resource: ByOwner(items) for resource, items in made.items()}, ByOwner(groups), named, ByOwner(pods)
    )


async def read_surroundings(client: Client, kind: Kind[Any], namespace: str | None) -> Surroundings:
    """Everything of a namespace, or of all, that may belong to jobs of a kind."""
    kinds = [*between(kind.resource), POD_GROUPS, PODS]
    *made, groups, pods = await asyncio.gather(*(listed(client, each, namespace) for each in kinds))
    return surroundings({each.resource: items for each, items in zip(kinds, made, strict=False)}, groups, pods)


async def look(client: Client, kind: Kind[Any], namespace: str, name: str) -> Observation:
    """The job as it is now.

    Raises:
        NotFound: there is no such job.

    """
    job = await client.get(kind, name, namespace)
    return observation(kind, job, await belongings(client, kind.resource, job))


def observation(kind: Kind[Any], job: Any, found: Belongings, known: JobView | None = None) -> Observation:
    """A job's view out of its objects.

    Args:
        kind: of the job.
        job: the job.
        found: what belongs to it.
        known: the last view; pods that ended and were taken away since then are still told of.

    """
    texts = (waiting_text(group.metadata.annotations) for group in found.groups)
    waiting = next((text for text in texts if text), "")
    if kind.resource == JOBS.resource:
        view = job_view(job, found.groups[0] if found.groups else None, found.pods, waiting)
    else:
        view = workload_view(job, found.parts, found.groups, found.pods, waiting, known)
    return Observation(replace(view, kind=kind.kind, api_version=kind.api_version), tuple(found.pods))


async def observe(client: Client, kind: Kind[Any], namespace: str, name: str) -> AsyncGenerator[Observation, None]:
    """The job now, and again whenever something about it changes, until it has ended, is suspended or is gone.

    Raises:
        NotFound: there is no such job at the beginning.

    """
    last: Observation | None = None
    async with aclosing(changes(client, kind, namespace, name)) as source:
        async for job, found in source:
            if job is None:
                if last is not None:
                    yield Observation(_deleted(last.view), last.pods)
                return
            seen = observation(kind, job, found, last.view if last else None)
            if last is not None and seen.view.stopped:
                # The watches may be apart by a moment; the last word must be whole.
                seen = await _final(client, kind, seen)
            if seen != last:
                last = seen
                yield last
            if last.view.stopped:
                return


async def changes(
    client: Client, kind: Kind[Any], namespace: str, name: str
) -> AsyncGenerator[tuple[Any | None, Belongings], None]:
    """An object of any kind and what belongs to it, now and after every change; None for an object that is gone.

    Raises:
        NotFound: there is no such object at the beginning.

    """
    # Asked once before watching: who may not read, or asks for what is not there, hears so at once.
    first = await client.get(kind, name, namespace)
    yield first, await belongings(client, kind.resource, first)
    changed = asyncio.Event()

    def note(event: EventType, new: Any, old: Any) -> None:
        changed.set()

    objects = Informer(client, kind, namespace, field_selector=f"metadata.name={name}")
    parts: dict[str, Informer[Any]] = {
        each.resource: Informer(client, each, namespace)
        for each in between(kind.resource)
        # A kind that is not served has nothing to watch.
        if await _is_served(client, each, namespace)
    }
    selector = "" if parts else pod_selector(kind.resource, first)
    pods = Informer(client, PODS, namespace, label_selector=selector)
    groups = Informer(client, POD_GROUPS, namespace, field_selector=group_selector(kind.resource, first))
    informers: tuple[Informer[Any], ...] = (objects, pods, groups, *parts.values())
    for informer in informers:
        informer.on_change(note)
    tasks = [asyncio.create_task(informer.run()) for informer in informers]
    try:
        await asyncio.gather(*(informer.synced.wait() for informer in informers))
        while True:
            changed.clear()
            item = objects.get(f"{namespace}/{name}")
            if item is None or item.metadata.uid != first.metadata.uid:
                yield None, Belongings()
                return
            made = {resource: informer.items() for resource, informer in parts.items()}
            yield item, surroundings(made, groups.items(), pods.items()).of(kind, item)
            await changed.wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _is_served(client: Client, kind: Kind[Any], namespace: str) -> bool:
    try:
        await client.list(kind, namespace, field_selector="metadata.name=-")
    except NotFound:
        return False
    return True


async def _final(client: Client, kind: Kind[Any], seen: Observation) -> Observation:
    """The job that has ended as the server knows it now; as it was seen, where it is gone already."""
    try:
        job = await client.get(kind, seen.view.name, seen.view.namespace)
        found = observation(kind, job, await belongings(client, kind.resource, job), seen.view)
    except NotFound:
        return seen
    return found if found.view.uid == seen.view.uid else seen


def _deleted(view: JobView) -> JobView:
    return replace(view, phase="Deleted", waiting="", message="somebody deleted it")
