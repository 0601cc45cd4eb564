"""Rules of containers, their probes and lifecycle hooks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from unisono.api import names
from unisono.api.base import IntOrString
from unisono.api.core.container import (
    Container,
    ContainerPort,
    EnvVar,
    EnvVarSource,
    Lifecycle,
    LifecycleHandler,
    Probe,
    VolumeMount,
)
from unisono.api.field_error import FieldError, duplicate, forbidden, invalid, not_found, not_supported, required
from unisono.api.validation.meta import at_least, by, is_standard, one_of, validate_requirements

PROTOCOLS = ("SCTP", "TCP", "UDP")
_ENV_SOURCES = ("field_ref", "resource_field_ref", "config_map_key_ref", "secret_key_ref", "file_key_ref")
_ENV_SOURCES_TEXT = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_KEYED_FIELD = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_RESOURCE_FIELDS = re.compile(r"(limits|requests)\.(.+)")
_COUNTS = (
    ("initialDelaySeconds", "initial_delay_seconds"),
    ("timeoutSeconds", "timeout_seconds"),
    ("periodSeconds", "period_seconds"),
    ("successThreshold", "success_threshold"),
    ("failureThreshold", "failure_threshold"),
)


def validate_container(
    container: Container, path: str, volumes: frozenset[str], *, host_network: bool, init: bool = False
) -> Iterator[FieldError]:
    """Rules of one container.

    Args:
        container: the container.
        path: where it stands.
        volumes: names of the pod's volumes.
        host_network: ports are the node's own.
        init: an init container: no probes or hooks unless it goes on running beside the others.
    """
    if not container.name:
        yield required(f"{path}.name")
    else:
        yield from by(names.dns_label, f"{path}.name", container.name)
    if not container.image:
        yield required(f"{path}.image")
    elif container.image != container.image.strip():
        yield invalid(f"{path}.image", container.image, "must not have leading or trailing whitespace")
    yield from one_of(f"{path}.imagePullPolicy", container.image_pull_policy, ("Always", "IfNotPresent", "Never"))
    yield from one_of(
        f"{path}.terminationMessagePolicy", container.termination_message_policy, ("FallbackToLogsOnError", "File")
    )
    yield from _restart(container, path, init=init)
    yield from _ports(container, path, host_network=host_network)
    for index, variable in enumerate(container.env or ()):
        yield from _variable(variable, f"{path}.env[{index}]", volumes)
    yield from _env_from(container, path)
    yield from _mounts(container, path, volumes)
    yield from validate_requirements(container.resources, f"{path}.resources")
    if init and container.restart_policy != "Always":
        for name, value in (
            ("lifecycle", container.lifecycle),
            ("livenessProbe", container.liveness_probe),
            ("readinessProbe", container.readiness_probe),
            ("startupProbe", container.startup_probe),
        ):
            if value is not None:
                yield forbidden(f"{path}.{name}", "may not be set for init containers without restartPolicy=Always")
    else:
        yield from validate_probes(container, path)
        yield from validate_lifecycle(container.lifecycle, f"{path}.lifecycle")


def _restart(container: Container, path: str, *, init: bool) -> Iterator[FieldError]:
    policy = container.restart_policy
    if policy is None:
        if container.restart_policy_rules:
            yield required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
        return
    if policy not in ("Always", "Never", "OnFailure"):
        yield not_supported(f"{path}.restartPolicy", policy, ("Always", "Never", "OnFailure"))
    for index, rule in enumerate(container.restart_policy_rules or ()):
        at = f"{path}.restartPolicyRules[{index}]"
        yield from one_of(f"{at}.action", rule.action, ("Restart", "RestartAllContainers"))
        if rule.exit_codes is None:
            yield required(f"{at}.exitCodes", "must be specified")
        else:
            yield from one_of(f"{at}.exitCodes.operator", rule.exit_codes.operator, ("In", "NotIn"))
        if init and policy == "Always" and rule.action == "Restart":
            # It is started again in any case; that all containers are may depend on its end.
            yield forbidden(
                f"{at}.action", "may only be RestartAllContainers for init containers with restartPolicy=Always"
            )


def _ports(container: Container, path: str, *, host_network: bool) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, port in enumerate(container.ports or ()):
        at = f"{path}.ports[{index}]"
        if port.name:
            yield from by(names.port_name, f"{at}.name", port.name)
            if port.name in seen:
                yield duplicate(f"{at}.name", port.name)
            seen.add(port.name)
        yield from _port(port, at, host_network=host_network)


def _port(port: ContainerPort, path: str, *, host_network: bool) -> Iterator[FieldError]:
    if port.container_port == 0:
        yield required(f"{path}.containerPort")
    else:
        for problem in names.port_number(port.container_port):
            yield invalid(f"{path}.containerPort", port.container_port, problem)
    if port.host_port:
        for problem in names.port_number(port.host_port):
            yield invalid(f"{path}.hostPort", port.host_port, problem)
        if host_network and port.host_port != port.container_port:
            yield invalid(
                f"{path}.containerPort", port.container_port, "must match `hostPort` when `hostNetwork` is true"
            )
    yield from one_of(f"{path}.protocol", port.protocol, PROTOCOLS)
    if port.host_ip:
        yield from by(names.ip_address, f"{path}.hostIP", port.host_ip)


def validate_host_ports(containers: list[tuple[str, Container]]) -> Iterator[FieldError]:
    """No two containers of a pod may take the same port of the node."""
    seen: set[str] = set()
    for path, container in containers:
        for index, port in enumerate(container.ports or ()):
            if not port.host_port:
                continue
            key = f"{port.protocol or 'TCP'}/{port.host_ip or ''}/{port.host_port}"
            if key in seen:
                yield duplicate(f"{path}.ports[{index}].hostPort", key)
            seen.add(key)


def _variable(variable: EnvVar, path: str, volumes: frozenset[str]) -> Iterator[FieldError]:
    if not variable.name:
        yield required(f"{path}.name")
    else:
        yield from by(names.env_name, f"{path}.name", variable.name)
    source = variable.value_from
    if source is None:
        return
    at = f"{path}.valueFrom"
    given = [name for name in _ENV_SOURCES if getattr(source, name) is not None]
    if variable.value and given:
        yield invalid(at, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield invalid(at, "", "may not have more than one field specified at a time")
    elif not given:
        yield invalid(at, "", f"must specify one of: {_ENV_SOURCES_TEXT}")
    yield from _env_source(source, at, volumes)


def _env_source(source: EnvVarSource, path: str, volumes: frozenset[str]) -> Iterator[FieldError]:
    if source.field_ref is not None:
        field = source.field_ref.field_path
        if not field:
            yield required(f"{path}.fieldRef.fieldPath")
        elif field not in ENV_FIELDS and not _KEYED_FIELD.fullmatch(field):
            yield not_supported(f"{path}.fieldRef.fieldPath", field, ENV_FIELDS)
    if source.resource_field_ref is not None:
        resource = source.resource_field_ref.resource
        match = _RESOURCE_FIELDS.fullmatch(resource)
        if not resource:
            yield required(f"{path}.resourceFieldRef.resource")
        elif match is None or not is_standard(match.group(2)):
            supported = [
                f"{side}.{name}" for side in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
            ]
            yield not_supported(f"{path}.resourceFieldRef.resource", resource, supported)
    for name, reference in (
        ("configMapKeyRef", source.config_map_key_ref),
        ("secretKeyRef", source.secret_key_ref),
    ):
        if reference is None:
            continue
        if not reference.name:
            yield required(f"{path}.{name}.name")
        if not reference.key:
            yield required(f"{path}.{name}.key")
        else:
            yield from by(names.config_key, f"{path}.{name}.key", reference.key)
    file = source.file_key_ref
    if file is not None and file.volume_name not in volumes:
        yield not_found(f"{path}.fileKeyRef.volumeName", file.volume_name)


def _env_from(container: Container, path: str) -> Iterator[FieldError]:
    for index, source in enumerate(container.env_from or ()):
        at = f"{path}.envFrom[{index}]"
        if source.prefix:
            yield from by(names.env_name, f"{at}.prefix", source.prefix)
        given = [each for each in (source.config_map_ref, source.secret_ref) if each is not None]
        if not given:
            yield invalid(at, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield invalid(at, "", "may not have more than one field specified at a time")
        elif not given[0].name:
            yield required(f"{at}.{'configMapRef' if source.config_map_ref else 'secretRef'}.name")


def _mounts(container: Container, path: str, volumes: frozenset[str]) -> Iterator[FieldError]:
    places: set[str] = set()
    for index, mount in enumerate(container.volume_mounts or ()):
        at = f"{path}.volumeMounts[{index}]"
        yield from _mount(mount, at, volumes)
        if mount.mount_path and mount.mount_path in places:
            yield invalid(f"{at}.mountPath", mount.mount_path, "must be unique")
        places.add(mount.mount_path)
    for index, device in enumerate(container.volume_devices or ()):
        at = f"{path}.volumeDevices[{index}]"
        if not device.name:
            yield required(f"{at}.name")
        elif device.name not in volumes:
            yield not_found(f"{at}.name", device.name)
        if not device.device_path:
            yield required(f"{at}.devicePath")
        elif device.device_path in places:
            yield invalid(f"{at}.devicePath", device.device_path, "must not already exist as a path in volumeMounts")


def _mount(mount: VolumeMount, path: str, volumes: frozenset[str]) -> Iterator[FieldError]:
    if not mount.name:
        yield required(f"{path}.name")
    elif mount.name not in volumes:
        yield not_found(f"{path}.name", mount.name)
    if not mount.mount_path:
        yield required(f"{path}.mountPath")
    if mount.sub_path and mount.sub_path_expr:
        yield invalid(f"{path}.subPathExpr", mount.sub_path_expr, "subPathExpr and subPath are mutually exclusive")
    for name, value in (("subPath", mount.sub_path), ("subPathExpr", mount.sub_path_expr)):
        if value:
            yield from validate_relative(value, f"{path}.{name}")
    yield from one_of(f"{path}.mountPropagation", mount.mount_propagation, ("Bidirectional", "HostToContainer", "None"))


def validate_relative(value: str, path: str) -> Iterator[FieldError]:
    """A path that stays below its folder."""
    if value.startswith("/"):
        yield invalid(path, value, "must be a relative path")
    if ".." in value.split("/"):
        yield invalid(path, value, "must not contain '..'")


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
        yield from _probe_port(probe.grpc.port, f"{path}.grpc.port")
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
        yield from _probe_port(handler.http_get.port, f"{path}.httpGet.port")
        yield from one_of(f"{path}.httpGet.scheme", handler.http_get.scheme, ("HTTP", "HTTPS"))
        for index, header in enumerate(handler.http_get.http_headers or ()):
            if not header.name:
                yield required(f"{path}.httpGet.httpHeaders[{index}].name")
    if handler.tcp_socket is not None:
        yield from _probe_port(handler.tcp_socket.port, f"{path}.tcpSocket.port")


def _probe_port(port: IntOrString | None, path: str) -> Iterator[FieldError]:
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
