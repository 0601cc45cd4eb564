"""``ray.io``: RayCluster and RayJob."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from unisono.api.base import Base, Condition, FreeObject, Int32, Natural, Object, Quantity, Required, Time
from unisono.api.core.pod import PodTemplateSpec

NEW_CLUSTER, NO_UPGRADE, INCREMENTAL = "NewCluster", "None", "NewClusterWithIncrementalUpgrade"


class RayHeadGroupSpec(Base):
    """The head of a Ray cluster.

    Attributes:
        service_type: type of the head's Service; a headless one when absent.
        head_service: metadata and spec to merge into the head's Service.
        enable_ingress: accepted.
        resources: what Ray is told instead of the container's; before ``ray_start_params``.
        labels: labels of the pods, and those that Ray is told; before ``ray_start_params``.
        ray_start_params: parameters of ``ray start``.
        template: the pod.
    """

    service_type: str | None = None
    head_service: FreeObject | None = None
    enable_ingress: bool | None = None
    resources: dict[str, str] | None = None
    labels: dict[str, str] | None = None
    ray_start_params: dict[str, str] | None = None
    template: PodTemplateSpec = msgspec.field(default_factory=PodTemplateSpec)


class ScaleStrategy(Base):
    """Pods to remove first."""

    workers_to_delete: list[str] | None = None


class RayWorkerGroupSpec(Base):
    """Equal workers of a Ray cluster.

    Attributes:
        group_name: part of the pods' names.
        suspend: the group has no pods.
        replicas: number of replicas.
        min_replicas: at least so many.
        max_replicas: at most so many.
        num_of_hosts: pods of each replica; 1 when absent.
        idle_timeout_seconds: accepted; Ray's own autoscaler reads it.
        resources: what Ray is told instead of the container's; before ``ray_start_params``.
        labels: labels of the pods, and those that Ray is told; before ``ray_start_params``.
        ray_start_params: parameters of ``ray start``.
        template: the pod.
        scale_strategy: pods to remove first.
    """

    group_name: Required = ""
    suspend: bool | None = None
    replicas: Int32 | None = None
    min_replicas: Int32 | None = None
    max_replicas: Int32 | None = None
    num_of_hosts: Int32 | None = None
    idle_timeout_seconds: Int32 | None = None
    resources: dict[str, str] | None = None
    labels: dict[str, str] | None = None
    ray_start_params: dict[str, str] | None = None
    template: PodTemplateSpec = msgspec.field(default_factory=PodTemplateSpec)
    scale_strategy: ScaleStrategy | None = None


class RayClusterSpec(Base):
    """A Ray cluster.

    Attributes:
        suspend: take all pods away until it is false again.
        managed_by: who runs the cluster.
        autoscaler_options: accepted; Ray's own autoscaler is not run.
        head_service_annotations: of the head's Service.
        enable_in_tree_autoscaling: the gang then needs the fewest workers only; Ray's autoscaler itself is not run.
        gcs_fault_tolerance_options: accepted.
        auth_options: accepted.
        tls_options: accepted.
        network_policy: accepted.
        history_server_options: accepted.
        head_group_spec: the head.
        ray_version: accepted.
        worker_group_specs: the workers.
    """

    suspend: bool | None = None
    managed_by: str | None = None
    autoscaler_options: FreeObject | None = None
    head_service_annotations: dict[str, str] | None = None
    enable_in_tree_autoscaling: bool | None = None
    gcs_fault_tolerance_options: FreeObject | None = None
    auth_options: FreeObject | None = None
    tls_options: FreeObject | None = None
    network_policy: FreeObject | None = None
    history_server_options: FreeObject | None = None
    head_group_spec: RayHeadGroupSpec = msgspec.field(default_factory=RayHeadGroupSpec)
    ray_version: str | None = None
    worker_group_specs: list[RayWorkerGroupSpec] | None = None


class RayHeadInfo(Base):
    """Where the head is."""

    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    pod_name: str | None = None
    service_ip: str | None = msgspec.field(default=None, name="serviceIP")
    service_name: str | None = None


class RayClusterStatus(Base):
    """State of a Ray cluster.

    Attributes:
        state: ready, failed or suspended.
        endpoints: ports of the head's Service by name.
    """

    state: str | None = None
    desired_cpu: Quantity | None = msgspec.field(default=None, name="desiredCPU")
    desired_memory: Quantity | None = None
    desired_gpu: Quantity | None = msgspec.field(default=None, name="desiredGPU")
    desired_tpu: Quantity | None = msgspec.field(default=None, name="desiredTPU")
    last_update_time: Time | None = None
    state_transition_times: dict[str, Time] | None = None
    endpoints: dict[str, str] | None = None
    head: RayHeadInfo | None = None
    reason: str | None = None
    conditions: list[Condition] | None = None
    ready_worker_replicas: Int32 | None = None
    available_worker_replicas: Int32 | None = None
    desired_worker_replicas: Int32 | None = None
    min_worker_replicas: Int32 | None = None
    max_worker_replicas: Int32 | None = None
    observed_generation: int | None = None


class RayCluster(Object):
    """A head and workers of Ray."""

    spec: RayClusterSpec = msgspec.field(default_factory=RayClusterSpec)
    status: RayClusterStatus = msgspec.field(default_factory=RayClusterStatus)


class SubmitterConfig(Base):
    """How often the submission is tried again."""

    backoff_limit: Natural | None = None


class RayJobSpec(Base):
    """A job on a Ray cluster of its own.

    Attributes:
        active_deadline_seconds: fail the job when it has been active for so long.
        pre_running_deadline_seconds: fail the job when it has not begun to run after so long.
        backoff_limit: new tries, each on a new cluster.
        ray_cluster_spec: the cluster.
        submitter_pod_template: template of the pod that runs ``ray job submit``; its schema is left open, for with a
            third pod in it the definition would be too large for kubectl apply.
        metadata: data to store along with the job.
        cluster_selector: labels of a cluster that is there already.
        submitter_config: how often the submission is tried again.
        managed_by: who runs the job.
        deletion_strategy: accepted.
        entrypoint: the command to run.
        runtime_env_yaml: Ray's runtime environment as YAML.
        job_id: submission id; made up when absent.
        submission_mode: K8sJobMode and HTTPMode (a pod submits), SidecarMode (a container of the head submits), or
            InteractiveMode (the user does).
        entrypoint_resources: resources of the entrypoint as JSON.
        entrypoint_num_cpus: its CPUs.
        entrypoint_num_gpus: its GPUs.
        ttl_seconds_after_finished: delete the cluster so long after the end, with shutdownAfterJobFinishes.
        shutdown_after_job_finishes: delete the cluster in the end.
        suspend: take the cluster away until it is false again.
    """

    active_deadline_seconds: Int32 | None = None
    pre_running_deadline_seconds: Int32 | None = None
    backoff_limit: Natural | None = None
    ray_cluster_spec: RayClusterSpec | None = None
    submitter_pod_template: FreeObject | None = None
    metadata: dict[str, str] | None = None
    cluster_selector: dict[str, str] | None = None
    submitter_config: SubmitterConfig | None = None
    managed_by: str | None = None
    deletion_strategy: FreeObject | None = None
    entrypoint: str | None = None
    runtime_env_yaml: str | None = msgspec.field(default=None, name="runtimeEnvYAML")
    job_id: str | None = None
    submission_mode: (
        Annotated[str, Meta(extra_json_schema={"enum": ["K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"]})]
        | None
    ) = None
    entrypoint_resources: str | None = None
    entrypoint_num_cpus: Any = None
    entrypoint_num_gpus: Any = None
    ttl_seconds_after_finished: Natural | None = None
    shutdown_after_job_finishes: bool | None = None
    suspend: bool | None = None


class RayJobStatusInfo(Base):
    """When the submitted job began and ended."""

    start_time: Time | None = None
    end_time: Time | None = None


class RayJobStatus(Base):
    """State of a RayJob.

    Attributes:
        job_status: PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED.
        job_deployment_status: Initializing, Running, Complete, Failed, Suspending, Suspended, Retrying or
            ValidationFailed.
        reason: why it failed.
    """

    ray_job_info: RayJobStatusInfo | None = None
    job_id: str | None = None
    ray_cluster_name: str | None = None
    dashboard_url: str | None = msgspec.field(default=None, name="dashboardURL")
    job_status: str | None = None
    job_deployment_status: str | None = None
    reason: str | None = None
    message: str | None = None
    start_time: Time | None = None
    end_time: Time | None = None
    succeeded: Int32 | None = None
    failed: Int32 | None = None
    ray_cluster_status: RayClusterStatus | None = None
    observed_generation: int | None = None


class RayJob(Object):
    """A job on a Ray cluster of its own."""

    spec: RayJobSpec = msgspec.field(default_factory=RayJobSpec)
    status: RayJobStatus = msgspec.field(default_factory=RayJobStatus)


class RayServiceUpgradeStrategy(Base):
    """What a changed cluster means for the one that serves.

    Attributes:
        type: NewCluster: a second cluster takes over when it serves; NewClusterWithIncrementalUpgrade: the same here,
            for traffic is not moved in steps; None: the cluster stays as it was made.
        cluster_upgrade_options: accepted.
    """

    type: Annotated[str, Meta(extra_json_schema={"enum": [NEW_CLUSTER, INCREMENTAL, NO_UPGRADE]})] | None = None
    cluster_upgrade_options: FreeObject | None = None


class RayServiceSpec(Base):
    """Applications, and the cluster that serves them.

    Attributes:
        service_unhealthy_second_threshold: accepted; it has no effect in KubeRay either.
        deployment_unhealthy_second_threshold: accepted; it has no effect in KubeRay either.
        serve_service: metadata and spec to merge into the Service of the applications; its schema is left open.
        upgrade_strategy: what a changed cluster means.
        serve_config_v2: the applications, Ray Serve's own configuration as YAML; a change is brought to the cluster
            that serves.
        ray_cluster_config: the cluster.
        exclude_head_pod_from_serve_svc: requests go to workers only.
        ray_cluster_deletion_delay_seconds: how long a cluster that was replaced stays; 60 when absent.
        managed_by: who runs the service.
    """

    service_unhealthy_second_threshold: Int32 | None = None
    deployment_unhealthy_second_threshold: Int32 | None = None
    serve_service: FreeObject | None = None
    upgrade_strategy: RayServiceUpgradeStrategy | None = None
    serve_config_v2: str | None = msgspec.field(default=None, name="serveConfigV2")
    ray_cluster_config: RayClusterSpec = msgspec.field(default_factory=RayClusterSpec)
    exclude_head_pod_from_serve_svc: bool | None = None
    ray_cluster_deletion_delay_seconds: Natural | None = None
    managed_by: str | None = None


class ServeDeploymentStatus(Base):
    """State of one deployment of an application, in Ray Serve's words."""

    status: str | None = None
    message: str | None = None


class AppStatus(Base):
    """State of one application, in Ray Serve's words: DEPLOYING, RUNNING, DEPLOY_FAILED, UNHEALTHY, ..."""

    status: str | None = None
    message: str | None = None
    serve_deployment_statuses: dict[str, ServeDeploymentStatus] | None = None


class RayServiceClusterStatus(Base):
    """A cluster of the service: the one that serves, or the one that will."""

    application_statuses: dict[str, AppStatus] | None = None
    ray_cluster_name: str | None = None
    ray_cluster_status: RayClusterStatus | None = None


class RayServiceStatus(Base):
    """State of a RayService.

    Attributes:
        service_status: Running, once requests are answered.
        active_service_status: the cluster that serves.
        pending_service_status: the cluster that is to take over.
        num_serve_endpoints: pods that requests go to.
    """

    conditions: list[Condition] | None = None
    last_update_time: Time | None = None
    service_status: str | None = None
    active_service_status: RayServiceClusterStatus | None = None
    pending_service_status: RayServiceClusterStatus | None = None
    num_serve_endpoints: Int32 | None = None
    observed_generation: int | None = None


class RayService(Object):
    """Applications of Ray Serve on a cluster of their own."""

    spec: RayServiceSpec = msgspec.field(default_factory=RayServiceSpec)
    status: RayServiceStatus = msgspec.field(default_factory=RayServiceStatus)
