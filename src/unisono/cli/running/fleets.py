"""Jobs that ``unisono run --fleet`` sends to the members of a fleet: their mark, and their logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from unisono.api.annotations import FLEET

if TYPE_CHECKING:
    from unisono.cli.manifests import Manifest
    from unisono.cli.report import Reporter
    from unisono.kube.http import HttpClient
    from unisono.sdk.events import Target

_MOST_PODS: Final = 64


def marked(manifests: Sequence[Manifest], fleet: str) -> list[Manifest]:
    """The manifests with the jobs among them kept to the members of a Fleet."""
    from unisono.cli.workloads import is_workload

    return [
        replace(each, value=_marked(each.value, fleet)) if fleet and is_workload(each) else each for each in manifests
    ]


def _marked(value: dict[str, Any], fleet: str) -> dict[str, Any]:
    meta = value.get("metadata") or {}
    return {**value, "metadata": {**meta, "annotations": {**(meta.get("annotations") or {}), FLEET: fleet}}}


async def copy_logs(client: HttpClient, targets: Iterable[Target], report: Reporter) -> None:
    """Print what the pods of the jobs have logged in their members, pod after pod, as the hub reads it."""
    from unisono.errors import ApiError
    from unisono.sdk.logstream import lines, short_name

    for target in targets:
        for pod, container in await _containers(client, target):
            prefix = short_name(pod, target.name)
            try:
                async for text in lines(client, target.namespace, pod, {"container": container}):
                    report.log(prefix, text)
            except ApiError as error:
                report.line(f"pod/{pod}", f"its log cannot be read: {error}")


async def _containers(client: HttpClient, target: Target) -> list[tuple[str, str]]:
    """Pods of a job and their first containers, as its controller in the member calls them."""
    import time

    from unisono.errors import NotFound
    from unisono.fleet.jobs.work import KINDS, work_of

    if target.kind not in KINDS:
        return []
    try:
        job = await client.get(target.kind, target.name, target.namespace)
    except NotFound:
        return []
    work = work_of(target.kind, job, time.time())
    pods = work.pods[:_MOST_PODS] if work is not None else ()
    return [(pod.metadata.name, pod.spec.containers[0].name) for pod in pods if pod.spec.containers]
