"""The webhook as a running part: informers for what rules look at, HTTPS for the API server, fresh certificates."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import structlog
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from prometheus_client import CollectorRegistry, Counter

from unisono.api.base import Object, ObjectMeta
from unisono.api.core import Secret
from unisono.api.keys import MASTERS
from unisono.api.kind import Kind
from unisono.api.kinds import HYPER_NODES, NAMESPACES, QUEUES, SECRETS
from unisono.api.pod_limit import MOST_PODS
from unisono.api.queues import USE
from unisono.api.times import rfc3339
from unisono.apiserver.access.pki import KeyPair, issue_server, make_authority
from unisono.apiserver.admission import Request, Settings
from unisono.apiserver.admission.cluster import MayUse
from unisono.apiserver.admission.request import Clocked
from unisono.errors import AlreadyExists, ApiError, ConfigError, Conflict, NotFound, system_reason
from unisono.kube.client import Client
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.controller import Informers
from unisono.kube.http import HttpClient
from unisono.kube.listening import AppListener
from unisono.kube.reflector import ReflectorStatistics
from unisono.kube.transport import error_of
from unisono.scheduler.settings import advice
from unisono.webhook.review import BadReview, Question, check, completed, failed, patching, read, refused, sealing

# The webhook's own certificates: made once, shared in a Secret, renewed in time, trusted by caBundle.

_log = structlog.get_logger(__name__)

NAME = "unisono-webhook"
"""Of the Service and of the Secret."""
LIFE = timedelta(days=90)
RENEW_BEFORE = timedelta(days=30)
AUTHORITY_RENEW_BEFORE = timedelta(days=365)
CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Bundle:
    """What the Secret holds.

    Attributes:
        authority: signs the server's certificate.
        server: what the server shows.
        trusted: PEM of the authorities that clients should trust: this one, and the former one for a while.
    """

    authority: KeyPair
    server: KeyPair
    trusted: bytes


def renewed(bundle: Bundle | None, names: tuple[str, ...], now: datetime) -> Bundle:
    """The bundle itself while everything in it is good for long enough, else one in which the missing parts are new.

    A new authority is told beside the old one, so that certificates of both are trusted while replicas follow.
    """
    authority, trusted = (bundle.authority, bundle.trusted) if bundle is not None else (None, b"")
    if authority is None or authority.certificate.not_valid_after_utc - now < AUTHORITY_RENEW_BEFORE:
        former = authority.certificate_pem if authority is not None else b""
        authority = make_authority(now)
        trusted = authority.certificate_pem + former
        bundle = None
    if bundle is not None and _serves(bundle.server.certificate, names, now):
        return bundle
    return Bundle(authority, issue_server(authority, names[0], names, now, LIFE), trusted)


def _serves(certificate: x509.Certificate, names: tuple[str, ...], now: datetime) -> bool:
    if certificate.not_valid_after_utc - now < RENEW_BEFORE:
        return False
    alternative_names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = {str(address) for address in alternative_names.get_values_for_type(x509.IPAddress)}
    return set(names) <= addresses | set(alternative_names.get_values_for_type(x509.DNSName))


class Certificates:
    """Keeps Secret, TLS context and webhook configurations in step."""

    def __init__(self, client: HttpClient, namespace: str, clock: Clock, *, also: Sequence[str] = ()) -> None:
        """Service and Secret are in ``namespace``; ``also`` are further names and addresses of the server."""
        self._client, self._namespace, self._clock = client, namespace, clock
        service = f"{NAME}.{namespace}"
        self.names = (f"{service}.svc", f"{service}.svc.cluster.local", service, *also)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._loaded = b""

    async def refresh(self) -> Bundle:
        """Read, make or renew the certificates, and use them for connections from now on.

        Raises:
            ApiError: the API server refuses; what was used before stays in use.
        """
        bundle = await keep(self._client, self._namespace, NAME, self.names, self._now())
        if bundle.server.certificate_pem != self._loaded:
            _use(self.context, bundle.server)
            self._loaded = bundle.server.certificate_pem
            until = bundle.server.certificate.not_valid_after_utc.isoformat()
            _log.info("webhook.certificate", valid_until=until)
        return bundle

    async def publish(self, bundle: Bundle, configuration: str) -> None:
        """Write the trusted authorities into the webhook configurations of that name; an absent one is fine.

        Raises:
            ApiError: the API server refuses.
        """
        for plural in CONFIGURATIONS:
            path = f"/apis/admissionregistration.k8s.io/v1/{plural}/{configuration}"
            status, headers, body = await self._client.request("GET", path)
            if status == 404:
                continue
            if status >= 300:
                raise error_of(status, headers, body)
            operations = trusting(json.loads(body), bundle.trusted)
            if not operations:
                continue
            data = json.dumps(operations).encode()
            answer = await self._client.request("PATCH", path, body=data, content_type="application/json-patch+json")
            if answer[0] >= 300:
                raise error_of(*answer)
            _log.info("webhook.trusted", configuration=f"{plural}/{configuration}")

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.time(), UTC)


def trusting(configuration: dict[str, Any], authorities: bytes) -> list[dict[str, Any]]:
    """JSON Patch that writes ``authorities`` into every webhook which does not have them yet."""
    bundle = base64.b64encode(authorities).decode()
    operations: list[dict[str, Any]] = []
    for index, hook in enumerate(configuration.get("webhooks") or ()):
        if hook["clientConfig"].get("caBundle") != bundle:
            at = f"/webhooks/{index}"
            operations.append({"op": "test", "path": f"{at}/name", "value": hook["name"]})
            operations.append({"op": "add", "path": f"{at}/clientConfig/caBundle", "value": bundle})
    return operations


async def keep(client: Client, namespace: str, name: str, names: tuple[str, ...], now: datetime) -> Bundle:
    """The bundle of the Secret; made or renewed there when needed. Of several replicas one wins and the others follow.

    Raises:
        ApiError: the API server refuses, or replicas outrun each other again and again.
    """
    last: Exception = Conflict(f"the Secret {namespace}/{name} is changed by others all the time")
    for _ in range(_TRIES):
        try:
            secret: Secret | None = await client.get(SECRETS, name, namespace)
        except NotFound:
            secret = None
        have = _read(secret.data or {}) if secret is not None else None
        bundle = renewed(have, names, now)
        if bundle is have:
            return bundle
        data = _written(bundle)
        try:
            if secret is None:
                meta = ObjectMeta(name=name, namespace=namespace)
                await client.create(SECRETS, Secret(metadata=meta, type="Opaque", data=data))
            else:
                patch = {"metadata": {"resourceVersion": secret.metadata.resource_version}, "data": data}
                await client.patch(SECRETS, name, patch, namespace=namespace)
        except (AlreadyExists, Conflict) as error:
            last = error
            continue
        return bundle
    raise last


def _read(data: Any) -> Bundle | None:
    """None for what cannot be used: a new one is made then."""
    try:
        parts = {key: base64.b64decode(data[key]) for key in ("ca.crt", "ca.key", "tls.crt", "tls.key")}
        authority = _pair(parts["ca.crt"], parts["ca.key"])
        return Bundle(authority, _pair(parts["tls.crt"], parts["tls.key"]), parts["ca.crt"])
    except (KeyError, ValueError, TypeError) as error:
        _log.warning("webhook.certificates_unusable", error=str(error) or type(error).__name__)
        return None


def _pair(certificate: bytes, key: bytes) -> KeyPair:
    loaded = serialization.load_pem_private_key(key, password=None)
    if not isinstance(loaded, ec.EllipticCurvePrivateKey):
        raise ValueError("not an EC key")
    pair = KeyPair(x509.load_pem_x509_certificate(certificate), loaded)
    if pair.certificate.public_key() != loaded.public_key():
        raise ValueError("certificate and key do not belong together")
    return pair


def _written(bundle: Bundle) -> dict[str, str]:
    parts = {
        "ca.crt": bundle.trusted,
        "ca.key": bundle.authority.key_pem,
        "tls.crt": bundle.server.certificate_pem,
        "tls.key": bundle.server.key_pem,
    }
    return {key: base64.b64encode(value).decode() for key, value in parts.items()}


def _use(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Load a pair into a context, which takes files only."""
    with tempfile.TemporaryDirectory() as directory:
        certificate, key = Path(directory) / "tls.crt", Path(directory) / "tls.key"
        certificate.write_bytes(pair.certificate_pem)
        key.touch(mode=0o600)
        key.write_bytes(pair.key_pem)
        context.load_cert_chain(certificate, key)


# The objects that rules look at, as informers know them or as the server has them at this moment.

ObjectT = TypeVar("ObjectT", bound=Object)

SEEN: tuple[Kind[Any], ...] = (QUEUES, NAMESPACES, HYPER_NODES)
"""What rules look at beside the object itself."""


class Objects:
    """Some kinds, by key; rules must not change them."""

    def __init__(self, objects: Mapping[Kind[Any], Sequence[Any]], clock: Clock) -> None:
        self._objects = {kind: {obj.key: obj for obj in listed} for kind, listed in objects.items()}
        self._clock = clock

    def find(self, kind: Kind[ObjectT], name: str, namespace: str | None = None) -> ObjectT | None:
        """One object, or None."""
        obj: ObjectT | None = self._objects.get(kind, {}).get(f"{namespace}/{name}" if namespace else name)
        return obj

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
    objects: dict[Kind[Any], Sequence[Any]] = {}
    for kind in SEEN:
        try:
            objects[kind] = (await client.list(kind)).items
        except NotFound:
            if kind is not HYPER_NODES:  # a cluster may do without
                raise
    return Objects(objects, clock)


T = TypeVar("T")

# A certificate is renewed a month before its end; a configuration that was applied again must be trusted soon.
_REFRESH_SECONDS = 30.0
_RETRY_SECONDS = 1.0
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_OPERATIONS = frozenset(("CREATE", "UPDATE", "DELETE", "CONNECT"))
_LARGEST = 8 * 1024 * 1024
# What is longer is looked at in a thread, one object at a time: a megabyte may take seconds, and nobody else's objects
# are to wait for that.
_LARGE = 64 * 1024


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
        self._advice = partial(advice, installed_in=namespace)
        self._configuration, self._settings = configuration, Settings(most_pods=most_pods)
        self._large = asyncio.Semaphore()
        self._informers = Informers(client, clock)
        for kind in SEEN:
            self._informers.of(kind, optional=kind is HYPER_NODES)
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
        by_resource: dict[str, ReflectorStatistics] = self._informers.statistics()
        return by_resource

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
            question = await self._asked(request)
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
            question = await self._asked(request)
        except BadReview as error:
            return self._bad("validate", error)
        try:
            answer = await self._checked(question, cached(self._informers))
        except Exception as error:
            return self._failed("validate", question, error)
        self._count("validate", "refused" if refused(answer) else "allowed", question)
        return web.json_response(answer)

    async def _asked(self, request: web.Request) -> Question:
        body = await request.read()
        return self._seen_as(await self._worked(len(body), partial(read, body)))

    async def _worked(self, size: int, work: Callable[[], T]) -> T:
        """What is worked out about an object of so many bytes."""
        if size <= _LARGE:
            return work()
        async with self._large:
            return await asyncio.to_thread(work)

    def _seen_as(self, question: Question) -> Question:
        """Components of this installation act for the users of what they make objects of."""
        if self._components in question.groups:
            return replace(question, user="", groups=(MASTERS,))
        return question

    async def _complete(self, question: Question, view: Clocked) -> dict[str, Any]:
        """The answer with the defaults; of what gets a seal, only when the object with them passes the rules."""
        after = await self._with_roles(question, lambda may_use: completed(question, view, may_use))
        answer = await self._worked(question.size, partial(patching, question, after))
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
        settings, told = self._settings, self._advice
        return await self._with_roles(question, lambda may_use: check(question, view, settings, told, may_use))

    async def _with_roles(self, question: Question, answer: Callable[[MayUse], T]) -> T:
        """An answer, after the API server was asked about every queue for which the author's roles count."""
        permissions: dict[str, bool] = {}
        while True:
            asked: set[str] = set()

            def may_use(_request: Request, queue: str, asked: set[str] = asked) -> bool:
                asked.add(queue)
                return permissions.get(queue, False)

            result = await self._worked(question.size, partial(answer, may_use))
            if asked <= permissions.keys():
                return result
            for queue in asked - permissions.keys():
                permissions[queue] = await self._may_use(question, queue)

    async def _may_use(self, question: Question, queue: str) -> bool:
        """Whether roles give the author the verb ``use``; no where the API server does not say."""
        attributes = {"verb": USE, "group": QUEUES.group, "resource": QUEUES.plural, "name": queue}
        spec = {"user": question.user, "groups": list(question.groups), "resourceAttributes": attributes}
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
