"""Probes and lifecycle hooks of a container."""

from __future__ import annotations

from unisono.api.base import Base
from unisono.api.fields import Int32, IntOrString, Required


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
