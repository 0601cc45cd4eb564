"""Rules of training kinds: what the operators' webhooks refuse is refused in their words, what users write is not."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.api.decode import decode
from unisono.api.kinds import find
from unisono.api.validation import validate

POD = {"spec": {"containers": [{"name": "main", "image": "i"}]}}
TWO = {"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]}}


def role(**fields: Any) -> dict[str, Any]:
    return {"template": POD} | fields


def pytorch(spec: dict[str, Any] | None = None, **specs: Any) -> dict[str, Any]:
    return kubeflow("PyTorchJob", {"pytorchReplicaSpecs": specs or {"Worker": role()}, **(spec or {})})


def kubeflow(kind: str, spec: dict[str, Any], name: str = "j", version: str = "v1") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns"}
    return {"apiVersion": f"kubeflow.org/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def other(api_version: str, kind: str, spec: dict[str, Any], name: str = "j") -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "ns"}, "spec": spec}


def errors(value: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    kind = find(value["apiVersion"], value["kind"])
    assert kind is not None
    before = decode(kind, old).obj if old is not None else None
    obj = decode(kind, value).obj
    if before is not None:
        before.metadata.resource_version = obj.metadata.resource_version = "1"
        before.metadata.uid = obj.metadata.uid = "u"
    return [error.message() for error in validate(kind, obj, before)]


def replicated(*names: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": name, "template": {"spec": {"template": POD}}} | fields for name in names]


def mounting(name: str) -> list[dict[str, Any]]:
    main = {"name": "main", "image": "i", "volumeMounts": [{"name": name, "mountPath": "/data"}]}
    return replicated("a", template={"spec": {"template": {"spec": {"containers": [main]}}}})


CLAIMS = [
    {"templates": [{"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}]},
]
JOBSET, TRAINER, RAY = "jobset.x-k8s.io/v1alpha2", "trainer.kubeflow.org/v1alpha1", "ray.io/v1"
HEAD = {"headGroupSpec": {"template": POD}}


@pytest.mark.parametrize(
    "value",
    [
        pytorch(Master=role(), Worker=role(replicas=3)),
        pytorch({"cleanPodPolicy": "All", "suspend": True, "elasticPolicy": {"maxReplicas": 3}}),
        kubeflow("TFJob", {"tfReplicaSpecs": {"worker": role(), "PS": role()}}),
        kubeflow("MPIJob", {"mpiReplicaSpecs": {"Launcher": role(), "Worker": role()}}, version="v2beta1"),
        kubeflow(
            "JAXJob", {"jaxReplicaSpecs": {"Worker": role(template={"spec": POD["spec"] | {"restartPolicy": "X"}})}}
        ),
        other(JOBSET, "JobSet", {"replicatedJobs": replicated("a", "b")}),
        other(JOBSET, "JobSet", {"replicatedJobs": mounting("data"), "volumeClaimPolicies": CLAIMS}),
        other(TRAINER, "TrainJob", {"runtimeRef": {"name": "torch-distributed"}}),
        kubeflow("PyTorchJob", {"pytorchReplicaSpecs": {"Worker": role(replicas=10)}}, name="j" * 54),
        kubeflow("MPIJob", {"mpiReplicaSpecs": {"Launcher": role()}}, name="j" * 63),
        other(RAY, "RayService", {"rayClusterConfig": HEAD, "serveConfigV2": "applications: [{import_path: 'a:b'}]"}),
        other(RAY, "RayService", {"rayClusterConfig": HEAD}),
        other(RAY, "RayCluster", HEAD),
        other(RAY, "RayJob", {"entrypoint": "x", "rayClusterSpec": HEAD}),
        other(RAY, "RayJob", {"submissionMode": "InteractiveMode", "clusterSelector": {"ray.io/cluster": "c"}}),
    ],
    ids=lambda value: value["kind"],
)
def test_accepted(value):
    assert errors(value) == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (kubeflow("PyTorchJob", {}), "spec.pytorchReplicaSpecs: Required value: must be required"),
        (
            pytorch(Chief=role()),
            'spec.pytorchReplicaSpecs[Chief]: Unsupported value: "Chief": supported values: "Master", "Worker"',
        ),
        (
            pytorch(worker=role()),
            'spec.pytorchReplicaSpecs[worker]: Unsupported value: "worker": supported values: "Master", "Worker"',
        ),
        (
            pytorch(Worker={"template": {"spec": {}}}),
            "spec.pytorchReplicaSpecs[Worker].template.spec.containers: Required value: must be specified",
        ),
        (
            pytorch(Worker={"template": {"spec": {"containers": [{"name": "pytorch"}]}}}),
            "spec.pytorchReplicaSpecs[Worker].template.spec.containers[0].image: Required value: must be required",
        ),
        (
            pytorch(Worker={"template": TWO}),
            "spec.pytorchReplicaSpecs[Worker].template.spec.containers: Required value: "
            "must have at least one container with name pytorch",
        ),
        (
            kubeflow("PyTorchJob", {"pytorchReplicaSpecs": {"Worker": role(replicas=11)}}, name="j" * 54),
            f'metadata.name: Invalid value: "{"j" * 54}": Service {"j" * 54}-worker-10 would have 64 characters: '
            "shorten the name by 1",
        ),
        (pytorch(Master=role(replicas=2)), "spec.pytorchReplicaSpecs[Master].replicas: Forbidden: must be 1"),
        (pytorch(Worker=role(replicas=0)), "spec.pytorchReplicaSpecs[Worker].replicas: Forbidden: must be at least 1"),
        (
            pytorch({"elasticPolicy": {}}, Master=role()),
            "spec.pytorchReplicaSpecs[Worker]: Required value: must be configured if elastic policy is used",
        ),
        (
            pytorch({"elasticPolicy": {"nProcPerNode": 2}, "nprocPerNode": "2"}),
            "spec.elasticPolicy.nProcPerNode: Forbidden: must not be used with spec.nprocPerNode",
        ),
        (
            pytorch({"elasticPolicy": {"metrics": [{"resource": {"name": "cpu", "target": {"type": "Utilization"}}}]}}),
            "spec.elasticPolicy.metrics[0].type: Required value: must specify a metric source type",
        ),
        (
            pytorch({"elasticPolicy": {"metrics": [{"type": 3}]}}),
            'spec.elasticPolicy.metrics[0]: Invalid value: {"type":3}: is no metric of autoscaling/v2: Expected '
            "`str`, got `int` - at `$.type`",
        ),
        (
            pytorch({"elasticPolicy": {"minReplicas": 3, "maxReplicas": 2}}),
            "spec.elasticPolicy.maxReplicas: Invalid value: 2: must not be less than minReplicas (3)",
        ),
        (
            pytorch({"nprocPerNode": "many"}),
            'spec.nprocPerNode: Invalid value: "many": must be "auto", "cpu", "gpu" or a number above 0',
        ),
        (
            pytorch({"runPolicy": {"managedBy": "me"}}),
            'spec.runPolicy.managedBy: Unsupported value: "me": supported values: "kubeflow.org/training-operator", '
            '"kueue.x-k8s.io/multikueue"',
        ),
        (
            pytorch({"cleanPodPolicy": "Some"}),
            'spec.runPolicy.cleanPodPolicy: Unsupported value: "Some": supported values: "All", "None", "Running"',
        ),
        (
            pytorch({"runPolicy": {"backoffLimit": -1}}),
            "spec.runPolicy.backoffLimit: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            pytorch(Worker=role(restartPolicy="Maybe")),
            'spec.pytorchReplicaSpecs[Worker].restartPolicy: Unsupported value: "Maybe": supported values: "Always", '
            '"ExitCode", "Never", "OnFailure"',
        ),
        (
            kubeflow("TFJob", {"tfReplicaSpecs": {"Chief": role(), "Master": role()}}),
            "spec.tfReplicaSpecs: Forbidden: must not have more than 1 Chief or Master role",
        ),
        (
            kubeflow("XGBoostJob", {"xgbReplicaSpecs": {"Worker": role()}}),
            "spec.xgbReplicaSpecs[Master]: Required value: must be present",
        ),
        (
            kubeflow("MPIJob", {"mpiReplicaSpecs": {"Worker": role()}}),
            "spec.mpiReplicaSpecs[Launcher]: Required value: must have Launcher replica spec",
        ),
        (
            kubeflow("MPIJob", {"mpiImplementation": "Other", "mpiReplicaSpecs": {"Launcher": role()}}),
            'spec.mpiImplementation: Unsupported value: "Other": supported values: "Intel", "MPICH", "OpenMPI"',
        ),
        (
            other(JOBSET, "JobSet", {"replicatedJobs": replicated("a", "a")}),
            'spec.replicatedJobs[1].name: Duplicate value: "a"',
        ),
        (
            other(JOBSET, "JobSet", {"replicatedJobs": replicated("a", dependsOn=[{"name": "b", "status": "Ready"}])}),
            'spec.replicatedJobs[0].dependsOn[0].name: Unsupported value: "b": supported values: ',
        ),
        (
            other(
                JOBSET,
                "JobSet",
                {
                    "replicatedJobs": replicated("a"),
                    "successPolicy": {"operator": "All", "targetReplicatedJobs": ["x"]},
                },
            ),
            'spec.successPolicy.targetReplicatedJobs: Unsupported value: "x": supported values: "a"',
        ),
        (other(TRAINER, "TrainJob", {}), "spec.runtimeRef.name: Required value"),
        (
            other(TRAINER, "TrainJob", {"runtimeRef": {"name": "r", "apiGroup": "kubeflow.org"}}),
            'spec.runtimeRef.apiGroup: Unsupported value: "kubeflow.org": supported values: "trainer.kubeflow.org"',
        ),
        (
            other(TRAINER, "TrainJob", {"runtimeRef": {"name": "r"}}, name="1j"),
            'metadata.name: Invalid value: "1j": metadata.name must match RFC 1035 DNS label format',
        ),
        (
            other(
                TRAINER,
                "TrainJob",
                {"runtimeRef": {"name": "r"}, "trainer": {"env": [{"name": "PET_NNODES", "value": "1"}]}},
            ),
            "spec.trainer.env[0].name: Forbidden: PET_ envs are reserved for the runtime of torchrun: use numNodes and "
            "numProcPerNode",
        ),
        (
            other(TRAINER, "TrainingRuntime", {"mlPolicy": {"torch": {}, "mpi": {}}, "template": {}}),
            'spec.mlPolicy: Invalid value: "torch, mpi": Only one of the policy can be configured',
        ),
        (
            other(RAY, "RayCluster", HEAD, name="r" * 54),
            f'metadata.name: Invalid value: "{"r" * 54}": must be no more than 53 characters',
        ),
        (
            other(
                RAY,
                "RayCluster",
                HEAD | {"workerGroupSpecs": [{"groupName": "w", "minReplicas": 2, "maxReplicas": 1, "template": POD}]},
            ),
            "spec.workerGroupSpecs[0].minReplicas: Invalid value: 2: must not be greater than maxReplicas",
        ),
        (
            other(RAY, "RayService", {"rayClusterConfig": HEAD}, name="s" * 48),
            f'metadata.name: Invalid value: "{"s" * 48}": must be no more than 47 characters',
        ),
        (
            other(RAY, "RayService", {"rayClusterConfig": HEAD, "serveConfigV2": "a: 1\na: 2"}),
            'spec.serveConfigV2: Invalid value: must be YAML: line:2: key "a" is given twice: keep one of them',
        ),
        (
            other(RAY, "RayService", {"rayClusterConfig": HEAD, "upgradeStrategy": {"type": "Slowly"}}),
            'spec.upgradeStrategy.type: Unsupported value: "Slowly": supported values: "NewCluster", '
            '"NewClusterWithIncrementalUpgrade", "None"',
        ),
        (
            other(RAY, "RayJob", {"entrypoint": "x"}),
            "spec.rayClusterSpec: Required value: one of rayClusterSpec or clusterSelector must be set",
        ),
        (
            other(RAY, "RayJob", {"entrypoint": "x", "submissionMode": "SidecarMode", "clusterSelector": {"a": "b"}}),
            "spec.clusterSelector: Forbidden: must not be set in SidecarMode",
        ),
    ],
)
def test_refused_with_the_field_and_the_reason(value, message):
    assert message in errors(value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            pytorch({"runPolicy": {"schedulingPolicy": {"queue": "a"}}}),
            pytorch({"runPolicy": {"schedulingPolicy": {"queue": "b"}}}),
            'spec.runPolicy.schedulingPolicy.queue: Invalid value: "b": '
            "spec.runPolicy.schedulingPolicy.queue is immutable",
        ),
        (
            pytorch(),
            pytorch({"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}),
            'spec.runPolicy.managedBy: Invalid value: "kueue.x-k8s.io/multikueue": field is immutable',
        ),
        (
            other(TRAINER, "TrainJob", {"runtimeRef": {"name": "a"}}),
            other(TRAINER, "TrainJob", {"runtimeRef": {"name": "b"}}),
            "spec.runtimeRef: Invalid value: null: field is immutable",
        ),
        (
            other(JOBSET, "JobSet", {"replicatedJobs": replicated("a")}),
            other(JOBSET, "JobSet", {"replicatedJobs": replicated("b")}),
            "spec.replicatedJobs: Invalid value: null: field is immutable while the JobSet is not suspended",
        ),
    ],
)
def test_what_an_update_may_not_change(old, new, message):
    assert message in errors(new, old)


def test_workers_may_be_scaled_and_jobs_suspended():
    assert errors(pytorch({"runPolicy": {"suspend": True}}, Worker=role(replicas=4)), pytorch()) == []


@pytest.mark.parametrize(
    ("kind", "columns"),
    [("PyTorchJob", ["State", "Age"]), ("MPIJob", ["Age", "State"]), ("TFJob", ["State", "Age"])],
)
def test_columns_and_scale_paths_are_those_of_the_operators(kind, columns):
    from unisono.api.crds import crd_manifests

    (manifest,) = [each for each in crd_manifests() if each["spec"]["names"]["kind"] == kind]
    version = manifest["spec"]["versions"][0]
    assert [column["name"] for column in version["additionalPrinterColumns"]] == columns
    assert "shortNames" not in manifest["spec"]["names"]
    scale = version["subresources"].get("scale")
    if kind == "PyTorchJob":
        assert scale == {
            "specReplicasPath": ".spec.pytorchReplicaSpecs.Worker.replicas",
            "statusReplicasPath": ".status.replicaStatuses.Worker.active",
            "labelSelectorPath": ".status.replicaStatuses.Worker.selector",
        }
    else:
        assert scale is None


def test_a_job_of_a_long_name_may_change_as_long_as_it_does_not_grow():
    """Those that were there before the rule can still be scaled down, suspended and ended."""

    def job(replicas: int, **spec: Any) -> dict[str, Any]:
        specs = {"pytorchReplicaSpecs": {"Worker": role(replicas=replicas)}}
        return kubeflow("PyTorchJob", specs | spec, name="j" * 54)

    assert errors(job(11, runPolicy={"suspend": True}), job(11)) == []
    assert errors(job(10), job(11)) == []
    (told,) = errors(job(12), job(11))
    assert "would have 64 characters" in told
