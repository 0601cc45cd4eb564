"""The plainest object of each kind, which the others begin with."""

from __future__ import annotations

from typing import Any

Body = dict[str, Any]


def pod(**more: Any) -> Body:
    """A pod spec that runs at once on a simulated node."""
    resources = {"requests": {"cpu": "10m", "memory": "1Mi"}}
    return {
        "schedulerName": "volcano",
        "containers": [{"name": "main", "image": "busybox", "resources": resources}],
        **more,
    }


def template(**more: Any) -> Body:
    return {"metadata": {"labels": {"app": "hostile"}}, "spec": pod(**more)}


SELECTOR: Body = {"matchLabels": {"app": "hostile"}}
_REPLICAS: Body = {"replicas": 2, "selector": SELECTOR, "template": template()}


def vcjob() -> Body:
    return {
        "minAvailable": 1,
        "schedulerName": "volcano",
        "queue": "default",
        "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
        "tasks": [{"name": "a", "replicas": 2, "template": template(restartPolicy="OnFailure")}],
    }


def kubeflow(field: str, *roles: str) -> Body:
    replicas = {
        role: {"replicas": 1, "restartPolicy": "OnFailure", "template": template_named(field)} for role in roles
    }
    return {field: replicas, "runPolicy": {"cleanPodPolicy": "None"}}


def template_named(field: str) -> Body:
    """The container of a training job has the name that its operator looks for."""
    name = {"pytorchReplicaSpecs": "pytorch", "tfReplicaSpecs": "tensorflow", "xgbReplicaSpecs": "xgboost"}
    name |= {"paddleReplicaSpecs": "paddle", "jaxReplicaSpecs": "jax"}
    found = template()
    found["spec"]["containers"][0]["name"] = name.get(field, "main")
    return found


def _ray() -> Body:
    head = {"rayStartParams": {}, "template": template()}
    worker = {
        "groupName": "w",
        "replicas": 1,
        "minReplicas": 0,
        "maxReplicas": 3,
        "rayStartParams": {},
        "template": template(),
    }
    return {"headGroupSpec": head, "workerGroupSpecs": [worker]}


def _batch_job() -> Body:
    return {"parallelism": 2, "completions": 2, "template": template(restartPolicy="Never")}


def jobset() -> Body:
    job = {"template": {"spec": _batch_job()}}
    return {"replicatedJobs": [{"name": "a", "replicas": 1, **job}]}


def crd(schema: Body | None = None) -> Body:
    """The definition of a kind of its own; its name must be that of the object, which the attack gives."""
    shape = schema or {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": shape}}
    names = {"plural": "things", "singular": "thing", "kind": "Thing"}
    return {"spec": {"group": "hostile.example", "names": names, "scope": "Namespaced", "versions": [version]}}


def webhook(**more: Any) -> Body:
    """A hook of the attacked namespaces at an address of this machine where nothing listens."""
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"], "scope": "Namespaced"}
    return {
        "name": "hook.hostile.example",
        "rules": [rule],
        "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "namespaceSelector": {"matchLabels": {"hostile": "hooked"}},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
        **more,
    }


_DEVICES = {"requests": [{"name": "a", "exactly": {"deviceClassName": "hostile-class"}}]}
_CLAIM: Body = {"devices": _DEVICES}
_VOLUME: Body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

_SPECS: dict[tuple[str, str], Body] = {
    ("", "Pod"): pod(),
    ("", "ReplicationController"): {"replicas": 2, "selector": {"app": "hostile"}, "template": template()},
    ("", "Service"): {"selector": {"app": "hostile"}, "ports": [{"name": "a", "port": 80}]},
    ("", "PersistentVolumeClaim"): _VOLUME,
    ("", "PersistentVolume"): {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/tmp/x"},
    },
    ("", "LimitRange"): {"limits": [{"type": "Container", "max": {"cpu": "64"}}]},
    ("", "ResourceQuota"): {"hard": {"pods": "500"}},
    ("", "Namespace"): {},
    ("", "Node"): {},
    ("apps", "Deployment"): _REPLICAS,
    ("apps", "ReplicaSet"): _REPLICAS,
    ("apps", "StatefulSet"): {**_REPLICAS, "serviceName": "x"},
    ("apps", "DaemonSet"): {"selector": SELECTOR, "template": template()},
    ("batch", "Job"): _batch_job(),
    ("batch", "CronJob"): {"schedule": "* * * * *", "jobTemplate": {"spec": _batch_job()}},
    ("autoscaling", "HorizontalPodAutoscaler"): {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "hostile-1"},
        "maxReplicas": 3,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
            }
        ],
    },
    ("policy", "PodDisruptionBudget"): {"minAvailable": 1, "selector": SELECTOR},
    ("networking.k8s.io", "NetworkPolicy"): {"podSelector": {}, "policyTypes": ["Ingress"]},
    ("networking.k8s.io", "Ingress"): {"defaultBackend": {"service": {"name": "x", "port": {"number": 80}}}},
    ("networking.k8s.io", "IngressClass"): {"controller": "hostile.example/x"},
    ("resource.k8s.io", "ResourceClaim"): _CLAIM,
    ("resource.k8s.io", "ResourceClaimTemplate"): {"spec": _CLAIM},
    ("resource.k8s.io", "DeviceClass"): {"selectors": [{"cel": {"expression": "true"}}]},
    ("resource.k8s.io", "ResourceSlice"): {
        "driver": "hostile.example",
        "nodeName": "node-0",
        "pool": {"name": "node-0", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "d0", "attributes": {"x": {"string": "y"}}}],
    },
    ("batch.volcano.sh", "Job"): vcjob(),
    ("batch.volcano.sh", "CronJob"): {"schedule": "* * * * *", "jobTemplate": {"spec": vcjob()}},
    ("flow.volcano.sh", "JobTemplate"): vcjob(),
    ("flow.volcano.sh", "JobFlow"): {
        "jobRetainPolicy": "retain",
        "flows": [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}],
    },
    ("training.volcano.sh", "HyperJob"): {"replicatedJobs": [{"name": "a", "replicas": 1, "templateSpec": vcjob()}]},
    ("scheduling.volcano.sh", "Queue"): {"weight": 1, "reclaimable": True},
    ("scheduling.volcano.sh", "PodGroup"): {"minMember": 1, "queue": "default"},
    ("topology.volcano.sh", "HyperNode"): {
        "tier": 1,
        "members": [{"type": "Node", "selector": {"exactMatch": {"name": "node-0"}}}],
    },
    ("quota.unisono.io", "FloatingResource"): {"amount": 2, "inUse": 1},
    ("health.unisono.io", "NodeCheck"): {"nodes": ["node-0"], "command": ["true"]},
    ("quota.unisono.io", "Budget"): {"queues": ["hostile"], "amounts": {"cpu": 5, "money": 1}, "period": "Day"},
    ("quota.unisono.io", "PriceList"): {"prices": [{"resource": "cpu", "perHour": "0.1"}]},
    ("nodeinfo.volcano.sh", "Numatopology"): {"policies": {"TopologyManagerPolicy": "none"}},
    ("jobset.x-k8s.io", "JobSet"): jobset(),
    ("kubeflow.org", "PyTorchJob"): kubeflow("pytorchReplicaSpecs", "Master", "Worker"),
    ("kubeflow.org", "TFJob"): kubeflow("tfReplicaSpecs", "Chief", "Worker"),
    ("kubeflow.org", "XGBoostJob"): kubeflow("xgbReplicaSpecs", "Master", "Worker"),
    ("kubeflow.org", "PaddleJob"): kubeflow("paddleReplicaSpecs", "Master", "Worker"),
    ("kubeflow.org", "JAXJob"): kubeflow("jaxReplicaSpecs", "Worker"),
    ("kubeflow.org", "MPIJob"): kubeflow("mpiReplicaSpecs", "Launcher", "Worker"),
    ("trainer.kubeflow.org", "TrainJob"): {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 1}},
    ("trainer.kubeflow.org", "TrainingRuntime"): {"mlPolicy": {"numNodes": 1}, "template": {"spec": jobset()}},
    ("trainer.kubeflow.org", "ClusterTrainingRuntime"): {"mlPolicy": {"numNodes": 1}, "template": {"spec": jobset()}},
    ("ray.io", "RayCluster"): _ray(),
    ("ray.io", "RayJob"): {"entrypoint": "sleep 1", "rayClusterSpec": _ray()},
    ("ray.io", "RayService"): {"serveConfigV2": "applications: []", "rayClusterConfig": _ray()},
    ("storage.k8s.io", "CSIDriver"): {"attachRequired": False},
    ("storage.k8s.io", "CSINode"): {"drivers": []},
    ("storage.k8s.io", "VolumeAttachment"): {
        "attacher": "x",
        "nodeName": "node-0",
        "source": {"persistentVolumeName": "x"},
    },
    ("coordination.k8s.io", "Lease"): {"holderIdentity": "x", "leaseDurationSeconds": 10},
}
_BODIES: dict[tuple[str, str], Body] = {
    ("apiextensions.k8s.io", "CustomResourceDefinition"): crd(),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): {"webhooks": [webhook()]},
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): {"webhooks": [webhook()]},
    ("", "ConfigMap"): {"data": {"a": "b"}},
    ("", "Secret"): {"stringData": {"a": "b"}},
    ("", "Event"): {
        "involvedObject": {"kind": "Pod", "name": "x"},
        "reason": "Hostile",
        "message": "x",
        "type": "Warning",
    },
    ("events.k8s.io", "Event"): {
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "action": "Hurt",
        "reason": "Hostile",
        "type": "Warning",
        "reportingController": "hostile.example/x",
        "reportingInstance": "x",
        "regarding": {"kind": "Pod", "name": "x"},
    },
    ("apps", "ControllerRevision"): {"revision": 1, "data": {"a": 1}},
    ("bus.volcano.sh", "Command"): {
        "action": "AbortJob",
        "target": {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "x", "uid": "x"},
    },
    ("rbac.authorization.k8s.io", "Role"): {"rules": []},
    ("rbac.authorization.k8s.io", "ClusterRole"): {
        "rules": [{"apiGroups": ["x"], "resources": ["x"], "verbs": ["get"]}]
    },
    ("rbac.authorization.k8s.io", "RoleBinding"): {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x"}
    },
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x"}
    },
    ("scheduling.k8s.io", "PriorityClass"): {"value": 10},
    ("storage.k8s.io", "StorageClass"): {"provisioner": "hostile.example/x"},
    ("storage.k8s.io", "CSIStorageCapacity"): {"storageClassName": "x", "capacity": "1Gi"},
}


def base(group: str, kind: str) -> Body:
    """Everything of an object but its names; an unknown kind gets an empty spec."""
    return _BODIES.get((group, kind)) or {"spec": _SPECS.get((group, kind), {})}
