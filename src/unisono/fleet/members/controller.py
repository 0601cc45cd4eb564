"""The members of a hub: AttachedClusters become connections, and connections become conditions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from unisono.api.annotations import DRAINED, PRICES
from unisono.api.base import Condition
from unisono.api.core import Event, Secret
from unisono.api.groups.fleet import (
    ALL_READY,
    PARTLY,
    PENDING,
    REACHABLE,
    READY,
    AttachedCluster,
    AttachedClusterStatus,
    Fleet,
    FleetMemberStatus,
    FleetStatus,
    NodeGroupSummary,
)
from unisono.api.kind import Kind
from unisono.api.kind_families import ATTACHED_CLUSTERS, FLEETS
from unisono.api.kinds import SECRETS
from unisono.api.times import rfc3339
from unisono.controllers.objects import write_status
from unisono.controllers.recorder import Recorder
from unisono.errors import ConfigError, NotFound
from unisono.fleet.hub_state import HubState
from unisono.fleet.jobs.copies import Placement
from unisono.fleet.jobs.decide import MemberView, may_take_work
from unisono.fleet.jobs.work import KINDS
from unisono.fleet.members.joining import member_config
from unisono.fleet.members.member import MOST_OBJECTS, NO_NODES, Member, MemberSummary, Probe, summaries
from unisono.jobkinds.registry import DIVIDED
from unisono.kube.client import Client, EventType
from unisono.kube.controller import Context, Controller
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import ClusterConfig
from unisono.kube.transport import Transport

_log = structlog.get_logger(__name__)

# How often the Secret is read again, and the figures of the status are written (seconds).
_REFRESH_SECONDS = 10.0

MOST_BYTES = 128 * 1024 * 1024
"""Of one answer of a member, which may be a list of 500 objects."""

Connect = Callable[[ClusterConfig], tuple[Client, Probe]]
Placements = Callable[[], Mapping[str, Placement]]


def connect(config: ClusterConfig) -> tuple[Client, Probe]:
    """A client of a member over HTTPS, and what asks it for its version."""
    client = HttpClient(config, transport=Transport(config, most_bytes=MOST_BYTES), most_listed=MOST_OBJECTS)

    async def probe() -> str:
        status, _, body = await client.request("GET", "/version")
        if status != 200:
            raise ConfigError(f"its API server answers /version with {status}")
        return str(msgspec.json.decode(body).get("gitVersion", ""))

    return client, probe


@dataclass(slots=True)
class _Joined:
    member: Member
    task: asyncio.Task[None]
    secret: str


class MembersController(Controller):
    """Keeps a connection to every AttachedCluster, and their state in their status."""

    name = "fleet-members"
    workers = 32

    def __init__(
        self,
        state: HubState,
        recorder: Recorder,
        placements: Placements,
        connect: Connect = connect,
        listener: Callable[[str], None] = lambda _name: None,
        news: Callable[[str, Event], None] | None = None,
        groups: Callable[[str], list[NodeGroupSummary]] = lambda _name: [],
    ) -> None:
        """Make a controller.

        Args:
            state: the members' part of the hub's state.
            recorder: records events.
            placements: answers where the hub's jobs are, by uid.
            connect: opens the connection to a member.
            listener: hears of each change of a member.
            news: hears of each warning of a member.
            groups: answers which machines may come in a member.
        """
        self._state, self._recorder, self._connect = state, recorder, connect
        self._placements, self._listener, self._news, self._groups = placements, listener, news, groups
        self._joined: dict[str, _Joined] = {}
        self._described: list[Kind[Any]] = []
        self._keys: dict[str, str] = {}
        self._refused_since: dict[str, float] = {}

    def setup(self, context: Context) -> None:
        """Watch AttachedClusters."""
        self._client, self._clock, self._context = context.client, context.clock, context
        self._clusters = context.watch(ATTACHED_CLUSTERS)
        self._clusters.on_change(self._seen)

    def member(self, name: str) -> Member | None:
        """The connection to a member."""
        joined = self._joined.get(name)
        return joined.member if joined is not None else None

    def of_key(self, key: str) -> Member | None:
        """The connection that the AttachedCluster of a key has; one of the same name elsewhere has another."""
        name = key.partition("/")[2]
        return self.member(name) if self._keys.get(name) == key else None

    def watch(self, kind: Kind[Any]) -> None:
        """Members tell of copies of one more kind from now on."""
        self._described.append(kind)
        for joined in self._joined.values():
            joined.member.watch(kind)

    def names(self) -> list[str]:
        """Members that are connected, whether they answer or not."""
        return sorted(self._joined)

    def _seen(self, event_type: EventType, cluster: AttachedCluster, _old: AttachedCluster | None) -> None:
        """A member that has not been asked yet is neither reachable nor lost: after a start no job is taken from it."""
        name = cluster.metadata.name
        if event_type != "DELETED":
            self._state.views.setdefault(name, MemberView(False))
        elif name not in self._keys and all(each.metadata.name != name for each in self._clusters.items()):
            self._state.views.pop(name, None)

    async def close(self) -> None:
        """End all connections."""
        for name in list(self._joined):
            await self._leave(name, forget=False)

    async def reconcile(self, key: str) -> float | None:
        """Bring one connection about, and its state to its status."""
        cluster = self._clusters.get(key)
        name = key.partition("/")[2]
        if cluster is None or cluster.metadata.deletion_timestamp:
            if self._keys.get(name) == key:
                await self._leave(name)
            return None
        if self._keys.setdefault(name, key) != key:
            await self._write(cluster, _refused(cluster, f"another cluster has the name {name}: {self._keys[name]}"))
            return 60.0
        try:
            secret = await self._secret(cluster)
            config = self._config(cluster, secret)
        except ConfigError as error:
            # What cannot be used any more is not used: the same way as a loss of the network.
            await self._leave(name, forget=False)
            self._state.add(name, cluster.metadata.labels or {})
            self._state.open(name, is_open=False)
            since = self._refused_since.setdefault(name, self._clock.monotonic())
            self._state.views[name] = MemberView(False, max(0.001, self._clock.monotonic() - since))
            self._listener(name)
            await self._write(cluster, _refused(cluster, str(error)))
            return _REFRESH_SECONDS
        self._refused_since.pop(name, None)
        await self._join(cluster, config, secret)
        member = self._joined[name].member
        self._admit(name, member)
        await self._write(cluster, self._status(cluster, member))
        return _REFRESH_SECONDS if member.synced else 1.0

    async def _secret(self, cluster: AttachedCluster) -> Secret:
        name = cluster.spec.secret.name or ""
        try:
            return await self._client.get(SECRETS, name, cluster.metadata.namespace)
        except NotFound:
            raise ConfigError(
                f"there is no Secret {cluster.metadata.namespace}/{name}: make it with 'unisono fleet join "
                f"{cluster.metadata.name} --kubeconfig FILE'"
            ) from None

    def _config(self, cluster: AttachedCluster, secret: Secret) -> ClusterConfig:
        data = {key: str(value) for key, value in (secret.data or {}).items()}
        return member_config(data, cluster.spec.secret.key, f"Secret {secret.key}")

    async def _join(self, cluster: AttachedCluster, config: ClusterConfig, secret: Secret) -> None:
        name, identity = cluster.metadata.name, f"{secret.metadata.uid}/{secret.metadata.resource_version}"
        prices = (cluster.metadata.annotations or {}).get(PRICES, "")
        self._state.add(name, cluster.metadata.labels or {}, prices)
        previous = self._joined.get(name)
        if previous is not None and previous.secret == identity and not previous.task.done():
            return
        if previous is not None:
            await self._leave(name, forget=False)
        client, probe = self._connect(config)
        member = Member(name, client, probe, self._state, (*KINDS, *DIVIDED), self._clock, self._changed, self._news)
        for kind in self._described:
            member.watch(kind)
        task = asyncio.get_running_loop().create_task(self._run(member), name=f"member {name}")
        if previous is not None:
            member.follow(previous.member)
        self._joined[name] = _Joined(member, task, identity)
        _log.info("member.joined", member=name, server=config.server)

    async def _run(self, member: Member) -> None:
        try:
            await member.run()
        except Exception:
            _log.exception("member.failed", member=member.name)

    async def _leave(self, name: str, *, forget: bool = True) -> None:
        joined = self._joined.pop(name, None)
        if joined is not None:
            self._state.views[name] = MemberView(False)
            joined.task.cancel()
            await asyncio.gather(joined.task, return_exceptions=True)
            joined.member.clear()
            await joined.member.client.close()
        if forget:
            self._keys.pop(name, None)
            self._state.remove(name)
            self._listener(name)

    def _changed(self, name: str) -> None:
        if name in self._keys:
            self._context.enqueue(self._keys[name])
        self._listener(name)

    def _admit(self, name: str, member: Member) -> None:
        """A member takes work while it is reachable, not drained, and without copies that are older than their job."""
        cluster = self._clusters.get(self._keys[name])
        drained = cluster is not None and is_drained(cluster)
        copies = {copy.origin: [copy] for copy in self._state.all_copies(name)}
        clean = may_take_work(name, copies, self._placements())
        self._state.open(name, is_open=member.view().reachable and clean and not drained)

    def _status(self, cluster: AttachedCluster, member: Member) -> AttachedClusterStatus:
        view, now = member.view(), rfc3339(self._clock.time())
        reachable = bool(member.answered) and not view.lost_seconds
        why = member.error or ("its objects are being read" if not member.synced else "")
        is_open = self._state.is_open(member.name)
        if reachable and member.synced and not is_open:
            why = "it is drained" if is_drained(cluster) else member.error or "old copies of jobs are being removed"
        old = cluster.status
        summary = self._summary(member.name) if member.synced and reachable else None
        return AttachedClusterStatus(
            ready=is_open,
            conditions=_conditions(old, now, reachable=reachable, ready=is_open, why=why),
            kubernetes_version=member.version or old.kubernetes_version,
            node_summary=summary.nodes if summary else old.node_summary,
            resource_summary=summary.resources if summary else old.resource_summary,
            accelerators=(summary.accelerators or None) if summary else old.accelerators,
            node_groups=(self._groups(member.name) or None) if member.synced and reachable else old.node_groups,
            last_probe_time=rfc3339(member.answered) if member.answered else None,
            lost_since=None if reachable else old.lost_since or now,
        )

    def _summary(self, name: str) -> MemberSummary | None:
        # One that grows may have none, and what it had before says nothing then. Others have not been counted yet.
        summary = summaries(self._state.feed.state.nodes).get(name)
        return summary if summary is not None or self._state.has_nodes(name) else NO_NODES

    async def _write(self, cluster: AttachedCluster, status: AttachedClusterStatus) -> None:
        before = cluster.status
        if _without_time(before) == _without_time(status) and before.last_probe_time is not None:
            return
        try:
            await write_status(self._client, ATTACHED_CLUSTERS, cluster, status)
        except NotFound:
            return
        was, ready = bool(before.ready), bool(status.ready)
        if was != ready:
            why = next((each.message or "" for each in status.conditions or () if each.type == READY), "")
            self._recorder.event(
                cluster, "Normal" if ready else "Warning", "Ready" if ready else "NotReady", why or "it takes work"
            )


class FleetsController(Controller):
    """Phases and counts of Fleets."""

    name = "fleets"
    workers = 2

    def setup(self, context: Context) -> None:
        """Watch Fleets and AttachedClusters."""
        self._client = context.client
        self._fleets = context.watch(FLEETS)
        self._clusters = context.watch(ATTACHED_CLUSTERS, self._fleets_of)

    async def reconcile(self, key: str) -> float | None:
        """Write one Fleet's status."""
        fleet = self._fleets.get(key)
        if fleet is None or fleet.metadata.deletion_timestamp:
            return None
        await write_status(self._client, FLEETS, fleet, fleet_status(fleet, self._clusters.get))
        return None

    def _fleets_of(self, cluster: AttachedCluster) -> Iterable[str]:
        for fleet in self._fleets.items():
            if fleet.metadata.namespace == cluster.metadata.namespace and cluster.metadata.name in member_names(fleet):
                yield fleet.key


def member_names(fleet: Fleet) -> list[str]:
    """Names of a fleet's AttachedClusters, in order."""
    return [each.name for each in fleet.spec.clusters or () if each.name]


def fleet_status(fleet: Fleet, find: Callable[[str], AttachedCluster | None]) -> FleetStatus:
    """The status of a fleet (pure); ``find`` gets an AttachedCluster by its key."""
    members = []
    for name in member_names(fleet):
        cluster = find(f"{fleet.metadata.namespace}/{name}")
        if cluster is None:
            members.append(FleetMemberStatus(name=name, ready=False, message="there is no such AttachedCluster"))
            continue
        condition = {each.type: each for each in cluster.status.conditions or ()}.get(READY)
        message = (condition.message if condition is not None else "it has not been reached yet") or None
        ready = bool(cluster.status.ready)
        members.append(FleetMemberStatus(name=name, ready=ready, message=None if ready else message))
    number = sum(bool(each.ready) for each in members)
    phase = ALL_READY if members and number == len(members) else PARTLY if number else PENDING
    wrong = [f"{each.name}: {each.message}" for each in members if not each.ready]
    return FleetStatus(
        phase=phase,
        reason="; ".join(wrong)[:1024] or None,
        ready_clusters=number,
        un_ready_clusters=len(members) - number,
        clusters=members or None,
    )


def is_drained(cluster: AttachedCluster) -> bool:
    """Whether its user wants no more work to go there."""
    return (cluster.metadata.annotations or {}).get(DRAINED) == "true"


def _refused(cluster: AttachedCluster, why: str) -> AttachedClusterStatus:
    now = cluster.status.last_probe_time or cluster.metadata.creation_timestamp or ""
    conditions = _conditions(cluster.status, now, reachable=False, ready=False, why=why)
    return msgspec.structs.replace(cluster.status, ready=False, conditions=conditions)


def _conditions(old: AttachedClusterStatus, now: str, *, reachable: bool, ready: bool, why: str) -> list[Condition]:
    previous = {each.type: each for each in old.conditions or ()}

    def condition(name: str, holds: bool, yes: str, no: str) -> Condition:
        status = "True" if holds else "False"
        before = previous.get(name)
        since = before.last_transition_time if before is not None and before.status == status else now
        return Condition(
            type=name,
            status=status,
            reason=yes if holds else no,
            message=None if holds else why or None,
            last_transition_time=since or None,
        )

    return [
        condition(READY, ready, "TakesWork", "NotReady"),
        condition(REACHABLE, reachable, "Answers", "DoesNotAnswer"),
    ]


def _without_time(status: AttachedClusterStatus) -> AttachedClusterStatus:
    return msgspec.structs.replace(status, last_probe_time=None)
