"""The status that the API shows of a pod. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from unisono.agent.lifecycle import ContainerView, Exit, Plan, PodView, Reason
from unisono.api.core import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    HostIP,
    Pod,
    PodCondition,
    PodIP,
    PodStatus,
)
from unisono.api.pod_states import ENDED_PHASES
from unisono.api.resources import effective_requests, resource_list
from unisono.api.times import rfc3339

# Fields that the agent writes; all others have other owners.
OWNED = (
    "phase", "conditions", "message", "reason", "hostIP", "hostIPs", "podIP", "podIPs", "startTime",
    "initContainerStatuses", "containerStatuses", "qosClass",
)  # fmt: skip
_DISRUPTED = "DisruptionTarget"
_OWN_CONDITIONS = ("Initialized", "Ready", "ContainersReady", "PodReadyToStartContainers")


def pod_status(
    pod: Pod, view: PodView, plan: Plan, *, pod_ip: str, host_ip: str, start_time: float, now: float
) -> PodStatus:
    """What to report for a pod.

    Args:
        pod: the pod as the API shows it; conditions of others and transition times are kept.
        view: what its containers did.
        plan: what comes next.
        pod_ip: the pod's address.
        host_ip: the node's address.
        start_time: when the node took the pod over, seconds since 1970.
        now: seconds since 1970.
    """
    if view.rejected and plan.reason is not None:
        return _rejected_status(pod, plan.reason, start_time)
    by_name = {c.name: c for c in view.containers}
    inits = [_container_status(pod, c, by_name[c.name], plan) for c in pod.spec.init_containers or ()]
    mains = [_container_status(pod, c, by_name[c.name], plan) for c in pod.spec.containers or ()]
    over = plan.phase in ENDED_PHASES
    return PodStatus(
        phase=plan.phase,
        reason=plan.reason.reason if plan.reason else None,
        message=plan.reason.message if plan.reason else None,
        conditions=_conditions(pod, inits, mains, plan, over, now),
        host_ip=host_ip,
        host_ips=[HostIP(ip=host_ip)],
        pod_ip=pod_ip,
        pod_ips=[PodIP(ip=pod_ip)],
        start_time=rfc3339(start_time),
        init_container_statuses=inits or None,
        container_statuses=mains,
        qos_class=pod.status.qos_class or qos_class(pod),
    )


def _rejected_status(pod: Pod, why: Reason, start_time: float) -> PodStatus:
    """Of a pod that the node did not take: it has no address, and clients read the reason where no container is."""
    return PodStatus(
        phase="Failed",
        reason=why.reason,
        message=f"Pod was rejected: {why.message}",
        conditions=pod.status.conditions,
        start_time=rfc3339(start_time),
        qos_class=pod.status.qos_class or qos_class(pod),
    )


def status_patch(pod: Pod, status: PodStatus) -> dict[str, Any] | None:
    """Merge patch that turns the pod's status into ``status``; None when nothing changes."""
    old, new = msgspec.to_builtins(pod.status), msgspec.to_builtins(status)
    changed = {name: new.get(name) for name in OWNED if new.get(name) != old.get(name)}
    return changed or None


def qos_class(pod: Pod) -> str:
    """Guaranteed, Burstable or BestEffort by Kubernetes' rule for CPU and memory."""
    containers = [*(pod.spec.containers or ()), *(pod.spec.init_containers or ())]
    named = ("cpu", "memory")
    requests = [effective_requests(c.resources) for c in containers]
    limits = [resource_list(c.resources.limits) for c in containers]
    if not any(r.get(name) for r in requests for name in named):
        return "BestEffort"
    equal = all(
        lim.get(name) and req.get(name) == lim[name]
        for req, lim in zip(requests, limits, strict=True)
        for name in named
    )
    return "Guaranteed" if equal else "Burstable"


def _container_status(pod: Pod, container: Container, view: ContainerView, plan: Plan) -> ContainerStatus:
    ended = [_terminated(pod, view, exit_, index) for exit_, index in _exits(view)]
    running = view.state == "running"
    status = ContainerStatus(
        name=container.name,
        image=container.image or "",
        image_id="",
        restart_count=max(0, view.runs - 1),
        ready=_completed_init(view) if view.role == "init" else running and view.passed and view.ready,
        started=running and view.passed,
        container_id=_id(pod, view, view.runs - 1) if view.runs else None,
    )
    waiting = plan.waiting.get(view.name)
    if running:
        status.state = ContainerState(running=ContainerStateRunning(started_at=rfc3339(view.started_at)))
        status.last_state = ended[0] if ended else ContainerState()
    elif view.last is not None and waiting is None:
        status.state = ended[0]
        status.last_state = ended[1] if len(ended) > 1 else ContainerState()
    else:
        waiting_state = ContainerStateWaiting(reason=waiting.reason if waiting else "ContainerCreating")
        waiting_state.message = (waiting.message or None) if waiting else None
        status.state = ContainerState(waiting=waiting_state)
        status.last_state = ended[0] if ended else ContainerState()
    return status


def _exits(view: ContainerView) -> Iterable[tuple[Exit, int]]:
    """Ends of runs, latest first, with the number of the run."""
    if view.last is not None:
        yield view.last, view.runs - 1
    if view.previous is not None:
        yield view.previous, view.runs - 2


def _terminated(pod: Pod, view: ContainerView, end: Exit, number: int) -> ContainerState:
    return ContainerState(
        terminated=ContainerStateTerminated(
            exit_code=end.exit_code,
            signal=end.signal or None,
            reason=end.cause,
            message=end.message or None,
            started_at=rfc3339(end.started_at),
            finished_at=rfc3339(end.finished_at),
            container_id=_id(pod, view, number),
        )
    )


def _completed_init(view: ContainerView) -> bool:
    return view.state == "exited" and view.last is not None and view.last.exit_code == 0


def _id(pod: Pod, view: ContainerView, number: int) -> str:
    return f"process://{pod.metadata.uid}/{view.name}/{number}"


def _conditions(
    pod: Pod, inits: list[ContainerStatus], mains: list[ContainerStatus], plan: Plan, over: bool, now: float
) -> list[PodCondition]:
    unready = [c.name for c in mains if not c.ready]
    incomplete = [c.name for c in inits if not c.ready]
    initialized = plan.initialized or plan.phase == "Succeeded"
    why = {
        "PodReadyToStartContainers": ("", ""),
        "Initialized": ("PodCompleted" if over and initialized else "" if initialized else "ContainersNotInitialized",
                        "" if initialized else f"containers with incomplete status: [{' '.join(incomplete)}]"),
    }  # fmt: skip
    if plan.phase == "Succeeded":
        blocked = ("PodCompleted", "")
    elif plan.phase == "Failed":
        blocked = ("PodFailed", "")
    else:
        blocked = ("ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]")
    ready = not unready and not over and initialized
    states = {
        "PodReadyToStartContainers": not over,
        "Initialized": initialized,
        "ContainersReady": ready,
        "Ready": ready,
    }
    states["Ready"] = ready and _gates_open(pod)
    if ready and not states["Ready"]:
        why["Ready"] = ("ReadinessGatesNotReady", "corresponding condition of a pod readiness gate is not True")
    old = {c.type: c for c in pod.status.conditions or ()}
    own = []
    for name, state in states.items():
        reason, message = why.get(name, ("", "") if state else blocked)
        own.append(_condition(name, state, reason, message, old.get(name), now))
    foreign = [c for c in pod.status.conditions or () if c.type not in _OWN_CONDITIONS]
    if "PodScheduled" not in old:
        foreign.append(_condition("PodScheduled", True, "", "", None, now))
    if plan.reason is not None and plan.reason.disruption:
        foreign = [c for c in foreign if c.type != _DISRUPTED]
        message = plan.reason.message
        foreign.append(_condition(_DISRUPTED, True, "TerminationByKubelet", message, old.get(_DISRUPTED), now))
    return [*own, *foreign]


def _gates_open(pod: Pod) -> bool:
    true: Mapping[str, bool] = {c.type: c.status == "True" for c in pod.status.conditions or ()}
    return all(true.get(gate.condition_type) for gate in pod.spec.readiness_gates or ())


def _condition(name: str, state: bool, reason: str, message: str, old: PodCondition | None, now: float) -> PodCondition:
    word = "True" if state else "False"
    same = old is not None and old.status == word
    return PodCondition(
        type=name,
        status=word,
        reason=reason or None,
        message=message or None,
        last_transition_time=old.last_transition_time if same and old else rfc3339(now),
    )
