"""What users leave out is filled in as Kubernetes and Volcano do."""

from typing import Any

import msgspec
import pytest

from unisono.api import kinds
from unisono.api.decode import decode, encode
from unisono.api.defaulting import apply_defaults
from unisono.api.defaulting.pod import default_pod, default_pod_spec, pull_policy
from unisono.api.kind import Kind


def filled(kind: Kind[Any], value: dict[str, Any]) -> dict[str, Any]:
    decoded = decode(kind, {"metadata": {"name": "x"}} | value)
    assert (decoded.unknown_fields, decoded.type_errors) == ([], [])
    apply_defaults(kind, decoded.obj)
    shown: dict[str, Any] = msgspec.json.decode(encode(decoded.obj))
    return shown


def test_a_pod() -> None:
    container = {
        "name": "c",
        "image": "busybox",
        "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": "1000m", "nvidia.com/gpu": 1}, "requests": {"cpu": 0.5}},
        "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "readinessProbe": {"httpGet": {"port": 80}},
    }
    shown = filled(kinds.PODS, {"spec": {"containers": [container], "volumes": [{"name": "v"}]}})
    spec = shown["spec"]
    assert spec["containers"][0] | {"name": "c"} == {
        "name": "c",
        "image": "busybox",
        "imagePullPolicy": "Always",
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "resources": {
            "limits": {"cpu": "1", "nvidia.com/gpu": "1"},
            "requests": {"cpu": "500m", "nvidia.com/gpu": "1"},
        },
        "env": [{"name": "IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}],
        "readinessProbe": {
            "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
            "timeoutSeconds": 1,
            "periodSeconds": 10,
            "successThreshold": 1,
            "failureThreshold": 3,
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    del spec["containers"]
    assert spec == {
        "volumes": [{"name": "v", "emptyDir": {}}],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        "tolerations": [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("not-ready", "unreachable")
        ],
    }
    assert shown["status"] == {"phase": "Pending", "qosClass": "Burstable"}


def test_what_a_pod_says_is_kept() -> None:
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "enableServiceLinks": False,
        "schedulerName": "volcano",
        "tolerations": [{"operator": "Exists"}],
        "hostNetwork": True,
        "containers": [{"name": "c", "image": "b:1", "ports": [{"containerPort": 80}]}],
    }
    shown = filled(kinds.PODS, {"spec": spec})["spec"]
    kept = ("restartPolicy", "terminationGracePeriodSeconds", "enableServiceLinks", "schedulerName", "tolerations")
    assert {name: shown[name] for name in kept} == {name: spec[name] for name in kept}
    assert shown["containers"][0]["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1.36", "IfNotPresent"),
        ("registry:5000/busybox", "Always"),
        ("registry:5000/busybox:1", "IfNotPresent"),
        ("busybox@sha256:abc", "IfNotPresent"),
        ("", "Always"),
    ],
)
def test_pull_policy(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({"secret": {"secretName": "s"}}, {"secret": {"secretName": "s", "defaultMode": 420}}),
        ({"configMap": {"name": "s"}}, {"configMap": {"name": "s", "defaultMode": 420}}),
        ({"hostPath": {"path": "/a"}}, {"hostPath": {"path": "/a", "type": ""}}),
        ({"emptyDir": {"sizeLimit": "1024Mi"}}, {"emptyDir": {"sizeLimit": "1Gi"}}),
        ({"iscsi": {"iqn": "i"}}, {"iscsi": {"iqn": "i", "iscsiInterface": "default"}}),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {
                "projected": {
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                    "defaultMode": 420,
                }
            },
        ),
    ],
)
def test_volumes(volume: dict[str, Any], expected: dict[str, Any]) -> None:
    shown = filled(kinds.PODS, {"spec": {"volumes": [{"name": "v", **volume}]}})
    assert shown["spec"]["volumes"] == [{"name": "v", **expected}]


def test_pod_level_requests_follow_limits() -> None:
    spec = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": 1}}}],
        "resources": {"limits": {"cpu": 4, "memory": "1Gi"}},
    }
    decoded = decode(kinds.PODS, {"spec": spec}).obj
    default_pod(decoded)
    assert decoded.spec.resources is not None
    assert decoded.spec.resources.requests == {"memory": "1Gi"}


def test_templates_leave_requests_and_service_links_to_their_pods() -> None:
    decoded = decode(
        kinds.PODS, {"spec": {"serviceAccountName": "a", "containers": [{"resources": {"limits": {"cpu": 1}}}]}}
    )
    default_pod_spec(decoded.obj.spec)
    assert decoded.obj.spec.enable_service_links is None
    assert decoded.obj.spec.containers[0].resources.requests is None
    assert decoded.obj.spec.service_account == "a"


def task(**more: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}, **more}


def test_a_job() -> None:
    shown = filled(kinds.JOBS, {"spec": {"tasks": [task(replicas=2), task(name="b", replicas=3, minAvailable=1)]}})[
        "spec"
    ]
    assert [(each["name"], each["minAvailable"], each["maxRetry"]) for each in shown["tasks"]] == [
        ("default0", 2, 3),
        ("b", 1, 3),
    ]
    assert (shown["queue"], shown["schedulerName"], shown["maxRetry"], shown["minAvailable"]) == (
        "default",
        "volcano",
        3,
        3,
    )
    # Templates stay as they were written; the pods made of them get their own defaults.
    assert shown["tasks"][0]["template"]["spec"] == {"containers": [{"name": "c", "image": "i", "resources": {}}]}


def test_what_a_job_says_is_kept() -> None:
    spec = {"queue": "q", "schedulerName": "s", "maxRetry": 1, "minAvailable": 1, "tasks": [task(name="a", replicas=2)]}
    shown = filled(kinds.JOBS, {"spec": spec})["spec"]
    assert {name: shown[name] for name in ("queue", "schedulerName", "maxRetry", "minAvailable")} == {
        "queue": "q",
        "schedulerName": "s",
        "maxRetry": 1,
        "minAvailable": 1,
    }


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ({"pytorch": ["--port=1"]}, {"pytorch": ["--port=1"], "svc": []}),
        ({"tensorflow": []}, {"tensorflow": [], "svc": []}),
        ({"ray": []}, {"ray": [], "svc": []}),
        (
            {"mpi": [], "svc": ["--publish-not-ready-addresses"]},
            {"mpi": [], "svc": ["--publish-not-ready-addresses"], "ssh": []},
        ),
        ({"env": []}, {"env": []}),
    ],
)
def test_plugins_that_need_others(plugins: dict[str, Any], expected: dict[str, Any]) -> None:
    assert filled(kinds.JOBS, {"spec": {"plugins": plugins}})["spec"]["plugins"] == expected


def test_partitions_and_host_network() -> None:
    policy = {
        "totalPartitions": 4,
        "partitionSize": 2,
        "minPartitions": 3,
        "networkTopology": {"highestTierAllowed": 1},
    }
    one = task(replicas=8, partitionPolicy=policy)
    one["template"]["spec"]["hostNetwork"] = True
    shown = filled(kinds.JOBS, {"spec": {"tasks": [one]}})["spec"]
    assert (shown["minAvailable"], shown["tasks"][0]["minAvailable"]) == (6, 6)
    assert shown["tasks"][0]["partitionPolicy"]["networkTopology"]["mode"] == "hard"
    assert shown["tasks"][0]["template"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"


def test_queues() -> None:
    assert filled(kinds.QUEUES, {})["spec"] == {
        "weight": 1,
        "reclaimable": True,
        "parent": "root",
        "dequeueStrategy": "traverse",
    }
    assert filled(kinds.QUEUES, {"metadata": {"name": "root"}})["spec"] == {
        "weight": 1,
        "reclaimable": False,
        "dequeueStrategy": "traverse",
    }
    annotations = {"volcano.sh/hierarchy": "a/b", "volcano.sh/hierarchy-weights": "2/3"}
    shown = filled(kinds.QUEUES, {"metadata": {"name": "q", "annotations": annotations}})
    assert shown["metadata"]["annotations"] == {
        "volcano.sh/hierarchy": "root/a/b",
        "volcano.sh/hierarchy-weights": "1/2/3",
    }


def test_pod_groups() -> None:
    shown = filled(kinds.POD_GROUPS, {"spec": {"subGroupPolicy": [{"name": "a"}], "networkTopology": {}}})["spec"]
    assert shown == {
        "queue": "default",
        "subGroupPolicy": [{"name": "a", "subGroupSize": 1}],
        "networkTopology": {"mode": "hard"},
    }


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (
            kinds.SECRETS,
            {"data": {"a": "QQ=="}, "stringData": {"b": "B", "a": "x"}},
            {"data": {"a": "eA==", "b": "Qg=="}, "type": "Opaque"},
        ),
        (
            kinds.RESOURCE_QUOTAS,
            {"spec": {"hard": {"cpu": "1000m", "memory": "1024Mi"}}, "status": {"used": {"cpu": 0.5}}},
            {"spec": {"hard": {"cpu": "1", "memory": "1Gi"}}, "status": {"used": {"cpu": "500m"}}},
        ),
        (kinds.PRIORITY_CLASSES, {}, {"value": 0, "preemptionPolicy": "PreemptLowerPriority"}),
        (
            kinds.NAMESPACES,
            {},
            {
                "metadata": {"name": "x", "labels": {"kubernetes.io/metadata.name": "x"}},
                "status": {"phase": "Active"},
            },
        ),
        (
            kinds.SERVICES,
            {"spec": {"clusterIP": "None", "ports": [{"port": 80}]}},
            {
                "spec": {
                    "clusterIP": "None",
                    "clusterIPs": ["None"],
                    "type": "ClusterIP",
                    "sessionAffinity": "None",
                    "internalTrafficPolicy": "Cluster",
                    "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
                }
            },
        ),
        (
            kinds.PERSISTENT_VOLUME_CLAIMS,
            {"spec": {"resources": {"requests": {"storage": "1024Mi"}}}},
            {
                "spec": {"resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem"},
                "status": {"phase": "Pending"},
            },
        ),
    ],
    ids=lambda value: value.kind if isinstance(value, Kind) else "",
)
def test_other_kinds(kind: Kind[Any], value: dict[str, Any], expected: dict[str, Any]) -> None:
    shown = filled(kind, value)
    assert {name: shown[name] for name in expected} == expected


def test_a_node_without_allocatable_gives_everything() -> None:
    shown = filled(kinds.NODES, {"status": {"capacity": {"cpu": 4, "memory": "1024Mi"}}})["status"]
    assert shown["allocatable"] == {"cpu": "4", "memory": "1Gi"}
