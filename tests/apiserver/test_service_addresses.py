"""Addresses and node ports of Services: given out once, kept, and refused when they are taken or out of range."""

from __future__ import annotations

import json
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.api.core.service import ServicePort, ServiceSpec
from unisono.api.kinds import SERVICES
from unisono.apiserver.backend import Backend
from unisono.apiserver.operations.addresses import CLUSTER_RANGE, NODE_PORTS, keep
from unisono.apiserver.types import WriteOptions
from unisono.errors import Invalid

PORTS = [{"port": 80}]
OPTIONS = WriteOptions()


@pytest.fixture
async def backend() -> Any:
    backend = await Backend.open()
    yield backend
    await backend.close()


async def create(backend: Backend, name: str, **spec: Any) -> dict[str, Any]:
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": PORTS, **spec}}
    done = await backend.service.create(SERVICES, "default", body, OPTIONS)
    found: dict[str, Any] = json.loads(done.object)["spec"]
    return found


async def patch(backend: Backend, name: str, **spec: Any) -> dict[str, Any]:
    done = await backend.service.patch(SERVICES, "default", name, {"spec": spec}, "merge", OPTIONS)
    found: dict[str, Any] = json.loads(done.object)["spec"]
    return found


async def test_services_get_addresses_of_their_own(backend: Backend) -> None:
    made = [await create(backend, f"s{index}") for index in range(20)]
    addresses = {spec["clusterIP"] for spec in made}
    assert len(addresses) == 20
    assert all(ip_address(address) in CLUSTER_RANGE for address in addresses)
    assert made[0]["clusterIPs"] == [made[0]["clusterIP"]]
    assert (made[0]["ipFamilies"], made[0]["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    assert "nodePort" not in made[0]["ports"][0]


@pytest.mark.parametrize(
    ("spec", "families", "policy"),
    [
        ({"clusterIP": "None", "selector": {"a": "b"}}, ["IPv4"], "SingleStack"),
        ({"clusterIP": "None"}, ["IPv4", "IPv6"], "RequireDualStack"),
    ],
)
async def test_headless_services_get_none(
    backend: Backend, spec: dict[str, Any], families: list[str], policy: str
) -> None:
    made = await create(backend, "s", **spec)
    assert (made["clusterIP"], made["clusterIPs"]) == ("None", ["None"])
    assert (made["ipFamilies"], made["ipFamilyPolicy"]) == (families, policy)


async def test_node_ports_are_given_where_the_type_opens_them(backend: Backend) -> None:
    made = await create(backend, "n", type="NodePort", ports=[{"name": "a", "port": 1}, {"name": "b", "port": 2}])
    given = [port["nodePort"] for port in made["ports"]]
    assert len(set(given)) == 2 and set(given) <= set(NODE_PORTS)
    balanced = await create(backend, "l", type="LoadBalancer", externalTrafficPolicy="Local")
    assert balanced["ports"][0]["nodePort"] not in given
    assert balanced["healthCheckNodePort"] in NODE_PORTS
    without = await create(backend, "w", type="LoadBalancer", allocateLoadBalancerNodePorts=False)
    assert "nodePort" not in without["ports"][0]
    assert "clusterIP" not in await create(backend, "e", type="ExternalName", externalName="example.com")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"clusterIP": "1.2.3.4"},
            'spec.clusterIPs: Invalid value: ["1.2.3.4"]: failed to allocate IP 1.2.3.4: the pro',
        ),
        ({"clusterIP": "10.96.0.0"}, "failed to allocate IP 10.96.0.0"),
        ({"clusterIP": "10.96.0.77"}, "failed to allocate IP 10.96.0.77: provided IP is already allocated"),
        ({"clusterIPs": ["10.96.0.78"]}, "must be empty when `clusterIP` is not specified"),
        ({"clusterIP": "10.96.0.78", "clusterIPs": ["10.96.0.79"]}, "first value must match `clusterIP`"),
        (
            {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30100}]},
            "spec.ports[0].nodePort: Invalid value: 30100: provided port is already allocated",
        ),
        (
            {"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]},
            "provided port is not in the valid range. The range of valid ports is 30000-32767",
        ),
        ({"ports": [{"port": 80, "nodePort": 30200}]}, "may not be used when `type` is 'ClusterIP'"),
        ({"ipFamilyPolicy": "RequireDualStack"}, "this cluster is not configured for dual-stack services"),
        ({"ipFamilies": ["IPv6"]}, "spec.ipFamilies[0]"),
    ],
)
async def test_what_cannot_be_had_is_refused(backend: Backend, spec: dict[str, Any], message: str) -> None:
    await create(backend, "first", type="NodePort", clusterIP="10.96.0.77", ports=[{"port": 80, "nodePort": 30100}])
    with pytest.raises(Invalid) as refused:
        await create(backend, "second", **spec)
    assert message in refused.value.message


async def test_what_a_deleted_service_had_may_be_had_again(backend: Backend) -> None:
    await create(backend, "first", clusterIP="10.96.0.77")
    await backend.client().delete(SERVICES, "first", namespace="default")
    assert (await create(backend, "second", clusterIP="10.96.0.77"))["clusterIP"] == "10.96.0.77"


async def test_updates_keep_addresses_and_drop_what_a_type_has_no_use_for(backend: Backend) -> None:
    first = await create(backend, "s", type="NodePort")
    assert await patch(backend, "s", clusterIP=None, clusterIPs=None) == first
    assert await patch(backend, "s", ports=[{"port": 80, "protocol": "TCP", "targetPort": 80}]) == first
    inner = await patch(backend, "s", type="ClusterIP")
    assert inner["clusterIP"] == first["clusterIP"]
    assert "nodePort" not in inner["ports"][0] and "externalTrafficPolicy" not in inner
    with pytest.raises(Invalid, match="may not change once set"):
        await patch(backend, "s", clusterIP="10.96.0.99")
    outer = await patch(backend, "s", type="ExternalName", externalName="example.com")
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"} & set(outer)
    assert (await patch(backend, "s", type="ClusterIP", externalName=None))["clusterIP"]


_TYPES = st.sampled_from(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"])


@given(_TYPES, _TYPES, st.lists(st.integers(1, 5), max_size=4, unique=True), st.lists(st.integers(1, 5), max_size=4))
def test_an_update_never_moves_a_node_port_to_another_port(
    before: str, after: str, old_ports: list[int], new_ports: list[int]
) -> None:
    opened = before in ("NodePort", "LoadBalancer")
    held = {port: 30000 + port for port in old_ports} if opened else {}
    old = ServiceSpec(
        type=before, ports=[ServicePort(port=port, protocol="TCP", node_port=held.get(port)) for port in old_ports]
    )
    new = ServiceSpec(type=after, ports=[ServicePort(port=port, protocol="TCP") for port in new_ports])
    keep(new, old)
    for port in new.ports or ():
        assert port.node_port in (None, held.get(port.port))
        assert port.node_port is None or after in ("NodePort", "LoadBalancer")
