"""The webhook's certificates: made once, shared by replicas, renewed in time, trusted without a gap."""

from __future__ import annotations

import base64
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from unisono.api.kinds import SECRETS
from unisono.apiserver.backend import Backend
from unisono.apiserver.local import LocalClient
from unisono.webhook.server import LIFE, Bundle, keep, renewed, trusting

NAMES = ("unisono-webhook.ns.svc", "unisono-webhook.ns")
START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def trusts(bundle: Bundle, server: Bundle) -> bool:
    """Somebody who trusts the first bundle's authorities accepts the second one's server."""
    authorities = x509.load_pem_x509_certificates(bundle.trusted)
    issuer = next((one for one in authorities if one.subject == server.server.certificate.issuer), None)
    if issuer is None:
        return False
    server.server.certificate.verify_directly_issued_by(issuer)
    return True


def test_nothing_is_made_anew_while_it_is_good() -> None:
    first = renewed(None, NAMES, START)
    assert renewed(first, NAMES, START + 59 * DAY) is first


def test_a_certificate_is_renewed_a_month_before_its_end_by_the_same_authority() -> None:
    first = renewed(None, NAMES, START)
    later = renewed(first, NAMES, START + LIFE - 29 * DAY)
    assert later.server.certificate_pem != first.server.certificate_pem
    assert later.trusted == first.trusted
    assert trusts(first, later)


def test_a_new_name_needs_a_new_certificate() -> None:
    first = renewed(None, NAMES, START)
    moved = renewed(first, ("unisono-webhook.other.svc",), START + DAY)
    found = moved.server.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert found.get_values_for_type(x509.DNSName) == ["unisono-webhook.other.svc"]


def test_while_the_authority_changes_replicas_with_either_certificate_are_trusted() -> None:
    first = renewed(None, NAMES, START)
    later = renewed(first, NAMES, START + timedelta(days=3650 - 364))
    assert later.authority.certificate_pem != first.authority.certificate_pem
    assert trusts(later, later)
    assert trusts(later, first)


def test_every_configured_webhook_gets_the_authorities_and_only_where_they_are_missing() -> None:
    bundle = base64.b64encode(b"pem").decode()
    configuration = {
        "webhooks": [
            {"name": "a", "clientConfig": {"caBundle": bundle}},
            {"name": "b", "clientConfig": {}},
            {"name": "c", "clientConfig": {"caBundle": "b2xk"}},
        ]
    }
    operations = trusting(configuration, b"pem")
    assert [one["path"] for one in operations if one["op"] == "add"] == [
        "/webhooks/1/clientConfig/caBundle",
        "/webhooks/2/clientConfig/caBundle",
    ]
    assert trusting({"webhooks": configuration["webhooks"][:1]}, b"pem") == []


@pytest.fixture
async def client(tmp_path: Path):
    backend = await Backend.open(tmp_path / "state.db")
    local = LocalClient(backend.service)
    try:
        yield local
    finally:
        await local.close()
        await backend.close()


async def test_replicas_share_one_certificate(client: LocalClient) -> None:
    one = await keep(client, "default", "unisono-webhook", NAMES, START)
    other = await keep(client, "default", "unisono-webhook", NAMES, START)
    assert one.server.certificate_pem == other.server.certificate_pem
    renewal = await keep(client, "default", "unisono-webhook", NAMES, START + 80 * DAY)
    follower = await keep(client, "default", "unisono-webhook", NAMES, START + 80 * DAY)
    assert renewal.server.certificate_pem == follower.server.certificate_pem != one.server.certificate_pem


async def test_a_broken_secret_is_mended(client: LocalClient) -> None:
    await keep(client, "default", "unisono-webhook", NAMES, START)
    broken = {"tls.key": base64.b64encode(b"nonsense").decode()}
    await client.patch(SECRETS, "unisono-webhook", {"data": broken}, namespace="default")
    repaired = await keep(client, "default", "unisono-webhook", NAMES, START)
    context = ssl.create_default_context(cadata=repaired.trusted.decode())
    assert context.get_ca_certs()
    assert await keep(client, "default", "unisono-webhook", NAMES, START) is not None
