"""Calls of webhooks over HTTP, and conversions of custom objects by them."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Protocol

import aiohttp
import msgspec

from unisono.api.core import Pod, Service
from unisono.api.groups.admission_registration import ServiceReference, WebhookClientConfig, serves
from unisono.api.kind import Kind
from unisono.api.kinds import PODS, SERVICES
from unisono.apiserver.admission import View
from unisono.apiserver.custom.definitions import BadConversion, Webhook, question, read_answer, take
from unisono.apiserver.custom.kinds import CustomKind, CustomObject, custom_of
from unisono.apiserver.flow_control import aside, weigh
from unisono.apiserver.storage.objects import Key, StoredEntry
from unisono.apiserver.storage.store import Store
from unisono.errors import ApiError

# Asks webhooks over HTTPS, at their URL or at a pod behind their Service.

_LARGEST_ANSWER = 16 * 1024 * 1024
# Authorities of as many webhooks are kept.
_TRUSTED = 64


class Objects(View, Protocol):
    """Stored objects, as far as webhooks need them."""

    @property
    def store(self) -> Store:
        """Where they are stored."""
        ...

    @property
    def new_uid(self) -> Callable[[], str]:
        """Gives the uids of reviews."""
        ...

    @staticmethod
    def key(kind: Kind[Any], namespace: str | None, name: str) -> Key:
        """Where an object is stored."""
        ...


class CallError(Exception):
    """The webhook could not be asked."""


class NoAnswer(CallError):
    """Nothing answers at the webhook's address, or not in time."""


class Caller(Protocol):
    """Sends a review and gives back the answer's body."""

    async def post(self, client: WebhookClientConfig, review: dict[str, Any], seconds: float, view: View) -> bytes:
        """Ask.

        Raises:
            CallError: it does not answer as it should.
        """
        ...


class HttpCaller:
    """Asks over HTTPS; connections are kept for the next question."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def post(self, client: WebhookClientConfig, review: dict[str, Any], seconds: float, view: View) -> bytes:
        """Ask within ``seconds``."""
        url, host = _target(client, view)
        session = self._session
        if session is None or session.closed:
            session = self._session = aiohttp.ClientSession()
        body = await aside(msgspec.json.encode, review)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        try:
            async with (
                asyncio.timeout(seconds),
                session.post(
                    url,
                    data=body,
                    headers=headers,
                    ssl=_trust(client.ca_bundle),
                    server_hostname=host,
                    allow_redirects=False,
                ) as reply,
            ):
                if reply.status != 200:
                    raise CallError(f"the webhook answered {reply.status}")
                return await _body(reply)
        except TimeoutError:
            raise NoAnswer(f"{url}: context deadline exceeded after {seconds:g} seconds") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NoAnswer(f"{url}: {error}") from None

    async def close(self) -> None:
        """Close what is open."""
        if self._session is not None:
            await self._session.close()


async def _body(reply: aiohttp.ClientResponse) -> bytes:
    answer = bytearray()
    async for chunk in reply.content.iter_any():
        answer += chunk
        if len(answer) > _LARGEST_ANSWER:
            raise CallError(f"the answer has more than {_LARGEST_ANSWER} bytes")
    return bytes(answer)


@lru_cache(maxsize=_TRUSTED)
def _trust(bundle: str | None) -> ssl.SSLContext:
    """Whom a ``caBundle`` trusts, the machine's authorities without one.

    Kept: reading the machine's authorities takes milliseconds and a megabyte, and a connection is used again only
    with the context that it was made with.
    """
    try:
        return ssl.create_default_context(cadata=base64.b64decode(bundle).decode() if bundle else None)
    except (ssl.SSLError, ValueError) as error:
        raise CallError(f"the caBundle is no certificate in PEM: {error}") from None


def address(client: WebhookClientConfig | None) -> str:
    """A text that stands for where a webhook is asked: URL, or Service and port."""
    if client is None:
        return ""
    if client.service is None:
        return client.url or ""
    service = client.service
    return f"{service.namespace}/{service.name}:{service.port or 443}{service.path or '/'}"


def _target(client: WebhookClientConfig, view: View) -> tuple[str, str | None]:
    """URL, and the name in its certificate where that is not the URL's host."""
    if client.service is None:
        return client.url or "", None
    reference = client.service
    service = view.find(SERVICES, reference.name, reference.namespace)
    where = f"service {reference.namespace}/{reference.name}"
    if service is None:
        raise CallError(f"{where} is not there")
    name = f"{reference.name}.{reference.namespace}.svc"
    path = reference.path or "/"
    if service.spec.type == "ExternalName":
        return f"https://{service.spec.external_name}:{reference.port or 443}{path}", name
    for pod in view.all(PODS, reference.namespace):
        if serves(service, pod):
            return f"https://{_bracketed(pod.status.pod_ip or '')}:{_port(reference, service, pod)}{path}", name
    raise CallError(f"no endpoints available for {where}")


def _port(reference: ServiceReference, service: Service, pod: Pod) -> int:
    port_number = reference.port or 443
    service_port = next((port for port in service.spec.ports or () if port.port == port_number), None)
    if service_port is None:
        raise CallError(f"service {reference.namespace}/{reference.name} has no port {port_number}")
    target = service_port.target_port or service_port.port
    if isinstance(target, int):
        return target
    for container in pod.spec.containers or ():
        for port in container.ports or ():
            if port.name == target:
                return port.container_port
    raise CallError(f"pod {pod.metadata.namespace}/{pod.metadata.name} has no port named {target}")


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


# Asks the conversion webhooks of users' definitions, so that what reads objects never has to wait for them.
#
# Reading is done in one go, without giving the event loop away. So a reader first makes the objects known to
# the kind first; then ``CustomKind.view`` has them at hand.

_SECONDS = 30.0
# One question holds about that much of objects.
_BATCH_BYTES = 1024 * 1024
_JSON = msgspec.json.Decoder().decode
Document = dict[str, Any]


class Conversions:
    """Conversion by webhook.

    Args:
        objects: the store, and the Services and pods that lead to webhooks.
        caller: gives what asks them.
    """

    def __init__(self, objects: Objects, caller: Callable[[], Caller]) -> None:
        self._objects, self._caller = objects, caller

    async def know(self, kind: Kind[Any], stored: Iterable[bytes]) -> None:
        """Have ``kind`` know how to show these stored objects.

        Raises:
            ApiError: 500 when the webhook does not convert them; the words are Kubernetes'.
        """
        if not isinstance(kind, CustomKind) or kind.converted is None:
            return
        foreign = list(dict.fromkeys(data for data in stored if not kind.knows(data)))
        for batch in _batches(foreign):
            weigh(sum(map(len, batch)))
            originals = await aside(_all_of, kind.definition.pruned, batch)
            converted = await self._convert(kind, originals, kind.api_version)
            for data, value in zip(batch, converted, strict=True):
                kind.learn(data, value)

    async def know_present(self, kind: Kind[Any], namespace: str | None, name: str) -> None:
        """Have ``kind`` know the object that the next write starts from, if there is one."""
        if not isinstance(kind, CustomKind) or kind.converted is None:
            return
        key = self._objects.key(kind, namespace, name)
        # While the webhook is asked, others may write.
        while (entry := self._objects.store.latest(key)) is not None and not kind.knows(entry.data):
            await self.know(kind, [entry.data])

    async def shown(self, kind: Kind[Any], data: bytes) -> bytes:
        """An object that has just been stored, in the version of ``kind``."""
        if not isinstance(kind, CustomKind) or kind.converted is None:
            return data
        await self.know(kind, [data])
        return kind.view(data)

    async def for_storing(self, obj: Any) -> Any:
        """The object in the storage version; other objects, and those that are in it already, as they are."""
        if not isinstance(obj, CustomObject):
            return obj
        kind = custom_of(obj)
        storage = kind.definition.storage
        if kind.converted is None or storage.version == kind.version:
            return obj
        # Through bytes: the object goes on to be looked at, and must not share what is pruned.
        original = _JSON(obj.encoded())
        (converted,) = await self._convert(kind, [original], storage.api_version)
        return storage.stored_object(converted, obj.metadata)

    async def _convert(self, kind: CustomKind, originals: Sequence[Document], api_version: str) -> list[Document]:
        webhook, uid = kind.definition.webhook, self._objects.new_uid()
        assert webhook is not None
        what = f"conversion webhook for {originals[0]['apiVersion']}, Kind={kind.kind}"
        converted = await self._ask(webhook, uid, originals, api_version, what)
        return await aside(_taken, originals, converted, api_version, what)

    async def _ask(
        self, webhook: Webhook, uid: str, originals: Sequence[Document], api_version: str, what: str
    ) -> list[Any]:
        review = question(webhook, uid, originals, api_version)
        try:
            body = await self._caller().post(webhook.client, review, _SECONDS, self._objects)
            weigh(len(body))
            converted = await aside(read_answer, webhook, uid, body)
        except (CallError, BadConversion) as error:
            raise _failed(f"{what} failed: {error}") from None
        if len(converted) != len(originals):
            raise _failed(f"{what} returned {len(converted)} objects, expected {len(originals)}")
        return converted


def _all_of(function: Callable[[bytes], Document], batch: Iterable[bytes]) -> list[Document]:
    return [function(data) for data in batch]


def _taken(originals: Sequence[Document], converted: Sequence[Any], api_version: str, what: str) -> list[Document]:
    documents = []
    for index, (original, answer) in enumerate(zip(originals, converted, strict=True)):
        try:
            documents.append(take(original, answer, api_version))
        except BadConversion as error:
            raise _failed(f"{what} returned invalid converted object at index {index}: {error}") from None
    return documents


def data_of(entries: Iterable[StoredEntry]) -> list[bytes]:
    """The stored objects of entries."""
    return [entry.data for entry in entries]


def _batches(stored: Sequence[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for data in stored:
        if batch and size + len(data) > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(data)
        size += len(data)
    if batch:
        yield batch


def _failed(message: str) -> ApiError:
    return ApiError(message, code=500, reason="")
