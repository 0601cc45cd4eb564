"""What joining writes: rights in the member, and objects on the hub."""

from __future__ import annotations

import base64

import pytest
import yaml

from support.memory import MemoryClient
from unisono.api.annotations import PRICES
from unisono.api.base import ObjectMeta
from unisono.api.groups.fleet import AttachedCluster
from unisono.api.kind_families import ATTACHED_CLUSTERS
from unisono.cli.fleet.members import _as_joined
from unisono.errors import ConfigError
from unisono.fleet.members.joining import account, fleet_with, hub_kubeconfig, hub_objects, member_config, rules
from unisono.kube.kubeconfig import ClusterConfig


def test_the_kubeconfig_that_joining_makes_is_one_that_a_hub_accepts():
    text = hub_kubeconfig(ClusterConfig("https://10.0.0.1:6443", ca=b"pem", tls_server_name="api"), "secret")
    config = member_config({"kubeconfig": base64.b64encode(text.encode()).decode()}, "kubeconfig", "Secret a/b")
    assert (config.server, config.ca, config.token, config.tls_server_name) == (
        "https://10.0.0.1:6443",
        b"pem",
        "secret",
        "api",
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (ClusterConfig("http://10.0.0.1"), "must be https://"),
        (ClusterConfig("https://10.0.0.1", insecure=True), "trusts any certificate"),
    ],
)
def test_members_that_a_hub_could_not_trust_are_refused(config, message):
    with pytest.raises(ConfigError, match=message):
        hub_kubeconfig(config, "t")


def test_the_account_has_few_rights():
    role = next(each for each in account() if each["kind"] == "ClusterRole")
    assert role["rules"] == rules()
    verbs = {(resource, verb) for rule in rules() for resource in rule["resources"] for verb in rule["verbs"]}
    assert ("pods", "create") not in verbs
    assert ("secrets", "get") not in verbs
    assert ("jobs", "create") in verbs
    assert {verb for resource, verb in verbs if resource == "commands"} == {"create"}
    assert not any("*" in (*rule["verbs"], *rule["resources"], *rule["apiGroups"]) for rule in rules())


def test_objects_of_a_member_on_its_hub():
    objects = hub_objects("gpu1", "fleets", "text", labels={"tier": "spot"}, region="eu", prices="cpu=0.1")
    namespace, secret, cluster = objects
    assert (namespace["metadata"]["name"], secret["metadata"]["name"]) == ("fleets", "gpu1-kubeconfig")
    assert base64.b64decode(secret["data"]["kubeconfig"]) == b"text"
    assert cluster["metadata"]["labels"] == {"tier": "spot", "topology.kubernetes.io/region": "eu"}
    assert cluster["metadata"]["annotations"] == {PRICES: "cpu=0.1"}
    assert cluster["spec"] == {"kubeconfig": {"name": "gpu1-kubeconfig", "key": "kubeconfig"}}
    assert yaml.safe_load(yaml.safe_dump(objects)) == objects
    assert [each["name"] for each in fleet_with("f", "fleets", ["a", "b"])["spec"]["clusters"]] == ["a", "b"]


async def test_a_member_that_joins_again_keeps_its_labels_and_prices():
    hub, labels = MemoryClient(), {"topology.kubernetes.io/region": "eu", "unisono.io/network": "mesh"}
    assert await _as_joined(hub, "gpu1", "fleets") == ({}, "")
    meta = ObjectMeta(name="gpu1", namespace="fleets", labels=labels, annotations={PRICES: "cpu=1"})
    hub.put(ATTACHED_CLUSTERS, AttachedCluster(metadata=meta))
    assert await _as_joined(hub, "gpu1", "fleets") == (labels, "cpu=1")
