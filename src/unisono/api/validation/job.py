"""Rules of jobs and of what makes jobs, as Volcano's validating webhooks check them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

import msgspec

from unisono.api import names
from unisono.api.annotations import ONE_OF
from unisono.api.cron import HINT, parse_schedule, parse_zone
from unisono.api.defaulting.kubeflow import default_job
from unisono.api.field_error import FieldError, duplicate, forbidden, invalid, not_supported, required
from unisono.api.groups import batch
from unisono.api.groups.flow import Flow, FlowProbe, JobFlow, JobTemplate
from unisono.api.groups.topology import NetworkTopologySpec
from unisono.api.messages import TOPOLOGY_EXCLUSIVE, UPDATE_SCOPE
from unisono.api.quantity import QuantityError, to_milli
from unisono.api.times import parse_duration
from unisono.api.validation.cluster import validate_claim_spec
from unisono.api.validation.meta import by
from unisono.api.validation.pod import validate_template

# Rules of life-cycle policies of jobs and tasks.

EVENTS = ("*", "JobUpdated", "PodEvicted", "PodFailed", "PodPending", "TaskCompleted", "TaskFailed", "Unknown")
ACTIONS = (
    "AbortJob",
    "CompleteJob",
    "RestartJob",
    "RestartPartition",
    "RestartPod",
    "RestartTask",
    "ResumeJob",
    "TerminateJob",
)


def validate_policies(policies: list[batch.LifecyclePolicy] | None, path: str) -> Iterator[FieldError]:
    """Each policy is about events or an exit code, each event and code has one policy, and ``*`` stands alone."""
    events: set[str] = set()
    codes: set[int] = set()
    for index, policy in enumerate(policies or ()):
        at = f"{path}[{index}]"
        named = policy_events(policy)
        if named and policy.exit_code is not None:
            yield invalid(at, policy.exit_code, "must not specify event and exitCode simultaneously")
        elif not named and policy.exit_code is None:
            yield required(at, "either event and exitCode should be specified")
        yield from _action(policy, at)
        for event in named:
            # Unknown events are refused by the schema's enum.
            if event in batch.POLICY_EVENTS and event not in EVENTS:
                yield invalid(at, event, f"invalid policy event, valid events are {', '.join(EVENTS)}")
            elif event in events:
                yield duplicate(at, event, f"duplicate event {event}  across different policy")
        events |= set(named)
        if policy.exit_code is not None:
            if policy.exit_code == 0:
                yield invalid(f"{at}.exitCode", 0, "0 is not a valid error code")
            if policy.exit_code in codes:
                yield duplicate(f"{at}.exitCode", policy.exit_code, f"duplicate exitCode {policy.exit_code}")
            codes.add(policy.exit_code)
        yield from _timeout(policy, at)
    if "*" in events and len(events) > 1:
        yield forbidden(path, "if there's * here, no other policy should be here")


def policy_events(policy: batch.LifecyclePolicy) -> list[str]:
    """``event`` and ``events`` together, each once, in order."""
    return list(dict.fromkeys([*([policy.event] if policy.event else ()), *(policy.events or ())]))


def _action(policy: batch.LifecyclePolicy, path: str) -> Iterator[FieldError]:
    if not policy.action:
        yield required(f"{path}.action", f"invalid policy action, valid actions are {', '.join(ACTIONS)}")
    elif policy.action not in ACTIONS:
        yield not_supported(f"{path}.action", policy.action, ACTIONS)


def _timeout(policy: batch.LifecyclePolicy, path: str) -> Iterator[FieldError]:
    if not policy.timeout:
        return
    try:
        parse_duration(policy.timeout)
    except ValueError as error:
        yield invalid(f"{path}.timeout", policy.timeout, f"{error}: write it as 90s, 5m or 1h30m")


# Plug-ins that make objects, or come with some that do, whose names are labels.
_NAMING = frozenset({"jax", "mpi", "pytorch", "ray", "ssh", "svc", "tensorflow"})
PLUGINS = ("env", "hcclrank", "jax", "mpi", "pytorch", "ray", "ssh", "svc", "tensorflow")


def validate_job(job: batch.Job, old: batch.Job | None) -> Iterator[FieldError]:
    """Rules of a job; on an update also what may change."""
    name, spec = job.metadata.name, job.spec
    yield from _sizes(name, spec)
    yield from validate_topology(spec.network_topology, "spec.networkTopology")
    if old is not None:
        yield from _update(spec, old.spec)
        yield from _choice(job, old)
        return
    for problem in names.qualified_name(name) if name else ():
        yield invalid("metadata.name", name, f"create job with name {name} validate failed [{problem}]")
    yield from _tasks(name, spec)
    yield from validate_policies(spec.policies, "spec.policies")
    for plugin in spec.plugins or {}:
        if plugin not in PLUGINS:
            detail = f"unable to find job plugin: {plugin}; plug-ins are {', '.join(PLUGINS)}"
            yield invalid(f"spec.plugins[{plugin}]", plugin, detail)
    yield from _host_names(name, spec)
    if "mpi" in (spec.plugins or {}) and not _has_mpi_master(spec):
        yield required("spec.tasks", "The specified mpi master task was not found")
    yield from _volumes(spec.volumes)
    if spec.running_estimate:
        yield from _duration(spec.running_estimate, "spec.runningEstimate")


def _sizes(name: str, spec: batch.JobSpec) -> Iterator[FieldError]:
    """Gang sizes against replicas; these hold after every update, too."""
    tasks = spec.tasks or []
    if not tasks:
        yield required("spec.tasks", "No task specified in job spec")
        return
    for index, task in enumerate(tasks):
        replicas = task.replicas or 0
        if task.min_available is not None and task.min_available > replicas:
            detail = f"'minAvailable' is greater than 'replicas' in task: {task.name}, job: {name}"
            yield invalid(f"spec.tasks[{index}].minAvailable", task.min_available, detail)
        yield from _partition(name, task, f"spec.tasks[{index}]")
    total = sum(task.replicas or 0 for task in tasks)
    if (spec.min_available or 0) > total:
        detail = f"job 'minAvailable' should not be greater than total replicas in tasks ({total})"
        yield invalid("spec.minAvailable", spec.min_available, detail)


def _partition(name: str, task: batch.TaskSpec, path: str) -> Iterator[FieldError]:
    policy = task.partition_policy
    if policy is None:
        return
    where = f"in task: {task.name}, job: {name}"
    at = f"{path}.partitionPolicy"
    if policy.total_partitions <= 0:
        yield invalid(
            f"{at}.totalPartitions", policy.total_partitions, f"'TotalPartitions' must be greater than 0 {where}"
        )
    if policy.partition_size <= 0:
        yield invalid(f"{at}.partitionSize", policy.partition_size, f"'PartitionSize' must be greater than 0 {where}")
    if (task.replicas or 0) != policy.total_partitions * policy.partition_size:
        detail = f"'Replicas' are not equal to TotalPartitions*PartitionSize {where}"
        yield invalid(f"{path}.replicas", task.replicas or 0, detail)
    minimum = (policy.min_partitions or 0) * policy.partition_size
    if policy.min_partitions and task.min_available is not None and task.min_available != minimum:
        detail = f"'MinAvailable' is not equal to MinPartitions*PartitionSize {where}"
        yield invalid(f"{path}.minAvailable", task.min_available, detail)
    yield from validate_topology(policy.network_topology, f"{at}.networkTopology")


def validate_topology(topology: NetworkTopologySpec | None, path: str) -> Iterator[FieldError]:
    """A tier is named by number or by name."""
    if topology is not None and topology.highest_tier_allowed is not None and topology.highest_tier_name:
        yield invalid(path, topology.highest_tier_name, TOPOLOGY_EXCLUSIVE)


def _tasks(job: str, spec: batch.JobSpec) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, task in enumerate(spec.tasks or ()):
        path = f"spec.tasks[{index}]"
        if task.name in seen:
            yield duplicate(f"{path}.name", task.name, f"duplicated task name {task.name}")
        seen.add(task.name)
        yield from _pod_name(job, task, path)
        yield from validate_policies(task.policies, f"{path}.policies")
        yield from validate_template(task.template, f"{path}.template", remade=True)
        if task.topology_policy not in (None, "", "none"):
            yield from _whole_cores(task, path)
    yield from _dependencies(spec)


def _pod_name(job: str, task: batch.TaskSpec, path: str) -> Iterator[FieldError]:
    """The pod with the longest name must have a valid one; Volcano looks at another pod and fails later."""
    if not job or not task.name:
        return
    pod = f"{job}-{task.name}-{max((task.replicas or 0) - 1, 0)}"
    # It becomes the pod's host name as well, so the stricter rule of labels counts.
    for problem in names.dns_label(pod.replace(".", "-")):
        yield invalid(f"{path}.name", task.name, f"create pod with name {pod} validate failed [{problem}]")


def _host_names(job: str, spec: batch.JobSpec) -> Iterator[FieldError]:
    """Plug-ins that name hosts, Services and volumes after the job; all other names may have dots."""
    naming = [plugin for plugin in spec.plugins or {} if plugin in _NAMING]
    if naming and "." in job:
        detail = (
            f"the plug-ins {', '.join(naming)} name hosts and volumes after the job, and these cannot have dots: "
            "write the name with '-', or leave these plug-ins out"
        )
        yield invalid("metadata.name", job, detail)


def _whole_cores(task: batch.TaskSpec, path: str) -> Iterator[FieldError]:
    pod = task.template.spec
    for index, container in enumerate((*(pod.init_containers or ()), *(pod.containers or ()))):
        amounts = container.resources.requests or container.resources.limits or {}
        try:
            milli = to_milli(amounts.get("cpu", 0))
        except QuantityError:
            continue
        if milli == 0 or milli % 1000:
            detail = f"the cpu request isn't an integer in {path} container[{index}]."
            yield invalid(f"{path}.template.spec", str(amounts.get("cpu", 0)), detail)


def _dependencies(spec: batch.JobSpec) -> Iterator[FieldError]:
    tasks = spec.tasks or []
    task_names = {task.name for task in tasks}
    graph: dict[str, list[str]] = {}
    for index, task in enumerate(tasks):
        if task.depends_on is None:
            continue
        for dependency in task.depends_on.name or ():
            if dependency not in task_names:
                yield not_supported(f"spec.tasks[{index}].dependsOn.name", dependency, sorted(task_names))
            graph.setdefault(task.name, []).append(dependency)
        iteration = task.depends_on.iteration
        if iteration not in (None, "", "any", "all"):
            yield not_supported(f"spec.tasks[{index}].dependsOn.iteration", iteration, ("any", "all"))
    if not is_acyclic(graph):
        detail = "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)"
        yield invalid("spec.tasks", sorted(graph), detail)


def _has_mpi_master(spec: batch.JobSpec) -> bool:
    arguments = (spec.plugins or {}).get("mpi", [])
    master = "master"
    for position, argument in enumerate(arguments):
        name, equals, value = argument.lstrip("-").partition("=")
        if name == "master":
            master = value if equals else next(iter(arguments[position + 1 :]), master)
    return any(task.name == master for task in spec.tasks or ())


def _volumes(volumes: list[batch.VolumeSpec] | None) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, volume in enumerate(volumes or ()):
        path = f"spec.volumes[{index}]"
        # An empty mountPath is told by the schema's rules already.
        if volume.mount_path and volume.mount_path in seen:
            yield duplicate(f"{path}.mountPath", volume.mount_path, f"duplicated mountPath: {volume.mount_path}")
        seen.add(volume.mount_path)
        if volume.volume_claim is None and not volume.volume_claim_name:
            yield required(path, "either VolumeClaim or VolumeClaimName must be specified")
        elif volume.volume_claim is not None and volume.volume_claim_name:
            detail = (
                "conflict: If you want to use an existing PVC, just specify VolumeClaimName."
                "If you want to create a new PVC, you do not need to specify VolumeClaimName"
            )
            yield invalid(f"{path}.volumeClaimName", volume.volume_claim_name, detail)
        if volume.volume_claim_name:
            yield from by(names.dns_subdomain, f"{path}.volumeClaimName", volume.volume_claim_name)
        if volume.volume_claim is not None:
            yield from validate_claim_spec(volume.volume_claim, f"{path}.volumeClaim")


def _duration(text: str, path: str) -> Iterator[FieldError]:
    try:
        parse_duration(text)
    except ValueError as error:
        yield invalid(path, text, f"{error}: write it as 90s, 5m or 1h30m")


def _update(new: batch.JobSpec, old: batch.JobSpec) -> Iterator[FieldError]:
    if len(new.tasks or ()) != len(old.tasks or ()):
        yield forbidden("spec.tasks", "job updates may not add or remove tasks")
        return
    for index, (task, before) in enumerate(zip(new.tasks or (), old.tasks or (), strict=True)):
        if before.partition_policy is not None and task.replicas != before.replicas:
            yield forbidden(f"spec.tasks[{index}].replicas", "a task with a partition policy cannot be scaled")
    if _frozen(new) != _frozen(old):
        changed = ", ".join(_differences(_frozen(new), _frozen(old)))
        yield forbidden("spec", f"{UPDATE_SCOPE}; changed: {changed}")


def _choice(job: batch.Job, old: batch.Job) -> Iterator[FieldError]:
    """What the gang got stays: the list of kinds of nodes may change while no pod of the job runs."""
    new, before = ((each.metadata.annotations or {}).get(ONE_OF, "") for each in (job, old))
    if new != before and (running := old.status.running or 0):
        detail = f"may not change while pods of the job run ({running} do): suspend the job first"
        yield invalid(f"metadata.annotations[{ONE_OF}]", new, detail)


def _frozen(spec: batch.JobSpec) -> batch.JobSpec:
    """The spec without what an update may change."""
    tasks = [msgspec.structs.replace(task, replicas=None, min_available=None) for task in spec.tasks or ()]
    # The controller writes the generated claim name into volumes that ask for a claim.
    volumes = [
        volume if volume.volume_claim is None else msgspec.structs.replace(volume, volume_claim_name=None)
        for volume in spec.volumes or ()
    ]
    return msgspec.structs.replace(
        spec, min_available=None, replicas=None, priority_class_name=None, tasks=tasks, volumes=volumes
    )


def _differences(new: msgspec.Struct, old: msgspec.Struct) -> list[str]:
    return [
        field.encode_name
        for field in msgspec.structs.fields(new)
        if getattr(new, field.name) != getattr(old, field.name)
    ]


def is_acyclic(graph: Mapping[str, Sequence[str]]) -> bool:
    """Does no vertex reach itself; ``graph`` maps a vertex to those that it depends on. Linear in its size."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        return False
    return True


# Rules of cron jobs, job flows, job templates and hyper jobs; the texts are Volcano's where it has the rule.

# A job's name has a dash and ten digits more.
LONGEST_CRON_JOB = 52
PROBED_PHASES = ("Pending", "Running", "Succeeded", "Completed", "Failed")
_ZONE_IN_SCHEDULE = re.compile(r"\b(CRON_)?TZ=")
_NOT_DAG = "jobflow Flow is not DAG"


def validate_cron_job(cron_job: batch.CronJob, old: batch.CronJob | None) -> Iterator[FieldError]:
    """Schedule, time zone, the name's length, and the job that it makes."""
    spec, name = cron_job.spec, cron_job.metadata.name
    if len(name) > LONGEST_CRON_JOB:
        detail = "cronJob name must be no more than 52 characters to accommodate job name suffix (max 63 total)"
        yield invalid("metadata.name", name, detail)
    yield from _schedule(spec.schedule)
    yield from _zone(spec.time_zone)
    # Only the job that a future run makes matters: one that was accepted once does not block other changes.
    if old is None or spec.job_template != old.spec.job_template:
        longest = f"{name[:LONGEST_CRON_JOB]}-{'0' * 10}"
        yield from validate_embedded(spec.job_template.spec, "spec.jobTemplate.spec", longest)


def validate_job_template(template: JobTemplate, old: JobTemplate | None) -> Iterator[FieldError]:
    """The job that it describes."""
    if old is None or template.spec != old.spec:
        yield from validate_embedded(template.spec, "spec", template.metadata.name)


def validate_job_flow(job_flow: JobFlow, old: JobFlow | None) -> Iterator[FieldError]:
    """Targets are flows of the same JobFlow, and none depends on itself."""
    flows = job_flow.spec.flows or []
    flow_names = {flow.name for flow in flows}
    graph: dict[str, list[str]] = {}
    for index, flow in enumerate(flows):
        path = f"spec.flows[{index}]"
        if flow.name:
            yield from by(names.dns_subdomain, f"{path}.name", flow.name)
        depends = flow.depends_on
        for target in (depends.targets if depends is not None else None) or ():
            if target not in flow_names:
                detail = f"{_NOT_DAG}: vertex is not defined: {target}"
                yield invalid(f"{path}.dependsOn.targets", target, detail)
        # Of flows with the same name the last one counts.
        graph[flow.name] = list((depends.targets if depends is not None else None) or ())
        if depends is not None and depends.probe is not None:
            yield from _probe(depends.probe, f"{path}.dependsOn.probe")
        yield from _patch(flow, path)
    if not is_acyclic(graph):
        yield invalid("spec.flows", sorted(graph), _NOT_DAG)


def validate_hyper_job(hyper_job: batch.HyperJob, old: batch.HyperJob | None) -> Iterator[FieldError]:
    """Names of replicated jobs, and the jobs that they make."""
    before = {job.name: job for job in (old.spec.replicated_jobs or ())} if old is not None else {}
    seen: set[str] = set()
    for index, job in enumerate(hyper_job.spec.replicated_jobs or ()):
        path = f"spec.replicatedJobs[{index}]"
        if job.name:
            yield from by(names.dns_label, f"{path}.name", job.name)
        if job.name in seen:
            yield duplicate(f"{path}.name", job.name)
        seen.add(job.name)
        if job.name not in before or before[job.name].template_spec != job.template_spec:
            name = f"{hyper_job.metadata.name}-{job.name}-{max((job.replicas or 1) - 1, 0)}"
            yield from validate_embedded(job.template_spec, f"{path}.templateSpec", name)


def validate_embedded(spec: batch.JobSpec, path: str, job_name: str) -> Iterator[FieldError]:
    """The rules of a job for one that is yet to be made.

    Args:
        spec: its spec, as the user wrote it.
        path: where the spec stands in the object that holds it.
        job_name: the longest name that such a job will have.
    """
    job = batch.Job(spec=msgspec.json.decode(msgspec.json.encode(spec), type=batch.JobSpec))
    job.metadata.name = job_name
    default_job(job)
    for error in validate_job(job, None):
        if error.path == "spec" or error.path.startswith("spec."):
            yield _moved(error, path)
        else:
            yield _moved(error, "metadata.name", whole=True)


def _moved(error: FieldError, path: str, *, whole: bool = False) -> FieldError:
    at = path if whole else path + error.path.removeprefix("spec")
    return FieldError(at, error.reason, error.value, error.detail)


def _schedule(schedule: str) -> Iterator[FieldError]:
    if not schedule:
        return
    if _ZONE_IN_SCHEDULE.search(schedule):
        detail = "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field"
        yield invalid("spec.schedule", schedule, detail)
        return
    try:
        parse_schedule(schedule)
    except ValueError as error:
        yield invalid("spec.schedule", schedule, f"schedule is not a valid cron expression: {error}; {HINT}")


def _zone(zone: str | None) -> Iterator[FieldError]:
    if zone is None:
        return
    if not zone:
        yield invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string, got empty string")
    elif zone.lower() == "local":
        detail = "timeZone can't be Local, and must be defined in https://www.iana.org/time-zones"
        yield invalid("spec.timeZone", zone, detail)
    else:
        try:
            parse_zone(zone)
        except ValueError:
            yield invalid("spec.timeZone", zone, "unknown timeZone: write one such as Europe/Berlin or Etc/UTC")


def _probe(probe: FlowProbe, path: str) -> Iterator[FieldError]:
    for index, http in enumerate(probe.http_get_list or ()):
        at = f"{path}.httpGetList[{index}]"
        yield from _task(http.task_name, at)
        if not http.port:
            yield required(f"{at}.port", "the port that answers")
        if http.path and not http.path.startswith("/"):
            yield invalid(f"{at}.path", http.path, "must start with /")
    for index, tcp in enumerate(probe.tcp_socket_list or ()):
        yield from _task(tcp.task_name, f"{path}.tcpSocketList[{index}]")
    for index, status in enumerate(probe.task_status_list or ()):
        at = f"{path}.taskStatusList[{index}]"
        yield from _task(status.task_name, at)
        if status.phase not in PROBED_PHASES:
            yield not_supported(f"{at}.phase", status.phase, PROBED_PHASES)


def _task(name: str | None, path: str) -> Iterator[FieldError]:
    if not name:
        yield required(f"{path}.taskName", "the task of the target whose pods are looked at")


def _patch(flow: Flow, path: str) -> Iterator[FieldError]:
    spec = flow.patch.job_spec if flow.patch is not None else None
    for index, task in enumerate((spec.tasks if spec is not None else None) or ()):
        if not task.name:
            yield required(f"{path}.patch.jobSpec.tasks[{index}].name", "tasks are merged by name")
