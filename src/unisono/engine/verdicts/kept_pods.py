"""Why none of those who hold a resource makes room for a job that waits: the first reason that applies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from unisono.api.annotations import EVICTABLE
from unisono.api.queues import NONE
from unisono.api.selecting import selects
from unisono.cluster.records import Task
from unisono.cluster.status import PREEMPTABLE_STATES
from unisono.engine.answers import BoolArray, Purpose
from unisono.engine.changes import amounts_text
from unisono.engine.contract.plugin import VICTIM_FLAGS
from unisono.engine.cycle.context import Cycle
from unisono.engine.session.job_state import JobState
from unisono.engine.session.protected_cores import Cores
from unisono.engine.verdict import reference
from unisono.engine.verdicts.holders import holder_of, named

_MOST_ASKED = 64
"""Pods of one holder of which the plug-ins are asked."""


@dataclass(frozen=True, slots=True)
class _Case:
    """A job that waits, and one that holds what it needs.

    Attributes:
        cycle: at its end.
        job: waits.
        other: holds the resource ``name``.
        name: of the resource.
        purpose: of evicting pods of ``other``.

    """

    cycle: Cycle
    job: JobState
    other: JobState
    name: str
    purpose: Purpose

    @property
    def who(self) -> str:
        """The holder, as its owner knows it."""
        return named(holder_of(self.other.record))

    @property
    def tasks(self) -> list[Task]:
        """Its pods that run, at most some of them."""
        running = (task for task in self.other.record.tasks.values() if self.other.status(task) in PREEMPTABLE_STATES)
        return [task for task, _ in zip(running, range(_MOST_ASKED), strict=False)]


_Reason = Callable[[_Case], str]


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
    actions = frozenset(cycle.config.actions)
    same = other.queue.name == job.queue.name
    plain, gang = (Purpose.PREEMPT, Purpose.GANG_PREEMPT) if same else (Purpose.RECLAIM, Purpose.GANG_RECLAIM)
    purpose = gang if gang.value in actions else plain
    case = _Case(cycle, job, other, name, purpose)
    for reason in _PREEMPTING if same else _RECLAIMING:
        if found := reason(case):
            return found if found.startswith("no ") else f"no {'preemption' if same else 'reclaim'}: {found}"
    return ""


def _priority(case: _Case) -> str:
    own, other = case.job.priority, case.other.priority
    if own == other:
        return "no preemption among equal priorities"
    return f"the holder has a higher priority ({other}, not {own})" if other > own else ""


def _never(case: _Case) -> str:
    pods = case.job.record.pending.values()
    return "its own pods have preemptionPolicy: Never" if pods and all(task.never_preempts for task in pods) else ""


def _borrowed(case: _Case) -> str:
    queue = case.other.queue
    return "" if queue.record.reclaimable else f"queue {queue.name} is not reclaimable"


def _action(case: _Case) -> str:
    name = "preempt" if case.purpose in (Purpose.PREEMPT, Purpose.GANG_PREEMPT) else "reclaim"
    return "" if case.purpose.value in case.cycle.config.actions else f"the action {name} is not configured"


def _deserved(case: _Case) -> str:
    """By the shares that are in force, which may be less than what the queue states."""
    queue, session = case.other.queue, case.cycle.session
    row, shares = session.registry.find(case.name), session.book.shares
    figures = shares.metrics_of(queue) if shares.metrics_of is not None else None
    if row is None or figures is None or not 0 < int(queue.allocated[row]) <= figures.deserved[row]:
        return ""
    amount = amounts_text({case.name: figures.deserved[row]})
    return f"queue {queue.name} is within its deserved share of {amount} (plug-in {shares.plugin})"


def _marked(case: _Case) -> str:
    pods = case.tasks
    if not pods or any(task.preemptable for task in pods):
        return ""
    return f"{case.who} is marked volcano.sh/preemptable: false"


def _core(case: _Case) -> str:
    """That the holder, or its queue, lets none of its pods go, or none that its gang needs."""
    cores = Cores(case.cycle.session)
    kept = cores.kept(case.tasks) if case.tasks else None
    if kept is None or not kept.all():
        return ""
    level, queue = cores.level_of(case.other)
    which = "none of its pods" if level == NONE else f"no pods that its gang needs ({case.other.min_member})"
    lets = f"queue {queue} lets {case.who} lose" if queue else f"{case.who} lets go"
    return f"{lets} {which} (annotation {EVICTABLE})"


def _plugins(case: _Case) -> str:
    """The first plug-in that gives up none of its pods."""
    pods, waiting = case.tasks, next(iter(case.job.record.pending.values()), None)
    for plugin, answer in _asked(case) if pods else ():
        given: BoolArray | None = answer(case.job, waiting, pods, case.purpose)
        if given is not None and not given.any():
            reason = _of_plugin(case, plugin)
            return f"{reason} (plug-in {plugin})" if reason else ""
    return ""


def _asked(case: _Case) -> Iterator[tuple[str, Callable[..., Any]]]:
    flag = VICTIM_FLAGS[case.purpose]
    for tier in case.cycle.hooks.by_tier["victims"]:
        for plugin, answer in tier:
            if not flag or getattr(plugin.config.flags, flag):
                yield plugin.name, answer


def _of_plugin(case: _Case, plugin: str) -> str:
    other, queue = case.other, case.other.queue.name
    match plugin:
        case "gang":
            return f"{case.who} has no pods beyond its minimum, {other.min_member}"
        case "conformance":
            return f"pods of {case.who} are critical for the system"
        case "pdb":
            return _budget(case)
        case "cdp":
            return f"pods of {case.who} have started within their cooldown time"
        case "proportion" | "capacity":
            return f"queue {queue} holds no more than its share"
        case "eviction-guard":
            return ""  # it says more than yes and no
    return f"the pods of {case.who} are kept"


def _budget(case: _Case) -> str:
    task = case.tasks[0]
    for budget in case.cycle.session.snapshot.budgets.get(case.other.namespace, {}).values():
        if not budget.allowed and selects(budget.selector, task.labels):
            return f"{reference(budget.key, 'PodDisruptionBudget')} allows no disruption of its pods"
    return ""


def _spared(case: _Case) -> str:
    setback = case.cycle.session.snapshot.setbacks.get(case.job.key)
    if setback is not None:
        return "its binds were refused lately"
    found: str | None = case.cycle.hooks.first("spared", _enough(case))
    return found or ""


def _enough(case: _Case) -> list[Task]:
    """As many of its pods as hold what the job that waits lacks of the resource, at least one."""
    session, record = case.cycle.session, case.job.record
    row, chosen = session.registry.requested(case.name), list[Task]()
    asked = sum(task.pod_class.requests.get(case.name, 0) for task in record.pending.values())
    lacking = asked or (record.min_amounts or {}).get(case.name, 0)
    lacking -= int(session.nodes.idle[row].clip(min=0).sum())
    for task in case.tasks:
        if chosen and lacking <= 0:
            break
        chosen.append(task)
        lacking -= task.pod_class.requests.get(case.name, 0)
    return chosen


_PREEMPTING: tuple[_Reason, ...] = (_priority, _never, _action, _marked, _core, _plugins, _spared)
_RECLAIMING: tuple[_Reason, ...] = (_action, _borrowed, _never, _deserved, _marked, _core, _plugins, _spared)
