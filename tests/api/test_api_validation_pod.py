"""Pods: Kubernetes' rules in Kubernetes' words."""

# ruff: noqa: E501 - a case and its message stand on one line, so that both can be searched for

import copy
from typing import Any

import pytest

from unisono.api import kinds
from unisono.api.core import Pod, Toleration
from unisono.api.decode import decode
from unisono.api.defaulting import apply_defaults
from unisono.api.validation import validate

RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": [0]}}


def box(**more: Any) -> dict[str, Any]:
    return {"name": "c", "image": "busybox", **more}


def make(meta: dict[str, Any] | None = None, **spec: Any) -> Pod:
    value = {"metadata": {"name": "p", "namespace": "default"} | (meta or {}), "spec": {"containers": [box()], **spec}}
    decoded = decode(kinds.PODS, value)
    assert (decoded.unknown_fields, decoded.type_errors) == ([], [])
    apply_defaults(kinds.PODS, decoded.obj)
    return decoded.obj


def messages(pod: Pod, old: Pod | None = None) -> list[str]:
    return [error.message() for error in validate(kinds.PODS, pod, old)]


def affinity(**term: Any) -> dict[str, Any]:
    required = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"containers": [box(ports=[{"containerPort": 80, "name": "http"}, {"containerPort": 80, "protocol": "UDP"}])]},
        {"containers": [box(resources={"requests": {"cpu": 1}, "limits": {"cpu": "1.5", "nvidia.com/gpu": 2}})]},
        {
            "volumes": [{"name": "v", "configMap": {"name": "c", "items": [{"key": "k", "path": "a/b"}]}}],
            "containers": [box(volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "a"}])],
        },
        {"affinity": affinity(key="zone", operator="In", values=["a"]), "tolerations": [{"operator": "Exists"}]},
        {"topologySpreadConstraints": [SPREAD | {"minDomains": 2, "labelSelector": {"matchLabels": {"a": "b"}}}]},
        {"initContainers": [box(name="i", restartPolicy="Always", readinessProbe={"exec": {"command": ["true"]}})]},
        {"schedulingGates": [{"name": "a.io/gate"}], "hostname": "h", "subdomain": "s", "nodeSelector": {"a/b": "c"}},
        # A sidecar whose end starts all containers again.
        {"initContainers": [box(name="i", restartPolicy="Always", restartPolicyRules=[RULE])]},
    ],
)
def test_accepted(spec: dict[str, Any]) -> None:
    assert messages(make(**spec)) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": []}, "spec.containers: Required value"),
        ({"containers": [{"name": "c"}]}, "spec.containers[0].image: Required value"),
        ({"containers": [{"image": "i"}]}, "spec.containers[0].name: Required value"),
        ({"containers": [box(name="C")]}, 'spec.containers[0].name: Invalid value: "C": a lowercase RFC 1123 label'),
        ({"containers": [box(), box()]}, 'spec.containers[1].name: Duplicate value: "c"'),
        ({"initContainers": [box()]}, 'spec.containers[0].name: Duplicate value: "c"'),
        ({"containers": [box(image=" i")]}, "must not have leading or trailing whitespace"),
        (
            {"containers": [box(imagePullPolicy="Sometimes")]},
            'spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", '
            '"Never"',
        ),
        ({"containers": [box(ports=[{}])]}, "spec.containers[0].ports[0].containerPort: Required value"),
        (
            {"containers": [box(ports=[{"containerPort": 70000}])]},
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            {"containers": [box(ports=[{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}])]},
            'spec.containers[0].ports[1].name: Duplicate value: "a"',
        ),
        (
            {
                "containers": [
                    box(ports=[{"containerPort": 1, "hostPort": 9}]),
                    box(name="d", ports=[{"containerPort": 2, "hostPort": 9}]),
                ]
            },
            'spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//9"',
        ),
        (
            {"hostNetwork": True, "containers": [box(ports=[{"containerPort": 1, "hostPort": 9}])]},
            "spec.containers[0].ports[0].containerPort: Invalid value: 1: must match `hostPort` when `hostNetwork` is true",
        ),
        (
            {"containers": [box(ports=[{"containerPort": 1, "protocol": "HTTP"}])]},
            'spec.containers[0].ports[0].protocol: Unsupported value: "HTTP": supported values: "SCTP", "TCP", "UDP"',
        ),
        ({"containers": [box(env=[{"value": "x"}])]}, "spec.containers[0].env[0].name: Required value"),
        (
            {"containers": [box(env=[{"name": "A=B"}])]},
            'spec.containers[0].env[0].name: Invalid value: "A=B": a valid environment variable name',
        ),
        (
            {
                "containers": [
                    box(env=[{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}])
                ]
            },
            'spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty',
        ),
        (
            {"containers": [box(env=[{"name": "A", "valueFrom": {}}])]},
            'spec.containers[0].env[0].valueFrom: Invalid value: "": must specify one of:',
        ),
        (
            {"containers": [box(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.what"}}}])]},
            'spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "spec.what": supported values:',
        ),
        (
            {"containers": [box(env=[{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "cpu"}}}])]},
            'spec.containers[0].env[0].valueFrom.resourceFieldRef.resource: Unsupported value: "cpu"',
        ),
        (
            {"containers": [box(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}])]},
            "spec.containers[0].env[0].valueFrom.secretKeyRef.key: Required value",
        ),
        ({"containers": [box(envFrom=[{}])]}, 'spec.containers[0].envFrom[0]: Invalid value: "": must specify one of:'),
        (
            {"containers": [box(volumeMounts=[{"name": "v", "mountPath": "/v"}])]},
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
        ),
        (
            {
                "volumes": [{"name": "v"}],
                "containers": [box(volumeMounts=[{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/v"}])],
            },
            'spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/v": must be unique',
        ),
        (
            {
                "volumes": [{"name": "v"}],
                "containers": [box(volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "../a"}])],
            },
            "spec.containers[0].volumeMounts[0].subPath: Invalid value: \"../a\": must not contain '..'",
        ),
        # resources
        (
            {"containers": [box(resources={"requests": {"cpu": "-1"}})]},
            'spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        ),
        (
            {"containers": [box(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})]},
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
        (
            {"containers": [box(resources={"limits": {"nvidia.com/gpu": "500m"}})]},
            'spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
        ),
        (
            {"containers": [box(resources={"requests": {"nvidia.com/gpu": 1}})]},
            "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
        ),
        (
            {"containers": [box(resources={"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}})]},
            'spec.containers[0].resources.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2',
        ),
        (
            {"containers": [box(resources={"limits": {"gpu": 1}})]},
            'spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": must be a standard resource for containers',
        ),
        (
            {"containers": [box(resources={"limits": {"hugepages-2Mi": "2Mi"}})]},
            "spec.containers[0].resources: Forbidden: HugePages require cpu or memory",
        ),
        # volumes
        ({"volumes": [{}]}, "spec.volumes[0].name: Required value"),
        ({"volumes": [{"name": "v"}, {"name": "v"}]}, 'spec.volumes[1].name: Duplicate value: "v"'),
        (
            {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/a"}}]},
            "spec.volumes[0].emptyDir: Forbidden: may not specify more than 1 volume type",
        ),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/a/../b"}}]}, "must not contain '..'"),
        ({"volumes": [{"name": "v", "secret": {}}]}, "spec.volumes[0].secret.secretName: Required value"),
        ({"volumes": [{"name": "v", "configMap": {}}]}, "spec.volumes[0].configMap.name: Required value"),
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {}}]},
            "spec.volumes[0].persistentVolumeClaim.claimName: Required value",
        ),
        (
            {"volumes": [{"name": "v", "secret": {"secretName": "s", "defaultMode": 512}}]},
            "spec.volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777",
        ),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{}]}}]},
            "spec.volumes[0].projected.sources[0]: Required value: must specify a volume source",
        ),
        (
            {"volumes": [{"name": "v", "downwardAPI": {"items": [{"path": "/a"}]}}]},
            'spec.volumes[0].downwardAPI.items[0].path: Invalid value: "/a": must be a relative path',
        ),
        # probes and hooks
        (
            {"containers": [box(livenessProbe={})]},
            "spec.containers[0].livenessProbe: Required value: must specify a handler type",
        ),
        (
            {"containers": [box(livenessProbe={"exec": {"command": ["a"]}, "successThreshold": 2})]},
            "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
        ),
        (
            {"containers": [box(readinessProbe={"httpGet": {"port": 0}})]},
            "spec.containers[0].readinessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
        ),
        (
            {"containers": [box(lifecycle={"preStop": {"exec": {}}})]},
            "spec.containers[0].lifecycle.preStop.exec.command: Required value",
        ),
        (
            {"initContainers": [box(name="i", lifecycle={})]},
            "spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always",
        ),
        (
            {
                "initContainers": [
                    box(name="i", restartPolicy="Always", restartPolicyRules=[RULE | {"action": "Restart"}])
                ]
            },
            "spec.initContainers[0].restartPolicyRules[0].action: Forbidden: may only be RestartAllContainers for init "
            "containers with restartPolicy=Always",
        ),
        # scheduling
        (
            {"tolerations": [{"value": "x"}]},
            'spec.tolerations[0].operator: Invalid value: "": operator must be Exists when `key` is empty, which means '
            '"match all values and all keys"',
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]},
            "spec.tolerations[0].operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists'",
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 5}]},
            "spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "effect": "Never"}]},
            'spec.tolerations[0].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", '
            '"NoExecute"',
        ),
        (
            {"affinity": affinity(key="zone", operator="In")},
            ".matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (
            {"affinity": affinity(key="zone", operator="Near", values=["a"])},
            '.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator',
        ),
        (
            {"affinity": affinity(key="n", operator="Gt", values=["many"])},
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: "
            "can not be empty",
        ),
        (
            {"topologySpreadConstraints": [SPREAD | {"maxSkew": 0}]},
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
        ),
        (
            {"topologySpreadConstraints": [SPREAD, SPREAD]},
            "spec.topologySpreadConstraints[1].{topologyKey, whenUnsatisfiable}: Duplicate value",
        ),
        ({"schedulingGroup": {}}, "spec.schedulingGroup: Required value: must specify one of: `podGroupName`"),
        ({"schedulingGroup": {"podGroupName": "A"}}, 'spec.schedulingGroup.podGroupName: Invalid value: "A"'),
        ({"schedulingGates": [{"name": "a"}, {"name": "a"}]}, 'spec.schedulingGates[1]: Duplicate value: "a"'),
        # the rest
        (
            {"restartPolicy": "Perhaps"},
            'spec.restartPolicy: Unsupported value: "Perhaps": supported values: "Always", "OnFailure", "Never"',
        ),
        ({"dnsPolicy": "None"}, "spec.dnsConfig.nameservers: Required value"),
        (
            {"activeDeadlineSeconds": 0},
            "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
        ),
        (
            {"terminationGracePeriodSeconds": -1},
            "spec.terminationGracePeriodSeconds: Invalid value: -1: must be greater than or equal to 0",
        ),
        ({"nodeSelector": {"a b": "c"}}, 'spec.nodeSelector: Invalid value: "a b": name part must consist of'),
        ({"hostname": "a.b"}, 'spec.hostname: Invalid value: "a.b": a lowercase RFC 1123 label'),
        ({"hostAliases": [{"ip": "x"}]}, 'spec.hostAliases[0].ip: Invalid value: "x": must be a valid IP address'),
        ({"overhead": {"cpu": "-1"}}, 'spec.overhead[cpu]: Invalid value: "-1": must be greater than or equal to 0'),
        ({"ephemeralContainers": [box(name="e")]}, "spec.ephemeralContainers: Forbidden: cannot be set on create"),
        ({"imagePullSecrets": [{}]}, "spec.imagePullSecrets[0].name: Required value"),
    ],
)
def test_refused(spec: dict[str, Any], expected: str) -> None:
    found = messages(make(**spec))
    assert any(expected in message for message in found), found


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ({"name": "P"}, 'metadata.name: Invalid value: "P": a lowercase RFC 1123 subdomain must consist of'),
        ({"name": ""}, "metadata.name: Required value: name or generateName is required"),
        (
            {"name": "", "generateName": "P-"},
            'metadata.generateName: Invalid value: "P-": a lowercase RFC 1123 subdomain',
        ),
        ({"labels": {"a": "b c"}}, 'metadata.labels: Invalid value: "b c": a valid label must be an empty string or'),
        ({"labels": {"-a": ""}}, 'metadata.labels: Invalid value: "-a": name part must consist of'),
        (
            {"annotations": {"a/b/c": ""}},
            'metadata.annotations: Invalid value: "a/b/c": a qualified name must consist of',
        ),
        ({"annotations": {"a": "x" * 262144}}, "metadata.annotations: Too long: may not be more than 262144 bytes"),
        ({"finalizers": ["a b"]}, 'metadata.finalizers: Invalid value: "a b": name part must consist of'),
        (
            {"ownerReferences": [{"apiVersion": "v1"}]},
            'metadata.ownerReferences.kind: Invalid value: "": must not be empty',
        ),
        (
            {
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "A", "name": name, "uid": name, "controller": True}
                    for name in ("x", "y")
                ]
            },
            'Only one reference can have Controller set to true. Found "true" in references for A/x and A/y',
        ),
    ],
)
def test_metadata(meta: dict[str, Any], expected: str) -> None:
    found = messages(make(meta))
    assert any(expected in message for message in found), found


def test_every_wrong_amount_of_a_container_is_told_at_once() -> None:
    resources = {"requests": {"cpu": "2", "memory": "-1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    at = "spec.containers[0].resources"
    assert sorted(messages(make(containers=[box(resources=resources)]))) == [
        f'{at}.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        f'{at}.requests[memory]: Invalid value: "-1Gi": must be greater than or equal to 0',
    ]


def test_generated_names_may_end_with_a_hyphen() -> None:
    assert messages(make({"name": "", "generateName": "p-"})) == []


def test_allowed_updates() -> None:
    old = make(activeDeadlineSeconds=10, schedulingGates=[{"name": "g"}])
    new = copy.deepcopy(old)
    assert new.spec.containers is not None
    new.spec.containers[0].image = "other"
    new.spec.active_deadline_seconds = 5
    new.spec.tolerations = [*(new.spec.tolerations or []), Toleration(operator="Exists")]
    new.spec.scheduling_gates = None
    new.spec.node_selector = {"a": "b"}
    assert messages(new, old) == []


def test_refused_updates() -> None:
    old = make(activeDeadlineSeconds=10)
    new = copy.deepcopy(old)
    assert new.spec.containers is not None
    new.spec.containers[0].command = ["x"]
    new.spec.tolerations = []
    new.spec.active_deadline_seconds = None
    new.metadata.uid = "other"
    found = messages(new, old)
    assert found[0] == 'metadata.uid: Invalid value: "other": field is immutable'
    assert found[1].startswith(
        "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`"
    )
    assert found[2:] == [
        "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
        "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value",
    ]


def test_gates_only_go_away() -> None:
    old, new = make(), make(schedulingGates=[{"name": "g"}])
    (message,) = messages(new, old)
    assert message == "spec.schedulingGates: Forbidden: only deletion is allowed, but found new scheduling gates: g"


def test_finalizers_of_dying_objects() -> None:
    old = make({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]})
    new = copy.deepcopy(old)
    new.metadata.finalizers = ["a/b", "c/d"]
    (message,) = messages(new, old)
    assert message.startswith(
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted"
    )
