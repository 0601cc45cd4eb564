"""``ray.io``: RayService, applications of Ray Serve on a cluster of their own."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from unisono.api.base import Base, Object
from unisono.api.fields import FreeObject, Int32, Natural, Time
from unisono.api.meta import Condition
from unisono.api.ray import RayClusterSpec, RayClusterStatus

NEW_CLUSTER, NO_UPGRADE, INCREMENTAL = "NewCluster", "None", "NewClusterWithIncrementalUpgrade"


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
