"""Rules of ``batch/v1`` Jobs and CronJobs, as Kubernetes validates them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec

from unisono.api import names
from unisono.api.core.pod import PodTemplateSpec
from unisono.api.cron import parse_schedule, parse_zone
from unisono.api.defaulting.workloads import JOB_NAME_LABELS, JOB_UID_LABELS
from unisono.api.field_error import FieldError, forbidden, invalid, not_supported, required
from unisono.api.groups import batch_v1
from unisono.api.selecting import selects
from unisono.api.validation.meta import at_least, by, one_of, validate_selector
from unisono.api.validation.pod import validate_template
from unisono.api.validation.workload import validate_job_scheduling, without_job_minimum

_MOST_PARALLEL = 100_000
_LONGEST_CRON_JOB = 52
_LONGEST_MANAGER = 63
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_ZONE_IN_SCHEDULE = re.compile(r"\b(CRON_)?TZ=")
_IMMUTABLE = (
    ("selector", "selector"),
    ("completion_mode", "completionMode"),
    ("pod_failure_policy", "podFailurePolicy"),
    ("backoff_limit_per_index", "backoffLimitPerIndex"),
    ("managed_by", "managedBy"),
    ("success_policy", "successPolicy"),
)


def validate_batch_job(job: batch_v1.BatchJob, old: batch_v1.BatchJob | None) -> Iterator[FieldError]:
    """Counts, policies, template and the labels that tie pods to the Job; on an update also what may change."""
    spec, meta = job.spec, job.metadata
    if not spec.manual_selector and meta.uid:
        yield from _generated(job)
    yield from validate_batch_job_spec(spec, "spec")
    if spec.selector is None:
        # The server makes it, from the uid that a manifest does not have yet.
        if spec.manual_selector or meta.uid:
            yield required("spec.selector")
    else:
        yield from validate_selector(spec.selector, "spec.selector")
        if not selects(spec.selector, spec.template.metadata.labels):
            detail = "`selector` does not match template `labels`"
            yield invalid("spec.template.metadata.labels", spec.template.metadata.labels, detail)
    if old is None and spec.completion_mode == "Indexed" and spec.completions:
        longest = f"{meta.name}-{spec.completions - 1}"
        if names.dns_label(longest):
            yield invalid("metadata.name", meta.name, f"will not able to create pod with invalid DNS label: {longest}")
    if old is not None:
        yield from _update(job, old)


def validate_batch_cron_job(cron_job: batch_v1.BatchCronJob, old: batch_v1.BatchCronJob | None) -> Iterator[FieldError]:
    """Schedule, time zone, the name's length, and the Job that it makes."""
    spec, name = cron_job.spec, cron_job.metadata.name
    if old is None and len(name) > _LONGEST_CRON_JOB:
        yield invalid("metadata.name", name, "must be no more than 52 characters")
    if not spec.schedule:
        yield required("spec.schedule")
    else:
        yield from _schedule(spec.schedule, zone=spec.time_zone is not None)
    yield from _zone(spec.time_zone)
    yield from at_least("spec.startingDeadlineSeconds", spec.starting_deadline_seconds, 0)
    yield from one_of("spec.concurrencyPolicy", spec.concurrency_policy, ("Allow", "Forbid", "Replace"))
    yield from at_least("spec.successfulJobsHistoryLimit", spec.successful_jobs_history_limit, 0)
    yield from at_least("spec.failedJobsHistoryLimit", spec.failed_jobs_history_limit, 0)
    job = spec.job_template.spec
    yield from validate_batch_job_spec(job, "spec.jobTemplate.spec")
    if job.manual_selector:
        yield not_supported("spec.jobTemplate.spec.manualSelector", job.manual_selector, ("nil", "false"))
    if job.selector is not None:
        yield invalid("spec.jobTemplate.spec.selector", job.selector, "`selector` will be auto-generated")


def validate_batch_job_spec(spec: batch_v1.BatchJobSpec, path: str) -> Iterator[FieldError]:
    """Rules of a Job's spec, also within a CronJob."""
    for wire, value in (
        ("parallelism", spec.parallelism),
        ("completions", spec.completions),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("backoffLimit", spec.backoff_limit),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished),
        ("backoffLimitPerIndex", spec.backoff_limit_per_index),
        ("maxFailedIndexes", spec.max_failed_indexes),
    ):
        yield from at_least(f"{path}.{wire}", value, 0)
    yield from _manager(spec.managed_by, f"{path}.managedBy")
    yield from _indexing(spec, path)
    for index, rule in enumerate((spec.pod_failure_policy.rules if spec.pod_failure_policy else None) or ()):
        yield from _failure_rule(spec, rule, f"{path}.podFailurePolicy.rules[{index}]")
    yield from _success_policy(spec, f"{path}.successPolicy")
    replacement = spec.pod_replacement_policy
    if spec.pod_failure_policy is not None:
        yield from one_of(f"{path}.podReplacementPolicy", replacement, ("Failed",))
    else:
        yield from one_of(f"{path}.podReplacementPolicy", replacement, ("Failed", "TerminatingOrFailed"))
    at_once = 1 if spec.parallelism is None else spec.parallelism
    at_once = at_once if spec.completions is None else min(at_once, spec.completions)
    yield from validate_job_scheduling(spec.scheduling, at_once, f"{path}.scheduling")
    if spec.scheduling is not None and spec.template.spec.scheduling_group is not None:
        detail = "may not be set beside scheduling: the Job's own PodGroup is named there"
        yield forbidden(f"{path}.template.spec.schedulingGroup", detail)
    yield from validate_template(spec.template, f"{path}.template")
    yield from _restart_policy(spec, f"{path}.template.spec.restartPolicy")


def _manager(name: str | None, path: str) -> Iterator[FieldError]:
    if name is None:
        return
    if "/" not in name.strip("/"):
        yield invalid(path, name, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from by(names.dns_subdomain, path, name.partition("/")[0])
    if len(name) > _LONGEST_MANAGER:
        yield FieldError(path, "FieldValueTooLong", "", f"may not be more than {_LONGEST_MANAGER} bytes")


def _restart_policy(spec: batch_v1.BatchJobSpec, path: str) -> Iterator[FieldError]:
    policy = spec.template.spec.restart_policy
    if policy in (None, "Always"):
        yield required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield not_supported(path, policy, ("OnFailure", "Never"))
    elif spec.pod_failure_policy is not None and policy != "Never":
        yield invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _indexing(spec: batch_v1.BatchJobSpec, path: str) -> Iterator[FieldError]:
    yield from one_of(f"{path}.completionMode", spec.completion_mode, ("NonIndexed", "Indexed"))
    if spec.max_failed_indexes is not None and spec.backoff_limit_per_index is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if spec.completion_mode == "Indexed":
        if spec.completions is None:
            yield required(f"{path}.completions", "when completion mode is Indexed")
        if (spec.parallelism or 0) > _MOST_PARALLEL:
            detail = f"must be less than or equal to {_MOST_PARALLEL} when completion mode is Indexed"
            yield invalid(f"{path}.parallelism", spec.parallelism, detail)
        most = spec.max_failed_indexes
        if most is not None and spec.completions is not None and most > spec.completions:
            yield invalid(f"{path}.maxFailedIndexes", most, "must be less than or equal to completions")
        return
    for wire, value in (
        ("backoffLimitPerIndex", spec.backoff_limit_per_index),
        ("maxFailedIndexes", spec.max_failed_indexes),
    ):
        if value is not None:
            yield invalid(f"{path}.{wire}", value, "requires indexed completion mode")


def _failure_rule(spec: batch_v1.BatchJobSpec, rule: batch_v1.PodFailurePolicyRule, path: str) -> Iterator[FieldError]:
    if not rule.action:
        yield required(f"{path}.action", 'valid values: ["Count" "FailIndex" "FailJob" "Ignore"]')
    else:
        yield from one_of(f"{path}.action", rule.action, _ACTIONS)
        if rule.action == "FailIndex" and spec.backoff_limit_per_index is None:
            yield invalid(f"{path}.action", rule.action, "requires the backoffLimitPerIndex to be set")
    codes, conditions = rule.on_exit_codes, rule.on_pod_conditions
    if codes is not None and conditions:
        yield invalid(path, None, "specifying both OnExitCodes and OnPodConditions is not supported")
    if codes is None and not conditions:
        yield invalid(path, None, "specifying one of OnExitCodes and OnPodConditions is required")
    if codes is not None:
        yield from _exit_codes(spec, codes, f"{path}.onExitCodes")
    for index, pattern in enumerate(conditions or ()):
        yield from by(names.qualified_name, f"{path}.onPodConditions[{index}].type", pattern.type)
        yield from one_of(f"{path}.onPodConditions[{index}].status", pattern.status, ("False", "True", "Unknown"))


def _exit_codes(
    spec: batch_v1.BatchJobSpec, codes: batch_v1.PodFailurePolicyOnExitCodesRequirement, path: str
) -> Iterator[FieldError]:
    pod = spec.template.spec
    container_names = {each.name for each in (*(pod.containers or ()), *(pod.init_containers or ()))}
    if not codes.operator:
        yield required(f"{path}.operator", 'valid values: ["In" "NotIn"]')
    else:
        yield from one_of(f"{path}.operator", codes.operator, ("In", "NotIn"))
    if codes.container_name is not None and codes.container_name not in container_names:
        detail = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{path}.containerName", codes.container_name, detail)
    values = codes.values or []
    if not values:
        yield invalid(f"{path}.values", values, "at least one value is required")
    if codes.operator == "In" and 0 in values:
        yield invalid(f"{path}.values[{values.index(0)}]", 0, "must not be 0 for the In operator")
    if any(later < earlier for earlier, later in pairwise(values)):
        yield invalid(f"{path}.values", values, "must be ordered")
    for index, value in enumerate(values):
        if value in values[:index]:
            yield FieldError(f"{path}.values[{index}]", "FieldValueDuplicate", value, "")


def _success_policy(spec: batch_v1.BatchJobSpec, path: str) -> Iterator[FieldError]:
    policy = spec.success_policy
    if policy is None:
        return
    if spec.completion_mode != "Indexed":
        yield invalid(path, policy, "requires indexed completion mode")
        return
    if not policy.rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        yield required(f"{path}.rules", detail)
    for index, rule in enumerate(policy.rules or ()):
        yield from _success_rule(spec, rule, f"{path}.rules[{index}]")


def _success_rule(spec: batch_v1.BatchJobSpec, rule: batch_v1.SuccessPolicyRule, path: str) -> Iterator[FieldError]:
    if rule.succeeded_count is None and rule.succeeded_indexes is None:
        yield required(path, "at least one of succeededCount or succeededIndexes must be specified")
    indexes: batch_v1.Indexes | None = None
    if rule.succeeded_indexes is not None:
        try:
            indexes = batch_v1.parse_indexes(rule.succeeded_indexes, spec.completions)
        except ValueError as error:
            detail = f"error parsing succeededIndexes: {error}"
            yield invalid(f"{path}.succeededIndexes", rule.succeeded_indexes, detail)
    count = rule.succeeded_count
    if count is None:
        return
    yield from at_least(f"{path}.succeededCount", count, 1)
    if spec.completions is not None and count > spec.completions:
        detail = f"must be less than or equal to {spec.completions} (the number of specified completions)"
        yield invalid(f"{path}.succeededCount", count, detail)
    if indexes is not None and count > indexes.total:
        detail = (
            f"must be less than or equal to {indexes.total} "
            "(the number of indexes in the specified succeededIndexes field)"
        )
        yield invalid(f"{path}.succeededCount", count, detail)


def _generated(job: batch_v1.BatchJob) -> Iterator[FieldError]:
    """The labels that the server makes are there, and are this Job's."""
    labels, path = job.spec.template.metadata.labels or {}, "spec.template.metadata.labels"
    own = dict.fromkeys(JOB_UID_LABELS, job.metadata.uid or "") | dict.fromkeys(JOB_NAME_LABELS, job.metadata.name)
    for key, value in own.items():
        if key not in labels:
            yield required(path, f"must be '{value}'")
        elif labels[key] != value:
            yield invalid(path, labels, f"must be '{value}'")
    if job.spec.selector is not None and not selects(job.spec.selector, own):
        yield invalid("spec.selector", job.spec.selector, "`selector` not auto-generated")


def _update(job: batch_v1.BatchJob, old: batch_v1.BatchJob) -> Iterator[FieldError]:
    new, before = job.spec, old.spec
    for attribute, wire in _IMMUTABLE:
        if getattr(new, attribute) != getattr(before, attribute):
            yield invalid(f"spec.{wire}", getattr(new, attribute), "field is immutable")
    if without_job_minimum(new.scheduling) != without_job_minimum(before.scheduling):
        yield invalid("spec.scheduling", None, "field is immutable, but for schedulingPolicy.gang.minCount")
    if new.completions != before.completions:
        if before.completion_mode != "Indexed":
            yield invalid("spec.completions", new.completions, "field is immutable")
        elif new.completions != new.parallelism:
            detail = "can only be modified in tandem with spec.parallelism"
            yield invalid("spec.completions", new.completions, detail)
    # A suspended Job that has not started may be told where to run, and with how much.
    movable = bool(before.suspend) and not old.status.start_time
    if _template(new.template, movable=movable) != _template(before.template, movable=movable):
        yield invalid("spec.template", None, "field is immutable")


def _template(template: PodTemplateSpec, *, movable: bool) -> Any:
    """The template without what an update may change."""
    if not movable:
        return template
    affinity = template.spec.affinity
    if affinity is not None:
        affinity = msgspec.structs.replace(affinity, node_affinity=None)
        affinity = affinity if affinity != type(affinity)() else None
    spec = msgspec.structs.replace(
        template.spec,
        affinity=affinity,
        node_selector=None,
        tolerations=None,
        scheduling_gates=None,
        containers=[_unsized(each) for each in template.spec.containers or ()],
        init_containers=[_unsized(each) for each in template.spec.init_containers or ()],
    )
    metadata = msgspec.structs.replace(template.metadata, labels=None, annotations=None)
    return msgspec.structs.replace(template, spec=spec, metadata=metadata)


def _unsized(container: Any) -> Any:
    return msgspec.structs.replace(container, resources=type(container.resources)())


def _schedule(text: str, *, zone: bool) -> Iterator[FieldError]:
    if _ZONE_IN_SCHEDULE.search(text):
        detail = (
            "cannot use both timeZone field and TZ or CRON_TZ in schedule"
            if zone
            else "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        )
        yield invalid("spec.schedule", text, detail)
        return
    try:
        parse_schedule(text)
    except ValueError as error:
        yield invalid("spec.schedule", text, str(error))


def _zone(name: str | None) -> Iterator[FieldError]:
    if name is None:
        return
    if not name:
        yield invalid("spec.timeZone", name, "timeZone must be nil or non-empty string")
    elif name.lower() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield invalid("spec.timeZone", name, detail)
    else:
        try:
            parse_zone(name)
        except ValueError:
            yield invalid("spec.timeZone", name, f"unknown time zone {name}")
