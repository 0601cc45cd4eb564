"""Service."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Object
from unisono.api.core.refs import SessionAffinityConfig
from unisono.api.fields import Int32, IntOrString, RequiredPort
from unisono.api.meta import Condition


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
