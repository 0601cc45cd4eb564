"""A control plane at a glance: parts that are alive, what nodes have left, queues and jobs, asked for at once."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api import messages
from unisono.api.annotations import CLUSTER, ORIGIN_GROUP, ORIGIN_UID, QUARANTINE, USER
from unisono.api.conditions import find_condition
from unisono.api.decode import decode
from unisono.api.groups.admission_registration import WEBHOOK_KINDS, ValidatingWebhook, does_our_work, hindrance
from unisono.api.groups.fleet import READY
from unisono.api.kind_families import ATTACHED_CLUSTERS
from unisono.api.kinds import LEASES, NODES, POD_GROUPS, PODS, QUEUES, RESERVATIONS, SERVICES, TEMPORARY_QUOTAS
from unisono.api.messages import counted
from unisono.api.node_checks import quarantined_by
from unisono.api.promised_machines import may_come_text
from unisono.api.reservations import booking_of, numbers_of
from unisono.api.resources import readable, resource_list
from unisono.api.selecting import controller_of, pod_group_of, queue_of
from unisono.api.times import rfc3339, time_or
from unisono.api.verdict import waiting_verdict
from unisono.errors import ApiError, NotFound, UnisonoError
from unisono.sdk.overview.components import Component, components
from unisono.sdk.overview.queues import (
    NodeLine,
    QueueView,
    Resource,
    counted_resources,
    is_ready,
    node_line,
    queue_views,
    resources,
    used_by_node,
    used_of_total,
)
from unisono.sdk.state.refused import answer_in, newest_refusals
from unisono.sdk.state.running import stalls

if TYPE_CHECKING:
    from unisono.api.core import Lease, Node, Pod
    from unisono.api.groups.calendar import Reservation, TemporaryQuota
    from unisono.api.groups.fleet import AttachedCluster
    from unisono.api.groups.scheduling import PodGroup, Queue
    from unisono.api.reservations import Times
    from unisono.kube.http import HttpClient

_WAITING = frozenset({"", "Pending", "Inqueue"})
_WITHOUT_PODS = ("", "NoPods", "TooFewPods")
"""Causes of jobs that may lack pods because the server refuses them."""
_CALENDAR_SECONDS = 86_400.0
"""How far ahead the calendar is shown."""
# Containers that are on their way say so, too.
_STARTING = ("ContainerCreating", "PodInitializing")


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job that waits or runs.

    Attributes:
        title: ``job/train``.
        namespace: of the job.
        queue: where it is.
        seconds: how long it has waited, or run.
        pods: pods that run.
        gang: pods that start together.
        waiting: why it waits; empty where no verdict says it yet.
        user: who submitted it, where the server knows.
        nodes: where its pods run.
        trouble: what is wrong with its pods although it runs: ``1 of 2 pods run``, ``3 restarts``; empty for nothing.
        cause: of its waiting, a `unisono.api.verdict.Cause`; empty where no verdict says it.
        group: name of its PodGroup.
        lack: with the cause what jobs have in common that wait for the same: names of what they need, and the kind of
            change that would start them.
    """

    title: str
    namespace: str
    queue: str
    seconds: float
    pods: int = 0
    gang: int = 1
    waiting: str = ""
    user: str = ""
    nodes: tuple[str, ...] = ()
    trouble: str = ""
    cause: str = ""
    group: str = ""
    lack: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """``train`` of ``job/train``."""
        return self.title.partition("/")[2]


@dataclass(frozen=True, slots=True)
class MemberLine:
    """A member of a fleet, as its hub sees it.

    Attributes:
        name: of the member.
        problem: why it takes no work; empty where it is ready.
        nodes: that are ready.
        used: ``4/16``: requested by pods, and allocatable, by resource.
        pods: of the hub's jobs that run there.
        may_come: machines that may come, ``3 of pool P``.
    """

    name: str
    problem: str
    nodes: int
    used: dict[str, str]
    pods: int
    may_come: str = ""


@dataclass(frozen=True, slots=True)
class CalendarLine:
    """What the calendar has for now, or for the next day.

    Attributes:
        title: ``reservation/night``.
        holds: now; else it comes.
        start, end: of the window, RFC 3339.
        text: whose it is, and of what.
    """

    title: str
    holds: bool
    start: str
    end: str
    text: str


@dataclass(frozen=True, slots=True)
class QuarantineLine:
    """A node that takes no jobs until its quarantine is lifted.

    Attributes:
        name: of the node.
        by: the NodeCheck that took it out; ``by-hand`` for a person.
        reason: as whoever did it wrote it; may be empty.
    """

    name: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything at one moment.

    Attributes:
        components: parts of the control plane.
        ready, not_ready, cordoned: names of nodes; those in quarantine are in none but ``not_ready``.
        nodes: all of them, by name.
        resources: of the nodes that take pods.
        queues: by name.
        waiting: jobs, the one that waits longest first.
        running: jobs, the youngest first.
        members: of a hub, by name.
        unseen: kinds, in the plural, that the user may not list: nothing is known of them.
        within: the namespace whose jobs alone the user may list; empty for all. What nodes have left is not known then.
        calendar: Reservations and TemporaryQuotas, in the order of their windows.
        quarantined: nodes that are out, by name.
    """

    components: list[Component]
    ready: list[str]
    not_ready: list[str]
    cordoned: list[str]
    nodes: list[NodeLine]
    resources: list[Resource]
    queues: list[QueueView]
    waiting: list[JobLine]
    running: list[JobLine]
    members: list[MemberLine] = field(default_factory=list)
    unseen: tuple[str, ...] = ()
    within: str = ""
    calendar: list[CalendarLine] = field(default_factory=list)
    quarantined: list[QuarantineLine] = field(default_factory=list)

    def json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Answers:
    """What the server answered; ``problem`` is what its readiness says, empty where it is ready.

    Of a hub, ``clusters`` are its members, and the pods are those of its jobs in members. ``unseen`` and ``within`` are
    what the user may not see, as in ``Overview``.
    """

    problem: str
    nodes: Sequence[Node]
    pods: Sequence[Pod]
    queues: Sequence[Queue]
    groups: Sequence[PodGroup]
    leases: Sequence[Lease]
    clusters: Sequence[AttachedCluster] = ()
    unseen: tuple[str, ...] = ()
    within: str = ""
    reservations: Sequence[Reservation] = ()
    quotas: Sequence[TemporaryQuota] = ()


def overview(found: Answers, now: float) -> Overview:
    """The overview of what a server answered at ``now``, seconds since the epoch."""
    ready = [node for node in found.nodes if is_ready(node)]
    quarantined = [
        QuarantineLine(node.metadata.name, by, (node.metadata.annotations or {}).get(QUARANTINE, ""))
        for node in found.nodes
        if (by := quarantined_by(node.spec.taints))
    ]
    serving = [node for node in ready if not quarantined_by(node.spec.taints)]
    open_nodes = [node for node in serving if not node.spec.unschedulable]
    used = used_by_node(found.pods)
    by_group: dict[str, list[Pod]] = defaultdict(list)
    for pod in found.pods:
        if key := _group_of(pod):
            by_group[key].append(pod)
    lines = [(group, _job_line(group, by_group[group.key], now)) for group in found.groups if not _has_ended(group)]
    return Overview(
        components(found.leases, now, found.problem, seen=LEASES.plural not in found.unseen),
        sorted(node.metadata.name for node in open_nodes),
        sorted(node.metadata.name for node in found.nodes if not is_ready(node)),
        sorted(node.metadata.name for node in serving if node.spec.unschedulable),
        [
            node_line(node, used.get(node.metadata.name, {}))
            for node in sorted(found.nodes, key=lambda node: node.metadata.name)
        ],
        resources(open_nodes, used) if _sees_all_pods(found) else [],
        queue_views(found.queues, None if found.within or POD_GROUPS.plural in found.unseen else found.groups),
        sorted((line for group, line in lines if _waits(group)), key=lambda line: -line.seconds),
        sorted((line for group, line in lines if not _waits(group)), key=lambda line: line.seconds),
        [_member(cluster, found.pods) for cluster in sorted(found.clusters, key=lambda each: each.metadata.name)],
        found.unseen,
        found.within,
        calendar_lines(found.reservations, found.quotas, now),
        sorted(quarantined, key=lambda line: line.name),
    )


def calendar_lines(
    reservations: Iterable[Reservation], quotas: Iterable[TemporaryQuota], now: float
) -> list[CalendarLine]:
    """What holds at ``now`` (seconds since 1970) or begins within a day, in the order of the windows."""
    lines: list[CalendarLine] = []

    def note(one: Reservation | TemporaryQuota, times: Times, text: str) -> None:
        window = times.window(now)
        if window is not None and window.start < now + _CALENDAR_SECONDS:
            title = f"{type(one).__name__.lower()}/{one.metadata.name}"
            lines.append(CalendarLine(title, window.holds(now), rfc3339(window.start), rfc3339(window.end), text))

    for one in reservations:
        with suppress(ValueError):  # one that breaks a rule says so in its status
            booking, nodes = booking_of(one), one.status.node_count
            whom = sorted([*booking.users, *booking.namespaces, *booking.queues])
            text = "maintenance" if booking.maintenance else f"for {', '.join(whom)}"
            note(one, booking.times, text if nodes is None else f"{counted(nodes, 'node')}, {text}")
    for quota in quotas:
        with suppress(ValueError):
            numbers = numbers_of(quota)
            parts = [
                f"{name} {', '.join(f'{resource} {amount}' for resource, amount in readable(amounts).items())}"
                for name, amounts in numbers.amounts.items()
            ]
            parts += [f"weight {numbers.weight}"] if numbers.weight is not None else []
            note(quota, numbers.times, f"queue {numbers.queue}: {', '.join(parts)}")
    return sorted(lines, key=lambda line: (line.start, line.title))


def _sees_all_pods(found: Answers) -> bool:
    return not found.within and PODS.plural not in found.unseen


def _group_of(pod: Pod) -> str | None:
    """Key of a pod's PodGroup; of a hub's pod in a member, of that which stands for its job on the hub."""
    marks = pod.metadata.annotations or {}
    if CLUSTER in (pod.metadata.labels or {}) and marks.get(ORIGIN_GROUP):
        return f"{pod.metadata.namespace}/{marks[ORIGIN_GROUP]}"
    return pod_group_of(pod)


def _member(cluster: AttachedCluster, pods: Sequence[Pod]) -> MemberLine:
    name, status = cluster.metadata.name, cluster.status
    ready = find_condition(status.conditions, READY)
    problem = "" if status.ready else (ready.message if ready is not None else "") or messages.MEMBER_NOT_LOOKED_AT
    summary = status.resource_summary
    there = resource_list(summary.allocatable if summary is not None else None)
    held = resource_list(summary.allocated if summary is not None else None)
    running = sum(pod.status.phase == "Running" and (pod.metadata.labels or {}).get(CLUSTER) == name for pod in pods)
    return MemberLine(
        name,
        problem,
        (status.node_summary.ready_num or 0) if status.node_summary is not None else 0,
        {each: used_of_total(each, held, there) for each in counted_resources(there) if there[each] > 0},
        running,
        may_come_text(status.node_groups or ()),
    )


def _waits(group: PodGroup) -> bool:
    return (group.status.phase or "") in _WAITING


def _has_ended(group: PodGroup) -> bool:
    return group.status.phase == "Completed" or bool(group.metadata.deletion_timestamp)


def _job_line(group: PodGroup, pods: Sequence[Pod], now: float) -> JobLine:
    meta = group.metadata
    owner = controller_of(group)
    title = f"{owner.kind.lower()}/{owner.name}" if owner else f"podgroup/{meta.name}"
    running = [pod for pod in pods if pod.status.phase == "Running"]
    since = [time_or(pod.status.start_time) for pod in pods if pod.status.start_time]
    begun = min(since) if since and not _waits(group) else time_or(meta.creation_timestamp)
    verdict = waiting_verdict(meta.annotations, owned=owner is not None) if _waits(group) else None
    return JobLine(
        title,
        meta.namespace or "default",
        queue_of(group),
        max(0.0, now - begun) if begun else 0.0,
        len(running),
        group.spec.min_member or 1,
        "" if verdict is None else str(verdict),
        (meta.annotations or {}).get(USER, ""),
        tuple(sorted({pod.spec.node_name for pod in running if pod.spec.node_name})),
        "" if _waits(group) else _trouble(group.spec.min_member or 1, pods),
        "" if verdict is None else str(verdict.cause),
        meta.name,
        () if verdict is None else (*sorted(verdict.need), str(verdict.change.get("kind", ""))),
    )


def _trouble(gang: int, pods: Sequence[Pod]) -> str:
    """What someone on call wants to know of a job that runs."""
    parts = []
    alive = sum(pod.status.phase in ("Running", "Succeeded") for pod in pods)
    failed = sum(pod.status.phase == "Failed" for pod in pods)
    if failed:
        parts.append(f"{counted(failed, 'pod')} failed")
    if 0 < alive < gang:
        parts.append(f"{alive} of {gang} run")
    statuses = [status for pod in pods for status in pod.status.container_statuses or ()]
    restarts = sum(status.restart_count or 0 for status in statuses)
    if restarts:
        parts.append(counted(restarts, "restart"))
    waits = {status.state.waiting.reason or "" for status in statuses if status.state and status.state.waiting}
    return ", ".join([*parts, *sorted(waits - {"", *_STARTING})])


# Asks a server for what an overview needs, all at once.

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_ALIVE = "status.phase!=Succeeded,status.phase!=Failed"


async def read_overview(client: HttpClient, namespace: str = "default", *, silence: bool = False) -> Overview:
    """The overview now.

    Args:
        client: of the server.
        namespace: whose jobs are shown to a user who may not list those of all.
        silence: also read the logs' last lines, and tell which jobs have stopped to write.

    What the user may not list is empty, and named in ``unseen``; so is a server that is not ready but answers.

    Raises:
        Unavailable: the server cannot be reached.
        ApiError: it refuses who asks.
    """
    asked = _Asked(client, namespace)
    (ready, leases, clusters), (reservations, quotas), (nodes, pods, queues, groups) = await asyncio.gather(
        asyncio.gather(_readiness(client), asked.objects(LEASES), asked.objects(ATTACHED_CLUSTERS)),
        asyncio.gather(asked.objects(RESERVATIONS), asked.objects(TEMPORARY_QUOTAS)),
        asyncio.gather(
            asked.objects(NODES),
            asked.objects(PODS, _ALIVE, within=True),
            asked.objects(QUEUES),
            asked.objects(POD_GROUPS, within=True),
        ),
    )
    if clusters:
        pods = [*pods, *await _pods_of_members(client)]
    # Who sees no member, and no calendar, need not know that there are such kinds.
    unseen = tuple(sorted(asked.unseen - {kind.plural for kind in (ATTACHED_CLUSTERS, RESERVATIONS, TEMPORARY_QUOTAS)}))
    rest = unseen, asked.within, reservations, quotas
    answers = Answers(ready, nodes, pods, queues, groups, leases, clusters, *rest)
    now = client.transport.clock.time()
    result = overview(answers, now)
    result = await _with_refusals(client, result, groups, asked.within)
    if silence:
        result = await _with_stalls(client, result, pods, now)
    hooks = await unreached_webhooks(client)
    parts = [Component(f"webhook {name}", f"it stops what it is asked about: {why}") for name, why in hooks.items()]
    return replace(result, components=[*result.components, *parts]) if parts else result


async def _with_refusals(client: HttpClient, found: Overview, groups: Iterable[PodGroup], namespace: str) -> Overview:
    """The same with what the server says to the pods of jobs that wait for some."""
    bare = {f"{job.namespace}/{job.group}" for job in found.waiting if job.cause in _WITHOUT_PODS}
    owners = {group.key: owner.uid for group in groups if group.key in bare and (owner := controller_of(group))}
    told = await newest_refusals(client, namespace) if owners else {}
    waiting = []
    for job in found.waiting:
        text = told.get(owners.get(f"{job.namespace}/{job.group}", ""), "")
        waiting.append(replace(job, waiting=f"its pods are refused: {text}", lack=(answer_in(text),)) if text else job)
    return replace(found, waiting=waiting)


async def _with_stalls(client: HttpClient, found: Overview, pods: Sequence[Pod], now: float) -> Overview:
    """The same with the jobs that have stopped to write."""
    groups: dict[str, list[Pod]] = {f"{job.namespace}/{job.group}": [] for job in found.running}
    for pod in pods:
        if (key := _group_of(pod)) in groups:
            groups[key].append(pod)
    jobs = {f"{job.namespace}/{job.name}": groups[f"{job.namespace}/{job.group}"] for job in found.running}
    stall_texts = await stalls(client, jobs, now)
    running = [
        replace(
            job,
            trouble=", ".join(each for each in (job.trouble, stall_texts.get(f"{job.namespace}/{job.name}")) if each),
        )
        for job in found.running
    ]
    return replace(found, running=running)


async def unreached_webhooks(client: HttpClient) -> dict[str, str]:
    """Webhooks that must answer and cannot, by name, and why, as far as the user may see them."""
    hooks: list[ValidatingWebhook] = []
    try:
        for kind in WEBHOOK_KINDS:
            hooks += [hook for one in (await client.list(kind)).items for hook in one.webhooks or ()]
        asked_hooks = [hook for hook in hooks if hook.failure_policy != "Ignore" and hook.client_config is not None]
        if any(does_our_work(hook) for hook in asked_hooks) and await _is_ours(client):
            asked_hooks = [hook for hook in asked_hooks if not does_our_work(hook)]
        return {hook.name: why for hook in asked_hooks if (why := await _hindrance(client, hook))}
    except ApiError as error:
        if error.code not in (403, 404):
            raise
        return {}


async def _hindrance(client: HttpClient, hook: ValidatingWebhook) -> str:
    reference = hook.client_config.service if hook.client_config is not None else None
    if reference is None:
        return ""
    try:
        service = await client.get(SERVICES, reference.name, reference.namespace)
    except NotFound:
        return hindrance(reference, None, ())
    return hindrance(reference, service, (await client.list(PODS, reference.namespace)).items)


async def _is_ours(client: HttpClient) -> bool:
    """Whether the API server is ours, which does not ask Volcano's own webhooks."""
    _, _, body = await client.request("GET", "/version")
    return b"+unisono." in body


class _Asked:
    """Lists, and what of them the user may not see: kinds as a whole, or outside of one namespace."""

    def __init__(self, client: HttpClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.unseen: set[str] = set()
        self.within = ""

    async def objects(self, kind: Any, fields: str = "", *, within: bool = False) -> list[Any]:
        items = await self._try(kind, None, fields)
        if items is None and within:
            items = await self._try(kind, self._namespace, fields)
            if items is not None:
                self.within = self._namespace
        if items is None:
            self.unseen.add(kind.plural)
        return items or []

    async def _try(self, kind: Any, namespace: str | None, fields: str) -> list[Any] | None:
        """The objects; None where the user may not list them, and none where there is no such kind."""
        try:
            return (await self._client.list(kind, namespace, field_selector=fields)).items
        except ApiError as error:
            if error.code not in (403, 404):
                raise
            return None if error.code == 403 else []


async def _readiness(client: HttpClient) -> str:
    status, _, body = await client.request("GET", "/readyz")
    if status in (200, 401, 403, 404):
        return ""
    lines = body.decode(errors="replace").strip().splitlines()
    return next((line for line in lines if line.startswith("[-]")), lines[0] if lines else f"it answered {status}")


async def _pods_of_members(client: HttpClient) -> list[Pod]:
    """Pods of a hub's jobs, which it shows in tables only."""
    params = {"includeObject": "Object", "labelSelector": ORIGIN_UID}
    status, _, body = await client.request("GET", "/api/v1/pods", params=params, accept=_TABLE)
    if status != 200:
        return []
    pods: list[Pod] = []
    for row in msgspec.json.decode(body).get("rows") or ():
        with suppress(msgspec.MsgspecError, UnisonoError):  # what a member shows is not the hub's own
            pods.append(decode(PODS, row.get("object")).obj)
    return pods
