"""Pods of a JobSet, and the objects that all of them share."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator

import msgspec

from unisono.api.annotations import WORKING_DIRECTORY
from unisono.api.base import LabelSelectorRequirement, ObjectMeta
from unisono.api.core import (
    Affinity,
    EnvVar,
    LabelSelector,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodTemplateSpec,
    Service,
    ServiceSpec,
    Volume,
)
from unisono.api.keys import (
    BATCH_JOB_NAME,
    COMPLETION_INDEX,
    EXCLUSIVE_TOPOLOGY,
    GROUP_NAME,
    JOBSET_JOB_KEY,
    JOBSET_NAME,
    JOBSET_REPLICATED_JOB_NAME,
    QUEUE_NAME,
    TASK_INDEX,
    TASK_SPEC,
)
from unisono.api.kind_families import JOB_SETS
from unisono.api.kinds import PERSISTENT_VOLUME_CLAIMS, SERVICES
from unisono.controllers import keys
from unisono.controllers.owners import owned_by
from unisono.controllers.plan import Resource
from unisono.controllers.training.jobset.view import (
    ATTEMPT,
    COORDINATOR,
    DEFAULT_GROUP,
    GLOBAL_REPLICAS,
    GROUP,
    GROUP_REPLICAS,
    JOB_GLOBAL_INDEX,
    JOB_GROUP_INDEX,
    JOB_INDEX,
    JOBSET_UID,
    REPLICATED_JOB_REPLICAS,
    RESTART_ATTEMPT,
    ChildJob,
    JobSetView,
    completion_index,
)


def pod_name(view: JobSetView, child: ChildJob, index: int) -> str:
    """Name of pod ``index`` of a Job in its present try."""
    return f"{view.host(child, index)}-{_suffix(view, child, index)}"


def build_pod(view: JobSetView, child: ChildJob, index: int) -> Pod:
    """Pod ``index`` of a Job; its name changes with every try, its host name does not."""
    template = msgspec.json.decode(msgspec.json.encode(child.replicated.template.spec.template), type=PodTemplateSpec)
    job_meta, meta = child.replicated.template.metadata, template.metadata
    given = view.job_set.metadata.annotations or {}
    marks = _marks(view, child)
    pod = Pod(
        metadata=ObjectMeta(
            name=pod_name(view, child, index),
            namespace=view.namespace,
            labels={**(meta.labels or {}), **marks, COMPLETION_INDEX: str(index)},
            annotations={
                **{key: given[key] for key in (WORKING_DIRECTORY,) if key in given},
                **keys.inherited_annotations(given),
                **(job_meta.annotations or {}),
                **(meta.annotations or {}),
                **marks,
                COMPLETION_INDEX: str(index),
                ATTEMPT: child.attempt,
                GROUP_NAME: view.name,
                QUEUE_NAME: view.queue,
                TASK_SPEC: child.replicated.name,
                TASK_INDEX: str(index),
            },
            owner_references=[owned_by(JOB_SETS, view.job_set)],
            finalizers=meta.finalizers,
        ),
        spec=template.spec,
    )
    spec = pod.spec
    spec.restart_policy = spec.restart_policy or "OnFailure"
    spec.scheduler_name = spec.scheduler_name or "volcano"
    if view.dns:
        spec.hostname, spec.subdomain = view.host(child, index), view.subdomain
    for container in (*(spec.init_containers or ()), *(spec.containers or ())):
        if not any(each.name == "JOB_COMPLETION_INDEX" for each in container.env or ()):
            container.env = [*(container.env or ()), EnvVar(name="JOB_COMPLETION_INDEX", value=str(index))]
    _mount_claims(view, pod)
    topology = _exclusive(view, child)
    if topology:
        _keep_apart(pod, topology, marks[JOBSET_JOB_KEY])
    return pod


def shared_objects(view: JobSetView) -> Iterator[Resource]:
    """The headless Service, and claims that pods share."""
    if view.dns:
        network = view.spec.network
        publish = network.publish_not_ready_addresses if network is not None else None
        yield Resource(
            SERVICES,
            Service(
                metadata=ObjectMeta(
                    name=view.subdomain, namespace=view.namespace, owner_references=[owned_by(JOB_SETS, view.job_set)]
                ),
                spec=ServiceSpec(
                    cluster_ip="None",
                    selector={JOBSET_NAME: view.name},
                    publish_not_ready_addresses=publish is not False or None,
                ),
            ),
            warning="HeadlessServiceCreationFailed",
        )
    for policy in view.spec.volume_claim_policies or ():
        kept = policy.retention_policy is not None and policy.retention_policy.when_deleted == "Retain"
        for claim in policy.templates or ():
            claim_of_job = msgspec.structs.replace(
                claim,
                metadata=ObjectMeta(
                    name=f"{claim.metadata.name}-{view.name}",
                    namespace=view.namespace,
                    labels=claim.metadata.labels,
                    annotations=claim.metadata.annotations,
                    owner_references=None if kept else [owned_by(JOB_SETS, view.job_set)],
                ),
            )
            yield Resource(PERSISTENT_VOLUME_CLAIMS, claim_of_job, permanent=True, warning="FailedCreateClaim")


def _marks(view: JobSetView, child: ChildJob) -> dict[str, str]:
    """What labels and annotations both say."""
    name, replicated = f"{view.name}-{child.replicated.name}-{child.index}", child.replicated
    group = replicated.group_name or DEFAULT_GROUP
    peers = [each for each in view.children if (each.replicated.group_name or DEFAULT_GROUP) == group]
    marks = {
        JOBSET_NAME: view.name,
        JOBSET_UID: view.uid,
        JOBSET_REPLICATED_JOB_NAME: replicated.name,
        REPLICATED_JOB_REPLICAS: str(len(view.of(replicated))),
        GLOBAL_REPLICAS: str(len(view.children)),
        JOB_INDEX: str(child.index),
        JOB_GLOBAL_INDEX: str(child.global_index),
        JOBSET_JOB_KEY: hashlib.sha256(f"{view.namespace}/{name}".encode()).hexdigest()[:40],
        GROUP: group,
        GROUP_REPLICAS: str(len(peers)),
        JOB_GROUP_INDEX: str(peers.index(child)),
        RESTART_ATTEMPT: str(view.status.restarts or 0),
        BATCH_JOB_NAME: name,
    }
    coordinator = view.spec.coordinator
    if coordinator is not None:
        host = f"{view.name}-{coordinator.replicated_job}-{coordinator.job_index or 0}-{coordinator.pod_index or 0}"
        marks[COORDINATOR] = f"{host}.{view.subdomain}"
    return marks


def _suffix(view: JobSetView, child: ChildJob, index: int) -> str:
    """Five letters that differ for every try of a pod, and are the same however often a try is asked for."""
    tries = sum(1 for pod in child.failed_pods() if completion_index(pod) == index)
    digest = hashlib.sha256(f"{view.uid}/{child.attempt}/{index}/{tries}".encode()).digest()
    return base64.b32encode(digest).decode().lower()[:5]


def _mount_claims(view: JobSetView, pod: Pod) -> None:
    """Volumes for the shared claims that the pod's containers mount."""
    containers = (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))
    mounted = {mount.name for container in containers for mount in container.volume_mounts or ()}
    for policy in view.spec.volume_claim_policies or ():
        for claim in policy.templates or ():
            name = claim.metadata.name
            if name in mounted and not any(volume.name == name for volume in pod.spec.volumes or ()):
                source = PersistentVolumeClaimVolumeSource(claim_name=f"{name}-{view.name}")
                pod.spec.volumes = [*(pod.spec.volumes or ()), Volume(name=name, persistent_volume_claim=source)]


def _exclusive(view: JobSetView, child: ChildJob) -> str:
    own = (child.replicated.template.metadata.annotations or {}).get(EXCLUSIVE_TOPOLOGY)
    return own or (view.job_set.metadata.annotations or {}).get(EXCLUSIVE_TOPOLOGY) or ""


def _keep_apart(pod: Pod, topology: str, key: str) -> None:
    """One Job per domain of the topology: its pods keep together, and away from those of other Jobs."""
    affinity = pod.spec.affinity = pod.spec.affinity or Affinity()
    together, apart = affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAntiAffinity()
    mine = LabelSelectorRequirement(key=JOBSET_JOB_KEY, operator="In", values=[key])
    others = [
        LabelSelectorRequirement(key=JOBSET_JOB_KEY, operator="Exists"),
        LabelSelectorRequirement(key=JOBSET_JOB_KEY, operator="NotIn", values=[key]),
    ]
    together.required_during_scheduling_ignored_during_execution = [
        *(together.required_during_scheduling_ignored_during_execution or ()),
        PodAffinityTerm(label_selector=LabelSelector(match_expressions=[mine]), topology_key=topology),
    ]
    apart.required_during_scheduling_ignored_during_execution = [
        *(apart.required_during_scheduling_ignored_during_execution or ()),
        PodAffinityTerm(
            label_selector=LabelSelector(match_expressions=others),
            topology_key=topology,
            namespace_selector=LabelSelector(),
        ),
    ]
    affinity.pod_affinity, affinity.pod_anti_affinity = together, apart
