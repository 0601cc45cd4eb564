"""defragment: moves running pods together for a gang that waits although the cluster has enough room for it.

A plan is carried out only when, on a copy of the cluster, the gang starts and every moved pod finds another place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unisono.api.times import parse_duration
from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import Purpose
from unisono.engine.config.arguments import argument_value
from unisono.engine.config.names import ACTION_ARGUMENTS
from unisono.engine.cycle.context import Cycle
from unisono.engine.decisions import DefragmentationPlan, PodMove
from unisono.engine.defragmentation.choice import Choice
from unisono.engine.defragmentation.movable import Limits, Movable, MovablePods
from unisono.engine.defragmentation.rehearsal import free_nodes, rehearse
from unisono.engine.eviction.search import evictions_of
from unisono.engine.eviction.starving_jobs import starving_jobs
from unisono.engine.eviction.whole_gangs import GangRule, domains_to_try, sum_of, wanted_tasks
from unisono.engine.placement.domain_search import search_of
from unisono.engine.placement.sub_group_solver import RemainingByGroup, Solver
from unisono.engine.session.job_state import JobState

_NAME = "defragment"


@dataclass(slots=True)
class _LastPlan:
    """When pods were last moved, seconds since the epoch; None: never."""

    at: float | None = None


def run(cycle: Cycle) -> None:
    """Queue by queue, the first of the starving jobs first, until so many gangs have been helped."""
    given = cycle.config.arguments_of(_NAME)
    values = {argument.key: argument_value(argument, given) for argument in ACTION_ARGUMENTS[_NAME]}
    limits = Limits(
        values["maxMoves"],
        parse_duration(str(values["minRunTime"])),
        parse_duration(str(values["maxLostTime"])),
        values["maxDomains"],
    )
    now, last = cycle.session.now, cycle.session.snapshot.memo.of(_LastPlan, _LastPlan)
    if last.at is not None and 0 <= now - last.at < parse_duration(str(values["interval"])):
        return
    by_queue, helped = starving_jobs(cycle), 0
    queues = cycle.orders.queues(cycle.session.queues[name] for name in by_queue)
    while len(queues) and helped < values["maxGangs"]:
        jobs = cycle.orders.jobs(by_queue[queues.pop().name])
        while len(jobs) and helped < values["maxGangs"]:
            plan = serve(cycle, jobs.pop(), limits)
            if plan is not None:
                cycle.decisions.plans.append(plan)
                last.at = now
                helped += 1


def serve(cycle: Cycle, job: JobState, limits: Limits) -> DefragmentationPlan | None:
    """Find moves for one gang and commit them; None, and nothing changed, when there are none that let it start."""
    tasks = wanted_tasks(cycle, job)
    if not tasks or any(task.never_preempts for task in tasks) or not _room_in_all(cycle, job, tasks):
        return None
    pods = MovablePods(cycle, job, tasks, limits)
    if not pods.on:
        return None
    cycle.session.subject = job
    rule = GangRule(Purpose.DEFRAGMENT, limits.domains, whole=False)
    for domain in domains_to_try(cycle, job, rule, tasks):
        columns = search_of(cycle).tree.columns[domain].tolist()
        chosen = Choice(pods, columns, limits.moves).make_room(_needed(cycle, job, tasks))
        if not chosen or not pods.within_budgets([each.task for each in chosen]):
            continue
        plan = _carry_out(cycle, job, tasks, domain, chosen)
        if plan is not None:
            return plan
    return None


def _needed(cycle: Cycle, job: JobState, tasks: list[Task]) -> list[Task]:
    """Those that the gang needs to start; all of them where roles or sub-groups have minimums of their own."""
    if job.roles_apply or job.record.sub_groups:
        return tasks
    return tasks[: max(cycle.hooks.missing(job), 1)]


def _room_in_all(cycle: Cycle, job: JobState, tasks: list[Task]) -> bool:
    """Whether the cluster has what the gang needs at all: moves free nothing, they only bring it together."""
    nodes = cycle.session.nodes
    later = nodes.allocatable - nodes.used + nodes.releasing - nodes.pipelined
    return bool((later.clip(min=0).sum(axis=1) >= sum_of(cycle, _needed(cycle, job, tasks))).all())


def _carry_out(
    cycle: Cycle, job: JobState, tasks: list[Task], domain: int, chosen: list[Movable]
) -> DefragmentationPlan | None:
    evictions, transaction = evictions_of(cycle), cycle.transaction
    before, mark = free_nodes(cycle), transaction.checkpoint()
    for each in chosen:
        if not evictions.allowed(each.task):
            evictions.rollback(mark)
            return None
        evictions.evict(each.task, each.column, Purpose.DEFRAGMENT.value)
    solver = Solver(cycle, job, RemainingByGroup.of(cycle, job, tasks), promise=True)
    places = solver.mark()
    worked = solver.solve_in(domain) and cycle.hooks.vote("pipelined", job) is None
    for group, place in places[1]:
        group.restore(place)
    names = cycle.session.snapshot.nodes.names
    promised = {
        task.key: names[column]
        for placement in transaction.log[mark:]
        if placement.status is TaskStatus.PIPELINED
        for task, column in zip(placement.tasks, placement.columns, strict=True)
    }
    tried = rehearse(cycle, job, [each.task for each in chosen], promised) if worked else None
    if tried is None:
        evictions.rollback(mark)
        return None
    cycle.commit(mark, job)
    placed, free = tried
    registry, gained = cycle.session.registry, sum_of(cycle, [task for task in tasks if task.key in promised])
    now = cycle.session.now
    moves = tuple(
        PodMove(
            each.task.key,
            each.task.job,
            each.task.node,
            placed[each.task.key],
            max(now - (each.task.since or each.task.created), 0.0),
            each.lost_seconds,
        )
        for each in sorted(chosen, key=lambda one: one.task.key)
    )
    return DefragmentationPlan(
        job.key,
        job.queue.name,
        moves,
        promised,
        sum(each.lost_seconds for each in chosen),
        {registry.names[row]: int(gained[row]) for row in np.flatnonzero(gained).tolist()},
        (before, free),
    )
