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
from unisono.api.kind import Kind, Scale, served

# The kinds that make a fleet of clusters; ``api.kinds`` lists them.

ATTACHED_CLUSTERS = served(
    "cluster.kurator.dev", "v1alpha1", fleet.AttachedCluster, categories=("kurator-dev",), status_subresource=True
)
FLEETS = served("fleet.kurator.dev", "v1alpha1", fleet.Fleet, categories=("kurator-dev",), status_subresource=True)
APPLICATIONS = served(
    "apps.kurator.dev", "v1alpha1", fleet.Application, categories=("kurator-dev",), status_subresource=True
)

PROPAGATION_POLICIES = served(
    "policy.karmada.io", "v1alpha1", propagation.PropagationPolicy, short_names=("pp",), categories=("karmada-io",)
)
CLUSTER_PROPAGATION_POLICIES = served(
    "policy.karmada.io",
    "v1alpha1",
    propagation.ClusterPropagationPolicy,
    namespaced=False,
    short_names=("cpp",),
    categories=("karmada-io",),
)
DATA_SOURCES = served(
    "datadependency.volcano.sh", "v1alpha1", propagation.DataSource, namespaced=False, status_subresource=True
)
DATA_SOURCE_CLAIMS = served(
    "datadependency.volcano.sh", "v1alpha1", propagation.DataSourceClaim, status_subresource=True
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

CRON_JOBS = served(
    "batch.volcano.sh", "v1alpha1", batch.CronJob, short_names=("cronvcjob", "cronvj"), status_subresource=True
)
JOB_FLOWS = served("flow.volcano.sh", "v1alpha1", flow.JobFlow, short_names=("jf",), status_subresource=True)
JOB_TEMPLATES = served("flow.volcano.sh", "v1alpha1", flow.JobTemplate, short_names=("jt",), status_subresource=True)
HYPER_JOBS = served("training.volcano.sh", "v1alpha1", batch.HyperJob, short_names=("hj",), status_subresource=True)

FLOW_KINDS: tuple[Kind[Any], ...] = (CRON_JOBS, JOB_FLOWS, JOB_TEMPLATES, HYPER_JOBS)

# The kinds of ``scheduling.k8s.io`` from Kubernetes 1.36 (v1alpha2) on, as constants; ``api.kinds`` lists them.
#
# A Kubernetes API server serves them with the feature gates GenericWorkload and CompositePodGroup.

_OLDER = ("v1alpha3", "v1alpha2")
WORKLOADS = served("scheduling.k8s.io", "v1beta1", workload.Workload, alias_versions=_OLDER)
WORKLOAD_POD_GROUPS = served(
    "scheduling.k8s.io",
    "v1beta1",
    workload.WorkloadPodGroup,
    kind="PodGroup",
    alias_versions=_OLDER,
    status_subresource=True,
)

COMPOSITE_POD_GROUPS = served("scheduling.k8s.io", "v1alpha3", workload.CompositePodGroup, status_subresource=True)

GROUP_KINDS: tuple[Kind[Any], ...] = (WORKLOADS, WORKLOAD_POD_GROUPS, COMPOSITE_POD_GROUPS)

# KEDA's ScaledObject and Knative's Service, for a control plane of one machine; ``api.kinds`` lists them.
#
# They are not installed on clusters, where KEDA and Knative bring their own definitions.

SCALED_OBJECTS = served("keda.sh", "v1alpha1", keda.ScaledObject, short_names=("so",), status_subresource=True)
KNATIVE_SERVICES = served(
    "serving.knative.dev",
    "v1",
    knative.KnativeService,
    kind="Service",
    short_names=("kservice", "ksvc"),
    categories=("all", "knative", "serving"),
    status_subresource=True,
)

INFERENCE_KINDS: tuple[Kind[Any], ...] = (SCALED_OBJECTS, KNATIVE_SERVICES)

# Kinds that go with workloads that serve: autoscalers, ingresses, replication controllers; ``api.kinds`` lists them.
#
# They are stored and checked. Who acts on them is the cluster's: an autoscaler, an ingress controller.

REPLICATION_CONTROLLERS = served(
    "",
    "v1",
    apps.ReplicationController,
    short_names=("rc",),
    categories=("all",),
    scale=Scale(".spec.replicas", ".status.replicas", ".spec.selector"),
    status_subresource=True,
)
HORIZONTAL_POD_AUTOSCALERS = served(
    "autoscaling",
    "v2",
    autoscaling.HorizontalPodAutoscaler,
    short_names=("hpa",),
    categories=("all",),
    status_subresource=True,
)
# The same objects in other words: ``apiserver.views``.
HORIZONTAL_POD_AUTOSCALERS_V1 = served(
    "autoscaling",
    "v1",
    autoscaling.HorizontalPodAutoscalerV1,
    kind="HorizontalPodAutoscaler",
    short_names=("hpa",),
    categories=("all",),
    status_subresource=True,
)
INGRESSES = served("networking.k8s.io", "v1", service.Ingress, short_names=("ing",), status_subresource=True)
INGRESS_CLASSES = served("networking.k8s.io", "v1", service.IngressClass, namespaced=False)

SERVING_KINDS: tuple[Kind[Any], ...] = (REPLICATION_CONTROLLERS, HORIZONTAL_POD_AUTOSCALERS, INGRESSES, INGRESS_CLASSES)

KUBEFLOW = "kubeflow.org"


def _scale(field: str) -> Scale:
    return Scale(
        f".spec.{field}.Worker.replicas",
        ".status.replicaStatuses.Worker.active",
        ".status.replicaStatuses.Worker.selector",
    )


PYTORCH_JOBS = served(KUBEFLOW, "v1", kubeflow.PyTorchJob, scale=_scale("pytorchReplicaSpecs"), status_subresource=True)
TF_JOBS = served(KUBEFLOW, "v1", kubeflow.TFJob, status_subresource=True)
# Both operators define mpijobs.kubeflow.org, each with a version of its own: here one kind has the fields of both.
MPI_JOBS = served(KUBEFLOW, "v1", kubeflow.MPIJob, alias_versions=("v2beta1",), status_subresource=True)
XGBOOST_JOBS = served(KUBEFLOW, "v1", kubeflow.XGBoostJob, status_subresource=True)
PADDLE_JOBS = served(KUBEFLOW, "v1", kubeflow.PaddleJob, scale=_scale("paddleReplicaSpecs"), status_subresource=True)
JAX_JOBS = served(KUBEFLOW, "v1", kubeflow.JAXJob, scale=_scale("jaxReplicaSpecs"), status_subresource=True)

JOB_SETS = served("jobset.x-k8s.io", "v1alpha2", job_set.JobSet, status_subresource=True)
TRAIN_JOBS = served("trainer.kubeflow.org", "v1alpha1", trainer.TrainJob, status_subresource=True)
TRAINING_RUNTIMES = served("trainer.kubeflow.org", "v1alpha1", trainer.TrainingRuntime)
CLUSTER_TRAINING_RUNTIMES = served("trainer.kubeflow.org", "v1alpha1", trainer.ClusterTrainingRuntime, namespaced=False)
RAY_CLUSTERS = served(
    "ray.io", "v1", ray.RayCluster, categories=("all",), alias_versions=("v1alpha1",), status_subresource=True
)
RAY_JOBS = served(
    "ray.io", "v1", ray.RayJob, categories=("all",), alias_versions=("v1alpha1",), status_subresource=True
)
RAY_SERVICES = served(
    "ray.io", "v1", ray.RayService, categories=("all",), alias_versions=("v1alpha1",), status_subresource=True
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

DEPLOYMENTS = served(
    "apps", "v1", apps.Deployment, short_names=("deploy",), categories=("all",), scale=_SCALE, status_subresource=True
)
REPLICA_SETS = served(
    "apps", "v1", apps.ReplicaSet, short_names=("rs",), categories=("all",), scale=_SCALE, status_subresource=True
)
STATEFUL_SETS = served(
    "apps", "v1", apps.StatefulSet, short_names=("sts",), categories=("all",), scale=_SCALE, status_subresource=True
)
DAEMON_SETS = served("apps", "v1", apps.DaemonSet, short_names=("ds",), categories=("all",), status_subresource=True)
CONTROLLER_REVISIONS = served("apps", "v1", apps.ControllerRevision)
BATCH_JOBS = served("batch", "v1", batch_v1.BatchJob, kind="Job", categories=("all",), status_subresource=True)
BATCH_CRON_JOBS = served(
    "batch",
    "v1",
    batch_v1.BatchCronJob,
    kind="CronJob",
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
