"""Rules of Ingresses and their classes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from unisono.api import names
from unisono.api.core.service import (
    HTTPIngressPath,
    Ingress,
    IngressBackend,
    IngressClass,
    IngressClassParametersReference,
    IngressRule,
    IngressTLS,
    ServiceBackendPort,
)
from unisono.api.field_error import FieldError, forbidden, invalid, not_supported, required, too_long
from unisono.api.validation.meta import by

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
        yield from _port(service.port, path)
    else:
        yield invalid(path, "", "resource or service backend is required")


def _port(port: ServiceBackendPort, path: str) -> Iterator[FieldError]:
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
