"""Rules of ConfigMaps and Secrets."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping

from unisono.api import names
from unisono.api.core.config import ConfigMap, Secret
from unisono.api.field_error import FieldError, forbidden, invalid, required
from unisono.api.keys import SSH_AUTH
from unisono.api.validation.meta import by

LARGEST = 1024 * 1024
# Keys that a Secret of a known type must have.
_REQUIRED_KEYS: dict[str, tuple[str, ...]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    SSH_AUTH: ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def validate_config_map(config: ConfigMap, old: ConfigMap | None) -> Iterator[FieldError]:
    """Keys, size, base64, and nothing changes once it is immutable."""
    size = 0
    for key, text in (config.data or {}).items():
        yield from by(names.config_key, f"data[{key}]", key)
        if key in (config.binary_data or {}):
            yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        size += len(text.encode())
    for key in config.binary_data or {}:
        yield from by(names.config_key, f"binaryData[{key}]", key)
    yield from _sized(size, config.binary_data, "binaryData", "")
    if old is not None and old.immutable:
        if not config.immutable:
            yield forbidden("immutable", "field is immutable when `immutable` is set")
        if (config.data or {}) != (old.data or {}):
            yield forbidden("data", "field is immutable when `immutable` is set")
        if (config.binary_data or {}) != (old.binary_data or {}):
            yield forbidden("binaryData", "field is immutable when `immutable` is set")


def validate_secret(secret: Secret, old: Secret | None) -> Iterator[FieldError]:
    """Keys, size, base64, keys of known types, and what must not change."""
    for key in secret.data or {}:
        yield from by(names.config_key, f"data[{key}]", key)
    yield from _sized(0, secret.data, "data", "data")
    for key in _REQUIRED_KEYS.get(secret.type or "", ()):
        if key not in (secret.data or {}):
            yield required(f"data[{key}]")
    if secret.type == "kubernetes.io/basic-auth" and not {"username", "password"} & set(secret.data or ()):
        yield required("data[username]")
        yield required("data[password]")
    if old is not None:
        if secret.type != old.type:
            yield invalid("type", secret.type, "field is immutable")
        if old.immutable:
            if not secret.immutable:
                yield forbidden("immutable", "field is immutable when `immutable` is set")
            if (secret.data or {}) != (old.data or {}):
                yield forbidden("data", "field is immutable when `immutable` is set")


def _sized(size: int, encoded: Mapping[str, str] | None, path: str, whole: str) -> Iterator[FieldError]:
    for key, text in (encoded or {}).items():
        try:
            size += len(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError):
            yield invalid(f"{path}[{key}]", text[:64], "illegal base64 data")
    if size > LARGEST:
        yield FieldError(whole, "FieldValueTooLong", "", f"may not be more than {LARGEST} bytes")
