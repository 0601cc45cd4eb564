"""Asks webhooks over HTTPS, at their URL or at a pod behind their Service."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

import aiohttp
import msgspec

from unisono.api.core import Pod, Service
from unisono.api.groups.admission_registration import ServiceReference, WebhookClientConfig, serves
from unisono.api.kind import Kind
from unisono.api.kinds import PODS, SERVICES
from unisono.apiserver.admission import View
from unisono.apiserver.flow_control.turns import aside
from unisono.apiserver.storage.objects import Key
from unisono.apiserver.storage.store import Store

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
    wanted = reference.port or 443
    found = next((port for port in service.spec.ports or () if port.port == wanted), None)
    if found is None:
        raise CallError(f"service {reference.namespace}/{reference.name} has no port {wanted}")
    target = found.target_port or found.port
    if isinstance(target, int):
        return target
    for container in pod.spec.containers or ():
        for port in container.ports or ():
            if port.name == target:
                return port.container_port
    raise CallError(f"pod {pod.metadata.namespace}/{pod.metadata.name} has no port named {target}")


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
