"""Jobs of a hub: which one is meant, its pods and their logs, and moving it elsewhere."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import msgspec

from unisono.api import messages
from unisono.api.annotations import CLUSTER, DRAINED, MEMBER_REASONS, ORIGIN_UID
from unisono.api.base import Object
from unisono.api.conditions import ENDED, find_condition
from unisono.api.groups.fleet import READY, AttachedCluster
from unisono.api.keys import TOPOLOGY_REGION
from unisono.api.kind import Kind
from unisono.api.kind_families import ATTACHED_CLUSTERS, HYPER_JOBS
from unisono.api.kinds import CUSTOM_RESOURCE_DEFINITIONS, JOBS, POD_GROUPS, PODS, SECRETS
from unisono.api.promised_machines import may_come_text, promised_machines
from unisono.api.quantity import to_milli
from unisono.api.resources import readable, resource_list
from unisono.api.selecting import controller_of
from unisono.cli.connection import connect
from unisono.cli.options import Where
from unisono.cli.printing import columns, print_json
from unisono.errors import ApiError, ConfigError, Conflict, NotFound, UnisonoError
from unisono.fleet.hyper_jobs.divided_jobs import is_divided
from unisono.fleet.hyper_jobs.work import record_of
from unisono.fleet.jobs.copies import placement_of
from unisono.fleet.jobs.described import kinds_of
from unisono.fleet.jobs.work import KINDS
from unisono.fleet.members.joining import member_config
from unisono.jobkinds.kind import JobKind
from unisono.jobkinds.registry import has_ended
from unisono.kube.client import Client
from unisono.kube.discovery import warnings_of
from unisono.kube.kubeconfig import ClusterConfig
from unisono.kube.transport import error_of

if TYPE_CHECKING:
    from unisono.api.groups.batch import HyperJob
    from unisono.api.groups.scheduling import PodGroup

# Which job of a hub is meant: ``NAME`` of a Volcano Job, or ``KIND/NAME``.


async def job_of(client: Client, what: str, namespace: str) -> tuple[Kind[Any], Any]:
    """The job that a user names.

    Raises:
        ConfigError: the kind is none that a hub dispatches.
        NotFound: there is no such job.

    """
    word, slash, name = what.partition("/")
    kind = JOBS
    if slash:
        named_kind = next((each for each in KINDS if word.lower() in _words(each)), None)
        if named_kind is None:
            described = [each.kind for each in await described_kinds(client)]
            named_kind = next((each for each in described if word.lower() in _words(each)), None)
        if named_kind is None:
            kind_names = ", ".join(sorted(each.kind.lower() for each in (*KINDS, *described)))
            raise ConfigError(f"{word} is no kind that a fleet runs; those are {kind_names}")
        kind = named_kind
    return kind, await client.get(kind, name or what, namespace)


async def described_kinds(client: Client) -> list[JobKind]:
    """Kinds that the hub sends to members by a table; none for users who may not list definitions."""
    try:
        return list(kinds_of((await client.list(CUSTOM_RESOURCE_DEFINITIONS)).items).values())
    except ApiError:
        return []


async def hyper_job_of(client: Client, what: str, namespace: str) -> HyperJob | None:
    """The HyperJob that a user names as ``KIND/NAME``, or by its name where no other job has it, or that divides a job.

    Raises:
        ConfigError: the kind is none that a hub dispatches.
        NotFound: it is named with its kind, and there is none.

    """
    word, slash, name = what.partition("/")
    if slash and word.lower() in _words(HYPER_JOBS):
        return await client.get(HYPER_JOBS, name, namespace)
    try:
        _, job = await job_of(client, what, namespace)
    except NotFound:
        if slash:
            return None
    else:
        if not is_divided(job):
            return None
    with suppress(NotFound):
        return await client.get(HYPER_JOBS, name or what, namespace)
    return None


async def all_jobs(client: Client) -> list[tuple[Kind[Any], Object, bool]]:
    """All jobs of the hub that can be dispatched, each with whether it has ended."""
    jobs: list[tuple[Kind[Any], Object, bool]] = []
    described = await described_kinds(client)
    ended = dict.fromkeys(KINDS, has_ended) | {each.kind: partial(_is_over, each) for each in described}
    for kind, is_over in ended.items():
        try:
            jobs += [(kind, job, is_over(job)) for job in (await client.list(kind)).items]
        except NotFound:
            continue
    return jobs


def _is_over(known: JobKind, job: Object) -> bool:
    return known.state(job)[0] in ENDED


def _words(kind: Kind[Any]) -> set[str]:
    return {kind.kind.lower(), kind.plural, kind.singular_name, kind.resource, *kind.short_names}


# Logs of jobs of a hub, read where their pods run.


class NoLogs(UnisonoError):
    """A job has no logs yet."""


async def logs(where: Where, what: str, namespace: str, *, follow: bool) -> None:
    """Print the lines of all pods of the job, in whichever members they are, each with its pod in front."""
    from unisono.kube.http import HttpClient
    from unisono.sdk.follow.following import follow_logs, read_pods
    from unisono.sdk.follow.log_lines import LogSelection, short_name

    selection = LogSelection()
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(connect(where))
        hyper_job = await hyper_job_of(hub, what, namespace)
        if hyper_job is None:
            kind, job = await job_of(hub, what, namespace)
            name, runs = job.metadata.name, [(kind, job.metadata.name, job.metadata.uid, placement_of(job).cluster)]
        else:
            name, parts = hyper_job.metadata.name, sorted(record_of(hyper_job).parts.items())
            runs = [(JOBS, part, place.uid, place.cluster) for part, place in parts]
        runs = [run for run in runs if run[3]]
        if not runs:
            raise NoLogs(f"{what} waits for a cluster and has no logs: see 'unisono fleet explain {what}'")
        members: dict[str, HttpClient] = {}
        for *_, cluster in runs:
            if cluster not in members:
                members[cluster] = HttpClient(await _reach(hub, cluster))
                stack.push_async_callback(members[cluster].close)

        async def show(kind: Kind[Any], job: str, uid: str | None, cluster: str) -> None:
            member = members[cluster]
            if follow:
                source = follow_logs(member, kind, namespace, job, selection, _refused)
            else:
                pods = (await member.list(PODS, namespace, label_selector=f"{ORIGIN_UID}={uid}")).items
                source = read_pods(member, pods, selection, _refused)
            async for line in source:
                click.echo(f"{short_name(line.pod, name)} | {line.text}")

        if follow:
            await asyncio.gather(*(show(*run) for run in runs))
        else:
            for run in runs:
                await show(*run)


async def _reach(hub: object, cluster: str) -> ClusterConfig:
    """How the hub reaches a member, for users who may read its Secret."""
    from unisono.kube.http import HttpClient

    assert isinstance(hub, HttpClient)
    for member in (await hub.list(ATTACHED_CLUSTERS)).items:
        if member.metadata.name == cluster:
            secret = await hub.get(SECRETS, member.spec.secret.name or "", member.metadata.namespace)
            data = {key: str(value) for key, value in (secret.data or {}).items()}
            return member_config(data, member.spec.secret.key, f"Secret {secret.key}")
    raise NotFound(f"there is no AttachedCluster {cluster}")


def _refused(pod: str, reason: str) -> None:
    click.echo(f"pod/{pod}: {reason}", err=True)


# Draining members, and moving their jobs elsewhere.

_TRIES = 5


async def drain(where: Where, name: str, namespace: str, *, undo: bool) -> None:
    """Let a member take no more work, or let it again."""
    async with connect(where) as hub:
        await _mark(hub, name, namespace, drained=not undo)
    click.echo(f"{name} takes work again." if undo else f"{name} takes no more work; what runs there goes on.")


async def failover(where: Where, name: str, namespace: str) -> None:
    """Drain a member, and take its jobs back to the hub, which sends them elsewhere."""
    async with connect(where) as hub:
        await _mark(hub, name, namespace, drained=True)
        moved = 0
        for kind, job, ended in await all_jobs(hub):
            if placement_of(job).cluster != name or ended:
                continue
            for _ in range(_TRIES):
                try:
                    latest = await hub.get(kind, job.metadata.name, job.metadata.namespace)
                    placement = placement_of(latest)
                    if placement.cluster == name:
                        patch = placement.back().patch(latest.metadata.resource_version)
                        await hub.patch(kind, job.metadata.name, patch, namespace=job.metadata.namespace)
                        moved += 1
                    break
                except Conflict:
                    continue
                except NotFound:
                    break
    click.echo(f"{name} is drained, and {moved} of its jobs go elsewhere; 'fleet drain {name} --undo' ends that.")


async def _mark(hub: Client, name: str, namespace: str, *, drained: bool) -> None:
    marks = {"metadata": {"annotations": {DRAINED: "true" if drained else None}}}
    await hub.patch(ATTACHED_CLUSTERS, name, marks, namespace=namespace)


# Pods of a hub's jobs, wherever they run, as a table.

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def show_pods(where: Where, what: str, namespace: str, output: str) -> None:
    """``unisono fleet pods``: all pods of the namespace that members run, or those of one job."""
    async with connect(where) as hub:
        if what:
            _, job = await job_of(hub, what, namespace)
            uids = {job.metadata.uid: job.metadata.name}
        else:
            uids = {job.metadata.uid: job.metadata.name for _, job, _ in await all_jobs(hub)}
        params = {"includeObject": "Object", "labelSelector": ORIGIN_UID}
        path = f"/api/v1/namespaces/{namespace}/pods"
        status, headers, body = await hub.request("GET", path, params=params, accept=_TABLE)
    if status != 200:
        raise error_of(status, headers, body)
    for text in warnings_of(headers):
        click.echo(f"warning: {text}", err=True)
    pods = [row.get("object") or {} for row in msgspec.json.decode(body).get("rows") or ()]
    entries = [_row(pod, uids) for pod in pods]
    entries = [row for row in entries if row["job"] or not what]
    if output == "json":
        print_json(entries)
        return
    rows = [tuple(row.values()) for row in entries]
    headers_ = ("name", "job", "cluster", "node", "phase")
    for line in columns(headers_, rows, empty="-") if entries else ("Members have no pods of these jobs.",):
        click.echo(line)


def _row(pod: dict[str, Any], uids: dict[str | None, str]) -> dict[str, str]:
    meta = pod.get("metadata") or {}
    labels = meta.get("labels") or {}
    return {
        "name": meta.get("name", ""),
        "job": uids.get(labels.get(ORIGIN_UID), ""),
        "cluster": labels.get(CLUSTER, ""),
        "node": (pod.get("spec") or {}).get("nodeName", ""),
        "phase": (pod.get("status") or {}).get("phase", ""),
    }


# Members of a hub as tables, and where its jobs are.

_MAIN = ("cpu", "memory")


async def show_members(where: Where, output: str) -> None:
    """``unisono fleet list``."""
    async with connect(where) as hub:
        clusters = (await hub.list(ATTACHED_CLUSTERS)).items
        jobs = Counter(placement_of(job).cluster for _, job, ended in await all_jobs(hub) if not ended)
    members = [_member(each, jobs[each.metadata.name]) for each in sorted(clusters, key=lambda one: one.metadata.name)]
    if output == "json":
        print_json(members)
        return
    headers = ("name", "ready", "version", "nodes", "may come", "accelerators", "region", "jobs", "message")
    rows = [
        (
            each["name"],
            "True" if each["ready"] else "False",
            each["version"],
            each["nodes"],
            each["mayCome"],
            ", ".join(f"{one['total']} {one['type'] or one['resource']}" for one in each["accelerators"]),
            each["region"],
            each["jobs"],
            each["message"],
        )
        for each in members
    ]
    for line in columns(headers, rows) if members else ("There are no members: 'unisono fleet join' brings one.",):
        click.echo(line)


async def show_use(where: Where, output: str) -> None:
    """``unisono fleet top``."""
    async with connect(where) as hub:
        clusters = (await hub.list(ATTACHED_CLUSTERS)).items
    usage = [_use(each) for each in sorted(clusters, key=lambda one: one.metadata.name)]
    if output == "json":
        print_json(usage)
        return
    rows = []
    for each in usage:
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
    reasons = _told(groups, job.metadata.uid, maker.uid if maker is not None else None)
    ended, machines = has_ended(job), promised_machines(job)
    if output == "json":
        facts = {"cluster": placement.cluster, "dispatch": placement.generation, "ended": ended, "members": reasons}
        if machines is not None:
            facts["machines"] = msgspec.to_builtins(machines)
        print_json({"kind": kind.kind, "name": job.metadata.name, "namespace": namespace, **facts})
        return
    title = f"{kind.kind.lower()}/{job.metadata.name}"
    if placement.cluster:
        click.echo(f"{title} {'ran' if ended else 'is'} in {placement.cluster} (dispatch {placement.generation}).")
        if machines is not None and not ended:
            click.echo(f"  waits for {machines.text(placement.cluster)}")
        return
    click.echo(f"{title} {'has ended' if ended else 'waits for a cluster'}.")
    for cluster, reason in reasons.items():
        click.echo(f"  {cluster}: {reason}")


def _explain_parts(hyper_job: HyperJob, groups: Sequence[PodGroup], output: str) -> None:
    """Where the parts of a HyperJob are, or why they wait."""
    record, name = record_of(hyper_job), hyper_job.metadata.name
    reasons = _told(groups, hyper_job.metadata.uid)
    if output == "json":
        parts = {
            part: {
                "cluster": place.cluster,
                "dispatch": place.generation,
                **({"machines": msgspec.to_builtins(place.machines)} if record.waits(part) else {}),
            }
            for part, place in record.parts.items()
        }
        facts = {"kind": HYPER_JOBS.kind, "name": name, "namespace": hyper_job.metadata.namespace}
        print_json({**facts, "parts": parts, "members": reasons})
        return
    if not record.parts:
        click.echo(f"hyperjob/{name} waits for clusters for all of its parts.")
    for part, place in sorted(record.parts.items()):
        held = ", held until every member accepts" if record.is_held(part) else ""
        click.echo(f"job/{part} is in {place.cluster} (dispatch {place.generation}{held}).")
        if place.machines is not None and record.waits(part):
            click.echo(f"  waits for {place.machines.text(place.cluster)}")
    for cluster, reason in reasons.items():
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
        "mayCome": may_come_text(status.node_groups or ()),
        "nodeGroups": msgspec.to_builtins(status.node_groups or []),
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
