"""Rules of network policies."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from unisono.api.core.service import IPBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort
from unisono.api.field_error import FieldError, forbidden, invalid, not_supported, required
from unisono.api.validation.meta import one_of, validate_selector

DIRECTIONS = ("Ingress", "Egress")
PROTOCOLS = ("TCP", "UDP", "SCTP")


def validate_network_policy(policy: NetworkPolicy, old: NetworkPolicy | None) -> Iterator[FieldError]:
    """Selectors, peers, ports and directions."""
    spec = policy.spec
    yield from validate_selector(spec.pod_selector, "spec.podSelector")
    for index, came in enumerate(spec.ingress or ()):
        yield from _ports(came.ports, f"spec.ingress[{index}].ports")
        yield from _peers(came.from_, f"spec.ingress[{index}].from")
    for index, goes in enumerate(spec.egress or ()):
        yield from _ports(goes.ports, f"spec.egress[{index}].ports")
        yield from _peers(goes.to, f"spec.egress[{index}].to")
    for index, direction in enumerate(spec.policy_types or ()):
        if direction not in DIRECTIONS:
            yield not_supported(f"spec.policyTypes[{index}]", direction, DIRECTIONS)


def _ports(ports: Sequence[NetworkPolicyPort] | None, path: str) -> Iterator[FieldError]:
    for index, each in enumerate(ports or ()):
        at = f"{path}[{index}]"
        yield from one_of(f"{at}.protocol", each.protocol, PROTOCOLS)
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
