"""Members of a hub as tables, and where its jobs are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from unisono.api import messages
from unisono.api.annotations import MEMBER_REASONS
from unisono.api.conditions import find_condition
from unisono.api.groups.fleet import READY, AttachedCluster
from unisono.api.keys import TOPOLOGY_REGION
from unisono.api.kind_families import ATTACHED_CLUSTERS, HYPER_JOBS
from unisono.api.kinds import POD_GROUPS
from unisono.api.membership import controller_of
from unisono.api.quantity import to_milli
from unisono.api.resources import readable, resource_list
from unisono.cli.connection import connect
from unisono.cli.fleet.jobs import all_jobs, hyper_job_of, job_of
from unisono.cli.options import Where
from unisono.cli.printing import columns, print_json
from unisono.fleet.hyper_jobs.work import record_of
from unisono.fleet.jobs.copies import placement_of
from unisono.jobkinds.registry import has_ended

if TYPE_CHECKING:
    from unisono.api.groups.batch import HyperJob
    from unisono.api.groups.scheduling import PodGroup

_MAIN = ("cpu", "memory")


async def show_members(where: Where, output: str) -> None:
    """``unisono fleet list``."""
    async with connect(where) as hub:
        clusters = (await hub.list(ATTACHED_CLUSTERS)).items
        jobs = Counter(placement_of(job).cluster for kind, job in await all_jobs(hub) if not has_ended(job))
    found = [_member(each, jobs[each.metadata.name]) for each in sorted(clusters, key=lambda one: one.metadata.name)]
    if output == "json":
        print_json(found)
        return
    headers = ("name", "ready", "version", "nodes", "accelerators", "region", "jobs", "message")
    rows = [
        (
            each["name"],
            "True" if each["ready"] else "False",
            each["version"],
            each["nodes"],
            ", ".join(f"{one['total']} {one['type'] or one['resource']}" for one in each["accelerators"]),
            each["region"],
            each["jobs"],
            each["message"],
        )
        for each in found
    ]
    for line in columns(headers, rows) if found else ("There are no members: 'unisono fleet join' brings one.",):
        click.echo(line)


async def show_use(where: Where, output: str) -> None:
    """``unisono fleet top``."""
    async with connect(where) as hub:
        clusters = (await hub.list(ATTACHED_CLUSTERS)).items
    found = [_use(each) for each in sorted(clusters, key=lambda one: one.metadata.name)]
    if output == "json":
        print_json(found)
        return
    rows = []
    for each in found:
        for resource, figures in each["resources"].items():
            block = next((one["largestFreeBlock"] for one in each["blocks"] if one["resource"] == resource), None)
            rows.append((each["name"], resource, figures["allocated"], figures["allocatable"], figures["use"], block))
    for line in columns(("name", "resource", "used", "of", "use", "largest free block"), rows, empty="-"):
        click.echo(line)


async def explain(where: Where, what: str, namespace: str, output: str) -> None:
    """``unisono fleet explain``."""
    async with connect(where) as hub:
        hyper_job = await hyper_job_of(hub, what, namespace)
        groups = (await hub.list(POD_GROUPS, namespace)).items
        if hyper_job is not None:
            _explain_parts(hyper_job, groups, output)
            return
        kind, job = await job_of(hub, what, namespace)
        placement = placement_of(job)
    maker = controller_of(job)
    # A part of a HyperJob waits with the others in its PodGroup.
    told = _told(groups, job.metadata.uid, maker.uid if maker is not None else None)
    ended = has_ended(job)
    if output == "json":
        facts = {"cluster": placement.cluster, "dispatch": placement.generation, "ended": ended, "members": told}
        print_json({"kind": kind.kind, "name": job.metadata.name, "namespace": namespace, **facts})
        return
    title = f"{kind.kind.lower()}/{job.metadata.name}"
    if placement.cluster:
        click.echo(f"{title} {'ran' if ended else 'is'} in {placement.cluster} (dispatch {placement.generation}).")
        return
    click.echo(f"{title} {'has ended' if ended else 'waits for a cluster'}.")
    for cluster, reason in told.items():
        click.echo(f"  {cluster}: {reason}")


def _explain_parts(hyper_job: HyperJob, groups: Sequence[PodGroup], output: str) -> None:
    """Where the parts of a HyperJob are, or why they wait."""
    record, name = record_of(hyper_job), hyper_job.metadata.name
    told = _told(groups, hyper_job.metadata.uid)
    if output == "json":
        parts = {part: {"cluster": place.cluster, "dispatch": place.generation} for part, place in record.parts.items()}
        facts = {"kind": HYPER_JOBS.kind, "name": name, "namespace": hyper_job.metadata.namespace}
        print_json({**facts, "parts": parts, "members": told})
        return
    if not record.parts:
        click.echo(f"hyperjob/{name} waits for clusters for all of its parts.")
    for part, place in sorted(record.parts.items()):
        held = ", held until every member accepts" if record.is_held(part) else ""
        click.echo(f"job/{part} is in {place.cluster} (dispatch {place.generation}{held}).")
    for cluster, reason in told.items():
        click.echo(f"  {cluster}: {reason}")


def _told(groups: Sequence[PodGroup], *owners: str | None) -> dict[str, str]:
    """Why the PodGroup of one of these owners waits, by member."""
    for group in groups:
        owner = controller_of(group)
        if owner is not None and owner.uid in owners:
            return _reasons((group.metadata.annotations or {}).get(MEMBER_REASONS))
    return {}


def _reasons(text: str | None) -> dict[str, str]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, str])
    except msgspec.MsgspecError:
        return {}


def _member(cluster: AttachedCluster, jobs: int) -> dict[str, Any]:
    status = cluster.status
    ready = find_condition(status.conditions, READY)
    return {
        "name": cluster.metadata.name,
        "namespace": cluster.metadata.namespace,
        "ready": bool(status.ready),
        "message": (ready.message or "") if ready is not None else messages.MEMBER_NOT_LOOKED_AT,
        "version": status.kubernetes_version or "",
        "nodes": (status.node_summary.ready_num or 0) if status.node_summary is not None else 0,
        "accelerators": msgspec.to_builtins(status.accelerators or []),
        "region": (cluster.metadata.labels or {}).get(TOPOLOGY_REGION, ""),
        "jobs": jobs,
    }


def _use(cluster: AttachedCluster) -> dict[str, Any]:
    summary = cluster.status.resource_summary
    whole: Mapping[str, Any] = (summary.allocatable or {}) if summary is not None else {}
    used: Mapping[str, Any] = (summary.allocated or {}) if summary is not None else {}
    names = [name for name in whole if name in _MAIN or "/" in name]
    amounts = readable(resource_list(whole))
    taken = readable(resource_list({name: used.get(name, 0) for name in whole}))
    return {
        "name": cluster.metadata.name,
        "resources": {
            name: {
                "allocatable": amounts.get(name, "0"),
                "allocated": taken.get(name, "0"),
                "use": _percent(used.get(name, 0), whole[name]),
            }
            for name in names
        },
        "blocks": msgspec.to_builtins(cluster.status.accelerators or []),
    }


def _percent(part: Any, whole: Any) -> str:
    total = to_milli(whole)
    return f"{100 * to_milli(part) // total} %" if total else "-"
