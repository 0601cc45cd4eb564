"""Rules of Services."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api import names
from unisono.api.core.service import Service, ServicePort, ServiceSpec
from unisono.api.field_error import FieldError, duplicate, forbidden, invalid, not_supported, required
from unisono.api.validation.container import PROTOCOLS
from unisono.api.validation.meta import by, one_of, validate_labels

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_LONGEST_AFFINITY = 86400


def validate_service(service: Service, old: Service | None) -> Iterator[FieldError]:
    """Ports, selector, addresses; the cluster address stays."""
    spec = service.spec
    yield from one_of("spec.type", spec.type, _TYPES)
    yield from validate_labels(spec.selector, "spec.selector")
    yield from one_of("spec.sessionAffinity", spec.session_affinity, ("ClientIP", "None"))
    yield from one_of("spec.externalTrafficPolicy", spec.external_traffic_policy, ("Cluster", "Local"))
    yield from one_of("spec.internalTrafficPolicy", spec.internal_traffic_policy, ("Cluster", "Local"))
    if spec.type == "ExternalName":
        if not spec.external_name:
            yield required("spec.externalName")
        else:
            yield from by(names.dns_subdomain, "spec.externalName", spec.external_name.removesuffix("."))
    elif not spec.ports and spec.cluster_ip != "None":
        yield required("spec.ports")
    yield from _addresses(spec)
    yield from _ports(spec)
    if old is not None and spec.type != "ExternalName":
        before = old.spec.cluster_ip
        if before and old.spec.type != "ExternalName" and spec.cluster_ip != before:
            yield invalid("spec.clusterIPs[0]", [spec.cluster_ip], "may not change once set")


def _addresses(spec: ServiceSpec) -> Iterator[FieldError]:
    address = spec.cluster_ip
    if spec.cluster_ips and not address:
        yield invalid("spec.clusterIPs", spec.cluster_ips, "must be empty when `clusterIP` is not specified")
    elif spec.cluster_ips and spec.cluster_ips[0] != address:
        yield invalid("spec.clusterIPs", spec.cluster_ips, "first value must match `clusterIP`")
    if address and address != "None":
        for problem in names.ip_address(address):
            yield invalid("spec.clusterIPs[0]", address, problem)
        if spec.type == "ExternalName":
            yield invalid("spec.clusterIPs[0]", address, "may not be set for ExternalName services")
    elif address == "None" and spec.type in ("NodePort", "LoadBalancer"):
        yield invalid("spec.clusterIPs[0]", address, f"may not be set to 'None' for {spec.type} services")
    for index, external in enumerate(spec.external_ips or ()):
        yield from by(names.ip_address, f"spec.externalIPs[{index}]", external)
    config = spec.session_affinity_config
    if config is not None and config.client_ip is not None:
        seconds = config.client_ip.timeout_seconds
        if seconds is not None and not 0 < seconds <= _LONGEST_AFFINITY:
            path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            yield invalid(path, seconds, f"must be greater than 0 and less than {_LONGEST_AFFINITY}")


def _ports(spec: ServiceSpec) -> Iterator[FieldError]:
    ports = spec.ports or []
    named: set[str] = set()
    taken: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        if not port.name:
            if len(ports) > 1:
                yield required(f"{path}.name")
        else:
            yield from by(names.dns_label, f"{path}.name", port.name)
            if port.name in named:
                yield duplicate(f"{path}.name", port.name)
            named.add(port.name)
        yield from _port(port, path, spec.type)
        key = (port.protocol or "TCP", port.port)
        if key in taken:
            yield duplicate(path, {"port": port.port, "protocol": key[0]})
        taken.add(key)


def _port(port: ServicePort, path: str, spec_type: str | None) -> Iterator[FieldError]:
    for problem in names.port_number(port.port):
        yield invalid(f"{path}.port", port.port, problem)
    if port.protocol is not None and port.protocol not in PROTOCOLS:
        yield not_supported(f"{path}.protocol", port.protocol, PROTOCOLS)
    target = port.target_port
    if isinstance(target, str):
        yield from by(names.port_name, f"{path}.targetPort", target)
    elif target is not None:
        for problem in names.port_number(target):
            yield invalid(f"{path}.targetPort", target, problem)
    if port.node_port and spec_type == "ClusterIP":
        yield forbidden(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'")
    elif port.node_port:
        for problem in names.port_number(port.node_port):
            yield invalid(f"{path}.nodePort", port.node_port, problem)
