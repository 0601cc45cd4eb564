"""Rules of probes and lifecycle hooks."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api import names
from unisono.api.core.container import Container
from unisono.api.core.probe import Lifecycle, LifecycleHandler, Probe
from unisono.api.field_error import FieldError, forbidden, invalid, required
from unisono.api.fields import IntOrString
from unisono.api.validation.meta import at_least, by, one_of

_COUNTS = (
    ("initialDelaySeconds", "initial_delay_seconds"),
    ("timeoutSeconds", "timeout_seconds"),
    ("periodSeconds", "period_seconds"),
    ("successThreshold", "success_threshold"),
    ("failureThreshold", "failure_threshold"),
)


def validate_probes(container: Container, path: str) -> Iterator[FieldError]:
    """The three probes of a container."""
    for name, probe in (
        ("livenessProbe", container.liveness_probe),
        ("readinessProbe", container.readiness_probe),
        ("startupProbe", container.startup_probe),
    ):
        if probe is None:
            continue
        at = f"{path}.{name}"
        yield from _probe(probe, at)
        if name != "readinessProbe" and probe.success_threshold not in (None, 1):
            yield invalid(f"{at}.successThreshold", probe.success_threshold, "must be 1")
        if name == "readinessProbe" and probe.termination_grace_period_seconds is not None:
            yield invalid(
                f"{at}.terminationGracePeriodSeconds",
                probe.termination_grace_period_seconds,
                "must not be set for readinessProbes",
            )


def _probe(probe: Probe, path: str) -> Iterator[FieldError]:
    yield from _handler(probe, path)
    if probe.grpc is not None:
        yield from _port(probe.grpc.port, f"{path}.grpc.port")
    for name, attribute in _COUNTS:
        yield from at_least(f"{path}.{name}", getattr(probe, attribute), 0)
    grace = probe.termination_grace_period_seconds
    if grace is not None and grace <= 0:
        yield invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")


def _handler(handler: Probe | LifecycleHandler, path: str) -> Iterator[FieldError]:
    last = handler.grpc if isinstance(handler, Probe) else handler.sleep
    given = [each for each in (handler.exec, handler.http_get, handler.tcp_socket, last) if each is not None]
    if not given:
        yield required(path, "must specify a handler type")
    elif len(given) > 1:
        yield forbidden(path, "may not specify more than 1 handler type")
    if handler.exec is not None and not handler.exec.command:
        yield required(f"{path}.exec.command")
    if handler.http_get is not None:
        yield from _port(handler.http_get.port, f"{path}.httpGet.port")
        yield from one_of(f"{path}.httpGet.scheme", handler.http_get.scheme, ("HTTP", "HTTPS"))
        for index, header in enumerate(handler.http_get.http_headers or ()):
            if not header.name:
                yield required(f"{path}.httpGet.httpHeaders[{index}].name")
    if handler.tcp_socket is not None:
        yield from _port(handler.tcp_socket.port, f"{path}.tcpSocket.port")


def _port(port: IntOrString | None, path: str) -> Iterator[FieldError]:
    if isinstance(port, str):
        yield from by(names.port_name, path, port)
    else:
        for problem in names.port_number(port or 0):
            yield invalid(path, port or 0, problem)


def validate_lifecycle(lifecycle: Lifecycle | None, path: str) -> Iterator[FieldError]:
    """Hooks after the start and before the end."""
    if lifecycle is None:
        return
    for name, hook in (("postStart", lifecycle.post_start), ("preStop", lifecycle.pre_stop)):
        if hook is not None:
            yield from _handler(hook, f"{path}.{name}")
