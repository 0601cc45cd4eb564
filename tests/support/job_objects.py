"""A small object of every kind of job, and ways to change it at a path of the registry."""

from __future__ import annotations

import copy
from typing import Any

from unisono.api.kind_families import (
    BATCH_CRON_JOBS,
    BATCH_JOBS,
    CLUSTER_TRAINING_RUNTIMES,
    COMPOSITE_POD_GROUPS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    HYPER_JOBS,
    JOB_FLOWS,
    JOB_SETS,
    JOB_TEMPLATES,
    KNATIVE_SERVICES,
    KUBEFLOW_KINDS,
    RAY_CLUSTERS,
    RAY_JOBS,
    RAY_SERVICES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    WORKLOAD_POD_GROUPS,
)
from unisono.api.kinds import JOBS, POD_GROUPS, PODS
from unisono.jobkinds.kind import JobKind
from unisono.jobkinds.paths import steps
from unisono.jobkinds.registry import FOREIGN

Value = dict[str, Any]


def template(name: str = "main", cpu: str = "1", **spec: Any) -> Value:
    """A pod template of one container."""
    container = {"name": name, "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container], **spec}}


ENDING = template(restartPolicy="Never")
TASKS = [{"name": "t", "replicas": 1, "template": ENDING}]
BATCH = {"template": ENDING}
APP = {"selector": {"matchLabels": {"app": "a"}}, "template": template()}
RAY = {
    "headGroupSpec": {"rayStartParams": {}, "template": template("ray-head")},
    "workerGroupSpecs": [
        {"groupName": "w", "replicas": 1, "minReplicas": 0, "maxReplicas": 3, "template": template("ray-worker")}
    ],
}
SET = {"replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": BATCH}}]}
RUNTIME = {"template": {"spec": SET}}
_RUNTIME_LABEL = {"trainer.kubeflow.org/framework": "torch"}
CONTAINERS = {
    "PyTorchJob": "pytorch",
    "TFJob": "tensorflow",
    "XGBoostJob": "xgboost",
    "PaddleJob": "paddle",
    "JAXJob": "jax",
}


def _kubeflow(kind: Any) -> Value:
    field = {"PyTorchJob": "pytorch", "TFJob": "tf", "MPIJob": "mpi", "XGBoostJob": "xgb", "PaddleJob": "paddle"}
    roles = {"MPIJob": ("Launcher", "Worker"), "JAXJob": ("Worker",), "TFJob": ("Chief", "Worker")}
    given = {
        role: {"replicas": 1, "template": template(CONTAINERS.get(kind.kind, "main"))}
        for role in roles.get(kind.kind, ("Master", "Worker"))
    }
    return {f"{field.get(kind.kind, 'jax')}ReplicaSpecs": given}


SPECS: dict[Any, Value] = {
    JOBS: {"tasks": TASKS},
    JOB_TEMPLATES: {"tasks": TASKS},
    JOB_FLOWS: {"flows": [{"name": "f", "patch": {"jobSpec": {"tasks": TASKS}}}]},
    CRON_JOBS: {"schedule": "* * * * *", "jobTemplate": {"spec": {"tasks": TASKS}}},
    HYPER_JOBS: {"replicatedJobs": [{"name": "p", "replicas": 1, "templateSpec": {"tasks": TASKS}}]},
    POD_GROUPS: {"minMember": 1},
    WORKLOAD_POD_GROUPS: {"schedulingPolicy": {"gang": {"minCount": 1}}},
    COMPOSITE_POD_GROUPS: {
        "schedulingPolicy": {"gang": {"minGroupCount": 1}},
        "workloadRef": {"workloadName": "w", "templateName": "t"},
    },
    DEPLOYMENTS: APP,
    REPLICA_SETS: APP,
    REPLICATION_CONTROLLERS: {**APP, "selector": {"app": "a"}},
    STATEFUL_SETS: {**APP, "serviceName": "s"},
    DAEMON_SETS: APP,
    BATCH_JOBS: BATCH,
    BATCH_CRON_JOBS: {"schedule": "* * * * *", "jobTemplate": {"spec": BATCH}},
    KNATIVE_SERVICES: {"template": template()},
    PODS: template()["spec"],
    **{kind: _kubeflow(kind) for kind in KUBEFLOW_KINDS},
    JOB_SETS: SET,
    TRAIN_JOBS: {
        "runtimeRef": {"name": "torch-distributed"},
        "runtimePatches": [{"manager": "me.example/x", "trainingRuntimeSpec": RUNTIME}],
    },
    TRAINING_RUNTIMES: RUNTIME,
    CLUSTER_TRAINING_RUNTIMES: RUNTIME,
    RAY_CLUSTERS: RAY,
    RAY_JOBS: {"entrypoint": "x", "rayClusterSpec": RAY, "submitterPodTemplate": ENDING},
    RAY_SERVICES: {"rayClusterConfig": RAY, "serveConfigV2": "applications: []"},
}
_SPARK: Value = {"driver": {"template": template()}, "executor": {"template": template(), "instances": 2}}
_DASK: Value = {"scheduler": {"spec": template()["spec"]}, "worker": {"replicas": 2, "spec": template()["spec"]}}
_STEPS: Value = {"entrypoint": "main", "templates": [{"name": "main", **template()["spec"]["containers"][0]}]}
FOREIGN_SPECS: dict[str, Value] = {
    "LeaderWorkerSet": {
        "replicas": 2,
        "leaderWorkerTemplate": {"size": 3, "leaderTemplate": template(), "workerTemplate": template()},
    },
    "SparkApplication": _SPARK,
    "ScheduledSparkApplication": {"template": _SPARK},
    "FlinkDeployment": {
        "podTemplate": template("flink-main-container"),
        "jobManager": {"resource": {"cpu": 1, "memory": "1024m"}, "podTemplate": template("flink-main-container")},
        "taskManager": {
            "replicas": 2,
            "resource": {"cpu": 2, "memory": "2g"},
            "podTemplate": template("flink-main-container"),
        },
        "job": {"jarURI": "local:///x.jar", "state": "running"},
    },
    "DaskJob": {"job": {"spec": ENDING["spec"]}, "cluster": {"spec": _DASK}},
    "DaskCluster": _DASK,
    "DaskWorkerGroup": {"cluster": "x", "worker": _DASK["worker"]},
    "Workflow": _STEPS,
    "CronWorkflow": {"schedules": ["* * * * *"], "workflowSpec": _STEPS},
    "WorkflowTemplate": _STEPS,
}
"""Specs of kinds that other programs define."""


def small(kind: JobKind, namespace: str = "team", name: str = "x") -> Value:
    """An object of a kind that names no queue."""
    meta: Value = {"name": name}
    if kind.kind.namespaced:
        meta["namespace"] = namespace
    if kind.kind in (TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES):
        meta["labels"] = dict(_RUNTIME_LABEL)
    value = {"apiVersion": kind.kind.api_version, "kind": kind.kind.kind, "metadata": meta}
    spec = FOREIGN_SPECS.get(kind.kind.kind) if kind in FOREIGN else SPECS[kind.kind]
    return {**value, "spec": copy.deepcopy(spec)}


def put(value: Value, path: str, text: str) -> Value:
    """The object with a text at each place to which a path leads."""
    found = copy.deepcopy(value)
    _put(found, steps(path), text)
    return found


def _put(value: Any, way: tuple[tuple[str, bool], ...], text: str) -> None:
    (name, _), rest = way[0], way[1:]
    if name == "*":
        for each in value if isinstance(value, list) else value.values():
            _put(each, rest, text)
    elif not rest:
        value[name] = text
    else:
        if value.get(name) is None:
            value[name] = {}
        _put(value[name], rest, text)
