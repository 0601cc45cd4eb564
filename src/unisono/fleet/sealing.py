"""The key with which a hub seals its dispatches, kept in a Secret so that backups have it."""

from __future__ import annotations

import base64
import binascii
import secrets
from typing import Final

from unisono.api.base import ObjectMeta
from unisono.api.core import Secret
from unisono.api.kinds import SECRETS
from unisono.errors import AlreadyExists, ConfigError, NotFound
from unisono.fleet.jobs.copies import KEY_BYTES
from unisono.kube.client import Client

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
        found = base64.b64decode(str((secret.data or {}).get(_ENTRY, "")), validate=True)
    except binascii.Error:
        found = b""
    if len(found) < KEY_BYTES:
        raise ConfigError(
            f"Secret {NAMESPACE}/{NAME} holds no key: restore it from a backup, or delete it to have a new one made"
        )
    return found
