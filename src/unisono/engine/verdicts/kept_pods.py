"""Why none of those who hold a resource makes room for a job that waits: the first reason that applies."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from unisono.api.annotations import EVICTABLE
from unisono.api.queues import NONE
from unisono.api.resources import amounts_text
from unisono.api.selecting import selects
from unisono.cluster.records import Task
from unisono.cluster.status import PREEMPTABLE_STATES
from unisono.engine.answers import BoolArray, Purpose
from unisono.engine.contract.plugin import VICTIM_FLAGS
from unisono.engine.cycle.context import Cycle
from unisono.engine.session.job_state import JobState
from unisono.engine.session.protected_cores import Cores
from unisono.engine.verdict import reference
from unisono.engine.verdicts.holders import holder_of, named

_MOST_ASKED = 64
"""Pods of one holder of which the plug-ins are asked."""


def not_evicted(cycle: Cycle, job: JobState, holders: list[JobState], name: str) -> str:
    """One clause; empty where nothing certain is known.

    Args:
        cycle: at its end.
        job: waits.
        holders: jobs that hold the resource ``name``, those first that hold most.
        name: of the resource.
    """
    reasons = [_kept(cycle, job, other, name) for other in holders]
    if reasons and all(reason == reasons[0] for reason in reasons):
        return reasons[0]
    return next(filter(None, reasons), "")


def _kept(cycle: Cycle, job: JobState, other: JobState, name: str) -> str:
    same = other.queue.name == job.queue.name
    plain, gang = (Purpose.PREEMPT, Purpose.GANG_PREEMPT) if same else (Purpose.RECLAIM, Purpose.GANG_RECLAIM)
    purpose = gang if gang.value in cycle.config.actions else plain
    reasons = (_of_priorities(job, other),) if same else ()
    reasons = (*reasons, _of_configuration(cycle, job, purpose), *(() if same else (_of_queues(cycle, other, name),)))
    reason = next(filter(None, chain(*reasons, _of_pods(cycle, job, other, name, purpose))), "")
    word = "preemption" if same else "reclaim"
    return reason if not reason or reason.startswith("no ") else f"no {word}: {reason}"


def _of_priorities(job: JobState, other: JobState) -> Iterator[str]:
    if other.priority == job.priority:
        yield "no preemption among equal priorities"
    elif other.priority > job.priority:
        yield f"the holder has a higher priority ({other.priority}, not {job.priority})"


def _of_configuration(cycle: Cycle, job: JobState, purpose: Purpose) -> Iterator[str]:
    if purpose.value not in cycle.config.actions:
        word = "preempt" if purpose in (Purpose.PREEMPT, Purpose.GANG_PREEMPT) else "reclaim"
        yield f"the action {word} is not configured"
    pods = job.record.pending.values()
    if pods and all(task.never_preempts for task in pods):
        yield "its own pods have preemptionPolicy: Never"


def _of_queues(cycle: Cycle, other: JobState, name: str) -> Iterator[str]:
    """By the shares that are in force, which may be less than what the queue states."""
    queue, session = other.queue, cycle.session
    if not queue.record.reclaimable:
        yield f"queue {queue.name} is not reclaimable"
    row, shares = session.registry.find(name), session.book.shares
    figures = shares.metrics_of(queue) if shares.metrics_of is not None else None
    if row is not None and figures is not None and 0 < int(queue.allocated[row]) <= figures.deserved[row]:
        amount = amounts_text({name: figures.deserved[row]})
        yield f"queue {queue.name} is within its deserved share of {amount} (plug-in {shares.plugin})"


def _of_pods(cycle: Cycle, job: JobState, other: JobState, name: str, purpose: Purpose) -> Iterator[str]:
    """What keeps the pods of the holder themselves."""
    who, record = named(holder_of(other.record)), job.record
    pods = list(
        islice((one for one in other.record.tasks.values() if other.status(one) in PREEMPTABLE_STATES), _MOST_ASKED)
    )
    if pods and not any(task.preemptable for task in pods):
        yield f"{who} is marked volcano.sh/preemptable: false"
    cores = Cores(cycle.session)
    kept = cores.kept(pods) if pods else None
    if kept is not None and kept.all():
        level, queue = cores.level_of(other)
        which = "none of its pods" if level == NONE else f"no pods that its gang needs ({other.min_member})"
        lets = f"queue {queue} lets {who} lose" if queue else f"{who} lets go"
        yield f"{lets} {which} (annotation {EVICTABLE})"
    flag, waiting = VICTIM_FLAGS[purpose], next(iter(record.pending.values()), None)
    for plugin, answer in (each for tier in cycle.hooks.by_tier["victims"] for each in tier) if pods else ():
        if not flag or getattr(plugin.config.flags, flag):
            given: BoolArray | None = answer(job, waiting, pods, purpose)
            if given is not None and not given.any():
                reason = _of_plugin(cycle, other, who, pods[0], plugin.name)
                yield f"{reason} (plug-in {plugin.name})" if reason else ""
                break
    if cycle.session.snapshot.setbacks.get(job.key) is not None:
        yield "its binds were refused lately"
    spared: str | None = cycle.hooks.first("spared", _enough(cycle, job, pods, name))
    yield spared or ""


def _of_plugin(cycle: Cycle, other: JobState, who: str, task: Task, plugin: str) -> str:
    if plugin == "pdb":
        budgets = cycle.session.snapshot.budgets.get(other.namespace, {}).values()
        blocking = (one.key for one in budgets if not one.allowed and selects(one.selector, task.labels))
        return next(
            (f"{reference(key, 'PodDisruptionBudget')} allows no disruption of its pods" for key in blocking), ""
        )
    share = f"queue {other.queue.name} holds no more than its share"
    words = {
        "gang": f"{who} has no pods beyond its minimum, {other.min_member}",
        "conformance": f"pods of {who} are critical for the system",
        "cdp": f"pods of {who} have started within their cooldown time",
        "proportion": share,
        "capacity": share,
        "eviction-guard": "",  # it says more than yes and no
    }
    return words.get(plugin, f"the pods of {who} are kept")


def _enough(cycle: Cycle, job: JobState, pods: list[Task], name: str) -> list[Task]:
    """As many pods as hold what the job that waits lacks of the resource, at least one."""
    session, record, chosen = cycle.session, job.record, list[Task]()
    asked = sum(task.pod_class.requests.get(name, 0) for task in record.pending.values())
    lacking = asked or (record.min_amounts or {}).get(name, 0)
    lacking -= int(session.nodes.idle[session.registry.requested(name)].clip(min=0).sum())
    for task in pods:
        if chosen and lacking <= 0:
            break
        chosen.append(task)
        lacking -= task.pod_class.requests.get(name, 0)
    return chosen
