"""Security settings of pods and containers."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base
from unisono.api.fields import Required


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
