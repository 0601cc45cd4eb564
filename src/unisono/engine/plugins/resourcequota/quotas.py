"""ResourceQuotas as far as PodGroups tell: which count a job's pods, what it asks of them, and what is taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from unisono.cluster.limits import Quota
from unisono.cluster.resources import UNLISTED, ResourceRegistry
from unisono.cluster.status import ALLOCATED_STATES, COMPLETED_STATES, TaskStatus

if TYPE_CHECKING:
    from unisono.cluster.records import Job
    from unisono.engine.session.session import Session

_COUNTS = ("pods", "count/pods")
_PREFIX = "requests."


def concerns(quota: Quota, job: Job) -> bool:
    """Whether a quota's scopes take the job's pods in, as far as the PodGroup tells.

    Whether pods terminate by themselves is not known before they are made: such quotas are left to the API server.
    """
    for scope in quota.scopes:
        if scope == "PriorityClass":
            if quota.priority_classes is not None and job.priority_class not in quota.priority_classes:
                return False
        elif scope != "NotBestEffort":
            return False
    return True


def plain(name: str) -> str:
    """``requests.cpu`` and ``cpu`` mean the same, ``count/pods`` and ``pods`` too."""
    return "pods" if name in _COUNTS else name.removeprefix(_PREFIX)


def amount_of(amounts: Mapping[str, int], name: str) -> int:
    """An amount by either of its names, in the unit of ``name``."""
    short = plain(name)
    if short == "pods":
        whole = amounts.get("pods")
        count = amounts.get("count/pods", 0) // 1000 if whole is None else whole
        return count * 1000 if name == "count/pods" else count
    return amounts.get(short, amounts.get(_PREFIX + short, 0))


def asked(job: Job, name: str) -> int:
    """What the gang asks for; its minimum of pods where minResources do not count them."""
    amounts = job.min_quoted or {}
    if plain(name) == "pods" and not any(count in amounts for count in _COUNTS):
        return job.min_member * (1000 if name == "count/pods" else 1)
    return amount_of(amounts, name)


def present(job: Job, registry: ResourceRegistry) -> Counter[str]:
    """What the pods of a job that exist already hold of its namespace's quotas; limits are not known."""
    request = job.request
    held = Counter({registry.names[row]: int(amount) for row, amount in enumerate(request) if amount})
    if held.pop(UNLISTED, 0):  # resources without a row of their own; quotas may name them all the same
        for task in job.tasks.values():
            if task.status is TaskStatus.PENDING or task.status in ALLOCATED_STATES:
                for name, amount in task.pod_class.requests.items():
                    held[name] += amount if registry.find(name) is None else 0
    return held


def counted(session: Session) -> dict[str, Counter[str]]:
    """What the pods of each namespace with quotas hold, for where no quota controller counts it; without limits."""
    quotas = session.snapshot.quotas
    used: dict[str, Counter[str]] = {namespace: Counter() for namespace in quotas}
    stands = {key for promise in session.snapshot.promises.values() for key in promise.stands}
    for key, task in session.snapshot.tasks.items():
        if task.namespace in quotas and task.status not in COMPLETED_STATES and key not in stands:
            held = used[task.namespace]
            held["pods"] += 1
            for name, amount in task.pod_class.requests.items():
                held[name] += amount
    return used
