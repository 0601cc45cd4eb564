"""Whether ResourceQuotas are why a gang has too few pods: the API server then refuses the ones that are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from unisono.api.resources import amounts_text
from unisono.cluster.limits import Quota
from unisono.cluster.status import COMPLETED_STATES
from unisono.engine.changes import RaiseQuota
from unisono.engine.plugins.admission_limits import amount_of, asked, concerns, counted, plain, present
from unisono.engine.session.job_state import JobState
from unisono.engine.session.session import Session
from unisono.engine.verdict import Holder
from unisono.engine.verdicts.holders import holder_of

_MOST_HOLDERS = 3


@dataclass(frozen=True, slots=True)
class Shortage:
    """A quota that has no room for the pods that a gang still needs.

    Attributes:
        quota: its name.
        need: what the missing pods ask for, of what is short.
        used, hard: as the quota's status and spec say.
        whole: what all pods of the gang ask for, of the same.
        others: what pods ask for that other jobs lack: their controllers try again at the same moment.
    """

    quota: str
    need: Mapping[str, int]
    used: Mapping[str, int]
    hard: Mapping[str, int]
    whole: Mapping[str, int]
    others: Mapping[str, int]

    @property
    def left(self) -> dict[str, int]:
        """What may still be used."""
        return {name: max(self.hard[name] - self.used[name], 0) for name in self.need}

    @property
    def change(self) -> RaiseQuota:
        """What makes room, in whatever order pods are created."""
        requested = {name: amount + self.others[name] for name, amount in self.need.items()}
        return RaiseQuota(self.quota, {name: requested[name] - self.hard[name] + self.used[name] for name in requested})

    def text(self) -> str:
        """For people."""
        asked_for, used, hard = amounts_text(self.need), amounts_text(self.used), amounts_text(self.hard)
        gang = f" of the gang's {amounts_text(self.whole)}" if self.whole != self.need else ""
        return (
            f"resource quota {self.quota} has no room for those that are missing "
            f"(asked for: {asked_for}{gang}; used: {used}; hard: {hard})"
        )


class QuotaRoom:
    """Answers for the jobs of one cycle."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._lacking: dict[tuple[str, str], Counter[str]] = {}

    @cached_property
    def _counted(self) -> dict[str, Counter[str]]:
        return counted(self.session)

    def shortages(self, job: JobState, missing: int) -> list[Shortage]:
        """Quotas of the job's namespace, by name, that leave no room for ``missing`` more pods of the job.

        What a missing pod asks for is the rest of minResources, where they tell, or what the job's other pods ask for.
        """
        quotas = self.session.snapshot.quotas.get(job.namespace, {}) if missing > 0 else {}
        counting = (quotas[name] for name in sorted(quotas) if concerns(quotas[name], job.record))
        return [found for quota in counting if (found := self._shortage(job, missing, quota)) is not None]

    def _shortage(self, job: JobState, missing: int, quota: Quota) -> Shortage | None:
        taken = quota.used if quota.used is not None else self._counted[job.namespace]
        need = {name: self._wanted(job, missing, name) for name in quota.hard}
        used = {name: amount_of(taken, name) for name in quota.hard}
        short = [name for name, hard in quota.hard.items() if need[name] > 0 and used[name] + need[name] > hard]
        if not short:
            return None
        others = Counter(self._lacked(job.namespace, quota))
        others.subtract(need)
        need, used, hard = ({name: amounts[name] for name in short} for amounts in (need, used, quota.hard))
        held = present(job.record, self.session.registry)
        whole = {name: need[name] + amount_of(held, name) for name in short}
        return Shortage(quota.name, need, used, hard, whole, {name: max(others[name], 0) for name in short})

    def holders(self, job: JobState, names: Iterable[str]) -> tuple[Holder, ...]:
        """Other jobs of the namespace that take most of the first of these entries of a quota, the largest first."""
        name = next(iter(names), "")
        rows: list[tuple[int, str, Holder]] = []
        countable = not name.startswith(("limits.", "count/"))
        for key in self._holding.get(job.namespace, ()) if name and countable else ():
            other = self.session.job(key) if key != job.key else None
            if other is None:
                continue
            held = amount_of({**present(other.record, self.session.registry), "pods": other.valid_count}, name)
            if held > 0:
                holder = holder_of(other.record)
                rows.append((-held, key, Holder(holder.kind, holder.name, {name: held})))
        return tuple(holder for _, _, holder in sorted(rows, key=lambda one: one[:2])[:_MOST_HOLDERS])

    @cached_property
    def _holding(self) -> dict[str, list[str]]:
        """Keys of jobs with pods by namespace, of namespaces with quotas."""
        by_namespace: dict[str, list[str]] = {namespace: [] for namespace in self.session.snapshot.quotas}
        for key, record in self.session.snapshot.jobs.items():
            if record.tasks and record.namespace in by_namespace:
                by_namespace[record.namespace].append(key)
        return by_namespace

    def _lacked(self, namespace: str, quota: Quota) -> Counter[str]:
        """What the pods ask for that all jobs of the namespace lack, and that may be created once there is room."""
        lacked = self._lacking.get((namespace, quota.name))
        if lacked is None:
            lacked = self._lacking[namespace, quota.name] = Counter()
            for job in self.session.active:
                missing = job.min_member - job.valid_count
                if (
                    job.namespace == namespace
                    and missing > 0
                    and job.phase != "Pending"
                    and concerns(quota, job.record)
                ):
                    lacked.update({name: self._wanted(job, missing, name) for name in quota.hard})
        return lacked

    def _wanted(self, job: JobState, missing: int, name: str) -> int:
        """What ``missing`` more pods ask of one entry of a quota; 0 where it cannot be known."""
        if plain(name) == "pods":
            return missing * (1000 if name == "count/pods" else 1)
        whole = asked(job.record, name)
        if whole and name.startswith("limits."):
            return whole * missing // max(job.min_member, 1)
        if whole:
            return max(whole - amount_of(present(job.record, self.session.registry), name), 0)
        like = next((task for task in job.record.tasks.values() if task.status not in COMPLETED_STATES), None)
        return amount_of(like.pod_class.requests, name) * missing if like is not None else 0
