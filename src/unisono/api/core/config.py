"""ConfigMap, Secret and ServiceAccount."""

from __future__ import annotations

from unisono.api.base import Object
from unisono.api.core.refs import LocalObjectReference, ObjectReference
from unisono.api.fields import Base64


class ConfigMap(Object):
    """Configuration as key-value pairs."""

    immutable: bool | None = None
    data: dict[str, str] | None = None
    binary_data: dict[str, Base64] | None = None


class Secret(Object):
    """Confidential key-value pairs; ``data`` is base64, ``string_data`` is write-only plain text."""

    immutable: bool | None = None
    data: dict[str, Base64] | None = None
    string_data: dict[str, str] | None = None
    type: str | None = None


class ServiceAccount(Object):
    """An identity of pods."""

    secrets: list[ObjectReference] | None = None
    image_pull_secrets: list[LocalObjectReference] | None = None
    automount_service_account_token: bool | None = None
