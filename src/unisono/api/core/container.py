"""Containers of a pod."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base
from unisono.api.core.probe import Lifecycle, Probe
from unisono.api.core.refs import (
    ConfigMapKeySelector,
    FileKeySelector,
    ObjectFieldSelector,
    ResourceFieldSelector,
    SecretKeySelector,
)
from unisono.api.core.security import SecurityContext
from unisono.api.fields import Int32, Required, RequiredPort, ResourceList


class ContainerPort(Base):
    """A port that a container listens on."""

    name: str | None = None
    host_port: Int32 | None = None
    container_port: RequiredPort = 0
    protocol: str | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")


class EnvVarSource(Base):
    """Where the value of an environment variable comes from, exactly one of them."""

    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: ConfigMapKeySelector | None = None
    secret_key_ref: SecretKeySelector | None = None
    file_key_ref: FileKeySelector | None = None


class EnvVar(Base):
    """An environment variable; ``value`` may refer to earlier ones as ``$(NAME)``."""

    name: Required = ""
    value: str | None = None
    value_from: EnvVarSource | None = None


class EnvFromReference(Base):
    """A ConfigMap or Secret of which every key becomes a variable."""

    name: str = ""
    optional: bool | None = None


class EnvFromSource(Base):
    """All keys of a ConfigMap or of a Secret, with a prefix."""

    prefix: str | None = None
    config_map_ref: EnvFromReference | None = None
    secret_ref: EnvFromReference | None = None


class ResourceClaimRef(Base):
    """A claim of ``pod.spec.resourceClaims`` that a container uses."""

    name: Required = ""
    request: str | None = None


class ResourceRequirements(Base):
    """What a container needs (``requests``) and may use (``limits``)."""

    limits: ResourceList | None = None
    requests: ResourceList | None = None
    claims: list[ResourceClaimRef] | None = None


class ContainerResizePolicy(Base):
    """Whether a change of a resource restarts the container."""

    resource_name: Required = ""
    restart_policy: Required = ""


class ContainerRestartRuleOnExitCodes(Base):
    """Exit codes that a restart rule is about; operators are In and NotIn."""

    operator: Required = ""
    values: list[Int32] | None = None


class ContainerRestartRule(Base):
    """What to do when the container ends with certain exit codes."""

    action: Required = ""
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class VolumeMount(Base):
    """Where a volume appears in a container."""

    name: Required = ""
    read_only: bool | None = None
    recursive_read_only: str | None = None
    mount_path: Required = ""
    sub_path: str | None = None
    mount_propagation: str | None = None
    sub_path_expr: str | None = None


class VolumeDevice(Base):
    """Where a block device appears in a container."""

    name: Required = ""
    device_path: Required = ""


class Container(Base):
    """One container; this machine's runtime runs it as a process."""

    name: Required = ""
    image: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    working_dir: str | None = None
    ports: list[ContainerPort] | None = None
    env_from: list[EnvFromSource] | None = None
    env: list[EnvVar] | None = None
    resources: ResourceRequirements = msgspec.field(default_factory=ResourceRequirements)
    resize_policy: list[ContainerResizePolicy] | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[ContainerRestartRule] | None = None
    volume_mounts: list[VolumeMount] | None = None
    volume_devices: list[VolumeDevice] | None = None
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    termination_message_path: str | None = None
    termination_message_policy: str | None = None
    image_pull_policy: str | None = None
    security_context: SecurityContext | None = None
    stdin: bool | None = None
    stdin_once: bool | None = None
    tty: bool | None = None


class EphemeralContainer(Container):
    """A container added to a running pod for debugging."""

    target_container_name: str | None = None
