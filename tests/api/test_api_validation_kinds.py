"""Queues, pod groups and the other kinds: rules of one object alone."""

import copy
from typing import Any

import pytest

from unisono.api import kinds
from unisono.api.decode import decode
from unisono.api.defaulting import apply_defaults
from unisono.api.kind import Kind
from unisono.api.validation import validate


def make(kind: Kind[Any], value: dict[str, Any]) -> Any:
    decoded = decode(kind, {"metadata": {"name": "x"}} | value)
    assert (decoded.unknown_fields, decoded.type_errors) == ([], [])
    apply_defaults(kind, decoded.obj)
    return decoded.obj


def messages(kind: Kind[Any], value: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    before = None if old is None else make(kind, old)
    return [error.message() for error in validate(kind, make(kind, value), before)]


def queue(name: str = "q", annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}


def tree(path: str, weights: str) -> dict[str, str]:
    return {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}


@pytest.mark.parametrize(
    "value",
    [
        queue(),
        queue(weight=65535, priority=0, dequeueStrategy="fifo"),
        queue(deserved={"cpu": 1}),
        queue(deserved={"cpu": 2, "memory": 1}, capability={"cpu": 2}, guarantee={"resource": {"cpu": 1}}),
        # A guarantee within the capability and without deserved, as queues of the proportion plug-in are written.
        queue(capability={"cpu": 100}, guaranteed={"cpu": 20}),
        queue(guarantee={"resource": {"cpu": 1}}),
        queue(annotations=tree("root/a/b", "1/2/0.5")),
        queue("root"),
    ],
)
def test_queues_accepted(value: dict[str, Any]) -> None:
    assert messages(kinds.QUEUES, value) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (queue(weight=-1), "spec.weight: Invalid value: -1: spec.weight in body should be greater than or equal to 1"),
        (
            queue(weight=65536),
            "spec.weight: Invalid value: 65536: spec.weight in body should be less than or equal to 65535",
        ),
        (
            queue(dequeueStrategy="lifo"),
            'spec.dequeueStrategy: Unsupported value: "lifo": supported values: "fifo", "traverse"',
        ),
        (queue(parent="Not OK"), 'spec.parent: Invalid value: "Not OK": spec.parent in body should match'),
        (queue(parent="q"), 'spec.parent: Invalid value: "q": queue q cannot use itself as parent'),
        (
            queue(capability={"cpu": "-1"}),
            'spec.capability[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        ),
        (queue(capability={"a b": 1}), 'spec.capability[a b]: Invalid value: "a b": name part must consist of'),
        (
            queue(deserved={"cpu": 2}, capability={"cpu": 1}),
            'spec.deserved[cpu]: Invalid value: "2": deserved[cpu]=2 must be <= capability[cpu]=1',
        ),
        (
            queue(deserved={"cpu": 1}, guarantee={"resource": {"cpu": 2}}),
            'spec.deserved[cpu]: Invalid value: "1": deserved[cpu]=1 must be >= guarantee[cpu]=2',
        ),
        (
            queue(deserved={"memory": 1}, guarantee={"resource": {"cpu": 2}}),
            'spec.deserved[cpu]: Invalid value: "": deserved[cpu] must be >= guarantee[cpu]=2',
        ),
        (
            queue(capability={"cpu": 1}, guarantee={"resource": {"cpu": 2}}),
            'spec.capability[cpu]: Invalid value: "1": capability[cpu]=1 must be >= guarantee[cpu]=2',
        ),
        (
            queue(annotations=tree("root/a", "1")),
            "volcano.sh/hierarchy must have the same length with volcano.sh/hierarchy-weights",
        ),
        (queue(annotations=tree("root/a", "1/-1")), "-1 in the 1/-1 must be larger than 0"),
        (queue(annotations=tree("root/a", "1/")), "an empty part in the 1/ is invalid number"),
        (queue(annotations={"volcano.sh/hierarchy": "root/a"}), "needs volcano.sh/hierarchy-weights beside it"),
        (queue(annotations=tree("root/a", "1/b")), "b in the 1/b is invalid number"),
        (
            queue() | {"status": {"state": "Closing"}},
            'status.state: Unsupported value: "Closing": supported values: "Open", "Closed"',
        ),
        (
            queue() | {"status": {"state": "Ajar"}},
            'status.state: Unsupported value: "Ajar": supported values: "Open", "Closed"',
        ),
    ],
)
def test_queues_refused(value: dict[str, Any], expected: str) -> None:
    found = messages(kinds.QUEUES, value)
    assert any(expected in message for message in found), found


def test_the_controller_may_write_any_state() -> None:
    assert messages(kinds.QUEUES, queue() | {"status": {"state": "Closing"}}, queue()) == []


def test_the_root_queue_keeps_its_resources() -> None:
    (message,) = messages(kinds.QUEUES, queue("root", capability={"cpu": 1}), queue("root"))
    assert message == (
        "spec: Forbidden: root queue's resource attributes (capability, deserved, guarantee) cannot be modified"
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"minMember": -1},
            "spec.minMember: Invalid value: -1: spec.minMember in body should be greater than or equal to 0",
        ),
        ({"minTaskMember": {"a": -1}}, "spec.minTaskMember[a]: Invalid value: -1: must be greater than or equal to 0"),
        (
            {"minResources": {"cpu": "-1"}},
            'spec.minResources[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        ),
        ({"queue": "Q"}, 'spec.queue: Invalid value: "Q": spec.queue in body should match \'^'),
        (
            {"networkTopology": {"highestTierAllowed": 1, "highestTierName": "a"}},
            "spec.networkTopology: Invalid value: \"a\": must not specify 'highestTierAllowed' and 'highestTierName'",
        ),
        (
            {"subGroupPolicy": [{"name": "s", "networkTopology": {"highestTierAllowed": 1, "highestTierName": "a"}}]},
            "spec.subGroupPolicy[0].networkTopology: Invalid value: \"a\": in subGroupPolicy 's': must not specify",
        ),
        ({"subGroupPolicy": [{"subGroupSize": 0}]}, "spec.subGroupPolicy[0].subGroupSize: Invalid value: 0"),
    ],
)
def test_pod_groups_refused(spec: dict[str, Any], expected: str) -> None:
    found = messages(kinds.POD_GROUPS, {"spec": spec})
    assert any(message.startswith(expected) for message in found), found


def test_pod_groups_accept_quota_style_names() -> None:
    resources = {"cpu": 1, "requests.cpu": 1, "limits.memory": "1Gi", "count/pods": 3, "nvidia.com/gpu": 1}
    assert messages(kinds.POD_GROUPS, {"spec": {"minMember": 3, "minResources": resources}}) == []


def service(**spec: Any) -> dict[str, Any]:
    return {"spec": {"ports": [{"port": 80}], **spec}}


CLAIM = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (
            kinds.NODES,
            {"spec": {"taints": [{"key": "a", "effect": "No"}]}},
            'spec.taints[0].effect: Unsupported value: "No"',
        ),
        (kinds.NODES, {"spec": {"taints": [{"key": "a"}]}}, "spec.taints[0].effect: Required value"),
        (
            kinds.NODES,
            {
                "spec": {
                    "taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule", "value": "b"}]
                }
            },
            'spec.taints[1]: Duplicate value: {"effect":"NoSchedule","key":"a","value":"b"}',
        ),
        (kinds.NODES, {"status": {"capacity": {"cpu": "-1"}}}, 'status.capacity[cpu]: Invalid value: "-1"'),
        (
            kinds.NAMESPACES,
            {"metadata": {"name": "a.b"}},
            'metadata.name: Invalid value: "a.b": a lowercase RFC 1123 label',
        ),
        (
            kinds.NAMESPACES,
            {"metadata": {"name": "a", "namespace": "b"}},
            "metadata.namespace: Forbidden: not allowed on this type",
        ),
        (kinds.SERVICES, service(ports=None), "spec.ports: Required value"),
        (
            kinds.SERVICES,
            {"metadata": {"name": "1a"}} | service(),
            'metadata.name: Invalid value: "1a": a DNS-1035 label',
        ),
        (
            kinds.SERVICES,
            service(ports=[{"port": 0}]),
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535",
        ),
        (kinds.SERVICES, service(ports=[{"port": 1}, {"port": 2}]), "spec.ports[0].name: Required value"),
        (
            kinds.SERVICES,
            service(ports=[{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]),
            'spec.ports[1]: Duplicate value: {"port":1,"protocol":"TCP"}',
        ),
        (kinds.SERVICES, service(type="Magic"), 'spec.type: Unsupported value: "Magic"'),
        (
            kinds.SERVICES,
            service(clusterIP="nowhere"),
            'spec.clusterIPs[0]: Invalid value: "nowhere": must be a valid IP',
        ),
        (kinds.SERVICES, {"spec": {"type": "ExternalName"}}, "spec.externalName: Required value"),
        (kinds.SERVICES, service(ports=[{"port": 1, "targetPort": "a--b"}]), "must not contain consecutive hyphens"),
        (
            kinds.CONFIG_MAPS,
            {"data": {"a/b": ""}},
            'data[a/b]: Invalid value: "a/b": a valid config key must consist of',
        ),
        (kinds.CONFIG_MAPS, {"data": {"a": "x" * 2**20 + "x"}}, "Too long: may not be more than 1048576 bytes"),
        (kinds.CONFIG_MAPS, {"binaryData": {"a": "?"}}, 'binaryData[a]: Invalid value: "?": illegal base64 data'),
        (kinds.CONFIG_MAPS, {"data": {"a": ""}, "binaryData": {"a": ""}}, "duplicate of key present in binaryData"),
        (kinds.SECRETS, {"data": {"a": "?"}}, 'data[a]: Invalid value: "?": illegal base64 data'),
        (kinds.SECRETS, {"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}, "data[tls.key]: Required value"),
        (kinds.SECRETS, {"type": "kubernetes.io/basic-auth"}, "data[username]: Required value"),
        (
            kinds.PRIORITY_CLASSES,
            {"value": 2 * 10**9},
            "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
        ),
        (
            kinds.PRIORITY_CLASSES,
            {"metadata": {"name": "system-x"}},
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only",
        ),
        (kinds.PRIORITY_CLASSES, {"preemptionPolicy": "Sometimes"}, 'preemptionPolicy: Unsupported value: "Sometimes"'),
        (
            kinds.RESOURCE_QUOTAS,
            {"spec": {"hard": {"cpu": "-1"}}},
            'spec.hard[cpu]: Invalid value: "-1": must be greater',
        ),
        (kinds.RESOURCE_QUOTAS, {"spec": {"hard": {"a b": "1"}}}, 'spec.hard[a b]: Invalid value: "a b"'),
        (kinds.RESOURCE_QUOTAS, {"spec": {"scopes": ["Some"]}}, "unsupported scope"),
        (
            kinds.POD_DISRUPTION_BUDGETS,
            {"spec": {"minAvailable": 1, "maxUnavailable": 1}},
            "minAvailable and maxUnavailable cannot be both set",
        ),
        (kinds.POD_DISRUPTION_BUDGETS, {"spec": {"minAvailable": -1}}, "spec.minAvailable: Invalid value: -1: must be"),
        (kinds.POD_DISRUPTION_BUDGETS, {"spec": {"maxUnavailable": "1"}}, "a valid percent string must be a numeric"),
        (kinds.POD_DISRUPTION_BUDGETS, {"spec": {"minAvailable": "101%"}}, "must not be greater than 100%"),
        (
            kinds.POD_DISRUPTION_BUDGETS,
            {"spec": {"unhealthyPodEvictionPolicy": "Never"}},
            'spec.unhealthyPodEvictionPolicy: Unsupported value: "Never"',
        ),
        (
            kinds.LEASES,
            {"spec": {"leaseDurationSeconds": 0}},
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        ),
        (kinds.LEASES, {"spec": {"leaseTransitions": -1}}, "spec.leaseTransitions: Invalid value: -1"),
        (kinds.PERSISTENT_VOLUME_CLAIMS, {}, "spec.accessModes: Required value: at least 1 access mode is required"),
        (
            kinds.PERSISTENT_VOLUME_CLAIMS,
            {"spec": {"accessModes": ["Any"]}},
            'spec.accessModes: Unsupported value: "Any"',
        ),
        (
            kinds.PERSISTENT_VOLUME_CLAIMS,
            {"spec": {"accessModes": ["ReadWriteOnce"]}},
            "spec.resources[storage]: Required value",
        ),
        (
            kinds.EVENTS,
            {"metadata": {"name": "e", "namespace": "a"}, "involvedObject": {"namespace": "b"}},
            'involvedObject.namespace: Invalid value: "b": does not match event.namespace',
        ),
        (
            kinds.EVENTS,
            {"metadata": {"name": "e", "namespace": "a"}, "involvedObject": {"kind": "Node", "name": "n"}},
            'involvedObject.namespace: Invalid value: "": does not match event.namespace',
        ),
        (kinds.SERVICE_ACCOUNTS, {"imagePullSecrets": [{}]}, "imagePullSecrets[0].name: Required value"),
        (kinds.CUSTOM_RESOURCE_DEFINITIONS, {}, "spec.group: Required value"),
        (
            kinds.CUSTOM_RESOURCE_DEFINITIONS,
            {"spec": {"group": "a.io", "names": {"plural": "xs", "kind": "X"}, "scope": "Cluster"}},
            'metadata.name: Invalid value: "x": must be spec.names.plural+"."+spec.group',
        ),
    ],
)
def test_refused(kind: Kind[Any], value: dict[str, Any], expected: str) -> None:
    found = messages(kind, value)
    assert any(expected in message for message in found), found


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (kinds.SERVICES, service()),
        (kinds.SERVICES, {"spec": {"clusterIP": "None"}}),
        (kinds.SERVICES, {"spec": {"type": "ExternalName", "externalName": "example.com."}}),
        (kinds.PERSISTENT_VOLUME_CLAIMS, CLAIM),
        (kinds.PRIORITY_CLASSES, {"metadata": {"name": "system-node-critical"}, "value": 2_000_001_000}),
        (kinds.SECRETS, {"type": "kubernetes.io/basic-auth", "stringData": {"password": "p"}}),
        (kinds.CONFIG_MAPS, {}),
        (
            kinds.RESOURCE_QUOTAS,
            {"spec": {"hard": {"requests.nvidia.com/gpu": 4, "count/pods": 9}, "scopes": ["BestEffort"]}},
        ),
        (kinds.POD_DISRUPTION_BUDGETS, {"spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}}}),
        (kinds.POD_DISRUPTION_BUDGETS, {"spec": {"maxUnavailable": 0}}),
        (kinds.LEASES, {"spec": {"holderIdentity": "a", "renewTime": "2026-01-01T00:00:00.000000Z"}}),
        (
            kinds.COMMANDS,
            {"action": "AbortJob", "target": {"apiVersion": "a/v1", "kind": "Job", "name": "j", "uid": "u"}},
        ),
    ],
)
def test_accepted(kind: Kind[Any], value: dict[str, Any]) -> None:
    assert messages(kind, value) == []


@pytest.mark.parametrize(
    ("kind", "new", "old", "expected"),
    [
        (
            kinds.CONFIG_MAPS,
            {"immutable": True, "data": {"a": "2"}},
            {"immutable": True, "data": {"a": "1"}},
            "data: Forbidden: field is immutable when `immutable` is set",
        ),
        (
            kinds.CONFIG_MAPS,
            {"data": {"a": "1"}},
            {"immutable": True, "data": {"a": "1"}},
            "immutable: Forbidden: field is immutable",
        ),
        (kinds.SECRETS, {"type": "b"}, {"type": "a"}, 'type: Invalid value: "b": field is immutable'),
        (
            kinds.RESOURCE_QUOTAS,
            {"spec": {"scopes": ["BestEffort"]}},
            {"spec": {"scopes": ["Terminating"]}},
            'spec.scopes: Invalid value: ["BestEffort"]: field is immutable',
        ),
        (kinds.PRIORITY_CLASSES, {"value": 2}, {"value": 1}, "value: Forbidden: may not be changed in an update."),
        (
            kinds.PRIORITY_CLASSES,
            {"preemptionPolicy": "Never"},
            {},
            'preemptionPolicy: Invalid value: "Never": field is immutable',
        ),
        (
            kinds.SERVICES,
            service(clusterIP="10.0.0.2"),
            service(clusterIP="10.0.0.1"),
            'spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set',
        ),
        (
            kinds.NODES,
            {"spec": {"providerID": "b"}},
            {"spec": {"providerID": "a"}},
            "spec.providerID: Forbidden: node updates may not change providerID",
        ),
        (
            kinds.PERSISTENT_VOLUME_CLAIMS,
            {"spec": CLAIM["spec"] | {"storageClassName": "b"}},
            {"spec": CLAIM["spec"] | {"storageClassName": "a"}},
            "spec: Forbidden: spec is immutable after creation",
        ),
    ],
)
def test_refused_updates(kind: Kind[Any], new: dict[str, Any], old: dict[str, Any], expected: str) -> None:
    found = messages(kind, new, old)
    assert any(message.startswith(expected) for message in found), found


def test_a_claim_may_be_bound_and_then_grow() -> None:
    bound = copy.deepcopy(CLAIM)
    bound["spec"]["volumeName"] = "pv-1"
    assert messages(kinds.PERSISTENT_VOLUME_CLAIMS, bound, CLAIM) == []
    bound["status"] = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    grown = copy.deepcopy(bound)
    grown["spec"]["resources"]["requests"]["storage"] = "2Gi"
    assert messages(kinds.PERSISTENT_VOLUME_CLAIMS, grown, bound) == []


def test_a_claim_gets_its_class_once() -> None:
    classed = copy.deepcopy(CLAIM)
    classed["spec"]["storageClassName"] = "a"
    assert messages(kinds.PERSISTENT_VOLUME_CLAIMS, classed, CLAIM) == []
    assert messages(kinds.PERSISTENT_VOLUME_CLAIMS, CLAIM, classed) != []


def test_each_error_once() -> None:
    value = {"metadata": {"name": "x", "finalizers": ["a b", "a b"]}}
    assert len(messages(kinds.CONFIG_MAPS, value)) == 1


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"handler": "runsc"}, None),
        ({"handler": ""}, 'handler: Invalid value: "": a lowercase RFC 1123 label'),
        ({"handler": "A"}, 'handler: Invalid value: "A": a lowercase RFC 1123 label'),
        ({"overhead": {"podFixed": {"cpu": "-1"}}}, 'overhead.limits[cpu]: Invalid value: "-1"'),
        ({"scheduling": {"nodeSelector": {"a b": "c"}}}, 'scheduling.nodeSelector: Invalid value: "a b"'),
        ({"scheduling": {"tolerations": [{"key": "a", "operator": "In"}]}}, "scheduling.tolerations[0].operator"),
    ],
)
def test_runtime_classes(fields: dict[str, Any], expected: str | None) -> None:
    found = messages(kinds.RUNTIME_CLASSES, {"handler": "kata"} | fields)
    assert found == [] if expected is None else any(one.startswith(expected) for one in found), found
