"""Kinds by family, as constants; ``api.kinds`` lists them with all others."""

from __future__ import annotations

from typing import Any

from unisono.api import keda, knative
from unisono.api.core import service
from unisono.api.groups import (
    apps,
    autoscaling,
    batch,
    batch_v1,
    fleet,
    flow,
    job_set,
    kubeflow,
    propagation,
    ray,
    trainer,
    workload,
)
from unisono.api.kind import Kind, Scale

# The kinds that make a fleet of clusters; ``api.kinds`` lists them.

ATTACHED_CLUSTERS: Kind[fleet.AttachedCluster] = Kind(
    "cluster.kurator.dev",
    "v1alpha1",
    "AttachedCluster",
    "attachedclusters",
    fleet.AttachedCluster,
    categories=("kurator-dev",),
    status_subresource=True,
)
FLEETS: Kind[fleet.Fleet] = Kind(
    "fleet.kurator.dev",
    "v1alpha1",
    "Fleet",
    "fleets",
    fleet.Fleet,
    categories=("kurator-dev",),
    status_subresource=True,
)
APPLICATIONS: Kind[fleet.Application] = Kind(
    "apps.kurator.dev",
    "v1alpha1",
    "Application",
    "applications",
    fleet.Application,
    categories=("kurator-dev",),
    status_subresource=True,
)

PROPAGATION_POLICIES: Kind[propagation.PropagationPolicy] = Kind(
    "policy.karmada.io",
    "v1alpha1",
    "PropagationPolicy",
    "propagationpolicies",
    propagation.PropagationPolicy,
    short_names=("pp",),
    categories=("karmada-io",),
)
CLUSTER_PROPAGATION_POLICIES: Kind[propagation.ClusterPropagationPolicy] = Kind(
    "policy.karmada.io",
    "v1alpha1",
    "ClusterPropagationPolicy",
    "clusterpropagationpolicies",
    propagation.ClusterPropagationPolicy,
    namespaced=False,
    short_names=("cpp",),
    categories=("karmada-io",),
)
DATA_SOURCES: Kind[propagation.DataSource] = Kind(
    "datadependency.volcano.sh",
    "v1alpha1",
    "DataSource",
    "datasources",
    propagation.DataSource,
    namespaced=False,
    status_subresource=True,
)
DATA_SOURCE_CLAIMS: Kind[propagation.DataSourceClaim] = Kind(
    "datadependency.volcano.sh",
    "v1alpha1",
    "DataSourceClaim",
    "datasourceclaims",
    propagation.DataSourceClaim,
    status_subresource=True,
)

FLEET_KINDS: tuple[Kind[Any], ...] = (ATTACHED_CLUSTERS, FLEETS, APPLICATIONS)

PLACEMENT_KINDS: tuple[Kind[Any], ...] = (
    PROPAGATION_POLICIES,
    CLUSTER_PROPAGATION_POLICIES,
    DATA_SOURCES,
    DATA_SOURCE_CLAIMS,
)
"""Kinds of other projects that say where a hub's jobs go; only a hub of our own serves them, so no cluster gets their
definitions from us."""

# The kinds that make jobs: cron jobs, job flows with their templates, and hyper jobs; ``api.kinds`` lists them.

CRON_JOBS: Kind[batch.CronJob] = Kind(
    "batch.volcano.sh",
    "v1alpha1",
    "CronJob",
    "cronjobs",
    batch.CronJob,
    short_names=("cronvcjob", "cronvj"),
    status_subresource=True,
)
JOB_FLOWS: Kind[flow.JobFlow] = Kind(
    "flow.volcano.sh", "v1alpha1", "JobFlow", "jobflows", flow.JobFlow, short_names=("jf",), status_subresource=True
)
JOB_TEMPLATES: Kind[flow.JobTemplate] = Kind(
    "flow.volcano.sh",
    "v1alpha1",
    "JobTemplate",
    "jobtemplates",
    flow.JobTemplate,
    short_names=("jt",),
    status_subresource=True,
)
HYPER_JOBS: Kind[batch.HyperJob] = Kind(
    "training.volcano.sh",
    "v1alpha1",
    "HyperJob",
    "hyperjobs",
    batch.HyperJob,
    short_names=("hj",),
    status_subresource=True,
)

FLOW_KINDS: tuple[Kind[Any], ...] = (CRON_JOBS, JOB_FLOWS, JOB_TEMPLATES, HYPER_JOBS)

# The kinds of ``scheduling.k8s.io`` from Kubernetes 1.36 (v1alpha2) on, as constants; ``api.kinds`` lists them.
#
# A Kubernetes API server serves them with the feature gates GenericWorkload and CompositePodGroup.

_OLDER = ("v1alpha3", "v1alpha2")
WORKLOADS: Kind[workload.Workload] = Kind(
    "scheduling.k8s.io", "v1beta1", "Workload", "workloads", workload.Workload, alias_versions=_OLDER
)
WORKLOAD_POD_GROUPS: Kind[workload.WorkloadPodGroup] = Kind(
    "scheduling.k8s.io",
    "v1beta1",
    "PodGroup",
    "podgroups",
    workload.WorkloadPodGroup,
    status_subresource=True,
    alias_versions=_OLDER,
)

COMPOSITE_POD_GROUPS: Kind[workload.CompositePodGroup] = Kind(
    "scheduling.k8s.io",
    "v1alpha3",
    "CompositePodGroup",
    "compositepodgroups",
    workload.CompositePodGroup,
    status_subresource=True,
)

GROUP_KINDS: tuple[Kind[Any], ...] = (WORKLOADS, WORKLOAD_POD_GROUPS, COMPOSITE_POD_GROUPS)

# KEDA's ScaledObject and Knative's Service, for a control plane of one machine; ``api.kinds`` lists them.
#
# They are not installed on clusters, where KEDA and Knative bring their own definitions.

SCALED_OBJECTS: Kind[keda.ScaledObject] = Kind(
    "keda.sh",
    "v1alpha1",
    "ScaledObject",
    "scaledobjects",
    keda.ScaledObject,
    short_names=("so",),
    status_subresource=True,
)
KNATIVE_SERVICES: Kind[knative.KnativeService] = Kind(
    "serving.knative.dev",
    "v1",
    "Service",
    "services",
    knative.KnativeService,
    short_names=("kservice", "ksvc"),
    categories=("all", "knative", "serving"),
    status_subresource=True,
)

INFERENCE_KINDS: tuple[Kind[Any], ...] = (SCALED_OBJECTS, KNATIVE_SERVICES)

# Kinds that go with workloads that serve: autoscalers, ingresses, replication controllers; ``api.kinds`` lists them.
#
# They are stored and checked. Who acts on them is the cluster's: an autoscaler, an ingress controller.

REPLICATION_CONTROLLERS: Kind[apps.ReplicationController] = Kind(
    "",
    "v1",
    "ReplicationController",
    "replicationcontrollers",
    apps.ReplicationController,
    short_names=("rc",),
    categories=("all",),
    status_subresource=True,
    scale=Scale(".spec.replicas", ".status.replicas", ".spec.selector"),
)
HORIZONTAL_POD_AUTOSCALERS: Kind[autoscaling.HorizontalPodAutoscaler] = Kind(
    "autoscaling",
    "v2",
    "HorizontalPodAutoscaler",
    "horizontalpodautoscalers",
    autoscaling.HorizontalPodAutoscaler,
    short_names=("hpa",),
    categories=("all",),
    status_subresource=True,
)
# The same objects in other words: ``apiserver.views``.
HORIZONTAL_POD_AUTOSCALERS_V1: Kind[autoscaling.HorizontalPodAutoscalerV1] = Kind(
    "autoscaling",
    "v1",
    "HorizontalPodAutoscaler",
    "horizontalpodautoscalers",
    autoscaling.HorizontalPodAutoscalerV1,
    short_names=("hpa",),
    categories=("all",),
    status_subresource=True,
)
INGRESSES: Kind[service.Ingress] = Kind(
    "networking.k8s.io", "v1", "Ingress", "ingresses", service.Ingress, short_names=("ing",), status_subresource=True
)
INGRESS_CLASSES: Kind[service.IngressClass] = Kind(
    "networking.k8s.io", "v1", "IngressClass", "ingressclasses", service.IngressClass, False
)

SERVING_KINDS: tuple[Kind[Any], ...] = (REPLICATION_CONTROLLERS, HORIZONTAL_POD_AUTOSCALERS, INGRESSES, INGRESS_CLASSES)

KUBEFLOW = "kubeflow.org"


def _scale(field: str) -> Scale:
    return Scale(
        f".spec.{field}.Worker.replicas",
        ".status.replicaStatuses.Worker.active",
        ".status.replicaStatuses.Worker.selector",
    )


PYTORCH_JOBS: Kind[kubeflow.PyTorchJob] = Kind(
    KUBEFLOW,
    "v1",
    "PyTorchJob",
    "pytorchjobs",
    kubeflow.PyTorchJob,
    status_subresource=True,
    scale=_scale("pytorchReplicaSpecs"),
)
TF_JOBS: Kind[kubeflow.TFJob] = Kind(KUBEFLOW, "v1", "TFJob", "tfjobs", kubeflow.TFJob, status_subresource=True)
# Both operators define mpijobs.kubeflow.org, each with a version of its own: here one kind has the fields of both.
MPI_JOBS: Kind[kubeflow.MPIJob] = Kind(
    KUBEFLOW, "v1", "MPIJob", "mpijobs", kubeflow.MPIJob, status_subresource=True, alias_versions=("v2beta1",)
)
XGBOOST_JOBS: Kind[kubeflow.XGBoostJob] = Kind(
    KUBEFLOW, "v1", "XGBoostJob", "xgboostjobs", kubeflow.XGBoostJob, status_subresource=True
)
PADDLE_JOBS: Kind[kubeflow.PaddleJob] = Kind(
    KUBEFLOW,
    "v1",
    "PaddleJob",
    "paddlejobs",
    kubeflow.PaddleJob,
    status_subresource=True,
    scale=_scale("paddleReplicaSpecs"),
)
JAX_JOBS: Kind[kubeflow.JAXJob] = Kind(
    KUBEFLOW, "v1", "JAXJob", "jaxjobs", kubeflow.JAXJob, status_subresource=True, scale=_scale("jaxReplicaSpecs")
)

JOB_SETS: Kind[job_set.JobSet] = Kind(
    "jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", job_set.JobSet, status_subresource=True
)
TRAIN_JOBS: Kind[trainer.TrainJob] = Kind(
    "trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs", trainer.TrainJob, status_subresource=True
)
TRAINING_RUNTIMES: Kind[trainer.TrainingRuntime] = Kind(
    "trainer.kubeflow.org", "v1alpha1", "TrainingRuntime", "trainingruntimes", trainer.TrainingRuntime
)
CLUSTER_TRAINING_RUNTIMES: Kind[trainer.ClusterTrainingRuntime] = Kind(
    "trainer.kubeflow.org",
    "v1alpha1",
    "ClusterTrainingRuntime",
    "clustertrainingruntimes",
    trainer.ClusterTrainingRuntime,
    False,
)
RAY_CLUSTERS: Kind[ray.RayCluster] = Kind(
    "ray.io",
    "v1",
    "RayCluster",
    "rayclusters",
    ray.RayCluster,
    categories=("all",),
    status_subresource=True,
    alias_versions=("v1alpha1",),
)
RAY_JOBS: Kind[ray.RayJob] = Kind(
    "ray.io",
    "v1",
    "RayJob",
    "rayjobs",
    ray.RayJob,
    categories=("all",),
    status_subresource=True,
    alias_versions=("v1alpha1",),
)
RAY_SERVICES: Kind[ray.RayService] = Kind(
    "ray.io",
    "v1",
    "RayService",
    "rayservices",
    ray.RayService,
    categories=("all",),
    status_subresource=True,
    alias_versions=("v1alpha1",),
)

KUBEFLOW_KINDS: tuple[Kind[Any], ...] = (PYTORCH_JOBS, TF_JOBS, MPI_JOBS, XGBOOST_JOBS, PADDLE_JOBS, JAX_JOBS)
TRAINING_KINDS: tuple[Kind[Any], ...] = (
    *KUBEFLOW_KINDS,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    CLUSTER_TRAINING_RUNTIMES,
    JOB_SETS,
    RAY_CLUSTERS,
    RAY_JOBS,
    RAY_SERVICES,
)
RUN_KINDS: tuple[Kind[Any], ...] = tuple(kind for kind in TRAINING_KINDS if kind.status_subresource)
"""Those that have a controller; the others are templates."""

# The kinds of ``apps/v1`` and ``batch/v1``; ``api.kinds`` lists them.
#
# The embedded control plane runs them itself; on a cluster kube-controller-manager does.

_SCALE = Scale(".spec.replicas", ".status.replicas", ".spec.selector")

DEPLOYMENTS: Kind[apps.Deployment] = Kind(
    "apps",
    "v1",
    "Deployment",
    "deployments",
    apps.Deployment,
    short_names=("deploy",),
    categories=("all",),
    status_subresource=True,
    scale=_SCALE,
)
REPLICA_SETS: Kind[apps.ReplicaSet] = Kind(
    "apps",
    "v1",
    "ReplicaSet",
    "replicasets",
    apps.ReplicaSet,
    short_names=("rs",),
    categories=("all",),
    status_subresource=True,
    scale=_SCALE,
)
STATEFUL_SETS: Kind[apps.StatefulSet] = Kind(
    "apps",
    "v1",
    "StatefulSet",
    "statefulsets",
    apps.StatefulSet,
    short_names=("sts",),
    categories=("all",),
    status_subresource=True,
    scale=_SCALE,
)
DAEMON_SETS: Kind[apps.DaemonSet] = Kind(
    "apps",
    "v1",
    "DaemonSet",
    "daemonsets",
    apps.DaemonSet,
    short_names=("ds",),
    categories=("all",),
    status_subresource=True,
)
CONTROLLER_REVISIONS: Kind[apps.ControllerRevision] = Kind(
    "apps", "v1", "ControllerRevision", "controllerrevisions", apps.ControllerRevision
)
BATCH_JOBS: Kind[batch_v1.BatchJob] = Kind(
    "batch", "v1", "Job", "jobs", batch_v1.BatchJob, categories=("all",), status_subresource=True
)
BATCH_CRON_JOBS: Kind[batch_v1.BatchCronJob] = Kind(
    "batch",
    "v1",
    "CronJob",
    "cronjobs",
    batch_v1.BatchCronJob,
    short_names=("cj",),
    categories=("all",),
    status_subresource=True,
)

WORKLOAD_KINDS: tuple[Kind[Any], ...] = (
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    DAEMON_SETS,
    CONTROLLER_REVISIONS,
    BATCH_JOBS,
    BATCH_CRON_JOBS,
)
