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
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

from unisono.api.core import Event
from unisono.api.kind import Kind
from unisono.api.kinds import JOBS, NAMESPACES, POD_GROUPS, PRIORITY_CLASSES, QUEUES
from unisono.fleet.applications.controller import ApplicationsController
from unisono.fleet.applications.programs import BuiltIn, Manifests
from unisono.fleet.applications.target import HttpTarget, Targets
from unisono.fleet.config import HubConfig
from unisono.fleet.dispatch.controller import DispatchController
from unisono.fleet.dispatch.orders import OrdersController
from unisono.fleet.dispatch.placing import Dispatching, TakingBack
from unisono.fleet.dispatch.targets import TargetFinder
from unisono.fleet.division.controller import DivisionController, Flights
from unisono.fleet.hub_state import HubState
from unisono.fleet.hyper_jobs.controller import GangController
from unisono.fleet.hyper_jobs.held_room import HeldRoomController
from unisono.fleet.jobs.copies import Placement
from unisono.fleet.jobs.work import KINDS
from unisono.fleet.members.controller import Connect, FleetsController, MembersController, connect
from unisono.fleet.members.member import beginnings, told
from unisono.fleet.policies.book import PolicyBook
from unisono.fleet.queues import QueueCopies
from unisono.fleet.reasons_writer import ReasonsWriter
from unisono.fleet.sealing import sealing_key
from unisono.jobkinds.registry import DIVIDED
from unisono.kube.client import Client
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.controller import Controller, Manager
from unisono.kube.reflector import ReflectorStatistics
from unisono.scheduler.scheduler import Scheduler
from unisono.scheduler.settings import ConfigSource
from unisono.scheduler.writers import Evicting, Placing

_log = structlog.get_logger(__name__)

_IDENTITY_NAMESPACE = "default"


class Hub(Scheduler):
    """Schedules jobs over the clusters of a fleet until cancelled."""

    kinds: tuple[Kind[Any], ...] = (PRIORITY_CLASSES, NAMESPACES, QUEUES, POD_GROUPS)

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
        self._members = MembersController(
            self.members_state, self.events, self._placements, self._connect, self._member_changed, self._told_by_member
        )
        self._hyper_gangs = GangController(self.members_state, self.events)
        self._policies = PolicyBook(self.members_state.views, self._rules_changed)
        self._dispatch = [
            DispatchController(
                kind, self.members_state, self._members.member, self.events, self._policies, self._hyper_gangs
            )
            for kind in KINDS
        ]
        flights = Flights(self._clock)
        self._division = [
            DivisionController(kind, self.members_state, self._members.member, self.events, self._policies, flights)
            for kind in DIVIDED
        ]
        self._queue_copies = QueueCopies(self.members_state, self._members.member)
        self._applications = ApplicationsController(
            self.members_state,
            self._members.of_key,
            self.events,
            targets=self._targets,
            built_in=BuiltIn(self._own_chart),
        )
        self._manager = Manager(client, clock=self._clock)
        self._told: dict[str, tuple[bool, bool]] = {}
        self._reasons = ReasonsWriter(client, self.members_state, self.metrics, self._clock, self._hyper_gangs.waiting)
        finder = TargetFinder(self.feed, self._dispatch, self._hyper_gangs)
        dispatching = Dispatching(self.members_state, finder, self._clock)
        jobs = self._dispatch[KINDS.index(JOBS)]
        self._orders = OrdersController(self.members_state, self._members.member, jobs, self.events)
        self._held_room = HeldRoomController(self.members_state, self._members.member, self._hyper_gangs.rooms)
        self._hyper_gangs.connect(jobs.job, jobs.look_at, dispatching.hold, self._held_room.look_again)
        return dispatching, TakingBack(self.members_state, finder)

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
            self._held_room,
            *self._dispatch,
            *self._division,
            self._orders,
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
        ran = await super().cycle()
        if ran:
            self._reasons.take(list(self.verdicts.jobs()))
        return ran

    def streams(self) -> dict[str, ReflectorStatistics]:
        """How the watches of the hub fare, by resource."""
        found: dict[str, ReflectorStatistics] = self._manager.informers.statistics()
        return {**found, **super().streams()}

    def _placements(self) -> Mapping[str, Placement]:
        found: dict[str, Placement] = {}
        for controller in self._dispatch:
            found.update(controller.placements())
        return found

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
        self._held_room.forget(name)
        self._queue_copies.look_again(name)
        self._applications.look_again(name)
