"""overcommit, user-limits and resourcequota: how much is let in, of what the cluster, users and quotas allow."""

from __future__ import annotations

from collections import ChainMap, Counter, defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from unisono.api.annotations import USER_LIMITS
from unisono.api.messages import plural
from unisono.api.queues import JOBS, limits_of
from unisono.api.resources import readable, to_wire
from unisono.cluster.limits import Quota
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Job
from unisono.cluster.resources import UNLISTED, ResourceRegistry
from unisono.cluster.status import ALLOCATED_STATES, COMPLETED_STATES, TaskStatus
from unisono.engine.answers import Refusal, Vote
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.common.annotations import account_of, who
from unisono.engine.session.book import View
from unisono.engine.session.limit import UNLIMITED, Allowance, Amounts, Excess, Limit, aligned, exceeded, listed
from unisono.engine.session.queue_limits import count_others
from unisono.engine.verdict import Cause

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState, QueueState
    from unisono.engine.session.session import Session

# overcommit: PodGroups are admitted until a multiple of the free cluster is promised.

_FACTOR = Argument("overcommit-factor", "float", 1.2, "cluster size that may be promised, as a multiple; at least 1")


class OvercommitPlugin(Plugin):
    """Admits while promised and new minResources fit into ``factor * total - used`` of the usable nodes."""

    name = "overcommit"
    by_shape = True
    known_arguments = (_FACTOR,)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        factor = float(argument_value(_FACTOR, self.arguments))
        # as a fraction, so that 1.2 times 30 cores is 36 cores and not a hair less
        self.factor = _exactly(str(factor if factor >= 1 else _FACTOR.default))

    def open(self, session: Session) -> None:
        """Sum up what is free: of a multiple of the cluster, and just now."""
        self.registry, self.book = session.registry, session.book
        sums, factor = session.snapshot.nodes.sums(), self.factor
        amounts = list(zip(sums.usable.tolist(), sums.used.tolist(), strict=True))
        self.idle: Amounts = [whole * factor.numerator // factor.denominator - taken for whole, taken in amounts]
        self.free: Amounts = [whole - taken for whole, taken in amounts]

    @property
    def _limit(self) -> Amounts:
        return self.free if self.book.view is View.NOW else self.idle

    def enqueueable(self, job: JobState) -> Vote | Refusal:
        """Permit while the promise can be kept, in the resources that the job names."""
        if job.asks is None:
            return Vote.PERMIT
        promised, limit = self.book.promised_everywhere(), self._limit
        request = listed(job.asks, self.registry)
        short = exceeded(self.book.evictable.without(promised), request, limit)
        if not short:
            return Vote.PERMIT
        excess = Excess(self.registry, short, request, promised, limit)
        message = f"resource in cluster is overused: {excess.names('overused')}"
        return excess.refusal(message, Cause.CLUSTER_OVERCOMMITTED, event=True)

    def admissible(self, job: JobState) -> int:
        """As often as minResources fit into what is not promised yet."""
        if job.asks is None:
            return UNLIMITED
        request, promised = listed(job.asks, self.registry), self.book.promised_everywhere()
        amounts = zip(request, promised, self._limit, strict=True)
        room = [(whole - taken) // amount for amount, taken, whole in amounts if amount > 0]
        return max(min(room, default=UNLIMITED), 0)


@lru_cache(maxsize=16)
def _exactly(text: str) -> Fraction:
    return Fraction(text)


# user-limits: how much one user may hold in a queue, in jobs, pods and resources, as the Queue's annotation says.

_AUTO = Argument("user-limits.AutoEnable", "bool", False, "nothing where no Queue has the annotation")
_Line = tuple[str, str]


class UserLimitsPlugin(Plugin):
    """Lets no user go beyond the limits that the annotation ``unisono.io/user-limits`` of a Queue sets.

    ``jobs`` counts jobs that were admitted and have not ended, everything else what their pods hold.
    """

    name = "user-limits"
    insists = True
    known_arguments = (_AUTO,)

    @classmethod
    def used(cls, session: Session) -> bool:
        """Where a queue has limits."""
        stated = (queue.record.annotations.get(USER_LIMITS) for queue in session.queues.values())
        return any(stated)

    def open(self, session: Session) -> None:
        """Sum up what users hold in the queues with limits."""
        self.session = session
        self.limits: dict[str, dict[str, int]] = {}
        self.wrong: dict[str, str] = {}
        for name, queue in session.queues.items():
            text = queue.record.annotations.get(USER_LIMITS)
            if not text:
                continue
            try:
                self.limits[name] = limits_of(text)
            except ValueError as error:  # where no admission looks at it; nothing unchecked passes
                self.limits[name], self.wrong[name] = {}, str(error)
        self.jobs: dict[_Line, int] = defaultdict(int)
        self.lines: dict[_Line, UserLimit] = {}
        self._allowances: dict[_Line, Allowance] = {}
        if not self.limits:
            return
        session.limits_accounts = True
        self.promised = session.book.grouped(lambda record: self._line(record) if record.queue in self.limits else None)
        for job in session.jobs:
            if job.queue.name in self.limits:
                self.jobs[self._line(job.record)] += self._counts(job)
                limit = self._limit(job.record)
                limit.held += aligned(job.claimed, session.registry)
                job.account_limits += (limit,)
        count_others(session.snapshot, self._known)
        session.allowances.append(self._allowed)

    def _allowed(self, job: JobState) -> tuple[Allowance, ...]:
        most = self.limits.get(job.queue.name, {}).get(JOBS)
        if most is None:
            return ()
        line = self._line(job.record)
        allowance = self._allowances.get(line)
        if allowance is None:
            allowance = self._allowances[line] = Allowance({}, max(most - self.jobs[line], 0))
        return (allowance,)

    @staticmethod
    def _line(record: Job) -> _Line:
        return record.queue, account_of(record)

    def _limit(self, record: Job) -> UserLimit:
        line, registry = self._line(record), self.session.registry
        limit = self.lines.get(line)
        if limit is None:
            rows = {registry.find(name): most for name, most in self.limits[record.queue].items() if name != JOBS}
            most = {row: amount for row, amount in rows.items() if row is not None}
            limit = self.lines[line] = UserLimit(line, most, registry)
        return limit

    def _known(self, record: Job) -> tuple[UserLimit, ...]:
        limit = self.lines.get(self._line(record))
        return () if limit is None else (limit,)

    @staticmethod
    def _counts(job: JobState) -> bool:
        return job.phase in ("Inqueue", "Running") and not job.record.gone

    def enqueueable(self, job: JobState) -> Vote | Refusal:
        """Refuse the next job of a user who has as many as the queue allows, or whose gang would go beyond a limit."""
        limits = self.limits.get(job.queue.name)
        if limits is None:
            return Vote.ABSTAIN
        if job.queue.name in self.wrong:
            text = f"annotation {USER_LIMITS} of queue {job.queue.name}: {self.wrong[job.queue.name]}"
            return Refusal(text, Cause.QUEUE_INVALID, event=True)
        line, limit, registry = self._line(job.record), self._limit(job.record), self.session.registry
        over: list[Refusal] = []
        requested = [] if job.min_resources is None else listed(job.min_resources, registry)
        promised, own = self.promised.get(line), job.record.promised
        if promised is not None and own is not None:
            promised = promised - aligned(own, registry)  # what is kept for the job is no other's
        for row, most in limit.most.items() if requested else ():
            have = int(limit.held[row]) + (0 if promised is None else int(promised[row]))
            if self.session.book.view is View.NOW:
                have += int(limit.leaving[row])
            if requested[row] and have + requested[row] > most:
                over.append(_refusal(line, registry.names[row], requested[row], have, most))
        if JOBS in limits and self.jobs[line] >= limits[JOBS]:
            over.insert(0, _refusal(line, JOBS, 1, self.jobs[line], limits[JOBS]))
        return _all_of(over) if over else Vote.ABSTAIN

    def enqueued(self, job: JobState) -> None:
        """One job more."""
        if job.queue.name in self.limits:
            self.jobs[self._line(job.record)] += 1

    def allocatable(self, queue: QueueState, pod_class: PodClass) -> Refusal | None:
        """Refuse the next pod of the user whose job is served where it would go beyond a limit."""
        job = self.session.subject
        for limit in job.account_limits if job is not None and queue.name in self.limits else ():
            if limit.room(pod_class, now=False) < 1:
                return limit.refusal(pod_class, now=False)
        return None


class UserLimit(Limit):
    """What a user may hold in a queue."""

    __slots__ = ("_line",)

    def __init__(self, line: _Line, most: Mapping[int, int], registry: ResourceRegistry) -> None:
        super().__init__(line[0], most, registry)
        self.family = []
        self._line = line

    def refusal(self, pod_class: PodClass, *, now: bool) -> Refusal:
        """See the class; the limits that bind."""
        held = self.held + self.leaving if now else self.held
        over: list[Refusal] = []
        for row, need in zip(pod_class.rows.tolist(), pod_class.amounts.tolist(), strict=True):
            if row in self.most and need and int(held[row]) + need > self.most[row]:
                over.append(_refusal(self._line, self.registry.names[row], need, int(held[row]), self.most[row]))
        return _all_of(over)


def _refusal(line: _Line, name: str, need: int, have: int, limit: int) -> Refusal:
    queue, account = line
    what = plural(limit, "job") if name == JOBS else name
    text = f"{who(account)} may have {_shown(limit, name)} {what} in queue {queue} and has {_shown(have, name)}"
    if name == JOBS:  # which are no resource
        return Refusal(text, Cause.OVER_CAPABILITY, event=True, user=True)
    return Refusal(text, Cause.OVER_CAPABILITY, {name: need}, {name: have}, {name: limit}, event=True, user=True)


def _all_of(refusals: Sequence[Refusal]) -> Refusal:
    """One refusal that says every limit."""
    need, have, limit = (dict(ChainMap(*map(dict, each))) for each in zip(*map(_amounts, refusals), strict=True))
    text = f"{'; '.join(one.message for one in refusals)} (annotation {USER_LIMITS} of the queue)"
    return Refusal(text, refusals[0].cause, need, have, limit, event=True, user=True)


def _amounts(refusal: Refusal) -> tuple[Mapping[str, int], Mapping[str, int], Mapping[str, int]]:
    return refusal.need, refusal.have, refusal.limit


def _shown(amount: int, name: str) -> str:
    return str(amount) if name == JOBS else readable({name: amount})[name]


# resourcequota: admits jobs as far as ResourceQuotas let them.


# resourcequota: a PodGroup is admitted only when its pods fit into the ResourceQuotas of its namespace. No arguments.
#
# Without it a gang would be admitted and then stay half made, because the API server refuses the pods that are too
# many.

# ResourceQuotas as far as PodGroups tell: which count a job's pods, what it asks of them, and what is taken.

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


class ResourceQuotaPlugin(Plugin):
    """Keeps promises of admission within the quotas of namespaces."""

    name = "resourcequota"
    known_arguments: tuple[Argument, ...] = ()

    def open(self, session: Session) -> None:
        """Ask the book for what admitted jobs are promised and have no pods for yet."""
        self.session = session
        self.quotas = session.snapshot.quotas
        self._used: dict[str, Counter[str]] | None = None
        self._promised: Mapping[str, Counter[str]] = {}
        if self.quotas:
            self._promised = session.book.counted(self._namespace, self._missing)
            self._allowances: dict[tuple[str, str], Allowance] = {}
            session.allowances.append(self._allowed)

    def _allowed(self, job: JobState) -> list[Allowance]:
        """What quotas leave of each resource, promises not counted: those that have them ask for it, too."""
        allowances: list[Allowance] = []
        for name, quota in self.quotas.get(job.namespace, {}).items():
            if not concerns(quota, job.record):
                continue
            key = job.namespace, name
            if key not in self._allowances:
                used, left = self._taken(quota), dict[int, int]()
                for each, most in quota.hard.items():
                    row = self.session.registry.find(plain(each))
                    if row is not None:
                        amount = (most - amount_of(used, each)) // (1000 if each == "count/pods" else 1)
                        left[row] = min(amount, left.get(row, amount))
                self._allowances[key] = Allowance(left, None if quota.readable else 0)
            allowances.append(self._allowances[key])
        return allowances

    def _taken(self, quota: Quota) -> Mapping[str, int]:
        """What the quota's controller has counted, or what the pods of its namespace hold where there is none."""
        if quota.used is not None:
            return quota.used
        self._used = counted(self.session) if self._used is None else self._used
        return self._used[quota.namespace]

    # ---- admission

    def enqueueable(self, job: JobState) -> Vote | Refusal:
        """Permit while used, promised and new amounts stay within every quota that counts the job's pods."""
        for _, quota in sorted(self.quotas.get(job.namespace, {}).items()):
            if concerns(quota, job.record):
                refusal = self._over(quota, job)
                if refusal is not None:
                    return refusal
        return Vote.PERMIT

    def _over(self, quota: Quota, job: JobState) -> Refusal | None:
        if not quota.readable:
            return Refusal(
                f"resource quota {quota.name} cannot be read, so nothing is admitted to namespace {quota.namespace}: "
                "correct its amounts, or delete it",
                Cause.QUOTA,
                event=True,
                owner=quota.name,
            )
        used = self._taken(quota)
        promised = self._promised.get(job.namespace, Counter())
        kept = self.session.book.kept_in(job.namespace, job.record)
        there = present(job.record, self.session.registry)
        requested = {name: max(asked(job.record, name) - amount_of(there, name), 0) for name in quota.hard}
        taken = {name: amount_of(used, name) + promised[plain(name)] + amount_of(kept, name) for name in quota.hard}
        over = [name for name, limit in quota.hard.items() if requested[name] and taken[name] + requested[name] > limit]
        if not over:
            return None
        need, have = {name: requested[name] for name in over}, {name: taken[name] for name in over}
        limits = {name: quota.hard[name] for name in over}
        return Refusal(
            f"resource quota insufficient, requested: {_text(need)}, used: {_text(have)}, limited: {_text(limits)} "
            f"(quota {quota.name})",
            Cause.QUOTA,
            need=need,
            have=have,
            limit=limits,
            event=True,
            owner=quota.name,
        )

    # ---- what the book is told

    def _namespace(self, job: Job) -> str | None:
        return job.namespace if job.namespace in self.quotas else None

    def _missing(self, job: Job) -> Mapping[str, int]:
        """What the pods that do not exist yet will ask for, by plain name."""
        there = present(job, self.session.registry)
        names = {*(plain(key) for key in job.min_quoted or ()), "pods"}
        return {name: max(asked(job, name) - amount_of(there, name), 0) for name in names}


def _text(amounts: Mapping[str, int]) -> str:
    return "{" + ", ".join(f"{name}: {amount}" for name, amount in sorted(to_wire(amounts).items())) + "}"
