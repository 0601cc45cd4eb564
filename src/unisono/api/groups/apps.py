"""``apps/v1``: Deployment, ReplicaSet, StatefulSet, DaemonSet and ControllerRevision."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, FreeObject, Int32, IntOrString, LabelSelector, Object, Required, Time
from unisono.api.core.pod import PodTemplateSpec
from unisono.api.core.volume import PersistentVolumeClaim


class WorkloadCondition(Base):
    """A condition of a ReplicaSet, ReplicationController, StatefulSet or DaemonSet."""

    type: Required = ""
    status: Required = ""
    last_transition_time: Time | None = None
    reason: str | None = None
    message: str | None = None


class DeploymentCondition(WorkloadCondition):
    """A condition of a Deployment: it also tells when it was last looked at."""

    last_update_time: Time | None = None


class RollingUpdateDeployment(Base):
    """How many pods more, and how many less, a rolling update may have: numbers, or percentages of the replicas."""

    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None


class DeploymentStrategy(Base):
    """RollingUpdate, or Recreate: all old pods end before the first new one starts."""

    type: str | None = None
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(Base):
    """Equal pods that are replaced step by step when their template changes.

    Attributes:
        replicas: wanted pods.
        selector: which pods belong to the Deployment; cannot be changed.
        template: the pod.
        strategy: how a change of the template is brought out.
        min_ready_seconds: a pod counts as available when it was ready for so long.
        revision_history_limit: old ReplicaSets that are kept to go back to.
        paused: changes of the template wait.
        progress_deadline_seconds: without progress for so long the Deployment counts as stuck.
    """

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = msgspec.field(default_factory=PodTemplateSpec)
    strategy: DeploymentStrategy = msgspec.field(default_factory=DeploymentStrategy)
    min_ready_seconds: Int32 | None = None
    revision_history_limit: Int32 | None = None
    paused: bool | None = None
    progress_deadline_seconds: Int32 | None = None


class DeploymentStatus(Base):
    """Pods of all ReplicaSets of a Deployment; ``updated`` ones have the present template."""

    observed_generation: int | None = None
    replicas: Int32 | None = None
    updated_replicas: Int32 | None = None
    ready_replicas: Int32 | None = None
    available_replicas: Int32 | None = None
    unavailable_replicas: Int32 | None = None
    terminating_replicas: Int32 | None = None
    conditions: list[DeploymentCondition] | None = None
    collision_count: Int32 | None = None


class Deployment(Object):
    """Equal pods that are replaced step by step when their template changes."""

    spec: DeploymentSpec = msgspec.field(default_factory=DeploymentSpec)
    status: DeploymentStatus = msgspec.field(default_factory=DeploymentStatus)


class ReplicaSetSpec(Base):
    """A number of equal pods."""

    replicas: Int32 | None = None
    min_ready_seconds: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = msgspec.field(default_factory=PodTemplateSpec)


class ReplicaSetStatus(Base):
    """Pods of a ReplicaSet; fully labelled ones have all labels of the template."""

    replicas: Int32 | None = None
    fully_labeled_replicas: Int32 | None = None
    ready_replicas: Int32 | None = None
    available_replicas: Int32 | None = None
    terminating_replicas: Int32 | None = None
    observed_generation: int | None = None
    conditions: list[WorkloadCondition] | None = None


class ReplicaSet(Object):
    """A number of equal pods."""

    spec: ReplicaSetSpec = msgspec.field(default_factory=ReplicaSetSpec)
    status: ReplicaSetStatus = msgspec.field(default_factory=ReplicaSetStatus)


class RollingUpdateStatefulSetStrategy(Base):
    """Pods with an ordinal below the partition keep the old template."""

    partition: Int32 | None = None
    max_unavailable: IntOrString | None = None


class StatefulSetUpdateStrategy(Base):
    """RollingUpdate, or OnDelete: a pod gets the new template when a user deletes it."""

    type: str | None = None
    rolling_update: RollingUpdateStatefulSetStrategy | None = None


class StatefulSetPersistentVolumeClaimRetentionPolicy(Base):
    """Retain or Delete the claims of pods: when the set is deleted, and when it is scaled down."""

    when_deleted: str | None = None
    when_scaled: str | None = None


class StatefulSetOrdinals(Base):
    """The number of the first pod."""

    start: Int32 | None = None


class StatefulSetSpec(Base):
    """Numbered pods, each with a name and claims of its own that stay when the pod is replaced.

    Attributes:
        replicas: wanted pods.
        selector: which pods belong to the set; cannot be changed.
        template: the pod.
        volume_claim_templates: claims that every pod gets.
        service_name: the service that the pods' host names belong to.
        pod_management_policy: OrderedReady (one after the other) or Parallel.
        update_strategy: how a change of the template is brought out.
        revision_history_limit: old revisions that are kept to go back to.
        min_ready_seconds: a pod counts as available when it was ready for so long.
        persistent_volume_claim_retention_policy: what happens to the claims.
        ordinals: the number of the first pod.
    """

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = msgspec.field(default_factory=PodTemplateSpec)
    volume_claim_templates: list[PersistentVolumeClaim] | None = None
    service_name: str | None = None
    pod_management_policy: str | None = None
    update_strategy: StatefulSetUpdateStrategy = msgspec.field(default_factory=StatefulSetUpdateStrategy)
    revision_history_limit: Int32 | None = None
    min_ready_seconds: Int32 | None = None
    persistent_volume_claim_retention_policy: StatefulSetPersistentVolumeClaimRetentionPolicy | None = None
    ordinals: StatefulSetOrdinals | None = None


class StatefulSetStatus(Base):
    """Pods of a set by revision."""

    observed_generation: int | None = None
    replicas: Int32 | None = None
    ready_replicas: Int32 | None = None
    current_replicas: Int32 | None = None
    updated_replicas: Int32 | None = None
    current_revision: str | None = None
    update_revision: str | None = None
    collision_count: Int32 | None = None
    conditions: list[WorkloadCondition] | None = None
    available_replicas: Int32 | None = None


class StatefulSet(Object):
    """Numbered pods, each with a name and claims of its own."""

    spec: StatefulSetSpec = msgspec.field(default_factory=StatefulSetSpec)
    status: StatefulSetStatus = msgspec.field(default_factory=StatefulSetStatus)


class RollingUpdateDaemonSet(Base):
    """On how many nodes at once the pod may be missing, or be there twice, during an update."""

    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None


class DaemonSetUpdateStrategy(Base):
    """RollingUpdate, or OnDelete: a pod gets the new template when a user deletes it."""

    type: str | None = None
    rolling_update: RollingUpdateDaemonSet | None = None


class DaemonSetSpec(Base):
    """One pod on every node that the template fits."""

    selector: LabelSelector | None = None
    template: PodTemplateSpec = msgspec.field(default_factory=PodTemplateSpec)
    update_strategy: DaemonSetUpdateStrategy = msgspec.field(default_factory=DaemonSetUpdateStrategy)
    min_ready_seconds: Int32 | None = None
    revision_history_limit: Int32 | None = None


class DaemonSetStatus(Base):
    """Nodes by what their pod does; misscheduled nodes have one that should not be there."""

    current_number_scheduled: Int32 | None = None
    number_misscheduled: Int32 | None = None
    desired_number_scheduled: Int32 | None = None
    number_ready: Int32 | None = None
    observed_generation: int | None = None
    updated_number_scheduled: Int32 | None = None
    number_available: Int32 | None = None
    number_unavailable: Int32 | None = None
    collision_count: Int32 | None = None
    conditions: list[WorkloadCondition] | None = None


class DaemonSet(Object):
    """One pod on every node that the template fits."""

    spec: DaemonSetSpec = msgspec.field(default_factory=DaemonSetSpec)
    status: DaemonSetStatus = msgspec.field(default_factory=DaemonSetStatus)


class ControllerRevision(Object):
    """A template that a StatefulSet or DaemonSet had; ``data`` cannot be changed."""

    data: FreeObject | None = None
    revision: int = 0


# ReplicationController, the older form of a ReplicaSet.


class ReplicationControllerSpec(Base):
    """How many pods of which template."""

    replicas: Int32 | None = None
    min_ready_seconds: Int32 | None = None
    selector: dict[str, str] | None = None
    template: PodTemplateSpec | None = None


class ReplicationControllerStatus(Base):
    """How many pods there are."""

    replicas: Int32 | None = None
    fully_labeled_replicas: Int32 | None = None
    ready_replicas: Int32 | None = None
    available_replicas: Int32 | None = None
    observed_generation: int | None = None
    conditions: list[WorkloadCondition] | None = None


class ReplicationController(Object):
    """A number of equal pods."""

    spec: ReplicationControllerSpec = msgspec.field(default_factory=ReplicationControllerSpec)
    status: ReplicationControllerStatus = msgspec.field(default_factory=ReplicationControllerStatus)
