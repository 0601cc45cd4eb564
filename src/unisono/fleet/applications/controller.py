"""Keeps Applications in the clusters of their fleets: one cluster never waits for another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from unisono.api.base import Object
from unisono.api.conditions import has_finalizer
from unisono.api.groups.fleet import Application, AttachedCluster, Fleet
from unisono.api.kind_families import APPLICATIONS, ATTACHED_CLUSTERS, FLEETS
from unisono.api.times import rfc3339
from unisono.controllers.objects import add_finalizer, remove_finalizer, write_status
from unisono.controllers.recorder import Recorder
from unisono.errors import ApiError, ConfigError
from unisono.fleet.applications import bundle as where
from unisono.fleet.applications.bundle import ClusterTarget, Destinations, HttpTarget, PlacedPolicy, Targets, bundle
from unisono.fleet.applications.programs import BuiltIn
from unisono.fleet.applications.rendering import render
from unisono.fleet.applications.sync import Owner, Result, brought, remove, status_of, sync
from unisono.fleet.hub_state import HubState
from unisono.fleet.members.member import Member
from unisono.kube.controller import Context, Controller
from unisono.kube.discovery import UnknownKind

FINALIZER: Final = "apps.kurator.dev"
# A cluster with problems is looked at again after so long (seconds), and twice as long each time.
_AGAIN, _LATEST = 5.0, 300.0
_AT = "@"
# A source that takes longer (seconds) is waited for by no worker; so many of a namespace are read at a time.
_PATIENCE: Final = 2.0
MOST_READ: Final = 4

Render = Callable[[Application, int], Awaitable[Sequence[Mapping[str, Any]]]]


class _BeingRead(Exception):
    """A source is not read yet, or ``again``; its policy is looked at when it is."""

    def __init__(self, *, again: bool) -> None:
        super().__init__("its source is being read")
        self.again = again


@dataclass(slots=True)
class _Rendered:
    """The objects of one policy, read once for all clusters."""

    generation: int
    until: float
    task: asyncio.Task[Sequence[Mapping[str, Any]]]
    again: bool


@dataclass(slots=True)
class _Known:
    """What is known of one Application."""

    uid: str
    results: dict[PlacedPolicy, Result] = field(default_factory=dict)
    leaving: dict[PlacedPolicy, Result] = field(default_factory=dict)
    rendered: dict[int, _Rendered] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)


class ApplicationsController(Controller):
    """Brings Applications to members; keys are ``NAMESPACE/NAME`` for the status, and ``NAMESPACE/NAME@CLUSTER``."""

    name = "fleet-applications"
    workers = 16

    def __init__(
        self,
        state: HubState,
        members: Callable[[str], Member | None],
        recorder: Recorder,
        *,
        targets: Targets = HttpTarget,
        render: Render = render,
        built_in: BuiltIn | None = None,
    ) -> None:
        """``members`` finds the connection to the AttachedCluster of a key."""
        self._state, self._members, self._recorder = state, members, recorder
        self._targets, self._render, self._built_in = targets, render, built_in or BuiltIn()
        self._known: dict[str, _Known] = {}
        self._connected: dict[str, tuple[Member, ClusterTarget]] = {}
        self._turns: dict[str, asyncio.Semaphore] = {}

    def setup(self, context: Context) -> None:
        """Watch Applications, and the Fleets and AttachedClusters of their namespaces."""
        self._context, self._client, self._clock = context, context.client, context.clock
        self._applications = context.watch(APPLICATIONS)
        self._fleets = context.watch(FLEETS, self._around)
        self._clusters = context.watch(ATTACHED_CLUSTERS, self._around, when=_differs)

    def look_again(self, cluster: str) -> None:
        """A member has changed."""
        for application in self._applications.items():
            places = (*self._wanted(application).places, *brought(application))
            self._enqueue(application, (place for place in places if place.cluster == cluster))

    async def reconcile(self, key: str) -> float | None:
        """Bring an Application to one cluster, or its status up to date."""
        name, _, cluster = key.partition(_AT)
        application = self._applications.get(name)
        if application is None:
            self._forget(name)
            return None
        state = self._known.get(name)
        if state is None or state.uid != application.metadata.uid:
            self._forget(name)
            state = self._known[name] = _Known(application.metadata.uid or "")
        if not cluster:
            await self._look(application, state)
            return None
        again = await self._bring(application, state, cluster)
        self._context.enqueue(name)
        return again

    def _forget(self, name: str) -> None:
        state = self._known.pop(name, None)
        for each in state.rendered.values() if state is not None else ():
            each.task.cancel()

    # ---- the whole

    async def _look(self, application: Application, known: _Known) -> None:
        if application.metadata.deletion_timestamp:
            await self._leave(application, known)
            return
        await add_finalizer(self._client, APPLICATIONS, application, FINALIZER)
        destinations = self._wanted(application)
        if not destinations.problem:
            self._take_leave(application, known, set(brought(application)) - destinations.places.keys())
            known.results = {place: each for place, each in known.results.items() if place in destinations.places}
            known.leaving = {place: each for place, each in known.leaving.items() if place not in destinations.places}
        changed = application.metadata.generation != application.status.observed_generation
        self._enqueue(application, (each for each in destinations.places if changed or each not in known.results))
        await self._write(application, known, destinations)

    async def _leave(self, application: Application, known: _Known) -> None:
        """Take everything away; an AttachedCluster that is gone holds nothing up."""
        if not has_finalizer(application, FINALIZER):
            return
        self._take_leave(application, known, {*brought(application), *self._wanted(application).places})
        if any(not each.synced for each in known.leaving.values()):
            await self._write(application, known, Destinations())
            return
        await remove_finalizer(self._client, APPLICATIONS, application, FINALIZER)

    def _take_leave(self, application: Application, known: _Known, places: Iterable[PlacedPolicy]) -> None:
        """Have objects removed from places that no longer get them; each is begun with once."""
        for place in sorted(places):
            gone = self._clusters.get(f"{application.metadata.namespace}/{place.cluster}") is None
            if gone:
                known.leaving[place] = Result(True)
            elif place not in known.leaving:
                known.leaving[place] = Result(False, 0, "its objects are being removed")
                self._enqueue(application, (place,))

    def _enqueue(self, application: Application, places: Iterable[PlacedPolicy]) -> None:
        for cluster in {place.cluster for place in places}:
            self._context.enqueue(f"{application.key}{_AT}{cluster}")

    async def _write(self, application: Application, known: _Known, wanted: Destinations) -> None:
        leaving = {place: each for place, each in known.leaving.items() if not each.synced}
        status = status_of(application, wanted, known.results, leaving, rfc3339(self._clock.time()))
        before = next((each.status for each in application.status.conditions or ()), "")
        await write_status(self._client, APPLICATIONS, application, status)
        condition = (status.conditions or [])[0]
        if condition.status == "True" != before:
            self._recorder.event(application, "Normal", condition.reason or "", "every cluster has it")
        elif before == "True" != condition.status:
            self._recorder.event(application, "Warning", condition.reason or "", condition.message or "")

    # ---- one cluster

    async def _bring(self, application: Application, known: _Known, cluster: str) -> float | None:
        destinations = Destinations() if application.metadata.deletion_timestamp else self._wanted(application)
        places = destinations.of(cluster)
        leaving = [place for place, each in known.leaving.items() if place.cluster == cluster and not each.synced]
        if not places and not leaving:
            return None
        target = self._target(application, cluster)
        if isinstance(target, str):
            known.results.update({place: _late(known, place, target) for place in places})
            known.leaving.update({place: Result(False, 0, target) for place in leaving})
            return _LATEST
        for place in leaving:
            known.leaving[place] = await self._take_away(application, place, target)
        soonest = _LATEST
        for place in places:
            policy = (application.spec.sync_policies or [])[destinations.places[place]]
            known.results[place] = await self._sync(application, known, place, destinations.places[place], target)
            soonest = min(soonest, where.interval(policy))
        late = any(not known.leaving[place].synced for place in leaving)
        if not late and all(known.results[place].synced for place in places):
            known.failures.pop(cluster, None)
            return soonest if places else None
        known.failures[cluster] = count = known.failures.get(cluster, 0) + 1
        return min(_AGAIN * float(1 << min(count - 1, 10)), _LATEST)

    async def _take_away(self, application: Application, place: PlacedPolicy, target: ClusterTarget) -> Result:
        try:
            done = await remove(target, self._owner(application, place), prune=self._prunes(application, place))
        except ApiError as error:
            return Result(False, 0, f"its objects cannot be removed: {error}")
        return Result(done, 0, "" if done else "the cluster refuses to delete some objects")

    async def _sync(
        self, application: Application, known: _Known, place: PlacedPolicy, index: int, target: ClusterTarget
    ) -> Result:
        policy = (application.spec.sync_policies or [])[index]
        if where.suspended(application, policy):
            old = known.results.get(place)
            return Result(True, old.objects if old is not None else 0, "suspended")
        for name in where.waits_for(policy):
            first = known.results.get(PlacedPolicy(place.cluster, name))
            if first is None or not first.synced:
                return _late(known, place, f"it waits for the policy {name}")
        part, chart = policy.kustomization, policy.helm
        meta = (part.common_metadata or {}) if part is not None else {}
        home = (chart.target_namespace if chart is not None else None) or application.metadata.namespace or "default"
        try:
            remark, objects = self._built_in.objects(policy, target)
            if objects is None:
                objects = await self._objects(application, known, place, index)
            made = bundle(
                objects,
                hub=self._state.hub,
                application=application.key,
                namespace=(part.target_namespace or "") if part is not None else "",
                labels=_texts(meta.get("labels")),
                annotations=_texts(meta.get("annotations")),
            )
            outcome = await sync(
                target,
                made,
                self._owner(application, place),
                namespace=home,
                prune=where.prunes(policy),
                force=part is not None and part.force is True,
            )
        except _BeingRead as reading:
            old = known.results.get(place)
            return old if old is not None and reading.again else _late(known, place, str(reading))
        except (ConfigError, ApiError, UnknownKind, OSError) as error:
            return _late(known, place, str(error) or type(error).__name__)
        return Result(not outcome.problems, outcome.objects, outcome.message or remark)

    async def _objects(
        self, application: Application, known: _Known, place: PlacedPolicy, index: int
    ) -> Sequence[Mapping[str, Any]]:
        """What a policy has, read once for all clusters until its interval is over.

        Raises:
            ConfigError: it cannot be read.
            _BeingRead: it takes long.
        """
        now, generation = self._clock.monotonic(), application.metadata.generation or 0
        cached = known.rendered.get(index)
        if cached is None or cached.generation != generation or (cached.task.done() and now >= cached.until):
            again = cached is not None and cached.generation == generation
            if cached is not None:
                cached.task.cancel()
            policy = (application.spec.sync_policies or [])[index]
            task = asyncio.ensure_future(self._read(application, index))
            cached = known.rendered[index] = _Rendered(generation, now + where.interval(policy), task, again)
        if not cached.task.done():
            # One that is cancelled while it waits leaves the reading to the others.
            patience = asyncio.ensure_future(self._clock.sleep(_PATIENCE))
            try:
                await asyncio.wait((cached.task, patience), return_when=asyncio.FIRST_COMPLETED)
            finally:
                patience.cancel()
        if not cached.task.done():
            cached.task.add_done_callback(lambda _: self._enqueue(application, (place,)))
            raise _BeingRead(again=cached.again)
        if cached.task.cancelled():
            raise _BeingRead(again=False)  # for the Application has changed, and is looked at again
        try:
            return cached.task.result()
        except ConfigError:
            cached.until = min(cached.until, now + _AGAIN)
            raise

    async def _read(self, application: Application, index: int) -> Sequence[Mapping[str, Any]]:
        """Slow sources of one namespace make those of others wait for nothing."""
        turn = self._turns.setdefault(application.metadata.namespace or "", asyncio.Semaphore(MOST_READ))
        async with turn:
            return await self._render(application, index)

    # ---- who and where

    def _wanted(self, application: Application) -> Destinations:
        return where.destinations(application, self._fleets.get, self._clusters.get)

    def _owner(self, application: Application, place: PlacedPolicy) -> Owner:
        return Owner(self._state.hub, application.key, place.policy)

    def _target(self, application: Application, cluster: str) -> ClusterTarget | str:
        """The cluster, or why it cannot be used."""
        key = f"{application.metadata.namespace}/{cluster}"
        if self._clusters.get(key) is None:
            return f"there is no AttachedCluster {key}"
        member = self._members(key)
        view = self._state.views.get(cluster)
        if member is None or view is None or not view.reachable:
            why = member.error if member is not None else ""
            return f"the cluster is not reachable{f': {why}' if why else ''}"
        connected = self._connected.get(key)
        if connected is None or connected[0] is not member:
            connected = self._connected[key] = (member, self._targets(member, self._clock))
        return connected[1]

    def _prunes(self, application: Application, place: PlacedPolicy) -> bool:
        """A policy that is gone from the Application takes its objects with it."""
        for index, policy in enumerate(application.spec.sync_policies or ()):
            if where.policy_name(application, index) == place.policy:
                return where.prunes(policy)
        return True

    def _around(self, obj: Object) -> Iterable[str]:
        return [each.key for each in self._applications.items() if each.metadata.namespace == obj.metadata.namespace]


def _differs(event_type: str, new: AttachedCluster | Fleet, old: AttachedCluster | Fleet | None) -> bool:
    """Labels and existence matter here, not the status that changes with every probe."""
    return old is None or event_type == "DELETED" or new.metadata.labels != old.metadata.labels


def _late(known: _Known, place: PlacedPolicy, why: str) -> Result:
    """Not in step; what the cluster had before it still has."""
    old = known.results.get(place)
    return Result(False, old.objects if old is not None else 0, why)


def _texts(value: Any) -> dict[str, str]:
    return {str(key): str(each) for key, each in value.items()} if isinstance(value, Mapping) else {}
