"""Rules of training jobs of all frameworks, as their operators and webhooks check them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from unisono.api import names
from unisono.api.annotations import ONE_OF
from unisono.api.base import FreeObject
from unisono.api.core.pod import PodTemplateSpec
from unisono.api.defaulting.kubeflow import CLEAN_ALL, CLEAN_NONE, CLEAN_RUNNING, TRAINING, TrainingDefaults, run_policy
from unisono.api.field_error import OMITTED, FieldError, duplicate, forbidden, invalid, not_supported, required
from unisono.api.groups.autoscaling import MetricSpec
from unisono.api.groups.batch import Job
from unisono.api.groups.job_set import VALUE_IMMUTABLE, JobSet, JobSetSpec
from unisono.api.groups.kubeflow import (
    QUEUE_IMMUTABLE,
    AnyTrainingJob,
    MPIJob,
    PyTorchJob,
    ReplicaSpec,
    ReplicaSpecs,
    RunPolicy,
    TFJob,
    XGBoostJob,
)
from unisono.api.groups.ray import (
    RayCluster,
    RayClusterSpec,
    RayHeadGroupSpec,
    RayJob,
    RayJobSpec,
    RayService,
    RayWorkerGroupSpec,
)
from unisono.api.groups.trainer import FIELD_IMMUTABLE, ClusterTrainingRuntime, TrainingRuntime, TrainJob
from unisono.api.keys import (
    MPI_OPERATOR,
    MULTIKUEUE,
    RAY_OPERATOR,
    TASK_TOPOLOGY_AFFINITY,
    TASK_TOPOLOGY_ANTI_AFFINITY,
    TASK_TOPOLOGY_ORDER,
    TRAINING_OPERATOR,
    TRAINJOB_CONTROLLER,
)
from unisono.api.kind import Kind
from unisono.api.kind_families import KUBEFLOW_KINDS, TRAIN_JOBS
from unisono.api.one_of import multiplied_in_vain
from unisono.api.quantity import QuantityError, parse_quantity
from unisono.api.validation.meta import by, validate_labels
from unisono.api.validation.pod import validate_template, with_volumes
from unisono.api.validation.workloads import validate_metric
from unisono.api.yaml import load_all
from unisono.errors import ConfigError

# Rules of JobSets, TrainJobs and Ray's kinds, as their operators check them.

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
    job_names = [job.name for job in jobs]
    claims = [claim.metadata.name for policy in spec.volume_claim_policies or () for claim in policy.templates or ()]
    for index, job in enumerate(jobs):
        at = f"{path}.replicatedJobs[{index}]"
        if job.name in job_names[:index]:
            yield duplicate(f"{at}.name", job.name)
        pods = job.template.spec.completions or job.template.spec.parallelism or 1
        host = f"{name or 'x'}-{job.name}-{max((job.replicas or 1) - 1, 0)}-{max(pods - 1, 0)}"
        yield from by(names.dns_label, f"{at}.name", host)
        yield from _template(with_volumes(job.template.spec.template, claims), f"{at}.template.spec.template")
        for number, needed in enumerate(job.depends_on or ()):
            if needed.name not in job_names[:index]:
                yield not_supported(f"{at}.dependsOn[{number}].name", needed.name, job_names[:index])
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
            if target not in job_names:
                yield not_supported(f"{path}.{field}.targetReplicatedJobs", target, job_names)
    if spec.coordinator is not None and spec.coordinator.replicated_job not in job_names:
        yield not_supported(f"{path}.coordinator.replicatedJob", spec.coordinator.replicated_job, job_names)


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
    if spec.runtime_ref.api_group and spec.runtime_ref.api_group != TRAIN_JOBS.group:
        yield not_supported("spec.runtimeRef.apiGroup", spec.runtime_ref.api_group, (TRAIN_JOBS.group,))
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
    yield from _ray_manager(cluster, old)


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
    if spec.submission_mode != "InteractiveMode" and not spec.entrypoint and not _own_submitter(spec):
        yield required("spec.entrypoint", "the command that the job runs")
    yield from _ray_manager(job, old)


def _ray_manager(
    obj: RayCluster | RayJob | RayService, old: RayCluster | RayJob | RayService | None
) -> Iterator[FieldError]:
    spec = obj.spec
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
    yield from _ray_manager(service, old)


def _serve_config(text: str) -> Iterator[FieldError]:
    path = "spec.serveConfigV2"
    try:
        documents = [document.value for document in load_all(text, "line")]
    except ConfigError as error:
        yield invalid(path, OMITTED, f"must be YAML: {error}")
        return
    applications = documents[0].get("applications") if len(documents) == 1 and isinstance(documents[0], dict) else None
    if not isinstance(applications, list):
        yield invalid(path, OMITTED, "must be one map with a list 'applications', as 'serve build' writes it")
        return
    for index, each in enumerate(applications):
        if not isinstance(each, dict) or not each.get("import_path"):
            detail = f"applications[{index}] must have an import_path such as module:application"
            yield invalid(path, OMITTED, detail)


def _own_submitter(spec: RayJobSpec) -> bool:
    """Whether a pod submits whose container has a command of its own, which needs no entrypoint."""
    template = spec.submitter_pod_template if spec.submission_mode != "HTTPMode" else None
    pod = template.get("spec") if isinstance(template, dict) else None
    containers = pod.get("containers") if isinstance(pod, dict) else None
    first = containers[0] if isinstance(containers, list) and containers else None
    return isinstance(first, dict) and bool(first.get("command") or first.get("args"))


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
    yield from _told_to_ray(spec.head_group_spec, f"{path}.headGroupSpec")
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
        yield from _told_to_ray(group, at)


def _told_to_ray(group: RayHeadGroupSpec | RayWorkerGroupSpec, path: str) -> Iterator[FieldError]:
    """Amounts and labels that stand beside ``rayStartParams`` and go before it."""
    for name, amount in (group.resources or {}).items():
        try:
            parse_quantity(amount)
        except QuantityError as error:
            yield invalid(f"{path}.resources[{name}]", amount, str(error))
    yield from validate_labels(group.labels, f"{path}.labels")


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


RESTART_POLICIES = ("Always", "ExitCode", "Never", "OnFailure")
# Of a Service, as Kubernetes limits it.
_LONGEST_SERVICE = 63
_CLEAN = (CLEAN_ALL, CLEAN_NONE, CLEAN_RUNNING)
_IMPLEMENTATIONS = ("Intel", "MPICH", "OpenMPI")
_LAUNCHER_CREATION = ("AtStartup", "WaitForWorkersReady")


def validate_training_job(job: AnyTrainingJob, old: AnyTrainingJob | None) -> Iterator[FieldError]:
    """Rules that all training jobs share, then those of the kind."""
    facts = TRAINING[type(job)]
    name = job.metadata.name
    problems = names.dns_1035_label(name) if name else []
    if problems:
        yield invalid("metadata.name", name, f"should match: {', '.join(problems)}")
    yield from _run_policy(run_policy(job.spec), job)
    if old is not None:
        yield from _update(run_policy(job.spec), run_policy(old.spec))
    specs: ReplicaSpecs | None = getattr(job.spec, facts.field)
    if not specs:
        yield required(f"spec.{facts.wire}", "must be required")
        return
    for role, spec in specs.items():
        yield from _replica_spec(role, spec, facts)
    before: ReplicaSpecs = (getattr(old.spec, facts.field) or {}) if old is not None else {}
    if not isinstance(job, MPIJob) and not problems:
        yield from _hosts(name, specs, before)
    match job:
        case PyTorchJob():
            yield from _pytorch(job, specs)
        case TFJob():
            leaders = [role for role in specs if role.lower() in ("chief", "master")]
            if len(leaders) > 1:
                yield forbidden("spec.tfReplicaSpecs", "must not have more than 1 Chief or Master role")
        case XGBoostJob():
            if "Master" not in specs:
                yield required("spec.xgbReplicaSpecs[Master]", "must be present")
            yield from _one_master("spec.xgbReplicaSpecs", specs)
        case MPIJob():
            yield from _mpi(job, specs)
        case _:
            return


def _hosts(name: str, specs: ReplicaSpecs, before: ReplicaSpecs) -> Iterator[FieldError]:
    """Each pod has a Service of its name, which holds 63 characters; the operator takes the job and never starts it."""
    for role, spec in specs.items():
        count = 1 if spec.replicas is None else spec.replicas
        old = before.get(role)
        if count < 1 or (old is not None and (1 if old.replicas is None else old.replicas) >= count):
            continue
        longest = f"{name}-{role.lower()}-{count - 1}"
        if (beyond := len(longest) - _LONGEST_SERVICE) > 0:
            detail = f"Service {longest} would have {len(longest)} characters: shorten the name by {beyond}"
            yield invalid("metadata.name", name, detail)


def _run_policy(policy: RunPolicy, job: AnyTrainingJob) -> Iterator[FieldError]:
    managers = [TRAINING_OPERATOR, MULTIKUEUE]
    if isinstance(job, MPIJob):
        managers.append(MPI_OPERATOR)
    if policy.managed_by is not None and policy.managed_by not in managers:
        yield not_supported("spec.runPolicy.managedBy", policy.managed_by, managers)
    if policy.clean_pod_policy not in _CLEAN:
        yield not_supported("spec.runPolicy.cleanPodPolicy", policy.clean_pod_policy, _CLEAN)
    gang = policy.scheduling_policy
    for field, value in (
        ("backoffLimit", policy.backoff_limit),
        ("activeDeadlineSeconds", policy.active_deadline_seconds),
        ("ttlSecondsAfterFinished", policy.ttl_seconds_after_finished),
        ("schedulingPolicy.minAvailable", gang.min_available if gang else None),
    ):
        if value is not None and value < 0:
            yield invalid(f"spec.runPolicy.{field}", value, "must be greater than or equal to 0")


def _update(new: RunPolicy, old: RunPolicy) -> Iterator[FieldError]:
    if new.managed_by != old.managed_by:
        yield invalid("spec.runPolicy.managedBy", new.managed_by or "", "field is immutable")
    before = old.scheduling_policy.queue if old.scheduling_policy else None
    after = new.scheduling_policy.queue if new.scheduling_policy else None
    if before is not None and after is not None and before != after:
        yield invalid("spec.runPolicy.schedulingPolicy.queue", after, QUEUE_IMMUTABLE)


def _replica_spec(role: str, spec: ReplicaSpec, facts: TrainingDefaults) -> Iterator[FieldError]:
    path = f"spec.{facts.wire}[{role}]"
    spelled = facts.types if facts.strict else (*facts.types, *(each.lower() for each in facts.types))
    if role not in spelled:
        yield not_supported(path, role, facts.types)
    if spec.replicas is not None and spec.replicas < 0:
        yield invalid(f"{path}.replicas", spec.replicas, "must be greater than or equal to 0")
    if spec.restart_policy and spec.restart_policy not in RESTART_POLICIES:
        yield not_supported(f"{path}.restartPolicy", spec.restart_policy, RESTART_POLICIES)
    own = list(_containers(f"{path}.template.spec.containers", spec, facts))
    yield from own
    reported = {error.path for error in own}
    yield from (each for each in _replica_template(spec, f"{path}.template") if each.path not in reported)


def _containers(path: str, spec: ReplicaSpec, facts: TrainingDefaults) -> Iterator[FieldError]:
    containers = spec.template.spec.containers or []
    if not containers:
        yield required(path, "must be specified")
        return
    for index, container in enumerate(containers):
        if not container.image:
            yield required(f"{path}[{index}].image", "must be required")
    # A single container is the one that is meant, whatever its name; the operator refuses other names.
    has_main = len(containers) == 1 or any(container.name == facts.container for container in containers)
    if not has_main and facts.container != "mpi":
        yield required(path, f"must have at least one container with name {facts.container}")


def _replica_template(spec: ReplicaSpec, path: str) -> Iterator[FieldError]:
    """Rules of the pod, except those of `pods_lack`."""
    return (error for error in _template_errors(spec, path) if error.reason != "FieldValueNotFound")


def _template_errors(spec: ReplicaSpec, path: str) -> Iterator[FieldError]:
    """Rules of the pod; its restart policy does not count, for the one beside the template replaces it."""
    pod = msgspec.structs.replace(spec.template.spec, restart_policy=None)
    yield from validate_template(msgspec.structs.replace(spec.template, spec=pod), path)


def pods_lack(job: AnyTrainingJob) -> Iterator[FieldError]:
    """What templates of pods refer to and do not have, such as a volume that only another role declares.

    The operator's definitions let a cluster store such a job; its pods are refused.
    """
    facts = TRAINING[type(job)]
    specs: ReplicaSpecs = getattr(job.spec, facts.field) or {}
    for role, spec in specs.items():
        pods = msgspec.structs.replace(spec, template=with_volumes(spec.template, facts.volumes))
        errors = _template_errors(pods, f"spec.{facts.wire}[{role}].template")
        yield from (error for error in errors if error.reason == "FieldValueNotFound")


def _pytorch(job: PyTorchJob, specs: ReplicaSpecs) -> Iterator[FieldError]:
    yield from _one_master("spec.pytorchReplicaSpecs", specs)
    for role, spec in specs.items():
        if role != "Master" and spec.replicas is not None and spec.replicas < 1:
            yield forbidden(f"spec.pytorchReplicaSpecs[{role}].replicas", "must be at least 1")
    policy, nproc = job.spec.elastic_policy, job.spec.nproc_per_node
    if nproc is not None and nproc not in ("auto", "cpu", "gpu") and not _positive(nproc):
        yield invalid("spec.nprocPerNode", nproc, 'must be "auto", "cpu", "gpu" or a number above 0')
    if policy is None:
        return
    if "Worker" not in specs:
        yield required("spec.pytorchReplicaSpecs[Worker]", "must be configured if elastic policy is used")
    if policy.n_proc_per_node is not None and nproc is not None:
        yield forbidden("spec.elasticPolicy.nProcPerNode", "must not be used with spec.nprocPerNode")
    low, high = policy.min_replicas, policy.max_replicas
    if low is not None and low < 1:
        yield invalid("spec.elasticPolicy.minReplicas", low, "must be greater than or equal to 1")
    if low is not None and high is not None and high < low:
        yield invalid("spec.elasticPolicy.maxReplicas", high, f"must not be less than minReplicas ({low})")
    for index, value in enumerate(policy.metrics or ()):
        yield from _metric(value, f"spec.elasticPolicy.metrics[{index}]")


def _metric(value: FreeObject, path: str) -> Iterator[FieldError]:
    """A metric of the job's autoscaler, which would be refused for ever with a wrong one."""
    try:
        metric = msgspec.convert(value, MetricSpec)
    except msgspec.ValidationError as error:
        yield invalid(path, value, f"is no metric of autoscaling/v2: {error}")
        return
    yield from validate_metric(metric, path)


def _one_master(path: str, specs: ReplicaSpecs) -> Iterator[FieldError]:
    """One master; without a number it is one as well, which the operator refuses."""
    master = specs.get("Master")
    if master is not None and master.replicas not in (None, 1):
        yield forbidden(f"{path}[Master].replicas", "must be 1")


def _mpi(job: MPIJob, specs: ReplicaSpecs) -> Iterator[FieldError]:
    path = "spec.mpiReplicaSpecs"
    launcher, worker = specs.get("Launcher"), specs.get("Worker")
    if launcher is None:
        yield required(f"{path}[Launcher]", "must have Launcher replica spec")
    elif launcher.replicas not in (None, 1):
        yield invalid(f"{path}[Launcher].replicas", launcher.replicas, "must be 1")
    if job.spec.slots_per_worker is not None and job.spec.slots_per_worker < 1:
        yield invalid("spec.slotsPerWorker", job.spec.slots_per_worker, "must be greater than or equal to 1")
    for field, value, allowed in (
        ("mpiImplementation", job.spec.mpi_implementation, _IMPLEMENTATIONS),
        ("launcherCreationPolicy", job.spec.launcher_creation_policy, _LAUNCHER_CREATION),
    ):
        if value and value not in allowed:
            yield not_supported(f"spec.{field}", value, allowed)
    if job.metadata.name and worker is not None:
        host = f"{job.metadata.name}-worker-{max((worker.replicas or 0) - 1, 0)}"
        problems = names.dns_1035_label(host)
        if problems:
            detail = f'will not able to create pod and service with invalid DNS label "{host}": {", ".join(problems)}'
            yield invalid("metadata.name", job.metadata.name, detail)


def _positive(text: str) -> bool:
    return text.isdecimal() and int(text) > 0


# What to tell the writer of an object that is stored all the same, as far as the object itself tells.


def object_warnings(kind: Kind[Any], obj: Any) -> list[str]:
    """One sentence for each field that a server stores, and that will not work."""
    if kind in KUBEFLOW_KINDS:
        return [f"{error.message()}: its pods are refused until it is corrected" for error in pods_lack(obj)]
    if isinstance(obj, Job):
        return [*_unknown_tasks(obj), *_multiplied_in_vain(obj)]
    if isinstance(obj, RayCluster):
        return _outside_bounds(obj.spec, "spec")
    if isinstance(obj, RayJob):
        kept = obj.spec.ttl_seconds_after_finished and not obj.spec.shutdown_after_job_finishes
        ttl_warning = [
            "spec.ttlSecondsAfterFinished has no effect without spec.shutdownAfterJobFinishes: the job stays"
        ]
        return [*(ttl_warning if kept else ()), *_outside_bounds(obj.spec.ray_cluster_spec, "spec.rayClusterSpec")]
    if isinstance(obj, RayService):
        return _outside_bounds(obj.spec.ray_cluster_config, "spec.rayClusterConfig")
    return []


def _outside_bounds(spec: RayClusterSpec | None, path: str) -> list[str]:
    warnings = []
    for index, group in enumerate((spec.worker_group_specs if spec else None) or ()):
        at, requested = f"{path}.workerGroupSpecs[{index}]", group.replicas
        if requested is not None and group.max_replicas is not None and requested > group.max_replicas:
            warnings.append(f"{at}.replicas: {requested} counts as {group.max_replicas}, which is its maxReplicas")
        elif requested is not None and requested < (group.min_replicas or 0):
            warnings.append(f"{at}.replicas: {requested} counts as {group.min_replicas}, which is its minReplicas")
    return warnings


def _multiplied_in_vain(job: Job) -> list[str]:
    notes, tasks = job.metadata.annotations or {}, job.spec.tasks or ()
    kinds = (
        (task, multiplied_in_vain(notes, task.template.metadata.annotations or {}, task.template.spec))
        for task in tasks
    )
    return [
        f"annotation {ONE_OF}: {kind} multiplies nothing of task {task.name}, whose pods ask for no devices"
        for task, kind in kinds
        if kind
    ]


_OF_TASKS = (TASK_TOPOLOGY_AFFINITY, TASK_TOPOLOGY_ANTI_AFFINITY, TASK_TOPOLOGY_ORDER)


def _unknown_tasks(job: Job) -> list[str]:
    notes, tasks = job.metadata.annotations or {}, {task.name for task in job.spec.tasks or ()}
    named = {key: dict.fromkeys(re.findall(r"[^\s,;]+", notes.get(key, ""))) for key in _OF_TASKS}
    return [
        f"metadata.annotations[{key}]: the job has no task {name}, and none of its affinities of tasks is used"
        for key, names_of in named.items()
        for name in names_of
        if name not in tasks
    ]
