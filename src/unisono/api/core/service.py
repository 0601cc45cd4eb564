"""Service, NetworkPolicy, Ingress and IngressClass (networking.k8s.io/v1)."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Condition, Int32, IntOrString, LabelSelector, Object, Required, RequiredPort
from unisono.api.core.refs import SessionAffinityConfig, TypedLocalObjectReference


class ServicePort(Base):
    """A port of a Service and where it leads."""

    name: str | None = None
    protocol: str | None = None
    app_protocol: str | None = None
    port: RequiredPort = 0
    target_port: IntOrString | None = None
    node_port: Int32 | None = None


class ServiceSpec(Base):
    """Which pods a Service stands for, and by which addresses."""

    ports: list[ServicePort] | None = None
    selector: dict[str, str] | None = None
    cluster_ip: str | None = msgspec.field(default=None, name="clusterIP")
    cluster_ips: list[str] | None = msgspec.field(default=None, name="clusterIPs")
    type: str | None = None
    external_ips: list[str] | None = msgspec.field(default=None, name="externalIPs")
    session_affinity: str | None = None
    load_balancer_ip: str | None = msgspec.field(default=None, name="loadBalancerIP")
    load_balancer_source_ranges: list[str] | None = None
    external_name: str | None = None
    external_traffic_policy: str | None = None
    health_check_node_port: Int32 | None = None
    publish_not_ready_addresses: bool | None = None
    session_affinity_config: SessionAffinityConfig | None = None
    ip_families: list[str] | None = None
    ip_family_policy: str | None = None
    allocate_load_balancer_node_ports: bool | None = None
    load_balancer_class: str | None = None
    internal_traffic_policy: str | None = None
    traffic_distribution: str | None = None


class PortStatus(Base):
    """State of a port of a load balancer."""

    port: RequiredPort = 0
    protocol: str = ""
    error: str | None = None


class LoadBalancerIngress(Base):
    """An address of a load balancer."""

    ip: str | None = None
    hostname: str | None = None
    ip_mode: str | None = None
    ports: list[PortStatus] | None = None


class LoadBalancerStatus(Base):
    """Addresses of a load balancer."""

    ingress: list[LoadBalancerIngress] | None = None


class ServiceStatus(Base):
    """State of a Service."""

    load_balancer: LoadBalancerStatus = msgspec.field(default_factory=LoadBalancerStatus)
    conditions: list[Condition] | None = None


class Service(Object):
    """A name for a set of pods."""

    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)
    status: ServiceStatus = msgspec.field(default_factory=ServiceStatus)


class IPBlock(Base):
    """A range of addresses, with ranges that are left out."""

    cidr: Required = ""
    except_: list[str] | None = msgspec.field(default=None, name="except")


class NetworkPolicyPort(Base):
    """A port, or the ports up to ``endPort``."""

    protocol: str | None = None
    port: IntOrString | None = None
    end_port: Int32 | None = None


class NetworkPolicyPeer(Base):
    """Pods or addresses at the other end; a namespace selector alone means all pods of those namespaces."""

    pod_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    ip_block: IPBlock | None = None


class NetworkPolicyIngressRule(Base):
    """Who may come in, and where to."""

    ports: list[NetworkPolicyPort] | None = None
    from_: list[NetworkPolicyPeer] | None = msgspec.field(default=None, name="from")


class NetworkPolicyEgressRule(Base):
    """Where one may go."""

    ports: list[NetworkPolicyPort] | None = None
    to: list[NetworkPolicyPeer] | None = None


class NetworkPolicySpec(Base):
    """What the selected pods may talk to.

    Attributes:
        pod_selector: the pods; an empty selector means all of the namespace.
        ingress: who may reach them.
        egress: whom they may reach.
        policy_types: Ingress, Egress: the directions that this policy restricts.
    """

    pod_selector: LabelSelector | None = None
    ingress: list[NetworkPolicyIngressRule] | None = None
    egress: list[NetworkPolicyEgressRule] | None = None
    policy_types: list[str] | None = None


class NetworkPolicy(Object):
    """Which connections pods accept; the cluster's network enforces it."""

    spec: NetworkPolicySpec = msgspec.field(default_factory=NetworkPolicySpec)


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
