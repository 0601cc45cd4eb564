"""Containers of a pod: their probes, hooks and security settings."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Int32, IntOrString, Required, RequiredPort, ResourceList
from unisono.api.core.refs import (
    ConfigMapKeySelector,
    FileKeySelector,
    ObjectFieldSelector,
    ResourceFieldSelector,
    SecretKeySelector,
)


class ExecAction(Base):
    """A command; exit code 0 means success."""

    command: list[str] | None = None


class HTTPHeader(Base):
    """A header of a probe's request."""

    name: Required = ""
    value: str = ""


class HTTPGetAction(Base):
    """An HTTP GET; 200 to 399 means success."""

    path: str | None = None
    port: IntOrString | None = None
    host: str | None = None
    scheme: str | None = None
    http_headers: list[HTTPHeader] | None = None


class TCPSocketAction(Base):
    """A TCP connection; success when it opens."""

    port: IntOrString | None = None
    host: str | None = None


class GRPCAction(Base):
    """A gRPC health check."""

    port: Int32 | None = None
    service: str | None = None


class SleepAction(Base):
    """A pause."""

    seconds: int | None = None


class Probe(Base):
    """A health check, exactly one of the four actions."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    grpc: GRPCAction | None = None
    initial_delay_seconds: Int32 | None = None
    timeout_seconds: Int32 | None = None
    period_seconds: Int32 | None = None
    success_threshold: Int32 | None = None
    failure_threshold: Int32 | None = None
    termination_grace_period_seconds: int | None = None


class LifecycleHandler(Base):
    """What runs at a point of a container's life."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(Base):
    """Hooks after the start and before the end, and the signal that ends the container."""

    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str | None = None


class SELinuxOptions(Base):
    """SELinux label."""

    user: str | None = None
    role: str | None = None
    type: str | None = None
    level: str | None = None


class WindowsSecurityContextOptions(Base):
    """Windows settings."""

    gmsa_credential_spec_name: str | None = None
    gmsa_credential_spec: str | None = None
    run_as_user_name: str | None = None
    host_process: bool | None = None


class SeccompProfile(Base):
    """Seccomp profile; types are Localhost, RuntimeDefault, Unconfined."""

    type: Required = ""
    localhost_profile: str | None = None


class AppArmorProfile(Base):
    """AppArmor profile; types are Localhost, RuntimeDefault, Unconfined."""

    type: Required = ""
    localhost_profile: str | None = None


class Capabilities(Base):
    """POSIX capabilities to add and drop."""

    add: list[str] | None = None
    drop: list[str] | None = None


class Sysctl(Base):
    """A kernel parameter."""

    name: Required = ""
    value: str = ""


class SecurityContext(Base):
    """Security settings of a container."""

    capabilities: Capabilities | None = None
    privileged: bool | None = None
    se_linux_options: SELinuxOptions | None = None
    windows_options: WindowsSecurityContextOptions | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    read_only_root_filesystem: bool | None = None
    allow_privilege_escalation: bool | None = None
    proc_mount: str | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None


class PodSecurityContext(Base):
    """Security settings of all containers of a pod."""

    se_linux_options: SELinuxOptions | None = None
    windows_options: WindowsSecurityContextOptions | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    supplemental_groups: list[int] | None = None
    supplemental_groups_policy: str | None = None
    fs_group: int | None = None
    sysctls: list[Sysctl] | None = None
    fs_group_change_policy: str | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    se_linux_change_policy: str | None = msgspec.field(default=None, name="seLinuxChangePolicy")


# Containers of a pod.


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
