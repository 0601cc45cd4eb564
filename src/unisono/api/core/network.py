"""NetworkPolicy (networking.k8s.io/v1)."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Object
from unisono.api.fields import Int32, IntOrString, Required
from unisono.api.meta import LabelSelector


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
