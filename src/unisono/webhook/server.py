"""The webhook as a running part: informers for what rules look at, HTTPS for the API server, fresh certificates."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter

from unisono.api.base import Object
from unisono.api.keys import MASTERS
from unisono.api.kind import Kind
from unisono.api.kinds import NAMESPACES, QUEUES
from unisono.api.pod_limit import MOST_PODS
from unisono.api.queues import USE
from unisono.api.times import rfc3339
from unisono.apiserver.admission import Request, Settings
from unisono.apiserver.admission.cluster import MayUse
from unisono.apiserver.admission.request import Clocked
from unisono.errors import ApiError, ConfigError, system_reason
from unisono.kube.client import Client
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.controller import Informers
from unisono.kube.http import HttpClient
from unisono.kube.listening import AppListener
from unisono.kube.reflector import ReflectorStatistics
from unisono.scheduler.config_map import advice
from unisono.webhook.certificates import Bundle, Certificates
from unisono.webhook.review import (
    BadReview,
    Question,
    check,
    completed,
    failed,
    patching,
    read,
    refused,
    sealing,
)

# The objects that rules look at, as informers know them or as the server has them at this moment.

ObjectT = TypeVar("ObjectT", bound=Object)

SEEN: tuple[Kind[Any], ...] = (QUEUES, NAMESPACES)
"""What rules look at beside the object itself."""


class Objects:
    """Some kinds, by key; rules must not change them."""

    def __init__(self, objects: Mapping[Kind[Any], Sequence[Any]], clock: Clock) -> None:
        self._objects = {kind: {obj.key: obj for obj in listed} for kind, listed in objects.items()}
        self._clock = clock

    def find(self, kind: Kind[ObjectT], name: str, namespace: str | None = None) -> ObjectT | None:
        """One object, or None."""
        found: ObjectT | None = self._objects.get(kind, {}).get(f"{namespace}/{name}" if namespace else name)
        return found

    def all(self, kind: Kind[ObjectT], namespace: str | None = None) -> Iterable[ObjectT]:
        """All objects, of one namespace or of all."""
        return [
            obj
            for obj in self._objects.get(kind, {}).values()
            if namespace is None or obj.metadata.namespace == namespace
        ]

    def now(self) -> str:
        """The time as objects carry it."""
        return rfc3339(self._clock.time())


def cached(informers: Informers) -> Objects:
    """What the informers know; it may be a moment old."""
    return Objects({kind: informers.of(kind).items() for kind in SEEN}, informers.clock)


async def live(client: Client, clock: Clock) -> Objects:
    """What the server has now.

    Raises:
        ApiError: it does not answer.

    """
    return Objects({kind: (await client.list(kind)).items for kind in SEEN}, clock)


T = TypeVar("T")

_log = structlog.get_logger(__name__)

# A certificate is renewed a month before its end; a configuration that was applied again must be trusted soon.
_REFRESH_SECONDS = 30.0
_RETRY_SECONDS = 1.0
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_OPERATIONS = frozenset(("CREATE", "UPDATE", "DELETE", "CONNECT"))
_LARGEST = 8 * 1024 * 1024


class WebhookServer:
    """Answers admission reviews on ``/mutate`` and ``/validate``."""

    def __init__(
        self,
        client: HttpClient,
        registry: CollectorRegistry,
        *,
        host: str,
        port: int,
        namespace: str,
        configuration: str = "unisono",
        also: Sequence[str] = (),
        most_pods: int = MOST_PODS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Make a server.

        Args:
            client: the API server that asks.
            registry: where metrics go.
            host: address to listen on, empty for all.
            port: port to listen on; 0 takes a free one.
            namespace: of the Service ``unisono-webhook`` and of the Secret with the certificates.
            configuration: name of the webhook configurations that are to trust this server.
            also: names and addresses in the certificate beside those of the Service.
            most_pods: pods that one object may ask for.
            clock: for certificates and pauses.

        """
        self._client, self._clock, self._host, self._port = client, clock, host, port
        self._components = f"system:serviceaccounts:{namespace}"
        self._configuration, self._settings = configuration, Settings(most_pods=most_pods)
        self._informers = Informers(client, clock)
        for kind in SEEN:
            self._informers.of(kind)
        self.certificates = Certificates(client, namespace, clock, also=also)
        self.ready = asyncio.Event()
        self.port = 0
        self._answers = Counter(
            "unisono_webhook_answers",
            "Admission reviews by path, resource, operation and outcome.",
            ["path", "resource", "operation", "outcome"],
            registry=registry,
        )

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            ConfigError: the address cannot be listened on.
            ApiError: the certificates can be neither read nor made.

        """
        bundle = await self.certificates.refresh()
        watching = asyncio.create_task(self._informers.run())
        try:
            await self._informers.wait_synced()
            listener = await self._listen()
            try:
                trusted = await self._publish(bundle)
                self.ready.set()
                await self._keep_fresh(trusted)
            finally:
                await listener.close()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    def unready(self) -> list[str]:
        """It has nothing to say beyond its watches."""
        return []

    def streams(self) -> Mapping[str, ReflectorStatistics]:
        """How the watches fare, by resource."""
        found: dict[str, ReflectorStatistics] = self._informers.statistics()
        return found

    async def _keep_fresh(self, trusted: bool) -> None:
        while True:
            # An API server that does not trust these certificates refuses whatever it has to ask about.
            await self._clock.sleep(_REFRESH_SECONDS if trusted else _RETRY_SECONDS)
            trusted = await self._publish()

    async def _publish(self, bundle: Bundle | None = None) -> bool:
        """Whether the configurations tell what to trust; without a bundle the certificates are looked at first."""
        try:
            await self.certificates.publish(bundle or await self.certificates.refresh(), self._configuration)
        except (ApiError, OSError, TimeoutError) as error:
            _log.warning("webhook.refresh_failed", error=str(error))
            return False
        return True

    async def _listen(self) -> AppListener:
        app = web.Application(client_max_size=_LARGEST)
        app.router.add_post("/mutate", self._mutate)
        app.router.add_post("/validate", self._validate)
        try:
            listener = await AppListener.open(app, self._host, self._port, tls=self.certificates.context)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {self._host}:{self._port} ({system_reason(error)}): name another address",
                key="--serve",
            ) from error
        self.port = listener.address[1]
        return listener

    async def _mutate(self, request: web.Request) -> web.Response:
        try:
            question = self._seen_as(read(await request.read()))
        except BadReview as error:
            return self._bad("mutate", error)
        try:
            answer = await self._complete(question, cached(self._informers))
        except Exception as error:
            return self._failed("mutate", question, error)
        self._count("mutate", "refused" if refused(answer) else "allowed", question)
        return web.json_response(answer)

    async def _validate(self, request: web.Request) -> web.Response:
        try:
            question = self._seen_as(read(await request.read()))
        except BadReview as error:
            return self._bad("validate", error)
        try:
            answer = await self._checked(question, cached(self._informers))
        except Exception as error:
            return self._failed("validate", question, error)
        self._count("validate", "refused" if refused(answer) else "allowed", question)
        return web.json_response(answer)

    def _seen_as(self, question: Question) -> Question:
        """Components of this installation act for the users of what they make objects of."""
        if self._components in question.groups:
            return replace(question, user="", groups=(MASTERS,))
        return question

    async def _complete(self, question: Question, view: Clocked) -> dict[str, Any]:
        """The answer with the defaults; of what gets a seal, only when the object with them passes the rules."""
        after = await self._with_roles(question, lambda may_use: completed(question, view, may_use))
        answer = patching(question, after)
        if not sealing(question):
            return answer
        verdict = await self._checked(question if after is None else replace(question, raw=after), view)
        if refused(verdict):
            return verdict
        return {**answer, "response": {**verdict["response"], **answer["response"]}}

    async def _checked(self, question: Question, view: Clocked) -> dict[str, Any]:
        answer = await self._check(question, view)
        return await self._look_again(question, answer) if refused(answer) else answer

    async def _check(self, question: Question, view: Clocked) -> dict[str, Any]:
        return await self._with_roles(question, lambda may_use: check(question, view, self._settings, advice, may_use))

    async def _with_roles(self, question: Question, answer: Callable[[MayUse], T]) -> T:
        """An answer, after the API server was asked about every queue for which the author's roles count."""
        known: dict[str, bool] = {}
        while True:
            asked: set[str] = set()

            def may_use(_request: Request, queue: str, asked: set[str] = asked) -> bool:
                asked.add(queue)
                return known.get(queue, False)

            found = answer(may_use)
            if asked <= known.keys():
                return found
            for queue in asked - known.keys():
                known[queue] = await self._may_use(question, queue)

    async def _may_use(self, question: Question, queue: str) -> bool:
        """Whether roles give the author the verb ``use``; no where the API server does not say."""
        wanted = {"verb": USE, "group": QUEUES.group, "resource": QUEUES.plural, "name": queue}
        spec = {"user": question.user, "groups": list(question.groups), "resourceAttributes": wanted}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        status, _, body = await self._client.request("POST", _REVIEWS, body=json.dumps(review).encode())
        if status >= 300:
            _log.warning("webhook.review_refused", code=status)
            return False
        return json.loads(body).get("status", {}).get("allowed") is True

    async def _look_again(self, question: Question, answer: dict[str, Any]) -> dict[str, Any]:
        """Caches may be a moment behind: a no must rest on what the server has now."""
        try:
            return await self._check(question, await live(self._client, self._clock))
        except ApiError as error:
            _log.warning("webhook.check_failed", error=str(error))
            return answer

    def _failed(self, path: str, question: Question, error: Exception) -> web.Response:
        """One object that brings a mistake to light is refused by name, and the server goes on."""
        _log.error("webhook.review_failed", path=path, namespace=question.namespace, name=question.name, exc_info=error)
        self._count(path, "failed", question)
        return web.json_response(failed(question, error))

    def _bad(self, path: str, error: BadReview) -> web.Response:
        self._count(path, "bad")
        return web.Response(status=400, text=str(error))

    def _count(self, path: str, outcome: str, question: Question | None = None) -> None:
        """Kinds that are not ours and operations that there are not count as one, so that the series stay few."""
        resource = question.kind.resource if question is not None and question.kind is not None else "other"
        operation = question.operation if question is not None and question.operation in _OPERATIONS else "other"
        self._answers.labels(path, resource, operation, outcome).inc()
