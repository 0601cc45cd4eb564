"""What each queue deserves of the cluster, by weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unisono.cluster.resources import PODS
from unisono.cluster.status import TaskStatus
from unisono.engine.plugins.proportion.families import deserved_in_families, limits_in_families
from unisono.engine.plugins.proportion.waterfill import Share, fill, fill_above
from unisono.engine.session.amounts import UNLIMITED, Amounts, by_row, exceeded, listed

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState, QueueState
    from unisono.engine.session.session import Session

_LEAVING_SECONDS = 3600.0
"""Evictions that are looked back at; a pod that takes longer to leave counts as gone."""


@dataclass(frozen=True, slots=True)
class Division:
    """Amounts by queue name, for queues that have jobs.

    Attributes:
        real_capability: what is left of the cluster beside the guarantees of others, at most the queue's capability.
        admission: the same for jobs whose pods are not made yet, of which nobody knows what taints they will tolerate.
        deserved: its share by water filling: at most what it asks for and its real capability, at least its guarantee.
            Queues below one with a capability deserve no more than that together.

    """

    real_capability: dict[str, Amounts]
    admission: dict[str, Amounts]
    deserved: dict[str, Amounts]


def divide(session: Session, *, deserved: bool = False) -> Division:
    """Divide the usable cluster among the session's queues.

    Args:
        session: at its opening.
        deserved: queues get what they state as ``deserved``, as far as they ask for it, before weights count.

    """
    registry = session.registry
    total, promisable = listed(session.sharable_total, registry), listed(session.promisable_total, registry)
    guarantees = {name: by_row(queue.record.guarantee, registry) for name, queue in session.queues.items()}
    promised = [sum(row) for row in zip(*guarantees.values(), strict=True)] or [0] * len(total)
    queues = [queue for queue in session.queues.values() if queue.job_count]
    capability: dict[str, Amounts] = {}
    admission: dict[str, Amounts] = {}
    for queue in queues:
        limits = by_row(queue.record.capability, registry, UNLIMITED)
        for all_of_it, found in ((total, capability), (promisable, admission)):
            rows = zip(all_of_it, promised, guarantees[queue.name], limits, strict=True)
            found[queue.name] = [min(max(whole - others, 0) + own, limit) for whole, others, own, limit in rows]
    requests = requests_of(session, promisable, admission)
    reach = limits_in_families(session, requests, capability, guarantees)
    floors = deserved_in_families(session, requests, reach, guarantees) if deserved else {}
    return Division(capability, admission, _water_fill(total, queues, requests, reach, guarantees, floors))


def requests_of(session: Session, promisable: Amounts, admission: Mapping[str, Amounts]) -> dict[str, Amounts]:
    """By name what queues hold and ask for, also for pods that are still to be made, or to be made again.

    Args:
        session: at its opening.
        promisable: what there is at most.
        admission: what each queue may be promised; queues that are not named are left out.

    """
    requests = {name: listed(session.queues[name].record.request, session.registry) for name in admission}
    for job, number in _unborn(session):
        if job.queue.name in requests:
            _add_unborn(job, number, requests[job.queue.name], [promisable, admission[job.queue.name]])
    _add_returning(session, requests)
    return requests


def _water_fill(
    total: Amounts,
    queues: list[QueueState],
    requests: dict[str, Amounts],
    capability: dict[str, Amounts],
    guarantees: dict[str, Amounts],
    floors: Mapping[str, Amounts],
) -> dict[str, Amounts]:
    deserved: dict[str, Amounts] = {queue.name: [] for queue in queues}
    for row, amount in enumerate(total):
        shares = [
            Share(queue.record.weight, requests[name][row], capability[name][row], guarantees[name][row])
            for queue in queues
            for name in (queue.name,)
        ]
        parts = fill_above(amount, shares, [floors[queue.name][row] for queue in queues]) if floors else None
        for queue, part in zip(queues, parts or fill(amount, shares), strict=True):
            deserved[queue.name].append(part)
    return deserved


def _add_returning(session: Session, requests: dict[str, Amounts]) -> None:
    """Add what evicted pods hold that are still leaving: their jobs make them again, and ask for as much.

    Without it the share of the victim's queue is smaller while its pods leave than when they are back, and what others
    were promised meanwhile is refused to them then: the eviction would be for nothing.
    """
    tasks = session.snapshot.tasks
    for eviction in session.snapshot.evictions.since(session.now - _LEAVING_SECONDS):
        task, job = tasks.get(eviction.pod), session.job(eviction.job)
        if task is None or job is None or task.uid != eviction.uid or task.status is not TaskStatus.RELEASING:
            continue
        request = requests.get(job.queue.name)
        if request is not None:
            for row, amount in enumerate(task.pod_class.vector.tolist()):
                request[row] += amount


def _unborn(session: Session) -> Iterable[tuple[JobState, int]]:
    """Jobs of which pods are still to be created: one of each shape with how many there are of it."""
    waiting, active = session.snapshot.waiting, session.snapshot.active
    keys = active if waiting is None else waiting.but_shapes(lambda key: not _is_unborn(session.job(key)))
    found: dict[int | str, tuple[JobState, int]] = {}
    for key in keys:
        job = session.job(key)
        if job is not None and _is_unborn(job):
            like = job.shape or key
            first, number = found.get(like, (job, 0))
            found[like] = first, number + 1
    return found.values()


def _is_unborn(job: JobState | None) -> bool:
    """Whether pods of a waiting PodGroup are still to be created."""
    if job is None or len(job.record.tasks) >= job.min_member or job.min_resources is None:
        return False
    return job.queue.open and job.phase in ("Pending", "Inqueue")


def _add_unborn(job: JobState, number: int, request: Amounts, limits: list[Amounts]) -> None:
    """Add to its queue's ``request`` what PodGroups like this one will ask for whose pods come after its admission.

    Without it a queue of waiting jobs seems to want nothing, and the others take its share. A job that could not be
    admitted even into an empty cluster asks for nothing.
    """
    wanted = job.min_resources.tolist() if job.min_resources is not None else []
    present = job.record.request.tolist()
    wanted += [0] * (len(request) - len(wanted))
    present += [0] * (len(request) - len(present))
    if any(exceeded([0] * len(request), wanted, limit) for limit in limits):
        return
    for row, (amount, held) in enumerate(zip(wanted, present, strict=True)):
        each = job.min_member - len(job.record.tasks) if row == PODS else max(amount - held, 0)
        request[row] += number * each
