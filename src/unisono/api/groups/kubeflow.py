"""``kubeflow.org``: the training jobs of PyTorch, TensorFlow, MPI, XGBoost, Paddle and JAX."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from unisono.api.base import Base, FreeObject, Int32, LabelSelector, Object, Required, ResourceList, Time
from unisono.api.core.pod import PodTemplateSpec

QUEUE_IMMUTABLE = "spec.runPolicy.schedulingPolicy.queue is immutable"

_FixedQueue = Annotated[
    str, Meta(extra_json_schema={"x-kubernetes-validations": [{"rule": "self == oldSelf", "message": QUEUE_IMMUTABLE}]})
]


class SchedulingPolicy(Base):
    """How the gang of the job is scheduled.

    Attributes:
        min_available: pods that must run together; all of them when absent.
        queue: where the gang waits; cannot be changed.
        min_resources: resources that the queue must have; those of the smallest gang when absent.
        priority_class: priority of the gang.
        schedule_timeout_seconds: accepted; a gang that waits holds nothing, so nothing has to time out.
    """

    min_available: Int32 | None = None
    queue: _FixedQueue | None = None
    min_resources: ResourceList | None = None
    priority_class: str | None = None
    schedule_timeout_seconds: Int32 | None = None


class RunPolicy(Base):
    """How long a job may run and what stays of it.

    Attributes:
        clean_pod_policy: pods that go when the job has finished: All, Running or None.
        ttl_seconds_after_finished: delete the job so long after its end.
        active_deadline_seconds: fail the job when it has been active for so long.
        backoff_limit: restarts after which the job fails.
        scheduling_policy: how the gang is scheduled.
        suspend: take all pods away until it is false again.
        managed_by: who runs the job; others than this control plane make it leave the job alone.
    """

    clean_pod_policy: str | None = None
    ttl_seconds_after_finished: Int32 | None = None
    active_deadline_seconds: int | None = None
    backoff_limit: Int32 | None = None
    scheduling_policy: SchedulingPolicy | None = None
    suspend: bool | None = None
    managed_by: str | None = None


class ReplicaSpec(Base):
    """The pods of one role.

    Attributes:
        replicas: number of pods; 1 when absent, except for the workers of an MPIJob.
        template: the pod; its restart policy is replaced by the one beside it.
        restart_policy: Always, OnFailure, Never, or ExitCode: codes from 128 on are tried again.
    """

    replicas: Int32 | None = None
    template: PodTemplateSpec = msgspec.field(default_factory=PodTemplateSpec)
    restart_policy: str | None = None


ReplicaSpecs = dict[str, ReplicaSpec]


class TrainingSpec(RunPolicy):
    """What every training job has: the run policy, whose fields may also stand in the spec itself.

    Attributes:
        run_policy: the official place; it wins over the same field beside it.
    """

    run_policy: RunPolicy | None = None


class RdzvConf(Base):
    """A setting of the rendezvous."""

    key: str | None = None
    value: str | None = None


class ElasticPolicy(Base):
    """A job whose number of workers may change while it runs.

    Attributes:
        min_replicas: fewest workers.
        max_replicas: most workers.
        rdzv_backend: c10d, etcd or etcd-v2.
        rdzv_port: port of the rendezvous.
        rdzv_host: host of the rendezvous; worker 0 when absent.
        rdzv_id: name of the rendezvous.
        rdzv_conf: further settings of the rendezvous.
        standalone: start a rendezvous of its own on each node.
        n_proc_per_node: deprecated, use spec.nprocPerNode.
        max_restarts: restarts of the worker group by torchrun.
        metrics: metrics of autoscaling/v2 by which a HorizontalPodAutoscaler changes the number of workers.
    """

    min_replicas: Int32 | None = None
    max_replicas: Int32 | None = None
    rdzv_backend: str | None = None
    rdzv_port: Int32 | None = None
    rdzv_host: str | None = None
    rdzv_id: str | None = None
    rdzv_conf: list[RdzvConf] | None = None
    standalone: bool | None = None
    n_proc_per_node: Int32 | None = msgspec.field(default=None, name="nProcPerNode")
    max_restarts: Int32 | None = None
    metrics: list[FreeObject] | None = None


class PaddleElasticPolicy(Base):
    """Limits of the number of workers."""

    min_replicas: Int32 | None = None
    max_replicas: Int32 | None = None
    max_restarts: Int32 | None = None
    metrics: list[FreeObject] | None = None


class PyTorchJobSpec(TrainingSpec):
    """A PyTorch job.

    Attributes:
        elastic_policy: the number of workers may change.
        pytorch_replica_specs: roles Master and Worker.
        nproc_per_node: processes of torchrun on each node: auto, cpu, gpu or a number.
    """

    elastic_policy: ElasticPolicy | None = None
    pytorch_replica_specs: ReplicaSpecs | None = None
    nproc_per_node: str | None = None


class TFJobSpec(TrainingSpec):
    """A TensorFlow job.

    Attributes:
        success_policy: empty, or AllWorkers.
        tf_replica_specs: roles PS, Worker, Chief, Master and Evaluator.
        enable_dynamic_worker: workers may come and go.
    """

    success_policy: str | None = None
    tf_replica_specs: ReplicaSpecs | None = None
    enable_dynamic_worker: bool | None = None


class XGBoostJobSpec(TrainingSpec):
    """An XGBoost or LightGBM job; roles Master and Worker."""

    xgb_replica_specs: ReplicaSpecs | None = None


class PaddleJobSpec(TrainingSpec):
    """A PaddlePaddle job; roles Master and Worker."""

    elastic_policy: PaddleElasticPolicy | None = None
    paddle_replica_specs: ReplicaSpecs | None = None


class JAXJobSpec(TrainingSpec):
    """A JAX job; role Worker."""

    jax_replica_specs: ReplicaSpecs | None = None


class MPIJobSpec(TrainingSpec):
    """An MPI job, with the fields of ``v1`` and of ``v2beta1``.

    Attributes:
        slots_per_worker: processes on each worker.
        main_container: v1 only; name of the container that runs the processes.
        mpi_replica_specs: roles Launcher and Worker.
        run_launcher_as_worker: v2beta1 only; the launcher is a host of its own job.
        ssh_auth_mount_path: v2beta1 only; where the keys are; /root/.ssh when absent.
        launcher_creation_policy: v2beta1 only; AtStartup or WaitForWorkersReady.
        mpi_implementation: v2beta1 only; OpenMPI, Intel or MPICH.
    """

    slots_per_worker: Int32 | None = None
    main_container: str | None = None
    mpi_replica_specs: ReplicaSpecs | None = None
    run_launcher_as_worker: bool | None = None
    ssh_auth_mount_path: str | None = msgspec.field(default=None, name="sshAuthMountPath")
    launcher_creation_policy: str | None = None
    mpi_implementation: str | None = None


class TrainingCondition(Base):
    """Types are Created, Running, Restarting, Suspended, Succeeded and Failed."""

    type: Required = ""
    status: Required = ""
    reason: str | None = None
    message: str | None = None
    last_update_time: Time | None = None
    last_transition_time: Time | None = None


class ReplicaStatus(Base):
    """Pods of one role by their state.

    Attributes:
        active: pods that run.
        succeeded: pods that succeeded.
        failed: pods that failed.
        label_selector: deprecated, see selector.
        selector: label selector of the pods, for the scale subresource.
    """

    active: Int32 | None = None
    succeeded: Int32 | None = None
    failed: Int32 | None = None
    label_selector: LabelSelector | None = None
    selector: str | None = None


class TrainingStatus(Base):
    """State of a training job.

    Attributes:
        conditions: in the order in which they last changed; the last one is the job's state.
        replica_statuses: by role.
        start_time: since when it is active; the time of the last resumption.
        completion_time: when it ended.
        last_reconcile_time: kept for clients; not written.
    """

    conditions: list[TrainingCondition] | None = None
    replica_statuses: dict[str, ReplicaStatus] | None = None
    start_time: Time | None = None
    completion_time: Time | None = None
    last_reconcile_time: Time | None = None


class PyTorchJob(Object):
    """A distributed PyTorch job."""

    spec: PyTorchJobSpec = msgspec.field(default_factory=PyTorchJobSpec)
    status: TrainingStatus = msgspec.field(default_factory=TrainingStatus)


class TFJob(Object):
    """A distributed TensorFlow job."""

    spec: TFJobSpec = msgspec.field(default_factory=TFJobSpec)
    status: TrainingStatus = msgspec.field(default_factory=TrainingStatus)


class MPIJob(Object):
    """A job of a launcher and workers that talk MPI."""

    spec: MPIJobSpec = msgspec.field(default_factory=MPIJobSpec)
    status: TrainingStatus = msgspec.field(default_factory=TrainingStatus)


class XGBoostJob(Object):
    """A distributed XGBoost or LightGBM job."""

    spec: XGBoostJobSpec = msgspec.field(default_factory=XGBoostJobSpec)
    status: TrainingStatus = msgspec.field(default_factory=TrainingStatus)


class PaddleJob(Object):
    """A distributed PaddlePaddle job."""

    spec: PaddleJobSpec = msgspec.field(default_factory=PaddleJobSpec)
    status: TrainingStatus = msgspec.field(default_factory=TrainingStatus)


class JAXJob(Object):
    """A distributed JAX job."""

    spec: JAXJobSpec = msgspec.field(default_factory=JAXJobSpec)
    status: TrainingStatus = msgspec.field(default_factory=TrainingStatus)


AnyTrainingJob = PyTorchJob | TFJob | MPIJob | XGBoostJob | PaddleJob | JAXJob
