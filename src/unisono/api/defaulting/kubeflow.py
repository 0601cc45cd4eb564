"""Defaults of training jobs, filled in by what runs the job: the stored object stays as it was submitted."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from unisono.api.core.container import Container, ContainerPort
from unisono.api.core.pod import PodSpec
from unisono.api.groups.kubeflow import (
    AnyTrainingJob,
    ElasticPolicy,
    JAXJob,
    MPIJob,
    PaddleElasticPolicy,
    PaddleJob,
    PyTorchJob,
    ReplicaSpec,
    RunPolicy,
    TFJob,
    TrainingSpec,
    XGBoostJob,
)

CLEAN_NONE, CLEAN_RUNNING, CLEAN_ALL = "None", "Running", "All"
AUTO = "auto"


@dataclass(frozen=True, slots=True)
class TrainingDefaults:
    """What a kind of training job has by default.

    Attributes:
        field: attribute of the spec that holds the replica specs.
        wire: the same on the wire.
        types: roles in the order in which they are looked at.
        container: name of the container that does the work.
        port_name: name of its port.
        port: number of its port.
        restart_policy: of roles that name none.
        strict: whether other roles are refused.
        replicas: number of pods of roles that name none, where that is not 1.

    """

    field: str
    wire: str
    types: tuple[str, ...]
    container: str
    port_name: str
    port: int
    restart_policy: str
    strict: bool = True
    replicas: Mapping[str, int] = dataclasses.field(default_factory=dict)


TRAINING: dict[type[AnyTrainingJob], TrainingDefaults] = {
    PyTorchJob: TrainingDefaults(
        "pytorch_replica_specs",
        "pytorchReplicaSpecs",
        ("Master", "Worker"),
        "pytorch",
        "pytorchjob-port",
        23456,
        "OnFailure",
    ),
    TFJob: TrainingDefaults(
        "tf_replica_specs",
        "tfReplicaSpecs",
        ("Chief", "Evaluator", "Master", "PS", "Worker"),
        "tensorflow",
        "tfjob-port",
        2222,
        "Never",
        strict=False,
    ),
    MPIJob: TrainingDefaults(
        "mpi_replica_specs",
        "mpiReplicaSpecs",
        ("Launcher", "Worker"),
        "mpi",
        "mpi-port",
        9999,
        "Never",
        replicas={"Worker": 0},
    ),
    XGBoostJob: TrainingDefaults(
        "xgb_replica_specs", "xgbReplicaSpecs", ("Master", "Worker"), "xgboost", "xgboostjob-port", 9999, "Never"
    ),
    PaddleJob: TrainingDefaults(
        "paddle_replica_specs", "paddleReplicaSpecs", ("Master", "Worker"), "paddle", "master", 36543, "OnFailure"
    ),
    JAXJob: TrainingDefaults("jax_replica_specs", "jaxReplicaSpecs", ("Worker",), "jax", "jaxjob-port", 6666, "Never"),
}


def run_policy(spec: TrainingSpec) -> RunPolicy:
    """The run policy in force: that of ``runPolicy``, else the same field of the spec itself, else the default."""
    official = spec.run_policy or RunPolicy()
    merged = RunPolicy(
        **{
            each: getattr(official, each) if getattr(official, each) is not None else getattr(spec, each)
            for each in RunPolicy.__struct_fields__
        }
    )
    merged.clean_pod_policy = merged.clean_pod_policy or CLEAN_NONE
    return merged


def replica_specs(job: AnyTrainingJob) -> dict[str, ReplicaSpec]:
    """The roles of a job with defaults, known ones first in their order; the job itself is not changed."""
    facts = TRAINING[type(job)]
    given: dict[str, ReplicaSpec] = getattr(job.spec, facts.field) or {}
    canonical = {name.lower(): name for name in facts.types}
    named: dict[str, ReplicaSpec] = {}
    for name, spec in given.items():
        named.setdefault(canonical.get(name.lower(), name), _complete(name, spec, facts))
    order = {name: position for position, name in enumerate(facts.types)}
    return dict(sorted(named.items(), key=lambda item: (order.get(item[0], len(order)), item[0])))


def _complete(name: str, given: ReplicaSpec, facts: TrainingDefaults) -> ReplicaSpec:
    spec = msgspec.convert(msgspec.to_builtins(given), ReplicaSpec)
    if spec.replicas is None:
        spec.replicas = facts.replicas.get(name, 1)
    spec.restart_policy = spec.restart_policy or facts.restart_policy
    container = main_container(spec.template.spec, facts.container)
    # The constant of MPI jobs is a name only: their processes talk by ssh.
    if container is not None and facts.container != "mpi":
        add_port(container, facts.port_name, facts.port)
    return spec


def main_container(pod: PodSpec, name: str) -> Container | None:
    """The container of that name, else the first one; None without containers."""
    containers = pod.containers or []
    return next((each for each in containers if each.name == name), containers[0] if containers else None)


def add_port(container: Container, name: str, number: int) -> None:
    """Give the container the port unless it has one of that name."""
    ports = container.ports or []
    if not any(port.name == name for port in ports):
        container.ports = [*ports, ContainerPort(name=name, container_port=number)]


def elastic_limits(policy: ElasticPolicy | PaddleElasticPolicy, workers: int) -> tuple[int, int]:
    """Fewest and most workers: one limit alone counts for both, none means as many as there are."""
    low, high = policy.min_replicas, policy.max_replicas
    if low is None and high is None:
        return workers, workers
    low = low if low is not None else high or 0
    return low, high if high is not None else low
