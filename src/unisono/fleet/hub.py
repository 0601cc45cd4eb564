"""The hub: the scheduler over all members, the controllers of its jobs, and the connections to the members.

::

    members' watches ──► HubState ──► ClusterState ──snapshot──► engine.run ──► Dispatching, TakingBack
                            ▲                                                        │ placement on the hub's job
    hub's jobs ──► stand-ins ┘   GangController, DispatchController ◄────────────────┘
                                              │ copies          ▲ status
                                              ▼                 │
                                            members' API servers
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from prometheus_client import CollectorRegistry

from unisono.api.base import Object, ObjectMeta, OwnerReference
from unisono.api.core import Event, ObjectReference, Secret
from unisono.api.groups.batch import HyperJob
from unisono.api.kind import Kind
from unisono.api.kind_families import HYPER_JOBS
from unisono.api.kinds import FLOATING_RESOURCES, JOBS, NAMESPACES, POD_GROUPS, PRIORITY_CLASSES, QUEUES, SECRETS
from unisono.engine.config.model import PluginConfig, SchedulerConfig
from unisono.errors import AlreadyExists, ConfigError, NotFound
from unisono.fleet.applications.bundle import HttpTarget, Targets
from unisono.fleet.applications.controller import ApplicationsController
from unisono.fleet.applications.programs import BuiltIn, Manifests
from unisono.fleet.dispatch.controller import DispatchController
from unisono.fleet.dispatch.described_kinds import DescribedKinds
from unisono.fleet.dispatch.orders import OrdersController
from unisono.fleet.dispatch.placing import Dispatching, TakingBack, TargetFinder
from unisono.fleet.division.controller import DivisionController, Flights
from unisono.fleet.hub_state import HubState
from unisono.fleet.hyper_jobs.controller import GangController
from unisono.fleet.hyper_jobs.divided_jobs import DividedJobsController
from unisono.fleet.hyper_jobs.held_room import HeldRoomController
from unisono.fleet.jobs.copies import KEY_BYTES, Placement
from unisono.fleet.jobs.work import KINDS
from unisono.fleet.machines.promises import Machines
from unisono.fleet.members.controller import Connect, FleetsController, MembersController, connect
from unisono.fleet.members.member import beginnings, told
from unisono.fleet.policies.book import PolicyBook
from unisono.fleet.queues import QueueCopies
from unisono.fleet.reasons_writer import ReasonsWriter
from unisono.jobkinds.kind import JobKind
from unisono.jobkinds.registry import DIVIDED
from unisono.kube.client import Client
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.controller import Controller, Manager
from unisono.kube.reflector import ReflectorStatistics
from unisono.scheduler.cycle_pause import Evicting, Placing
from unisono.scheduler.scheduler import Scheduler
from unisono.scheduler.settings import ConfigSource, FixedConfig

# The scheduler's configuration on a hub: the one file, with what whole gangs in one cluster rest on.

TOPOLOGY = "network-topology-aware"
"""The plug-in that keeps gangs within their domain; clusters are domains."""

PREFERENCE = "cluster-preference"
"""The plug-in that knows what policies, data and users prefer."""

_WHOLE_GANGS = {"preempt": "gangpreempt", "reclaim": "gangreclaim"}
"""Actions that make room pod by pod, and those that make it within one domain, which is what a hub's gangs need."""


def for_hub(config: SchedulerConfig) -> SchedulerConfig:
    """The configuration with what gangs in one cluster need, where it does not have it.

    That is the plug-in that bounds them, the one by which policies choose among clusters, and for each action that
    evicts its form for whole gangs in one domain.
    """
    actions: list[str] = []
    for action in config.actions:
        replacement = _WHOLE_GANGS.get(action, action)
        if replacement == action or replacement not in config.actions:
            actions.append(replacement)
    plugin_names = {plugin.name for plugin in config.plugins}
    missing = tuple(PluginConfig(name) for name in (TOPOLOGY, PREFERENCE) if name not in plugin_names)
    tiers = (*config.tiers, missing) if missing else config.tiers
    return replace(config, actions=tuple(actions), tiers=tiers)


class HubConfig:
    """A source of configurations, each as a hub needs it."""

    def __init__(self, source: ConfigSource | None = None) -> None:
        self._source = source or FixedConfig()
        self._seen: SchedulerConfig | None = None
        self._made: SchedulerConfig | None = None

    @property
    def error(self) -> str:
        """What is wrong with the newest configuration, empty when it is in use."""
        return self._source.error

    @error.setter
    def error(self, _text: str) -> None:
        """The source's own."""

    @property
    def text(self) -> str:
        """The newest configuration as it was read."""
        return self._source.text

    @property
    def name(self) -> str:
        """Where the configuration stands, in words."""
        return self._source.name

    @property
    def reference(self) -> ObjectReference | None:
        """The object of the API in which it stands."""
        return self._source.reference

    def poll(self) -> SchedulerConfig:
        """The configuration to use now; the same object as long as nothing changed."""
        config = self._source.poll()
        if self._made is None or config is not self._seen:
            self._seen, self._made = config, for_hub(config)
        return self._made


# The key with which a hub seals its dispatches, kept in a Secret so that backups have it.

NAME: Final = "unisono-hub-seal"
NAMESPACE: Final = "kube-system"
_ENTRY: Final = "key"


async def sealing_key(client: Client) -> bytes:
    """The hub's key, made at its first start.

    Raises:
        ConfigError: the Secret holds none.
    """
    try:
        return _key(await client.get(SECRETS, NAME, NAMESPACE))
    except NotFound:
        pass
    made = base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()
    meta = ObjectMeta(name=NAME, namespace=NAMESPACE)
    try:
        return _key(await client.create(SECRETS, Secret(metadata=meta, type="Opaque", data={_ENTRY: made})))
    except AlreadyExists:
        return _key(await client.get(SECRETS, NAME, NAMESPACE))


def _key(secret: Secret) -> bytes:
    try:
        key = base64.b64decode(str((secret.data or {}).get(_ENTRY, "")), validate=True)
    except binascii.Error:
        key = b""
    if len(key) < KEY_BYTES:
        raise ConfigError(
            f"Secret {NAMESPACE}/{NAME} holds no key: restore it from a backup, or delete it to have a new one made"
        )
    return key


_IDENTITY_NAMESPACE = "default"


class Hub(Scheduler):
    """Schedules jobs over the clusters of a fleet until cancelled."""

    kinds: tuple[Kind[Any], ...] = (PRIORITY_CLASSES, NAMESPACES, QUEUES, FLOATING_RESOURCES, POD_GROUPS)

    def __init__(
        self,
        client: Client,
        config_source: ConfigSource | None = None,
        clock: Clock = SYSTEM_CLOCK,
        *,
        registry: CollectorRegistry | None = None,
        scheduler_names: Sequence[str] = ("volcano", "unisono", "default-scheduler"),
        default_queue: str = "default",
        connect: Connect = connect,
        targets: Targets = HttpTarget,
        own_chart: Manifests | None = None,
        **options: Any,
    ) -> None:
        """Make a hub.

        ``connect`` opens the connection to a member, ``targets`` gives Applications access to one, and ``own_chart``
        makes the manifests of an installation of this project; the rest is as for a `Scheduler`.
        """
        self._hub_client, self._connect = client, connect
        self._targets, self._own_chart = targets, own_chart
        super().__init__(
            client,
            config_source,
            clock,
            registry=registry,
            scheduler_names=scheduler_names,
            default_queue=default_queue,
            # A gang is whole in its member, whose own scheduler looks after it.
            gang_patience=float("inf"),
            **options,
        )

    def _adapted(self, source: ConfigSource) -> ConfigSource:
        return HubConfig(source)

    def _writers(self, client: Client, bind_concurrency: int, gang_patience: float) -> tuple[Placing, Evicting]:
        self.members_state = HubState(self.feed)
        self.machines = Machines(self.members_state, self._clock)
        self.machines.look_at = self._look_at
        self._members = MembersController(
            self.members_state,
            self.events,
            self._placements,
            self._connect,
            self._member_changed,
            self._told_by_member,
            self.machines.summary,
        )
        self._hyper_gangs = GangController(self.members_state, self.events, self.machines)
        self._divided_jobs = [
            DividedJobsController(kind, self.members_state, self.events, self.machines) for kind in KINDS
        ]
        self.members_state.names.on_refusal = self._names_refused
        self._policies = PolicyBook(self.members_state.views, self._rules_changed)
        self._dispatch = [
            DispatchController(
                kind,
                self.members_state,
                self._members.member,
                self.events,
                self._policies,
                self.machines,
                self._hyper_gangs,
            )
            for kind in KINDS
        ]
        flights = Flights(self._clock)
        self._division = [
            DivisionController(
                kind, self.members_state, self._members.member, self.events, self._policies, flights, self.machines
            )
            for kind in DIVIDED
        ]
        self._queue_copies = QueueCopies(self.members_state, self._members.member, self.events)
        self._applications = ApplicationsController(
            self.members_state,
            self._members.of_key,
            self.events,
            targets=self._targets,
            built_in=BuiltIn(self._own_chart),
        )
        self._manager = Manager(client, clock=self._clock)
        self._told: dict[str, tuple[bool, bool]] = {}
        self._reasons = ReasonsWriter(
            client,
            self.members_state,
            self.metrics,
            self._clock,
            self._hyper_gangs.waiting,
            self._together,
            self.machines.note,
        )
        finder = TargetFinder(self.feed, self._dispatch, self._hyper_gangs)
        dispatching = Dispatching(self.members_state, finder, self._clock)
        jobs = self._dispatch[KINDS.index(JOBS)]
        self._orders = OrdersController(self.members_state, self._members.member, jobs, self.events)
        self._held_room = HeldRoomController(self.members_state, self._members.member, self._hyper_gangs.rooms)
        self._hyper_gangs.connect(
            jobs.job, jobs.look_at, dispatching.hold, self._held_room.look_again, self._divided_as
        )
        return dispatching, TakingBack(self.members_state, finder, self._clock)

    async def run(self) -> None:
        """Connect, decide, dispatch and mirror until cancelled."""
        namespace = await self._hub_client.get(NAMESPACES, _IDENTITY_NAMESPACE)
        self.members_state.hub = namespace.metadata.uid or "hub"
        self.members_state.key = await sealing_key(self._hub_client)
        controllers: list[Controller] = [
            self._members,
            FleetsController(),
            self._policies,
            self._queue_copies,
            self._applications,
            self._hyper_gangs,
            *self._divided_jobs,
            self._held_room,
            *self._dispatch,
            *self._division,
            self._orders,
            DescribedKinds(self._described_kind),
        ]
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._manager.run(controllers))
                await self._manager.ready.wait()
                group.create_task(self._reasons.run())
                group.create_task(super().run())
        finally:
            await self._members.close()

    async def cycle(self) -> bool:
        """One look at the state; jobs that still wait then tell why for each member."""
        self.machines.settle()
        ran = await super().cycle()
        if ran:
            self.machines.take((key, self.verdicts.get(key)) for key in self.verdicts.jobs())
            self._reasons.take(list(self.verdicts.jobs()))
        return ran

    def streams(self) -> dict[str, ReflectorStatistics]:
        """How the watches of the hub fare, by resource."""
        watches: dict[str, ReflectorStatistics] = self._manager.informers.statistics()
        return {**watches, **super().streams()}

    def _placements(self) -> Mapping[str, Placement]:
        combined: dict[str, Placement] = {}
        for controller in self._dispatch:
            combined.update(controller.placements())
        return combined

    def _described_kind(self, known: JobKind) -> None:
        """Send objects of a kind to members, or by what its table says now."""
        self.members_state.label_pods(known.kind.resource, known.pods_label)
        running = next((each for each in self._dispatch if each.kind.resource == known.kind.resource), None)
        if running is not None:
            running.known = known
            running.look_at_waiting()
            return
        self._members.watch(known.kind)
        made = DispatchController(
            known.kind,
            self.members_state,
            self._members.member,
            self.events,
            self._policies,
            self.machines,
            known=known,
        )
        self._manager.add(made)
        self._dispatch.append(made)

    def _look_at(self, owner: OwnerReference, namespace: str) -> None:
        """Look at the job that a PodGroup is of."""
        if owner.kind == HYPER_JOBS.kind:
            self._hyper_gangs.look_at(f"{namespace}/{owner.name}")
        kind = owner.api_version.rpartition("/")[0], owner.kind
        for controller in self._dispatch:
            if (controller.kind.group, controller.kind.kind) == kind:
                controller.look_at(f"{namespace}/{owner.name}")

    def _names_refused(self) -> None:
        for each in self._divided_jobs:
            each.look_at_divided()

    def _together(self, uid: str) -> Mapping[str, str]:
        """Why a job is not divided, by members that together have room for it."""
        return next((told for each in self._divided_jobs if (told := each.together(uid))), {})

    def _divided_as(self, hyper_job: HyperJob) -> tuple[Kind[Any], Object] | None:
        """The job for which a HyperJob stands."""
        return next(((each.kind, job) for each in self._divided_jobs if (job := each.of(hyper_job)) is not None), None)

    def _told_by_member(self, cluster: str, event: Event) -> None:
        """A member warns of something; what is about a copy, or made by one, is told on the hub's object."""
        about = event.involved_object
        for name in beginnings(about.name or ""):
            key = f"{about.namespace}/{name}"
            controllers: list[DispatchController | DivisionController] = [*self._dispatch, *self._division]
            for controller in controllers:
                obj = controller.job(key)
                if obj is None:
                    continue
                copies = self.members_state.copies(controller.kind, key)
                if any((copy.cluster, copy.origin) == (cluster, obj.metadata.uid) for copy, _ in copies):
                    self.events.event(obj, "Warning", *told(cluster, event))
                    return

    def _rules_changed(self) -> None:
        for controller in self._dispatch:
            controller.look_at_waiting()
        for divider in self._division:
            divider.look_again()

    def _member_changed(self, name: str) -> None:
        """Jobs and queues are looked at when a member comes or goes, not at each of its probes."""
        view = self.members_state.views.get(name)
        now = (view.reachable, bool(view.lost_seconds)) if view is not None else (False, False)
        if self._told.get(name) == now:
            return
        self._told[name] = now
        for controller in self._dispatch:
            controller.look_again(name)
        self._rules_changed()
        self._hyper_gangs.look_again(name)
        for divided in self._divided_jobs:
            divided.look_again()
        self._held_room.forget(name)
        self._queue_copies.look_again(name)
        self._applications.look_again(name)
