"""Fields and arguments that objects may have and nothing reads, and what their users are told."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from unisono.api import core, keda
from unisono.api.decode import Shape, shape_of
from unisono.api.groups import batch, fleet, job_set, kubeflow, propagation, ray, scheduling, trainer, workload
from unisono.api.kind import Kind
from unisono.jobkinds.paths import walk

_AUTOSCALER = "Ray's autoscaler is not run: see docs/jobs.md on elastic jobs"
_LOST_HEAD = "a lost head starts anew without its state"
_SOURCE = "name a repository that can be read without it"
_CLAIMS = "each pod brings its own claims: write resourceClaims of the pods"
_PREEMPTS = "that of the pods counts: write it there, or in their PriorityClass"
_DIVISION = "see docs/fleet.md for the fields of a placement that are read"

WITHOUT_EFFECT: Final[Mapping[type[msgspec.Struct], Mapping[str, str]]] = {
    core.PodSpec: {"workloadRef": "write schedulingGroup: Kubernetes has it in its place since 1.36"},
    workload.WorkloadPodGroupSpec: {"resourceClaims": _CLAIMS, "preemptionPolicy": _PREEMPTS},
    workload.CompositePodGroupSpec: {"preemptionPolicy": _PREEMPTS},
    workload.JobSchedulingConfiguration: {"resourceClaims": _CLAIMS},
    scheduling.QueueSpec: {"extendClusters": "attach the clusters to a hub (docs/fleet.md)"},
    batch.HyperJobSpec: {"plugins": "write plugins of each templateSpec"},
    kubeflow.PaddleElasticPolicy: {
        "minReplicas": "write the replicas of the Worker",
        "maxReplicas": "write the replicas of the Worker",
        "maxRestarts": "write backoffLimit of the run policy",
        "metrics": "write a HorizontalPodAutoscaler for the job",
    },
    trainer.MLPolicy: {"flux": "the pods run without Flux: use mpi"},
    trainer.TorchElasticPolicy: {"metrics": "write a HorizontalPodAutoscaler for the job"},
    ray.RayClusterSpec: {
        "autoscalerOptions": _AUTOSCALER,
        "gcsFaultToleranceOptions": _LOST_HEAD,
        "authOptions": "whoever reaches the pods may use the cluster",
        "tlsOptions": "traffic of the cluster is not encrypted: write certificates into the templates of its pods",
        "networkPolicy": "write a NetworkPolicy for the pods with the label ray.io/cluster",
        "historyServerOptions": "see docs/history.md",
    },
    ray.RayHeadGroupSpec: {"enableIngress": "write an Ingress for the head's Service"},
    ray.RayWorkerGroupSpec: {"idleTimeoutSeconds": _AUTOSCALER},
    ray.RayJobSpec: {"deletionStrategy": "write shutdownAfterJobFinishes and ttlSecondsAfterFinished"},
    ray.RayServiceSpec: {
        "serviceUnhealthySecondThreshold": "it has none in KubeRay either",
        "deploymentUnhealthySecondThreshold": "it has none in KubeRay either",
    },
    ray.RayServiceUpgradeStrategy: {"clusterUpgradeOptions": "the new cluster takes over at once"},
    keda.ScaleTarget: {"envSourceContainerName": "write the values into the triggers"},
    keda.AdvancedConfig: {"restoreToOriginalReplicaCount": "the last number of replicas stays"},
    keda.ScaleTrigger: {
        "useCachedMetrics": "metrics are read each time",
        "authenticationRef": "name a source that can be read without it",
    },
    fleet.HelmRepository: {"accessFrom": _SOURCE},
    fleet.GitRepository: {"accessFrom": _SOURCE, "gitImplementation": "git itself is used"},
    fleet.OciRepository: {"layerSelector": "the first layer is used", "certSecretRef": _SOURCE},
    fleet.ChartSpec: {"reconcileStrategy": "a chart counts by its version"},
    fleet.HelmPolicy: {
        "storageNamespace": "releases are not stored",
        "maxHistory": "releases are not stored",
        "persistentClient": "leave it out",
    },
    fleet.KustomizationPolicy: {"retryInterval": "write interval"},
    propagation.ClusterAffinityTerm: {"overflowAffinities": _DIVISION},
    propagation.Placement: {"clusterTolerations": _DIVISION, "workloadAffinity": _DIVISION},
    propagation.SpreadConstraint: {"spreadByLabel": _DIVISION},
    propagation.PropagationSpec: {
        "propagateDeps": "name the further objects in resourceSelectors",
        "association": "name the further objects in resourceSelectors",
        "dependentOverrides": "the policy counts at once",
        "conflictResolution": "an object of the same name in a member is left alone",
        "activationPreference": "a changed policy counts at once",
        "preserveResourcesOnDeletion": "objects in members go with the policy",
        "schedulePriority": "give the job a priorityClassName",
    },
}
"""By struct and wire name: what to do instead, or what happens."""

VALUES_WITHOUT_EFFECT: Final[Mapping[type[msgspec.Struct], Mapping[str, Mapping[str, str]]]] = {
    job_set.JobSetFailurePolicy: {
        "restartStrategy": {
            "InPlaceRestart": "Jobs are made again, as with Recreate; an agent of JobSet in the pods waits for ever"
        }
    },
    ray.RayJobSpec: {
        "submitterPodTemplate.spec.restartPolicy": dict.fromkeys(
            ("OnFailure", "Always"),
            "a submitter never restarts; with spec.backoffLimit the job is tried again",
        )
    },
}
"""By struct, wire name or path below it, and value: what happens instead."""

ASK_FOR_NOTHING: Final[Mapping[type[msgspec.Struct], frozenset[str]]] = {
    kubeflow.SchedulingPolicy: frozenset(("scheduleTimeoutSeconds",)),  # a gang that waits holds nothing
    trainer.PodGroupPolicy: frozenset(("coscheduling",)),  # every job is a gang
    trainer.CoschedulingPolicy: frozenset(("scheduleTimeoutSeconds",)),
    ray.RayClusterSpec: frozenset(("rayVersion",)),  # which the image has anyway
    scheduling.SubGroupKey: frozenset(("labelKey",)),  # read by SubGroupPolicySpec.splitting_keys
}
"""Fields that no module reads, and that are right without it."""

_DEEPEST = 16


def idle_fields(kind: Kind[Any], obj: Any) -> list[str]:
    """A sentence for each field of an object that is set and that nothing reads."""
    sentences: list[str] = []
    for path, instead in _paths(kind):
        for at, value in walk(obj, path):
            if isinstance(instead, str) and value:
                sentences.append(f"{at} has no effect on Unisono: {instead}")
            elif not isinstance(instead, str) and value in instead:
                sentences.append(f"{at}: {value} has no effect on Unisono: {instead[value]}")
    return sentences


@cache
def _paths(kind: Kind[Any]) -> tuple[tuple[str, str | Mapping[str, str]], ...]:
    return tuple(_idle(shape_of(kind.struct), "", _DEEPEST))


def _idle(shape: Shape, path: str, deep: int) -> Iterator[tuple[str, str | Mapping[str, str]]]:
    if not deep:
        return
    if shape.item is not None:
        yield from _idle(shape.item, f"{path}{'[*]' if shape.kind == 'array' else '.*'}", deep - 1)
    idle: dict[str, str | Mapping[str, str]] = {}
    if shape.struct is not None:
        idle |= {**WITHOUT_EFFECT.get(shape.struct, {}), **VALUES_WITHOUT_EFFECT.get(shape.struct, {})}
    for field in shape.fields.values():
        below = f"{path}.{field.name}" if path else field.name
        if field.name in idle:
            yield below, idle[field.name]
        elif path or field.name == "spec":
            yield from _idle(field.shape, below, deep - 1)
    yield from ((f"{path}.{name}", told) for name, told in idle.items() if "." in name)


# Arguments of the plug-ins of Volcano's Jobs: which are known, and what their author is told of others.


FLAGS: Final[Mapping[str, tuple[str, ...]]] = {
    name: tuple(flags.split())
    for name, flags in {
        "svc": "publish-not-ready-addresses disable-network-policy inject-hosts-env",
        "ssh": "ssh-key-file-path ssh-private-key ssh-public-key ssh-port no-root",
        "env": "",
        "tensorflow": "ps worker chief evaluator port",
        "pytorch": "master worker port wait-master-enabled wait-master-timeout wait-master-image",
        "mpi": "master worker port",
        "jax": "worker port",
        "ray": "head headContainer worker workerContainer port dashboardPort clientPort clientServerPort",
        "hcclrank": "master worker",
    }.items()
}
"""By plug-in."""


def unknown_flags(arguments: Sequence[str], known: Collection[str]) -> list[str]:
    """Unknown flags among the arguments, each once, as they are written; so are words that follow no flag."""
    unknown: list[str] = []
    after_flag = False
    for argument in arguments:
        name, separator, _ = argument.lstrip("-").partition("=")
        is_flag = argument.startswith("-") or bool(separator)
        if (is_flag and name not in known) or (not is_flag and not after_flag):
            unknown.append(argument.partition("=")[0])
        after_flag = is_flag and not separator
    return list(dict.fromkeys(unknown))


def left_out(plugin: str, unknown: Sequence[str]) -> str:
    """What is said of arguments that a plug-in does not know."""
    flags = ", ".join(f"--{name}" for name in FLAGS[plugin]) or "no arguments"
    return f"plug-in {plugin} leaves out {', '.join(unknown)}: it knows {flags}"


def unknown_arguments(obj: Any, templates: Sequence[str]) -> list[str]:
    """A sentence for each plug-in of a Job, or of what makes Jobs, with arguments that it does not know.

    Args:
        obj: a struct, or JSON values.
        templates: paths of its pod templates: its plug-ins stand beside the tasks.
    """
    above = dict.fromkeys(each.partition("tasks[*]")[0] for each in templates if "tasks[*]" in each)
    return [
        f"{at}[{name}]: {left_out(name, unknown)}"
        for each in above
        for at, plugins in walk(obj, f"{each}plugins")
        for name, arguments in plugins.items()
        if name in FLAGS and (unknown := unknown_flags(arguments or (), FLAGS[name]))
    ]
