"""The webhook's own certificates: made once, shared in a Secret, renewed in time, trusted by caBundle."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from unisono.api.base import ObjectMeta
from unisono.api.core import Secret
from unisono.api.kinds import SECRETS
from unisono.apiserver.access.pki import KeyPair, issue_server, make_authority
from unisono.errors import AlreadyExists, Conflict, NotFound
from unisono.kube.client import Client
from unisono.kube.clock import Clock
from unisono.kube.http import HttpClient
from unisono.kube.transport import error_of

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
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = {str(address) for address in found.get_values_for_type(x509.IPAddress)}
    return set(names) <= addresses | set(found.get_values_for_type(x509.DNSName))


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
    wanted = base64.b64encode(authorities).decode()
    operations: list[dict[str, Any]] = []
    for index, hook in enumerate(configuration.get("webhooks") or ()):
        if hook["clientConfig"].get("caBundle") != wanted:
            at = f"/webhooks/{index}"
            operations.append({"op": "test", "path": f"{at}/name", "value": hook["name"]})
            operations.append({"op": "add", "path": f"{at}/clientConfig/caBundle", "value": wanted})
    return operations


async def keep(client: Client, namespace: str, name: str, names: tuple[str, ...], now: datetime) -> Bundle:
    """The bundle of the Secret; made or renewed there when needed. Of several replicas one wins and the others follow.

    Raises:
        ApiError: the API server refuses, or replicas outrun each other again and again.

    """
    last: Exception = Conflict(f"the Secret {namespace}/{name} is changed by others all the time")
    for _ in range(_TRIES):
        try:
            found: Secret | None = await client.get(SECRETS, name, namespace)
        except NotFound:
            found = None
        have = _read(found.data or {}) if found is not None else None
        bundle = renewed(have, names, now)
        if bundle is have:
            return bundle
        data = _written(bundle)
        try:
            if found is None:
                meta = ObjectMeta(name=name, namespace=namespace)
                await client.create(SECRETS, Secret(metadata=meta, type="Opaque", data=data))
            else:
                patch = {"metadata": {"resourceVersion": found.metadata.resource_version}, "data": data}
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
