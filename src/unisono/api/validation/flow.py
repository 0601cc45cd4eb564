"""Rules of cron jobs, job flows, job templates and hyper jobs; the texts are Volcano's where it has the rule."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from unisono.api import names
from unisono.api.batch import Job, JobSpec
from unisono.api.cron import HINT, parse_schedule, parse_zone
from unisono.api.cron_job import CronJob
from unisono.api.defaulting.job import default_job
from unisono.api.field_error import FieldError, duplicate, invalid, not_supported, required
from unisono.api.flow import Flow, FlowProbe, JobFlow, JobTemplate
from unisono.api.hyper_job import HyperJob
from unisono.api.validation.job import is_acyclic, validate_job
from unisono.api.validation.meta import by

# A job's name has a dash and ten digits more.
LONGEST_CRON_JOB = 52
PROBED_PHASES = ("Pending", "Running", "Succeeded", "Completed", "Failed")
_ZONE_IN_SCHEDULE = re.compile(r"\b(CRON_)?TZ=")
_NOT_DAG = "jobflow Flow is not DAG"


def validate_cron_job(cron_job: CronJob, old: CronJob | None) -> Iterator[FieldError]:
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
    known = {flow.name for flow in flows}
    graph: dict[str, list[str]] = {}
    for index, flow in enumerate(flows):
        path = f"spec.flows[{index}]"
        if flow.name:
            yield from by(names.dns_subdomain, f"{path}.name", flow.name)
        depends = flow.depends_on
        for target in (depends.targets if depends is not None else None) or ():
            if target not in known:
                detail = f"{_NOT_DAG}: vertex is not defined: {target}"
                yield invalid(f"{path}.dependsOn.targets", target, detail)
        # Of flows with the same name the last one counts.
        graph[flow.name] = list((depends.targets if depends is not None else None) or ())
        if depends is not None and depends.probe is not None:
            yield from _probe(depends.probe, f"{path}.dependsOn.probe")
        yield from _patch(flow, path)
    if not is_acyclic(graph):
        yield invalid("spec.flows", sorted(graph), _NOT_DAG)


def validate_hyper_job(hyper_job: HyperJob, old: HyperJob | None) -> Iterator[FieldError]:
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


def validate_embedded(spec: JobSpec, path: str, job_name: str) -> Iterator[FieldError]:
    """The rules of a job for one that is yet to be made.

    Args:
        spec: its spec, as the user wrote it.
        path: where the spec stands in the object that holds it.
        job_name: the longest name that such a job will have.

    """
    job = Job(spec=msgspec.json.decode(msgspec.json.encode(spec), type=JobSpec))
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
