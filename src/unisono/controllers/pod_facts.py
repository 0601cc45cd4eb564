"""What controllers ask about a pod, and what the policies of a ``batch/v1`` Job say about it (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Final

from unisono.api.conditions import find_condition, is_true
from unisono.api.core import ContainerStatus, Pod, PodCondition
from unisono.api.groups import batch_v1
from unisono.api.keys import POD_DELETION_COST
from unisono.api.pod_states import container_statuses, has_ended, is_disrupted
from unisono.api.times import time_or

PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"


def phase_of(pod: Pod) -> str:
    """The pod's phase; Pending before its first status."""
    return pod.status.phase or PENDING


def is_running(pod: Pod) -> bool:
    """Whether the pod runs, ready or not."""
    return pod.status.phase == RUNNING


def has_succeeded(pod: Pod) -> bool:
    """Whether all containers ended well."""
    return pod.status.phase == SUCCEEDED


def has_failed(pod: Pod) -> bool:
    """Whether the pod ended otherwise."""
    return pod.status.phase == FAILED


def is_deleting(pod: Pod) -> bool:
    """Whether the pod is being deleted."""
    return bool(pod.metadata.deletion_timestamp)


def is_active(pod: Pod) -> bool:
    """Neither ended nor being deleted."""
    return not has_ended(pod) and not is_deleting(pod)


def staying(pods: Iterable[Pod]) -> list[Pod]:
    """The pods that are not being deleted."""
    return [pod for pod in pods if not is_deleting(pod)]


def condition(pod: Pod, name: str) -> PodCondition | None:
    """The condition of that type."""
    return find_condition(pod.status.conditions, name)


def is_ready(pod: Pod) -> bool:
    """Whether the pod answers."""
    return is_true(pod.status.conditions, "Ready")


def ready_since(pod: Pod) -> float | None:
    """Since when the pod is ready, seconds since 1970; None when it is not."""
    ready = condition(pod, "Ready")
    return time_or(ready.last_transition_time) if ready is not None and ready.status == "True" else None


def available_at(pod: Pod, min_ready_seconds: int) -> float | None:
    """When the pod counts as available, seconds since 1970; None when it is not ready."""
    since = ready_since(pod)
    return None if since is None else since + min_ready_seconds


def is_available(pod: Pod, min_ready_seconds: int, now: float) -> bool:
    """Whether the pod has been ready for ``min_ready_seconds``."""
    due = available_at(pod, min_ready_seconds)
    return due is not None and (not min_ready_seconds or due <= now)


def next_available(pods: Iterable[Pod], min_ready_seconds: int, now: float) -> float | None:
    """Seconds until the next ready pod counts as available; None when there is none."""
    times = (available_at(pod, min_ready_seconds) for pod in pods) if min_ready_seconds else ()
    waits = [due - now for due in times if due is not None and due > now]
    return min(waits) if waits else None


def restarts(pod: Pod) -> int:
    """Restarts of all containers, init containers included."""
    return sum(each.restart_count or 0 for each in container_statuses(pod))


def has_started(pod: Pod) -> bool:
    """Whether any container of the pod has ever run."""
    return (
        is_running(pod)
        or has_succeeded(pod)
        or any(
            each.state.running is not None or each.state.terminated is not None or each.restart_count
            for each in container_statuses(pod)
        )
    )


def last_end(statuses: Iterable[ContainerStatus]) -> float:
    """When the last of these containers ended, seconds since 1970; 0 when none has."""
    ends = (each.state.terminated.finished_at for each in statuses if each.state.terminated is not None)
    return max((time_or(end) for end in ends if end), default=0.0)


def finished_at(pod: Pod) -> float:
    """When the last container of an ended pod ended, seconds since 1970; else when the pod stopped being ready."""
    end = last_end(container_statuses(pod))
    if end:
        return end
    ready = condition(pod, "Ready")
    times = (ready.last_transition_time if ready else None, pod.metadata.deletion_timestamp, created_text(pod))
    return next((time_or(each) for each in times if each), 0.0)


def created(pod: Pod) -> float:
    """When the pod was created, seconds since 1970."""
    return time_or(created_text(pod))


def created_text(pod: Pod) -> str | None:
    """When the pod was created, as it stands in the object."""
    return pod.metadata.creation_timestamp


_PHASE_ORDER = {PENDING: 0, "Unknown": 1, RUNNING: 2}


def cheapest_first(pods: Iterable[Pod], neighbours: Mapping[str, int] | None = None) -> list[Pod]:
    """Pods in the order in which a scale-down takes them, as Kubernetes orders them.

    Unbound before bound, pending before running, unready before ready, low before high deletion cost, those with many
    equal pods on their node first, the recently ready, often restarted and young ones before the others.

    Args:
        pods: active pods.
        neighbours: how many pods of the same workload stand on a node, by its name.
    """

    def key(pod: Pod) -> tuple[object, ...]:
        since = ready_since(pod)
        return (
            bool(pod.spec.node_name),
            _PHASE_ORDER.get(phase_of(pod), 1),
            since is not None,
            deletion_cost(pod),
            -(neighbours or {}).get(pod.spec.node_name or "", 0),
            -(since or 0.0),
            -restarts(pod),
            -created(pod),
            pod.metadata.name,
        )

    return sorted(pods, key=key)


def deletion_cost(pod: Pod) -> int:
    """The annotation of the same name; 0 where it is no number."""
    text = (pod.metadata.annotations or {}).get(POD_DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


# One pod as a decision about its job sees it; each kind of job adds where the pod belongs (pure).

UNKNOWN_EXIT_CODE: Final = 48879
"""Exit code of a container that ended without one, for instance by an eviction: it counts as worth another try."""


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod of a job."""

    pod: Pod

    @property
    def name(self) -> str:
        """Name of the pod."""
        return self.pod.metadata.name

    @property
    def phase(self) -> str:
        """Pending, Running, Succeeded, Failed or Unknown; Pending before the first status."""
        return phase_of(self.pod)

    @property
    def deleting(self) -> bool:
        """Whether the pod is being deleted."""
        return is_deleting(self.pod)

    @property
    def ended(self) -> bool:
        """Whether the pod succeeded or failed."""
        return has_ended(self.pod)

    @property
    def crashed(self) -> bool:
        """Whether the pod failed by itself: the end of one that is being deleted is no failure."""
        return has_failed(self.pod) and not self.deleting

    @property
    def disrupted(self) -> bool:
        """Whether the cluster took the pod's place away."""
        return is_disrupted(self.pod)

    @property
    def created(self) -> float:
        """Creation time, seconds since 1970; 0 when unknown."""
        return created(self.pod)

    @property
    def lasted(self) -> float:
        """Seconds from the pod's creation to its end."""
        return finished_at(self.pod) - self.created

    @property
    def restarts(self) -> int:
        """Restarts of its containers in place, init containers included."""
        return restarts(self.pod)

    @property
    def exit_codes(self) -> frozenset[int]:
        """Exit codes other than 0 of its containers."""
        return frozenset(
            status.state.terminated.exit_code
            for status in self.pod.status.container_statuses or ()
            if status.state.terminated and status.state.terminated.exit_code
        )

    def exit_code(self, container: str) -> int:
        """Exit code of the container, or of the first one where none has that name; else `UNKNOWN_EXIT_CODE`."""
        statuses = self.pod.status.container_statuses or []
        status = next((each for each in statuses if each.name == container), statuses[0] if statuses else None)
        ended = status.state.terminated if status is not None else None
        if ended is None:
            return UNKNOWN_EXIT_CODE
        return ended.exit_code or 0


COUNT = "Count"


def judge(policy: batch_v1.PodFailurePolicy | None, pod: Pod) -> tuple[str, str]:
    """What the first rule that fits says about a failed pod.

    Returns:
        the action, ``Count`` where no rule fits, and for FailJob the message of the Job's failure.
    """
    for number, rule in enumerate((policy.rules if policy is not None else None) or ()):
        cause = ""
        if rule.on_exit_codes is not None:
            cause = _exit_code(pod, rule.on_exit_codes)
        for pattern in rule.on_pod_conditions or ():
            have = condition(pod, pattern.type)
            if have is not None and have.status == (pattern.status or "True"):
                cause = f"Pod {pod.key} has condition {pattern.type}"
                break
        if cause:
            return rule.action, f"{cause} matching {rule.action} rule at index {number}"
    return COUNT, ""


def fulfilled_rule(policy: batch_v1.SuccessPolicy | None, completed: Set[int]) -> int | None:
    """Number of the first rule of the success policy that these completed indexes fulfil."""
    for number, rule in enumerate((policy.rules if policy is not None else None) or ()):
        done = len(completed)
        if rule.succeeded_indexes is not None:
            indexes = batch_v1.parse_indexes(rule.succeeded_indexes)
            done = sum(index in indexes for index in completed)
            needed = indexes.total if rule.succeeded_count is None else rule.succeeded_count
        else:
            needed = rule.succeeded_count or 0
        if done >= needed:
            return number
    return None


def _exit_code(pod: Pod, wanted: batch_v1.PodFailurePolicyOnExitCodesRequirement) -> str:
    for each in container_statuses(pod):
        if wanted.container_name is not None and each.name != wanted.container_name:
            continue
        code = each.state.terminated.exit_code if each.state.terminated is not None else None
        if code and (code in (wanted.values or ())) == (wanted.operator == "In"):
            return f"Container {each.name} for pod {pod.key} failed with exit code {code}"
    return ""
