"""``apps.kurator.dev``: Application, what is brought to every cluster of a fleet, with the fields of Kurator's kind."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from unisono.api.base import Base, Object
from unisono.api.fields import FreeObject, Int32, ObjectName, Required
from unisono.api.meta import Condition

MOST_POLICIES = 64
MOST_MANIFESTS = 256


class HelmRepository(Base):
    """Charts of a repository (Flux's HelmRepository): ``url`` of HTTP, or of an OCI registry with ``type: oci``."""

    url: Required = ""
    interval: Required = ""
    type: str | None = None
    provider: str | None = None
    secret_ref: FreeObject | None = None
    pass_credentials: bool | None = None
    timeout: str | None = None
    suspend: bool | None = None
    access_from: FreeObject | None = None


class GitRepository(Base):
    """Files of a Git repository (Flux's GitRepository)."""

    url: Required = ""
    interval: Required = ""
    ref: FreeObject | None = None
    secret_ref: FreeObject | None = None
    timeout: str | None = None
    ignore: str | None = None
    suspend: bool | None = None
    recurse_submodules: bool | None = None
    include: list[dict[str, Any]] | None = None
    verify: FreeObject | None = None
    git_implementation: str | None = None
    access_from: FreeObject | None = None


class OciRepository(Base):
    """Files of an OCI artifact (Flux's OCIRepository)."""

    url: Required = ""
    interval: Required = ""
    ref: FreeObject | None = None
    layer_selector: FreeObject | None = None
    provider: str | None = None
    secret_ref: FreeObject | None = None
    cert_secret_ref: FreeObject | None = None
    service_account_name: str | None = None
    insecure: bool | None = None
    timeout: str | None = None
    ignore: str | None = None
    suspend: bool | None = None
    verify: FreeObject | None = None


class ApplicationSource(Base):
    """Where the objects come from: exactly one of its fields.

    Attributes:
        manifests: the objects themselves; Unisono's own addition.

    """

    helm_repository: HelmRepository | None = None
    git_repository: GitRepository | None = None
    oci_repository: OciRepository | None = None
    manifests: Annotated[list[dict[str, Any]], Meta(extra_json_schema={"maxItems": MOST_MANIFESTS})] | None = None


class ClusterSelector(Base):
    """Members of the fleet by their labels."""

    match_labels: dict[str, str] | None = None


class ApplicationDestination(Base):
    """Clusters that get the objects.

    Attributes:
        fleet: name of a Fleet in the namespace of the Application.
        cluster_selector: some of its members; all without it.

    """

    fleet: Annotated[str, Meta(extra={"required": True})] = ""
    cluster_selector: ClusterSelector | None = None


class ChartSpec(Base):
    """Which chart of the repository."""

    chart: Required = ""
    version: str | None = None
    interval: str | None = None
    reconcile_strategy: str | None = None
    values_files: list[str] | None = None


class Chart(Base):
    """A chart, in the form of Flux's template."""

    metadata: FreeObject | None = None
    spec: ChartSpec = msgspec.field(default_factory=ChartSpec)


class HelmPolicy(Base):
    """A release of a chart (Flux's HelmRelease).

    Attributes:
        values: the chart's values.

    """

    chart: Chart = msgspec.field(default_factory=Chart)
    interval: Required = ""
    release_name: Annotated[str, Meta(extra_json_schema={"maxLength": 53})] | None = None
    target_namespace: ObjectName | None = None
    storage_namespace: ObjectName | None = None
    depends_on: list[dict[str, Any]] | None = None
    timeout: str | None = None
    max_history: Int32 | None = None
    service_account_name: str | None = None
    persistent_client: bool | None = None
    install: FreeObject | None = None
    upgrade: FreeObject | None = None
    rollback: FreeObject | None = None
    uninstall: FreeObject | None = None
    values_from: list[dict[str, Any]] | None = None
    values: FreeObject | None = None
    suspend: bool | None = None


class KustomizationPolicy(Base):
    """A folder of the source (Flux's Kustomization)."""

    interval: str | None = None
    prune: bool | None = None
    path: str | None = None
    target_namespace: ObjectName | None = None
    patches: list[dict[str, Any]] | None = None
    images: list[dict[str, Any]] | None = None
    depends_on: list[dict[str, Any]] | None = None
    timeout: str | None = None
    retry_interval: str | None = None
    suspend: bool | None = None
    force: bool | None = None
    components: list[str] | None = None
    common_metadata: FreeObject | None = None


class SyncPolicy(Base):
    """What goes where: a chart, a folder, or with inline manifests neither."""

    name: str | None = None
    destination: ApplicationDestination | None = None
    helm: HelmPolicy | None = None
    kustomization: KustomizationPolicy | None = None
    rollout: FreeObject | None = None


class ApplicationSpec(Base):
    """What is brought to the clusters of a fleet.

    Attributes:
        source: where it comes from.
        sync_policies: what of it goes where.
        destination: for policies that name none.

    """

    source: ApplicationSource = msgspec.field(default_factory=ApplicationSource)
    sync_policies: (
        Annotated[list[SyncPolicy], Meta(extra_json_schema={"maxItems": MOST_POLICIES}, extra={"required": True})]
        | None
    ) = None
    destination: ApplicationDestination | None = None


class ClusterSyncStatus(Base):
    """How one cluster fares.

    Attributes:
        cluster: the member.
        policy: name of the policy, or its number.
        synced: whether it has the objects.
        objects: how many.
        message: why it has not.

    """

    cluster: str | None = None
    policy: str | None = None
    synced: bool | None = None
    objects: Int32 | None = None
    message: str | None = None


class ApplicationStatus(Base):
    """State of an Application.

    Attributes:
        conditions: Ready, once every cluster has everything.
        clusters: result per cluster and policy.
        source_status, sync_status: as Kurator's controllers write them.

    """

    conditions: list[Condition] | None = None
    clusters: list[ClusterSyncStatus] | None = None
    source_status: FreeObject | None = None
    sync_status: list[dict[str, Any]] | None = None
    observed_generation: int | None = None


class Application(Object):
    """Objects for every cluster of a fleet."""

    spec: ApplicationSpec = msgspec.field(default_factory=ApplicationSpec)
    status: ApplicationStatus = msgspec.field(default_factory=ApplicationStatus)
