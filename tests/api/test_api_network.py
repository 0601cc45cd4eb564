"""NetworkPolicies: what they say when little is written, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.api.decode import decode
from unisono.api.defaulting import apply_defaults
from unisono.api.kinds import NETWORK_POLICIES
from unisono.api.validation import validate


def policy(**spec: Any) -> Any:
    value = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"podSelector": {}, **spec}}
    decoded = decode(NETWORK_POLICIES, value)
    assert not decoded.unknown_fields
    apply_defaults(NETWORK_POLICIES, decoded.obj)
    return decoded.obj


@pytest.mark.parametrize(
    ("spec", "directions"),
    [
        ({}, ["Ingress"]),
        ({"egress": [{"to": [{"podSelector": {}}]}]}, ["Ingress", "Egress"]),
        ({"policyTypes": ["Egress"]}, ["Egress"]),
    ],
)
def test_directions(spec: dict[str, Any], directions: list[str]) -> None:
    assert policy(**spec).spec.policy_types == directions


def test_a_policy_with_everything_is_valid() -> None:
    block = {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}
    ports = [{"port": "http"}, {"protocol": "UDP", "port": 53, "endPort": 60}]
    obj = policy(ingress=[{"from": [block, {"namespaceSelector": {}, "podSelector": {}}], "ports": ports}])
    assert validate(NETWORK_POLICIES, obj) == []
    assert [port.protocol for port in obj.spec.ingress[0].ports] == ["TCP", "UDP"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"policyTypes": ["Both"]}, 'spec.policyTypes[0]: Unsupported value: "Both"'),
        ({"ingress": [{"from": [{}]}]}, "spec.ingress[0].from[0]: Required value: must specify a peer"),
        ({"egress": [{"to": [{"ipBlock": {"cidr": "x"}}]}]}, "spec.egress[0].to[0].ipBlock.cidr: Invalid value"),
        (
            {"ingress": [{"from": [{"podSelector": {}, "ipBlock": {"cidr": "::/0"}}]}]},
            "spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer",
        ),
        ({"ingress": [{"ports": [{"port": 0}]}]}, "must be between 1 and 65535"),
        ({"ingress": [{"ports": [{"port": 9, "endPort": 8}]}]}, "must be greater than or equal to `port`"),
        ({"ingress": [{"ports": [{"port": "x", "endPort": 8}]}]}, "may not be specified unless `port` is a number"),
        ({"ingress": [{"ports": [{"protocol": "IP"}]}]}, 'spec.ingress[0].ports[0].protocol: Unsupported value: "IP"'),
    ],
)
def test_what_is_refused(spec: dict[str, Any], message: str) -> None:
    (error,) = validate(NETWORK_POLICIES, policy(**spec))
    assert message in error.message()
