"""Rules of Services, Ingresses and network policies."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence

from unisono.api import names
from unisono.api.core.service import (
    HTTPIngressPath,
    Ingress,
    IngressBackend,
    IngressClass,
    IngressClassParametersReference,
    IngressRule,
    IngressTLS,
    IPBlock,
    NetworkPolicy,
    NetworkPolicyPeer,
    NetworkPolicyPort,
    Service,
    ServiceBackendPort,
    ServicePort,
    ServiceSpec,
)
from unisono.api.field_error import FieldError, duplicate, forbidden, invalid, not_supported, required, too_long
from unisono.api.validation.container import PROTOCOLS
from unisono.api.validation.meta import by, one_of, validate_labels, validate_selector

# Rules of Services.

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


# Rules of Ingresses and their classes.

_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_WILDCARD = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_WILDCARD_RULE = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', "
    f"regex used for validation is '{_WILDCARD}')"
)
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS = ("/..", "/.")
_LONGEST_CONTROLLER = 250


def validate_ingress(ingress: Ingress, old: Ingress | None) -> Iterator[FieldError]:
    """Hosts, paths, backends and certificates."""
    spec = ingress.spec
    if not spec.rules and spec.default_backend is None:
        yield invalid("spec", spec.rules, "either `defaultBackend` or `rules` must be specified")
    if spec.default_backend is not None:
        yield from _backend(spec.default_backend, "spec.defaultBackend")
    for index, rule in enumerate(spec.rules or ()):
        yield from _rule(rule, f"spec.rules[{index}]")
    for index, tls in enumerate(spec.tls or ()):
        yield from _tls(tls, f"spec.tls[{index}]")
    if spec.ingress_class_name is not None:
        yield from by(names.dns_subdomain, "spec.ingressClassName", spec.ingress_class_name)
    annotated = (ingress.metadata.annotations or {}).get(_CLASS_ANNOTATION)
    if old is None and annotated is not None and spec.ingress_class_name not in (None, annotated):
        detail = "must match `ingressClassName` when both are specified"
        yield invalid(f"annotations.{_CLASS_ANNOTATION}", annotated, detail)


def validate_ingress_class(ingress_class: IngressClass, old: IngressClass | None) -> Iterator[FieldError]:
    """A controller that stays, and its parameters."""
    controller = ingress_class.spec.controller or ""
    if len(controller) > _LONGEST_CONTROLLER:
        yield too_long("spec.controller", controller, _LONGEST_CONTROLLER)
    if not controller:
        yield required("spec.controller")
    else:
        prefix, slash, rest = controller.partition("/")
        if not slash or not prefix or not rest:
            yield invalid("spec.controller", controller, 'must be a domain-prefixed path (such as "acme.io/foo")')
        else:
            yield from by(names.dns_subdomain, "spec.controller", prefix)
    if ingress_class.spec.parameters is not None:
        yield from _parameters(ingress_class.spec.parameters, "spec.parameters")
    if old is not None and ingress_class.spec.controller != old.spec.controller:
        yield invalid("spec.controller", controller, "field is immutable")


def _rule(rule: IngressRule, path: str) -> Iterator[FieldError]:
    if rule.host:
        if not names.ip_address(rule.host):
            yield invalid(f"{path}.host", rule.host, "must be a DNS name, not an IP address")
        yield from _host(rule.host, f"{path}.host")
    if rule.http is None:
        return
    if not rule.http.paths:
        yield required(f"{path}.http.paths")
    for index, each in enumerate(rule.http.paths or ()):
        yield from _path(each, f"{path}.http.paths[{index}]")


def _host(host: str, path: str) -> Iterator[FieldError]:
    if "*" not in host:
        yield from by(names.dns_subdomain, path, host)
    elif not re.fullmatch(_WILDCARD, host):
        yield invalid(path, host, _WILDCARD_RULE)


def _tls(tls: IngressTLS, path: str) -> Iterator[FieldError]:
    for index, host in enumerate(tls.hosts or ()):
        yield from _host(host, f"{path}.hosts[{index}]")
    if tls.secret_name:
        yield from by(names.dns_subdomain, f"{path}.secretName", tls.secret_name)


def _path(each: HTTPIngressPath, path: str) -> Iterator[FieldError]:
    if not each.path_type:
        yield required(f"{path}.pathType", "pathType must be specified")
        return
    text = each.path or ""
    if each.path_type not in _PATH_TYPES:
        yield not_supported(f"{path}.pathType", each.path_type, _PATH_TYPES)
    elif not text.startswith("/") and (text or each.path_type != "ImplementationSpecific"):
        yield invalid(f"{path}.path", text, "must be an absolute path")
    if each.path_type in ("Exact", "Prefix"):
        for sequence in _BAD_SEQUENCES:
            if sequence in text:
                yield invalid(f"{path}.path", text, f"must not contain '{sequence}'")
        for end in _BAD_ENDS:
            if text.endswith(end):
                yield invalid(f"{path}.path", text, f"cannot end with '{end}'")
    yield from _backend(each.backend, f"{path}.backend")


def _backend(backend: IngressBackend, path: str) -> Iterator[FieldError]:
    resource, service = backend.resource, backend.service
    if resource is not None and service is not None:
        yield invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from _named_object(resource.api_group, resource.kind, resource.name, f"{path}.resource")
    elif service is not None:
        if not service.name:
            yield required(f"{path}.service.name")
        else:
            yield from by(names.dns_label, f"{path}.service.name", service.name)
        yield from _backend_port(service.port, path)
    else:
        yield invalid(path, "", "resource or service backend is required")


def _backend_port(port: ServiceBackendPort, path: str) -> Iterator[FieldError]:
    if port.name and port.number:
        yield invalid(path, "", "cannot set both port name & port number")
    elif port.name:
        yield from by(names.port_name, f"{path}.service.port.name", port.name)
    elif port.number:
        for problem in names.port_number(port.number):
            yield invalid(f"{path}.service.port.number", port.number, problem)
    else:
        yield required(path, "port name or number is required")


def _named_object(group: str | None, kind: str, name: str, path: str) -> Iterator[FieldError]:
    if group is not None:
        yield from by(names.dns_subdomain, f"{path}.apiGroup", group)
    for field, value in (("kind", kind), ("name", name)):
        if not value:
            yield required(f"{path}.{field}")
        else:
            yield from by(names.path_segment, f"{path}.{field}", value)


def _parameters(reference: IngressClassParametersReference, path: str) -> Iterator[FieldError]:
    yield from _named_object(reference.api_group, reference.kind, reference.name, path)
    scope = reference.scope
    if not scope:
        yield required(f"{path}.scope")
    elif scope not in ("Cluster", "Namespace"):
        yield not_supported(f"{path}.scope", scope, ("Cluster", "Namespace"))
    elif scope == "Namespace":
        if not reference.namespace:
            yield required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
        else:
            yield from by(names.dns_label, f"{path}.namespace", reference.namespace)
    elif reference.namespace is not None:
        yield forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")


DIRECTIONS = ("Ingress", "Egress")
POLICY_PROTOCOLS = ("TCP", "UDP", "SCTP")


def validate_network_policy(policy: NetworkPolicy, old: NetworkPolicy | None) -> Iterator[FieldError]:
    """Selectors, peers, ports and directions."""
    spec = policy.spec
    yield from validate_selector(spec.pod_selector, "spec.podSelector")
    for index, came in enumerate(spec.ingress or ()):
        yield from _policy_ports(came.ports, f"spec.ingress[{index}].ports")
        yield from _peers(came.from_, f"spec.ingress[{index}].from")
    for index, goes in enumerate(spec.egress or ()):
        yield from _policy_ports(goes.ports, f"spec.egress[{index}].ports")
        yield from _peers(goes.to, f"spec.egress[{index}].to")
    for index, direction in enumerate(spec.policy_types or ()):
        if direction not in DIRECTIONS:
            yield not_supported(f"spec.policyTypes[{index}]", direction, DIRECTIONS)


def _policy_ports(ports: Sequence[NetworkPolicyPort] | None, path: str) -> Iterator[FieldError]:
    for index, each in enumerate(ports or ()):
        at = f"{path}[{index}]"
        yield from one_of(f"{at}.protocol", each.protocol, POLICY_PROTOCOLS)
        if isinstance(each.port, int) and not 1 <= each.port <= 65535:
            yield invalid(f"{at}.port", each.port, "must be between 1 and 65535, inclusive")
        if each.end_port is None:
            continue
        if not isinstance(each.port, int):
            yield forbidden(f"{at}.endPort", "may not be specified unless `port` is a number")
        elif each.end_port < each.port:
            yield invalid(f"{at}.endPort", each.end_port, "must be greater than or equal to `port`")


def _peers(peers: Sequence[NetworkPolicyPeer] | None, path: str) -> Iterator[FieldError]:
    for index, peer in enumerate(peers or ()):
        at = f"{path}[{index}]"
        yield from validate_selector(peer.pod_selector, f"{at}.podSelector")
        yield from validate_selector(peer.namespace_selector, f"{at}.namespaceSelector")
        selects = peer.pod_selector is not None or peer.namespace_selector is not None
        if peer.ip_block is not None:
            if selects:
                yield forbidden(at, "may not specify both ipBlock and another peer")
            yield from _block(peer.ip_block, f"{at}.ipBlock")
        elif not selects:
            yield required(at, "must specify a peer")


def _block(block: IPBlock, path: str) -> Iterator[FieldError]:
    for at, text in ((f"{path}.cidr", block.cidr), *((f"{path}.except", part) for part in block.except_ or ())):
        try:
            ipaddress.ip_network(text, strict=False)
        except ValueError:
            yield invalid(at, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")
