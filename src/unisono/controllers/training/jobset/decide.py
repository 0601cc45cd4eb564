"""What to do about a JobSet: a pure function from observed objects and the time to a plan."""

from __future__ import annotations

from functools import partial

import msgspec

from unisono.api.conditions import is_true
from unisono.api.gang_parts import Part
from unisono.api.groups.job_set import FailurePolicyRule, JobSet, JobSetStatus, ReplicatedJob, ReplicatedJobStatus
from unisono.api.kind_families import JOB_SETS
from unisono.api.patterns import PatternError, compile_pattern
from unisono.api.times import parse_time, rfc3339
from unisono.api.validation.training import validate_job_set
from unisono.controllers.pod_facts import is_active, staying
from unisono.controllers.podgroup.decide import topology
from unisono.controllers.training.controller import Seen
from unisono.controllers.training.jobset.pods import (
    ChildJob,
    JobSetView,
    build_pod,
    completion_index,
    pod_name,
    shared_objects,
)
from unisono.controllers.training.plan import Gang, TrainingPlan, bring_gang, drop_group, set_condition, suspend_group
from unisono.jobkinds.jobset import together
from unisono.jobkinds.registry import handed_to

COMPLETED, FAILED, SUSPENDED = "Completed", "Failed", "Suspended"
IN_PROGRESS, STARTED = "StartupPolicyInProgress", "StartupPolicyCompleted"
_RESTART_SET = "RestartJobSet"


def decide(seen: Seen[JobSet], now: float) -> TrainingPlan:
    """The next step for the JobSet; an empty plan when another operator manages it; ``now`` in seconds since 1970."""
    return _JobSetDecision(seen, now).run()


class _JobSetDecision:
    def __init__(self, seen: Seen[JobSet], now: float) -> None:
        self.seen, self.now, self.time = seen, now, rfc3339(now)
        self.view = JobSetView(seen.job, seen.pods)
        self.plan = TrainingPlan()
        self.status = msgspec.convert(msgspec.to_builtins(seen.job.status), JobSetStatus)

    def run(self) -> TrainingPlan:
        view = self.view
        if handed_to(self.seen.job)[1]:
            return TrainingPlan()
        if view.finished:
            self._wind_down()
            return self.plan
        if not self.status.conditions and self._is_invalid():
            return self.plan
        self.status.restarts = self.status.restarts or 0
        if view.spec.suspend:
            self._suspend()
        else:
            self._go_on()
        if self.status != self.seen.job.status:
            self.plan.status = self.status
        return self.plan

    def _is_invalid(self) -> bool:
        errors = [error.message() for error in validate_job_set(self.seen.job, None)]
        if errors:
            text = f"JobSet is not valid: {'; '.join(errors)}"
            self.plan.warn("FailedValidation", text, once=text)
        return bool(errors)

    # --- the life of an active JobSet --------------------------------------------------------------------------

    def _go_on(self) -> None:
        if is_true(self.status.conditions, SUSPENDED):
            self._set(SUSPENDED, "ResumeJobs", "jobset is resumed", "False")
        self.status.replicated_jobs_status = [self._count(job) for job in self.view.replicated_jobs]
        if self._ended():
            return
        if self._restarted():
            # Pods of the new attempt are planned from the stored count of restarts.
            return
        outdated = [pod for child in self.view.children for pod in child.former] + self.view.strays
        # A Job that was complete before all of its pods were leaves some that still run, and so does a failed index.
        for child in self.view.children:
            if child.complete:
                outdated += child.living()
            outdated += [pod for pod in child.living() if completion_index(pod) in child.failed_indexes]
        self.plan.delete_pods = staying(outdated)
        self._start()

    def _ended(self) -> bool:
        policy = self.view.spec.success_policy
        targets = (policy.target_replicated_jobs if policy else None) or [j.name for j in self.view.replicated_jobs]
        aimed = [child for child in self.view.children if child.replicated.name in targets]
        combine = any if policy is not None and policy.operator == "Any" else all
        if not aimed or not combine(child.complete for child in aimed):
            return False
        self._finish(COMPLETED, "AllJobsCompleted", "jobset completed successfully")
        return True

    def _restarted(self) -> bool:
        """Apply the failure policy to the first Job that failed; answers whether one has."""
        failed = [(child, why) for child in self.view.children if (why := child.failure(self.now)) is not None]
        if not failed:
            return False
        child, (reason, message) = failed[0]
        policy = self.view.spec.failure_policy
        if policy is None:
            self._finish(FAILED, "FailedJobs", f"jobset failed due to one or more job failures{self._first(child)}")
            return True
        rule = next((each for each in policy.rules or () if _fits(each, child, reason, message)), None)
        action = rule.action if rule is not None else _RESTART_SET
        if action == "FailJobSet":
            text = f"jobset failed due to FailJobSet failure policy action{self._first(child)}"
            self._finish(FAILED, "FailJobSetFailurePolicyAction", text)
            return True
        free = action.endswith("AndIgnoreMaxRestarts")
        if not free and self.view.restarts_towards_max >= (policy.max_restarts or 0):
            text = f"jobset failed due to reaching max number of restarts{self._first(child)}"
            self._finish(FAILED, "ReachedMaxRestarts", text)
            return True
        self.plan.warn(f"{action}FailurePolicyAction", f"restarting because of {self._name(child)}: {message}")
        if action.startswith(_RESTART_SET):
            self.status.restarts = (self.status.restarts or 0) + 1
            if not free:
                self.status.restarts_count_towards_max = (self.status.restarts_count_towards_max or 0) + 1
        else:
            self._restart_one(child, counts=not free)
        return True

    def _restart_one(self, child: ChildJob, *, counts: bool) -> None:
        size = len(self.view.of(child.replicated))
        for entry in self.status.replicated_jobs_status or ():
            if entry.name == child.replicated.name:
                entry.job_restarts = _bumped(entry.job_restarts, size, child.index)
                if counts:
                    towards = _bumped(entry.job_restarts_count_towards_max, size, child.index)
                    entry.job_restarts_count_towards_max = towards

    def _start(self) -> None:
        view = self.view
        started = [job for job in view.replicated_jobs if self._may_start(job)]
        members = [child for job in started for child in view.of(job)]
        admitted = self._gang(members)
        if not admitted and not self.seen.pods:
            return
        self.plan.ensure.extend(shared_objects(view))
        blocking = view.spec.failure_policy is not None and (
            view.spec.failure_policy.restart_strategy == "BlockingRecreate"
        )
        leaving = any(child.former for child in view.children)
        for child in members:
            left = child.seconds_left(self.now)
            if left is not None and not child.complete:
                self.plan.again_within(left)
            if admitted and not child.former and not child.complete and not (blocking and leaving):
                self._fill(child)
        self._tell_order(started)

    def _fill(self, child: ChildJob) -> None:
        """Make the pods of a Job that are missing, as many at once as it may have."""
        done, living = child.succeeded(), {completion_index(pod) for pod in child.living()}
        room = child.parallelism - len(living)
        for index in range(child.completions):
            if room <= 0 or self.plan.full:
                return
            if index in done or index in living or index in child.failed_indexes:
                continue
            room -= 1
            if f"pods/{pod_name(self.view, child, index)}" not in self.seen.expected:
                self.plan.create_pods.append(partial(build_pod, self.view, child, index))

    def _gang(self, members: list[ChildJob]) -> bool:
        """The pod group grows with the Jobs that may start: those that wait for others cannot be in their gang.

        There must be room for them nevertheless.
        """
        view = self.view
        annotations = view.job_set.metadata.annotations or {}
        specs = [child.replicated.template.spec.template.spec for child in members]
        begun = {id(child) for child in members}
        parts = [_part(child, begun=id(child) in begun) for child in view.children if not child.complete]
        gang = Gang(
            members=sum(child.expected for child in members),
            parts=parts,
            together=[
                [part for part in parts if part.role in {job.name for job in jobs}] for jobs in together(view.spec)
            ],
            queue=view.queue,
            priority_class=next((spec.priority_class_name for spec in specs if spec.priority_class_name), None),
            topology=topology(annotations),
        )
        return bring_gang(self.plan, JOB_SETS, view.job_set, view.name, gang, self.seen.group)

    def _may_start(self, job: ReplicatedJob) -> bool:
        view = self.view
        if view.of(job) and any(child.pods for child in view.of(job)):
            return True
        for needed in job.depends_on or ():
            counts = self._status_of(needed.name)
            total = sum(child.replicated.name == needed.name for child in view.children)
            reached = counts.succeeded if needed.status == "Complete" else _begun(counts)
            if reached < total:
                return False
        if not self._in_order():
            return True
        before = view.replicated_jobs[: view.replicated_jobs.index(job)]
        return all(_begun(self._status_of(each.name)) >= len(view.of(each)) for each in before)

    def _in_order(self) -> bool:
        policy = self.view.spec.startup_policy
        return policy is not None and policy.startup_policy_order == "InOrder"

    def _tell_order(self, started: list[ReplicatedJob]) -> None:
        if not self._in_order():
            return
        last = self.view.replicated_jobs[-1]
        done = len(started) == len(self.view.replicated_jobs) and (
            _begun(self._status_of(last.name)) >= len(self.view.of(last))
        )
        if is_true(self.status.conditions, STARTED):
            return
        if done:
            self._set(IN_PROGRESS, "InOrderStartupPolicyCompleted", "in order startup policy is completed", "False")
            self._set(STARTED, "InOrderStartupPolicyCompleted", "in order startup policy is completed", "True")
        else:
            self._set(IN_PROGRESS, "InOrderStartupPolicyInProgress", "in order startup policy is in progress", "True")

    # --- suspension and the end --------------------------------------------------------------------------------

    def _suspend(self) -> None:
        self.plan.delete_pods = staying(self.seen.pods)
        suspend_group(self.plan, self.seen.job, self.seen.group)
        self.status.replicated_jobs_status = [
            ReplicatedJobStatus(name=job.name, suspended=len(self.view.of(job))) for job in self.view.replicated_jobs
        ]
        self._set(SUSPENDED, "SuspendedJobs", "jobset is suspended", "True")

    def _wind_down(self) -> None:
        """Take away what still runs, and the JobSet itself when its time is over."""
        view, plan = self.view, self.plan
        drop_group(plan, view.job_set, self.seen.group)
        plan.delete_pods = [pod for pod in self.seen.pods if is_active(pod)]
        ttl = view.spec.ttl_seconds_after_finished
        if ttl is None:
            return
        ends = [each for each in self.status.conditions or () if each.type in (COMPLETED, FAILED)]
        left = parse_time(ends[-1].last_transition_time or self.time) + ttl - self.now
        if left > 0:
            plan.again_within(left)
        else:
            plan.delete_job = True

    def _finish(self, type: str, reason: str, message: str) -> None:
        self.status.terminal_state = type
        self._set(type, reason, message, "True")

    # --- status ------------------------------------------------------------------------------------------------

    def _count(self, job: ReplicatedJob) -> ReplicatedJobStatus:
        children, previous = self.view.of(job), self.view.status_of(job.name)
        return ReplicatedJobStatus(
            name=job.name,
            ready=sum(child.ready and not child.complete for child in children),
            succeeded=sum(child.complete for child in children),
            failed=sum(child.failure(self.now) is not None for child in children),
            active=sum(child.active and not child.complete for child in children),
            job_restarts=previous.job_restarts if previous is not None else None,
            job_restarts_count_towards_max=previous.job_restarts_count_towards_max if previous is not None else None,
        )

    def _status_of(self, name: str) -> ReplicatedJobStatus:
        status = next((each for each in self.status.replicated_jobs_status or () if each.name == name), None)
        return status or ReplicatedJobStatus(name=name)

    def _set(self, type: str, reason: str, message: str, status: str) -> None:
        before = list(self.status.conditions or ())
        after = set_condition(before, type, status, reason, message, self.time)
        if after != before:
            record = self.plan.warn if type == FAILED else self.plan.tell
            record(reason, message)
            self.status.conditions = after

    def _name(self, child: ChildJob) -> str:
        return f"{self.view.name}-{child.replicated.name}-{child.index}"

    def _first(self, child: ChildJob) -> str:
        return f" (first failed job: {self._name(child)})"


def _part(child: ChildJob, *, begun: bool) -> Part:
    pods, spec = child.expected, child.replicated.template.spec.template.spec
    return Part(child.replicated.name, pods if begun else 0, pods, 0 if begun else pods, spec)


def _begun(counts: ReplicatedJobStatus) -> int:
    return counts.ready + counts.succeeded + counts.failed


def _bumped(counts: list[int] | None, size: int, index: int) -> list[int]:
    full = [*(counts or ()), *[0] * size][:size]
    full[index] += 1
    return full


def _fits(rule: FailurePolicyRule, child: ChildJob, reason: str, message: str) -> bool:
    if rule.target_replicated_jobs and child.replicated.name not in rule.target_replicated_jobs:
        return False
    if rule.on_job_failure_reasons and reason not in rule.on_job_failure_reasons:
        return False
    patterns = rule.on_job_failure_message_patterns
    return not patterns or any(_matches(pattern, message) for pattern in patterns)


def _matches(pattern: str, message: str) -> bool:
    try:
        return compile_pattern(pattern).found_in(message)
    except PatternError:
        return False
