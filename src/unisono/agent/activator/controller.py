"""Takes the requests of Knative's Services at addresses of this machine, and keeps as many pods as they need."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakValueDictionary

import aiohttp
import structlog
from aiohttp import web

from unisono.agent.activator.requests import Route, Rules, Scaler, open_session, rules_of
from unisono.agent.network.names import AddressBook
from unisono.api.annotations import SERVICE_ADDRESS
from unisono.api.conditions import is_true
from unisono.api.core import Pod
from unisono.api.keys import KNATIVE_CLASS, KNATIVE_SERVICE
from unisono.api.kind_families import DEPLOYMENTS, KNATIVE_SERVICES
from unisono.api.kinds import SERVICES
from unisono.api.knative import HPA_CLASS, KnativeService, port_of, revision_of
from unisono.errors import AgentError, NotFound, system_reason
from unisono.kube.controller import Context, Controller
from unisono.kube.events import EventRecorder
from unisono.kube.listening import AppListener, Guests

_log = structlog.get_logger(__name__)

LOOK_SECONDS = 2.0
"""From one decision about a service to the next, while it has pods or requests."""
MOST_SERVICES = 200
"""Services of one namespace whose requests are taken: each has a socket open in the control plane's process."""
_PORT, _PORT_WITHOUT_RIGHTS = 80, 8012
_AGAIN = 1.0
_PATIENCE = 1.0
_TIMEOUT = 300.0


class Listening(Protocol):
    """Something that listens."""

    async def close(self) -> None:
        """Listen no more."""
        ...


Listen = Callable[[web.Application, str, int, Guests], Awaitable[Listening]]


async def listen(app: web.Application, host: str, port: int, guests: Guests) -> Listening:
    """An application at an address of this machine."""
    return await AppListener.open(app, host, port, patience=_PATIENCE, guests=guests)


@dataclass(slots=True)
class _Served:
    """One service whose requests are taken.

    Attributes:
        uid: of the service.
        address: where, as ``HOST:PORT``.
        route: the way to its pods.
        listening: what takes the connections.
        guests: the connections, with those of the namespace's other services.
        scaler: decides how many pods there are.
    """

    uid: str
    address: str
    route: Route
    listening: Listening
    guests: Guests
    scaler: Scaler = field(default_factory=Scaler)


class ActivatorController(Controller):
    """One address for each service, and one decision about it every two seconds while there is something to decide."""

    name = "knative-activator"
    workers = 4

    def __init__(
        self, recorder: EventRecorder, book: AddressBook, pods: Callable[[], Iterable[Pod]], listen: Listen = listen
    ) -> None:
        """Take requests and scale.

        Args:
            recorder: records events.
            book: addresses of services, by their uids.
            pods: the pods of this machine.
            listen: makes an application listen.
        """
        self._recorder, self._book, self._pods, self._listen = recorder, book, pods, listen
        self._served: dict[str, _Served] = {}
        # Of each namespace: its services share their connections, since who writes there makes as many as they like.
        self._guests: WeakValueDictionary[str, Guests] = WeakValueDictionary()
        self._session: aiohttp.ClientSession | None = None

    def setup(self, context: Context) -> None:
        """Watch services, and their Deployments for how many pods they have."""
        self._services = context.watch(KNATIVE_SERVICES)
        self._deployments = context.watch(DEPLOYMENTS, keys=_service_of)

    async def start(self) -> None:
        """Give back addresses of services that have gone while nothing ran."""
        self._book.keep_only({each.metadata.uid or "" for each in self._services.items()})

    def pod_changed(self, _event: object, pod: Pod, _old: object = None) -> None:
        """A pod of this machine has changed: one that became ready takes requests at once."""
        for key in _service_of(pod):
            if (served := self._served.get(key)) is not None and (service := self._services.get(key)) is not None:
                self._lead(served.route, service)

    async def close(self) -> None:
        """Take no requests any more."""
        await asyncio.gather(*(each.listening.close() for each in self._served.values()), return_exceptions=True)
        self._served.clear()
        if self._session is not None:
            await self._session.close()

    async def reconcile(self, key: str) -> float | None:
        """Take the requests of one service, and scale it."""
        service, served = self._services.get(key), self._served.get(key)
        if served is not None and (service is None or service.metadata.uid != served.uid):
            await self._drop(key, served)
            served = None
        if service is None or service.metadata.deletion_timestamp:
            return None
        if served is None:
            served = self._served[key] = await self._serve(key, service)
        spec = service.spec.template.spec
        served.route.limit = spec.container_concurrency or 0
        served.route.timeout = float(spec.timeout_seconds or _TIMEOUT)
        self._lead(served.route, service)
        if not await self._publish(service, served.address):
            return _AGAIN
        if (service.spec.template.metadata.annotations or {}).get(KNATIVE_CLASS) == HPA_CLASS:
            return None
        return await self._scale(service, served)

    async def _serve(self, key: str, service: KnativeService) -> _Served:
        if self._session is None:
            self._session = open_session()
        namespace = service.metadata.namespace or ""
        if sum(each.startswith(f"{namespace}/") for each in self._served) >= MOST_SERVICES:
            why = f"requests of at most {MOST_SERVICES} services of a namespace are taken on one machine"
            self._recorder.event(service, "Warning", "NoAddress", why)
            raise AgentError(f"service {key}: {why}")
        guests = self._guests.setdefault(namespace, Guests())
        uid = service.metadata.uid or ""
        route = Route(f"service {key}", self._clock.monotonic, self._session, lambda: self._context.enqueue(key))
        host = self._book.allocate(uid)
        problem = ""
        for port in (_PORT, _PORT_WITHOUT_RIGHTS):
            app = web.Application(client_max_size=0)
            app.router.add_route("*", "/{rest:.*}", route.answer)
            try:
                listening = await self._listen(app, host, port, guests)
            except OSError as error:
                problem = f"{host}:{port}: {system_reason(error)}"
                continue
            _log.info("activator.listens", service=key, address=f"{host}:{port}")
            return _Served(uid, f"{host}:{port}", route, listening, guests)
        self._recorder.event(service, "Warning", "NoAddress", f"its requests cannot be taken at {problem}")
        raise AgentError(f"requests of service {key} cannot be taken at {problem}")

    async def _drop(self, key: str, served: _Served) -> None:
        del self._served[key]
        await served.listening.close()
        self._book.release(served.uid)

    def _lead(self, route: Route, service: KnativeService) -> None:
        port = port_of(service)
        selector = {KNATIVE_SERVICE: service.metadata.name}.items()
        route.lead_to(
            {
                pod.metadata.uid or "": (pod.status.pod_ip, port)
                for pod in self._pods()
                if pod.metadata.namespace == service.metadata.namespace
                and selector <= (pod.metadata.labels or {}).items()
                and _takes_requests(pod)
                and pod.status.pod_ip
            }
        )

    async def _publish(self, service: KnativeService, address: str) -> bool:
        """Tell the names of the service where its requests are taken; False while there is no such Service yet."""
        meta = service.metadata
        try:
            named = await self._client.get(SERVICES, meta.name, meta.namespace)
            if (named.metadata.labels or {}).get(KNATIVE_SERVICE) != meta.name:
                return True  # another's, as the status of the Knative Service says
            if (named.metadata.annotations or {}).get(SERVICE_ADDRESS) != address:
                patch = {"metadata": {"annotations": {SERVICE_ADDRESS: address}}}
                await self._client.patch(SERVICES, meta.name, patch, namespace=meta.namespace)
        except NotFound:
            return False
        return True

    async def _scale(self, service: KnativeService, served: _Served) -> float | None:
        meta = service.metadata
        deployment = self._deployments.get(f"{meta.namespace}/{meta.name}-deployment")
        if deployment is None or (deployment.metadata.labels or {}).get(KNATIVE_SERVICE) != meta.name:
            return _AGAIN
        rules, route, now = rules_of(service), served.route, self._clock.monotonic()
        proven = service.status.latest_ready_revision_name == revision_of(service)
        desired = served.scaler.wanted(now, route.load, rules, route.ready, proven=proven)
        had = 1 if deployment.spec.replicas is None else deployment.spec.replicas
        if desired != had:
            patch = {"spec": {"replicas": desired}}
            await self._client.patch(DEPLOYMENTS, deployment.metadata.name, patch, namespace=meta.namespace)
            self._recorder.event(service, "Normal", "Scaled", _said(had, desired, served, rules, now))
        return LOOK_SECONDS if desired or route.load.count else None


def _said(had: int, wanted: int, served: _Served, rules: Rules, now: float) -> str:
    load = served.route.load
    if not wanted:
        why = f"no request for {load.idle(now):.0f} s"
    elif rules.by_rate:
        why = f"{load.rate(now, rules.window):.1f} requests per second, {rules.target:g} for each pod"
    else:
        why = f"{load.concurrency(now, rules.window):.1f} requests at a time, {rules.target:g} for each pod"
        if not had and load.count:
            why = f"{load.count} request{'s' * (load.count > 1)} waiting for a pod"
    return f"replicas: {had} -> {wanted}, {why}{', and the load rises fast' if served.scaler.panics else ''}"


def _takes_requests(pod: Pod) -> bool:
    if pod.metadata.deletion_timestamp or pod.status.phase != "Running":
        return False
    return is_true(pod.status.conditions, "Ready")


def _service_of(obj: Pod | object) -> list[str]:
    meta = obj.metadata  # type: ignore[union-attr]
    name = (meta.labels or {}).get(KNATIVE_SERVICE)
    return [f"{meta.namespace}/{name}"] if name else []
