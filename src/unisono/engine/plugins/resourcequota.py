"""resourcequota: admits jobs as far as ResourceQuotas let them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from unisono.api.resources import to_wire
from unisono.cluster.limits import Quota
from unisono.cluster.resources import UNLISTED, ResourceRegistry
from unisono.cluster.status import ALLOCATED_STATES, COMPLETED_STATES, TaskStatus
from unisono.engine.answers import Refusal, Vote
from unisono.engine.config.arguments import Argument
from unisono.engine.contract.plugin import Plugin
from unisono.engine.verdict import Cause

if TYPE_CHECKING:
    from unisono.cluster.records import Job
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session


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
        used = quota.used
        if used is None:
            self._used = counted(self.session) if self._used is None else self._used
            used = self._used[job.namespace]
        promised = self._promised.get(job.namespace, Counter())
        kept = self.session.book.kept_in(job.namespace, job.record)
        there = present(job.record, self.session.registry)
        wanted = {name: max(asked(job.record, name) - amount_of(there, name), 0) for name in quota.hard}
        taken = {name: amount_of(used, name) + promised[plain(name)] + amount_of(kept, name) for name in quota.hard}
        over = [name for name, limit in quota.hard.items() if wanted[name] and taken[name] + wanted[name] > limit]
        if not over:
            return None
        need, have = {name: wanted[name] for name in over}, {name: taken[name] for name in over}
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
