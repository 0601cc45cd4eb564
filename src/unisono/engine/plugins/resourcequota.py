"""resourcequota: a PodGroup is admitted only when its pods fit into the ResourceQuotas of its namespace. No arguments.

Without it a gang would be admitted and then stay half made, because the API server refuses the pods that are too many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from unisono.api.resources import to_wire
from unisono.cluster.limits import Quota
from unisono.cluster.status import COMPLETED_STATES
from unisono.engine.answers import Refusal, Vote
from unisono.engine.config_arguments import Argument
from unisono.engine.plugin import Plugin
from unisono.engine.verdict import Cause

if TYPE_CHECKING:
    from unisono.engine.session import JobState, Session

_COUNTS = ("pods", "count/pods")
_PREFIX = "requests."


class ResourceQuotaPlugin(Plugin):
    """Keeps promises of admission within the quotas of namespaces."""

    name = "resourcequota"
    known_arguments: tuple[Argument, ...] = ()

    def open(self, session: Session) -> None:
        """Take together what jobs admitted earlier have been promised and have no pods for yet."""
        self.session = session
        self.quotas = session.snapshot.quotas
        self._promised: dict[str, Counter[str]] = {}
        self._used: dict[str, Counter[str]] = {}
        for job in session.active if self.quotas else ():
            if job.phase == "Inqueue" and job.namespace in self.quotas:
                self._promise(job, self._present(job))

    # ---- admission

    def enqueueable(self, job: JobState) -> Vote | Refusal:
        """Permit while used, promised and new amounts stay within every quota that counts the job's pods."""
        for _, quota in sorted(self.quotas.get(job.namespace, {}).items()):
            if _counts(quota, job):
                refusal = self._over(quota, job)
                if refusal is not None:
                    return refusal
        return Vote.PERMIT

    def enqueued(self, job: JobState) -> None:
        """The job's minResources are promised now."""
        if job.namespace in self.quotas:
            self._promise(job, self._present(job))

    def _over(self, quota: Quota, job: JobState) -> Refusal | None:
        used = quota.used if quota.used is not None else self._counted(job.namespace)
        promised = self._promised.get(job.namespace, Counter())
        present = self._present(job)
        asked = {name: max(_asked(job, name) - _of(present, name), 0) for name in quota.hard}
        taken = {name: _of(used, name) + promised[_plain(name)] for name in quota.hard}
        over = [name for name, limit in quota.hard.items() if asked[name] and taken[name] + asked[name] > limit]
        if not over:
            return None
        need, have = {name: asked[name] for name in over}, {name: taken[name] for name in over}
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

    # ---- what is taken

    def _promise(self, job: JobState, present: Mapping[str, int]) -> None:
        promised = self._promised.setdefault(job.namespace, Counter())
        for name in {*(_plain(key) for key in job.record.min_quoted or ()), "pods"}:
            promised[name] += max(_asked(job, name) - _of(present, name), 0)

    def _present(self, job: JobState) -> Counter[str]:
        """What the pods of a job that exist already hold of its namespace's quotas."""
        registry = self.session.registry
        return Counter({registry.names[row]: int(amount) for row, amount in enumerate(job.record.request) if amount})

    def _counted(self, namespace: str) -> Counter[str]:
        """What the pods of a namespace hold, where no quota controller counts it; limits are not known then."""
        if not self._used:
            registry = self.session.registry
            for task in self.session.snapshot.tasks.values():
                if task.namespace in self.quotas and task.status not in COMPLETED_STATES:
                    used = self._used.setdefault(task.namespace, Counter())
                    for row, amount in zip(task.pod_class.rows.tolist(), task.pod_class.amounts.tolist(), strict=True):
                        used[registry.names[row]] += amount
            self._used.setdefault(namespace, Counter())
        return self._used.get(namespace, Counter())


def _counts(quota: Quota, job: JobState) -> bool:
    """Whether a quota's scopes take the job's pods in, as far as the PodGroup tells.

    Whether pods terminate by themselves is not known before they are made: such quotas are left to the API server.
    """
    for scope in quota.scopes:
        if scope == "PriorityClass":
            if quota.priority_classes is not None and job.record.priority_class not in quota.priority_classes:
                return False
        elif scope != "NotBestEffort":
            return False
    return True


def _plain(name: str) -> str:
    """``requests.cpu`` and ``cpu`` mean the same, ``count/pods`` and ``pods`` too."""
    return "pods" if name in _COUNTS else name.removeprefix(_PREFIX)


def _of(amounts: Mapping[str, int], name: str) -> int:
    """An amount by either of its names, in the unit of ``name``."""
    plain = _plain(name)
    if plain == "pods":
        whole = amounts.get("pods")
        count = amounts.get("count/pods", 0) // 1000 if whole is None else whole
        return count * 1000 if name == "count/pods" else count
    return amounts.get(plain, amounts.get(_PREFIX + plain, 0))


def _asked(job: JobState, name: str) -> int:
    """What the gang asks for; its minimum of pods where minResources do not count them."""
    amounts = job.record.min_quoted or {}
    if _plain(name) == "pods" and not any(count in amounts for count in _COUNTS):
        return job.min_member * (1000 if name == "count/pods" else 1)
    return _of(amounts, name)


def _text(amounts: Mapping[str, int]) -> str:
    return "{" + ", ".join(f"{name}: {amount}" for name, amount in sorted(to_wire(amounts).items())) + "}"
