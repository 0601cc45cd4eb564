"""Kinds that Unisono does not serve: whose they are, and what to do with such a manifest (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from unisono.jobkinds.others_configurations import GROUPS as CONFIGURATIONS

_OPERATOR: Final = "install it beside Unisono; its pods are placed here with schedulerName: volcano (docs/kinds.md)"
_POD_GROUP: Final = "write a PodGroup of scheduling.volcano.sh/v1beta1, or a Queue"
_TRAINING: Final = "write a job of kubeflow.org/v1, such as a PyTorchJob (docs/training.md)"
_NODES: Final = "see docs/autoscaling.md"
_TOOL: Final = "it is for that tool, and not for an API server"


def _all(project: str, instead: str, groups: str) -> dict[str, tuple[str, str]]:
    return dict.fromkeys(groups.split(), (project, instead))


GROUPS: Final[Mapping[str, tuple[str, str]]] = {
    **CONFIGURATIONS,
    **_all("Spark's operator", _OPERATOR, "sparkoperator.k8s.io"),
    **_all("LeaderWorkerSet", _OPERATOR, "leaderworkerset.x-k8s.io disaggregatedset.x-k8s.io"),
    **_all("Argo", _OPERATOR, "argoproj.io"),
    **_all("Flink's operator", _OPERATOR, "flink.apache.org"),
    **_all("Dask's operator", _OPERATOR, "kubernetes.dask.org"),
    **_all("Kthena", _OPERATOR, "workload.serving.volcano.sh networking.serving.volcano.sh workload.kthena.io"),
    **_all("AIBrix", _OPERATOR, "orchestration.aibrix.ai autoscaling.aibrix.ai model.aibrix.ai"),
    **_all("KServe", _OPERATOR, "serving.kserve.io"),
    **_all("Tekton", _OPERATOR, "tekton.dev"),
    **_all(
        "Grove",
        f"{_OPERATOR}; or write a Job with a task for each role",
        "grove.io scheduling.grove.io scheduler.grove.io",
    ),
    **_all("CodeFlare", "apply the objects in spec.components: jobs are queued as they are", "workload.codeflare.dev"),
    **_all("Flux", "write an MPIJob, or a Job with plug-in mpi (docs/job-plugins.md)", "flux-framework.org"),
    **_all("MindCluster", "write a Job with plug-in hcclrank (docs/job-plugins.md)", "mindxdl.gitee.com"),
    **_all("MindCluster", "write Deployments, and Jobs of Volcano", "mindcluster.huawei.com"),
    **_all("kube-batch", _POD_GROUP, "scheduling.incubator.k8s.io"),
    **_all("scheduler-plugins", _POD_GROUP, "scheduling.x-k8s.io scheduling.sigs.k8s.io scheduling.sigs.x-k8s.io"),
    **_all("scheduler-plugins", "write HyperNodes (docs/network-topology.md)", "appgroup.diktyo.x-k8s.io"),
    **_all("scheduler-plugins", "write HyperNodes (docs/network-topology.md)", "networktopology.diktyo.x-k8s.io"),
    **_all("Koordinator", "write Queues, PodGroups and Reservations (docs/calendar.md)", "scheduling.koordinator.sh"),
    **_all("Koordinator", "see docs/colocation.md and docs/quotas.md", "slo.koordinator.sh quota.koordinator.sh"),
    **_all("KubeDL", _TRAINING, "training.kubedl.io apps.kubedl.io"),
    **_all("DLRover", f"{_TRAINING}; elastic jobs are in docs/jobs.md", "elastic.iml.github.io elastic.easydl.org"),
    **_all("Paddle's operator", _TRAINING, "batch.paddlepaddle.org"),
    **_all("SageMaker HyperPod", _TRAINING, "sagemaker.amazonaws.com"),
    **_all("NVIDIA's DRA driver", "install it: nodes of Unisono's own agent have none", "resource.nvidia.com"),
    **_all(
        "NVIDIA's DRA driver of Kubernetes 1.26",
        "write devices.config of a ResourceClaim of resource.k8s.io/v1",
        "gpu.resource.nvidia.com",
    ),
    **_all(
        "NVIDIA's operators", "install them on a cluster: labels and devices of its nodes are read here", "nvidia.com"
    ),
    **_all("the cluster autoscaler", _NODES, "autoscaling.x-k8s.io"),
    **_all("Karpenter", _NODES, "karpenter.sh karpenter.k8s.aws"),
    **_all("the Prometheus operator", "see docs/monitoring.md", "monitoring.coreos.com"),
    **_all("node feature discovery", "see numa-aware in docs/scheduler-configuration.md", "topology.node.k8s.io"),
    **_all("Kustomize", "build it: kubectl kustomize FOLDER | unisono apply -f -", "kustomize.config.k8s.io"),
    **_all("kind", _TOOL, "kind.x-k8s.io kind.sigs.k8s.io"),
    **_all("eksctl", _TOOL, "eksctl.io"),
    **_all("kubeadm", _TOOL, "kubeadm.k8s.io kubelet.config.k8s.io"),
}
"""By API group: whose its kinds are, and the way out."""

KINDS: Final[Mapping[tuple[str, str], tuple[str, str]]] = {
    ("kubeflow.org", "MXJob"): (
        "the training operator until 1.8",
        "write a Job with plug-in svc (docs/job-plugins.md)",
    ),
    ("ray.io", "RayCronJob"): ("KubeRay", "write a CronJob of batch.volcano.sh with plug-in ray (docs/job-plugins.md)"),
}
"""Kinds that are not served of groups that are."""


def way_out(api_version: str, kind: str) -> str:
    """``it is of PROJECT: ...`` for a kind that is not served; empty where nobody is known."""
    group = api_version.partition("/")[0]
    project = KINDS.get((group, kind)) or GROUPS.get(group)
    return f"it is of {project[0]}: {project[1]}" if project else ""
