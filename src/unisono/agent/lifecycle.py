"""What happens next to a pod on this node: a pure decision from what its containers did so far.

``decide`` is called after every change and every timer; it holds no memory. What it reads comes from the run
directories on disk, so that an agent that starts again decides the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal

BACKOFF_BASE = 10.0
BACKOFF_CAP = 300.0
# A container that ran this long starts over with the shortest back-off, as in the kubelet.
BACKOFF_RESET = 600.0

Role = Literal["init", "sidecar", "main"]
State = Literal["none", "running", "exited"]
Phase = Literal["Pending", "Running", "Succeeded", "Failed"]


@dataclass(frozen=True, slots=True)
class Exit:
    """How one run of a container ended; times in seconds since 1970."""

    exit_code: int
    started_at: float
    finished_at: float
    signal: int = 0
    reason: str = ""
    message: str = ""

    @property
    def cause(self) -> str:
        """The reason as users know it."""
        return self.reason or ("Completed" if self.exit_code == 0 else "Error")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something is as it is: one CamelCase word and one sentence.

    Attributes:
        reason: the word.
        message: the sentence.
        disruption: the node ends the pod for its own sake: the condition ``DisruptionTarget`` says so.

    """

    reason: str
    message: str
    disruption: bool = False


@dataclass(frozen=True, slots=True)
class RestartRule:
    """A container that ends with one of these codes, or ``but`` with another, is started again.

    Attributes:
        everything: with it all containers of the pod are, init containers first.

    """

    codes: frozenset[int]
    but: bool = False
    everything: bool = False


@dataclass(frozen=True, slots=True)
class ContainerView:
    """One container as it is now.

    Attributes:
        restart_policy: its own; empty where the pod's holds.
        rules: what counts before the policy; the first that matches.
        runs: runs so far, the present one included.
        crashes: runs in a row that ended within ``BACKOFF_RESET``; the back-off doubles with each.
        last: end of the latest run when it ended.
        previous: end of the run before the latest.
        passed: the startup probe succeeded, or there is none.
        ready: the readiness probe succeeds, or there is none.
        failing: set when a probe asks for the container's end.
        blocked: why it cannot be started now; tried again at ``retry_at``.
    """

    name: str
    role: Role = "main"
    state: State = "none"
    runs: int = 0
    crashes: int = 0
    started_at: float = 0.0
    last: Exit | None = None
    previous: Exit | None = None
    passed: bool = True
    ready: bool = True
    failing: Reason | None = None
    blocked: Reason | None = None
    retry_at: float = 0.0
    restart_policy: str = ""
    rules: tuple[RestartRule, ...] = ()


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod as it is now.

    Attributes:
        failure: a reason to end it for good.
        rejected: the node did not take it, for the reason in ``failure``; it has no containers then.
        deadline: the time at which it must end.
        held: why nothing of it may be started yet; looked at again at ``held_until``, or when something happens.
    """

    name: str
    restart_policy: str
    containers: tuple[ContainerView, ...]
    deleting: bool = False
    failure: Reason | None = None
    rejected: bool = False
    deadline: float | None = None
    held: Reason | None = None
    held_until: float | None = None


@dataclass(slots=True)
class Plan:
    """What to do now, and what to tell the API.

    Attributes:
        start: containers to start, in order.
        stop: containers to end, with the reason.
        waiting: why a container does not run, by name.
        wake: time at which to decide again, if nothing happens before.
        done: nothing of the pod runs any more, nor ever will.
    """

    start: list[str] = field(default_factory=list)
    stop: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, Reason] = field(default_factory=dict)
    phase: Phase = "Pending"
    initialized: bool = False
    reason: Reason | None = None
    wake: float | None = None
    done: bool = False

    def wake_at(self, when: float) -> None:
        """Decide again at ``when`` at the latest."""
        self.wake = when if self.wake is None else min(self.wake, when)


def backoff(crashes: int) -> float:
    """Seconds between the end of a run and the next start: at once the first time, then 10 s doubling to 300 s.

    Args:
        crashes: runs in a row that ended; each within ``BACKOFF_RESET`` of its start.
    """
    return 0.0 if crashes <= 1 else min(BACKOFF_CAP, BACKOFF_BASE * float(1 << min(crashes - 2, 10)))


def next_crashes(crashes: int, last: Exit) -> int:
    """Failed runs in a row once ``last`` is counted in."""
    return 1 if last.finished_at - last.started_at >= BACKOFF_RESET else crashes + 1


def decide(pod: PodView, now: float) -> Plan:
    """The next step of a pod.

    Args:
        pod: what is known of the pod.
        now: seconds since 1970.
    """
    plan = Plan()
    failure = pod.failure
    if failure is None and pod.deadline is not None:
        if now >= pod.deadline:
            failure = Reason("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
        else:
            plan.wake_at(pod.deadline)
    if failure is None and not pod.deleting:
        pod = _begun_anew(pod, plan)
    plan.initialized = all(_initialized(c) for c in pod.containers if c.role != "main")
    if failure is not None or pod.deleting:
        _end(pod, plan, failure)
        return plan
    if plan.stop:
        plan.phase = "Running"
        return plan
    if not _init_step(pod, plan, now):
        return plan
    mains = [c for c in pod.containers if c.role == "main"]
    for container in mains:
        _main_step(pod, container, plan, now)
    if all(_finished(pod, c) for c in mains):
        _complete(pod, plan, mains)
    else:
        plan.phase = "Running" if all(c.runs > 0 for c in mains) else "Pending"
    return plan


def _begun_anew(pod: PodView, plan: Plan) -> PodView:
    """The pod as it is once a container's rule starts everything again: what ran before that has not run.

    What still runs is ended first. The newest end that such a rule matches tells when it was. Sidecars that end once
    the main containers have ended for good were ended, and ask for nothing.
    """
    ended_at = inf
    if _mains_finished(pod):
        ended_at = max((c.last.finished_at for c in pod.containers if c.role == "main" and c.last), default=inf)
    asked_at = max(
        (
            end.finished_at
            for each in pod.containers
            for end in (each.last, each.previous)
            if end is not None and (rule := _rule(each, end.exit_code)) is not None and rule.everything
            if each.role != "sidecar" or end.finished_at < ended_at
        ),
        default=None,
    )
    if asked_at is None:
        return pod
    containers = list[ContainerView]()
    for each in pod.containers:
        began = each.last.started_at if each.last is not None else each.started_at
        if each.state != "none" and began <= asked_at:
            if each.state == "running":
                plan.stop[each.name] = "all containers of the pod are started again"
            else:
                each = replace(each, state="none", runs=0 if each.role == "sidecar" else each.runs)  # noqa: PLW2901
        containers.append(each)
    return replace(pod, containers=tuple(containers))


def _initialized(container: ContainerView) -> bool:
    if container.role == "sidecar":
        return container.runs > 0 and (container.passed or container.last is not None)
    return container.last is not None and container.last.exit_code == 0 and container.state == "exited"


def _init_step(pod: PodView, plan: Plan, now: float) -> bool:
    """Work on the init containers in order; True once the main containers may run."""
    ready = True
    for container in (c for c in pod.containers if c.role != "main"):
        if not ready:
            plan.waiting[container.name] = Reason("PodInitializing", "")
        elif container.role == "sidecar":
            ready = _sidecar_step(pod, container, plan, now)
        elif not _initialized(container):
            ready = False
            if container.state == "exited" and not _again(pod, container):
                _end(pod, plan, None)
                return False
            _start_when_due(pod, container, plan, now)
    if not ready:
        for container in pod.containers:
            if container.role == "main" and container.state == "none":
                plan.waiting[container.name] = Reason("PodInitializing", "")
    return ready


def _sidecar_step(pod: PodView, container: ContainerView, plan: Plan, now: float) -> bool:
    """Keep a sidecar running; True when those behind it may start."""
    if container.state == "running" and container.failing:
        plan.stop[container.name] = container.failing.message
    elif container.state != "running" and not _mains_finished(pod):
        _start_when_due(pod, container, plan, now)
    return _initialized(container)


def _main_step(pod: PodView, container: ContainerView, plan: Plan, now: float) -> None:
    if container.state == "running":
        if container.failing:
            plan.stop[container.name] = container.failing.message
    elif not _finished(pod, container):
        _start_when_due(pod, container, plan, now)


def _start_when_due(pod: PodView, container: ContainerView, plan: Plan, now: float) -> None:
    if container.state == "running":
        return
    if pod.held is not None:
        plan.waiting[container.name] = pod.held
        if pod.held_until is not None:
            plan.wake_at(pod.held_until)
        return
    due, reason = container.retry_at, container.blocked
    if container.last is not None:
        delay = backoff(container.crashes)
        due = max(due, container.last.finished_at + delay)
        reason = reason or Reason(
            "CrashLoopBackOff",
            f"back-off {delay:.0f}s restarting failed container={container.name} pod={pod.name}",
        )
    if now >= due:
        plan.start.append(container.name)
        plan.waiting[container.name] = container.blocked or Reason("ContainerCreating", "")
    else:
        plan.waiting[container.name] = reason or Reason("ContainerCreating", "")
        plan.wake_at(due)


def _finished(pod: PodView, container: ContainerView) -> bool:
    """Whether a main container ended for good."""
    if container.state != "exited" or container.last is None:
        return False
    return not _again(pod, container)


def _again(pod: PodView, container: ContainerView) -> bool:
    """Whether a container that ended is started again: by its rules, else by its own policy, else by the pod's."""
    code = container.last.exit_code if container.last is not None else 0
    if _rule(container, code) is not None:
        return True
    policy = container.restart_policy or pod.restart_policy
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _rule(container: ContainerView, code: int) -> RestartRule | None:
    return next((rule for rule in container.rules if (code in rule.codes) != rule.but), None)


def _mains_finished(pod: PodView) -> bool:
    return all(_finished(pod, c) for c in pod.containers if c.role == "main")


def _complete(pod: PodView, plan: Plan, mains: list[ContainerView]) -> None:
    """All work is done: end the sidecars, then say how it ended."""
    plan.waiting.clear()
    for container in pod.containers:
        if container.state == "running":
            plan.stop[container.name] = "the pod's main containers ended"
    plan.phase = _verdict(mains)
    plan.done = not plan.stop
    if not plan.done:
        plan.phase = "Running"


def _end(pod: PodView, plan: Plan, failure: Reason | None) -> None:
    """End every container; the pod is over when none runs."""
    plan.start.clear()
    plan.waiting.clear()
    plan.reason = failure
    for container in pod.containers:
        if container.state == "running":
            plan.stop[container.name] = failure.message if failure else "the pod is ending"
    plan.done = not plan.stop
    if not plan.done:
        mains = [c for c in pod.containers if c.role == "main"]
        plan.phase = "Running" if any(c.runs for c in mains) else "Pending"
    elif failure is not None:
        plan.phase = "Failed"
    else:
        plan.phase = _verdict([c for c in pod.containers if c.role != "sidecar"])


def _verdict(containers: list[ContainerView]) -> Phase:
    good = all(c.last is not None and c.last.exit_code == 0 for c in containers)
    return "Succeeded" if good else "Failed"
