"""What an object and its pods wait for, where no verdict says it: conditions, gates and suspension (pure)."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unisono.api.core import Pod
from unisono.api.messages import counted, plural
from unisono.api.pod_states import has_ended
from unisono.jobkinds.registry import job_kind_of

# Names under which pods are scheduled here; the last one is that of Kubernetes' own scheduler.
SERVED_NAMES = ("volcano", "unisono", "default-scheduler")
_UNSEEN = "no running scheduler has looked at it yet"
_GATED = "SchedulingGated"
# Gated pods that are named.
_NAMED_PODS = 3
# Fields that stop a whole object, from its spec down.
_SUSPENDED = (("suspend",), ("runPolicy", "suspend"), ("rayClusterSpec", "suspend"))


@dataclass(frozen=True, slots=True)
class Misnamed:
    """A name in an object that nothing has, and the one that was probably meant.

    Attributes:
        kind: of what is named, such as ``Queue`` or ``PodGroup``; ``schedulerName`` for schedulers.
        name: as it is written.
        near: what was probably meant; empty where nothing is near.
    """

    kind: str
    name: str
    near: str = ""


SCHEDULER = "schedulerName"


@dataclass(frozen=True, slots=True)
class UnboundPod:
    """A pod that has no node yet, what a scheduler says of it, and which name in it nothing has."""

    name: str
    reason: str = ""
    message: str = ""
    misnamed: Misnamed | None = None

    def __str__(self) -> str:
        """``pod/x has no node: 0/3 nodes are available``."""
        return f"pod/{self.name} has no node: {self.why}"

    @property
    def why(self) -> str:
        """What is said of it, alone."""
        return self.message or self.reason or unscheduled(None)

    def json(self) -> dict[str, str]:
        """For programs."""
        return {"name": self.name, "reason": self.reason, "message": self.message}


def unbound_pods(pods: Sequence[Pod]) -> list[UnboundPod]:
    """Pods that have no node and have not ended, with what their condition says."""
    unbound = []
    for pod in pods:
        if pod.spec.node_name or has_ended(pod) or pod.metadata.deletion_timestamp:
            continue
        conditions = pod.status.conditions or ()
        condition = next((each for each in conditions if each.type == "PodScheduled" and each.status != "True"), None)
        reason, message = (condition.reason or "", condition.message or "") if condition else ("", "")
        misnamed = None
        if pod.spec.scheduling_gates:
            names = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
            text = f"it has the scheduling gates {names}, which their owners take away"
            # Somebody may have said that it lacks more than that.
            reason, message = (_GATED, text) if reason in ("", _GATED) else (reason, f"{message}; {text}")
        elif condition is None:
            message, misnamed = unscheduled(pod.spec.scheduler_name), unserved(pod.spec.scheduler_name)
        unbound.append(UnboundPod(pod.metadata.name, reason, message, misnamed))
    return unbound


def unscheduled(scheduler: str | None) -> str:
    """Why no scheduler may have looked at a pod: its ``schedulerName``, or that none runs."""
    wrong = unserved(scheduler)
    if wrong is None:
        return f"{_UNSEEN} (schedulerName {scheduler or SERVED_NAMES[-1]})"
    return (
        f"no running scheduler serves its schedulerName {wrong.name}; "
        f"jobs and pods of Unisono say schedulerName: {wrong.near}"
    )


def unserved(scheduler: str | None) -> Misnamed | None:
    """A ``schedulerName`` under which nothing is scheduled here, and the one to write; None for those that are."""
    name = scheduler or SERVED_NAMES[-1]
    if name in SERVED_NAMES:
        return None
    near = difflib.get_close_matches(name, SERVED_NAMES, 1, cutoff=0.8) or SERVED_NAMES[:1]
    return Misnamed(SCHEDULER, name, near[0])


def is_unserved(pod: Pod) -> bool:
    """Whether a pod without a node names a scheduler that has looked at none of its like."""
    return (
        unserved(pod.spec.scheduler_name) is not None
        and not pod.spec.node_name
        and not any(each.type == "PodScheduled" for each in pod.status.conditions or ())
    )


def without_group(pod: UnboundPod) -> UnboundPod:
    """A pod that no scheduler has looked at although one is alive: no controller has made a PodGroup for it."""
    if not pod.message.startswith(_UNSEEN):
        return pod
    return UnboundPod(pod.name, "PodGroupMissing", "no controller has made its PodGroup yet; see whether they run")


def gates_text(pods: Sequence[Pod]) -> str:
    """``1 of 4 pods has the scheduling gate example.com/wait``; empty where none has a gate."""
    gated = [pod for pod in pods if pod.spec.scheduling_gates and not pod.spec.node_name]
    if not gated:
        return ""
    names = sorted({gate.name for pod in gated for gate in pod.spec.scheduling_gates or ()})
    verb, noun = ("has" if len(gated) == 1 else "have"), plural(len(names), "gate")
    total = counted(len(pods), "pod")
    which = f" ({', '.join(pod.metadata.name for pod in gated)})" if len(gated) <= _NAMED_PODS else ""
    return f"{len(gated)} of {total}{which} {verb} the scheduling {noun} {', '.join(names)}"


def pods_text(pods: Sequence[Pod]) -> str:
    """``it has 3 pods: 2 running, 1 pending``."""
    if not pods:
        return "it has no pods"
    counts = Counter((pod.status.phase or "Pending").lower() for pod in pods)
    total = counted(len(pods), "pod")
    return f"it has {total}: " + ", ".join(f"{number} {phase}" for phase, number in counts.most_common())


def suspended_by(item: Mapping[str, Any]) -> str:
    """Path of the field by which the object is suspended; empty when it is not."""
    kind = job_kind_of(item)
    if kind is not None and kind.is_suspended(item):
        return kind.flag
    for path in _SUSPENDED:
        value: Any = item.get("spec") or {}
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if value is True:
            return ".".join(("spec", *path))
    return ""
