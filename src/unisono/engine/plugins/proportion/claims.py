"""What queues claim of a cluster: what they hold, and what they ask for as far as all limits let them have it.

What a queue cannot use must be no part of its share: the others would wait beside it. What its pods may have is asked
of the limits that placing and admission go by, whoever has set them: capabilities, users, budgets, licences, quotas. A
claim is never less than what the queue could come to hold as well: of several limits that allow different pods, each is
taken alone, and what other queues hold below the same limit may make room.

Jobs that no room could start claim nothing: those of which too few pods have lost their scheduling gates, or would find
a place if nothing else were there. Both are asked of the cluster as it is, and not remembered: such a job claims its
part, and reclaims it, from the cycle on in which it could start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Job
from unisono.cluster.resources import PODS, Vector
from unisono.cluster.status import TaskStatus
from unisono.engine.session.budgets import BudgetLimit
from unisono.engine.session.limit import UNLIMITED, Allowance, Amounts, Limit, aligned, exceeded, listed

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState, QueueState
    from unisono.engine.session.session import Session

_EDGE = 1e-9
_BY_CLASS = "claims.by_class"
"""Under this name a job's record notes how many waiting pods of each class it has."""
_LEAVING_SECONDS = 3600.0
"""Evictions that are looked back at; a pod that takes longer to leave counts as gone."""


@dataclass(frozen=True, slots=True)
class Claims:
    """Amounts by queue name and resource row.

    Attributes:
        usable: what a queue holds, and what it asks for as far as its limits let it have that.
        asked: what it holds and asks for, whatever its limits.
    """

    usable: dict[str, Amounts]
    asked: dict[str, Amounts]

    def lift(self, shares: Mapping[str, Amounts], limits: Mapping[str, Amounts]) -> dict[str, Amounts]:
        """What shares refuse: a queue that gets all that it can use is told by its limits why it gets no more."""
        if self.usable is self.asked:
            return dict(shares)
        lifted: dict[str, Amounts] = {}
        for name, share in shares.items():
            rows = zip(share, self.usable[name], self.asked[name], limits[name], strict=True)
            lifted[name] = [
                max(part, min(asked, limit)) if part >= min(usable, limit) else part
                for part, usable, asked, limit in rows
            ]
        return lifted


def claims_of(session: Session, promisable: Amounts, admission: Mapping[str, Amounts]) -> Claims:
    """What queues claim, also for pods that are still to be made, or to be made again.

    Args:
        session: at its opening, when limits are known.
        promisable: what there is at most.
        admission: what each queue may be promised; queues that are not named are left out.
    """
    requests = {name: listed(_claim(session.queues[name]), session.registry) for name in admission}
    later: dict[str, Amounts] = {}
    for job, keys in _unborn(session):
        request = requests.get(job.queue.name)
        if request is None:
            continue
        if session.book.counts(job.record):
            to_come = _to_come(job, len(request), [promisable, admission[job.queue.name]])
            for row, amount in enumerate(to_come):
                request[row] += amount * len(keys)
            later.update(dict.fromkeys(keys, to_come))
        else:  # its pods wait for others that do not come, and can use no share
            for row, amount in enumerate(_waiting(job, session)):
                request[row] -= amount * len(keys)
            later.update({key: [] for key in keys})
    returning = _returning(session)
    for job, pod_class in returning:
        if job.queue.name in requests:
            _add(requests[job.queue.name], pod_class.vector)
    unusable = _unusable(session, requests, later, returning)
    usable = {
        name: [a - b for a, b in zip(asked, unusable[name], strict=True)] if name in unusable else asked
        for name, asked in requests.items()
    }
    return Claims(usable if unusable else requests, requests)


def _claim(queue: QueueState) -> Vector:
    """What its pods hold and ask for; what waits where nothing is placed, as the queue is closed, asks for nothing."""
    return queue.record.request if queue.open else queue.record.allocated


def _add(request: Amounts, vector: Vector) -> None:
    for row, amount in enumerate(vector.tolist()):
        request[row] += amount


def _waiting(job: JobState, session: Session) -> Amounts:
    """What its waiting pods ask for; after a failed bind they are in no sum for a while."""
    asked = job.record.allocated if job.record.held else job.record.request
    return listed(aligned(asked, session.registry) - aligned(job.record.allocated, session.registry), session.registry)


# ---- pods that are not there


def _returning(session: Session) -> list[tuple[JobState, PodClass]]:
    """Evicted pods that are still leaving: their jobs make them again, and ask for as much.

    Without them the share of the victim's queue is smaller while its pods leave than when they are back, and what
    others were promised meanwhile is refused to them then: the eviction would be for nothing.
    """
    tasks, returning = session.snapshot.tasks, list[tuple["JobState", PodClass]]()
    for eviction in session.snapshot.evictions.since(session.now - _LEAVING_SECONDS):
        task, job = tasks.get(eviction.pod), session.job(eviction.job)
        if task is None or job is None or task.uid != eviction.uid or task.status is not TaskStatus.RELEASING:
            continue
        returning.append((job, task.pod_class))
    return returning


def _unborn(session: Session) -> Iterator[tuple[JobState, Sequence[str]]]:
    """Jobs of which pods are still to be created: one of each shape with the keys of all of it."""
    for record, keys in session.snapshot.by_shape():
        job = session.job(record.key) if len(record.tasks) < record.min_member else None
        if job is not None and _is_unborn(job):
            yield job, tuple(keys)


def _is_unborn(job: JobState) -> bool:
    """Whether pods of a waiting PodGroup are still to be created."""
    if len(job.record.tasks) >= job.min_member or job.min_resources is None:
        return False
    return job.queue.open and job.phase in ("Pending", "Inqueue")


def _to_come(job: JobState, size: int, limits: list[Amounts]) -> Amounts:
    """What a PodGroup will ask for, beside what its pods do, whose pods come after its admission.

    Without it a queue of waiting jobs seems to want nothing, and the others take its share. A job that could not be
    admitted even into an empty cluster asks for nothing.
    """
    requested = job.min_resources.tolist() if job.min_resources is not None else []
    present = job.record.request.tolist()
    requested += [0] * (size - len(requested))
    present += [0] * (size - len(present))
    if any(exceeded([0] * size, requested, limit) for limit in limits):
        return [0] * size
    missing = [max(amount - held, 0) for amount, held in zip(requested, present, strict=True)]
    missing[PODS] = job.min_member - len(job.record.tasks)
    return missing


# ---- what limits leave of it


@dataclass(slots=True)
class _Ask:
    """Equal pods of a waiting job, or a job as a whole whose pods are to come; and all jobs like it.

    Attributes:
        job: whose.
        amounts: of each, by resource row.
        number: how many of them a job asks for; fewer once limits are known.
        jobs: how many jobs.
        pod_class: of the pods; None for a job as a whole.
        to_come: what of a job's amounts no pod asks for yet.
        able: how many of them could start, if there were room.
    """

    job: JobState
    amounts: Amounts
    number: int
    jobs: int = 1
    pod_class: PodClass | None = None
    to_come: Amounts = field(default_factory=list)
    able: int = UNLIMITED


@dataclass(slots=True)
class _Bound:
    """That what is asked for may come to so much in one regard.

    Attributes:
        costs: of one of each ask that it concerns, by the place of the ask.
        rest: how much more there may be.
    """

    costs: dict[int, float]
    rest: float

    def excess(self, asks: Sequence[_Ask], row: int) -> float:
        """By how much of a resource what is asked for goes beyond it at least."""
        left, beyond = self.rest, 0.0
        parts = [
            (asks[at].amounts[row] / cost, cost * asks[at].number * asks[at].jobs) for at, cost in self.costs.items()
        ]
        if sum(whole for _, whole in parts) <= left:
            return 0.0
        for rate, whole in sorted(parts, reverse=True):
            taken = min(whole, left)
            beyond += (whole - taken) * rate
            left -= taken
        return beyond


class _QueueAsks:
    """What the waiting jobs of one queue ask for, and all that bounds it."""

    def __init__(self, session: Session, queue: QueueState) -> None:
        self.session, self.queue = session, queue
        self.asks: list[_Ask] = []

    def unusable(self) -> Amounts:
        """By resource row, how much of it they may not have."""
        under: dict[Limit | Allowance, list[int]] = {}
        for at, ask in enumerate(self.asks):
            allowances = [one for of in self.session.allowances for one in of(ask.job)]
            limits: list[Limit | Allowance] = [*ask.job.limits, *allowances]
            for limit in limits:
                under.setdefault(limit, []).append(at)
        bounds = {limit: self._bounds(limit, places) for limit, places in under.items()}
        lost = self._fit(bounds)
        # Limits on different jobs add up; of those that hold for the same ones, the narrowest counts.
        layers: list[tuple[set[int], list[float]]] = []
        for limit, places in under.items():
            rows = range(len(lost))
            excess = [max((one.excess(self.asks, row) for one in bounds[limit]), default=0.0) for row in rows]
            if any(excess):
                layer = next((one for one in layers if one[0].isdisjoint(places)), None)
                if layer is None:
                    layers.append((set(places), excess))
                else:
                    layer[0].update(places)
                    layer[1][:] = map(sum, zip(layer[1], excess, strict=True))
        for row in range(len(lost)):
            lost[row] += int(max((excess[row] for _, excess in layers), default=0.0))
        return lost

    def _bounds(self, limit: Limit | Allowance, places: Sequence[int]) -> list[_Bound]:
        asks, bounds = self.asks, list[_Bound]()
        if isinstance(limit, Allowance):
            for row, left in limit.left.items():
                costs = {at: float(asks[at].to_come[row]) for at in places if asks[at].to_come}
                bounds.append(_Bound(costs, float(left)))
            waiting = Counter[str]()
            for at in places:
                waiting[asks[at].job.key] += asks[at].number if asks[at].job.phase == "Pending" else 0
            if limit.jobs is not None:
                bounds.append(
                    _Bound(
                        {at: 1.0 / waiting[asks[at].job.key] for at in places if waiting[asks[at].job.key]},
                        float(limit.jobs),
                    )
                )
        else:
            # Of what others hold under the limit of a family of queues, this one may get its part.
            own = self.queue.record.allocated if limit in self.queue.limits else limit.held
            for row, most in limit.most.items():
                costs = {at: float(asks[at].amounts[row]) for at in places}
                rest = float(most - (int(own[row]) if row < len(own) else 0))
                bounds.append(_Bound(costs, rest))
        for one in bounds:
            one.costs = {at: cost for at, cost in one.costs.items() if cost > 0}
            one.rest = max(one.rest, 0.0)
        return bounds

    def _fit(self, bounds: Mapping[Limit | Allowance, list[_Bound]]) -> Amounts:
        """Leave of each job what fits if it alone gets what is left, nothing of one that could not start so.

        Shares are divided within capabilities anyway: as with Volcano, what is larger than one counts up to it.
        """
        lost, fits = [0] * len(self.session.registry), [min(ask.number, ask.able) for ask in self.asks]
        capped = list(fits)
        for limit, of_limit in bounds.items():
            is_capability = type(limit) is Limit
            for at, share in ((at, one.rest / cost) for one in of_limit for at, cost in one.costs.items()):
                if is_capability:
                    capped[at] = min(capped[at], ceil(share - _EDGE))
                else:
                    fits[at] = min(fits[at], int(share + _EDGE))
        of_job: dict[str, list[int]] = {}
        for at, ask in enumerate(self.asks):
            of_job.setdefault(ask.job.key, []).append(at)
            for limit in ask.job.limits:
                if isinstance(limit, BudgetLimit) and fits[at]:
                    fits[at] = min(fits[at], _fitting(limit, ask))
        for places in of_job.values():
            job = self.asks[places[0]].job
            starts = self.asks[places[0]].pod_class is None or job.is_ready
            starts = starts or job.ready_count + sum(fits[at] for at in places) >= job.min_member
            for at in places:
                ask, most = self.asks[at], min(fits[at], capped[at]) if starts else 0
                for row, amount in enumerate(ask.amounts):
                    lost[row] += amount * (ask.number - most) * ask.jobs
                ask.number = most
        return lost


def _fitting(limit: BudgetLimit, ask: _Ask) -> int:
    """For how many of what is asked for there is enough left in a budget, as far as that is known."""
    if ask.pod_class is not None:
        return limit.room(ask.pod_class, now=False)
    return 0 if limit.spending.up else UNLIMITED


def _unusable(
    session: Session,
    requests: Mapping[str, Amounts],
    later: Mapping[str, Amounts],
    returning: Sequence[tuple[JobState, PodClass]],
) -> dict[str, Amounts]:
    """What queues' jobs cannot have of what they ask for: a limit forbids it, or no room could start it.

    Without queues that may have all of it.
    """
    if not (session.snapshot.active or returning):
        return {}
    queue_asks = {name: _QueueAsks(session, session.queues[name]) for name in requests if session.queues[name].open}
    limited = {name for name in queue_asks if session.queues[name].limits}
    if session.limits_accounts or session.allowances:
        limited = set(queue_asks)
    unlimited = _Unlimited(session, requests, queue_asks.keys() - limited)
    stuck: set[str] = set()
    for record, keys in session.snapshot.by_shape() if limited or unlimited else ():
        if record.queue not in limited:
            if not record.pending or not unlimited.is_stuck(record, len(keys)):
                continue
            stuck.update(keys)
        alike: dict[tuple[Limit, ...], list[JobState]] = {}  # jobs of one shape may be for several users
        for key in keys if session.limits_accounts else [record.key]:
            job = session.job(key)
            if job is not None:
                alike.setdefault(job.account_limits, []).append(job)
        for jobs in alike.values():
            number = len(jobs) if session.limits_accounts else len(keys)
            queue_asks[record.queue].asks += _asks_of(jobs[0], number, later, session)
    for job, pod_class in returning:
        if job.queue.name in limited or job.key in stuck:
            one = _Ask(job, listed(pod_class.vector, session.registry), 1, pod_class=pod_class)
            queue_asks[job.queue.name].asks.append(one)
    amounts = {name: asks.unusable() for name, asks in queue_asks.items() if asks.asks}
    return {name: lost for name, lost in amounts.items() if any(lost)}


class _Unlimited:
    """Looks for jobs that no room could start in queues that have no limit; true where such jobs matter.

    They only do where queues ask for more than there is, and in a queue until the rest of its jobs can use all of that:
    it gets no more, whatever else it asks for.
    """

    def __init__(self, session: Session, requests: Mapping[str, Amounts], names: Iterable[str]) -> None:
        self._session = session
        whole = listed(session.sharable_total, session.registry)
        asked = map(sum, zip(*requests.values(), strict=True))
        self._rows = [row for row, amount in enumerate(asked) if amount > whole[row]]
        self._left: dict[str, Amounts] = {}
        for name in names if self._rows else ():
            held = listed(session.queues[name].record.allocated, session.registry)
            self._left[name] = [whole[row] - held[row] for row in self._rows]

    def __bool__(self) -> bool:
        return bool(self._left)

    def is_stuck(self, record: Job, number: int) -> bool:
        """Whether jobs ask for pods that no room could start, as far as that matters; ``number`` of them are alike."""
        left = self._left.get(record.queue)
        if left is None or all(amount <= 0 for amount in left):
            return False
        job = self._session.job(record.key)
        kinds = _kinds_of(job, self._session) if job is not None else []
        if any(kind.able < kind.number for kind in kinds):
            return True
        for kind in kinds:
            vector = listed(kind.pod_class.vector, self._session.registry)
            for at, row in enumerate(self._rows):
                left[at] -= vector[row] * kind.number * number
        return False


def _asks_of(job: JobState, number: int, later: Mapping[str, Amounts], session: Session) -> list[_Ask]:
    """What jobs like this one ask for that is in the claim of their queue."""
    registry, to_come = session.registry, later.get(job.key)
    if to_come is not None:
        amounts = [mine + more for mine, more in zip(_waiting(job, session), to_come, strict=True)] if to_come else []
        return [_Ask(job, amounts, 1, number, to_come=to_come)] if amounts else []
    if job.record.held:
        return []
    return [
        _Ask(job, listed(one.pod_class.vector, registry), one.number, number, pod_class=one.pod_class, able=one.able)
        for one in _kinds_of(job, session)
    ]


class _Kind(NamedTuple):
    """Equal waiting pods of a job; ``able``: how many of them could start, if there were room."""

    pod_class: PodClass
    number: int
    able: int


def _kinds_of(job: JobState, session: Session) -> list[_Kind]:
    kinds: Sequence[tuple[PodClass, bool, int]] | None = job.record.derived.get(_BY_CLASS)
    if kinds is None:
        counts = Counter((task.pod_class, task.gated) for task in job.record.pending.values())
        kinds = job.record.derived[_BY_CLASS] = [(*kind, number) for kind, number in counts.items()]
    places = session.places
    return [
        _Kind(pod_class, number, 0 if gated else number if places is None else places(job, pod_class, number))
        for pod_class, gated, number in kinds
    ]
