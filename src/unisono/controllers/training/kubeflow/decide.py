"""What to do about a training job: a pure function from observed objects and the time to a plan.

The stored status is the only memory: what follows from the end of a job is planned from the stored end, so each plan
can be carried out any number of times and given up at any point.
"""

from __future__ import annotations

import math
from functools import partial

import msgspec

from unisono.api.conditions import find_condition, is_true
from unisono.api.defaulting.kubeflow import CLEAN_ALL, CLEAN_NONE
from unisono.api.groups.kubeflow import AnyTrainingJob, ReplicaStatus, TrainingCondition, TrainingStatus
from unisono.api.keys import KUBEFLOW_JOB_NAME, KUBEFLOW_REPLICA_TYPE
from unisono.api.pod_states import has_ended
from unisono.api.times import format_duration, parse_time, rfc3339
from unisono.api.validation.training import pods_lack, validate_training_job
from unisono.controllers import pod_facts
from unisono.controllers.job.policies import restart_delay
from unisono.controllers.owners import TooManyHosts
from unisono.controllers.pod_facts import is_deleting, staying
from unisono.controllers.podgroup.decide import topology
from unisono.controllers.training.controller import Seen
from unisono.controllers.training.kubeflow.framework import (
    CREATED,
    DEFAULT_SCHEDULER,
    EXIT_CODE,
    FAILED,
    NEVER,
    OPERATOR_NAME,
    POD_RESTARTS,
    PODS_LACK,
    RESTARTED_PODS,
    RESTARTING,
    RESTARTS,
    RUNNING,
    SUCCEEDED,
    SUSPENDED,
    Framework,
    Role,
    RolePod,
    RoleTally,
    TrainingView,
    build_pod,
    build_service,
    plan_autoscaler,
    with_condition,
)
from unisono.controllers.training.plan import Gang, TrainingPlan, bring_gang, drop_group, part_of, suspend_group
from unisono.jobkinds.kubeflow import gang_size, pod_sets
from unisono.jobkinds.registry import handed_to

# A pod that failed after so long resets the count of restarts in a row.
_FORGIVEN_SECONDS = 600.0


def decide(seen: Seen[AnyTrainingJob], framework: Framework, now: float) -> TrainingPlan:
    """The next step for the job; an empty plan when another operator manages it.

    Args:
        seen: the job and what belongs to it.
        framework: what is the kind's own.
        now: seconds since 1970.
    """
    return _KubeflowDecision(seen, framework, now).run()


class _KubeflowDecision:
    def __init__(self, seen: Seen[AnyTrainingJob], framework: Framework, now: float) -> None:
        self.seen, self.framework, self.now = seen, framework, now
        self.view = TrainingView(seen.job)
        self.time = rfc3339(now)
        self.plan = TrainingPlan()
        self.status = msgspec.convert(msgspec.to_builtins(seen.job.status), TrainingStatus)
        places = [framework.place(self.view, pod) for pod in seen.pods]
        self.pods = [place for place in places if place is not None]
        self.strays = [pod for pod, place in zip(seen.pods, places, strict=True) if place is None]
        self.tallies = {role.name: RoleTally(role.replicas) for role in self.view.roles}
        for pod in self.pods:
            self.tallies[pod.role].count(pod)

    def run(self) -> TrainingPlan:
        if handed_to(self.view.job)[1]:
            return TrainingPlan()
        if self.view.finished:
            self._wind_down()
            return self.plan
        if not self.status.conditions and self._is_invalid():
            return self.plan
        self._set(CREATED, "Created", self.framework.created(self.view))
        self._tell_lack()
        if self.view.run.suspend:
            self._suspend()
        else:
            self._resume()
            self._go_on()
        if self.status != self.seen.job.status:
            self.plan.status = self.status
        return self.plan

    def _is_invalid(self) -> bool:
        """A server without admission stores anything: say what is wrong, and wait for a better spec."""
        errors = [error.message() for error in validate_training_job(self.seen.job, None)]
        if errors:
            text = f"{self.view.kind} failed validation because {'; '.join(errors)}"
            self.plan.warn(f"{self.view.kind}FailedValidation", text, once=text)
        return bool(errors)

    def _tell_lack(self) -> None:
        """Say in the status what templates of pods refer to and do not have: a server stores them all the same."""
        lack = "; ".join(error.message() for error in pods_lack(self.seen.job))
        others = [each for each in self.status.conditions or () if each.type != PODS_LACK]
        if not lack:
            self.status.conditions = others or self.status.conditions
            return
        text = f"The server refuses pods of this job: {lack}"
        self.plan.warn("FailedValidation", text, once=text)
        condition = find_condition(self.status.conditions, PODS_LACK)
        if condition is None or condition.message != text:
            condition = TrainingCondition(
                type=PODS_LACK,
                status="True",
                reason="InvalidPodTemplate",
                message=text,
                last_update_time=self.time,
                last_transition_time=self.time if condition is None else condition.last_transition_time,
            )
        # First: the last entry is what tools show as the state of the job.
        self.status.conditions = [condition, *others]

    # --- the life of an active job -----------------------------------------------------------------------------

    def _go_on(self) -> None:
        admitted = self._gang()
        if not admitted and not self.seen.pods:
            return
        self.status.start_time = self.status.start_time or self.time
        if not self._is_overdue():
            self._judge()
        if is_true(self.status.conditions, FAILED) or is_true(self.status.conditions, SUCCEEDED):
            self.status.completion_time = self.time
            # Clean-up is planned from the stored end.
            ended = TrainingPlan(annotations=self.plan.annotations, notices=self.plan.notices)
            self.plan = ended
            return
        try:
            self._sync(admitted=admitted)
        except TooManyHosts as error:
            self.plan.warn(TooManyHosts.__name__, str(error), once=str(error))

    def _gang(self) -> bool:
        view, policy = self.view, self.view.scheduling
        gang = Gang(
            members=gang_size(view.job),
            parts=[part_of(pods) for pods in pod_sets(view.job)],
            queue=view.queue,
            priority_class=policy.priority_class,
            resources=policy.min_resources,
            topology=topology(view.job.metadata.annotations or {}),
        )
        return bring_gang(self.plan, self.framework.kind, view.job, view.name, gang, self.seen.group)

    def _is_overdue(self) -> bool:
        limit = self.view.run.active_deadline_seconds
        if limit is None or self.status.start_time is None:
            return False
        left = parse_time(self.status.start_time) + limit - self.now
        if left > 0:
            self.plan.again_within(left)
            return False
        name = self.view.name
        self._fail(f"{self.view.kind} {name} has failed because it was active longer than specified deadline")
        return True

    def _judge(self) -> None:
        restart_message = self._restart()
        self._count()
        if is_true(self.status.conditions, FAILED):
            return
        judgement = self.framework.judge(self.view, self.tallies)
        # While a failed pod waits for its successor the job stays as it is: it would change to and fro.
        if judgement.running and not (restart_message and is_true(self.status.conditions, RESTARTING)):
            self._set(RUNNING, "Running", judgement.running)
        if judgement.succeeded:
            self._set(SUCCEEDED, "Succeeded", judgement.succeeded)
            self._settle_active()
            return
        if judgement.failed:
            self._fail(judgement.failed)
        elif restart_message or judgement.restarting:
            self._set(RESTARTING, "Restarting", restart_message or judgement.restarting)

    def _restart(self) -> str:
        """Replace failed pods, or find that the job has failed; answers what to say of a restart."""
        message = ""
        retried: list[RolePod] = []
        for pod in self.pods:
            role = self._role(pod)
            if not pod.crashed or not 0 <= pod.index < role.replicas:
                continue
            code = pod.exit_code(self.view.facts.container)
            if self.framework.restart_policy(self.view, role) == EXIT_CODE:
                text = f"Pod: {self.view.namespace}.{pod.name} exited with code {code}"
                self.plan.tell("ExitedWithCode", text, once=f"exit/{pod.pod.metadata.uid}")
            if self.framework.is_retried(self.view, role, pod):
                message = message or f"job {self.view.name} is restarting because {role.name} replica(s) failed."
                retried.append(pod)
            elif self.framework.restart_policy(self.view, role) == EXIT_CODE:
                self._fail(f'job "{self.view.name}" is failing because "{role.name}" replica(s) failed.')
        in_a_row = self._remember([pod for pod in retried if not pod.disrupted])
        self._make_again(retried, in_a_row)
        return message

    def _remember(self, failed: list[RolePod]) -> dict[str, int]:
        """Count failed pods that are replaced, each once; answers how often each place was in a row."""
        annotations = self.view.job.metadata.annotations or {}
        restarted = set(annotations.get(RESTARTED_PODS, "").split(","))
        new = [pod for pod in failed if (pod.pod.metadata.uid or "") not in restarted]
        in_a_row = self.view.pod_restarts
        for pod in new:
            place = self._place(pod)
            in_a_row[place] = 1 if pod.lasted >= _FORGIVEN_SECONDS else in_a_row.get(place, 0) + 1
        count = self.view.restarts + len(new)
        if new:
            self.plan.annotations[RESTARTS] = str(count)
            self.plan.annotations[RESTARTED_PODS] = ",".join(pod.pod.metadata.uid or "" for pod in failed)
            self.plan.annotations[POD_RESTARTS] = ",".join(f"{place}={n}" for place, n in in_a_row.items())
        self._limit(count)
        return in_a_row

    def _make_again(self, pods: list[RolePod], in_a_row: dict[str, int]) -> None:
        """Delete failed pods to make room for their successors; until their wait is over they stay to be looked at."""
        for pod in pods:
            place = self._place(pod)
            wait = 0.0 if pod.disrupted else restart_delay(f"{self.view.uid}/{place}", in_a_row.get(place, 0))
            left = pod_facts.finished_at(pod.pod) + wait - self.now
            if wait and left > 0:
                self.plan.again_within(left)
                text = f"Waiting {format_duration(math.ceil(left))} before pod {pod.name} is created again"
                self.plan.tell("BackOff", text, once=f"backoff/{pod.pod.metadata.uid}")
            else:
                self.plan.delete_pods.append(pod.pod)

    def _place(self, pod: RolePod) -> str:
        return pod.name.removeprefix(f"{self.view.name}-")

    def _limit(self, restarts: int) -> None:
        in_place = sum(
            pod.restarts
            for pod in self.pods
            if pod.phase == "Running" and self.framework.restart_policy(self.view, self._role(pod)) != NEVER
        )
        if self.framework.over_limit(self.view, restarts, in_place):
            name = self.view.name
            self._fail(f"{self.view.kind} {name} has failed because it has reached the specified backoff limit")

    def _sync(self, *, admitted: bool) -> None:
        """Bring pods and Services to the wanted number."""
        view, framework, plan = self.view, self.framework, self.plan
        plan.ensure.extend(framework.resources(view, self.pods))
        plan_autoscaler(plan, view, self.seen.autoscaler)
        plan.delete_pods.extend(pod for pod in self.strays if not is_deleting(pod))
        plan.delete_pods.extend(
            pod.pod for pod in self.pods if pod.index >= self._role(pod).replicas and not pod.deleting
        )
        there = {pod.name for pod in self.pods} | {pod.metadata.name for pod in self.strays}
        services = {service.metadata.name for service in self.seen.services}
        names: set[str] = set()
        for role in view.roles:
            starts = admitted and framework.may_start(view, role, self.tallies)
            for index in range(role.replicas):
                name = framework.pod_name(view, role, index)
                names.add(name)
                if plan.full:
                    continue
                if framework.pod_services and name not in services and f"services/{name}" not in self.seen.expected:
                    plan.create_services.append(build_service(framework, view, role, index))
                if starts and name not in there and f"pods/{name}" not in self.seen.expected:
                    if not plan.create_pods:
                        # What no pod of the job can be given is told of the job, before any is asked for.
                        build_pod(framework, view, role, index)
                    plan.create_pods.append(partial(build_pod, framework, view, role, index))
            self._warn_of_template(role)
        if framework.pod_services:
            plan.delete_services.extend(
                each
                for each in self.seen.services
                if each.metadata.name not in names and not each.metadata.deletion_timestamp
            )

    def _warn_of_template(self, role: Role) -> None:
        spec = role.template.spec
        if spec.restart_policy:
            text = "Restart policy in pod template will be overwritten by restart policy in replica spec"
            self.plan.warn("SetPodTemplateRestartPolicy", text, once=f"restart-policy/{role.name}")
        if spec.scheduler_name and spec.scheduler_name not in (DEFAULT_SCHEDULER, "unisono"):
            text = "Another scheduler is specified when gang-scheduling is enabled and it will not be overwritten"
            self.plan.warn("SetPodTemplateSchedulerName", text, once=f"scheduler/{role.name}")

    # --- suspension and the end --------------------------------------------------------------------------------

    def _suspend(self) -> None:
        view, text = self.view, f"{self.view.kind} {self.view.name} is suspended."
        self.plan.delete_pods = staying(self.seen.pods)
        self.plan.delete_services = [each for each in self.seen.services if not each.metadata.deletion_timestamp]
        suspend_group(self.plan, view.job, self.seen.group)
        plan_autoscaler(self.plan, view, self.seen.autoscaler, active=False)
        self.status.replica_statuses = {role.name: self._replica_status(role, RoleTally(0)) for role in view.roles}
        if is_true(self.status.conditions, RUNNING):
            self._set(RUNNING, "Suspended", text, status="False")
        self._set(SUSPENDED, "Suspended", text)
        for key in (RESTARTS, RESTARTED_PODS, POD_RESTARTS):
            if key in (view.job.metadata.annotations or {}):
                self.plan.annotations[key] = None

    def _resume(self) -> None:
        if is_true(self.status.conditions, SUSPENDED):
            self._set(SUSPENDED, "Resumed", f"{self.view.kind} {self.view.name} is resumed.", status="False")
            self.status.start_time = self.time

    def _wind_down(self) -> None:
        """Take away what the policy says, and the job itself when its time is over."""
        view, plan = self.view, self.plan
        if drop_group(plan, view.job, self.seen.group):
            plan.tell("JobTerminated", "Job has been terminated. Deleting PodGroup", once="terminated")
        policy = view.run.clean_pod_policy
        if policy != CLEAN_NONE:
            gone = {pod.metadata.name: pod for pod in self.seen.pods if policy == CLEAN_ALL or not has_ended(pod)}
            plan.delete_pods = staying(gone.values())
            left = {pod.metadata.name for pod in self.seen.pods} - gone.keys()
            plan.delete_services = [
                each
                for each in self.seen.services
                if (each.metadata.name in gone or (policy == CLEAN_ALL and each.metadata.name not in left))
                and not each.metadata.deletion_timestamp
            ]
        ttl = view.run.ttl_seconds_after_finished
        if ttl is None or view.run.suspend:
            return
        left_seconds = self._ended_at() + ttl - self.now
        if left_seconds > 0:
            plan.again_within(left_seconds)
        else:
            plan.delete_job = True
            plan.tell("SuccessfulDeleteJob", f"Deleted job: {view.name}", once="ttl")

    def _ended_at(self) -> float:
        if self.status.completion_time:
            return parse_time(self.status.completion_time)
        ends = [each for each in self.status.conditions or () if each.type in (SUCCEEDED, FAILED)]
        return parse_time(ends[-1].last_transition_time or self.time) if ends else self.now

    # --- status ------------------------------------------------------------------------------------------------

    def _count(self) -> None:
        self.status.replica_statuses = {
            role.name: self._replica_status(role, self.tallies[role.name]) for role in self.view.roles
        }

    def _settle_active(self) -> None:
        """Pods that still run when the job has succeeded count as succeeded."""
        for counts in (self.status.replica_statuses or {}).values():
            if counts.active:
                counts.succeeded, counts.active = (counts.succeeded or 0) + counts.active, None

    def _replica_status(self, role: Role, tally: RoleTally) -> ReplicaStatus:
        selector = None
        if self.framework.selector:
            labels = {
                KUBEFLOW_JOB_NAME: self.view.name,
                OPERATOR_NAME: self.framework.operator,
                KUBEFLOW_REPLICA_TYPE: role.lower,
            }
            selector = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
        return ReplicaStatus(
            active=tally.active or None,
            succeeded=tally.succeeded or None,
            failed=tally.failed or None,
            selector=selector,
        )

    def _fail(self, message: str) -> None:
        self._set(FAILED, "Failed", message)

    def _set(self, type: str, word: str, message: str, status: str = "True") -> None:
        before = self.status.conditions or []
        condition = TrainingCondition(type=type, status=status, reason=f"{self.view.kind}{word}", message=message)
        after = with_condition(before, condition, self.time)
        if after != before:
            record = self.plan.warn if type in (FAILED, RESTARTING) else self.plan.tell
            record(f"{self.view.kind}{word}", message)
            self.status.conditions = after

    def _role(self, pod: RolePod) -> Role:
        return next(role for role in self.view.roles if role.name == pod.role)
