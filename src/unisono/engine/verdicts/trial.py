"""Would a job start if something were different? The next cycle is run on a copy of the cluster to find out.

The copy has everything that this cycle has decided, so the answer is that of the next cycle: with all other jobs that
wait and that may take the room first, and with every plug-in that is configured. Nothing is said that was not tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from typing import ClassVar, Literal, NamedTuple

from msgspec import structs

from unisono.api.annotations import NODE_CHECKS
from unisono.api.core import ResourceClaim
from unisono.api.node_checks import book_of, checked, marks_text
from unisono.api.selecting import ROOT
from unisono.cluster.records import Job, Queue, Task
from unisono.cluster.snapshot import Snapshot
from unisono.cluster.status import TaskStatus
from unisono.engine.actions import run_actions
from unisono.engine.changes import (
    AddNodes,
    AllowReclaim,
    AllowTier,
    Change,
    CreatePods,
    LowerMinAvailable,
    RaiseCapability,
    RaiseDeserved,
    RaiseQueuePriority,
    RaiseWeight,
    RequestAtMost,
    Together,
    UseLabel,
    UsePriority,
    UseQueue,
    parts_of,
)
from unisono.engine.closing.status_updates import next_phase
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugin_host.stopwatch import Stopwatch
from unisono.engine.plugins.admission_limits import counted
from unisono.engine.session.book import wait_out
from unisono.engine.session.job_state import JobState
from unisono.engine.verdicts.draft import Draft
from unisono.engine.verdicts.edit import Edit, Move
from unisono.engine.verdicts.effects import (
    FIRST,
    LAST,
    MOST_ADDED,
    add_nodes,
    apply,
    apply_to_pods,
    is_below,
    submit_again,
)
from unisono.engine.verdicts.lines import turn
from unisono.engine.verdicts.order import first_cause
from unisono.engine.verdicts.unmade_pods import add_unmade_pods, drop_refused_pods, unmade_pods
from unisono.engine.verdicts.waiting import Tools, Waiting
from unisono.errors import EngineError

COST_LIMIT = 24_000
"""What all trials of a cycle may cost together, in nodes and waiting pods looked at (about 1 µs each)."""
FEW, COST_LIMIT_OF_FEW = 8, 48_000
"""The same where only a few jobs wait: then more is looked for, such as changes that help only together."""
FIXED_COST = 1_500
"""Of each trial: sessions and plug-ins are made."""
ADDED_COST = 3
"""Of each node or pod that a change adds."""
_UNBOUNDED = 1 << 40
_OF_A_QUEUE = (RaiseCapability, RaiseDeserved, RaiseWeight, RaiseQueuePriority, UseQueue)
_OF_ONE_QUEUE = (*_OF_A_QUEUE, UsePriority, LowerMinAvailable, RequestAtMost, UseLabel, AllowTier)
"""Changes that give nothing to jobs of other queues than those that they name and the job's own."""
_CYCLES = 3
"""Cycles that changes have by which others are evicted in the first one."""
_SETTLING = 4
"""Cycles that may pass from one change to the next, as long as jobs are admitted or bound: they take what there is."""
_MOST_SETTLED = 4
"""Clusters that are kept between two stages: what differs in the number of nodes alone begins there."""
_SLOW = 2
"""Cycles that may pass until an admitted job has its pods."""
LIGHT = 32
"""What a spec may weigh (see `PodClass`) without a price; each class beyond it costs as much as it weighs."""
WAY_COST = 20
"""Of each way to meet a request of a claim: its rules are read and asked about the devices of each kind of node."""
CARRY_COST = 40
"""Of each pod that this cycle binds or evicts: the copy has it carried out. After a great many of them nothing is tried
in this cycle, and the jobs that still wait have their turn in the next one."""


def _cost_of_pending(job: Job, claims: Mapping[str, ResourceClaim], *, heavy: bool) -> int:
    """What a trial costs for the pending pods of a job; ``heavy``: there are specs that cost more than a pod."""
    cost = 10 * len(job.pending)
    if heavy or claims:
        for one in {task.pod_class.id: task.pod_class for task in job.pending.values()}.values():
            cost += one.weight if one.weight > LIGHT else 0
            cost += sum(WAY_COST * _ways(claims[key]) for key in one.devices if key in claims)
    return cost


def _ways(claim: ResourceClaim) -> int:
    """Ways to meet its requests, each with rules of its own."""
    return sum(len(request.first_available or ()) or 1 for request in claim.spec.devices.requests or ())


Stages = tuple[tuple[Change, ...], ...]


class _Settled(NamedTuple):
    """The cluster once the first of two stages of changes was made and nothing moves any more.

    Attributes:
        way: job, names of nodes and slowness of the trial that found it.
        stages: that one.
        cluster: with the pods that came and left since the trials began.
        own: pods that the job had before it was created again.
        slow: cycles that may still pass until it has pods.
    """

    way: tuple[str, str, int]
    stages: Stages
    cluster: tuple[Snapshot, list[Move]]
    own: tuple[Task, ...]
    slow: int


class ErrorsTold(set[tuple[str, ...]]):
    """Kinds of errors in trials, by the changes that were made, that have been reported."""


class Trials:
    """All trials of one cycle, within a budget that depends on nothing but the cluster's size.

    Where many jobs wait, a trial has only those that come before the one in question: the others could hardly change
    its answer. A PodGroup without pods is tried with those that will be made for it, where they are known;
    else it starts when it is admitted.

    Args:
        cycle: after its actions.
        turns: keys of all jobs that wait, in the order in which they are tried.
        asked: keys of those that are asked about.
        seconds: how long may be tried, by the cycle's clock, whatever it costs; 0: see `COST_LIMIT`.
        limited: keys of those that wait for a limit and not for nodes: their trials count nodes under a check as
            passed, because by the time the limit is raised they are. Otherwise advice would change with each check.
    """

    strict: ClassVar[bool] = False
    """Whether an error of ours is raised, as tests want it, and not only reported."""

    def __init__(
        self,
        cycle: Cycle,
        turns: Sequence[str],
        asked: Collection[str] = (),
        seconds: float = 0.0,
        limited: Collection[str] = (),
    ) -> None:
        self.cycle, self._asked, self._limited = cycle, asked, limited
        limit = COST_LIMIT_OF_FEW if len(turns) <= FEW else COST_LIMIT
        decided = [*cycle.bound, *(placement for placement, _ in cycle.evicted)]
        spent = CARRY_COST * sum(len(placement.tasks) for placement in decided)
        outside = any(plugin.outside for plugin in cycle.hooks.plugins())
        watch = cycle.stopwatch
        self._until = watch.monotonic() + seconds if seconds and watch.monotonic is not None else 0.0
        self._late, self._end = self._until - 0.4 * seconds, self._until + 0.25 * seconds
        if self._until:
            wait_out(cycle.session.snapshot, cycle.session.now)
        self.left = 0 if outside else _UNBOUNDED if self._until else max(limit - spent, 0)
        self.stopwatch = Stopwatch(watch.monotonic, watch.limit)
        heavy = any(each.weight > LIGHT for each in cycle.session.snapshot.classes.all.values())
        claims = cycle.session.snapshot.catalogue.device_claims
        pending = {job.key: _cost_of_pending(job.record, claims, heavy=heavy) for job in cycle.jobs}
        base = FIXED_COST + cycle.session.nodes.size + len(cycle.session.snapshot.tasks) // 20
        costs = accumulate(pending.get(key, 0) + 5 for key in turns)
        whole = base + sum(cost + 5 for cost in pending.values())
        self._whole = bool(self._until) or whole <= limit // 4
        self._costs = {key: whole if self._whole else base + own for key, own in zip(turns, costs, strict=True)}
        self._turn = {key: at for at, key in enumerate(turns)}
        self._turns = list(turns)
        self._alone = self._asks = False
        self._answer: Draft | None = None
        self._settled: list[_Settled] = []

    @property
    def crowded(self) -> bool:
        """Whether many jobs wait."""
        return len(self._turns) > FEW

    def possible(self, job: str) -> bool:
        """Whether there is budget for one more trial for a job."""
        return not self._is_past(self._until) and self.left >= self._costs[job]

    def at_leisure(self, job: str) -> bool:
        """Whether there is budget to make less of what is enough: the last part of the time is for finding anything."""
        return self.possible(job) and not self._is_past(self._late)

    def at_the_end(self, job: str) -> bool:
        """Whether there is budget to see what of a change that has been found is needed: that takes a few trials."""
        return not self._is_past(self._end) and self.left >= self._costs[job]

    def _is_past(self, moment: float) -> bool:
        return bool(self._until) and self.stopwatch.monotonic is not None and self.stopwatch.monotonic() >= moment

    def starts(self, job: str, change: Change) -> bool:
        """Whether the job starts after the change (more of it, where it has its minimum), in its place of the line."""
        if isinstance(change, AddNodes | CreatePods):
            if change.count > min(MOST_ADDED, self.left // ADDED_COST):
                return False
            self.left -= ADDED_COST * change.count
        names = (LAST, FIRST) if isinstance(change, AddNodes) else (FIRST,)  # whatever they are called
        return all(self._guarded(job, (parts_of(change),), name, anew=False) for name in names)

    def ask(self, job: str, change: Change, *, alone: bool) -> Draft | Literal[True] | None:
        """What would keep the job waiting after a change; None: it would start, True: nobody knows.

        What makes the job anew lets it come to the line as a new one, which is admitted again. In line it starts where
        a cycle after its admission binds it, in which all that were admitted with it have their pods; nodes join a
        cycle after the rest. Until they do, jobs of queues that the change gives nothing stay as they are.

        Args:
            job: its key.
            change: is made.
            alone: as if no other job waited.
        """
        parts = parts_of(change)
        return self._kept_by(job, (parts,) if alone else _nodes_last(parts), alone=alone, near=not alone)

    def ask_again(self, job: str, change: Change) -> Draft | Literal[True] | None:
        """The same with all that wait, as things go on a real cluster: nodes have other names than when it was asked.

        Where the job has no pods yet, they come only some cycles later, and nodes after them; else a cycle sees all of
        the change at once.
        """
        record, parts = self._next[0].jobs.get(job), parts_of(change)
        if record is not None and not record.tasks:
            return self._kept_by(job, _nodes_last(parts), LAST, _SLOW)
        return self._kept_by(job, (parts,), LAST)

    def _kept_by(
        self, job: str, stages: Stages, prefix: str = FIRST, slow: int = 0, *, alone: bool = False, near: bool = False
    ) -> Draft | Literal[True] | None:
        """See `ask`."""
        _ = self._next  # found before `_alone` is set: all that wait have a part in it
        self._alone, self._asks, self._answer = alone, True, None
        try:
            started = self._guarded(job, stages, prefix, slow, near=near)
        finally:
            self._alone = self._asks = False
        return None if started else self._answer or True

    def _guarded(
        self, job: str, stages: Stages, prefix: str = FIRST, slow: int = 0, *, near: bool = False, anew: bool = True
    ) -> bool:
        try:
            return self._carried_out(job, stages, prefix, slow, near=near, anew=anew)
        except EngineError:  # what the API would refuse starts nothing
            return False
        except Exception as error:  # an error of ours, which must not stop the real cycle
            if self.strict:
                raise
            kinds = sorted({type(one).__name__ for stage in stages for one in stage})
            reported, kind = self.cycle.session.snapshot.memo.of(ErrorsTold, ErrorsTold), (*kinds, type(error).__name__)
            if kind not in reported:
                reported.add(kind)
                self.cycle.fail(f"trying {' and '.join(kinds) or 'nothing'} for PodGroup {job}", error)
            return False

    def _carried_out(self, key: str, stages: Stages, prefix: str, slow: int, *, near: bool, anew: bool) -> bool:
        """Whether the job starts when changes are made in stages, with a cycle after each.

        Args:
            key: of the job.
            stages: at least one.
            prefix: of the names of new nodes.
            slow: cycles that pass after its admission until the job has pods.
            near: only jobs take part whose queues get anything by a stage.
            anew: a job that may have to be created again for a change comes to the line as a new one.
        """
        made, way = list[Change](), (key, prefix, slow)
        evicting = any(isinstance(one, UsePriority | AllowReclaim) for one in stages[-1])
        first = stages[:1] if len(stages) > 1 else ()  # after the last one it is looked whether the job starts
        settled = next((one for one in self._settled if one.way == way and one.stages == first), None)
        edit, own = (Edit(*settled.cluster), [*settled.own]) if settled else (self._begun(key), list[Task]())
        slow = settled.slow if settled else slow
        for at, stage in enumerate(stages, start=1):
            made += stage
            last = at == len(stages)
            if settled and not last:
                continue
            for one in stage:
                if isinstance(one, AddNodes):
                    add_nodes(one, edit, prefix)
                else:
                    apply(one, edit, key)
            if anew and submit_again(Together(tuple(stage)), edit, key, self.cycle.session.now):
                own = [*edit.job(key).tasks.values()]
                for task in own:
                    edit.drop(task.key)
            among = self._gaining(stage, edit, key) if near else None
            left = _CYCLES if last else _SETTLING
            while left:
                left -= 1
                self.left -= self._costs[key]
                trial = self._run(edit, key, among)
                if trial is None:
                    return False
                job = trial.session.job(key)
                if self._is_bound(trial, key):
                    trial.end()
                    return True
                bare = job is not None and not job.size and job.phase != "Pending"
                self._answer = self._reason(trial, job) if self._asks else None
                early = bare and slow > 0
                if last and not bare and not (trial.evicted and (anew or evicting)):
                    trial.end()
                    break
                edit, pods, others = self._with_pods(
                    trial, job, own if bare else [], Together(tuple(made)), early=early
                )
                moving = bare or bool(trial.evicted) or (not last and (others or bool(trial.bound)))
                trial.end()
                if early:
                    slow, left = slow - 1, left + 1
                elif bare and not pods:  # what its pods will ask for is not known
                    return True
                elif not moving:
                    break
            if not last:
                kept = _Settled(way, stages[:at], (edit.snapshot(), edit.moves), tuple(own), slow)
                self._settled = [*self._settled[1 - _MOST_SETTLED :], kept]
                edit = Edit(*kept.cluster)
        return False

    def _gaining(self, changes: Sequence[Change], edit: Edit, key: str) -> frozenset[str] | None:
        """The queues in which jobs may start by these changes that did not before; None: in any.

        One queue's gain is no gain of those beside it, and where nothing moved before they stay as they are.
        """
        named = {one.queue for one in changes if isinstance(one, _OF_A_QUEUE)}
        if ROOT in named or not all(isinstance(one, _OF_ONE_QUEUE) for one in changes):
            return None
        below = (name for name in edit.origin.queues if any(is_below(edit, name, one) for one in named))
        return frozenset({edit.job(key).queue, *named, *below})

    def _run(self, edit: Edit, key: str, among: Collection[str] | None = None) -> Cycle | None:
        """A cycle on the changed cluster, with those before ``key`` where many wait; None: it says nothing.

        ``among``: only jobs of these queues are admitted and placed.
        """
        cycle, session = self.cycle, self.cycle.session
        off = cycle.hooks.failed
        edit.ask(key)
        snapshot = edit.snapshot()
        asked = snapshot.jobs.get(key) if self._asks else None
        failed = cycle.decisions.failed_jobs  # they wait in the next cycle, too
        if failed or self._alone or not self._whole:
            before = [] if self._alone else self._turns[: self._turn[key]]
            turns = snapshot.active if self._whole and not self._alone else [*before, key, *edit.woken]
            snapshot = replace(snapshot, active=[other for other in turns if other not in failed], waiting=None)
        if self._alone:
            snapshot = replace(snapshot, queues={name: _unpromised(each) for name, each in snapshot.queues.items()})
        trial = Cycle(
            snapshot,
            cycle.config,
            session.now,
            session.seed,
            lambda name: None if name in off else cycle.lookup(name),
            self.stopwatch,
            reasons=False,
            of={task.pod_class.id for task in asked.pending.values()} if asked is not None else (),
        )
        index = trial.session.snapshot.nodes.index
        for pod_class, node, sign in edit.moves:
            if node in index:
                trial.session.domains.move(pod_class, [index[node]], sign)
        if among is not None:
            trial.keep_to(among)
        run_actions(trial)
        if trial.hooks.failed != off:  # what it says would be said without a plug-in that the next cycle asks again
            self.left = 0
            return None
        return trial

    def _reason(self, trial: Cycle, job: JobState | None) -> Draft | None:
        """Why the job waits at the end of a trial; None where the actions said nothing of it.

        Of nodes and pods that only the trial has nobody can change anything.
        """
        report = trial.reports.get(job.key) if job is not None else None
        if job is None or report is None:
            return None
        trial.fits.reasons = True  # its actions are over: the answer may ask about pods of any class
        draft = first_cause(Waiting(Tools(trial), job, report))
        ladders = [[real for step in ladder if (real := self._real(step, job)) is not None] for ladder in draft.ladders]
        return structs.replace(draft, ladders=ladders)

    def _real(self, change: Change, job: JobState) -> Change | None:
        """A change without the nodes and pods that do not exist; None where it is about no others."""
        snapshot = self.cycle.session.snapshot
        if isinstance(change, Together):
            parts = [self._real(one, job) for one in change.changes]
            return Together(tuple(filter(None, parts))) if all(parts) else None
        if isinstance(change, CreatePods) and not snapshot.jobs[job.key].tasks:  # there is none that they could be like
            return None
        named = {"nodes": snapshot.nodes.index, "pods": snapshot.tasks}
        for field in named.keys() & set(change.__struct_fields__):
            there = tuple(name for name in getattr(change, field) if name in named[field])
            if not there:
                return None
            change = structs.replace(change, **{field: there})
        return change

    def _is_bound(self, trial: Cycle, key: str) -> bool:
        job = trial.session.job(key)
        bound = any(placement.job.key == key for placement in trial.bound)
        before = self.cycle.session.job(key)
        beyond = before is not None and before.has_started  # and only the rest of its pods waits
        return bound and (not beyond or job is None or not job.counts[TaskStatus.PENDING])

    def _with_pods(
        self, trial: Cycle, job: JobState | None, own: Sequence[Task], made: Change, *, early: bool
    ) -> tuple[Edit, bool, bool]:
        """The cluster once a trial's decisions are carried out, and all that are admitted have their pods.

        Args:
            trial: at its end.
            job: the one in question.
            own: its pods, where it had some before it was created again.
            made: changes that its new pods get as well.
            early: it has no pods yet.

        Returns:
            the cluster, whether the job has pods, and whether others have got some.
        """
        edit, left, has_pods, others = _without_victims(trial), MOST_ADDED, bool(own) and not early, False
        _tell_in_vain(edit, trial)
        for task in own if has_pods else ():
            edit.put(task)
        for other in sorted(trial.jobs, key=turn):
            mine = other is job
            admitted = other.phase != "Pending" and (mine or other.record.phase == "Pending")
            if admitted and not other.size and not (mine and (own or early)):
                # A smaller gang has as many pods as before.
                record = self._next[0].jobs.get(other.key, other.record) if mine else other.record
                added = add_unmade_pods(edit, other.key, unmade_pods(trial.session.snapshot, record), left)
                has_pods, left = has_pods or (mine and added > 0), left - added
                others = others or (added > 0 and not mine)
        if has_pods and job is not None:
            apply_to_pods(made, edit, job.key)
            drop_refused_pods(edit, job, self._held)
        return edit, has_pods, others

    @cached_property
    def _held(self) -> dict[str, Counter[str]]:
        """What the pods of each namespace with quotas hold."""
        return counted(self.cycle.session)

    def _begun(self, key: str) -> Edit:
        """The cluster in which changes for a job are tried; see ``limited``."""
        edit = Edit(*self._next)
        for name, marks in self._in_check if key in self._limited else ():
            facts = edit.facts(name)
            facts.annotations = {**(facts.annotations or {}), NODE_CHECKS: marks}
            edit.node(facts)
        return edit

    @cached_property
    def _in_check(self) -> list[tuple[str, str]]:
        """Nodes that are being checked or soon will be, each with its book once it has passed."""
        snapshot = self.cycle.session.snapshot
        if not snapshot.catalogue.node_checks:
            return []
        books = ((facts.name, book_of(facts.annotations)) for facts in snapshot.nodes.facts)
        return [(name, marks_text(checked(book))) for name, book in books if checked(book) != book]

    @cached_property
    def _next(self) -> tuple[Snapshot, list[Move]]:
        """The cluster as the next cycle sees it: those that this cycle has admitted have their pods."""
        edit, most = Edit(*after(self.cycle)), min(MOST_ADDED, max(self.left, 0) // ADDED_COST)
        left = most
        for job in sorted(self.cycle.jobs, key=turn):
            if job.phase != "Pending" and job.record.phase == "Pending" and not job.size:
                left -= add_unmade_pods(edit, job.key, unmade_pods(self.cycle.session.snapshot, job.record), left)
        self.left -= ADDED_COST * (most - left)
        return self._at_rest((edit.snapshot(), edit.moves)) if self._until else (edit.snapshot(), edit.moves)

    def _at_rest(self, cluster: tuple[Snapshot, list[Move]]) -> tuple[Snapshot, list[Move]]:
        """The cluster once nothing moves any more of itself: what moves after a change does so by that change."""
        for _ in range(_SETTLING):
            trial = self._run(Edit(*cluster), "")
            if trial is None:
                return cluster
            edit, _, others = self._with_pods(trial, None, (), Together(()), early=False)
            moving = others or bool(trial.bound or trial.evicted)
            starts = any(placement.job.key in self._asked for placement in trial.bound)
            trial.end()
            if not moving or starts:
                return cluster
            cluster = edit.snapshot(), edit.moves
        return cluster


def _unpromised(queue: Queue) -> Queue:
    """The queue without what jobs were promised that are not there."""
    if not queue.inqueue.any():
        return queue
    queue = copy(queue)
    queue.sums = queue.sums.copy()
    queue.inqueue[:] = 0
    return queue


def _nodes_last(parts: tuple[Change, ...]) -> Stages:
    """The stages in which changes are made: nodes join after the rest."""
    nodes = tuple(one for one in parts if isinstance(one, AddNodes))
    rest = tuple(one for one in parts if one not in nodes)
    return tuple(filter(None, (rest, nodes))) or ((),)


def _without_victims(trial: Cycle) -> Edit:
    """The cluster once a trial's decisions are carried out, and the pods that it evicts have ended."""
    edit = Edit(*after(trial))
    for placement, _ in trial.evicted:
        for task in placement.tasks:
            edit.drop(task.key)
    return edit


def _tell_in_vain(edit: Edit, trial: Cycle) -> None:
    """Pods that were made in a trial are told that they found no place: what their jobs were promised lapses then."""
    for job in trial.jobs:
        pending = job.record.pending.values() if job.record.phase != "Pending" else ()
        if any(task.told[0] for task in pending):
            continue
        for task in (edit.task(each.key) for each in pending):
            if task.status is TaskStatus.PENDING:
                task.told = ("Unschedulable", "")
                edit.put(task)
                break


def after(cycle: Cycle) -> tuple[Snapshot, list[Move]]:
    """The cluster once this cycle's decisions are carried out, and which pods came or left."""
    edit = Edit(cycle.session.snapshot)
    names = cycle.session.snapshot.nodes.names
    notes = {f"{bind.namespace}/{bind.pod}": bind.annotations for bind in cycle.decisions.binds}
    for placement in cycle.bound:
        for key, column in zip((task.key for task in placement.tasks), placement.columns, strict=True):
            task = edit.task(key)
            task.status, task.node = TaskStatus.BINDING, names[column]
            if notes.get(key):
                task.annotations = {**task.annotations, **notes[key]}
            edit.put(task)
    for placement, _ in cycle.evicted:
        for evicted in placement.tasks:
            task = edit.task(evicted.key)
            task.status = TaskStatus.RELEASING
            edit.put(task)
    for placement in cycle.transaction.log if cycle.evicted else ():
        for waiting, column in zip(placement.tasks, placement.columns, strict=True):
            task = edit.task(waiting.key)
            task.nominated_node = names[column]
            edit.put(task)
    for job in cycle.served():
        phase, _ = next_phase(cycle, job)
        if phase != job.record.phase:
            edit.job(job.key).phase = phase
    return edit.snapshot(), edit.moves
