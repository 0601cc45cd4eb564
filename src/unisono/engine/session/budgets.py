"""Budgets at a moment: what is used and how fast, and what jobs may still start with.

What was counted last is carried on by the pods that are on nodes now. A pod that has gone since then counts until
somebody counts again: what has been seen to be used does not become less by that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Protocol, Self

from unisono.api.budgets import HOUR, Hold, Purse, Tally, count, plain, unit
from unisono.api.selecting import account_of, lineage
from unisono.cluster.interning import Memory
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Job
from unisono.cluster.resources import ResourceRegistry, Vector
from unisono.cluster.status import ON_NODE_STATES, TaskStatus
from unisono.cluster.status import count as number
from unisono.engine.answers import Refusal
from unisono.engine.session.limit import UNLIMITED, Limit
from unisono.engine.session.run_times import RunEstimates
from unisono.engine.verdict import Cause

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session

_EDGE = 1e-9
_AGAIN = 0.01
"""Part of an amount that must be left until jobs start again with a budget that was used up in the same period."""
_COARSE_SECONDS = 2.0
"""And what was used in so long as it was used up: servers and kubelets tell begins and ends in whole seconds."""
_NOT_YET = (TaskStatus.ALLOCATED, TaskStatus.BINDING)


@dataclass(slots=True)
class Spending:
    """A budget at a moment.

    Attributes:
        purse: what it says.
        tally: as of the moment.
        rates: how much is used in an hour.
        expected: how much more pods on nodes are known to use until they end.
        up: what there is nothing left of.
        jobs: keys of those that use any.
    """

    purse: Purse
    tally: Tally
    rates: dict[str, float] = field(default_factory=dict)
    expected: dict[str, float] = field(default_factory=dict)
    up: list[str] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)

    def left(self, name: str) -> float:
        """What is left of an amount; below zero where more was used."""
        return self.purse.amounts[name] - self.tally.used.get(name, 0.0)


class Run(Protocol):
    """Pods of a job of one class that get their nodes."""

    @property
    def job(self) -> JobState:
        """Whose they are."""
        ...

    @property
    def pod_class(self) -> PodClass:
        """Of all of them."""
        ...

    @property
    def columns(self) -> Sequence[int]:
        """Of their nodes."""
        ...


@dataclass(slots=True)
class _Seen(Memory):
    """What the last session has found, by budget: the tally that it began with, and the one that it came to.

    ``up``: the budget as it was, what there was nothing left of, and how much must be left until there is.
    """

    by_name: dict[str, tuple[Tally, Tally]] = field(default_factory=dict)
    up: dict[str, tuple[Purse, dict[str, float]]] = field(default_factory=dict)

    def copy(self) -> Self:
        """One that is changed apart."""
        return replace(self, by_name=dict(self.by_name), up=dict(self.up))


class Spendings:
    """All budgets of a session.

    Attributes:
        all: in order of their names.
    """

    def __init__(self, session: Session) -> None:
        snapshot, now = session.snapshot, session.now
        self._snapshot, self._session = snapshot, session
        self._parents = {name: queue.record.parent for name, queue in session.queues.items()}
        budgets = snapshot.catalogue.budgets
        self._purses = [budgets[name] for name in sorted(budgets)]
        self._of: dict[tuple[str, str, str], tuple[int, ...]] = {}
        prices = snapshot.catalogue.prices
        priced = any(price.labels for each in prices.values() for price in each.prices)
        # What is kept with a job is of these words, and of the labels of nodes where prices go by them.
        self._stamp = (budgets.version, prices.version, snapshot.nodes.generation if priced else 0)
        held: list[list[Hold]] = [[] for _ in self._purses]
        jobs: list[list[str]] = [[] for _ in self._purses]
        for key, record in snapshot.jobs.items():
            if not number(record.counts, ON_NODE_STATES):
                continue
            for at in self.of(record):
                if record_holds := self._holds(record, self._purses[at]):
                    held[at] += record_holds
                    jobs[at].append(key)
        memory = snapshot.memo.of(_Seen, _Seen)
        seen = memory.by_name
        self.all: list[Spending] = []
        for purse, holds, keys in zip(self._purses, held, jobs, strict=True):
            begun = budgets.tallies[purse.name]
            tally = count(purse, begun, holds, now)
            last = seen.get(purse.name)
            if last is not None and last[0] is begun and last[1].start == tally.start:
                kept = count(purse, last[1], (), now).used
                used = {name: max(amount, kept.get(name, 0.0)) for name, amount in tally.used.items()}
                tally = replace(tally, used=used)
            # A count may come to a little less than was seen, as pods were evicted meanwhile: jobs that started with
            # what is left by that would be evicted at once, again and again.
            before, close = memory.up.get(purse.name) if not purse.half_life else None, dict[str, float]()
            if before is not None and before[0] == purse and last is not None and last[1].start == tally.start:
                close, used = before[1], dict(tally.used)
                for name, enough in close.items():
                    if used.get(name, 0.0) > (amount := purse.amounts[name]) - enough:
                        used[name] = max(used.get(name, 0.0), amount)
                tally = replace(tally, used=used)
            spending = Spending(purse, tally, up=purse.used_up(tally.used), jobs=sorted(keys))
            for hold in holds:
                for name, rate in hold.rates.items():
                    spending.rates[name] = spending.rates.get(name, 0.0) + rate
            seen[purse.name] = begun, tally
            memory.up[purse.name] = (
                purse,
                {
                    name: max(
                        close.get(name, 0.0),
                        _AGAIN * purse.amounts[name],
                        _COARSE_SECONDS / HOUR * spending.rates.get(name, 0.0),
                    )
                    for name in spending.up
                },
            )
            self.all.append(spending)
        self.estimates = RunEstimates(session, learned=False)
        for spending in self.all:
            if spending.purse.fits:
                self._expect(spending)

    def _expect(self, spending: Spending) -> None:
        """What pods on nodes are known to use from now on; of those that do not say when they end nothing is."""
        prices, now = self._snapshot.catalogue.prices, self._session.now
        for key in spending.jobs:
            record = self._snapshot.jobs[key]
            for task in record.tasks.values():
                seconds = self.estimates.stated(task) if task.node and task.status in ON_NODE_STATES else 0.0
                if seconds:
                    began = now if task.status in _NOT_YET else task.since or task.created
                    facts = self._snapshot.nodes.facts_of(task.node)
                    labels = facts.labels if facts is not None else {}
                    rates = spending.purse.rates(task.pod_class.requests, labels, record.priority_class, prices)
                    for name, rate in rates.items():
                        more = rate * max(began + seconds - now, 0.0) / HOUR
                        spending.expected[name] = spending.expected.get(name, 0.0) + more

    def limit(self) -> None:
        """Give queues and jobs the limits of hard budgets that are used up, or in which they must fit.

        A budget that names queues limits these; only what it says of users and namespaces, and of how much a job needs,
        makes jobs of one shape differ.
        """
        session, hard = self._session, [one for one in self.all if one.purse.hard and (one.up or one.purse.fits)]
        if not hard:
            return
        whole: set[tuple[str, str]] = set()
        for spending in hard:
            if not spending.up:
                continue
            for name, queue in session.queues.items():
                if any(each in spending.purse.queues for each in lineage(name, self._parents)):
                    queue.limits = (*queue.limits, BudgetLimit(spending, session.registry))
                    whole.add((spending.purse.name, name))
        apart = [one for one in hard if not one.up or one.purse.users or one.purse.namespaces]
        if not apart:
            return
        places = {one.purse.name: at for at, one in enumerate(self.all)}
        for key in sorted(session.snapshot.active):
            job = session.job(key)
            of = self.of(job.record) if job is not None else ()
            for spending in apart:
                name = spending.purse.name
                if job is None or places[name] not in of or (name, job.queue.name) in whole:
                    continue
                limit = BudgetLimit(spending, session.registry)
                if not spending.up:
                    limit = FittingLimit(spending, session.registry, job, self)
                job.account_limits += (limit,)
                session.limits_accounts = True

    def with_more(self, spending: Spending, bound: Iterable[Run]) -> dict[str, float]:
        """How much is used in an hour once these pods run, too."""
        hourly, at, names = dict(spending.rates), self.all.index(spending), self._snapshot.nodes.names
        for run in bound:
            record = run.job.record
            if at not in self.of(record):
                continue
            for column in run.columns:
                facts = self._snapshot.nodes.facts_of(names[column])
                labels = facts.labels if facts is not None else {}
                rates = spending.purse.rates(
                    run.pod_class.requests, labels, record.priority_class, self._snapshot.catalogue.prices
                )
                for name, rate in rates.items():
                    hourly[name] = hourly.get(name, 0.0) + rate
        return hourly

    def cost(self, spending: Spending, record: Job, requests: Mapping[str, int], seconds: float) -> dict[str, float]:
        """What it takes at most to hold so much for so long, on whichever node."""
        rates = spending.purse.most_rates(requests, record.priority_class, self._snapshot.catalogue.prices)
        return {name: rate * seconds / HOUR for name, rate in rates.items()}

    def of(self, record: Job) -> tuple[int, ...]:
        """Places in ``all`` of the budgets that a job uses."""
        key = record.queue, account_of(record.namespace, record.annotations), record.namespace
        places = self._of.get(key)
        if places is None:
            lines = lineage(record.queue, self._parents)
            places = self._of[key] = tuple(
                at for at, purse in enumerate(self._purses) if purse.admits(key[1], key[2], lines)
            )
        return places

    def _holds(self, record: Job, purse: Purse) -> list[Hold]:
        """Of the pods of a job that are on nodes; of those that got theirs at one time together."""
        place = ("budget", purse.name, self._stamp, record.queue, record.priority_class)
        holds: list[Hold] | None = record.derived.get(place)
        if holds is None:
            prices, table = self._snapshot.catalogue.prices, self._snapshot.nodes
            sums: dict[float, dict[str, float]] = {}
            for task in record.tasks.values():
                if not task.node or task.status not in ON_NODE_STATES:
                    continue
                facts = table.facts_of(task.node)
                labels = facts.labels if facts is not None else {}
                rates = purse.rates(task.pod_class.requests, labels, record.priority_class, prices)
                since = inf if task.status in _NOT_YET else task.since or task.created
                sums_of = sums.setdefault(since, {})
                for name, rate in rates.items():
                    sums_of[name] = sums_of.get(name, 0.0) + rate
            holds = [Hold(since, inf, rates) for since, rates in sums.items() if rates]
            if place not in record.derived:
                record.derived[place] = holds
        return holds


def open_spendings(session: Session) -> None:
    """Let the budgets of the cluster hold in a session that has just begun; nothing where there are none."""
    if session.snapshot.catalogue.budgets:
        spendings = Spendings(session)
        session.shared.put(spendings)
        spendings.limit()


def spendings_of(session: Session) -> Spendings | None:
    """Budgets as they stand; None where there are none."""
    return session.shared.find(Spendings)


class BudgetLimit(Limit):
    """A hard budget that is used up: it lets nothing more start.

    Attributes:
        spending: the budget.
    """

    __slots__ = ("spending",)

    def __init__(self, spending: Spending, registry: ResourceRegistry) -> None:
        super().__init__(spending.purse.name, {}, registry)
        self.family = []
        self.spending = spending

    def move(self, amounts: Vector, old: TaskStatus, new: TaskStatus) -> None:
        """What leaves gives nothing back."""

    def room(self, pod_class: PodClass, *, now: bool) -> int:
        """None."""
        return 0

    def refusal(self, pod_class: PodClass, *, now: bool) -> Refusal:
        """That it is used up."""
        return refused(self.spending)


class FittingLimit(BudgetLimit):
    """A hard budget in which what a job is known to need must be left, beside what those that run are known to need."""

    __slots__ = ("_job", "_of")

    def __init__(self, spending: Spending, registry: ResourceRegistry, job: JobState, of: Spendings) -> None:
        super().__init__(spending, registry)
        self._job, self._of = job, of

    def move(self, amounts: Vector, old: TaskStatus, new: TaskStatus) -> None:
        """What comes is expected to be used, what leaves is not."""
        requests = {name: int(amount) for name, amount in zip(self.registry.names, amounts.tolist(), strict=False)}
        expected = self.spending.expected
        for name, amount in self._of.cost(self.spending, self._job.record, requests, self._seconds()).items():
            expected[name] = expected.get(name, 0.0) + amount

    def _seconds(self, pod_class: PodClass | None = None) -> float:
        tasks = self._job.record.tasks.values()
        run_times = [self._of.estimates.stated(one) for one in tasks if pod_class is None or one.pod_class is pod_class]
        return max(run_times) if run_times and all(run_times) else 0.0

    def needed(self, pod_class: PodClass) -> dict[str, float]:
        """What a pod of the class needs; nothing where it is not known how long it runs."""
        seconds = self._seconds(pod_class)
        return self._of.cost(self.spending, self._job.record, pod_class.requests, seconds) if seconds else {}

    def room(self, pod_class: PodClass, *, now: bool) -> int:
        """For how many pods there is enough left; for none where it is not known how long they run."""
        if not self._seconds(pod_class):
            return 0
        rooms = [
            int((self.spending.left(name) - self.spending.expected.get(name, 0.0) + _EDGE) // amount)
            for name, amount in self.needed(pod_class).items()
            if amount > 0.0
        ]
        return max(min(rooms, default=UNLIMITED), 0)

    def refusal(self, pod_class: PodClass, *, now: bool) -> Refusal:
        """How much it needs, and how much is left beside what those that run need."""
        budget, needed = self.spending, self.needed(pod_class)
        if not needed:
            return _refusal(
                f"budget {self.name} takes only jobs that are known to fit, and it is not stated how long it runs"
            )
        short = [
            f"{plain(amount)} {unit(name)}, and "
            f"{plain(max(budget.left(name) - budget.expected.get(name, 0.0), 0.0))} of budget {self.name} are left"
            for name, amount in needed.items()
            if budget.left(name) - budget.expected.get(name, 0.0) + _EDGE < amount
        ]
        return _refusal(f"a pod needs {'; '.join(short)} beside what running jobs need")


def used_up(job: JobState) -> Refusal | None:
    """That a budget of the job is used up, where one is."""
    for limit in job.limits:
        if isinstance(limit, BudgetLimit) and limit.spending.up:
            return refused(limit.spending)
    return None


def refused(spending: Spending) -> Refusal:
    """That a budget is used up; how far it is overdrawn moves with every look, and is in its status."""
    amounts = ", ".join(f"{plain(spending.purse.amounts[name])} {unit(name)}" for name in spending.up)
    return _refusal(f"budget {spending.purse.name} is used up: all {amounts}")


def _refusal(text: str) -> Refusal:
    return Refusal(text, Cause.BUDGET)


def used_text(spending: Spending, names: Iterable[str]) -> str:
    """``100.2 of 100 hours of nvidia.com/gpu``."""
    used, amounts = spending.tally.used, spending.purse.amounts
    return ", ".join(f"{plain(used.get(name, 0.0))} of {plain(amounts[name])} {unit(name)}" for name in names)
