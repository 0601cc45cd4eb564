"""Texts of refusals that name other objects: Volcano's and Kubernetes' words, in one place for all who use them."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Numbers of things in sentences.


def counted(number: int, word: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{number} {plural(number, word)}"


def plural(number: int, word: str) -> str:
    """The word as it stands behind the number."""
    return word if number == 1 else f"{word}s"


UPDATE_SCOPE = (
    "job updates may not change fields other than "
    "`minAvailable`, `tasks[*].replicas under spec` and `PriorityClassName`"
)
MEMBER_NOT_LOOKED_AT = "the hub has not looked at it: does 'unisono up --fleet' run?"
BUDGET_NUMBER = "it must be a positive integer"
BUDGET_SHARE = "it must be a valid percentage which between 1% ~ 99%"
TOPOLOGY_EXCLUSIVE = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"

MISSING_QUEUE = re.compile(r'queue\.scheduling\.volcano\.sh "([^"]+)" not found')
"""Finds the queue in the texts of `queue_not_found` and `pod_group_queue_not_found`."""
_CLOSED_QUEUE = re.compile(r"with state `Open`, queue `([^`]+)` status is")


def queue_not_found(queue: str) -> str:
    """A job names a queue that does not exist."""
    return f'unable to find job queue: queue.scheduling.volcano.sh "{queue}" not found'


def queue_not_open(queue: str, state: str, *, what: str = "job") -> str:
    """A job or PodGroup goes to a queue that is closed or closing."""
    return f"can only submit {what} to queue with state `Open`, queue `{queue}` status is `{state}`"


def closed_queue_in(text: str) -> str:
    """The queue that `queue_not_open` names somewhere in a text, ``""`` where it is not there."""
    match = _CLOSED_QUEUE.search(text)
    return match[1] if match is not None else ""


def queue_is_root() -> str:
    """A job goes to the root queue."""
    return "can not submit job to root queue"


def queue_has_children(queue: str, children: int) -> str:
    """A job goes to a queue that has queues below it."""
    return f"can only submit job to leaf queue, queue `{queue}` has {children} child queues"


def pod_group_queue_not_found(queue: str) -> str:
    """A PodGroup names a queue that does not exist."""
    return f'unable to find queue: queue.scheduling.volcano.sh "{queue}" not found'


def priority_class_not_found(name: str) -> str:
    """A pod names a PriorityClass that does not exist."""
    return f"no PriorityClass with name {name} was found"


def volume_claim_not_found(name: str) -> str:
    """A pod mounts a claim that does not exist: kube-scheduler's words."""
    return f'persistentvolumeclaim "{name}" not found'


def resource_claim_not_found(name: str) -> str:
    """A pod names a claim of devices that does not exist: kube-scheduler's words."""
    return f'resourceclaim "{name}" not found'


def protected_queue(queue: str) -> str:
    """``default`` and ``root`` stay."""
    return f"`{queue}` queue can not be deleted"


def queue_has_child_queues(queue: str, children: Iterable[str]) -> str:
    """A queue with queues below it stays."""
    names = sorted(children)
    return f"queue {queue} can not be deleted because it has {len(names)} child queues: {', '.join(names)}"


def queue_has_pods(queue: str, pods: int) -> str:
    """A queue with running pods stays, where the server is told so."""
    return f"queue {queue} cannot be deleted because it has allocated Pods: {pods}"


def several_budgets(annotations: Iterable[str]) -> str:
    """A pod that names two budgets of disruptions."""
    return f"not allow configure multiple annotations <[{' '.join(annotations)}]> at same time"


def same_group(name: str = "") -> str:
    """A pod that has a node cannot leave its PodGroup."""
    return f"a pod that has a node stays in its PodGroup{name and f' {name}'}: delete the pod and make another one"
