"""``trainer.kubeflow.org``: TrainJob and the runtimes that it refers to."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from unisono.api.base import Base, Condition, FreeObject, Int32, IntOrString, Object, ObjectMeta, Required, Time
from unisono.api.core.container import EnvVar, ResourceRequirements
from unisono.api.core.refs import LocalObjectReference
from unisono.api.groups.job_set import JobSetSpec
from unisono.api.groups.topology import NetworkTopologySpec

FIELD_IMMUTABLE = "field is immutable"
_FIXED: dict[str, Any] = {"x-kubernetes-validations": [{"rule": "self == oldSelf", "message": FIELD_IMMUTABLE}]}


class RuntimeRef(Base):
    """The runtime of a TrainJob.

    Attributes:
        name: its name.
        api_group: ``trainer.kubeflow.org`` when absent.
        kind: ClusterTrainingRuntime when absent, or TrainingRuntime.
    """

    name: Required = ""
    api_group: str | None = None
    kind: str | None = None


class AssetInitializer(Base):
    """Where a dataset or a model comes from.

    Attributes:
        storage_uri: such as ``hf://org/name`` or ``s3://bucket/path``.
        env: further variables of the initializer.
        secret_ref: Secret with credentials; its keys become variables.
    """

    storage_uri: str | None = None
    env: list[EnvVar] | None = None
    secret_ref: LocalObjectReference | None = None


class Initializer(Base):
    """What is fetched before the training starts."""

    dataset: AssetInitializer | None = None
    model: AssetInitializer | None = None


class Trainer(Base):
    """What replaces the runtime's own values in the container that trains.

    Attributes:
        image: its image.
        command: its command.
        args: its arguments.
        env: further variables.
        num_nodes: number of pods.
        resources_per_node: resources of each.
        num_proc_per_node: processes on each.
    """

    image: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[EnvVar] | None = None
    num_nodes: Int32 | None = None
    resources_per_node: ResourceRequirements | None = None
    num_proc_per_node: IntOrString | None = None


class RuntimePatch(Base):
    """A change to the runtime's template.

    Attributes:
        manager: who made it.
        time: when.
        training_runtime_spec: the part of the runtime's spec to merge, lists of named things by name.
    """

    manager: Required = ""
    time: Time | None = None
    training_runtime_spec: FreeObject | None = None


class TargetJob(Base):
    """A job of the runtime's template, by its name."""

    name: Required = ""


class PodTemplateOverride(Base):
    """What Trainer 2.1 changes of the pods of some jobs.

    Attributes:
        target_jobs: whose pods; absent for all.
        metadata: labels and annotations to merge.
        spec: the part of the pods' spec to merge, lists of named things by name.
    """

    target_jobs: list[TargetJob] | None = None
    metadata: FreeObject | None = None
    spec: FreeObject | None = None


class PodSpecOverride(Base):
    """The same as Trainer 2.0 writes it: parts of the pods' spec beside the names of the jobs."""

    target_jobs: list[TargetJob] | None = None
    service_account_name: str | None = None
    node_selector: dict[str, str] | None = None
    tolerations: list[FreeObject] | None = None
    volumes: list[FreeObject] | None = None
    init_containers: list[FreeObject] | None = None
    containers: list[FreeObject] | None = None
    scheduling_gates: list[FreeObject] | None = None


class TrainJobSpec(Base):
    """A training job on a runtime.

    Attributes:
        runtime_ref: the runtime.
        initializer: what is fetched first.
        trainer: what replaces the runtime's own values.
        runtime_patches: further changes.
        pod_template_overrides: the same as Trainer 2.1 writes it.
        pod_spec_overrides: the same as Trainer 2.0 writes it.
        labels, annotations: of the JobSet, in Trainer 2.0 and 2.1.
        suspend: take all pods away until it is false again.
        active_deadline_seconds: fail the job when it has been active for so long.
        managed_by: who runs the job.
    """

    runtime_ref: Annotated[RuntimeRef, Meta(extra_json_schema=_FIXED)] = msgspec.field(default_factory=RuntimeRef)
    initializer: Annotated[Initializer, Meta(extra_json_schema=_FIXED)] | None = None
    trainer: Annotated[Trainer, Meta(extra_json_schema=_FIXED)] | None = None
    runtime_patches: list[RuntimePatch] | None = None
    pod_template_overrides: list[PodTemplateOverride] | None = None
    pod_spec_overrides: list[PodSpecOverride] | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    suspend: bool | None = None
    active_deadline_seconds: int | None = None
    managed_by: str | None = None


class TrainJobReplicatedStatus(Base):
    """Jobs of one step by their state."""

    name: Required = ""
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    active: int = 0
    suspended: int = 0


class TrainJobStatus(Base):
    """State of a TrainJob.

    Attributes:
        conditions: Suspended, Complete and Failed.
        jobs_status: by step.
        trainer_status: what the training itself reports.
    """

    conditions: list[Condition] | None = None
    jobs_status: list[TrainJobReplicatedStatus] | None = None
    trainer_status: FreeObject | None = None


class TrainJob(Object):
    """A training job on a runtime."""

    spec: TrainJobSpec = msgspec.field(default_factory=TrainJobSpec)
    status: TrainJobStatus = msgspec.field(default_factory=TrainJobStatus)


class TorchElasticPolicy(Base):
    """Limits of the number of nodes of an elastic job."""

    max_restarts: Int32 | None = None
    min_nodes: Int32 | None = None
    max_nodes: Int32 | None = None
    metrics: list[FreeObject] | None = None


class TorchPolicy(Base):
    """PyTorch with torchrun."""

    num_proc_per_node: IntOrString | None = None
    elastic_policy: TorchElasticPolicy | None = None


class MpiPolicy(Base):
    """MPI over ssh."""

    num_proc_per_node: Int32 | None = None
    mpi_implementation: str | None = None
    ssh_auth_mount_path: str | None = msgspec.field(default=None, name="sshAuthMountPath")
    run_launcher_as_node: bool | None = None


class FluxPolicy(Base):
    """Flux; accepted, not run."""

    num_proc_per_node: IntOrString | None = None


class MLPolicy(Base):
    """How the framework's processes find each other; at most one framework.

    Attributes:
        num_nodes: number of pods of the step that trains.
    """

    num_nodes: Int32 | None = None
    torch: TorchPolicy | None = None
    mpi: MpiPolicy | None = None
    jax: FreeObject | None = None
    xgboost: FreeObject | None = None
    flux: FluxPolicy | None = None


class CoschedulingPolicy(Base):
    """Gangs of scheduler-plugins; here the gang is the same."""

    schedule_timeout_seconds: Int32 | None = None


class VolcanoPolicy(Base):
    """Gangs of Volcano."""

    network_topology: NetworkTopologySpec | None = None


class PodGroupPolicy(Base):
    """How the gang is scheduled."""

    coscheduling: CoschedulingPolicy | None = None
    volcano: VolcanoPolicy | None = None


class JobSetTemplateSpec(Base):
    """The JobSet that a TrainJob becomes."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: JobSetSpec = msgspec.field(default_factory=JobSetSpec)


class TrainingRuntimeSpec(Base):
    """How a framework runs.

    Attributes:
        ml_policy: how processes find each other.
        pod_group_policy: how the gang is scheduled.
        template: the JobSet.
    """

    ml_policy: MLPolicy | None = None
    pod_group_policy: PodGroupPolicy | None = None
    template: JobSetTemplateSpec = msgspec.field(default_factory=JobSetTemplateSpec)


class TrainingRuntime(Object):
    """A runtime for the TrainJobs of its namespace."""

    spec: TrainingRuntimeSpec = msgspec.field(default_factory=TrainingRuntimeSpec)


class ClusterTrainingRuntime(Object):
    """A runtime for all TrainJobs."""

    spec: TrainingRuntimeSpec = msgspec.field(default_factory=TrainingRuntimeSpec)
