"""Views of a job as it changes: informers in, `JobView` out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import Any

from unisono.api.batch import Job
from unisono.api.core import Pod
from unisono.api.kinds import JOBS, POD_GROUPS, PODS
from unisono.api.scheduling import PodGroup
from unisono.errors import NotFound
from unisono.kube.client import Client, EventType
from unisono.kube.informer import Informer
from unisono.sdk.logstream import JOB_LABEL
from unisono.sdk.verdict import waiting_text
from unisono.sdk.views import JobView, job_view


@dataclass(frozen=True, slots=True)
class Observation:
    """A job's view and its pods at one moment."""

    view: JobView
    pods: tuple[Pod, ...]


async def look(client: Client, namespace: str, name: str) -> Observation:
    """The job as it is now.

    Raises:
        NotFound: there is no such job.

    """
    job = await client.get(JOBS, name, namespace)
    pods = await client.list(PODS, namespace, label_selector=f"{JOB_LABEL}={name}")
    groups = await client.list(POD_GROUPS, namespace, field_selector=f"metadata.name={group_name(job)}")
    return observation(job, groups.items, pods.items)


def group_name(job: Job) -> str:
    """Name of a job's PodGroup."""
    return f"{job.metadata.name}-{job.metadata.uid}"


def observation(job: Job, groups: list[PodGroup], pods: list[Pod]) -> Observation:
    """A job's view out of its objects; groups and pods of others are left out."""
    uid = job.metadata.uid
    mine = sorted((pod for pod in pods if _owned(pod, uid)), key=lambda pod: pod.metadata.name)
    group = next((group for group in groups if _owned(group, uid)), None)
    waiting = waiting_text(group.metadata.annotations) if group else ""
    return Observation(job_view(job, group, mine, waiting), tuple(mine))


async def observe(client: Client, namespace: str, name: str) -> AsyncGenerator[Observation, None]:
    """The job now, and again whenever something about it changes, until it has ended or is gone.

    Raises:
        NotFound: there is no such job at the beginning.

    """
    # Asked once before watching: who may not read, or asks for what is not there, hears so at once.
    last = await look(client, namespace, name)
    yield last
    if last.view.ended:
        return
    changed = asyncio.Event()

    def note(event: EventType, new: Any, old: Any) -> None:
        changed.set()

    job_name = f"metadata.name={name}"
    jobs = Informer(client, JOBS, namespace, field_selector=job_name)
    pods = Informer(client, PODS, namespace, label_selector=f"{JOB_LABEL}={name}")
    groups = Informer(client, POD_GROUPS, namespace, field_selector=f"metadata.name={name}-{last.view.uid}")
    informers: tuple[Informer[Any], ...] = (jobs, pods, groups)
    for informer in informers:
        informer.on_change(note)
    tasks = [asyncio.create_task(informer.run()) for informer in informers]
    try:
        await asyncio.gather(*(informer.synced.wait() for informer in informers))
        while not last.view.ended:
            changed.clear()
            job = jobs.get(f"{namespace}/{name}")
            if job is None or job.metadata.uid != last.view.uid:
                seen = Observation(_deleted(last.view), last.pods)
            else:
                seen = observation(job, groups.items(), pods.items())
                if seen.view.ended:
                    # The three watches may be apart by a moment; the last word must be whole.
                    seen = await _final(client, namespace, name, seen)
            if seen != last:
                last = seen
                yield last
                continue
            await changed.wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _final(client: Client, namespace: str, name: str, seen: Observation) -> Observation:
    """The job that has ended as the server knows it now; as it was seen, where it is gone already."""
    try:
        found = await look(client, namespace, name)
    except NotFound:
        return seen
    return found if found.view.uid == seen.view.uid else seen


def _deleted(view: JobView) -> JobView:
    return replace(view, phase="Deleted", waiting="", message="somebody deleted it")


def _owned(item: Pod | PodGroup, uid: str | None) -> bool:
    return any(owner.uid == uid for owner in item.metadata.owner_references or ())
