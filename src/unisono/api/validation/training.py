"""Rules of JobSets, TrainJobs and Ray's kinds, as their operators check them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from unisono.api import names
from unisono.api.core.pod import PodTemplateSpec
from unisono.api.field_error import OMITTED, FieldError, duplicate, forbidden, invalid, not_supported, required
from unisono.api.job_set import VALUE_IMMUTABLE, JobSet, JobSetSpec
from unisono.api.keys import MULTIKUEUE, RAY_OPERATOR, TRAINJOB_CONTROLLER
from unisono.api.ray import RayCluster, RayClusterSpec, RayJob, RayService
from unisono.api.trainer import FIELD_IMMUTABLE, ClusterTrainingRuntime, TrainingRuntime, TrainJob
from unisono.api.validation.meta import by
from unisono.api.validation.pod import validate_template, with_claims
from unisono.api.yaml import load_all
from unisono.errors import ConfigError

# What the operator appends to these names must still fit into a label.
LONGEST_RAY_CLUSTER, LONGEST_RAY_JOB = 53, 47


def validate_job_set(job_set: JobSet, old: JobSet | None) -> Iterator[FieldError]:
    """Replicated jobs, their names and what refers to them."""
    yield from _job_set_spec(job_set.spec, "spec", job_set.metadata.name)
    if old is None:
        return
    for field in ("network", "success_policy", "failure_policy", "startup_policy", "managed_by"):
        if getattr(job_set.spec, field) != getattr(old.spec, field):
            yield invalid(f"spec.{_camel(field)}", None, VALUE_IMMUTABLE)
    if not (old.spec.suspend or job_set.spec.suspend) and job_set.spec.replicated_jobs != old.spec.replicated_jobs:
        yield invalid("spec.replicatedJobs", None, "field is immutable while the JobSet is not suspended")


def _job_set_spec(spec: JobSetSpec, path: str, name: str = "") -> Iterator[FieldError]:
    jobs = spec.replicated_jobs or []
    known = [job.name for job in jobs]
    claims = [claim for policy in spec.volume_claim_policies or () for claim in policy.templates or ()]
    for index, job in enumerate(jobs):
        at = f"{path}.replicatedJobs[{index}]"
        if job.name in known[:index]:
            yield duplicate(f"{at}.name", job.name)
        pods = job.template.spec.completions or job.template.spec.parallelism or 1
        host = f"{name or 'x'}-{job.name}-{max((job.replicas or 1) - 1, 0)}-{max(pods - 1, 0)}"
        yield from by(names.dns_label, f"{at}.name", host)
        yield from _template(with_claims(job.template.spec.template, claims), f"{at}.template.spec.template")
        for number, needed in enumerate(job.depends_on or ()):
            if needed.name not in known[:index]:
                yield not_supported(f"{at}.dependsOn[{number}].name", needed.name, known[:index])
    ordered = spec.startup_policy is not None and spec.startup_policy.startup_policy_order == "InOrder"
    if ordered and any(job.depends_on for job in jobs):
        yield invalid(path, None, "StartupPolicy and DependsOn APIs are mutually exclusive")
    for field, targets in (
        ("successPolicy", spec.success_policy.target_replicated_jobs if spec.success_policy else None),
        *(
            (f"failurePolicy.rules[{index}]", rule.target_replicated_jobs)
            for index, rule in enumerate((spec.failure_policy.rules if spec.failure_policy else None) or ())
        ),
    ):
        for target in targets or ():
            if target not in known:
                yield not_supported(f"{path}.{field}.targetReplicatedJobs", target, known)
    if spec.coordinator is not None and spec.coordinator.replicated_job not in known:
        yield not_supported(f"{path}.coordinator.replicatedJob", spec.coordinator.replicated_job, known)


def validate_train_job(job: TrainJob, old: TrainJob | None) -> Iterator[FieldError]:
    """Name, runtime, manager, and what stays as it is."""
    name, spec = job.metadata.name, job.spec
    if name and names.dns_1035_label(name):
        yield invalid("metadata.name", name, "metadata.name must match RFC 1035 DNS label format")
    if not spec.runtime_ref.name:
        yield required("spec.runtimeRef.name")
    kinds = ("ClusterTrainingRuntime", "TrainingRuntime")
    if spec.runtime_ref.kind and spec.runtime_ref.kind not in kinds:
        yield not_supported("spec.runtimeRef.kind", spec.runtime_ref.kind, kinds)
    if spec.managed_by and spec.managed_by not in (TRAINJOB_CONTROLLER, MULTIKUEUE):
        detail = f"ManagedBy must be {TRAINJOB_CONTROLLER} or {MULTIKUEUE} if set"
        yield invalid("spec.managedBy", spec.managed_by, detail)
    if spec.active_deadline_seconds is not None and spec.active_deadline_seconds < 1:
        yield invalid("spec.activeDeadlineSeconds", spec.active_deadline_seconds, "must be greater than or equal to 1")
    trainer = spec.trainer
    if trainer is not None and trainer.num_nodes is not None and trainer.num_nodes < 1:
        yield invalid("spec.trainer.numNodes", trainer.num_nodes, "must be greater than or equal to 1")
    for index, variable in enumerate((trainer.env if trainer is not None else None) or ()):
        if variable.name.startswith("PET_"):
            detail = "PET_ envs are reserved for the runtime of torchrun: use numNodes and numProcPerNode"
            yield forbidden(f"spec.trainer.env[{index}].name", detail)
    if old is not None:
        for field in ("runtime_ref", "initializer", "trainer", "active_deadline_seconds", "managed_by"):
            if getattr(spec, field) != getattr(old.spec, field):
                yield invalid(f"spec.{_camel(field)}", None, FIELD_IMMUTABLE)


def validate_runtime(
    runtime: TrainingRuntime | ClusterTrainingRuntime, old: TrainingRuntime | ClusterTrainingRuntime | None
) -> Iterator[FieldError]:
    """One framework at most, and a JobSet that could be made."""
    policy = runtime.spec.ml_policy
    chosen = [
        name for name in ("torch", "mpi", "jax", "xgboost", "flux") if policy and getattr(policy, name) is not None
    ]
    if len(chosen) > 1:
        yield invalid("spec.mlPolicy", ", ".join(chosen), "Only one of the policy can be configured")
    torch = policy.torch if policy else None
    if policy and policy.num_nodes is not None and torch is not None and torch.elastic_policy is not None:
        detail = "numNodes should not be set if torch.elasticPolicy is configured"
        yield invalid("spec.mlPolicy.numNodes", policy.num_nodes, detail)
    yield from _job_set_spec(runtime.spec.template.spec, "spec.template.spec")


def validate_ray_cluster(cluster: RayCluster, old: RayCluster | None) -> Iterator[FieldError]:
    """Name and groups."""
    yield from _short_name(cluster.metadata.name, LONGEST_RAY_CLUSTER)
    yield from _ray_cluster(cluster.spec, "spec")


def validate_ray_job(job: RayJob, old: RayJob | None) -> Iterator[FieldError]:
    """Name, cluster and mode."""
    spec = job.spec
    yield from _short_name(job.metadata.name, LONGEST_RAY_JOB)
    if spec.ray_cluster_spec is not None:
        yield from _ray_cluster(spec.ray_cluster_spec, "spec.rayClusterSpec")
    elif not spec.cluster_selector:
        yield required("spec.rayClusterSpec", "one of rayClusterSpec or clusterSelector must be set")
    if spec.active_deadline_seconds is not None and spec.active_deadline_seconds <= 0:
        yield invalid("spec.activeDeadlineSeconds", spec.active_deadline_seconds, "must be greater than 0")
    if spec.submission_mode == "SidecarMode":
        yield from _sidecar(job)
    if spec.submission_mode != "InteractiveMode" and not spec.entrypoint:
        yield required("spec.entrypoint", "the command that the job runs")
    if spec.managed_by and spec.managed_by not in (RAY_OPERATOR, MULTIKUEUE):
        yield not_supported("spec.managedBy", spec.managed_by, (RAY_OPERATOR, MULTIKUEUE))
    if old is not None and spec.managed_by != old.spec.managed_by:
        yield invalid("spec.managedBy", spec.managed_by or "", "the managedBy field is immutable")


def validate_ray_service(service: RayService, old: RayService | None) -> Iterator[FieldError]:
    """Name, cluster, and applications that can be read."""
    spec = service.spec
    yield from _short_name(service.metadata.name, LONGEST_RAY_JOB)
    yield from _ray_cluster(spec.ray_cluster_config, "spec.rayClusterConfig")
    if spec.serve_config_v2:
        yield from _serve_config(spec.serve_config_v2)
    if spec.managed_by and spec.managed_by not in (RAY_OPERATOR, MULTIKUEUE):
        yield not_supported("spec.managedBy", spec.managed_by, (RAY_OPERATOR, MULTIKUEUE))
    if old is not None and spec.managed_by != old.spec.managed_by:
        yield invalid("spec.managedBy", spec.managed_by or "", "the managedBy field is immutable")


def _serve_config(text: str) -> Iterator[FieldError]:
    path = "spec.serveConfigV2"
    try:
        found = [document.value for document in load_all(text, "line")]
    except ConfigError as error:
        yield invalid(path, OMITTED, f"must be YAML: {error}")
        return
    applications = found[0].get("applications") if len(found) == 1 and isinstance(found[0], dict) else None
    if not isinstance(applications, list):
        yield invalid(path, OMITTED, "must be one map with a list 'applications', as 'serve build' writes it")
        return
    for index, each in enumerate(applications):
        if not isinstance(each, dict) or not each.get("import_path"):
            detail = f"applications[{index}] must have an import_path such as module:application"
            yield invalid(path, OMITTED, detail)


def _sidecar(job: RayJob) -> Iterator[FieldError]:
    """The submitter is a container of the head, whose pod must not start again by itself."""
    spec = job.spec
    for field, given in (
        ("clusterSelector", spec.cluster_selector),
        ("submitterPodTemplate", spec.submitter_pod_template),
        ("submitterConfig", spec.submitter_config),
    ):
        if given:
            yield forbidden(f"spec.{field}", "must not be set in SidecarMode")
    cluster = spec.ray_cluster_spec
    policy = cluster.head_group_spec.template.spec.restart_policy if cluster is not None else None
    if policy not in (None, "", "Never"):
        path = "spec.rayClusterSpec.headGroupSpec.template.spec.restartPolicy"
        yield invalid(path, policy, "must be Never or unset in SidecarMode")


def _ray_cluster(spec: RayClusterSpec, path: str) -> Iterator[FieldError]:
    yield from _template(spec.head_group_spec.template, f"{path}.headGroupSpec.template")
    seen: set[str] = set()
    for index, group in enumerate(spec.worker_group_specs or ()):
        at = f"{path}.workerGroupSpecs[{index}]"
        if group.group_name in seen:
            yield duplicate(f"{at}.groupName", group.group_name)
        seen.add(group.group_name)
        yield from by(names.dns_label, f"{at}.groupName", group.group_name)
        for field, value in (
            ("replicas", group.replicas),
            ("minReplicas", group.min_replicas),
            ("maxReplicas", group.max_replicas),
        ):
            if value is not None and value < 0:
                yield invalid(f"{at}.{field}", value, "must be greater than or equal to 0")
        low, high = group.min_replicas, group.max_replicas
        if low is not None and high is not None and low > high:
            yield invalid(f"{at}.minReplicas", low, "must not be greater than maxReplicas")
        yield from _template(group.template, f"{at}.template")


def _short_name(name: str, longest: int) -> Iterator[FieldError]:
    if len(name) > longest:
        yield invalid("metadata.name", name, f"must be no more than {longest} characters")
    for problem in names.dns_1035_label(name) if name else ():
        yield invalid("metadata.name", name, problem)


def _template(template: PodTemplateSpec, path: str) -> Iterator[FieldError]:
    """Rules of the pod; images may be left to what is merged into the template later."""
    pod = template.spec
    if not pod.containers:
        yield required(f"{path}.spec.containers")
        return
    filled = [msgspec.structs.replace(each, image=each.image or "-") for each in pod.containers]
    yield from validate_template(
        msgspec.structs.replace(template, spec=msgspec.structs.replace(pod, containers=filled)), path
    )


def _camel(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join(part.title() for part in rest)
