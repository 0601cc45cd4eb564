"""References from one object to another."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Required


class LocalObjectReference(Base):
    """An object of the same namespace, by name."""

    name: str = ""


class ObjectReference(Base):
    """Any object, as events and bindings name it."""

    api_version: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


class TypedLocalObjectReference(Base):
    """An object of the same namespace, by group, kind and name."""

    api_group: str | None = None
    kind: Required = ""
    name: Required = ""


class TypedObjectReference(Base):
    """An object by group, kind, namespace and name."""

    api_group: str | None = None
    kind: Required = ""
    name: Required = ""
    namespace: str | None = None


class SecretReference(Base):
    """A Secret of any namespace."""

    name: str | None = None
    namespace: str | None = None


class ObjectFieldSelector(Base):
    """A field of the pod, such as ``metadata.name`` or ``status.podIP``."""

    api_version: str | None = None
    field_path: Required = ""


class ResourceFieldSelector(Base):
    """A container's request or limit, divided by ``divisor``."""

    container_name: str | None = None
    resource: Required = ""
    divisor: str | int | float | None = None


class ConfigMapKeySelector(Base):
    """One key of a ConfigMap."""

    name: str = ""
    key: Required = ""
    optional: bool | None = None


class SecretKeySelector(Base):
    """One key of a Secret."""

    name: str = ""
    key: Required = ""
    optional: bool | None = None


class FileKeySelector(Base):
    """One variable of an environment file in an emptyDir volume."""

    volume_name: Required = ""
    path: Required = ""
    key: Required = ""
    optional: bool | None = None


class ClientIPConfig(Base):
    """How long a client stays with one endpoint."""

    timeout_seconds: int | None = None


class SessionAffinityConfig(Base):
    """Settings of a Service's session affinity."""

    client_ip: ClientIPConfig | None = msgspec.field(default=None, name="clientIP")
