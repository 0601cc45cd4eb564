"""Rules of training jobs, as the webhooks of Kubeflow's training operator and the controller of MPI jobs check them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from unisono.api import names
from unisono.api.defaulting.kubeflow import CLEAN_ALL, CLEAN_NONE, CLEAN_RUNNING, TRAINING, TrainingDefaults, run_policy
from unisono.api.field_error import FieldError, forbidden, invalid, not_supported, required
from unisono.api.keys import MPI_OPERATOR, MULTIKUEUE, TRAINING_OPERATOR
from unisono.api.kubeflow import (
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
from unisono.api.validation.pod import validate_template

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
    told = {error.path for error in own}
    yield from (each for each in _template(spec, f"{path}.template") if each.path not in told)


def _containers(path: str, spec: ReplicaSpec, facts: TrainingDefaults) -> Iterator[FieldError]:
    containers = spec.template.spec.containers or []
    if not containers:
        yield required(path, "must be specified")
        return
    for index, container in enumerate(containers):
        if not container.image:
            yield required(f"{path}[{index}].image", "must be required")
    # A single container is the one that is meant, whatever its name; the operator refuses other names.
    known = len(containers) == 1 or any(container.name == facts.container for container in containers)
    if not known and facts.container != "mpi":
        yield required(path, f"must have at least one container with name {facts.container}")


def _template(spec: ReplicaSpec, path: str) -> Iterator[FieldError]:
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
        errors = _template_errors(spec, f"spec.{facts.wire}[{role}].template")
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
    for field, value, known in (
        ("mpiImplementation", job.spec.mpi_implementation, _IMPLEMENTATIONS),
        ("launcherCreationPolicy", job.spec.launcher_creation_policy, _LAUNCHER_CREATION),
    ):
        if value and value not in known:
            yield not_supported(f"spec.{field}", value, known)
    if job.metadata.name and worker is not None:
        host = f"{job.metadata.name}-worker-{max((worker.replicas or 0) - 1, 0)}"
        problems = names.dns_1035_label(host)
        if problems:
            detail = f'will not able to create pod and service with invalid DNS label "{host}": {", ".join(problems)}'
            yield invalid("metadata.name", job.metadata.name, detail)


def _positive(text: str) -> bool:
    return text.isdecimal() and int(text) > 0
