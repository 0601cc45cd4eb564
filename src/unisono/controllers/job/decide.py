"""What to do about a job: a pure function from observed objects and the time to a plan.

One call takes at most one step of the state machine. If the phase changes, the plan is to write that down (and to mark
the pods of a partial restart before); everything that follows from a phase is planned from the stored phase. So each
plan can be carried out any number of times and given up at any point.
"""

from __future__ import annotations

import math

import msgspec

from unisono.api.annotations import GOT
from unisono.api.groups.batch import Job
from unisono.api.groups.scheduling import PodGroup
from unisono.api.keys import CONTROLLER_OUT_OF_SYNC
from unisono.api.times import format_duration, parse_time, rfc3339
from unisono.controllers import owners
from unisono.controllers.job import policies
from unisono.controllers.job import view as phases
from unisono.controllers.job.observed import Observed, Tally, TaskPod, is_doomed, see, tally
from unisono.controllers.job.status import (
    Outcome,
    TargetState,
    current_target,
    next_status,
    pending_rule,
    restarting_rule,
    running_rule,
)
from unisono.controllers.job.sync import VolcanoPlan, group_is_outdated, plan_sync
from unisono.controllers.job.view import JobView

# Key of status.controlledResources under which the command that was carried out last is kept.
LAST_COMMAND = "last-command"

_RULE_REASONS = {phases.COMPLETED: "JobCompleted", phases.FAILED: "JobFailed"}


def decide(seen: Observed, now: float) -> VolcanoPlan:
    """The next step for the job; an empty plan when it is being deleted.

    Args:
        seen: the job and what belongs to it.
        now: seconds since 1970.
    """
    if seen.job.metadata.deletion_timestamp:
        return VolcanoPlan()
    return _JobDecision(seen, now).run()


def beginning(job: Job, now: float) -> Job:
    """The job itself, or with the first status of a job that has none: it is pending since it was created.

    Args:
        job: as it is stored.
        now: seconds since 1970.
    """
    meta = job.metadata
    if job.status.state.phase or meta.deletion_timestamp:
        return job
    since = min(now, parse_time(meta.creation_timestamp)) if meta.creation_timestamp else now
    status = decide(Observed(job), since).status
    return job if status is None else msgspec.structs.replace(job, status=status)


class _JobDecision:
    def __init__(self, seen: Observed, now: float) -> None:
        self.seen, self.now = seen, now
        self.view = JobView(seen.job, _got(seen))
        self.pods = see(self.view, seen.pods)
        self.state = current_target(self.view)
        self.controlled = dict(self.view.status.controlled_resources or {})
        self.plan = VolcanoPlan(got=self.view.got)

    def run(self) -> VolcanoPlan:
        if self.view.phase not in phases.TRANSITIONS:
            return self._move(TargetState(phases.PENDING, self.view.version, self.view.retry_count))
        if self._command() or self._begun_restart() or self._policies() or self._made_again():
            return self.plan
        if self.view.phase == phases.RESTARTING:
            self._restart()
        elif self.view.phase in phases.ACTIVE:
            self._sync()
        else:
            self._wind_down()
        return self.plan

    # --- steps that change the phase --------------------------------------------------------------------------

    def _command(self) -> bool:
        """Carry out the oldest command once; those without effect in this phase are only taken away."""
        last = self.controlled.get(LAST_COMMAND)
        done = [command for command in self.seen.commands if command.metadata.uid == last]
        if done:
            # The status has room for one: as long as that command is there, the next would make us forget it was done.
            self.plan.commands.extend(done)
            return False
        for command in self.seen.commands:
            self.plan.commands.append(command)
            uid, action = command.metadata.uid or "", command.action or ""
            change = phases.transition(self.view.phase, action)
            stale = command.target is not None and command.target.uid not in ("", self.view.uid)
            if stale or change is None or action in phases.TARGETED:
                continue
            self.controlled[LAST_COMMAND] = uid
            self.plan.tell(
                "CommandIssued",
                f"Start to execute command {action}, and clean it up to make sure executed not more than once.",
            )
            text = command.message or f"asked for by command {command.metadata.name}"
            self._move(self._after(change, action, text))
            return True
        return False

    def _begun_restart(self) -> bool:
        """Pods are marked for a restart that the status does not know: the writer stopped in between."""
        begun = max((pod.round for pod in self.pods if pod.marked), default=0)
        if self.view.phase not in (phases.PENDING, phases.RUNNING) or begun <= self.view.retry_count:
            return False
        names = ", ".join(pod.name for pod in self.pods if pod.marked and pod.round == begun)
        self._move(TargetState(phases.RESTARTING, self.view.version, begun, phases.RESTART_POD, f"restarting {names}"))
        return True

    def _policies(self) -> bool:
        if self.view.phase not in phases.ACTIVE:
            return False
        happened = policies.occurrences(self.view, self.pods, self.seen.pod_group, self.seen.expected, self.now)
        verdicts = policies.judge(self.view, happened, self.now)
        self._remember(verdicts)
        if not verdicts.now:
            return False
        first = verdicts.now[0]
        change = phases.transition(self.view.phase, first.action)
        if change is None:
            return False
        target = self._after(change, first.action, first.occurrence.text)
        for verdict in verdicts.now:
            self.plan.tell("ExecuteAction", f"Start to execute action {verdict.action}: {verdict.occurrence.text}")
            if not change.whole:
                self._mark(verdict, target.retry_count)
        self._move(target)
        return True

    def _made_again(self) -> bool:
        """Pods without a node ask for other amounts of devices than they take on the kind of nodes that they got."""
        if self.view.phase != phases.PENDING:
            return False
        stale = [pod for pod in self.pods if not (pod.marked or pod.deleting or pod.ended) and self._is_stale(pod)]
        if not stale:
            return False
        self.plan.marks |= {pod.name: {CONTROLLER_OUT_OF_SYNC: "true"} for pod in stale}
        text = f"its pods are made again for nodes of {self.view.got}"
        self.plan.tell("RemakePods", text)
        self._move(TargetState(phases.RESTARTING, self.view.version, self.view.retry_count, phases.REMAKE_PODS, text))
        return True

    def _is_stale(self, pod: TaskPod) -> bool:
        task = self.view.task(pod.task)
        return task is not None and not pod.pod.spec.node_name and not task.made_for(pod.pod)

    def _after(self, change: phases.Transition, action: str, text: str) -> TargetState:
        return TargetState(
            phase=change.to,
            version=self.view.version + change.whole,
            retry_count=self.view.retry_count + change.retry,
            reason=action,
            message=text,
        )

    def _mark(self, verdict: policies.Verdict, round_: int) -> None:
        """Annotate what a partial restart takes down, so that its end does not count as a failure."""
        happened = verdict.occurrence
        for pod in self.pods:
            hit = {
                phases.RESTART_POD: pod.name == happened.pod,
                phases.RESTART_TASK: pod.task == happened.task,
                phases.RESTART_PARTITION: pod.task == happened.task and pod.partition == happened.partition,
            }
            if hit[verdict.action] and not pod.marked:
                self.plan.marks[pod.name] = {CONTROLLER_OUT_OF_SYNC: "true", owners.RESTART_ROUND: str(round_)}

    def _remember(self, verdicts: policies.Verdicts) -> None:
        """Keep in the status what a policy waits on and no object would show later."""
        self._forget(policies.EVICTED_PREFIX)
        for verdict in verdicts.waiting:
            happened = verdict.occurrence
            if happened.event == policies.POD_EVICTED:
                self.controlled[policies.EVICTED_PREFIX + happened.pod] = rfc3339(happened.since)
            wait = format_duration(verdict.due - happened.since)
            once = f"{happened.event}/{happened.pod}/{happened.since}"
            self.plan.tell("ExecuteAction", f"Execute action {verdict.action} after {wait}", once)
        if verdicts.next_due is not None:
            self.plan.requeue_after = max(0.0, verdicts.next_due - self.now)

    def _move(self, target: TargetState) -> VolcanoPlan:
        if target.version != self.view.version:
            self._forget(policies.EVICTED_PREFIX)
        self._write(target, self._count(target))
        return self.plan

    def _follow(self, outcome: Outcome, counts: Tally) -> bool:
        """Take the step that a rule asks for; False when it asks for none."""
        phase, text = outcome
        if phase == self.view.phase:
            return False
        reason = _RULE_REASONS.get(phase, "")
        if reason:
            record = self.plan.tell if phase == phases.COMPLETED else self.plan.warn
            if phase == phases.FAILED and self.view.phase == phases.RESTARTING and self.state.message:
                text = f"{text}; the last time because {self.state.message}"
            record(reason, text)
        target = TargetState(phase, self.view.version, self.view.retry_count, reason, text)
        self._write(target, counts if phase in phases.ACTIVE else self._count(target))
        return True

    # --- steps within a phase ---------------------------------------------------------------------------------

    def _sync(self) -> None:
        counts = self._count(self.state)
        rule = pending_rule if self.view.phase == phases.PENDING else running_rule
        if self._follow(rule(self.view, counts), counts):
            return
        self._delete(self.state)
        blocked = plan_sync(self.plan, self.view, self.pods, self.seen, self.controlled)
        self._write(_explained(self.state, blocked), counts)

    def _restart(self) -> None:
        counts = self._count(self.state)
        kills = sum(1 for pod in self.pods if not pod.deleting and self._doomed(pod, self.state))
        # Pods that are made again for another kind of nodes have not failed.
        retries = -1 if self.state.reason == phases.REMAKE_PODS else self.view.retry_count
        outcome = restarting_rule(self.view, counts, retries, kills)
        wait = self._backoff() if outcome[0] == phases.PENDING else 0.0
        if wait > 0:
            self.plan.requeue_after = min(self.plan.requeue_after or wait, wait)
            once = f"backoff/{self.view.retry_count}"
            self.plan.tell("BackOff", f"Waiting {format_duration(math.ceil(wait))} before the next restart", once)
        elif self._follow(outcome, counts):
            return
        self._delete(self.state)
        if self.seen.pod_group is not None and group_is_outdated(self.view, self.seen.pod_group):
            self.plan.delete_group = self.seen.pod_group
        self._write(self.state, counts)

    def _backoff(self) -> float:
        """Seconds until the pods of this restart may come; a resumed job has not failed and does not wait."""
        since = self.view.status.state.last_transition_time
        if self.state.reason in (phases.RESUME_JOB, phases.REMAKE_PODS) or not since:
            return 0.0
        return parse_time(since) + policies.restart_delay(self.view.uid, self.view.retry_count) - self.now

    def _wind_down(self) -> None:
        counts = self._count(self.state)
        self._delete(self.state)
        group = self.seen.pod_group
        if group is not None and not group.metadata.deletion_timestamp and _owns(self.view, group):
            self.plan.delete_group = group
        target = self.state
        if counts.alive == 0:
            stopped = phases.KILLING.get(target.phase, target.phase)
            target = TargetState(stopped, target.version, target.retry_count, target.reason, target.message)
            self.plan.remove_resources = self._forget("plugin-")
            self._forget(policies.EVICTED_PREFIX)
        self._write(target, counts)

    def _forget(self, prefix: str) -> bool:
        """Drop notes from the status; False when there were none."""
        count = len(self.controlled)
        self.controlled = {key: note for key, note in self.controlled.items() if not key.startswith(prefix)}
        return len(self.controlled) < count

    def _delete(self, state: TargetState) -> None:
        self.plan.delete_pods = [pod.pod for pod in self.pods if not pod.deleting and self._doomed(pod, state)]

    def _doomed(self, pod: TaskPod, state: TargetState) -> bool:
        marked = pod.name in self.plan.marks
        return marked or is_doomed(pod, self.view, state.phase, state.version, state.reason)

    def _count(self, state: TargetState) -> Tally:
        return tally(self.pods, lambda pod: self._doomed(pod, state))

    def _write(self, target: TargetState, counts: Tally) -> None:
        status = next_status(self.view, target, counts, self.controlled, self.now)
        if status != self.view.status:
            self.plan.status = status


def _got(seen: Observed) -> str:
    """Kinds of nodes that the gang got, or for which its pods are to be made again, as the scheduler says."""
    return (seen.pod_group.metadata.annotations or {}).get(GOT, "") if seen.pod_group is not None else ""


def _owns(view: JobView, group: PodGroup) -> bool:
    return any(owner.uid == view.uid for owner in group.metadata.owner_references or ())


def _explained(state: TargetState, blocked: tuple[str, str] | None) -> TargetState:
    """The same state, saying what the job waits for; an obstacle that is gone is no longer mentioned."""
    reason, message = state.reason, state.message
    if blocked:
        reason, message = blocked
    elif state.phase == phases.PENDING or reason.endswith("Error"):
        reason = message = ""
    return TargetState(state.phase, state.version, state.retry_count, reason, message)
