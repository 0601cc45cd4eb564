"""TrainJob: a runtime and what the job changes in it become a JobSet."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from unisono.api import core
from unisono.api.annotations import handed_down
from unisono.api.base import ObjectMeta
from unisono.api.conditions import is_true
from unisono.api.documents import merge_diff, merge_named
from unisono.api.groups.job_set import JobSet, JobSetSpec, ReplicatedJob
from unisono.api.groups.trainer import (
    AssetInitializer,
    ClusterTrainingRuntime,
    JobSetTemplateSpec,
    MLPolicy,
    MpiPolicy,
    TargetJob,
    TrainingRuntimeSpec,
    TrainJob,
    TrainJobReplicatedStatus,
    TrainJobSpec,
    TrainJobStatus,
)
from unisono.api.keys import (
    LAST_APPLIED,
    NETWORK_TOPOLOGY_HIGHEST_TIER,
    NETWORK_TOPOLOGY_MODE,
    SSH_AUTH,
    TRAINJOB_ANCESTOR,
)
from unisono.api.kind_families import JOB_SETS, TRAIN_JOBS
from unisono.api.kinds import CONFIG_MAPS, SECRETS
from unisono.api.quantity import parse_quantity
from unisono.api.times import parse_time, rfc3339
from unisono.api.validation.training import validate_train_job
from unisono.controllers.objects import owner_uid, to_json
from unisono.controllers.owners import TooManyHosts, list_too_long, owned_by
from unisono.controllers.plan import Resource
from unisono.controllers.training.plan import TrainingPlan, new_keys, set_condition
from unisono.jobkinds.paths import walk
from unisono.jobkinds.registry import handed_to

# What to do about a TrainJob: a pure function from observed objects and the time to a plan.

# The JobSet of a TrainJob: the runtime's template with what the job and its framework put into it. Pure.

# The runtimes that a control plane comes with.

_FRAMEWORK = "trainer.kubeflow.org/framework"


def built_in_runtimes() -> list[ClusterTrainingRuntime]:
    """Runtimes of the frameworks that need one step only, and of MPI."""
    return [
        _runtime(
            "torch-distributed",
            "torch",
            {"torch": {}},
            [_step("node", "pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime")],
        ),
        _runtime("jax-distributed", "jax", {"jax": {}}, [_step("node", "nvcr.io/nvidia/jax:25.10-py3")]),
        _runtime(
            "xgboost-distributed",
            "xgboost",
            {"xgboost": {}},
            [_step("node", "ghcr.io/kubeflow/trainer/xgboost-runtime")],
        ),
        _runtime(
            "deepspeed-distributed",
            "deepspeed",
            {"mpi": {"numProcPerNode": 1, "mpiImplementation": "OpenMPI", "runLauncherAsNode": True}},
            [
                _step("launcher", "ghcr.io/kubeflow/trainer/deepspeed-runtime"),
                _step(
                    "node",
                    "ghcr.io/kubeflow/trainer/deepspeed-runtime",
                    trains=False,
                    command=["/usr/sbin/sshd", "-De"],
                ),
            ],
            successPolicy={"operator": "All", "targetReplicatedJobs": ["launcher"]},
        ),
    ]


def _step(name: str, image: str, *, trains: bool = True, **container: Any) -> dict[str, Any]:
    step: dict[str, Any] = {
        "name": name,
        "replicas": 1,
        "template": {"spec": {"template": {"spec": {"containers": [{"name": "node", "image": image, **container}]}}}},
    }
    if trains:
        step["template"]["metadata"] = {"labels": {TRAINJOB_ANCESTOR: "trainer"}}
    return step


def _runtime(
    name: str, framework: str, policy: dict[str, Any], steps: list[dict[str, Any]], **spec: Any
) -> ClusterTrainingRuntime:
    value = {
        "metadata": {"name": name, "labels": {_FRAMEWORK: framework}},
        "spec": {
            "mlPolicy": {"numNodes": 1, **policy},
            "podGroupPolicy": {"volcano": {}},
            "template": {"spec": {"replicatedJobs": steps, **spec}},
        },
    }
    return msgspec.convert(value, ClusterTrainingRuntime)


# MPI in a TrainJob: keys, a file of hosts, and the variables of OpenMPI.

LAUNCHER, NODE = "launcher", "node"
_FILES = (("ssh-privatekey", "id_rsa"), ("ssh-publickey", "id_rsa.pub"), ("ssh-publickey", "authorized_keys"))


def add_mpi(job: TrainJob, policy: MpiPolicy, spec: JobSetSpec) -> None:
    """Mount keys and hosts where processes start or are started, and tell OpenMPI of them."""
    name = job.metadata.name
    for replicated in spec.replicated_jobs or ():
        if replicated.name not in (LAUNCHER, NODE):
            continue
        pods = replicated.template.spec.template
        keys = [core.KeyToPath(key=key, path=path) for key, path in _FILES]
        _mount(
            pods,
            core.Volume(
                name="mpi-ssh-auth",
                secret=core.SecretVolumeSource(secret_name=f"{name}-mpi-ssh-auth", items=keys, default_mode=0o600),
            ),
            policy.ssh_auth_mount_path or "/root/.ssh",
        )
        if replicated.name == LAUNCHER:
            source = core.ConfigMapVolumeSource(name=f"{name}-mpi-hostfile")
            _mount(pods, core.Volume(name="mpi-hostfile", config_map=source), "/etc/mpi")
            for container in (pods.spec.containers or [])[:1]:
                container.env = [*(container.env or ()), *_variables(job, policy)]


def mpi_objects(job: TrainJob, policy: MpiPolicy, spec: JobSetSpec) -> Iterator[Resource]:
    """The keys and the file of hosts.

    Raises:
        TooManyHosts: no ConfigMap can hold the file; found before it is built.
    """
    name, slots = job.metadata.name, _slots(job, policy)
    hosts = [f"{name}-{LAUNCHER}-0-0.{name}"] if policy.run_launcher_as_node else []
    numbers = [each.template.spec.completions or 0 for each in spec.replicated_jobs or () if each.name == NODE]
    shortest = len(_line(f"{name}-{NODE}-0-0.{name}", slots))
    if why := list_too_long(sum(numbers), sum(numbers) * shortest):
        raise TooManyHosts(f"the runtime's MPI host file: {why}")
    hosts += [f"{name}-{NODE}-0-{index}.{name}" for number in numbers for index in range(number)]
    text = "".join(_line(host, slots) for host in hosts)
    yield Resource(CONFIG_MAPS, core.ConfigMap(metadata=_meta(job, f"{name}-mpi-hostfile"), data={"hostfile": text}))
    secret = core.Secret(metadata=_meta(job, f"{name}-mpi-ssh-auth"), type=SSH_AUTH)
    yield Resource(SECRETS, secret, first_data=new_keys)


def _variables(job: TrainJob, policy: MpiPolicy) -> list[core.EnvVar]:
    return [
        core.EnvVar(name="OMPI_MCA_orte_default_hostfile", value="/etc/mpi/hostfile"),
        core.EnvVar(name="OMPI_MCA_orte_keep_fqdn_hostnames", value="true"),
        core.EnvVar(name="OMPI_MCA_orte_set_default_slots", value=str(_slots(job, policy))),
        core.EnvVar(name="OMPI_MCA_plm_rsh_args", value="-o ConnectionAttempts=10"),
    ]


def _line(host: str, slots: int) -> str:
    return f"{host} slots={slots}\n"


def _slots(job: TrainJob, policy: MpiPolicy) -> int:
    processes = job.spec.trainer.num_proc_per_node if job.spec.trainer else None
    return processes if isinstance(processes, int) else policy.num_proc_per_node or 1


def _mount(pods: core.PodTemplateSpec, volume: core.Volume, path: str) -> None:
    pods.spec.volumes = [*(pods.spec.volumes or ()), volume]
    for container in (pods.spec.containers or [])[:1]:
        container.volume_mounts = [
            *(container.volume_mounts or ()),
            core.VolumeMount(name=volume.name, mount_path=path),
        ]


def _meta(job: TrainJob, name: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=job.metadata.namespace, owner_references=[owned_by(TRAIN_JOBS, job)])


TRAINER, DATASET, MODEL = "trainer", "dataset-initializer", "model-initializer"
PORT = 29500
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def idle_parts(job: TrainJob, runtime: TrainingRuntimeSpec) -> Iterator[tuple[str, str]]:
    """A reason and a sentence for each part of the job that no job of the runtime carries out."""
    jobs = runtime.template.spec.replicated_jobs or ()
    steps = {(each.template.metadata.labels or {}).get(TRAINJOB_ANCESTOR) for each in jobs}
    given = job.spec.initializer
    for field, part, step in (
        ("trainer", job.spec.trainer, TRAINER),
        ("initializer.dataset", given and given.dataset, DATASET),
        ("initializer.model", given and given.model, MODEL),
    ):
        if part is not None and step not in steps:
            # The number of nodes is also that of a job of this name.
            but = " but for numNodes" if step == TRAINER and any(each.name == NODE for each in jobs) else ""
            yield (
                "TrainerNotRun" if step == TRAINER else "InitializerNotRun",
                f"spec.{field} has no effect{but}: no job of the runtime has the label {TRAINJOB_ANCESTOR}: "
                f"{step}; refer to a runtime that has one",
            )


def build_job_set(job: TrainJob, runtime: TrainingRuntimeSpec) -> JobSet:
    """The JobSet, named and owned by the job."""
    template = _patched(job, runtime)
    spec, policy = template.spec, runtime.ml_policy or MLPolicy()
    for replicated in spec.replicated_jobs or ():
        step = (replicated.template.metadata.labels or {}).get(TRAINJOB_ANCESTOR)
        pods = replicated.template.spec.template
        if step == TRAINER:
            _apply_trainer(job, pods)
        if step == TRAINER or replicated.name == NODE:
            _size(job, policy, replicated, step)
        initializer = job.spec.initializer
        if step == DATASET and initializer is not None:
            _apply_initializer(initializer.dataset, pods)
        if step == MODEL and initializer is not None:
            _apply_initializer(initializer.model, pods)
    _apply_framework(job, policy, spec)
    spec.suspend = job.spec.suspend
    given = {k: v for k, v in (job.metadata.annotations or {}).items() if k != LAST_APPLIED}
    return JobSet(
        metadata=ObjectMeta(
            name=job.metadata.name,
            namespace=job.metadata.namespace,
            labels={**(template.metadata.labels or {}), **(job.metadata.labels or {})} or None,
            annotations={**_topology(runtime), **handed_down(None, template.metadata.annotations), **given} or None,
            owner_references=[owned_by(TRAIN_JOBS, job)],
        ),
        spec=spec,
    )


def nodes_of(job: TrainJob, policy: MLPolicy) -> int | None:
    """Number of pods of the step that trains; None leaves it to the template."""
    trainer = job.spec.trainer
    if trainer is not None and trainer.num_nodes is not None:
        return trainer.num_nodes
    elastic = policy.torch.elastic_policy if policy.torch else None
    if elastic is not None:
        return elastic.max_nodes or elastic.min_nodes
    return policy.num_nodes


def _patched(job: TrainJob, runtime: TrainingRuntimeSpec) -> JobSetTemplateSpec:
    value = msgspec.to_builtins(runtime.template)
    for change in _changes(job.spec, [each.name for each in runtime.template.spec.replicated_jobs or ()]):
        value = merge_named(value, change)
    return msgspec.convert(value, JobSetTemplateSpec)


def _changes(spec: TrainJobSpec, steps: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What a job changes of its runtime's template, as Trainer 2.2, 2.1 and 2.0 write it; ``steps``: all its jobs."""
    for patch in spec.runtime_patches or ():
        change = (patch.training_runtime_spec or {}).get("template")
        if isinstance(change, dict):
            yield change
    own = {"labels": spec.labels or {}, "annotations": spec.annotations or {}}
    if spec.labels or spec.annotations:
        yield {"metadata": own}
    for override in spec.pod_template_overrides or ():
        pods = {"metadata": override.metadata, "spec": override.spec}
        yield _of_steps(override.target_jobs, steps, {key: part for key, part in pods.items() if part})
    for older in spec.pod_spec_overrides or ():
        parts = msgspec.to_builtins(older)
        parts.pop("targetJobs", None)
        yield _of_steps(older.target_jobs, steps, {"spec": parts})


_TARGETS = (
    "spec.podTemplateOverrides[*].targetJobs[*].name",
    "spec.podSpecOverrides[*].targetJobs[*].name",
    "spec.runtimePatches[*].trainingRuntimeSpec.template.spec.replicatedJobs[*].name",
)
"""Where a job names those of its runtime's jobs that it changes, as Trainer 2.1, 2.0 and 2.2 write it."""


def strange_targets(job: TrainJob, runtime: TrainingRuntimeSpec) -> str:
    """Which of the jobs that the job names to change the runtime does not have, in words; empty when there is none."""
    steps = [each.name for each in runtime.template.spec.replicated_jobs or ()]
    strange = [f"{at} is {name}" for path in _TARGETS for at, name in walk(job, path) if name not in steps]
    return f"{'; '.join(strange)}: the runtime has the jobs {', '.join(steps)}" if strange else ""


def _of_steps(targets: Sequence[TargetJob] | None, steps: Sequence[str], pods: dict[str, Any]) -> dict[str, Any]:
    """A change to the pods of some jobs, or of all, as one of the whole template."""
    target_names = {target.name for target in targets or ()}
    names = [step for step in steps if not target_names or step in target_names]
    return {"spec": {"replicatedJobs": [{"name": name, "template": {"spec": {"template": pods}}} for name in names]}}


def _apply_trainer(job: TrainJob, pods: core.PodTemplateSpec) -> None:
    trainer, container = job.spec.trainer, _main(pods)
    if trainer is None or container is None:
        return
    container.image = trainer.image or container.image
    container.command = trainer.command if trainer.command is not None else container.command
    container.args = trainer.args if trainer.args is not None else container.args
    if trainer.resources_per_node is not None:
        container.resources = trainer.resources_per_node
    _set_env(container, trainer.env or ())


def _size(job: TrainJob, policy: MLPolicy, replicated: ReplicatedJob, step: str | None) -> None:
    """Only the step whose pods train has the wanted number; the launcher of MPI is alone."""
    trainer, container = job.spec.trainer, _main(replicated.template.spec.template)
    if policy.mpi is not None and step == TRAINER and replicated.name != NODE:
        return
    if trainer is not None and trainer.resources_per_node is not None and container is not None:
        container.resources = trainer.resources_per_node
    number = nodes_of(job, policy)
    if number is None:
        return
    if policy.mpi is not None and policy.mpi.run_launcher_as_node:
        number = max(number - 1, 0)
    replicated.template.spec.parallelism = replicated.template.spec.completions = number


def _apply_initializer(given: AssetInitializer | None, pods: core.PodTemplateSpec) -> None:
    container = _main(pods)
    if given is None or container is None:
        return
    if given.storage_uri:
        _set_env(container, [core.EnvVar(name="STORAGE_URI", value=given.storage_uri)])
    _set_env(container, given.env or ())
    if given.secret_ref is not None:
        source = core.EnvFromSource(secret_ref=core.EnvFromReference(name=given.secret_ref.name or ""))
        container.env_from = [*(container.env_from or ()), source]


def _apply_framework(job: TrainJob, policy: MLPolicy, spec: JobSetSpec) -> None:
    if policy.mpi is not None:
        add_mpi(job, policy.mpi, spec)
        return
    for replicated in spec.replicated_jobs or ():
        if (replicated.template.metadata.labels or {}).get(TRAINJOB_ANCESTOR) != TRAINER:
            continue
        container = _main(replicated.template.spec.template)
        if container is None:
            continue
        host = f"{job.metadata.name}-{replicated.name}-0-0.{job.metadata.name}"
        number = replicated.template.spec.completions or replicated.template.spec.parallelism or 1
        _set_env(container, _framework_env(job, policy, container, host, number))


def _framework_env(
    job: TrainJob, policy: MLPolicy, container: core.Container, host: str, number: int
) -> list[core.EnvVar]:
    rank = core.EnvVarSource(field_ref=core.ObjectFieldSelector(field_path=_INDEX))
    if policy.torch is not None:
        elastic = policy.torch.elastic_policy
        nodes = f"{elastic.min_nodes or number}:{elastic.max_nodes or number}" if elastic is not None else str(number)
        processes = job.spec.trainer.num_proc_per_node if job.spec.trainer else None
        if processes is None:
            processes = policy.torch.num_proc_per_node
        return [
            core.EnvVar(name="PET_NNODES", value=nodes),
            core.EnvVar(name="PET_NPROC_PER_NODE", value=_processes(processes, container)),
            core.EnvVar(name="PET_NODE_RANK", value_from=rank),
            core.EnvVar(name="PET_MASTER_ADDR", value=host),
            core.EnvVar(name="PET_MASTER_PORT", value=str(PORT)),
        ]
    if policy.jax is not None:
        return [
            core.EnvVar(name="JAX_NUM_PROCESSES", value=str(number)),
            core.EnvVar(name="JAX_PROCESS_ID", value_from=rank),
            core.EnvVar(name="JAX_COORDINATOR_ADDRESS", value=f"{host}:{PORT}"),
        ]
    if policy.xgboost is not None:
        workers = number * max(1, _gpus(container))
        return [
            core.EnvVar(name="DMLC_TRACKER_URI", value=host),
            core.EnvVar(name="DMLC_TRACKER_PORT", value=str(PORT)),
            core.EnvVar(name="DMLC_TASK_ID", value_from=rank),
            core.EnvVar(name="DMLC_NUM_WORKER", value=str(workers)),
        ]
    return []


def _processes(wanted: int | str | None, container: core.Container) -> str:
    """Processes of torchrun: a number as given; ``auto`` means one per GPU, else one per CPU."""
    if wanted == "gpu" or (wanted in (None, "auto") and _gpus(container)):
        return str(wanted or "auto")
    if wanted in (None, "auto", "cpu"):
        return str(max(1, math.ceil(_amount(container, "cpu"))))
    return str(wanted)


def _gpus(container: core.Container) -> int:
    limits = {**(container.resources.requests or {}), **(container.resources.limits or {})}
    return sum(math.ceil(_amount(container, name)) for name in limits if "gpu" in name.lower())


def _amount(container: core.Container, name: str) -> float:
    resources = container.resources
    amount = (resources.limits or {}).get(name, (resources.requests or {}).get(name))
    return float(parse_quantity(amount)) if amount is not None else 0.0


def _topology(runtime: TrainingRuntimeSpec) -> dict[str, str]:
    """The topology that the runtime asks for, as annotations that the JobSet's pod group is made from."""
    volcano = runtime.pod_group_policy.volcano if runtime.pod_group_policy else None
    topology = volcano.network_topology if volcano else None
    if topology is None:
        return {}
    annotations = {NETWORK_TOPOLOGY_MODE: topology.mode or "hard"}
    if topology.highest_tier_allowed is not None:
        annotations[NETWORK_TOPOLOGY_HIGHEST_TIER] = str(topology.highest_tier_allowed)
    return annotations


def _main(pods: core.PodTemplateSpec) -> core.Container | None:
    containers = pods.spec.containers or []
    return next((each for each in containers if each.name == NODE), containers[0] if containers else None)


def _set_env(container: core.Container, variables: Iterable[core.EnvVar]) -> None:
    """Set variables; those of the same name give way."""
    added = list(variables)
    names = {each.name for each in added}
    merged = [each for each in container.env or () if each.name not in names] + added
    container.env = merged or None


COMPLETE, FAILED, SUSPENDED = "Complete", "Failed", "Suspended"
# Seconds until a runtime that was not there is looked for again.
_RUNTIME_RETRY = 10.0


def decide(job: TrainJob, runtime: TrainingRuntimeSpec | None, job_set: JobSet | None, now: float) -> TrainingPlan:
    """The next step for the job.

    Args:
        job: the job.
        runtime: the runtime that it refers to; None when there is none.
        job_set: the JobSet of the job's name, if it is there.
        now: seconds since 1970.
    """
    plan = TrainingPlan()
    if handed_to(job)[1]:
        return plan
    status = msgspec.convert(msgspec.to_builtins(job.status), TrainJobStatus)
    if is_true(status.conditions, COMPLETE) or is_true(status.conditions, FAILED):
        _wind_down(plan, status, job_set)
        return plan
    if not status.conditions and job_set is None:
        errors = [error.message() for error in validate_train_job(job, None)]
        if errors:
            plan.warn("FailedValidation", "; ".join(errors), once="validation")
            return plan
    time = rfc3339(now)
    if job.spec.suspend:
        _set(plan, status, SUSPENDED, "True", SUSPENDED, "TrainJob is suspended", time)
    elif is_true(status.conditions, SUSPENDED):
        _set(plan, status, SUSPENDED, "False", "Resumed", "TrainJob is resumed", time)
    if job_set is not None and owner_uid(job_set) == job.metadata.uid:
        _follow(plan, status, job_set, time)
    _expire(plan, job, status, time, now)
    ended = is_true(status.conditions, COMPLETE) or is_true(status.conditions, FAILED)
    if not ended:
        _make(plan, job, runtime, job_set)
    if status != job.status:
        plan.status = status
    return plan


def _make(plan: TrainingPlan, job: TrainJob, runtime: TrainingRuntimeSpec | None, job_set: JobSet | None) -> None:
    """The JobSet: made once; changed only while it is suspended, but suspended and resumed at any time."""
    if runtime is None:
        kind = job.spec.runtime_ref.kind or "ClusterTrainingRuntime"
        text = f"{kind} {job.spec.runtime_ref.name} does not exist; create it, or refer to another one in a new job"
        plan.warn("TrainingRuntimeNotFound", text, once=text)
        plan.again_within(_RUNTIME_RETRY)
        return
    if job_set is None and (strange := strange_targets(job, runtime)):
        plan.warn("UnknownTargetJob", strange, once=strange)
        return
    for reason, idle in idle_parts(job, runtime):
        plan.warn(reason, idle, once=idle)
    built = build_job_set(job, runtime)
    if job_set is None and not built.spec.replicated_jobs:
        kind = job.spec.runtime_ref.kind or "ClusterTrainingRuntime"
        text = f"{kind} {job.spec.runtime_ref.name} has no job: write replicatedJobs in its spec.template.spec"
        plan.warn("NoJobInRuntime", text, once=text)
        plan.again_within(_RUNTIME_RETRY)
        return
    if runtime.ml_policy is not None and runtime.ml_policy.mpi is not None:
        try:
            plan.ensure.extend(mpi_objects(job, runtime.ml_policy.mpi, built.spec))
        except TooManyHosts as error:
            plan.warn(TooManyHosts.__name__, str(error), once=str(error))
            return
    if job_set is None or owner_uid(job_set) != job.metadata.uid:
        plan.ensure.append(Resource(JOB_SETS, built, permanent=True, warning="FailedCreateJobSet"))
        return
    patch = {}
    if bool(job_set.spec.suspend) != bool(built.spec.suspend):
        patch["suspend"] = bool(built.spec.suspend)
    if job_set.spec.suspend and to_json(job_set.spec).get("replicatedJobs") != to_json(built.spec).get(
        "replicatedJobs"
    ):
        change = merge_diff(to_json(job_set.spec), to_json(built.spec))
        patch |= {key: value for key, value in change.items() if key == "replicatedJobs"}
    if patch:
        plan.patches.append((JOB_SETS, job_set.metadata.name, {"spec": patch}))


def _follow(plan: TrainingPlan, status: TrainJobStatus, job_set: JobSet, time: str) -> None:
    """Take over what the JobSet says."""
    status.jobs_status = [
        TrainJobReplicatedStatus(
            name=each.name,
            ready=each.ready,
            succeeded=each.succeeded,
            failed=each.failed,
            active=each.active,
            suspended=each.suspended,
        )
        for each in job_set.status.replicated_jobs_status or ()
    ] or None
    for theirs, ours in (("Completed", COMPLETE), ("Failed", FAILED)):
        for each in job_set.status.conditions or ():
            if each.type == theirs and each.status == "True":
                _set(plan, status, ours, "True", each.reason or theirs, each.message or "", time)


def _expire(plan: TrainingPlan, job: TrainJob, status: TrainJobStatus, time: str, now: float) -> None:
    limit = job.spec.active_deadline_seconds
    if limit is None or job.spec.suspend or is_true(status.conditions, COMPLETE):
        return
    resumed = [each.last_transition_time for each in status.conditions or () if each.type == SUSPENDED]
    since = (resumed[0] if resumed else None) or job.metadata.creation_timestamp or time
    left = parse_time(since) + limit - now
    if left > 0:
        plan.again_within(left)
    else:
        text = "TrainJob exceeded its active deadline"
        _set(plan, status, FAILED, "True", "DeadlineExceeded", text, time)


def _wind_down(plan: TrainingPlan, status: TrainJobStatus, job_set: JobSet | None) -> None:
    """A job that is out of time takes its JobSet with it, and so its pods."""
    late = any(each.type == FAILED and each.reason == "DeadlineExceeded" for each in status.conditions or ())
    if late and job_set is not None and not job_set.metadata.deletion_timestamp:
        plan.remove.append((JOB_SETS, job_set))


def _set(
    plan: TrainingPlan, status: TrainJobStatus, type: str, value: str, reason: str, message: str, time: str
) -> None:
    before = list(status.conditions or ())
    after = set_condition(before, type, value, reason, message, time)
    if after != before:
        record = plan.warn if type == FAILED else plan.tell
        record(reason, message)
        status.conditions = after
