"""Ingress and IngressClass (networking.k8s.io/v1)."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Object
from unisono.api.core.refs import TypedLocalObjectReference
from unisono.api.fields import Int32, Required, RequiredPort


class ServiceBackendPort(Base):
    """A Service's port, by name or by number."""

    name: str | None = None
    number: Int32 | None = None


class IngressServiceBackend(Base):
    """A Service of the same namespace."""

    name: Required = ""
    port: ServiceBackendPort = msgspec.field(default_factory=ServiceBackendPort)


class IngressBackend(Base):
    """Where requests go: a Service, or another object that the controller knows."""

    service: IngressServiceBackend | None = None
    resource: TypedLocalObjectReference | None = None


class HTTPIngressPath(Base):
    """Requests below a path."""

    path: str | None = None
    path_type: Required = ""
    backend: IngressBackend = msgspec.field(default_factory=IngressBackend)


class HTTPIngressRuleValue(Base):
    """Where the requests of a host go."""

    paths: list[HTTPIngressPath] | None = None


class IngressRule(Base):
    """A host and where its requests go; no host means all."""

    host: str | None = None
    http: HTTPIngressRuleValue | None = None


class IngressTLS(Base):
    """Hosts and the Secret with their certificate."""

    hosts: list[str] | None = None
    secret_name: str | None = None


class IngressSpec(Base):
    """How requests from outside reach Services."""

    ingress_class_name: str | None = None
    default_backend: IngressBackend | None = None
    tls: list[IngressTLS] | None = None
    rules: list[IngressRule] | None = None


class IngressPortStatus(Base):
    """State of a port of a load balancer."""

    port: RequiredPort = 0
    protocol: Required = ""
    error: str | None = None


class IngressLoadBalancerIngress(Base):
    """An address of a load balancer."""

    ip: str | None = None
    hostname: str | None = None
    ports: list[IngressPortStatus] | None = None


class IngressLoadBalancerStatus(Base):
    """Addresses of a load balancer."""

    ingress: list[IngressLoadBalancerIngress] | None = None


class IngressStatus(Base):
    """State of an Ingress."""

    load_balancer: IngressLoadBalancerStatus = msgspec.field(default_factory=IngressLoadBalancerStatus)


class Ingress(Object):
    """Rules by which requests from outside reach Services; an ingress controller follows them."""

    spec: IngressSpec = msgspec.field(default_factory=IngressSpec)
    status: IngressStatus = msgspec.field(default_factory=IngressStatus)


class IngressClassParametersReference(Base):
    """An object with further settings."""

    api_group: str | None = None
    kind: Required = ""
    name: Required = ""
    scope: str | None = None
    namespace: str | None = None


class IngressClassSpec(Base):
    """The controller of a class."""

    controller: str | None = None
    parameters: IngressClassParametersReference | None = None


class IngressClass(Object):
    """Which controller follows the Ingresses of a class."""

    spec: IngressClassSpec = msgspec.field(default_factory=IngressClassSpec)
